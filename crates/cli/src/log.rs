//! Log lines on stderr: for people on a terminal, JSON elsewhere; `RUST_LOG` decides when it is set.

mod queue;

use std::io::{self, IsTerminal};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics::Counter;
use postroom_server::config::{LogConfig, LogFormat};
use tracing_subscriber::EnvFilter;

use queue::Queue;

/// How long an end waits until everything is written.
const FLUSH: Duration = Duration::from_secs(1);

static QUEUE: OnceLock<Arc<Queue>> = OnceLock::new();

/// Starts logging; a second start changes nothing. Whoever logs never waits for whoever reads: see [`queue`].
pub(crate) fn start(config: LogConfig) -> io::Result<()> {
    if QUEUE.get().is_some() {
        return Ok(());
    }
    let queue = Queue::start(io::stderr())?;
    let writer = QUEUE.get_or_init(|| queue);
    let terminal = io::stderr().is_terminal();
    let json = match config.format {
        LogFormat::Auto => !terminal,
        LogFormat::Human => false,
        LogFormat::Json => true,
    };
    let lines = tracing_subscriber::fmt().with_env_filter(filter(config.level)).with_writer(Arc::clone(writer));
    // A failed start means that somebody logs already, which is as good.
    let _ = if json {
        lines.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
    } else {
        let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        lines.with_ansi(colour).with_target(false).try_init()
    };
    Ok(())
}

/// From now on what is dropped is counted here, and what was.
pub(crate) fn count_dropped(counter: Counter) {
    if let Some(queue) = QUEUE.get() {
        queue.count_dropped(counter);
    }
}

/// Says something to people: behind the log lines, or at once where there are none.
pub(crate) fn say(text: &[u8]) {
    use io::Write as _;
    match QUEUE.get() {
        Some(queue) => queue.push(text.to_owned()),
        // With stderr gone there is nobody left to tell; the code still says it.
        None => drop(io::stderr().write_all(text)),
    }
}

/// Waits, for a moment, until everything is written.
pub(crate) fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(FLUSH);
    }
}

fn filter(level: &str) -> EnvFilter {
    match std::env::var("RUST_LOG") {
        Ok(wish) if !wish.is_empty() => EnvFilter::new(wish),
        // The database driver tells every statement at debug; what it means is in our own lines. So is every end of a
        // NATS connection, which its client reports as a failed attempt to reconnect, which it was not allowed.
        _ => EnvFilter::new(format!("{level},sqlx=warn,async_nats=off")),
    }
}
