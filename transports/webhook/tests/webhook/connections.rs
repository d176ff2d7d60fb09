//! Connections that end when they should not (H-76).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::Reason;
use h2::server::SendResponse;
use http::{Response, StatusCode};
use postroom_conformance::transports::Post;
use postroom_core::FailureKind;
use postroom_testbed::proxy::Mode;
use postroom_testbed::{FaultProxy, free_port};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::receiver::{LONG, Receiver, Rule, event, failure, http, post};
use crate::tls::{Papers, server, trusting};

const YES: &str = "HTTP/1.1 204 No Content\r\n\r\n";

/// Gives each request, by its number on its connection, an answer of bytes; none closes the connection. Whose requests came.
async fn scripted(script: &'static [Option<&'static str>]) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    let ids: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&ids);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(converse(client, script, Arc::clone(&seen)));
        }
    });
    (port, ids)
}

async fn converse(mut client: TcpStream, script: &[Option<&str>], seen: Arc<Mutex<Vec<String>>>) {
    for answer in script {
        let mut request = String::new();
        // The body of these tests ends like this.
        while !request.ends_with("canary\"}") {
            let mut buffer = [0; 4096];
            match client.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(read) => request.push_str(&String::from_utf8_lossy(&buffer[..read])),
            }
        }
        let id = request.lines().find_map(|line| line.strip_prefix("webhook-id: ")).expect("it has an id");
        seen.lock().expect("no panic").push(id.to_owned());
        let Some(answer) = answer else { return };
        if client.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn one_by_one(post: &mut Post, count: usize) {
    for n in 0..count {
        post.deliver(&[event(&format!("e-{n}"))]).await;
        let outcome = post.outcome().await.1;
        assert!(outcome.is_ok(), "delivery {n}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_connection_that_is_closed_between_requests_costs_no_attempt() {
    let (port, ids) = scripted(&[Some(YES)]).await;
    one_by_one(&mut post(http(port, LONG)), 50).await;
    // One that was being sent while the connection closed may have been read by nobody, or twice.
    assert!(ids.lock().expect("no panic").len() >= 50);
}

#[tokio::test]
async fn a_kept_connection_that_ends_under_a_request_is_replaced_once() {
    let (port, ids) = scripted(&[Some(YES), None]).await;
    one_by_one(&mut post(http(port, LONG)), 3).await;
    let ids = ids.lock().expect("no panic").clone();
    assert_eq!(ids, ["e-0", "e-1", "e-1", "e-2"], "the second was sent again, over another connection");
}

#[tokio::test]
async fn a_receiver_that_hangs_up_on_an_event_is_asked_twice_and_an_attempt_is_counted() {
    for script in [&[None][..], &[Some("HTTP/1.1 20")]] {
        let (port, ids) = scripted(script).await;
        let failure = failure(&mut post(http(port, LONG)), "e-1").await;
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Transient, "webhook.cut"), "{failure:?}");
        assert_eq!(*ids.lock().expect("no panic"), ["e-1", "e-1"]);
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_in_its_body_is_an_answer() {
    const CUT_YES: &str = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nbegun";
    const CUT_NO: &str = "HTTP/1.1 500 No\r\ncontent-length: 100\r\n\r\nbegun";
    let (port, ids) = scripted(&[Some(CUT_YES)]).await;
    one_by_one(&mut post(http(port, LONG)), 2).await;
    assert_eq!(*ids.lock().expect("no panic"), ["e-0", "e-1"], "a yes is a yes");

    let (port, ids) = scripted(&[Some(CUT_NO)]).await;
    let failure = failure(&mut post(http(port, LONG)), "e-1").await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Transient, "webhook.status_500"));
    assert!(failure.error.ends_with(": begun"), "{}", failure.error);
    assert_eq!(ids.lock().expect("no panic").len(), 1);
}

#[tokio::test]
async fn a_reset_while_the_receiver_works_is_a_second_request_and_then_an_outage() {
    let receiver = Receiver::start().await;
    receiver.rule("e-1", Rule::Hold);
    let way = FaultProxy::to(receiver.port()).await;
    let mut post = post(http(way.port(), LONG));
    post.deliver(&[event("e-1")]).await;
    postroom_conformance::transports::until("the request", async || receiver.got().len() == 1).await;
    way.set(Mode::Refuse).await;
    let failure = post.outcome().await.1.expect_err("nobody is there any more");
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "webhook.refused"));
}

#[tokio::test]
async fn a_port_where_nobody_listens_counts_no_attempt() {
    let port = free_port().expect("a port");
    let failure = failure(&mut post(http(port, LONG)), "e-1").await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "webhook.refused"));
    assert!(failure.error.contains(&format!("http://127.0.0.1:{port} is not reachable: ")), "{}", failure.error);
}

/// How an HTTP/2 server treats the first request on its first connection.
#[derive(Debug, Clone, Copy)]
enum Farewell {
    /// Answers it and says goodbye.
    AfterTheAnswer,
    /// Says goodbye without having looked at it.
    BeforeTheAnswer,
    /// Refuses the stream.
    RefusedStream,
}

type Requests = Arc<Mutex<HashMap<String, usize>>>;

async fn http2(papers: &Papers, farewell: Farewell) -> (u16, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    let mut config = server(&papers.certificates.server(), None);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let requests = Requests::default();
    let seen = Arc::clone(&requests);
    tokio::spawn(async move {
        let mut first = Some(farewell);
        while let Ok((client, _)) = listener.accept().await {
            let stream = acceptor.accept(client).await.expect("a handshake");
            tokio::spawn(serve(stream, first.take(), Arc::clone(&seen)));
        }
    });
    (port, requests)
}

async fn serve(stream: TlsStream<TcpStream>, mut farewell: Option<Farewell>, seen: Requests) {
    let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
    while let Some(Ok((request, respond))) = connection.accept().await {
        let id = request.headers()["webhook-id"].to_str().expect("ASCII").to_owned();
        match farewell.take() {
            None => answer(respond, &seen, id),
            Some(Farewell::AfterTheAnswer) => {
                answer(respond, &seen, id);
                connection.graceful_shutdown();
            }
            Some(Farewell::BeforeTheAnswer) => connection.abrupt_shutdown(Reason::NO_ERROR),
            Some(Farewell::RefusedStream) => {
                let mut respond: SendResponse<Bytes> = respond;
                respond.send_reset(Reason::REFUSED_STREAM);
            }
        }
    }
}

fn answer(mut respond: SendResponse<Bytes>, seen: &Requests, id: String) {
    *seen.lock().expect("no panic").entry(id).or_default() += 1;
    let response = Response::builder().status(StatusCode::NO_CONTENT).body(()).expect("a response");
    let _ = respond.send_response(response, true);
}

#[tokio::test]
async fn a_goodbye_over_http2_costs_no_attempt() {
    for farewell in [Farewell::AfterTheAnswer, Farewell::BeforeTheAnswer, Farewell::RefusedStream] {
        let papers = Papers::new();
        let (port, seen) = http2(&papers, farewell).await;
        let mut post = post(trusting(&papers, port, LONG));
        one_by_one(&mut post, 5).await;
        let many: Vec<_> = (5..100).map(|n| event(&format!("e-{n}"))).collect();
        post.deliver_until_ok(&many).await;
        let seen = seen.lock().expect("no panic").clone();
        assert_eq!(seen.len(), 100, "{farewell:?}");
        assert!(seen.values().all(|count| *count == 1), "{farewell:?}: what was answered was sent again");
        post.close().await;
    }
}
