//! Between those who log and who reads it: a bounded queue and a thread that writes.
//!
//! A reader that has stopped, or a disk that is full, costs lines and nothing else. Those are counted, and when writing
//! works again a line says how many there were.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use postroom_server::metrics::Counter;

/// Most bytes that wait.
const WAITING_BYTES_MAX: usize = 1024 * 1024;

/// Lines on their way.
#[derive(Debug, Default)]
pub(super) struct Queue {
    lines: Mutex<Lines>,
    /// Something came, or everything went.
    changed: Condvar,
    dropped: AtomicU64,
    counter: OnceLock<Counter>,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Whether one is being written.
    writing: bool,
}

impl Queue {
    /// One whose lines are written there.
    pub(super) fn start(to: impl Write + Send + 'static) -> io::Result<Arc<Self>> {
        let queue = Arc::<Self>::default();
        let writer = Writer { queue: Arc::clone(&queue), to, told: 0, torn: false };
        std::thread::Builder::new().name("log".to_owned()).spawn(move || writer.run())?;
        Ok(queue)
    }

    /// Takes a line, or drops it when there is no room.
    pub(super) fn push(&self, line: Vec<u8>) {
        let mut lines = self.lock();
        if lines.bytes + line.len() > WAITING_BYTES_MAX {
            drop(lines);
            return self.lost();
        }
        lines.bytes += line.len();
        lines.waiting.push_back(line);
        drop(lines);
        self.changed.notify_all();
    }

    /// Waits until everything is written, but not longer than this.
    pub(super) fn flush(&self, most: Duration) {
        let busy = |lines: &mut Lines| lines.writing || !lines.waiting.is_empty();
        // What is not written by then is lost with the process.
        let _ = self.changed.wait_timeout_while(self.lock(), most, busy);
    }

    pub(super) fn count_dropped(&self, counter: Counter) {
        self.counter.get_or_init(|| counter).absolute(self.dropped.load(Ordering::Relaxed));
    }

    fn lost(&self) {
        let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(counter) = self.counter.get() {
            counter.absolute(dropped);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes one line after the other, on a thread of its own.
struct Writer<W> {
    queue: Arc<Queue>,
    to: W,
    /// How many dropped lines have been told of.
    told: u64,
    /// Whether a part of a line was written last.
    torn: bool,
}

impl<W: Write> Writer<W> {
    fn run(mut self) {
        loop {
            let line = self.next();
            match self.write(&line) {
                Ok(()) => self.tell(),
                Err(_) => self.queue.lost(),
            }
        }
    }

    fn next(&self) -> Vec<u8> {
        let mut lines = self.queue.lock();
        lines.writing = false;
        self.queue.changed.notify_all();
        loop {
            if let Some(line) = lines.waiting.pop_front() {
                lines.bytes -= line.len();
                lines.writing = true;
                return line;
            }
            lines = self.queue.changed.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.torn {
            self.to.write_all(b"\n")?;
            self.torn = false;
        }
        let mut rest = line;
        while !rest.is_empty() {
            match self.to.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    rest = &rest[written..];
                    self.torn = !rest.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Says how many lines were dropped, once everything else is written: by then there is room for one more.
    fn tell(&mut self) {
        let dropped = self.queue.dropped.load(Ordering::Relaxed);
        if dropped > self.told && self.queue.lock().waiting.is_empty() {
            let lines = dropped - self.told;
            self.told = dropped;
            tracing::warn!(lines, "log lines dropped: they could not be written");
        }
    }
}

/// Takes a line at a time, which is how they are formatted.
impl Write for &Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line.to_owned());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    /// Writes what it is allowed to: so many bytes, or an error.
    struct Allowed {
        next: mpsc::Receiver<io::Result<usize>>,
        written: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Allowed {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let most = self.next.recv().unwrap()?.min(bytes.len());
            self.written.send(bytes[..most].to_owned()).unwrap();
            Ok(most)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn allowed() -> (Arc<Queue>, mpsc::Sender<io::Result<usize>>, mpsc::Receiver<Vec<u8>>) {
        let (allow, next) = mpsc::channel();
        let (written, seen) = mpsc::channel();
        (Queue::start(Allowed { next, written }).unwrap(), allow, seen)
    }

    fn dropped(queue: &Queue) -> u64 {
        queue.dropped.load(Ordering::Relaxed)
    }

    #[test]
    fn who_logs_never_waits_and_what_finds_no_room_is_counted() {
        let (queue, allow, seen) = allowed();
        let line = vec![b'x'; WAITING_BYTES_MAX / 4];
        // Nobody lets the writer write: at most one is with it, and four wait.
        for _ in 0..10 {
            queue.push(line.clone());
        }
        let lost = dropped(&queue);
        assert!((5..=6).contains(&lost), "{lost} of 10");
        for _ in lost..10 {
            allow.send(Ok(usize::MAX)).unwrap();
        }
        queue.flush(LONG);
        assert_eq!((seen.try_iter().count() as u64, dropped(&queue)), (10 - lost, lost));
    }

    #[test]
    fn a_line_that_cannot_be_written_is_counted_and_the_next_one_is_whole() {
        let (queue, allow, seen) = allowed();
        let full = || Err(io::ErrorKind::StorageFull.into());
        for one in [Ok(2), full(), full(), Ok(1), Ok(4)] {
            allow.send(one).unwrap();
        }
        for line in [b"one\n", b"two\n", b"six\n"] {
            queue.push(line.to_vec());
        }
        queue.flush(LONG);
        let text: Vec<u8> = seen.try_iter().flatten().collect();
        assert_eq!((String::from_utf8(text).unwrap().as_str(), dropped(&queue)), ("on\nsix\n", 2));
    }

    #[test]
    fn a_flush_does_not_wait_for_ever() {
        let (queue, _allow, _seen) = allowed();
        queue.push(b"one\n".to_vec());
        queue.flush(Duration::from_millis(1));
        assert!(queue.lock().writing || !queue.lock().waiting.is_empty());
    }

    #[cfg(feature = "http")]
    #[test]
    fn what_was_dropped_before_anybody_counted_is_counted() {
        let queue = Queue::default();
        queue.lost();
        let count = Arc::new(AtomicU64::new(0));
        queue.count_dropped(Counter::from_arc(Arc::clone(&count)));
        queue.lost();
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }
}
