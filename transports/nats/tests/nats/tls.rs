//! Talking in private: only with whom we meant to.

use std::path::PathBuf;

use postroom_conformance::changed;
use postroom_conformance::transports::until;
use postroom_core::{FailureKind, SecretUrl};
use postroom_nats::NatsOptions;
use postroom_testbed::brokers::{LIMITED_USER, NatsWith, PASSWORD, USER};
use postroom_testbed::{Certificates, Impostor, OwnServer, Servers};
use postroom_tls::TlsFiles;

use crate::nats::streams::{LONG, Stream, event, failure, post, receipt};

/// What a NATS server says before both turn to TLS.
const GREETING: &[u8] =
    b"INFO {\"server_id\":\"x\",\"version\":\"2.9.10\",\"max_payload\":1048576,\"tls_required\":true}\r\n";

fn trusting(ca: PathBuf) -> TlsFiles {
    TlsFiles { ca_file: Some(ca), ..TlsFiles::default() }
}

fn urls(scheme: &str, host: &str, port: u16) -> Vec<SecretUrl> {
    vec![SecretUrl::new(format!("{scheme}://{USER}:{PASSWORD}@{host}:{port}"))]
}

async fn stream_on(port: u16, certificates: &Certificates) -> Stream {
    let client = async_nats::ConnectOptions::with_user_and_password(USER.into(), PASSWORD.into())
        .add_root_certificates(certificates.ca())
        .add_client_certificate(certificates.client().cert, certificates.client().key)
        .require_tls(true);
    postroom_tls::install_provider();
    let stream =
        Stream::seen_by(client.connect(format!("nats://localhost:{port}")).await.expect("the server is there"));
    stream.create(|_| {}).await;
    stream
}

async fn refused(options: NatsOptions, code: &str) {
    let failed = failure(&mut post(options), "e-1").await;
    assert_eq!((failed.kind, &*failed.code), (FailureKind::Unavailable, code), "{failed:?}");
    assert!(!failed.error.contains("canary"), "{}", failed.error);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_certificate_is_accepted_and_no_other() {
    let (servers, port) = (Servers::find(), Servers::find().port("nats-tls"));
    let certificates = servers.certificates();
    let stream = stream_on(port, &certificates).await;
    let plain = stream.options(port, LONG);
    for scheme in ["nats", "tls"] {
        let right = changed(plain.clone(), |o| {
            o.urls = urls(scheme, "localhost", port);
            o.tls = Some(trusting(certificates.ca()));
        });
        post(right.clone()).deliver_until_ok(&[event(scheme)]).await;
        // Another name, an authority we do not trust, and the machine's list, which does not have the right one.
        refused(changed(right.clone(), |o| o.urls = urls(scheme, "127.0.0.1", port)), "nats.tls").await;
        refused(changed(right.clone(), |o| o.tls = Some(trusting(certificates.other_ca()))), "nats.tls").await;
        refused(changed(right, |o| o.tls = None), "nats.tls").await;
    }
    assert_eq!(stream.messages().await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_a_certificate_is_let_in_and_one_without_or_with_a_strangers_is_not() {
    let certificates = Servers::find().certificates();
    let server = certificates.server();
    let lines = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: true, timeout: 10 }}",
        server.cert.display(),
        server.key.display(),
        certificates.ca().display()
    );
    let server = OwnServer::start(NatsWith::lines(lines)).expect("a server");
    let stream = stream_on(server.site.port, &certificates).await;
    let urls = urls("tls", "localhost", server.site.port);
    let with = |files: TlsFiles| {
        changed(stream.options(server.site.port, LONG), |o| {
            o.urls = urls.clone();
            o.tls = Some(changed(files, |o| o.ca_file = Some(certificates.ca())));
        })
    };
    let shows = |who: postroom_testbed::Identity| {
        with(TlsFiles { ca_file: None, cert_file: Some(who.cert), key_file: Some(who.key) })
    };
    receipt(&mut post(shows(certificates.client())), "e-1").await;
    refused(shows(certificates.stranger()), "nats.tls").await;
    refused(with(TlsFiles::default()), "nats.tls").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_impostor_learns_nothing() {
    let servers = Servers::find();
    let certificates = servers.certificates();
    let stream = Stream::new().await;
    for identity in [certificates.expired(), certificates.stranger()] {
        let impostor = Impostor::greeting(&identity, GREETING).await.expect("a listener");
        let options = changed(stream.options(impostor.port(), LONG), |o| {
            o.urls = urls("nats", "localhost", impostor.port());
            o.tls = Some(trusting(certificates.ca()));
        });
        refused(options, "nats.tls").await;
        until("the impostor to notice", async || impostor.refused() > 0).await;
        assert_eq!(impostor.told(), 0, "it was told something");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_speak_tls_is_told_nothing_when_tls_is_asked_for() {
    let servers = Servers::find();
    let stream = Stream::new().await;
    let options = changed(stream.options(servers.port("nats"), LONG), |o| {
        o.urls = urls("nats", "localhost", servers.port("nats"));
        o.tls = Some(trusting(servers.certificates().ca()));
    });
    refused(options, "nats.tls").await;
    assert_eq!(stream.messages().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_and_a_user_without_rights_are_told_apart() {
    let servers = Servers::find();
    let (port, certificates) = (servers.port("nats-tls"), servers.certificates());
    let stream = stream_on(port, &certificates).await;
    let login = |user: &str, password: &str| {
        changed(stream.options(port, LONG), |o| {
            o.urls = vec![SecretUrl::new(format!("tls://{user}:{password}@localhost:{port}"))];
            o.tls = Some(trusting(certificates.ca()));
        })
    };
    refused(login(USER, "canary"), "nats.login").await;
    refused(login("nobody", PASSWORD), "nats.login").await;
    refused(login(LIMITED_USER, PASSWORD), "nats.permission").await;
    assert_eq!(stream.messages().await, 0);
}
