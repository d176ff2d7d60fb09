//! A listener that shows whatever certificate it is told to: what stands between a client and the server it meant.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::Identity;

/// Speaks TLS from the first byte, or after a greeting, and nothing else; it ends when it is dropped.
#[derive(Debug)]
pub struct Impostor {
    port: u16,
    told: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Impostor {
    /// Listens on 127.0.0.1 and shows this certificate.
    pub async fn start(identity: &Identity) -> io::Result<Self> {
        Self::greeting(identity, b"").await
    }

    /// The same for protocols whose servers say something in the open before both turn to TLS.
    pub async fn greeting(identity: &Identity, greeting: &'static [u8]) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let certificate = CertificateDer::from_pem_file(&identity.cert).map_err(io::Error::other)?;
        let key = PrivateKeyDer::from_pem_file(&identity.key).map_err(io::Error::other)?;
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![certificate], key))
            .map_err(io::Error::other)?;
        let (told, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, missed) = (Arc::clone(&told), Arc::clone(&refused));
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let task = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (acceptor, counted, missed) = (acceptor.clone(), Arc::clone(&counted), Arc::clone(&missed));
                tokio::spawn(async move {
                    let mut buffer = [0; 4096];
                    if client.write_all(greeting).await.is_err() {
                        return;
                    }
                    let Ok(mut stream) = acceptor.accept(client).await else {
                        missed.fetch_add(1, Ordering::Relaxed);
                        return;
                    };
                    // A client of TLS 1.3 may say no only after we are done with our part.
                    match stream.read(&mut buffer).await {
                        Ok(0) | Err(_) => missed.fetch_add(1, Ordering::Relaxed),
                        Ok(bytes) => counted.fetch_add(bytes, Ordering::Relaxed),
                    };
                });
            }
        });
        Ok(Self { port, told, refused, task })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many bytes clients have told it. One that checks certificates tells it nothing.
    pub fn told(&self) -> usize {
        self.told.load(Ordering::Relaxed)
    }

    /// How many clients have hung up on it.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.task.abort();
    }
}
