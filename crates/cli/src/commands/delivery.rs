//! `postroom delivery`: deliveries that are not settled yet, one by one and by what failed.

use std::collections::BTreeMap;

use postroom_admin::GROUPED_MAX;
use postroom_admin::view::{DeliveryGroup, DeliveryRow};
use postroom_core::DeliveryState;

use crate::app::App;
use crate::commands::which::WhichFailed;
use crate::exit::{Exit, Outcome};
use crate::options::{StoreArg, help};
use crate::output::Narrower::{Drop, Shorten, ShortenId};
use crate::output::{Table, dash, note, shell};
use crate::when;

/// List and group deliveries that are waiting, retrying, blocked, delayed or dead
#[derive(Debug, clap::Subcommand)]
pub(crate) enum DeliveryCommand {
    Ls(LsArgs),
    Groups(GroupsArgs),
}

/// List deliveries that are not settled, oldest first; also of events that no relay has read yet
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store:
    "postroom delivery ls",
    "postroom delivery ls --route mailer --state retrying",
    "postroom delivery ls --key order-7 -o json",
))]
pub(crate) struct LsArgs {
    /// Only deliveries in these states: due, retrying, blocked, delayed, dead
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state, default_value = "due,retrying,blocked,delayed")]
    state: Vec<DeliveryState>,
    #[command(flatten)]
    which: WhichFailed,
    /// Maximum number of deliveries
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Only deliveries after this position, for the next page
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    after: i64,
    #[command(flatten)]
    store: StoreArg,
}

/// Group deliveries that failed by route, state, code and cause, and count them by event type and tenant
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store:
    "postroom delivery groups",
    "postroom delivery groups --state retrying --route mailer -o json",
))]
pub(crate) struct GroupsArgs {
    /// Only deliveries in these states: due, retrying, blocked, delayed, dead
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state, default_value = "retrying,blocked,dead")]
    state: Vec<DeliveryState>,
    #[command(flatten)]
    which: WhichFailed,
    /// Maximum number of groups
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    store: StoreArg,
}

fn state(word: &str) -> Result<DeliveryState, String> {
    DeliveryState::parse(word).ok_or_else(|| "use due, retrying, blocked, delayed or dead".to_owned())
}

pub(crate) async fn run(app: &App, command: DeliveryCommand) -> Outcome {
    match command {
        DeliveryCommand::Ls(args) => ls(app, &args.state, &args.which, (args.after, args.limit), &args.store).await,
        DeliveryCommand::Groups(args) => groups(app, &args.state, &args.which, args.limit, &args.store).await,
    }
}

/// Lists a page of deliveries: after a position, at most so many.
pub(crate) async fn ls(
    app: &App,
    states: &[DeliveryState],
    which: &WhichFailed,
    (after, limit): (i64, usize),
    store: &StoreArg,
) -> Outcome {
    let config = app.config()?;
    let opened = app.open(&config, store).await?;
    let which = which.resolve(&opened).await?;
    let rows = opened.admin().deliveries(states, &which, after, limit).await?;
    app.global.output.list(&rows, || table(&rows, states != [DeliveryState::Dead]))?;
    if let Some(last) = rows.last().filter(|_| rows.len() >= limit && app.is_table()) {
        note(&format!("there may be more: --after {}", last.position))?;
    }
    Ok(Exit::Done)
}

fn table(rows: &[DeliveryRow], with_state: bool) -> Table {
    let columns = ["position", "route", "type", "key", "state", "attempts", "since", "next", "code", "error", "id"];
    let table = Table::new(&columns, &[0, 5]).without(if with_state { &[] } else { &["state", "next"] });
    let mut table = table.narrower(&[
        Shorten("error"),
        Drop("attempts"),
        Drop("position"),
        Shorten("type"),
        ShortenId("id"),
        Shorten("key"),
        Drop("next"),
        Drop("type"),
        Drop("since"),
        Shorten("route"),
        Drop("error"),
        Drop("code"),
    ]);
    for row in rows {
        table.row([
            row.position.to_string(),
            row.route.clone(),
            row.event_type.clone(),
            dash(row.key.as_ref()),
            row.state.as_str().to_owned(),
            row.attempts.to_string(),
            when::listed(row.since),
            dash(row.due_at.map(when::listed).as_ref()),
            dash(row.code.as_ref()),
            dash(row.error.as_ref()),
            row.id.clone(),
        ]);
    }
    table
}

/// Prints groups of deliveries in some states, and what to do about the largest one.
pub(crate) async fn groups(
    app: &App,
    states: &[DeliveryState],
    which: &WhichFailed,
    limit: usize,
    store: &StoreArg,
) -> Outcome {
    let config = app.config()?;
    let opened = app.open(&config, store).await?;
    let which = which.resolve(&opened).await?;
    let groups = opened.admin().delivery_groups(states, &which, limit).await?;
    app.global.output.list(&groups, || groups_table(&groups))?;
    if !app.is_table() {
        return Ok(Exit::Done);
    }
    if groups.iter().map(|group| group.count).sum::<u64>() >= GROUPED_MAX {
        note(&format!("of the newest {GROUPED_MAX} deliveries; there may be more"))?;
    }
    if let Some(largest) = groups.iter().find(|group| group.state == DeliveryState::Dead) {
        let code = largest.code.as_ref().map(|code| format!(" --code {code}")).unwrap_or_default();
        let (route, sample) = (&largest.route, &largest.sample);
        note(&format!("next: postroom dead show {}", shell(sample)))?;
        note(&format!("      postroom dead compare --route {route}{code}"))?;
        note(&format!("      postroom dead replay --route {route}{code}"))?;
    }
    Ok(Exit::Done)
}

fn groups_table(groups: &[DeliveryGroup]) -> Table {
    let with_tenants = groups.iter().any(|group| !group.tenants.is_empty());
    let columns = ["count", "keys", "route", "state", "code", "types", "tenants", "first", "last", "error", "sample"];
    let table = Table::new(&columns, &[0, 1]).without(if with_tenants { &[] } else { &["tenants"] });
    let mut table = table.narrower(&[
        Drop("first"),
        Shorten("error"),
        ShortenId("sample"),
        Drop("sample"),
        Drop("keys"),
        Shorten("tenants"),
        Drop("last"),
        Shorten("types"),
        Drop("error"),
        Drop("tenants"),
    ]);
    for group in groups {
        table.row([
            group.count.to_string(),
            group.keys.to_string(),
            group.route.clone(),
            group.state.as_str().to_owned(),
            dash(group.code.as_ref()),
            counted(&group.types, group.count),
            counted(&group.tenants, group.count),
            when::listed(group.first_at),
            when::listed(group.last_at),
            dash(group.error.as_ref()),
            group.sample.clone(),
        ]);
    }
    table
}

/// Formats counts, the largest first: `order.placed 12, order.paid 3`; one that is all needs no number.
pub(crate) fn counted(counts: &BTreeMap<String, u64>, all: u64) -> String {
    if let Some((only, _)) = counts.iter().next().filter(|(_, count)| **count == all) {
        return only.clone();
    }
    let mut sorted: Vec<(&String, &u64)> = counts.iter().collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let parts: Vec<String> = sorted.into_iter().map(|(name, count)| format!("{name} {count}")).collect();
    if parts.is_empty() { "–".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(state: DeliveryState) -> DeliveryRow {
        let at = "2026-11-15T09:30:00Z".parse().unwrap();
        DeliveryRow {
            store: "main".into(),
            route: "order-confirmations".into(),
            position: 120_417,
            id: "0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11".into(),
            event_type: "order.confirmation.requested".into(),
            key: Some("customer-4711-order-17".into()),
            tenant: None,
            state,
            attempts: 12,
            code: Some("exec.error".into()),
            error: Some("smtp 550: no such address: a.very.long.name@a.very.long.domain.example".into()),
            due_at: (state == DeliveryState::Retrying).then_some(at),
            appended_at: at,
            since: at,
        }
    }

    #[test]
    fn dead_letters_fit_every_terminal() {
        let row = row(DeliveryState::Dead);
        insta::assert_snapshot!(Table::at_widths(|| table(std::slice::from_ref(&row), false)));
    }

    #[test]
    fn deliveries_fit_every_terminal() {
        let row = row(DeliveryState::Retrying);
        insta::assert_snapshot!(Table::at_widths(|| table(std::slice::from_ref(&row), true)));
    }

    #[test]
    fn counts_are_listed_the_largest_first() {
        let counts = BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 12)]);
        assert_eq!(counted(&counts, 13), "b 12, a 1");
        assert_eq!(counted(&BTreeMap::from([("a".to_owned(), 3)]), 3), "a");
        assert_eq!(counted(&BTreeMap::from([("acme".to_owned(), 1)]), 3), "acme 1");
    }
}
