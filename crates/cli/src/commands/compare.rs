//! `postroom dead compare`: what the payloads of dead letters have in common that other events do not have.

use std::collections::{BTreeMap, BTreeSet};

use postroom_admin::view::EventRow;
use postroom_admin::{Admin, Page, Selection};
use postroom_core::{Pattern, StoreError};
use postroom_server::redact::Redaction;
use serde::Serialize;
use serde_json::Value;

use crate::actor::actor;
use crate::app::App;
use crate::commands::which::WhichFailed;
use crate::exit::{Exit, Failed, Outcome};
use crate::options::{Reason, StoreArg, help};
use crate::output::Narrower::{Drop, Shorten};
use crate::output::{Table, count, dash, note};

/// Payloads that are read of each side.
const SAMPLES_MAX: usize = 200;

/// Compare the payloads of dead letters with those of other events of the same types: which fields and values tell them apart
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store:
    "postroom dead compare --route mailer",
    "postroom dead compare --route mailer --code exec.error --payload",
))]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    which: WhichFailed,
    /// Show the values, too, redacted by `http.redact`
    #[arg(long)]
    payload: bool,
    /// Maximum number of fields
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    #[command(flatten)]
    store: StoreArg,
}

/// A field of payloads, and the value that most dead letters have there.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Field {
    /// JSON pointer of the field.
    pointer: String,
    /// The value that most dead letters have; only on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    /// How many dead letters have this value.
    dead: u64,
    /// How many dead letters were compared.
    of_dead: u64,
    /// How many other events have this value.
    others: u64,
    /// How many other events were compared.
    of_others: u64,
}

pub(crate) async fn run(app: &App, args: &CompareArgs) -> Outcome {
    let config = app.config()?;
    let opened = app.open(&config, &args.store).await?;
    let which = args.which.resolve(&opened).await?;
    let admin = opened.admin();
    let dead = admin.dead(&which, 0, SAMPLES_MAX).await?;
    if dead.is_empty() {
        return Err(Failed::new(Exit::Failed, "no dead letter fits", "list them: `postroom dead groups`"));
    }
    let ids: BTreeSet<&str> = dead.iter().map(|row| row.id.as_str()).collect();
    let types: BTreeSet<&str> = dead.iter().map(|row| row.event_type.as_str()).collect();
    let chosen = Selection { ids: ids.iter().map(|id| (*id).to_owned()).collect(), ..Selection::default() };
    let dead = admin.events(&chosen, newest(SAMPLES_MAX)).await?;
    let mut others = Vec::new();
    for event_type in types {
        let Ok(pattern) = Pattern::parse(event_type) else { continue };
        let alike = Selection { event_type: Some(pattern), ..Selection::default() };
        let rows = admin.events(&alike, newest(SAMPLES_MAX)).await?;
        others.extend(rows.into_iter().filter(|row| !ids.contains(row.id.as_str())));
    }
    let redaction = &config.http.redact;
    if args.payload {
        admin.note_payloads("payload.compare", &which.describe(), &actor(&Reason::default())).await?;
    }
    let (dead, others) = (payloads(&*admin, &dead, redaction).await?, payloads(&*admin, &others, redaction).await?);
    let mut fields = compare(&dead, &others);
    fields.truncate(args.limit);
    if !args.payload {
        for field in &mut fields {
            field.value = None;
        }
    }
    app.global.output.list(&fields, || table(&fields, args.payload))?;
    if app.is_table() {
        let (dead, others) = (count(dead.len() as u64, "dead letter"), count(others.len() as u64, "other event"));
        note(&format!("compared {dead} with {others}"))?;
        if !args.payload {
            note("--payload shows the values")?;
        }
    }
    Ok(Exit::Done)
}

fn newest(limit: usize) -> Page {
    Page::Newest { before: None, above: 0, limit }
}

/// Reads payloads, without what `http.redact` hides.
async fn payloads(admin: &dyn Admin, rows: &[EventRow], redaction: &Redaction) -> Result<Vec<Value>, StoreError> {
    let mut contents = admin.contents(rows, true).await?;
    let payload = |row: &EventRow| Some(redaction.apply(&row.event_type, contents.remove(&row.position)?.payload?));
    Ok(rows.iter().filter_map(payload).collect())
}

/// Lists the fields of dead letters with their most common values, those first that the fewest other events share.
fn compare(dead: &[Value], others: &[Value]) -> Vec<Field> {
    let (of_dead, of_others) = (dead.len() as u64, others.len() as u64);
    let share = |n: u64, of: u64| if of == 0 { 0.0 } else { n as f64 / of as f64 };
    let (dead, others) = (tally(dead), tally(others));
    let mut fields: Vec<Field> = dead
        .into_iter()
        .filter_map(|(pointer, values)| {
            let (text, most) = values.into_iter().max_by_key(|(_, count)| *count)?;
            let same = others.get(&pointer).and_then(|values| values.get(&text)).copied().unwrap_or_default();
            let value = serde_json::from_str(&text).ok();
            Some(Field { pointer, value, dead: most, of_dead, others: same, of_others })
        })
        // A value that one of several dead letters has alone is nothing that they share.
        .filter(|field| field.dead > 1 || of_dead == 1)
        .collect();
    let difference = |field: &Field| share(field.dead, of_dead) - share(field.others, of_others);
    fields.sort_by(|one, other| difference(other).total_cmp(&difference(one)));
    fields
}

/// Counts how often each field has each value, which is JSON text.
fn tally(payloads: &[Value]) -> BTreeMap<String, BTreeMap<String, u64>> {
    fn walk(field: &str, value: &Value, tally: &mut BTreeMap<String, BTreeMap<String, u64>>) {
        match value {
            Value::Object(members) if !members.is_empty() => {
                for (name, value) in members {
                    walk(&format!("{field}/{}", name.replace('~', "~0").replace('/', "~1")), value, tally);
                }
            }
            value => *tally.entry(field.to_owned()).or_default().entry(value.to_string()).or_default() += 1,
        }
    }
    let mut all = BTreeMap::new();
    for payload in payloads {
        walk("", payload, &mut all);
    }
    all
}

fn table(fields: &[Field], with_values: bool) -> Table {
    let columns = ["field", "value", "dead letters", "other events"];
    let table = Table::new(&columns, &[2, 3]).without(if with_values { &[] } else { &["value"] });
    let mut table = table.narrower(&[Shorten("value"), Shorten("field"), Drop("value")]);
    for field in fields {
        table.row([
            if field.pointer.is_empty() { "(payload)".to_owned() } else { field.pointer.clone() },
            dash(field.value.as_ref()),
            format!("{} of {}", field.dead, field.of_dead),
            format!("{} of {}", field.others, field.of_others),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_only_dead_letters_share_comes_first() {
        let dead = [
            json!({"currency": "EUR", "address": {"country": "CH"}, "total": 1}),
            json!({"currency": "EUR", "address": {"country": "CH"}, "total": 2}),
        ];
        let others = [json!({"currency": "EUR", "address": {"country": "DE"}}), json!({"currency": "EUR", "total": 1})];
        let found = compare(&dead, &others);
        assert_eq!(
            (found[0].pointer.as_str(), &found[0].value, found[0].dead, found[0].others),
            ("/address/country", &Some(json!("CH")), 2, 0)
        );
        assert_eq!((found[1].pointer.as_str(), found[1].dead, found[1].others), ("/currency", 2, 2));
        assert_eq!(found.len(), 2, "each has its own total");
    }
}
