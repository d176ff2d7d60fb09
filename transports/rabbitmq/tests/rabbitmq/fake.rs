//! Somebody who speaks as much AMQP as it takes, and closes the channel on certain messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) struct Fake {
    port: u16,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Fake {
    /// Confirms everything but messages with these ids.
    pub(crate) async fn start(bad: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(client, bad));
            }
        });
        Self { port, connections, task }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Until the client hangs up.
async fn serve(mut client: TcpStream, bad: &[&str]) -> std::io::Result<()> {
    client.read_exact(&mut [0; 8]).await?;
    // version, no properties, mechanisms, locales
    say(&mut client, 0, &[0, 10, 0, 10, 0, 9, 0, 0, 0, 0, 0, 0, 0, 5], b"PLAIN\0\0\0\0").await?;
    let (mut tag, mut dead) = (0_u64, false);
    loop {
        let mut start = [0; 7];
        client.read_exact(&mut start).await?;
        let bytes = u32::from_be_bytes([start[3], start[4], start[5], start[6]]) as usize;
        let mut payload = vec![0; bytes + 1];
        client.read_exact(&mut payload).await?;
        match (start[0], payload.first_chunk::<4>()) {
            (1, Some([0, 10, 0, 11])) => say(&mut client, 0, &[0, 10, 0, 30], &[0, 1, 0, 2, 0, 0, 0, 10]).await?,
            (1, Some([0, 10, 0, 40])) => say(&mut client, 0, &[0, 10, 0, 41], &[0]).await?,
            (1, Some([0, 10, 0, 50])) => say(&mut client, 0, &[0, 10, 0, 51], &[]).await?,
            (1, Some([0, 20, 0, 10])) => say(&mut client, 1, &[0, 20, 0, 11], &[0, 0, 0, 0]).await?,
            (1, Some([0, 85, 0, 10])) => say(&mut client, 1, &[0, 85, 0, 11], &[]).await?,
            (2, _) if !dead => {
                tag += 1;
                let has = |id: &&str| {
                    // As a short text: its length, then itself.
                    let id = [&[u8::try_from(id.len()).unwrap()], id.as_bytes()].concat();
                    payload.windows(id.len()).any(|w| w == id)
                };
                if bad.iter().any(has) {
                    dead = true;
                    let text = b"PRECONDITION_FAILED - something is wrong";
                    let mut reason = vec![1, 150, u8::try_from(text.len()).unwrap()];
                    reason.extend_from_slice(text);
                    reason.extend_from_slice(&[0, 60, 0, 40]);
                    say(&mut client, 1, &[0, 20, 0, 40], &reason).await?;
                } else {
                    say(&mut client, 1, &[0, 60, 0, 80], &[&tag.to_be_bytes()[..], &[0]].concat()).await?;
                }
            }
            _ => {}
        }
    }
}

async fn say(client: &mut TcpStream, channel: u8, method: &[u8], arguments: &[u8]) -> std::io::Result<()> {
    let mut frame = vec![1, 0, channel];
    frame.extend(u32::try_from(method.len() + arguments.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(method);
    frame.extend_from_slice(arguments);
    frame.push(0xCE);
    client.write_all(&frame).await
}
