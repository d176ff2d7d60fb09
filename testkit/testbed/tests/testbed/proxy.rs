//! The proxy's modes, over plain TCP against an echo.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use postroom_testbed::FaultProxy;
use postroom_testbed::proxy::{Mode, Moment, Trigger};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A server that sends back what it gets, and tells how much that was.
struct Echo {
    port: u16,
    got: watch::Receiver<Vec<u8>>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, got) = watch::channel(Vec::new());
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let tell = tell.clone();
                tokio::spawn(async move {
                    let mut buffer = [0; 4096];
                    while let Ok(read @ 1..) = client.read(&mut buffer).await {
                        tell.send_modify(|got| got.extend_from_slice(&buffer[..read]));
                        if client.write_all(&buffer[..read]).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Self { port, got }
    }

    async fn has(&mut self, wanted: &[u8]) {
        self.got.wait_for(|got| got == wanted).await.unwrap();
    }
}

async fn pair() -> (Echo, FaultProxy) {
    let echo = Echo::start().await;
    let proxy = FaultProxy::to(echo.port).await;
    (echo, proxy)
}

async fn connect(proxy: &FaultProxy) -> TcpStream {
    TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap()
}

/// Sends, and reads the same back.
async fn round_trip(client: &mut TcpStream, bytes: &[u8]) {
    client.write_all(bytes).await.unwrap();
    let mut back = vec![0; bytes.len()];
    client.read_exact(&mut back).await.unwrap();
    assert_eq!(back, bytes);
}

async fn is_reset(client: &mut TcpStream) {
    assert_eq!(client.read(&mut [0; 64]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

/// Everything until the peaceful end.
async fn rest(client: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    rest
}

#[tokio::test]
async fn what_passes_is_counted() {
    let (_echo, proxy) = pair().await;
    let mut client = connect(&proxy).await;
    round_trip(&mut client, b"hello").await;
    let counts = proxy.until(|counts| counts.to_client == 5).await;
    assert_eq!((counts.accepted, counts.to_server, counts.cuts), (1, 5, 0));
}

#[tokio::test]
async fn megabytes_pass_in_both_directions_at_once() {
    let (_echo, proxy) = pair().await;
    let mut client = connect(&proxy).await;
    let sent: Vec<u8> = (0..4_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    let (mut from, mut to) = client.split();
    let mut back = vec![0; sent.len()];
    let (wrote, read) = tokio::join!(to.write_all(&sent), from.read_exact(&mut back));
    wrote.unwrap();
    read.unwrap();
    assert!(back == sent);
}

#[tokio::test]
async fn refused_means_that_nobody_listens_until_the_next_mode() {
    let (_echo, proxy) = pair().await;
    let mut open = connect(&proxy).await;
    round_trip(&mut open, b"hello").await;
    proxy.set(Mode::Refuse).await;
    let refused = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    is_reset(&mut open).await;
    proxy.set(Mode::Pass).await;
    round_trip(&mut connect(&proxy).await, b"again").await;
}

#[tokio::test]
async fn what_is_held_vanishes_and_the_connection_cannot_go_on() {
    let (mut echo, proxy) = pair().await;
    let (mut talks, mut listens) = (connect(&proxy).await, connect(&proxy).await);
    round_trip(&mut talks, b"before").await;
    round_trip(&mut listens, b"-").await;
    proxy.set(Mode::Hold).await;
    let mut new = connect(&proxy).await;
    new.write_all(b"new").await.unwrap();
    talks.write_all(b"lost").await.unwrap();
    proxy.until(|counts| counts.swallowed == 4).await;
    echo.has(b"before-").await;
    proxy.set(Mode::Pass).await;
    is_reset(&mut talks).await;
    round_trip(&mut listens, b"-").await;
    let mut late = [0; 3];
    new.read_exact(&mut late).await.unwrap();
    assert_eq!(&late, b"new");
}

#[tokio::test]
async fn delayed_bytes_come_late_and_complete() {
    let (_echo, proxy) = pair().await;
    proxy.set(Mode::Delay(Duration::from_millis(60))).await;
    let start = Instant::now();
    round_trip(&mut connect(&proxy).await, b"hello").await;
    assert!(start.elapsed() >= Duration::from_millis(120), "{:?}", start.elapsed());
}

#[tokio::test]
async fn throttled_bytes_take_their_time() {
    let (_echo, proxy) = pair().await;
    proxy.set(Mode::Throttle(10_000)).await;
    let start = Instant::now();
    round_trip(&mut connect(&proxy).await, &[7; 2_000]).await;
    assert!(start.elapsed() >= Duration::from_millis(190), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_connection_is_cut_after_so_many_bytes() {
    let (mut echo, proxy) = pair().await;
    let mut client = connect(&proxy).await;
    round_trip(&mut client, b"hello").await;
    proxy.set(Mode::CutAfter(4)).await;
    client.write_all(b"goodbye").await.unwrap();
    proxy.until(|counts| counts.cuts == 1).await;
    assert_eq!(rest(&mut client).await, b"");
    echo.has(b"hellogood").await;
}

#[tokio::test]
async fn open_and_new_connections_are_reset() {
    let (_echo, proxy) = pair().await;
    let mut open = connect(&proxy).await;
    round_trip(&mut open, b"hello").await;
    proxy.set(Mode::Reset).await;
    is_reset(&mut open).await;
    is_reset(&mut connect(&proxy).await).await;
    proxy.until(|counts| counts.resets == 2).await;
}

#[tokio::test]
async fn a_half_closed_connection_still_carries_what_the_client_sends() {
    let (mut echo, proxy) = pair().await;
    let mut client = connect(&proxy).await;
    round_trip(&mut client, b"hello").await;
    proxy.set(Mode::HalfClose).await;
    proxy.until(|counts| counts.half_closes == 1).await;
    assert_eq!(rest(&mut client).await, b"");
    client.write_all(b" and more").await.unwrap();
    echo.has(b"hello and more").await;
}

#[tokio::test]
async fn a_cut_before_matching_bytes_keeps_them_from_the_server_however_they_are_split() {
    let (mut echo, proxy) = pair().await;
    proxy.set(Mode::CutAt(Trigger::Bytes(b"stop".to_vec()), Moment::Before)).await;
    let mut client = connect(&proxy).await;
    round_trip(&mut client, b"start st").await;
    client.write_all(b"op now").await.unwrap();
    proxy.until(|counts| counts.cuts == 1).await;
    assert_eq!(rest(&mut client).await, b"");
    echo.has(b"start st").await;
}

#[tokio::test]
async fn a_cut_after_matching_bytes_keeps_the_reply_from_the_client() {
    let (mut echo, proxy) = pair().await;
    let mut client = connect(&proxy).await;
    round_trip(&mut client, b"start ").await;
    proxy.set(Mode::CutAt(Trigger::Bytes(b"stop".to_vec()), Moment::AfterReply)).await;
    client.write_all(b"stop").await.unwrap();
    proxy.until(|counts| counts.cuts == 1).await;
    assert_eq!(rest(&mut client).await, b"");
    echo.has(b"start stop").await;
}

#[tokio::test]
async fn from_matching_bytes_on_a_hold_keeps_everything_from_both_and_closes_nothing() {
    let (mut echo, proxy) = pair().await;
    let (mut client, mut other) = (connect(&proxy).await, connect(&proxy).await);
    round_trip(&mut client, b"start ").await;
    round_trip(&mut other, b"more ").await;
    proxy.set(Mode::HoldAt(Trigger::Bytes(b"stop".to_vec()))).await;
    client.write_all(b"stop").await.unwrap();
    proxy.until(|counts| counts.swallowed == 4).await;
    echo.has(b"start more stop").await;
    // Also what others say, and that they leave.
    other.write_all(b"never").await.unwrap();
    proxy.until(|counts| counts.swallowed == 9).await;
    drop(client);
    assert_eq!(proxy.counts().ended, 0);
    echo.has(b"start more stop").await;
    proxy.set(Mode::Pass).await;
    is_reset(&mut other).await;
}

#[tokio::test]
async fn a_script_goes_on_with_each_connection_that_is_hit() {
    let (_echo, proxy) = pair().await;
    proxy.play(vec![Mode::Reset, Mode::CutAfter(3), Mode::Pass]).await;
    is_reset(&mut connect(&proxy).await).await;
    proxy.until(|counts| counts.resets == 1).await;
    let mut cut = connect(&proxy).await;
    cut.write_all(b"abc").await.unwrap();
    proxy.until(|counts| counts.cuts == 1).await;
    round_trip(&mut connect(&proxy).await, b"passes").await;
}

#[tokio::test]
async fn a_seed_plays_its_faults_and_then_nothing_more() {
    let (_echo, proxy) = pair().await;
    proxy.play_seeded(17, 5).await;
    // More than any of the faults lets through.
    let bytes = [7; 8_000];
    loop {
        let mut client = connect(&proxy).await;
        let mut back = Vec::new();
        let talk = async {
            client.write_all(&bytes).await?;
            client.shutdown().await?;
            client.read_to_end(&mut back).await
        };
        if talk.await.is_ok() && back == bytes {
            break;
        }
    }
    let counts = proxy.counts();
    assert!(counts.cuts + counts.resets + counts.half_closes >= 5, "{counts:?}");
}
