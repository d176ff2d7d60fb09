//! Who may come in, and whom we trust.

use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use postroom_conformance::changed;
use postroom_conformance::transports::until;
use postroom_core::{Failure, FailureKind};
use postroom_rabbitmq::RabbitMqOptions;
use postroom_testbed::brokers::{LIMITED_USER, PASSWORD, RabbitMq as Broker, USER};
use postroom_testbed::{CLIENT_NAME, Identity, Impostor, Servers};
use postroom_tls::TlsFiles;

use crate::rabbitmq::place::{Place, event, failure, options, post, url};

async fn refused(options: RabbitMqOptions) -> Failure {
    let mut post = post(options);
    let failure = failure(&mut post, event("a")).await;
    post.close().await;
    assert_eq!(failure.kind, FailureKind::Unavailable, "{failure:?}");
    assert!(!failure.error.contains(PASSWORD), "{}", failure.error);
    failure
}

#[tokio::test]
async fn each_way_of_not_getting_in_has_a_code_of_its_own() {
    let port = Servers::find().port("rabbitmq");
    let at = |login: &str, vhost: &str| format!("amqp://{login}@127.0.0.1:{port}/{vhost}");
    let right = format!("{USER}:{PASSWORD}");
    for (url, code, said) in [
        (at("relay:wrong-canary", "%2f"), "rabbitmq.login", "refuses the login of relay"),
        (at("nobody:canary", "%2f"), "rabbitmq.login", "refuses the login of nobody"),
        (at(&right, "no-such-vhost"), "rabbitmq.vhost", "\"no-such-vhost\""),
        ("amqp://127.0.0.1:1".to_owned(), "rabbitmq.unreachable", "127.0.0.1:1 cannot be reached"),
        ("amqp://no-such-host.invalid".to_owned(), "rabbitmq.unreachable", "no-such-host.invalid:5672"),
        (format!("amqp://127.0.0.1:{}", Servers::find().port("nats")), "rabbitmq.protocol", "does not speak AMQP"),
        ("http://127.0.0.1".to_owned(), "rabbitmq.options", "amqp:// or amqps://"),
    ] {
        let failure = refused(options(&url, "")).await;
        assert_eq!(failure.code, code, "{}", failure.error);
        assert!(failure.error.contains(said) && !failure.error.contains("canary"), "{}", failure.error);
    }
}

#[tokio::test]
async fn a_user_without_the_right_to_write_is_told_so_and_nothing_dies() {
    let place = Place::shared().await;
    let url = format!("amqp://{LIMITED_USER}:{PASSWORD}@127.0.0.1:{}/%2f", place.port);
    let failure = refused(options(&url, &place.name)).await;
    assert_eq!(failure.code, "rabbitmq.denied");
    assert!(failure.error.contains(&place.name) && failure.error.contains("grant"), "{}", failure.error);
}

fn private(place: &Place, login: &str, tls: TlsFiles, host: &str, port: u16) -> RabbitMqOptions {
    changed(options(&format!("amqps://{login}@{host}:{port}/%2f"), &place.name), |o| o.tls = tls)
}

fn trusted() -> TlsFiles {
    TlsFiles { ca_file: Some(Servers::find().certificates().ca()), ..TlsFiles::default() }
}

fn showing(identity: Identity) -> TlsFiles {
    TlsFiles { cert_file: Some(identity.cert), key_file: Some(identity.key), ..trusted() }
}

#[tokio::test]
async fn in_private_events_arrive_with_a_password_or_with_a_certificate() {
    let place = Place::shared().await;
    let tls_port = Servers::find().site("rabbitmq").port_of("tls");
    let by_password = private(&place, &format!("{USER}:{PASSWORD}"), trusted(), "localhost", tls_port);
    let mut by_certificate = by_password.clone();
    by_certificate.tls = showing(Servers::find().certificates().client());
    let url = format!("amqps://localhost:{tls_port}/%2f?auth_mechanism=external");
    by_certificate.url = postroom_core::SecretUrl::new(url);
    for (n, options) in [by_password, by_certificate].into_iter().enumerate() {
        let mut post = post(options);
        let events: Vec<_> =
            (0..500).map(|e| event(format!("{n}-{e}")).bytes("text/plain", "x".repeat(3000))).collect();
        post.deliver(&events).await;
        let outcomes = post.outcomes().await;
        assert!(outcomes.values().all(Result::is_ok), "{outcomes:?}");
        post.close().await;
    }
    assert_eq!(place.arrived().await.len(), 1000);
}

#[tokio::test]
async fn who_cannot_show_the_right_certificate_does_not_get_in_by_it() {
    let place = Place::shared().await;
    let servers = Servers::find();
    let tls_port = servers.site("rabbitmq").port_of("tls");
    let external = |tls: TlsFiles| {
        let url = format!("amqps://localhost:{tls_port}/%2f?auth_mechanism=external");
        changed(options(&url, &place.name), |o| o.tls = tls)
    };
    let nothing = refused(external(trusted())).await;
    assert_eq!(nothing.code, "rabbitmq.login", "{}", nothing.error);
    let stranger = refused(external(showing(servers.certificates().stranger()))).await;
    assert!(["rabbitmq.tls", "rabbitmq.lost"].contains(&&*stranger.code), "{stranger:?}");
    assert_eq!(CLIENT_NAME, "relay-client", "the stranger's certificate has the same name, by another authority");
}

#[tokio::test]
async fn a_broker_that_cannot_show_the_right_certificate_is_told_nothing() {
    let place = Place::shared().await;
    let servers = Servers::find();
    let (certificates, login) = (servers.certificates(), format!("{USER}:{PASSWORD}"));
    let tls_port = servers.site("rabbitmq").port_of("tls");
    let other = TlsFiles { ca_file: Some(certificates.other_ca()), ..TlsFiles::default() };
    let expired = Impostor::start(&certificates.expired()).await.unwrap();
    let stranger = Impostor::start(&certificates.stranger()).await.unwrap();
    for (what, options) in [
        ("another name", private(&place, &login, trusted(), "127.0.0.1", tls_port)),
        ("another authority", private(&place, &login, other, "localhost", tls_port)),
        ("the machine's list", private(&place, &login, TlsFiles::default(), "localhost", tls_port)),
        ("expired", private(&place, &login, trusted(), "localhost", expired.port())),
        ("a stranger", private(&place, &login, trusted(), "localhost", stranger.port())),
        ("no TLS at all", private(&place, &login, trusted(), "localhost", place.port)),
    ] {
        let failure = refused(options).await;
        assert_eq!(failure.code, "rabbitmq.tls", "{what}: {}", failure.error);
    }
    until("both impostors to be refused", async || expired.refused() + stranger.refused() == 2).await;
    assert_eq!(expired.told() + stranger.told(), 0, "a broker of doubtful name was told something");
    assert_eq!(place.arrived().await, []);
}

#[tokio::test]
async fn a_certificate_file_that_is_missing_is_named() {
    let place = Place::shared().await;
    let tls = TlsFiles { ca_file: Some("/no/such/ca.pem".into()), ..TlsFiles::default() };
    let failure = refused(private(&place, "guest:guest", tls, "localhost", 1)).await;
    assert!(failure.code == "rabbitmq.tls" && failure.error.contains("/no/such/ca.pem"), "{failure:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_host_of_its_own_has_its_own_exchanges() {
    let servers = Servers::find();
    let (site, vhost) = (servers.site("rabbitmq"), postroom_testbed::unique_name("vhost"));
    Broker::control(site, &["add_vhost", &vhost]).unwrap();
    Broker::control(site, &["set_permissions", "-p", &vhost, USER, ".*", ".*", ".*"]).unwrap();
    let denied = format!("amqp://{LIMITED_USER}:{PASSWORD}@127.0.0.1:{}/{vhost}", site.port);
    assert_eq!(refused(options(&denied, "")).await.code, "rabbitmq.vhost");
    let here = url(site.port).replace("%2f", &vhost);
    assert_eq!(refused(options(&here, "parcels")).await.code, "rabbitmq.no_exchange");
    let connection = lapin::Connection::connect(&here, lapin::ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.queue_declare("parcel.sent".into(), QueueDeclareOptions::default(), FieldTable::default()).await.unwrap();
    let mut post = post(options(&here, ""));
    post.deliver_until_ok(&[event("here")]).await;
    post.close().await;
    Broker::control(site, &["delete_vhost", &vhost]).unwrap();
}
