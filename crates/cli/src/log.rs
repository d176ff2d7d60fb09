//! Log lines on stderr: for people on a terminal, JSON elsewhere; `RUST_LOG` decides when it is set.

mod queue;

use std::io::{self, IsTerminal};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use postroom_server::config::{LogConfig, LogFormat};
use postroom_server::metrics::Counter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{fmt, registry};

use crate::when;
use queue::Queue;

/// Time that an exit waits until all lines are written.
const FLUSH: Duration = Duration::from_secs(1);

static QUEUE: OnceLock<Arc<Queue>> = OnceLock::new();

/// Starts logging; a second start changes nothing. Logging never waits for the reader of stderr: see [`queue`].
pub(crate) fn start(config: LogConfig) -> io::Result<()> {
    if QUEUE.get().is_some() {
        return Ok(());
    }
    let queue = Queue::start(io::stderr())?;
    let writer = QUEUE.get_or_init(|| queue);
    let terminal = io::stderr().is_terminal();
    let lines = fmt::layer().with_writer(Arc::clone(writer));
    let lines = if is_json(config, terminal) {
        lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
    } else if terminal {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        lines.with_ansi(colour).with_target(false).with_timer(Clock).boxed()
    } else {
        lines.with_ansi(false).with_target(false).boxed()
    };
    // A failed start means that somebody logs already, which is as good.
    let _ = registry().with(lines).with(filter(config.level)).try_init();
    Ok(())
}

/// Reports whether somebody reads the log on a terminal.
pub(crate) fn is_watched(config: LogConfig) -> bool {
    let terminal = io::stderr().is_terminal();
    terminal && !is_json(config, terminal)
}

fn is_json(config: LogConfig, terminal: bool) -> bool {
    match config.format {
        LogFormat::Auto => !terminal,
        LogFormat::Human => false,
        LogFormat::Json => true,
    }
}

/// Time of a line on a terminal: that of the clock on the wall.
struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, to: &mut Writer<'_>) -> std::fmt::Result {
        to.write_str(&when::on_the_wall())
    }
}

/// Counts dropped lines in this counter, including those dropped so far.
pub(crate) fn count_dropped(counter: Counter) {
    if let Some(queue) = QUEUE.get() {
        queue.count_dropped(counter);
    }
}

/// Prints a text for people: behind the log lines, or at once if logging is off.
pub(crate) fn say(text: &[u8]) {
    use io::Write as _;
    match QUEUE.get() {
        Some(queue) => queue.push(text.to_owned()),
        // With stderr gone there is nobody left to tell; the code still says it.
        None => drop(io::stderr().write_all(text)),
    }
}

/// Waits briefly until all lines are written.
pub(crate) fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(FLUSH);
    }
}

fn filter(level: &str) -> Targets {
    match std::env::var("RUST_LOG") {
        Ok(wish) if !wish.is_empty() => {
            let (targets, ignored) = wished(&wish);
            for part in ignored {
                say(format!("warning: {part:?} in RUST_LOG is neither LEVEL nor TARGET=LEVEL; it is ignored\n")
                    .as_bytes());
            }
            targets
        }
        // The database driver tells every statement at debug; what it means is in our own lines. So is every end of a
        // NATS connection, which its client reports as a failed attempt to reconnect, which it was not allowed.
        _ => wished(&format!("{level},sqlx=warn,async_nats=off")).0,
    }
}

/// Parses the directives of `RUST_LOG`, and returns those that are not valid.
fn wished(wish: &str) -> (Targets, Vec<&str>) {
    let parts = wish.split(',').map(str::trim).filter(|part| !part.is_empty());
    let (read, ignored): (Vec<_>, _) = parts.partition(|part| part.parse::<Targets>().is_ok());
    (read.join(",").parse().unwrap_or_default(), ignored)
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::filter::LevelFilter;

    use super::*;

    fn check(wish: &str, target: &str) -> LevelFilter {
        let shown =
            |level: &LevelFilter| level.into_level().is_some_and(|level| wished(wish).0.would_enable(target, &level));
        let levels = [LevelFilter::TRACE, LevelFilter::DEBUG, LevelFilter::INFO, LevelFilter::WARN, LevelFilter::ERROR];
        levels.into_iter().find(shown).unwrap_or(LevelFilter::OFF)
    }

    #[test]
    fn a_wish_is_a_level_and_levels_of_targets_in_any_order_and_case() {
        let wish = "postroom::contracts=trace, sqlx=off,INFO";
        assert_eq!(check(wish, "postroom::contracts"), LevelFilter::TRACE);
        assert_eq!(check(wish, "sqlx::query"), LevelFilter::OFF);
        assert_eq!(check(wish, "hyper"), LevelFilter::INFO);
        assert_eq!(check("postroom=debug", "hyper"), LevelFilter::OFF);
    }

    #[test]
    fn what_cannot_be_read_takes_nothing_else_with_it() {
        assert_eq!(wished("debug,sqlx=loud,a=b=c").1, ["sqlx=loud", "a=b=c"]);
        assert_eq!(check("debug,sqlx=loud", "sqlx"), LevelFilter::DEBUG);
    }
}
