//! `postroom event append`: one event from options, or many from JSON lines in one transaction.

use std::fs::File;
use std::io::{self, Read};

use jiff::Timestamp;
use postroom_admin::Admin;
use postroom_core::units::parse_ahead;
use postroom_core::{Event, JSON, Limits};
use postroom_server::config::Config;
use postroom_server::transports;
use serde_json::{Value, json};

use crate::app::{self, App};
use crate::commands::event::notes;
use crate::exit::{Exit, Failed, Outcome};
use crate::lines::{self, Lines};
use crate::options::{StoreArg, help};
use crate::output::{Format, Table, count, note, print_lines};
use crate::progress::during;
use crate::traces::Traces;

/// Append an event, or with `-` events as JSON lines from stdin in one transaction, and print the ids
#[derive(Debug, clap::Args)]
#[command(after_help = help!(append:
    r#"postroom event append --type order.placed --key order-7 --payload '{"total":12}'"#,
    "postroom event append --type order.reminder --key order-7 --available-at 10m",
    "cat events.jsonl | postroom event append -",
))]
pub(crate) struct AppendArgs {
    /// Read events from stdin, one JSON object per line
    #[arg(value_name = "-", value_parser = ["-"], conflicts_with_all = [
        "event_type", "key", "aggregate_type", "aggregate_id", "tenant", "headers", "attributes", "id", "available_at", "payload",
    ])]
    lines: Option<String>,
    /// Event type, for instance order.placed
    #[arg(long = "type", value_name = "TYPE", required_unless_present = "lines")]
    event_type: Option<String>,
    /// Ordering key: events with the same key are delivered in order
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Aggregate type: the kind of entity that the event is about
    #[arg(long, value_name = "NAME")]
    aggregate_type: Option<String>,
    /// Aggregate id: the entity that the event is about; also the key, unless --key is given
    #[arg(long, value_name = "ID")]
    aggregate_id: Option<String>,
    /// Tenant of the event
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Header that is delivered with the event
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
    headers: Vec<(String, String)>,
    /// Attribute of the event, as text
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = pair)]
    attributes: Vec<(String, String)>,
    /// Id of the event [default: a new id]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Time before which the event is not delivered: RFC 3339, or how long from now (10m)
    #[arg(long, value_name = "TIME", value_parser = parse_ahead)]
    available_at: Option<Timestamp>,
    /// Payload as JSON, @FILE to read it from a file, or `-` for stdin [default: null]
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
    let Lines { events, named } = if single {
        let named = Vec::from_iter(args.id.clone());
        let event = one(args, limits)?;
        check(&event)?;
        Lines { events: vec![event], named }
    } else {
        lines::read(io::stdin().lock(), limits, check)?
    };
    if app.global.dry_run {
        note(&format!("would append {}; nothing was appended", count(events.len() as u64, "event")))?;
        return Ok(Exit::Done);
    }
    let opened = app.open(&config, &store).await?;
    let admin = opened.admin();
    let notes = if app.is_table() { notes::of(&opened, &events, &named).await } else { Vec::new() };
    let ids = if events.is_empty() { Vec::new() } else { traced(&config, &meant.name, &*admin, events).await? };
    let rows: Vec<Value> = ids.iter().map(|id| json!({ "id": id })).collect();
    let printed = match (app.global.output, rows.as_slice()) {
        (Format::Table | Format::Wide, _) => print_lines(ids.into_iter().map(Ok)),
        (Format::Json, [row]) if single => Format::Json.one(row, String::new),
        (format, rows) => format.list(rows, || Table::new(&["id"], &[])),
    };
    match printed {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(unprinted(rows.len(), &e)),
        printed => {
            printed?;
            notes.iter().try_for_each(|text| note(text))?;
            Ok(Exit::Done)
        }
    }
}

/// Appends events, with a trace if a collector is configured.
async fn traced(
    config: &Config,
    store: &str,
    admin: &dyn Admin,
    mut events: Vec<Event>,
) -> Result<Vec<String>, Failed> {
    let traces = Traces::start(config);
    let begun = traces.begin(store, &mut events);
    let what = format!("appending {}", count(events.len() as u64, "event"));
    let appended = during(&what, admin.append(&events)).await;
    begun.end(&appended);
    traces.stop().await;
    Ok(appended?)
}

/// Builds the error of a failed output: repeating the append would append the events twice.
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
        Some("-") => event = event.bytes(JSON, payload(io::stdin().lock(), "stdin", limits)?),
        // JSON never begins with an `@`.
        Some(text) if text.starts_with('@') => {
            let path = &text[1..];
            let file = File::open(path).map_err(|e| unreadable(path, &e))?;
            event = event.bytes(JSON, payload(file, path, limits)?);
        }
        Some(text) => event = event.bytes(JSON, text.as_bytes().to_vec()),
    }
    limits.check(&event)?;
    Ok(event)
}

/// Reads a payload, without the white space around it, which comes from the shell or an editor.
fn payload(from: impl Read, name: &str, limits: Limits) -> Result<Vec<u8>, Failed> {
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to know that it is too large.
    let most = limits.payload_bytes_max as u64 + 2;
    from.take(most).read_to_end(&mut bytes).map_err(|e| unreadable(name, &e))?;
    Ok(bytes.trim_ascii().to_vec())
}

fn unreadable(name: &str, error: &io::Error) -> Failed {
    let message = format!("the payload in {name:?} cannot be read: {error}");
    Failed::new(Exit::Usage, message, "name a file that you can read behind the @, or write the JSON itself")
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not NAME=VALUE")),
    }
}
