//! Talking in private: only with whom we meant to.

use std::path::PathBuf;

use postroom_conformance::changed;
use postroom_conformance::transports::until;
use postroom_core::{FailureKind, SecretUrl};
use postroom_redis::RedisOptions;
use postroom_testbed::brokers::{PASSWORD, RedisWith, USER};
use postroom_testbed::{Identity, Impostor, OwnServer, Servers};
use postroom_tls::TlsFiles;

use crate::streams::{LONG, SHORT, Stream, event, failure, post};

fn trusting(ca: PathBuf) -> TlsFiles {
    TlsFiles { ca_file: Some(ca), ..TlsFiles::default() }
}

fn url(host: &str, port: u16) -> SecretUrl {
    SecretUrl::new(format!("rediss://{USER}:{PASSWORD}@{host}:{port}"))
}

async fn refused(options: RedisOptions, code: &str) {
    let failed = failure(&mut post(options), "e-1").await;
    assert_eq!((failed.kind, &*failed.code), (FailureKind::Unavailable, code), "{failed:?}");
    assert!(!failed.error.contains("canary"), "{}", failed.error);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_certificate_is_accepted_and_no_other() {
    let servers = Servers::find();
    let (port, certificates) = (servers.site("redis").port_of("tls"), servers.certificates());
    let stream = Stream::new();
    let right = changed(stream.options(port, LONG), |o| {
        o.url = url("localhost", port);
        o.tls = trusting(certificates.ca());
    });
    post(right.clone()).deliver_until_ok(&[event("e-1")]).await;
    assert_eq!(stream.ids().await, ["e-1"]);
    // Another name, an authority we do not trust, and the machine's list, which does not have the right one.
    refused(changed(right.clone(), |o| o.url = url("127.0.0.1", port)), "redis.tls").await;
    refused(changed(right.clone(), |o| o.tls = trusting(certificates.other_ca())), "redis.tls").await;
    refused(changed(right.clone(), |o| o.tls = TlsFiles::default()), "redis.tls").await;
    // Certificates for a conversation everybody can hear, and a wish to leave checks out.
    let plain = SecretUrl::new(format!("redis://{USER}:{PASSWORD}@localhost:{}", stream.port));
    refused(changed(right.clone(), |o| o.url = plain), "redis.tls").await;
    let careless = SecretUrl::new(format!("rediss://{USER}:{PASSWORD}@127.0.0.1:{port}/#insecure"));
    refused(changed(right.clone(), |o| o.url = careless), "redis.unreachable").await;
    // A listener without TLS waits for the rest of what it takes for a command.
    let deaf = changed(right, |o| {
        o.url = url("localhost", stream.port);
        o.timeout = SHORT;
    });
    refused(deaf, "redis.unreachable").await;
    assert_eq!(stream.length().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_a_certificate_is_let_in_and_one_without_or_with_a_strangers_is_not() {
    let certificates = Servers::find().certificates();
    let server = OwnServer::start(RedisWith::lines("tls-auth-clients yes")).expect("a server");
    let stream = Stream::on(server.site.port);
    let with = |files: TlsFiles| {
        changed(stream.options(server.site.port, LONG), |o| {
            o.url = url("localhost", server.site.port_of("tls"));
            o.tls = changed(files, |o| o.ca_file = Some(certificates.ca()));
        })
    };
    let shows = |who: Identity| with(TlsFiles { ca_file: None, cert_file: Some(who.cert), key_file: Some(who.key) });
    post(shows(certificates.client())).deliver_until_ok(&[event("e-1")]).await;
    refused(shows(certificates.stranger()), "redis.tls").await;
    refused(with(TlsFiles::default()), "redis.tls").await;
    assert_eq!(stream.ids().await, ["e-1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_impostor_learns_nothing() {
    let certificates = Servers::find().certificates();
    let stream = Stream::new();
    for identity in [certificates.expired(), certificates.stranger()] {
        let impostor = Impostor::start(&identity).await.expect("a listener");
        let options = changed(stream.options(impostor.port(), LONG), |o| {
            o.url = url("localhost", impostor.port());
            o.tls = trusting(certificates.ca());
        });
        refused(options, "redis.tls").await;
        until("the impostor to notice", async || impostor.refused() > 0).await;
        assert_eq!(impostor.told(), 0, "it was told something");
    }
}
