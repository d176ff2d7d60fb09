//! Accepts connections and serves HTTP/1.1 on each, with TLS where it is configured.
//!
//! A client that is silent, drips, or does not read costs a place among `connections` for a while, never a delivery: places
//! are fewer than the files the process may open.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Sleep, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::connections::{Answering, Connections, Place};
use super::refusals::Peer;
use super::tls::Certificates;

/// How long a client may take nothing of what it is sent.
const WRITE_WITHIN: Duration = Duration::from_secs(30);
/// Pause after a connection could not be accepted, for instance because no file can be opened.
const PAUSE: Duration = Duration::from_millis(200);
/// Largest head of a request.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Marks a response that goes on for as long as its client reads it.
#[derive(Debug, Clone, Copy)]
pub(super) struct LiveStream;

/// Accepts until `over`, then lets requests in progress end. Dropping the future closes all connections.
pub(super) async fn serve(
    listener: TcpListener,
    certificates: Option<Arc<Certificates>>,
    connections: Arc<Connections>,
    router: Router,
    over: CancellationToken,
) {
    let mut tasks = JoinSet::new();
    let mut sweep = interval(Duration::from_secs(1));
    let mut told = false;
    loop {
        let accepted = tokio::select! {
            () = over.cancelled() => break,
            _ = sweep.tick() => {
                connections.sweep();
                while tasks.try_join_next().is_some() {}
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(%error, "a connection to the HTTP server was not accepted; trying again");
                }
                sleep(PAUSE).await;
                continue;
            }
        };
        told = false;
        if let Some(place) = connections.enter(address.ip()) {
            let work = connection(stream, certificates.clone(), Arc::new(place), router.clone(), over.clone());
            tasks.spawn(work);
        }
    }
    drop(listener);
    while tasks.join_next().await.is_some() {}
}

/// Serves one connection until it ends or has to be closed. What goes wrong on it is its client's.
async fn connection(
    stream: TcpStream,
    certificates: Option<Arc<Certificates>>,
    place: Arc<Place>,
    router: Router,
    over: CancellationToken,
) {
    let served = async {
        match certificates {
            None => requests(stream, &place, router, over).await,
            Some(certificates) => {
                let stream = tokio::select! {
                    stream = certificates.acceptor().accept(stream) => stream,
                    () = over.cancelled() => return,
                };
                if let Ok(stream) = stream {
                    requests(stream, &place, router, over).await;
                }
            }
        }
    };
    tokio::select! {
        () = served => {}
        () = place.closed() => {}
    }
}

async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    place: &Arc<Place>,
    router: Router,
    over: CancellationToken,
) {
    let router = TowerToHyperService::new(router);
    let service = hyper::service::service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(place.address()));
        let answering = place.request();
        let response = hyper::service::Service::call(&router, request);
        async move { response.await.map(|response: Response| held(response, answering)) }
    });
    let connection = http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(Impatient { stream, stuck: None }), service);
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = over.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// The response, which counts as being answered until its last byte.
fn held(response: Response, answering: Answering) -> Response {
    if response.extensions().get::<LiveStream>().is_some() {
        answering.streams();
    }
    response.map(|body| Body::new(HeldBody { body, _answering: answering }))
}

struct HeldBody {
    body: Body,
    _answering: Answering,
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream whose writes fail when the other side takes nothing for long.
struct Impatient<S> {
    stream: S,
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    /// What a write comes to: `Pending` ends with an error after a while.
    fn within<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(WRITE_WITHIN)));
        ready!(stuck.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.within(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.within(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.within(context, shut)
    }
}
