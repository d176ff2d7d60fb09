//! What stdout is written for: its width, its colours, and how lists tell times. Decided once, from the terminal and the options.

use std::io::{self, IsTerminal as _};
use std::sync::OnceLock;

use clap::ValueEnum;

use crate::options::Global;
use crate::output::Format;

static SCREEN: OnceLock<Screen> = OnceLock::new();

/// How lists show times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Times {
    // `3m ago`. Plain comments here, or clap makes every --help twice as long.
    Age,
    // RFC 3339.
    Utc,
}

/// Properties of stdout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    /// Columns that a table may have; `None` is no limit.
    pub(crate) width: Option<usize>,
    /// Whether colours may be used.
    pub(crate) colourful: bool,
    /// How lists show times.
    pub(crate) times: Times,
}

impl Screen {
    /// A file or a pipe: everything in full, for programs.
    const PLAIN: Self = Self { width: None, colourful: false, times: Times::Utc };

    /// Decides for this process, once.
    pub(crate) fn decide(global: &Global) {
        let mut screen = Self::of_stdout();
        if global.output == Format::Wide {
            screen.width = None;
        }
        screen.times = global.time.unwrap_or(screen.times);
        SCREEN.get_or_init(|| screen);
    }

    /// Returns what was decided for this process.
    pub(crate) fn get() -> Self {
        SCREEN.get().copied().unwrap_or(Self::PLAIN)
    }

    fn of_stdout() -> Self {
        let stdout = io::stdout();
        if !stdout.is_terminal() {
            return Self::PLAIN;
        }
        // A terminal that does not know its size says 0.
        let width = terminal_size::terminal_size_of(&stdout).map(|(width, _)| usize::from(width.0));
        Self {
            width: width.filter(|width| *width > 0),
            colourful: std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
            times: Times::Age,
        }
    }
}
