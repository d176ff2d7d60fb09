//! A server that answers every `XADD` as it is told, for what a real one cannot be made to say.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) struct Stub {
    pub(crate) port: u16,
    answer: Arc<Mutex<String>>,
    task: JoinHandle<()>,
}

impl Stub {
    /// Answers with this line, for instance `-OOM no memory`.
    pub(crate) async fn answering(line: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let answer = Arc::new(Mutex::new(line.to_owned()));
        let says = Arc::clone(&answer);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(talk(client, Arc::clone(&says)));
            }
        });
        Self { port, answer, task }
    }

    pub(crate) fn answer(&self, line: &str) {
        line.clone_into(&mut self.answer.lock().expect("nobody panics"));
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn talk(client: TcpStream, says: Arc<Mutex<String>>) {
    let mut client = BufReader::new(client);
    while let Some(words) = command(&mut client).await {
        let answer = match words[0].to_uppercase().as_str() {
            "XADD" => says.lock().expect("nobody panics").clone(),
            "CONFIG" => "-NOPERM this user has no permissions".to_owned(),
            _ => "+OK".to_owned(),
        };
        if client.write_all(format!("{answer}\r\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn command(client: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut words = Vec::new();
    for _ in 0..number(client, '*').await? {
        let mut word = vec![0; number(client, '$').await? + 2];
        client.read_exact(&mut word).await.ok()?;
        words.push(String::from_utf8_lossy(&word).trim_end().to_owned());
    }
    Some(words)
}

async fn number(client: &mut BufReader<TcpStream>, kind: char) -> Option<usize> {
    let mut line = String::new();
    client.read_line(&mut line).await.ok()?;
    line.trim_end().strip_prefix(kind)?.parse().ok()
}
