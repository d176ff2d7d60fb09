//! Log lines on stderr: for people on a terminal, JSON elsewhere; `RUST_LOG` decides when it is set.

use std::io::{self, IsTerminal};

use postroom_server::config::{LogConfig, LogFormat};
use tracing_subscriber::EnvFilter;

/// Starts logging; a second start changes nothing.
pub(crate) fn start(config: LogConfig) {
    let terminal = io::stderr().is_terminal();
    let json = match config.format {
        LogFormat::Auto => !terminal,
        LogFormat::Human => false,
        LogFormat::Json => true,
    };
    let lines = tracing_subscriber::fmt().with_env_filter(filter(config.level)).with_writer(io::stderr);
    // A failed start means that somebody logs already, which is as good.
    let _ = if json {
        lines.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
    } else {
        let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        lines.with_ansi(colour).with_target(false).try_init()
    };
}

fn filter(level: &str) -> EnvFilter {
    match std::env::var("RUST_LOG") {
        Ok(wish) if !wish.is_empty() => EnvFilter::new(wish),
        // The database driver tells every statement at debug; what it means is in our own lines. So is every end of a
        // NATS connection, which its client reports as a failed attempt to reconnect, which it was not allowed.
        _ => EnvFilter::new(format!("{level},sqlx=warn,async_nats=off")),
    }
}
