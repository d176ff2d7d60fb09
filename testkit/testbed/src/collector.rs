//! A collector of traces: takes what is posted to it over HTTP, and keeps it.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a server that does not start fails the test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use super::PATIENCE;

/// One that runs as long as the test.
#[derive(Debug)]
pub struct Collector {
    /// Where it listens.
    pub address: String,
    requests: mpsc::Receiver<Posted>,
}

/// A request, as it came.
#[derive(Debug)]
pub struct Posted {
    /// Method, path and headers, in lower case.
    pub head: String,
    /// What was posted.
    pub body: Vec<u8>,
}

impl Collector {
    /// Starts one.
    pub fn start() -> Self {
        Self::at("127.0.0.1:0")
    }

    /// Starts one at an address that is free.
    pub fn at(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (taken, requests) = mpsc::channel();
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let taken = taken.clone();
                thread::spawn(move || answer(stream, &taken));
            }
        });
        Self { address, requests }
    }

    /// What is posted next.
    pub fn next(&self) -> Posted {
        self.requests.recv_timeout(PATIENCE).unwrap()
    }

    /// What has been posted since it was asked last: all of a program that has ended.
    pub fn taken(&self) -> Vec<Posted> {
        self.requests.try_iter().collect()
    }
}

/// Takes one request after the other, until whoever posts has gone.
fn answer(mut stream: TcpStream, taken: &mpsc::Sender<Posted>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        taken.send(Posted { head, body }).ok()?;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
    }
}
