//! Reads lines of bounded length, and bounds how many of them reach the log.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::time::Instant;

/// One line, without its line break.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// All of it.
    Whole(Vec<u8>),
    /// The beginning of one that is longer than the limit; the next line follows.
    Cut(Vec<u8>),
    /// There are no more.
    End,
}

/// Lines of at most `bytes_max` bytes.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    bytes_max: usize,
    // Whether the rest of a line that was cut is still to be thrown away.
    skipping: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R, bytes_max: usize) -> Self {
        Self { reader: BufReader::new(reader), bytes_max, skipping: false }
    }

    /// The next line. What stands after the last line break counts as a line.
    pub(crate) async fn next(&mut self) -> io::Result<Line> {
        let mut line = Vec::new();
        loop {
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() {
                return Ok(if line.is_empty() { Line::End } else { Line::Whole(line) });
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = end.unwrap_or(chunk.len());
            let consumed = part + usize::from(end.is_some());
            if self.skipping {
                self.skipping = end.is_none();
                self.reader.consume(consumed);
                continue;
            }
            let room = self.bytes_max - line.len();
            line.extend_from_slice(&chunk[..part.min(room)]);
            self.reader.consume(consumed);
            if part > room {
                self.skipping = end.is_none();
                return Ok(Line::Cut(line));
            }
            if end.is_some() {
                return Ok(Line::Whole(line));
            }
        }
    }
}

/// Most lines of one kind that reach the log in a second.
const LOG_LINES_MAX: u32 = 100;

/// Keeps a talkative child from flooding the log.
#[derive(Debug)]
pub(crate) struct Throttle {
    since: Instant,
    logged: u32,
    suppressed: u64,
}

impl Throttle {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), logged: 0, suppressed: 0 }
    }

    /// Whether one more may be logged now; if so, how many were left out before it.
    pub(crate) fn admit(&mut self) -> Option<u64> {
        if self.since.elapsed() >= Duration::from_secs(1) {
            self.since = Instant::now();
            self.logged = 0;
        }
        if self.logged >= LOG_LINES_MAX {
            self.suppressed += 1;
            return None;
        }
        self.logged += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_long_line_is_cut_and_the_next_one_is_whole() {
        for bytes in [0, 3, 4, 5, 9000] {
            let text = format!("a\n{}\n\nlast", "x".repeat(bytes));
            let mut lines = Lines::new(text.as_bytes(), 4);
            let mut next = async || lines.next().await.unwrap();
            assert_eq!(next().await, Line::Whole(b"a".to_vec()));
            let expected = if bytes <= 4 { Line::Whole(vec![b'x'; bytes]) } else { Line::Cut(vec![b'x'; 4]) };
            assert_eq!(next().await, expected, "{bytes} bytes");
            assert_eq!(next().await, Line::Whole(Vec::new()));
            assert_eq!(next().await, Line::Whole(b"last".to_vec()));
            assert_eq!(next().await, Line::End);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_log_gets_a_hundred_lines_a_second_and_then_the_number_left_out() {
        let mut throttle = Throttle::new();
        assert_eq!((0..150).filter(|_| throttle.admit().is_some()).count(), 100);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((throttle.admit(), throttle.admit()), (Some(50), Some(0)));
    }
}
