//! `postroom event export`: the log as JSON, oldest first, to keep or to look through elsewhere.
//!
//! Rows come in pages. Headers and payloads are not in a list, so each event is asked for by itself where they are wanted.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;

use futures_util::{StreamExt, TryStreamExt, stream};
use postroom_core::view::{EventRow, Timeline};
use postroom_core::{Desk, Page, StoreError};
use postroom_server::redact::Redaction;
use postroom_server::tail;
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::args::{StoreArg, help};
use crate::commands::which::WhichEvents;
use crate::exit::{Exit, Failed, Outcome};
use crate::file::{self, NewFile};
use crate::output::{Format, count, note};

/// Events of one look; with their payloads the most that are in memory.
const PAGE: usize = 500;
/// Events asked for at the same time.
const AT_ONCE: usize = 8;

/// Write events as JSON lines, oldest first
#[derive(Debug, clap::Args)]
#[command(after_help = help!(export:
    "postroom event export --from 1h > events.jsonl",
    "postroom event export --type 'order.*' --payload --file orders.jsonl",
    "postroom event export --after 1200 --limit 100 -o json",
))]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    which: WhichEvents,
    /// Only events after this position
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    after: i64,
    /// Most events [default: all there are]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Also headers, attributes and correlation; slower, each event is asked for by itself
    #[arg(long)]
    headers: bool,
    /// Also payloads, less what `http.redact` names, and headers; slower, each event is asked for by itself
    #[arg(long)]
    payload: bool,
    /// Leave nothing out of payloads
    #[arg(long, requires = "payload")]
    unredacted: bool,
    /// Write to this file, which only you may read [default: stdout]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long, requires = "file")]
    overwrite: bool,
    #[command(flatten)]
    store: StoreArg,
}

/// One event as it is written.
#[derive(Debug, Serialize)]
struct Exported {
    #[serde(flatten)]
    row: EventRow,
    #[serde(flatten)]
    details: Option<Details>,
}

/// What only the event itself tells.
#[derive(Debug, Serialize)]
struct Details {
    content_type: String,
    schema_version: i32,
    correlation_id: String,
    causation_id: Option<String>,
    headers: BTreeMap<String, String>,
    attributes: BTreeMap<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Value>,
}

/// How much was written.
#[derive(Debug, Default)]
struct Written {
    events: u64,
    /// Events whose headers and payload could not be had.
    bare: u64,
    last: i64,
}

pub(crate) async fn run(app: &App, args: &ExportArgs) -> Outcome {
    let config = app.config()?;
    let desk = app.open(&config, &args.store).await?.desk();
    let nothing = Redaction::default();
    let redaction = if args.unredacted { &nothing } else { &config.http.redact };
    let array = app.global.output == Format::Json;
    let written = match &args.file {
        _ if app.global.dry_run => export(&*desk, args, redaction, Lines::new(io::sink(), array), false).await?,
        None => export(&*desk, args, redaction, Lines::new(io::stdout(), array), details(args)).await?,
        Some(path) => {
            let mut file = NewFile::begin(path, args.overwrite)?;
            let lines = Lines::new(&mut file, array);
            let written = file::unless_stopped(export(&*desk, args, redaction, lines, details(args))).await??;
            file.finish()?;
            written
        }
    };
    let (events, last) = (count(written.events, "event"), written.last);
    let said = match &args.file {
        _ if app.global.dry_run => format!("would write {events}, up to position {last}"),
        Some(path) => format!("wrote {events} to {}, up to position {last}", path.display()),
        None => format!("wrote {events}, up to position {last}"),
    };
    if args.file.is_some() || app.global.dry_run {
        let answer = json!({ "file": args.file, "events": written.events, "last_position": last });
        app.global.output.one(&answer, || said)?;
    } else {
        note(&said)?;
    }
    if written.bare == 0 {
        return Ok(Exit::Done);
    }
    let bare = count(written.bare, "event");
    note(&format!("{bare} without headers and payload: pruned meanwhile, or a later event has the same id"))?;
    Ok(Exit::Partly)
}

fn details(args: &ExportArgs) -> bool {
    args.headers || args.payload
}

/// Page by page, up to where the log ended when it began: a busy log has no end.
async fn export<W: Write>(
    desk: &dyn Desk,
    args: &ExportArgs,
    redaction: &Redaction,
    mut lines: Lines<W>,
    details: bool,
) -> Result<Written, Failed> {
    let (which, end) = (args.which.selection(), tail::end(desk).await?);
    let mut written = Written { last: args.after, ..Written::default() };
    let mut left = args.limit.unwrap_or(usize::MAX);
    let progress = io::stderr().is_terminal();
    while left > 0 && written.last < end {
        let limit = left.min(PAGE);
        let mut rows = desk.events(&which, Page::Oldest { after: written.last, limit }).await?;
        let whole = rows.len() == limit;
        rows.retain(|row| row.position <= end);
        left -= rows.len();
        let last = rows.last().map(|row| row.position);
        let asked = rows.into_iter().map(|row| exported(desk, row, details, args.payload, redaction));
        let mut events = stream::iter(asked).buffered(AT_ONCE);
        while let Some(event) = events.try_next().await? {
            written.events += 1;
            written.bare += u64::from(details && event.details.is_none());
            lines.write(&event)?;
        }
        // With room left everything up to the end has been looked at.
        written.last = if whole { last.unwrap_or(end) } else { end };
        if progress {
            write!(io::stderr(), "\r{}, at position {} of {end}\x1b[K", count(written.events, "event"), written.last)?;
        }
    }
    if progress {
        write!(io::stderr(), "\r\x1b[K")?;
    }
    lines.finish()?;
    Ok(written)
}

async fn exported(
    desk: &dyn Desk,
    row: EventRow,
    details: bool,
    payload: bool,
    redaction: &Redaction,
) -> Result<Exported, StoreError> {
    let found = if details { desk.event(&row.id, payload).await? } else { None };
    // An id may stand twice in a log; what another event says is not this one's.
    let found = found.filter(|found| found.event.position == row.position);
    Ok(Exported { row, details: found.map(|found| told(found, redaction)) })
}

fn told(found: Timeline, redaction: &Redaction) -> Details {
    let kind = &found.event.event_type;
    Details {
        payload: found.payload.map(|payload| redaction.apply(kind, payload)),
        content_type: found.content_type,
        schema_version: found.schema_version,
        correlation_id: found.correlation_id,
        causation_id: found.causation_id,
        headers: found.headers,
        attributes: found.attributes,
    }
}

/// JSON, one object a line; as an array if somebody wants one value.
struct Lines<W: Write> {
    to: BufWriter<W>,
    array: bool,
    first: bool,
}

impl<W: Write> Lines<W> {
    fn new(to: W, array: bool) -> Self {
        Self { to: BufWriter::new(to), array, first: true }
    }

    fn write(&mut self, event: &Exported) -> io::Result<()> {
        match (self.array, self.first) {
            (true, true) => self.to.write_all(b"[\n")?,
            (true, false) => self.to.write_all(b",\n")?,
            (false, true) => {}
            (false, false) => self.to.write_all(b"\n")?,
        }
        self.first = false;
        Ok(serde_json::to_writer(&mut self.to, event)?)
    }

    fn finish(mut self) -> io::Result<()> {
        match (self.array, self.first) {
            (true, true) => self.to.write_all(b"[]\n")?,
            (true, false) => self.to.write_all(b"\n]\n")?,
            (false, true) => {}
            (false, false) => self.to.write_all(b"\n")?,
        }
        self.to.flush()
    }
}
