//! The suite over TLS, and whom we do not trust (H-74).

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::serve::Listener;
use postroom_conformance::transports::{Arrived, Behaviour, Breakable, Harness, Observed, Scripted};
use postroom_core::{Failure, FailureKind, Transport};
use postroom_testbed::proxy::Mode;
use postroom_testbed::{Certificates, FaultProxy, Identity, Impostor};
use postroom_webhook::WebhookOptions;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::receiver::{self, LONG, Receiver, event, failure, options, post};

/// Certificates of one test.
pub(crate) struct Papers {
    _folder: TempDir,
    pub(crate) certificates: Certificates,
}

impl Papers {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let certificates = Certificates::at(folder.path().to_owned());
        certificates.make().expect("certificates");
        Self { _folder: folder, certificates }
    }
}

/// A server's side of TLS; asks clients for certificates of this authority, if one is given.
pub(crate) fn server(identity: &Identity, clients: Option<&Path>) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the usual versions");
    let builder = match clients {
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(authority).expect("a certificate")).expect("an authority");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
        }
        None => builder.with_no_client_auth(),
    };
    let certificate = CertificateDer::from_pem_file(&identity.cert).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(&identity.key).expect("a key");
    builder.with_single_cert(vec![certificate], key).expect("they fit")
}

/// Shakes hands beside accepting, so that one client that stalls holds nobody else.
struct TlsListener {
    connections: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

impl TlsListener {
    async fn bind(config: ServerConfig) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (done, connections) = mpsc::channel(16);
        tokio::spawn(async move {
            while let Ok((client, peer)) = listener.accept().await {
                let (acceptor, done) = (acceptor.clone(), done.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(client).await {
                        let _ = done.send((stream, peer)).await;
                    }
                });
            }
        });
        Self { connections, address }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.connections.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

async fn start(config: ServerConfig) -> Receiver {
    let listener = TlsListener::bind(config).await;
    Receiver::on(listener.address.port(), listener)
}

/// Options that trust our authority alone.
pub(crate) fn trusting(papers: &Papers, port: u16, timeout: Duration) -> WebhookOptions {
    let mut options = options(&format!("https://localhost:{port}/hook"), timeout);
    options.https_only = true;
    options.tls.ca_file = Some(papers.certificates.ca());
    options
}

struct Private {
    papers: Papers,
    receiver: Receiver,
    way: FaultProxy,
    timeout: Duration,
}

#[async_trait]
impl Harness for Private {
    async fn start(timeout: Duration) -> Self {
        let papers = Papers::new();
        let receiver = start(server(&papers.certificates.server(), None)).await;
        let way = FaultProxy::to(receiver.port()).await;
        Self { papers, receiver, way, timeout }
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(receiver::webhook(trusting(&self.papers, self.way.port(), self.timeout)))
    }

    async fn running(&self) -> usize {
        self.way.counts().open()
    }
}

#[async_trait]
impl Observed for Private {
    async fn arrived(&self) -> Vec<Arrived> {
        self.receiver.arrived()
    }
}

#[async_trait]
impl Scripted for Private {
    async fn behave(&self, id: &str, behaviour: Behaviour) {
        self.receiver.rule(id, behaviour.into());
    }
}

#[async_trait]
impl Breakable for Private {
    async fn stop(&self) {
        self.way.set(Mode::Refuse).await;
    }

    async fn resume(&self) {
        self.way.set(Mode::Pass).await;
    }
}

postroom_conformance::transport_suite!(Private: reports, arrives, answers, goes_down);

fn distrust(failure: &Failure, why: &str) {
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "webhook.tls"), "{failure:?}");
    assert!(failure.error.contains(why), "{}", failure.error);
}

#[tokio::test]
async fn an_expired_foreign_or_misnamed_certificate_is_told_nothing() {
    let papers = Papers::new();
    let impostor = Impostor::start(&papers.certificates.expired()).await.expect("it starts");
    distrust(&failure(&mut post(trusting(&papers, impostor.port(), LONG)), "e-1").await, "expired");
    assert_eq!(impostor.told(), 0);

    let impostor = Impostor::start(&papers.certificates.server()).await.expect("it starts");
    let mut misnamed = trusting(&papers, impostor.port(), LONG);
    misnamed.url.set_host(Some("127.0.0.1")).expect("a host");
    distrust(&failure(&mut post(misnamed), "e-1").await, "not valid for name");
    let mut foreign = trusting(&papers, impostor.port(), LONG);
    foreign.tls.ca_file = Some(papers.certificates.other_ca());
    distrust(&failure(&mut post(foreign), "e-1").await, "UnknownIssuer");
    assert_eq!(impostor.told(), 0);
}

#[tokio::test]
async fn a_self_signed_certificate_is_told_nothing() {
    let papers = Papers::new();
    let folder = tempfile::tempdir().expect("a folder");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let identity = Identity { cert: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    std::fs::write(&identity.cert, made.cert.pem()).expect("a file");
    std::fs::write(&identity.key, made.signing_key.serialize_pem()).expect("a file");
    let impostor = Impostor::start(&identity).await.expect("it starts");
    distrust(&failure(&mut post(trusting(&papers, impostor.port(), LONG)), "e-1").await, "certificate");
    assert_eq!(impostor.told(), 0);
}

#[tokio::test]
async fn a_receiver_that_asks_who_we_are_gets_our_certificate() {
    let papers = Papers::new();
    let certificates = &papers.certificates;
    let receiver = start(server(&certificates.server(), Some(&certificates.ca()))).await;
    let mut known = trusting(&papers, receiver.port(), LONG);
    known.tls.cert_file = Some(certificates.client().cert);
    known.tls.key_file = Some(certificates.client().key);
    post(known.clone()).deliver_until_ok(&[event("e-1")]).await;

    let nameless = trusting(&papers, receiver.port(), LONG);
    distrust(&failure(&mut post(nameless), "e-2").await, "CertificateRequired");
    let mut stranger = known;
    stranger.tls.cert_file = Some(certificates.stranger().cert);
    stranger.tls.key_file = Some(certificates.stranger().key);
    distrust(&failure(&mut post(stranger), "e-3").await, "received fatal alert");
    assert_eq!(receiver.got().len(), 1);
}

#[tokio::test]
async fn an_old_protocol_or_none_is_refused() {
    let papers = Papers::new();
    // An alert that says so, and the greeting of a server that has nothing newer than TLS 1.1.
    let alert = vec![21, 3, 1, 0, 2, 2, 70];
    let mut greeting = vec![22, 3, 2, 0, 42, 2, 0, 0, 38, 3, 2];
    greeting.extend([7; 32]);
    greeting.extend([0, 0xc0, 0x14, 0]);
    let plain = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    for (said, why) in [(alert, "ProtocolVersion"), (greeting, "peer"), (plain, "InvalidContentType")] {
        let port = say(said).await;
        distrust(&failure(&mut post(trusting(&papers, port, LONG)), "e-1").await, why);
    }
}

/// Says this to whoever has said something.
async fn say(bytes: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut buffer = [0; 4096];
            let _ = client.read(&mut buffer).await;
            let _ = client.write_all(&bytes).await;
            // Until it has read that.
            let _ = client.read(&mut buffer).await;
        }
    });
    port
}

#[tokio::test]
async fn a_handshake_that_is_cut_counts_no_attempt() {
    let papers = Papers::new();
    let port = say(Vec::new()).await;
    let way = FaultProxy::to(port).await;
    way.set(Mode::CutAfter(1)).await;
    let failure = failure(&mut post(trusting(&papers, way.port(), LONG)), "e-1").await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "webhook.refused"), "{failure:?}");
}

#[tokio::test]
async fn a_certificates_file_that_comes_back_heals_the_route() {
    let papers = Papers::new();
    let receiver = start(server(&papers.certificates.server(), None)).await;
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = trusting(&papers, receiver.port(), LONG);
    options.tls.ca_file = Some(folder.path().join("ca.pem"));
    let mut post = post(options);
    let missing = failure(&mut post, "e-1").await;
    assert_eq!((missing.kind, &*missing.code), (FailureKind::Unavailable, "webhook.options"), "{missing:?}");
    assert!(missing.error.contains("ca.pem"), "{}", missing.error);
    std::fs::copy(papers.certificates.ca(), folder.path().join("ca.pem")).expect("a file");
    post.deliver_until_ok(&[event("e-1")]).await;
    assert_eq!(receiver.got().len(), 1);
}
