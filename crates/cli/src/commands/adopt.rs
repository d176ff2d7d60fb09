//! `postroom adopt TABLE`: inspects an existing outbox table and prints a mapping for it. The file goes to stdout, the report
//! to stderr. Changes nothing.

use std::fmt::Write as _;
use std::time::Duration;

use postroom_adopt::{self as adopt, AdoptError, Adoption, Asked, Rehearsal};
use postroom_core::units::{format_duration, parse_duration};
use postroom_server::config::Sources;

use crate::app::App;
use crate::exit::{Exit, Failed, Outcome, Problem};
use crate::options::{StoreArg, help};
use crate::output::{Table, count, dash, note, plain, print};

/// Inspect an existing outbox table and print a configuration that adopts it; changes nothing
#[derive(Debug, clap::Args)]
#[command(after_help = help!(adopt: "postroom adopt event_outbox >> postroom.toml", "postroom adopt shop.outbox --set event.type=topic --watch 10s", "postroom adopt event_outbox -o json"))]
pub(crate) struct AdoptArgs {
    /// Name of the table; with its schema if it is not in the search path, and special names in double quotes
    #[arg(value_name = "TABLE")]
    table: String,
    /// Value of a mapping key, instead of the detected one; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
    /// How long to watch for other programs that still change rows
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = parse_duration)]
    watch: Duration,
    #[command(flatten)]
    store: StoreArg,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE, for instance event.type=topic")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

pub(crate) async fn run(app: &App, args: &AdoptArgs) -> Outcome {
    let asked =
        Asked { table: args.table.clone(), store: args.store.store.clone(), set: args.set.clone(), watch: args.watch };
    let sources = Sources::of_process(app.global.config.clone(), app.global.preset.clone(), Vec::new());
    let found = adopt::adopt(&sources, &asked).await?;
    if app.is_table() {
        print(found.toml.trim_end())?;
        note(&report(&found))?;
    } else {
        app.global.output.one(&found, String::new)?;
    }
    Ok(if found.dry_run_failed.is_some() { Exit::CheckFailed } else { Exit::Done })
}

impl From<AdoptError> for Failed {
    fn from(error: AdoptError) -> Self {
        let (table, missing, columns) = match error {
            AdoptError::Config(error) => return error.into(),
            AdoptError::Store(error) => return error.into(),
            AdoptError::Missing { table, missing, columns } => (table, missing, columns.join(", ")),
        };
        let problem = |missing: adopt::Missing| Problem {
            message: format!("{table} shows no `{}`: {}", missing.key, missing.what),
            hint: match &missing.tell {
                Some(tell) => format!("looked for {}; {tell}; the table has {columns}", missing.looked_for),
                None => format!(
                    "looked for {}; say which it is with --set {}=…; the table has {columns}",
                    missing.looked_for, missing.key
                ),
            },
        };
        Self::several(Exit::Usage, missing.into_iter().map(problem).collect())
    }
}

/// Renders the report for people.
fn report(found: &Adoption) -> String {
    let mut text = format!("\n{} in store {}:\n", found.table, found.store);
    let mut keys = Table::new(&["key", "value", "sure", "why"], &[]);
    for guessed in &found.keys {
        let sure = if guessed.confidence == adopt::Confidence::Sure { "yes" } else { "NO" };
        keys.row([guessed.key.clone(), adopt::shown(&guessed.value), sure.to_owned(), guessed.why.clone()]);
    }
    text.push_str(&keys.render());
    text.push('\n');
    let mut line = |head: &str, said: &str| {
        let _ = write!(text, "\n{head}: {}", plain(said, usize::MAX));
    };
    for guessed in found.unsure() {
        let others =
            if guessed.others.is_empty() { String::new() } else { format!("; or {}", guessed.others.join(", ")) };
        line("unsure", &format!("{} = {}: {}{others}", guessed.key, adopt::shown(&guessed.value), guessed.why));
    }
    if !found.unused.is_empty() {
        line("not used", &found.unused.join(", "));
    }
    for warning in &found.warnings {
        line("warning", warning);
    }
    line("index", &indexes(found));
    for statement in &found.index.create {
        line("  create it yourself", statement);
    }
    for said in others(found) {
        line(said.0, &said.1);
    }
    if let Some(why) = &found.dry_run_failed {
        line("dry run", &format!("FAILED: {why}"));
    }
    if let Some(run) = &found.dry_run {
        line("dry run", &dry_run(run));
        if !run.first.is_empty() {
            let _ = write!(text, "\n{}", events(run));
        }
    }
    text.push_str(match (&found.dry_run_failed, found.needs_route) {
        (Some(_), _) => "\nnext: correct the mapping with --set, or in the file, until the dry run works",
        (None, true) => {
            "\nnext: choose one destination in the file and remove the comment signs, stop the old dispatcher, then run \
             `postroom relay run`"
        }
        (None, false) => "\nnext: stop the old dispatcher, then run `postroom relay run`",
    });
    text
}

fn indexes(found: &Adoption) -> String {
    match (&found.index.served_by, found.index.in_order) {
        (Some(index), true) => format!("{index} finds due rows in the order of reading"),
        (Some(index), false) => {
            format!(
                "{index} finds pending rows, but each poll sorts all of them: a large backlog is read again and again"
            )
        }
        (None, _) => "no index finds pending rows: each poll reads the whole table".to_owned(),
    }
}

fn others(found: &Adoption) -> Vec<(&'static str, String)> {
    let (seen, time) = (&found.others, format_duration(found.watched));
    if seen.is_quiet() && seen.blind {
        return vec![("others", format!("rows could not be compared; the server counted no change within {time}"))];
    }
    if seen.is_quiet() {
        return vec![("others", format!("no other session changed rows within {time}"))];
    }
    let counts = [
        (seen.changed, "pending row was changed"),
        (seen.done, "row became done"),
        (seen.updated, "row was updated"),
        (seen.deleted, "row was deleted"),
    ];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| match what.split_once("row ") {
            Some((before, after)) => format!("{} {after}", count(*n, &format!("{before}row"))),
            None => format!("{n} {what}"),
        })
        .collect();
    let counts = if counts.is_empty() { "a session works on the table".to_owned() } else { counts.join(", ") };
    let head = format!("stop the old dispatcher first, or events are sent twice: within {time} {counts}");
    let session = |session: &adopt::Session| {
        let from = [&session.application, &session.user, &session.address];
        let from: Vec<&str> = from.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        ("  session", format!("{} {} ({})", session.pid, session.does, from.join(", ")))
    };
    std::iter::once(("WARNING", head)).chain(seen.sessions.iter().map(session)).collect()
}

fn dry_run(run: &Rehearsal) -> String {
    let more = if run.due_or_more { "or more " } else { "" };
    let mut text = format!(
        "{} {more}due, one poll took {:.1} ms; nothing was changed",
        count(run.due, "row"),
        run.took.as_secs_f64() * 1e3
    );
    if run.unreadable > 0 {
        let would = if run.unreadable == 1 {
            "holds no event and would be a dead letter"
        } else {
            "hold no event and would be dead letters"
        };
        let _ = write!(text, "; {} {would}", count(run.unreadable, "row"));
    }
    if run.not_json > 0 {
        let _ = write!(text, "; {} with a payload that is no JSON, which is sent as it is", count(run.not_json, "row"));
    }
    text
}

fn events(run: &Rehearsal) -> String {
    let mut table = Table::new(&["row", "id", "type", "key", "tenant", "attempts", ""], &[5]);
    for head in &run.first {
        table.row([
            head.row.clone(),
            dash(head.id.as_ref()),
            dash(head.event_type.as_ref()),
            dash(head.key.as_ref()),
            dash(head.tenant.as_ref()),
            head.attempts.to_string(),
            head.unreadable.clone().unwrap_or_default(),
        ]);
    }
    table.render()
}
