//! One conversation with a child or a socket: lines go in without waiting, answers come out, and it ends once.
//!
//! Knows nothing of deliveries: who waits for which answer, and what an end means, is [`crate::deliver`]'s business.

use std::fmt;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::unistd::Uid;
use postroom_core::Failure;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::ChildStderr;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::LOG;
use crate::lines::{Line, Lines, Throttle};
use crate::options::{ExecOptions, Target};
use crate::process::Process;
use crate::protocol::{self, ANSWER_BYTES_MAX, Answer};

/// How long the pipes of a child that has ended may still give answers, and its exit may lag behind its pipes.
const LAG_MAX: Duration = Duration::from_secs(1);
/// Longest line of stderr that is logged, in bytes; the rest of it is left out.
const LOG_LINE_BYTES_MAX: usize = 4096;
/// Answers read ahead of the one who waits for them.
const ANSWERS_AHEAD: usize = 64;

/// Why a conversation is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It answers no more: it died, or closed its output.
    OutputClosed,
    /// It reads no more.
    InputClosed,
    /// It broke the protocol with an answer over the limit.
    AnswerTooLong,
    /// Its output cannot be read.
    Unreadable(String),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutputClosed => f.write_str("closed its output"),
            Self::InputClosed => f.write_str("closed its input"),
            Self::AnswerTooLong => write!(f, "answered with a line of more than {ANSWER_BYTES_MAX} bytes"),
            Self::Unreadable(why) => write!(f, "could not be read: {why}"),
        }
    }
}

/// A child's input, to ask how much of it lies unread.
#[derive(Debug)]
struct Input {
    // Another hold on the end we write to: the pipe must outlive the task that writes.
    pipe: OwnedFd,
    sent: usize,
    written: Arc<AtomicUsize>,
}

/// Fails unless the listener of a socket runs as a user who may have the events.
pub(crate) fn trusted(stream: &UnixStream, options: &ExecOptions) -> Result<(), Failure> {
    let refused = |why: String| Failure::unavailable("exec.not_trusted", format!("{} {why}", options.target));
    let listener = stream.peer_cred().map_err(|e| refused(format!("does not say who listens: {e}")))?.uid();
    if [Some(0), Some(Uid::effective().as_raw()), options.socket_user].contains(&Some(listener)) {
        return Ok(());
    }
    let why = format!("gets no event: its listener is user {listener}, not root, the relay's user or `socket_user`");
    Err(refused(why))
}

/// An open conversation. When dropped, everything of it ends.
#[derive(Debug)]
pub(crate) struct Connection {
    // Unbounded, so that a child that does not read blocks nobody; the caller's window bounds what is in it.
    lines: Option<mpsc::UnboundedSender<Arc<[u8]>>>,
    input: Option<Input>,
    // Bytes of lines that have left us.
    written: Arc<AtomicUsize>,
    answers: mpsc::Receiver<Result<Answer, Ending>>,
    process: Option<Process>,
    // Set once the child has exited: until then what it left in the pipe is still read.
    exited: Option<Instant>,
    stderr: Option<JoinHandle<()>>,
    _tasks: JoinSet<()>,
}

impl Connection {
    /// How many bytes of what was sent a child has not read; nothing where that cannot be known, as of a socket.
    pub(crate) fn unread(&self) -> Option<usize> {
        let Input { pipe, sent, written } = self.input.as_ref()?;
        let in_pipe = rustix::io::ioctl_fionread(pipe).ok()?;
        Some(sent - written.load(Ordering::Acquire) + usize::try_from(in_pipe).ok()?)
    }

    /// Starts the child, or connects to the socket.
    pub(crate) async fn open(options: &ExecOptions) -> Result<Self, Failure> {
        match &options.target {
            Target::Command(command) => {
                let (process, pipes) = Process::start(command, &options.environment)?;
                let pipe = pipes.stdin.as_fd().try_clone_to_owned();
                let mut connection = Self::over(pipes.stdout, pipes.stdin, &options.route);
                let written = Arc::clone(&connection.written);
                connection.input = pipe.ok().map(|pipe| Input { pipe, sent: 0, written });
                connection.process = Some(process);
                connection.stderr = Some(tokio::spawn(log_stderr(pipes.stderr, options.route.clone())));
                Ok(connection)
            }
            Target::Socket(path) => {
                let unreachable = |why: String| {
                    Failure::unavailable("exec.unreachable", format!("{} is not reachable: {why}", options.target))
                };
                let stream = timeout(options.timeout, UnixStream::connect(path))
                    .await
                    .map_err(|_| unreachable("no answer".to_owned()))?
                    .map_err(|e| unreachable(e.to_string()))?;
                trusted(&stream, options)?;
                let (output, input) = stream.into_split();
                Ok(Self::over(output, input, &options.route))
            }
        }
    }

    fn over<R, W>(output: R, input: W, route: &str) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (lines, to_write) = mpsc::unbounded_channel();
        let (answered, answers) = mpsc::channel(ANSWERS_AHEAD);
        let mut tasks = JoinSet::new();
        let written = Arc::default();
        tasks.spawn(write(input, to_write, Arc::clone(&written), answered.clone()));
        tasks.spawn(read(output, answered, route.to_owned()));
        let lines = Some(lines);
        Self { lines, input: None, written, answers, process: None, exited: None, stderr: None, _tasks: tasks }
    }

    /// Puts a line on its way. If it cannot be written any more, [`Connection::next`] says so.
    pub(crate) fn send(&mut self, line: Arc<[u8]>) {
        if let Some(input) = &mut self.input {
            input.sent += line.len();
        }
        if let Some(lines) = &self.lines {
            let _ = lines.send(line);
        }
    }

    /// The next answer, or why there will be none. May be cancelled and called again.
    pub(crate) async fn next(&mut self) -> Result<Answer, Ending> {
        loop {
            let answer = match (&mut self.process, self.exited) {
                (_, Some(at)) => timeout_at(at + LAG_MAX, self.answers.recv()).await.unwrap_or(None),
                (None, None) => self.answers.recv().await,
                (Some(process), None) => tokio::select! {
                    answer = self.answers.recv() => answer,
                    _ = process.exited() => {
                        self.exited = Some(Instant::now());
                        continue;
                    }
                },
            };
            return answer.unwrap_or(Err(Ending::OutputClosed));
        }
    }

    /// Says that no more lines follow, once those on their way are written.
    pub(crate) fn close_input(&mut self) {
        self.lines = None;
        self.input = None;
    }

    /// Ends it because of what [`Connection::next`] said; the text says how, for people.
    pub(crate) async fn ended(self, ending: &Ending) -> String {
        let patience = if *ending == Ending::OutputClosed { LAG_MAX } else { Duration::ZERO };
        if self.process.is_none() {
            return format!("the peer {ending}");
        }
        match (self.end(patience).await, ending) {
            (Some(status), Ending::OutputClosed | Ending::InputClosed) => format!("the child ended with {status}"),
            _ => format!("the child {ending} and was killed"),
        }
    }

    /// Ends it, with so much time to leave by itself.
    pub(crate) async fn end(mut self, grace: Duration) -> Option<std::process::ExitStatus> {
        let process = self.process.take()?;
        let status = process.end(grace).await;
        if let Some(mut stderr) = self.stderr.take() {
            // Its last words are the ones people need.
            if timeout(LAG_MAX, &mut stderr).await.is_err() {
                stderr.abort();
            }
        }
        status
    }
}

async fn write<W: AsyncWrite + Unpin>(
    mut input: W,
    mut lines: mpsc::UnboundedReceiver<Arc<[u8]>>,
    written: Arc<AtomicUsize>,
    answered: mpsc::Sender<Result<Answer, Ending>>,
) {
    while let Some(line) = lines.recv().await {
        if write_line(&mut input, &line, &written).await.is_err() {
            // Answers it has already given come first; usually the end of its output follows them.
            sleep(LAG_MAX).await;
            let _ = answered.send(Err(Ending::InputClosed)).await;
            return;
        }
    }
    let _ = input.shutdown().await;
}

async fn write_line<W: AsyncWrite + Unpin>(
    input: &mut W,
    mut line: &[u8],
    written: &AtomicUsize,
) -> std::io::Result<()> {
    while !line.is_empty() {
        let count = input.write(line).await?;
        written.fetch_add(count, Ordering::AcqRel);
        line = line.get(count..).unwrap_or_default();
    }
    Ok(())
}

async fn read<R: AsyncRead + Unpin>(output: R, answered: mpsc::Sender<Result<Answer, Ending>>, route: String) {
    let mut lines = Lines::new(output, ANSWER_BYTES_MAX);
    let mut throttle = Throttle::new();
    loop {
        let said = match lines.next().await {
            Ok(Line::Whole(line)) => match protocol::answer(&line) {
                Ok(answer) => Ok(answer),
                Err(why) => {
                    if let Some(suppressed) = throttle.admit() {
                        tracing::warn!(
                            target: LOG, route, bytes = line.len(), suppressed,
                            "line that is not an answer ignored: {why}"
                        );
                    }
                    continue;
                }
            },
            Ok(Line::Cut(_)) => Err(Ending::AnswerTooLong),
            Ok(Line::End) => Err(Ending::OutputClosed),
            Err(e) => Err(Ending::Unreadable(e.to_string())),
        };
        let over = said.is_err();
        if answered.send(said).await.is_err() || over {
            return;
        }
    }
}

async fn log_stderr(stderr: ChildStderr, route: String) {
    let mut lines = Lines::new(stderr, LOG_LINE_BYTES_MAX);
    let mut throttle = Throttle::new();
    while let Ok(Line::Whole(line) | Line::Cut(line)) = lines.next().await {
        if let Some(suppressed) = throttle.admit() {
            // Control characters could forge lines or colours in a terminal.
            let text: String =
                String::from_utf8_lossy(&line).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            tracing::info!(target: LOG, route, suppressed, line = text.trim_end(), "stderr");
        }
    }
}
