//! The bytes to and from a broker, in private or not.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use postroom_core::Failure;
use postroom_tls::TlsFiles;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::address::Address;
use crate::failures;

pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Connects, and with `amqps://` makes sure who that is.
    pub(super) async fn connect(address: &Address, files: &TlsFiles) -> Result<Self, Failure> {
        // First, so that a missing file is not taken for a missing broker.
        let tls = address.tls.then(|| files.client()).transpose().map_err(|error| failures::tls(address, &error))?;
        let connected = TcpStream::connect((address.host.as_str(), address.port)).await;
        let tcp = connected.map_err(|error| failures::unreachable(address, &error))?;
        // Frames go in batches already; the last piece of one must not wait for an answer.
        tcp.set_nodelay(true).map_err(|error| failures::unreachable(address, &error))?;
        let Some(tls) = tls else { return Ok(Self::Plain(tcp)) };
        let name = ServerName::try_from(address.host.clone()).map_err(|error| failures::tls(address, &error))?;
        let handshake = TlsConnector::from(Arc::new(tls)).connect(name, tcp).await;
        handshake.map(|stream| Self::Tls(Box::new(stream))).map_err(|error| failures::tls(address, &error))
    }

    /// Closes it so that what has not left yet never will.
    pub(super) fn discard(self) {
        let tcp = match &self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0,
        };
        // It fails when the connection is gone already.
        let _ = tcp.set_zero_linger();
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
