//! `postroom event ls`: lists events, newest first.

use std::collections::BTreeMap;

use postroom_admin::view::EventRow;
use postroom_admin::{Admin, Page};
use postroom_core::StoreError;
use serde::Serialize;

use crate::app::App;
use crate::commands::which::WhichEvents;
use crate::exit::{Exit, Outcome};
use crate::options::{StoreArg, help};
use crate::output::Narrower::{Drop, Shorten, ShortenId};
use crate::output::{Table, dash, note};
use crate::when;

/// List events, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store:
    "postroom event ls --type 'order.*' --from 1h",
    "postroom event ls --key order-7 -o json",
    "postroom event ls --before 1200 --limit 100",
))]
pub(crate) struct LsArgs {
    #[command(flatten)]
    which: WhichEvents,
    /// Maximum number of events
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Only events before this position, for the next page
    #[arg(long, value_name = "POSITION")]
    before: Option<i64>,
    /// Show the state of each event on the routes that want it; --key does, too
    #[arg(long)]
    states: bool,
    #[command(flatten)]
    store: StoreArg,
}

/// Event with its state on every route.
#[derive(Debug, Serialize)]
struct Line {
    #[serde(flatten)]
    event: EventRow,
    /// State by route; only where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    states: Option<BTreeMap<String, &'static str>>,
}

pub(crate) async fn run(app: &App, args: &LsArgs) -> Outcome {
    let config = app.config()?;
    let admin = app.open(&config, &args.store).await?.admin();
    let page = Page::Newest { before: args.before, above: 0, limit: args.limit };
    let which = args.which.selection();
    let with_states = args.states || which.key.is_some();
    let mut rows = Vec::new();
    for event in admin.events(&which, page).await? {
        let states = if with_states { Some(states(&*admin, &event).await?) } else { None };
        rows.push(Line { event, states });
    }
    app.global.output.list(&rows, || table(&rows))?;
    if let Some(last) = rows.last().filter(|_| rows.len() == args.limit && app.is_table()) {
        note(&format!("there may be more: --before {}", last.event.position))?;
    }
    Ok(Exit::Done)
}

/// Returns the state of an event on the routes that want it.
async fn states(admin: &dyn Admin, event: &EventRow) -> Result<BTreeMap<String, &'static str>, StoreError> {
    // Of several events with one id the timeline is that of the newest.
    let timeline = admin.event(&event.id, false).await?.filter(|found| found.event.position == event.position);
    let routes = timeline.map(|timeline| timeline.routes).unwrap_or_default();
    let wanted = routes.into_iter().filter(|route| !matches!(route.state, "filtered" | "before_start"));
    Ok(wanted.map(|route| (route.route, route.state)).collect())
}

/// Formats states: `delivered` if that is the state on every route, else `mailer retrying, orders delivered`.
fn in_words(states: &BTreeMap<String, &'static str>) -> String {
    let mut values = states.values();
    match values.next() {
        None => "no route".to_owned(),
        Some(first) if values.all(|other| other == first) => first.replace('_', " "),
        Some(_) => {
            let each: Vec<String> = states.iter().map(|(route, state)| format!("{route} {state}")).collect();
            each.join(", ")
        }
    }
}

fn table(rows: &[Line]) -> Table {
    let with_states = rows.iter().any(|row| row.states.is_some());
    let columns = ["position", "type", "key", "state", "tenant", "appended", "bytes", "id"];
    let table = Table::new(&columns, &[0, 6]).without(if with_states { &[] } else { &["state"] });
    let mut table = table.narrower(&[
        Drop("bytes"),
        Drop("tenant"),
        Shorten("type"),
        Shorten("key"),
        ShortenId("id"),
        Drop("appended"),
        Shorten("state"),
    ]);
    for Line { event: row, states } in rows {
        table.row([
            row.position.to_string(),
            row.event_type.clone(),
            dash(row.key.as_ref()),
            states.as_ref().map(in_words).unwrap_or_default(),
            dash(row.tenant.as_ref()),
            when::listed(row.appended_at),
            row.payload_bytes.to_string(),
            row.id.clone(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_fit_every_terminal() {
        let at = "2026-11-15T09:30:00Z".parse().unwrap();
        let event = EventRow {
            store: "main".into(),
            position: 120_417,
            id: "0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11".into(),
            event_type: "order.confirmation.requested".into(),
            key: Some("customer-4711-order-17".into()),
            aggregate_type: None,
            aggregate_id: None,
            tenant: Some("globex".into()),
            occurred_at: at,
            available_at: None,
            appended_at: at,
            payload_bytes: 1200,
        };
        let row = Line { event, states: None };
        insta::assert_snapshot!(Table::at_widths(|| table(std::slice::from_ref(&row))));
        let one = BTreeMap::from([("mailer".to_owned(), "retrying"), ("orders".to_owned(), "delivered")]);
        assert_eq!(in_words(&one), "mailer retrying, orders delivered");
        assert_eq!(in_words(&BTreeMap::from([("mailer".to_owned(), "dead")])), "dead");
    }
}
