//! Brokers that cannot be reached, certificates and passwords: each wrong one has its own code, soon, and is never told more
//! than it must be.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use postroom_conformance::changed;
use postroom_conformance::transports::until;
use postroom_core::{Failure, FailureKind, Secret, Transport};
use postroom_kafka::{KafkaOptions, Mechanism, Sasl};
use postroom_testbed::brokers::{PASSWORD, USER};
use postroom_testbed::{Certificates, Identity, Impostor, Servers, free_port};
use postroom_tls::TlsFiles;

use crate::cluster::Cluster;
use crate::kafka::workshop::{LONG, event, failure, kafka, logged, options, post};

fn port(listener: &str) -> u16 {
    Servers::find().site("kafka").port_of(listener)
}

fn certificates() -> Certificates {
    Servers::find().certificates()
}

fn tls(ca_file: PathBuf, us: Option<Identity>) -> TlsFiles {
    let (cert_file, key_file) = us.map(|us| (us.cert, us.key)).unzip();
    TlsFiles { ca_file: Some(ca_file), cert_file, key_file }
}

fn sasl(mechanism: Mechanism, password: &str) -> Sasl {
    Sasl { mechanism, username: USER.to_owned(), password: Secret::new(password) }
}

/// What is said of a delivery there, which must be unavailable, long before the time-out.
async fn refused(options: KafkaOptions) -> Failure {
    let begun = Instant::now();
    let mut post = post(changed(options, |o| o.timeout = LONG));
    let failure = failure(&mut post, event("a", "k")).await;
    assert_eq!(failure.kind, FailureKind::Unavailable, "{failure:?}");
    assert!(begun.elapsed() < LONG / 2, "{:?}: {failure:?}", begun.elapsed());
    post.close().await;
    failure
}

#[tokio::test]
async fn every_right_way_in_delivers() {
    let cluster = Cluster::shared();
    let topic = cluster.topic(1, &[]).await;
    let (ca, client) = (certificates().ca(), certificates().client());
    for (listener, tls, sasl) in [
        ("tls", Some(tls(ca.clone(), None)), None),
        ("mtls", Some(tls(ca.clone(), Some(client))), None),
        ("sasl", None, Some(sasl(Mechanism::Plain, PASSWORD))),
        ("sasl", None, Some(sasl(Mechanism::ScramSha256, PASSWORD))),
        ("sasl_tls", Some(tls(ca.clone(), None)), Some(sasl(Mechanism::ScramSha512, PASSWORD))),
        ("sasl_tls", Some(tls(ca, None)), Some(sasl(Mechanism::Plain, PASSWORD))),
    ] {
        let way = format!("{listener} {sasl:?}");
        let mut post = post(changed(options(&format!("localhost:{}", port(listener)), &topic), |o| {
            o.tls = tls;
            o.sasl = sasl;
        }));
        post.deliver(&[event("a", "k")]).await;
        let (_, outcome) = post.outcome().await;
        assert!(outcome.is_ok(), "{way}: {outcome:?}");
        post.close().await;
    }
    assert!(logged(PASSWORD).is_empty(), "a password was logged");
}

#[tokio::test]
async fn nobody_there_is_found_out_soon() {
    let nobody = format!("127.0.0.1:{}", free_port().unwrap());
    for brokers in [nobody.as_str(), "no-such-host.invalid:9092"] {
        let failure = refused(options(brokers, "t")).await;
        assert_eq!(failure.code, "kafka.unreachable", "{failure:?}");
        let host = brokers.split(':').next().unwrap();
        assert!(failure.error.contains(host), "{}", failure.error);
    }
}

#[tokio::test]
async fn one_broker_of_several_is_enough() {
    let cluster = Cluster::shared();
    let topic = cluster.topic(1, &[]).await;
    let nobody = format!("127.0.0.1:{}", free_port().unwrap());
    let brokers = vec![nobody, "no-such-host.invalid:9092".to_owned(), cluster.brokers.clone()];
    let mut post = post(changed(options("", &topic), |o| o.brokers = brokers));
    post.deliver_until_ok(&[event("a", "k")]).await;
    post.close().await;
}

#[tokio::test]
async fn a_wrong_password_is_named_as_such_and_shown_nowhere() {
    let (wrong, ca) = ("canary-wrong-password", certificates().ca());
    for mechanism in [Mechanism::Plain, Mechanism::ScramSha256, Mechanism::ScramSha512] {
        let brokers = format!("localhost:{}", port("sasl_tls"));
        let failure = refused(changed(options(&brokers, "t"), |o| {
            o.tls = Some(tls(ca.clone(), None));
            o.sasl = Some(sasl(mechanism, wrong));
        }))
        .await;
        assert_eq!(failure.code, "kafka.login", "{failure:?}");
        assert!(!format!("{failure:?}").contains(wrong));
    }
    let settings = changed(options("localhost:1", "t"), |o| o.sasl = Some(sasl(Mechanism::Plain, wrong)));
    assert!(!format!("{:?}", kafka(settings)).contains(wrong));
    assert!(logged(wrong).is_empty(), "a password was logged: {:?}", logged(wrong));
    assert!(!logged("kafka.login").is_empty(), "the log of this test is not looked at");
}

#[tokio::test]
async fn a_broker_that_wants_a_login_is_told_from_one_that_is_not_there() {
    let brokers = format!("localhost:{}", port("sasl"));
    let failure = refused(options(&brokers, "t")).await;
    assert_eq!(failure.code, "kafka.unreachable", "{failure:?}");
    assert!(failure.error.ends_with("hangs up like this"), "{failure:?}");
}

#[tokio::test]
async fn a_certificate_that_is_not_right_is_refused() {
    let (ca, other, stranger) = (certificates().ca(), certificates().other_ca(), certificates().stranger());
    for (what, brokers, tls) in [
        ("another name", format!("127.0.0.1:{}", port("tls")), tls(ca.clone(), None)),
        ("another authority", format!("localhost:{}", port("tls")), tls(other, None)),
        ("a broker without TLS", Cluster::shared().brokers, tls(ca.clone(), None)),
        ("a stranger's certificate", format!("localhost:{}", port("mtls")), tls(ca.clone(), Some(stranger))),
        ("no certificate of ours", format!("localhost:{}", port("mtls")), tls(ca, None)),
        ("a file that is not there", "localhost:1".to_owned(), tls("/no/such/ca.pem".into(), None)),
    ] {
        let failure = refused(changed(options(&brokers, "t"), |o| o.tls = Some(tls))).await;
        assert_eq!(failure.code, "kafka.tls", "{what}: {failure:?}");
    }
}

#[tokio::test]
async fn whoever_shows_a_wrong_certificate_is_told_nothing() {
    let ours = certificates();
    for (what, shows, host, trusted) in [
        ("expired", ours.expired(), "localhost", ours.ca()),
        ("another name", ours.server(), "127.0.0.1", ours.ca()),
        ("another authority", ours.server(), "localhost", ours.other_ca()),
    ] {
        let impostor = Impostor::start(&shows).await.unwrap();
        let brokers = format!("{host}:{}", impostor.port());
        let (tls, sasl) = (Some(tls(trusted, None)), Some(sasl(Mechanism::Plain, PASSWORD)));
        let failure = refused(changed(options(&brokers, "t"), |o| {
            o.tls = tls;
            o.sasl = sasl;
        }))
        .await;
        assert_eq!(failure.code, "kafka.tls", "{what}: {failure:?}");
        until("it to hang up", async || impostor.refused() > 0).await;
        assert_eq!(impostor.told(), 0, "{what}: it was told something");
    }
}

#[tokio::test]
async fn a_close_does_not_wait_for_a_broker_that_says_nothing() {
    // Accepts and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let transport = kafka(options(&silent.local_addr().unwrap().to_string(), "t"));
    let mut post = postroom_conformance::transports::Post::new(transport.clone());
    post.deliver(&[event("a", "k"), event("b", "k")]).await;
    let begun = Instant::now();
    transport.close().await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    for (id, outcome) in post.outcomes().await {
        let failure = outcome.unwrap_err();
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "kafka.closed"), "{id}");
    }
}
