//! Receivers that take their time (H-70): each delivery holds its slot for so long and no longer.

use std::time::Duration;

use postroom_conformance::transports::Post;
use postroom_core::FailureKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::receiver::{LONG, Receiver, event, failure, http, post};

/// How a tarpit treats whoever comes.
#[derive(Debug, Clone, Copy)]
enum Pit {
    /// Reads, and says nothing.
    Silent,
    /// The head of its answer comes byte by byte.
    SlowHead,
    /// A good head, then a body byte by byte, without end.
    SlowBody,
    /// A bad head, then the same.
    SlowRefusal,
    /// A bad head, then as much as is read.
    EndlessRefusal,
}

struct Tarpit {
    port: u16,
    visitors: watch::Sender<usize>,
    task: JoinHandle<()>,
}

impl Tarpit {
    async fn start(pit: Pit) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let visitors = watch::Sender::new(0);
        let counted = visitors.clone();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                counted.send_modify(|count| *count += 1);
                tokio::spawn(hold(client, pit));
            }
        });
        Self { port, visitors, task }
    }
}

impl Drop for Tarpit {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn hold(mut client: TcpStream, pit: Pit) {
    let mut buffer = [0; 4096];
    if client.read(&mut buffer).await.is_err() {
        return;
    }
    let (at_once, then, pause) = match pit {
        Pit::Silent => ("", "", Duration::from_secs(1)),
        Pit::SlowHead => ("", "HTTP/1.1 200 OK\r\nx: ", Duration::from_millis(50)),
        Pit::SlowBody => ("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n", "x", Duration::from_millis(50)),
        Pit::SlowRefusal => ("HTTP/1.1 500 No\r\ncontent-length: 1000000\r\n\r\nwait", "x", Duration::from_millis(50)),
        Pit::EndlessRefusal => ("HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n", "", Duration::ZERO),
    };
    let mut said = client.write_all(at_once.as_bytes()).await;
    if let Pit::EndlessRefusal = pit {
        let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
        while said.is_ok() {
            said = client.write_all(chunk.as_bytes()).await;
        }
    }
    for byte in then.bytes().chain(std::iter::repeat(b'x')) {
        if said.is_err() {
            return;
        }
        sleep(pause).await;
        if !then.is_empty() {
            said = client.write_all(&[byte]).await;
        } else if client.try_read(&mut buffer).is_ok_and(|read| read == 0) {
            return;
        }
    }
}

/// Fills every slot twice: the second half gets through only when the first has let go.
async fn check(pit: Pit, timeout: Duration) -> Vec<Result<(), (FailureKind, String)>> {
    let tarpit = Tarpit::start(pit).await;
    let mut post = post(http(tarpit.port, timeout));
    let events: Vec<_> = (0..16).map(|n| event(&format!("e-{n}"))).collect();
    let began = Instant::now();
    post.deliver(&events).await;
    let outcomes = post.outcomes().await;
    assert!(
        began.elapsed() < 20 * timeout + Duration::from_secs(5),
        "{pit:?} held its slots for {:?}",
        began.elapsed()
    );
    post.close().await;
    outcomes.into_values().map(|o| o.map(|_| ()).map_err(|f| (f.kind, format!("{}: {}", f.code, f.error)))).collect()
}

#[tokio::test]
async fn whoever_says_nothing_or_speaks_slowly_is_left_at_the_time_out() {
    for pit in [Pit::Silent, Pit::SlowHead] {
        for outcome in check(pit, Duration::from_millis(300)).await {
            let (kind, text) = outcome.expect_err("it is not answered");
            assert_eq!(kind, FailureKind::Unavailable);
            assert!(text.starts_with("webhook.timeout: ") && text.contains("within 300ms"), "{pit:?}: {text}");
        }
    }
}

#[tokio::test]
async fn an_endless_body_after_a_yes_is_left_and_the_yes_counts() {
    let outcomes = check(Pit::SlowBody, Duration::from_millis(300)).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

#[tokio::test]
async fn an_endless_body_after_a_no_is_left_and_its_beginning_quoted() {
    for pit in [Pit::SlowRefusal, Pit::EndlessRefusal] {
        for outcome in check(pit, Duration::from_millis(300)).await {
            let (kind, text) = outcome.expect_err("it is refused");
            assert_eq!(kind, FailureKind::Transient);
            let beginning = if let Pit::SlowRefusal = pit { ": wait" } else { ": xxxx" };
            assert!(text.starts_with("webhook.status_500") && text.contains(beginning), "{pit:?}: {text}");
            assert!(text.len() < 400, "{} bytes of error", text.len());
        }
    }
}

#[tokio::test]
async fn connecting_the_head_and_the_whole_have_time_outs_of_their_own() {
    let silent = Tarpit::start(Pit::Silent).await;
    let mut options = http(silent.port, LONG);
    options.first_byte_timeout = Duration::from_millis(200);
    let failed = failure(&mut post(options), "e-1").await;
    assert!(failed.error.contains("within 200ms"), "{}", failed.error);

    let slow = Tarpit::start(Pit::SlowRefusal).await;
    let mut options = http(slow.port, LONG);
    options.timeout = Duration::from_millis(400);
    let failed = failure(&mut post(options), "e-1").await;
    assert_eq!(failed.code, "webhook.status_500");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_tarpits_do_not_slow_down_a_healthy_receiver() {
    let tarpit = Tarpit::start(Pit::Silent).await;
    let mut stuck: Vec<Post> = (0..50).map(|_| post(http(tarpit.port, LONG))).collect();
    let events: Vec<_> = (0..8).map(|n| event(&format!("e-{n}"))).collect();
    for post in &mut stuck {
        post.deliver(&events).await;
    }
    tarpit.visitors.subscribe().wait_for(|count| *count == 400).await.expect("the tarpit is there");

    let receiver = Receiver::start().await;
    let mut healthy = post(http(receiver.port(), LONG));
    let many: Vec<_> = (0..500).map(|n| event(&format!("h-{n}"))).collect();
    let began = Instant::now();
    healthy.deliver_until_ok(&many).await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(10), "500 deliveries took {took:?} beside the tarpits");
    assert!(stuck.iter().all(Post::is_silent), "the tarpits are still at it");
    for post in stuck {
        assert_eq!(post.close().await.len(), 8, "a close does not wait for them");
    }
}
