//! `postroom event export`: writes the log as JSON, oldest first.
//!
//! Rows come in pages. Headers and payloads are not in a list; where they are wanted they are read for many rows at once.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use postroom_admin::view::{Contents, EventRow};
use postroom_admin::{Admin, Page};
use postroom_server::redact::Redaction;
use postroom_server::tail;
use serde::Serialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::actor::actor;
use crate::app::App;
use crate::commands::which::WhichEvents;
use crate::exit::{Exit, Failed, Outcome};
use crate::file::NewFile;
use crate::options::{Reason, StoreArg, help};
use crate::output::{Format, count, note};
use crate::progress::Progress;
use crate::stop;

/// Events of one page.
const PAGE: usize = 500;
/// Bytes of the payloads that are read at once; a larger payload is read alone.
const BYTES_MAX: u64 = 16 << 20;

/// Export events as JSON lines, oldest first
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
    /// Maximum number of events [default: no limit]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Export headers, attributes and correlation ids, too
    #[arg(long)]
    headers: bool,
    /// Export payloads, redacted by `http.redact`, and headers, too
    #[arg(long)]
    payload: bool,
    /// Export payloads without redaction
    #[arg(long, requires = "payload")]
    unredacted: bool,
    /// File to write, readable only by you [default: stdout]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "file")]
    overwrite: bool,
    #[command(flatten)]
    store: StoreArg,
}

/// Event as it is written.
#[derive(Debug, Serialize)]
struct Exported {
    #[serde(flatten)]
    row: EventRow,
    #[serde(flatten)]
    contents: Option<Contents>,
}

/// Number of events written.
#[derive(Debug, Default)]
struct Written {
    events: u64,
    /// Events whose headers and payload could not be read.
    bare: u64,
    /// Position up to which everything was written.
    last: i64,
    /// Whether a signal ended it early.
    interrupted: bool,
}

pub(crate) async fn run(app: &App, args: &ExportArgs) -> Outcome {
    let config = app.config()?;
    let admin = app.open(&config, &args.store).await?.admin();
    let nothing = Redaction::default();
    let redaction = if args.unredacted { &nothing } else { &config.http.redact };
    let array = app.global.output == Format::Json;
    let (stop, whole) = (stop::on_signal()?, details(args));
    if args.payload && !app.global.dry_run {
        let which = args.which.selection().describe();
        admin.note_payloads("payload.export", &which, &actor(&Reason::default())).await?;
    }
    let written = match &args.file {
        _ if app.global.dry_run => {
            export(&*admin, args, redaction, Lines::new(io::sink(), array), false, &stop).await?
        }
        None => export(&*admin, args, redaction, Lines::new(io::stdout(), array), whole, &stop).await?,
        Some(path) => {
            let mut file = NewFile::begin(path, args.overwrite)?;
            let written = export(&*admin, args, redaction, Lines::new(&mut file, array), whole, &stop).await?;
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
    if written.interrupted {
        note(&format!("interrupted; the rest: the same command with --after {last}"))?;
    }
    if written.bare == 0 {
        return Ok(if written.interrupted { Exit::Partly } else { Exit::Done });
    }
    let bare = count(written.bare, "event");
    note(&format!("{bare} without headers and payload: pruned meanwhile, or a later event has the same id"))?;
    Ok(Exit::Partly)
}

fn details(args: &ExportArgs) -> bool {
    args.headers || args.payload
}

/// Exports page by page, up to the end of the log at the start: a busy log has no end. A signal ends it after an event.
async fn export<W: Write>(
    admin: &dyn Admin,
    args: &ExportArgs,
    redaction: &Redaction,
    mut lines: Lines<W>,
    details: bool,
    stop: &CancellationToken,
) -> Result<Written, Failed> {
    let (which, end) = (args.which.selection(), tail::end(admin).await?);
    let mut written = Written { last: args.after, ..Written::default() };
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut progress = Progress::begin();
    while left > 0 && written.last < end {
        let limit = left.min(PAGE);
        let mut rows = admin.events(&which, Page::Oldest { after: written.last, limit }).await?;
        let whole = rows.len() == limit;
        rows.retain(|row| row.position <= end);
        left -= rows.len();
        let last = rows.last().map(|row| row.position);
        while !rows.is_empty() {
            let rest = rows.split_off(portion(&rows));
            let mut contents = if details { admin.contents(&rows, args.payload).await? } else { BTreeMap::new() };
            for row in std::mem::replace(&mut rows, rest) {
                let mut contents = contents.remove(&row.position);
                if let Some(payload) = contents.as_mut().and_then(|contents| contents.payload.as_mut()) {
                    *payload = redaction.apply(&row.event_type, payload.take());
                }
                written.events += 1;
                written.bare += u64::from(details && contents.is_none());
                written.last = row.position;
                lines.write(&Exported { row, contents })?;
                progress.show(|| format!("{}, at position {} of {end}", count(written.events, "event"), written.last));
                if stop.is_cancelled() {
                    written.interrupted = true;
                    lines.finish()?;
                    return Ok(written);
                }
            }
        }
        // With room left everything up to the end has been looked at.
        written.last = if whole { last.unwrap_or(end) } else { end };
    }
    lines.finish()?;
    Ok(written)
}

/// Rows whose payloads fit into memory together, one at least.
fn portion(rows: &[EventRow]) -> usize {
    let mut bytes = 0;
    let fits = |row: &&EventRow| {
        bytes += row.payload_bytes;
        bytes <= BYTES_MAX
    };
    rows.iter().take_while(fits).count().max(1)
}

/// JSON writer: one object per line, or one array.
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
