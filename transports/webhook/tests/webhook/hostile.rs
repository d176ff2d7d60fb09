//! Answers that are meant to hurt (H-75), and addresses nobody should reach (H-69).

use std::time::Duration;

use postroom_core::{Failure, FailureKind, Outcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::receiver::{LONG, Receiver, event, failure, http, options, post};

/// Answers every request with these bytes, as often as it is told to, and closes.
pub(crate) async fn answering(bytes: impl Into<Vec<u8>>, times: usize) -> (u16, watch::Receiver<usize>) {
    let bytes = bytes.into();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    let (count, requests) = watch::channel(0);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut buffer = [0; 4096];
            let _ = client.read(&mut buffer).await;
            count.send_modify(|count| *count += 1);
            for _ in 0..times {
                if client.write_all(&bytes).await.is_err() {
                    break;
                }
            }
        }
    });
    (port, requests)
}

async fn check(bytes: impl Into<Vec<u8>>, times: usize) -> Outcome {
    let (port, requests) = answering(bytes, times).await;
    let began = Instant::now();
    let mut post = post(http(port, Duration::from_secs(10)));
    post.deliver(&[event("e-1")]).await;
    let outcome = post.outcome().await.1;
    assert!(began.elapsed() < Duration::from_secs(9), "it was read to its end, or to the time-out");
    assert_eq!(*requests.borrow(), 1, "something was answered, so it is not asked again");
    post.close().await;
    outcome
}

fn unreadable(outcome: Outcome) -> Failure {
    let failure = outcome.expect_err("it is no answer");
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Transient, "webhook.answer"), "{failure:?}");
    assert!(failure.error.len() < 300, "{} bytes of error", failure.error.len());
    failure
}

#[tokio::test]
async fn packed_answers_are_not_unpacked() {
    let head = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 8\r\n\r\nno gzip!";
    check(head, 1).await.expect("the body of a yes does not matter");
    let head = "HTTP/1.1 500 No\r\ncontent-encoding: gzip\r\ncontent-length: 8\r\n\r\nno gzip!";
    let failure = check(head, 1).await.expect_err("it is refused");
    assert!(failure.error.ends_with(": no gzip!"), "quoted as it came: {}", failure.error);
}

#[tokio::test]
async fn a_huge_head_is_not_kept() {
    let one = format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(64 * 1024));
    unreadable(check(one, 1000).await);
    let many: String =
        (0..10_000).map(|n| format!("x-{n}: y\r\n")).fold("HTTP/1.1 200 OK\r\n".to_owned(), |a, b| a + &b);
    unreadable(check(many + "\r\n", 1).await);
}

#[tokio::test]
async fn what_is_not_http_is_no_answer() {
    unreadable(check("SSH-2.0-OpenSSH_9.2\r\n", 1).await);
    unreadable(check("HTTP/9.9 200 OK\r\n\r\n", 1).await);
    unreadable(check("HTTP/1.1 200 OK\r\ncontent-length: 5, 6\r\n\r\n", 1).await);
}

#[tokio::test]
async fn a_long_body_is_read_in_part_and_the_next_request_gets_through() {
    let body = "x".repeat(10_000_000);
    let yes = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    check(yes, 1).await.expect("the body of a yes does not matter");
}

#[tokio::test]
async fn endless_interim_answers_end_at_the_time_out() {
    let (port, _) = answering("HTTP/1.1 100 Continue\r\n\r\n", usize::MAX).await;
    let failure = failure(&mut post(http(port, Duration::from_millis(300))), "e-1").await;
    assert_eq!(failure.code, "webhook.timeout");
}

#[tokio::test]
async fn a_name_that_leads_to_us_is_refused_unless_its_network_is_allowed() {
    let receiver = Receiver::start().await;
    let mut options = options(&format!("http://localhost:{}/hook", receiver.port()), LONG);
    post(options.clone()).deliver_until_ok(&[event("e-1")]).await;
    options.allow_networks.clear();
    let failure = failure(&mut post(options), "e-2").await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "webhook.address"));
    assert!(
        failure.error.contains("localhost is at ") && failure.error.contains("allow_networks"),
        "{}",
        failure.error
    );
    assert_eq!(receiver.got().len(), 1);
}

#[tokio::test]
async fn a_name_that_does_not_exist_counts_no_attempt() {
    let failure = failure(&mut post(options("http://no-such-name.invalid/hook", LONG)), "e-1").await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "webhook.dns"), "{failure:?}");
    assert!(failure.error.contains("no-such-name.invalid"), "{}", failure.error);
}
