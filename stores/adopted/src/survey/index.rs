//! Which index serves the reading of due rows, and which one would.

use serde::Serialize;

use super::facts::{Facts, Index};
use crate::executor::Dialect;
use crate::mapping::{ColumnPath, Mapping, Name, State};
use crate::sql::columns::{Columns, Holds};
use crate::sql::{Writer, literal, pending};

/// Longest name an index may have.
const NAME_BYTES_MAX: usize = 63;

/// What is to be said about a table's indexes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The index that finds due rows.
    pub served_by: Option<String>,
    /// Whether it finds them in the order of reading; where it does not, every poll sorts the whole backlog.
    pub in_order: bool,
    /// Statements that make what is missing. Never run by us.
    pub create: Vec<String>,
}

/// What is to be said about the indexes of a table with this mapping; `schema` is that of our own tables.
pub(super) fn advice(facts: &Facts, mapping: &Mapping, columns: &Columns, schema: &str) -> Advice {
    let order = order(mapping);
    let finds: Vec<(&Index, usize)> =
        facts.indexes.iter().filter_map(|index| Some((index, narrows(index, mapping, columns)?))).collect();
    let sorted = |(index, from): &&(&Index, usize)| in_order(index, *from, &order);
    let (served_by, in_order) = match finds.iter().find(sorted).map(|found| (found, true)) {
        Some((found, sorted)) => (Some(found.0.name.clone()), sorted),
        None => (finds.first().map(|found| found.0.name.clone()), false),
    };
    let mut create = Vec::new();
    if !in_order {
        create.push(proposal(facts, mapping, columns, schema, &order));
    }
    let rowid = facts.dialect == Dialect::Sqlite && facts.keys.first().is_some_and(|key| *key == [mapping.row.clone()]);
    let leads = |index: &Index| {
        index.predicate.is_none() && index.parts.first().is_some_and(|part| part == mapping.row.as_str())
    };
    if !rowid && !facts.indexes.iter().any(leads) {
        let unique = if facts.is_unique(&mapping.row) { "unique index" } else { "index" };
        create.push(statement(facts, unique, "row", &mapping.row.quoted(), None));
    }
    Advice { served_by, in_order, create }
}

/// The columns that must come sorted: an id behind a time only makes the order complete, and sorts a few rows at most.
fn order(mapping: &Mapping) -> Vec<&Name> {
    let all = &mapping.order;
    match all.as_slice() {
        [first @ .., last] if !first.is_empty() && *last == mapping.row => first.iter().collect(),
        _ => all.iter().collect(),
    }
}

/// Whether an index leads to pending rows only; with which part the order would have to begin.
fn narrows(index: &Index, mapping: &Mapping, columns: &Columns) -> Option<usize> {
    let lower = |text: &str| text.to_lowercase();
    let predicate = index.predicate.as_deref().map(lower);
    let partial =
        |needs: &[String]| predicate.as_ref().is_some_and(|text| needs.iter().all(|part| text.contains(&lower(part))));
    let leads = |name: &Name| {
        (predicate.is_none() && index.parts.first().is_some_and(|part| part == name.as_str())).then_some(1)
    };
    match &mapping.state {
        // Every row is pending: only the order counts.
        State::Presence => {
            let first = mapping.order.first().map(Name::as_str);
            (predicate.is_none() && index.parts.first().map(String::as_str) == first).then_some(0)
        }
        State::Stamp(name) => {
            let is_null = partial(&[name.as_str().to_owned(), "is null".to_owned()]);
            if is_null { Some(0) } else { leads(name) }
        }
        State::Flag(name) => {
            let says_no =
                ["not ", "false", "= 0"].iter().any(|no| partial(&[name.as_str().to_owned(), (*no).to_owned()]));
            if says_no { Some(0) } else { leads(name) }
        }
        State::Words { path, pending, .. } => {
            let Some(name) = path.as_column() else {
                let key = path.path.last().map_or("", String::as_str);
                let over = |part: &String| part.contains(key) && part.contains(path.column.as_str());
                if partial(&[key.to_owned(), literal(pending)]) {
                    return Some(0);
                }
                return (predicate.is_none() && index.parts.first().is_some_and(over)).then_some(1);
            };
            let number = columns.get(name).is_some_and(|column| column.holds == Holds::Integer);
            let word = if number { format!("= {pending}") } else { literal(pending) };
            if partial(&[name.as_str().to_owned(), word]) { Some(0) } else { leads(name) }
        }
    }
}

fn in_order(index: &Index, from: usize, order: &[&Name]) -> bool {
    let parts = index.parts.get(from..).unwrap_or_default();
    parts.len() >= order.len() && parts.iter().zip(order).all(|(part, name)| part == name.as_str())
}

fn proposal(facts: &Facts, mapping: &Mapping, columns: &Columns, schema: &str, order: &[&Name]) -> String {
    let mut names: Vec<&Name> = order.to_vec();
    if !names.contains(&&mapping.row) {
        names.push(&mapping.row);
    }
    let names: Vec<String> = names.iter().map(|name| name.quoted()).collect();
    let writer = Writer { dialect: facts.dialect, schema, columns, alias: "" };
    let condition = match &mapping.state {
        State::Presence => None,
        // As the statement says it, or it would not be used.
        _ => Some(pending(mapping, &writer)),
    };
    statement(facts, "index", "pending", &names.join(", "), condition.as_deref())
}

fn statement(facts: &Facts, kind: &str, what: &str, parts: &str, condition: Option<&str>) -> String {
    let concurrently = if facts.dialect == Dialect::Postgres { " concurrently" } else { "" };
    let mut table = facts.table.table.as_str().to_owned();
    while table.len() + what.len() + "__idx".len() > NAME_BYTES_MAX {
        table.pop();
    }
    let name = Name::new(format!("{table}_{what}_idx")).in_sql();
    let condition = condition.map_or_else(String::new, |condition| format!(" where {condition}"));
    format!("create {kind}{concurrently} {name} on {} ({parts}){condition};", facts.table.in_sql())
}

/// Whether the proposed index calls a function of ours, so that it can be made only after a relay has run once.
pub(super) fn needs_our_functions(mapping: &Mapping, columns: &Columns, dialect: Dialect) -> bool {
    let inside = |path: &ColumnPath| {
        !path.path.is_empty()
            && columns.get(&path.column).is_some_and(|c| !matches!(c.holds, Holds::Json | Holds::Jsonb))
    };
    dialect == Dialect::Postgres && matches!(&mapping.state, State::Words { path, .. } if inside(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::{Death, EventColumns, TableName};

    /// A table with a text, a number and times, and a mapping with this state.
    fn advice_for(state: State, indexes: &[(&str, &[&str], Option<&str>)]) -> Advice {
        let mut columns = Columns::default();
        for (name, sql_type) in [("id", "text"), ("status", "text"), ("n", "integer"), ("payload", "jsonb")] {
            columns.add(Name::new(name), sql_type, false);
        }
        columns.add(Name::new("created_at"), "timestamp with time zone", false);
        let path = |name: &str| ColumnPath::column(Name::new(name));
        let mapping = Mapping {
            claim: crate::mapping::Claim::Lease,
            log: None,
            table: TableName::parse("public.outbox").unwrap(),
            row: Name::new("id"),
            order: vec![Name::new("created_at"), Name::new("id")],
            ordered: false,
            event: EventColumns {
                id: path("id"),
                event_type: path("type"),
                payload: path("payload"),
                payload_without: Vec::new(),
                key: None,
                aggregate_type: None,
                aggregate_id: None,
                tenant: None,
                occurred_at: Vec::new(),
                correlation_id: None,
                causation_id: None,
                schema_version: None,
                headers: None,
                attributes: Vec::new(),
            },
            state,
            death: Death::Parked,
            attempts: None,
            next_attempt: None,
            error: None,
            done_at: None,
            dead_letters: None,
            replay_suffix: None,
            marked_by: None,
            prunes: false,
            archive: None,
            inbox: None,
            create: None,
        };
        let index = |(name, parts, predicate): &(&str, &[&str], Option<&str>)| Index {
            name: (*name).to_owned(),
            parts: parts.iter().map(|part| (*part).to_owned()).collect(),
            predicate: predicate.map(str::to_owned),
        };
        let facts = Facts {
            dialect: Dialect::Postgres,
            table: mapping.table.clone(),
            columns: Vec::new(),
            keys: vec![vec![Name::new("id")]],
            indexes: indexes.iter().map(index).collect(),
        };
        advice(&facts, &mapping, &columns, "postroom")
    }

    fn words(path: &str, pending: &str) -> State {
        let path = ColumnPath::parse(path).unwrap();
        State::Words { path, pending: pending.to_owned(), done: "sent".to_owned(), ignored: Vec::new() }
    }

    const PRIMARY: (&str, &[&str], Option<&str>) = ("pk", &["id"], None);

    #[test]
    fn an_index_serves_if_it_leads_to_pending_rows_and_best_if_they_come_sorted() {
        let status = || words("status", "pending");
        let partial = Some("(status = 'pending'::text)");
        for (state, parts, predicate, served, in_order) in [
            (status(), &["status", "created_at"][..], None, true, true),
            (status(), &["status", "available_at"], None, true, false),
            (status(), &["created_at", "id"], partial, true, true),
            (status(), &["created_at"], None, false, false),
            (status(), &["created_at"], Some("(status = 'failed'::text)"), false, false),
            (words("n", "0"), &["created_at"], Some("(n = 0)"), true, true),
            (State::Stamp(Name::new("sent_at")), &["created_at"], Some("(sent_at IS NULL)"), true, true),
            (State::Stamp(Name::new("sent_at")), &["created_at"], Some("(sent_at IS NOT NULL)"), false, false),
            (State::Flag(Name::new("done")), &["created_at"], Some("(NOT done)"), true, true),
            (State::Presence, &["created_at"], None, true, true),
            (words("payload.s", "pending"), &["(payload ->> 's'::text)", "created_at"], None, true, true),
            (
                words("payload.s", "pending"),
                &["created_at"],
                Some("((payload ->> 's'::text) = 'pending'::text)"),
                true,
                true,
            ),
        ] {
            let found = advice_for(state, &[PRIMARY, ("i", parts, predicate)]);
            assert_eq!(
                (found.served_by.as_deref() == Some("i"), found.in_order),
                (served, in_order),
                "{parts:?} {predicate:?}"
            );
            assert_eq!(found.create.is_empty(), in_order);
        }
    }

    #[test]
    fn what_is_missing_is_written_as_the_statement_needs_it() {
        let create = |state: State| advice_for(state, &[PRIMARY]).create.remove(0);
        let begin = "create index concurrently outbox_pending_idx on public.outbox (\"created_at\", \"id\")";
        assert_eq!(create(words("status", "it's")), format!("{begin} where \"status\" = 'it''s';"));
        assert_eq!(create(words("payload.s", "new")), format!("{begin} where (\"payload\" ->> 's') = 'new';"));
        assert_eq!(create(State::Stamp(Name::new("sent_at"))), format!("{begin} where \"sent_at\" is null;"));
        assert_eq!(create(State::Presence), format!("{begin};"));
        let found = advice_for(State::Presence, &[("i", &["created_at"], None)]).create;
        assert_eq!(found, ["create unique index concurrently outbox_row_idx on public.outbox (\"id\");"]);
    }
}
