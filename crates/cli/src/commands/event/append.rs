//! `postroom event append`: one event from options, or many from JSON lines in one transaction.

use std::io::{self, Read};

use jiff::Timestamp;
use postroom_core::units::parse_ahead;
use postroom_core::{Desk, Event, JSON, Limits};
use postroom_server::config::Config;
use postroom_server::transports;
use serde_json::{Value, json};

use crate::app::{self, App};
use crate::args::{StoreArg, help};
use crate::exit::{Exit, Failed, Outcome};
use crate::lines;
use crate::output::{Format, Table, count, note, print_lines};
use crate::traces::Traces;

/// Append an event, or with `-` JSON lines from stdin in one transaction; prints the ids
#[derive(Debug, clap::Args)]
#[command(after_help = help!(append:
    r#"postroom event append --type order.placed --key order-7 --payload '{"total":12}'"#,
    "postroom event append --type order.reminder --key order-7 --available-at 10m",
    "cat events.jsonl | postroom event append -",
))]
pub(crate) struct AppendArgs {
    /// Read events from stdin, one JSON object a line
    #[arg(value_name = "-", value_parser = ["-"], conflicts_with_all = [
        "event_type", "key", "aggregate_type", "aggregate_id", "tenant", "headers", "attributes", "id", "available_at", "payload",
    ])]
    lines: Option<String>,
    /// What happened, for instance order.placed
    #[arg(long = "type", value_name = "TYPE", required_unless_present = "lines")]
    event_type: Option<String>,
    /// Events with the same key are delivered in order
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Whose event: the kind of thing
    #[arg(long, value_name = "NAME")]
    aggregate_type: Option<String>,
    /// Whose event: which one; the key unless one is given
    #[arg(long, value_name = "ID")]
    aggregate_id: Option<String>,
    /// Tenant
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// A header that travels with the event
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
    headers: Vec<(String, String)>,
    /// A scope field, as text
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = pair)]
    attributes: Vec<(String, String)>,
    /// The event's id [default: a new one]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Not to be delivered before: RFC 3339, or how long from now (10m)
    #[arg(long, value_name = "TIME", value_parser = parse_ahead)]
    available_at: Option<Timestamp>,
    /// The payload as JSON, or `-` for stdin [default: null]
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    payload: Option<String>,
    #[command(flatten)]
    store: StoreArg,
}

pub(crate) async fn run(app: &App, args: AppendArgs) -> Outcome {
    let config = app.config()?;
    let limits = config.limits;
    let store = args.store.clone();
    let single = args.lines.is_none();
    let meant = app::meant(&config, &store)?;
    let check = |event: &Event| transports::check(&config, meant, event);
    let events = if single {
        let event = one(args, limits)?;
        check(&event)?;
        vec![event]
    } else {
        lines::read(io::stdin().lock(), limits, check)?
    };
    if app.global.dry_run {
        note(&format!("would append {}; nothing was appended", count(events.len() as u64, "event")))?;
        return Ok(Exit::Done);
    }
    let desk = app.open(&config, &store).await?.desk();
    let ids = if events.is_empty() { Vec::new() } else { traced(&config, &meant.name, &*desk, events).await? };
    let rows: Vec<Value> = ids.iter().map(|id| json!({ "id": id })).collect();
    let printed = match (app.global.output, rows.as_slice()) {
        (Format::Table, _) => print_lines(ids.into_iter().map(Ok)),
        (Format::Json, [row]) if single => Format::Json.one(row, String::new),
        (format, rows) => format.list(rows, || Table::new(&["id"], &[])),
    };
    match printed {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(unprinted(rows.len(), &e)),
        printed => {
            printed?;
            Ok(Exit::Done)
        }
    }
}

/// Appends, and tells a collector of traces if there is one.
async fn traced(config: &Config, store: &str, desk: &dyn Desk, mut events: Vec<Event>) -> Result<Vec<String>, Failed> {
    let traces = Traces::start(config);
    let begun = traces.begin(store, &mut events);
    let appended = desk.append(&events).await;
    begun.end(&appended);
    traces.stop().await;
    Ok(appended?)
}

/// Whoever repeats the append because of a failed output would have the events twice.
fn unprinted(appended: usize, error: &io::Error) -> Failed {
    let events = count(appended as u64, "event");
    let message = format!("{events} appended, but the output cannot be written: {error}");
    Failed::new(Exit::Partly, message, "do not append again; `postroom event ls` shows the ids")
}

fn one(args: AppendArgs, limits: Limits) -> Result<Event, Failed> {
    let mut event = Event::new(args.event_type.unwrap_or_default());
    event.id = args.id.unwrap_or(event.id);
    event.key = args.key;
    event.aggregate_type = args.aggregate_type;
    event.aggregate_id = args.aggregate_id;
    event.tenant = args.tenant;
    event.available_at = args.available_at;
    event.headers = args.headers.into_iter().collect();
    event.attributes = args.attributes.into_iter().map(|(name, value)| (name, value.into())).collect();
    match args.payload.as_deref() {
        None => {}
        Some("-") => event = event.bytes(JSON, stdin(limits)?),
        Some(text) => event = event.bytes(JSON, text.as_bytes().to_vec()),
    }
    limits.check(&event)?;
    Ok(event)
}

/// The payload from stdin; white space around it is the shell's, not the payload's.
fn stdin(limits: Limits) -> Result<Vec<u8>, Failed> {
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to know that it is too large.
    let most = limits.payload_bytes_max as u64 + 2;
    let read = io::stdin().lock().take(most).read_to_end(&mut bytes);
    read.map_err(|e| Failed::new(Exit::Usage, format!("the payload on stdin cannot be read: {e}"), ""))?;
    Ok(bytes.trim_ascii().to_vec())
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not NAME=VALUE")),
    }
}
