//! Where an event's parts stand, and the order of reading.

use postroom_adopted::mapping::Name;
use postroom_adopted::survey::Fact;
use postroom_adopted::{Dialect, Holds};

use super::Value;
use super::finder::{Finder, Picked};
use super::names::{self, Names};

/// The column that names a row, and the event's id.
pub(super) fn row(finder: &mut Finder<'_>) {
    let facts = finder.facts;
    let id = |column: &&Fact| {
        let bare = names::bare(column.name.as_str());
        bare == "id" || names::EVENT_ID.sure.contains(&bare.as_str())
    };
    let single = |key: &&Vec<Name>| key.len() == 1;
    let primary = facts.keys.first();
    let (name, sure, why) = if let Some([name]) = primary.map(Vec::as_slice) {
        (name.clone(), true, "unique and never null")
    } else if let Some([name]) = facts.keys.iter().find(single).map(Vec::as_slice) {
        (name.clone(), true, "unique")
    } else if let Some(column) = facts.columns.iter().find(id) {
        let name = column.name.clone();
        let (warning, why) = match primary {
            Some(key) => (
                format!(
                    "{name} is unique only together with the rest of the primary key ({}): two rows with one {name} would be marked as one",
                    list(key)
                ),
                "a part of the primary key",
            ),
            None => (
                format!("nothing makes {name} unique: two rows with one {name} would be marked as one"),
                "by its name; there is no primary key",
            ),
        };
        finder.warn(warning);
        (name, false, why)
    } else {
        finder.missing(
            "row",
            "the column that names a row",
            "a primary key, a unique column, or one called id, uuid or event_id",
        );
        return;
    };
    let text = name.to_string();
    finder.uses(&name);
    finder.add("row", Value::Text(text.clone()), sure, why, Vec::new());
    match finder.pick(names::EVENT_ID, |column| column.is_word() && !column.is_json_type()) {
        Some(picked) => finder.column("event.id", &picked),
        None => finder.text("event.id", text, "the id of the row"),
    }
}

/// The payload.
pub(super) fn payload(finder: &mut Finder<'_>) {
    let fits = |column: &Fact| column.is_json();
    if let Some(picked) =
        finder.pick(names::PAYLOAD, |column| fits(column) && (column.is_json_type() || !is_type(column)))
    {
        finder.column("event.payload", &picked);
        return;
    }
    let not_headers = |column: &&Fact| {
        let bare = names::bare(column.name.as_str());
        !names::HEADERS.sure.contains(&bare.as_str()) && !names::HEADERS.maybe.contains(&bare.as_str())
    };
    let json: Vec<&Fact> = finder.free().filter(|column| column.is_json_type()).filter(not_headers).collect();
    if let Some((first, others)) = json.split_first() {
        let others = others.iter().map(|column| column.name.to_string()).collect();
        finder.column("event.payload", &Picked { column: first, sure: false, others });
        return;
    }
    let bytes = finder.free().find(|column| column.is_bytes());
    let looked_for = names::PAYLOAD.listed("JSON or text");
    let looked_for = match bytes {
        Some(column) => format!("{looked_for}; {} is {}, and a payload is JSON", column.name, column.sql_type),
        None => looked_for,
    };
    finder.missing("event.payload", "the payload", looked_for);
}

/// A column called `event` or `message` that is text is as likely its type.
fn is_type(column: &Fact) -> bool {
    names::bare(column.name.as_str()) == "event"
}

/// The other parts of an event.
pub(super) fn rest(finder: &mut Finder<'_>) {
    type Part = (&'static str, Names, fn(&Fact) -> bool);
    let word: fn(&Fact) -> bool = |column| column.is_word() && !column.is_json_type();
    let before: [Part; 2] =
        [("event.aggregate_type", names::AGGREGATE_TYPE, word), ("event.aggregate_id", names::AGGREGATE_ID, word)];
    let after: [Part; 6] = [
        ("event.key", names::KEY, word),
        ("event.tenant", names::TENANT, word),
        ("event.correlation_id", names::CORRELATION, word),
        ("event.causation_id", names::CAUSATION, word),
        ("event.schema_version", names::SCHEMA_VERSION, word),
        ("event.headers", names::HEADERS, |column| column.is_json()),
    ];
    let take = |finder: &mut Finder<'_>, parts: &[Part]| {
        for (key, names, fits) in parts {
            if let Some(picked) = finder.pick(*names, fits) {
                finder.column(key, &picked);
            }
        }
    };
    take(finder, &before);
    event_type(finder);
    take(finder, &after);
    members(finder);
}

fn event_type(finder: &mut Finder<'_>) {
    if let Some(picked) = finder.pick(names::EVENT_TYPE, |column| column.is_word() && !column.is_json_type()) {
        finder.column("event.type", &picked);
        return;
    }
    let payload = finder.found("event.payload");
    let member = |column: &Fact| {
        let mut common = column.members.iter().filter(|member| member.common);
        common.find(|member| names::EVENT_TYPE.sure.contains(&names::bare(&member.key).as_str())).map(|m| m.key.clone())
    };
    match payload.and_then(|column| Some((column.name.clone(), member(column)?))) {
        Some((column, key)) => finder.inside("event.type", &column, &key, false),
        None => finder.missing("event.type", "the event's type", names::EVENT_TYPE.listed("a column")),
    }
}

/// Parts that have no column and stand inside headers or payload.
fn members(finder: &mut Finder<'_>) {
    for (key, names, sure) in [
        ("event.tenant", names::TENANT, false),
        ("event.correlation_id", names::CORRELATION, true),
        ("event.causation_id", names::CAUSATION, true),
        ("event.schema_version", names::SCHEMA_VERSION, true),
    ] {
        if finder.has(key) {
            continue;
        }
        let paths = [finder.found("event.headers"), finder.found("event.payload")];
        let found = paths.into_iter().flatten().find_map(|column| {
            let fits = |key: &str| names.sure.contains(&names::bare(key).as_str());
            let member = column.members.iter().find(|member| member.common && fits(&member.key))?;
            Some((column.name.clone(), member.key.clone()))
        });
        if let Some((column, member)) = found {
            finder.inside(key, &column, &member, sure);
        }
    }
}

/// The order of reading, and when an event happened.
pub(super) fn order(finder: &mut Finder<'_>) {
    let dialect = finder.facts.dialect;
    let row = finder.found("row").map(|column| (column.name.clone(), column.holds));
    let occurred = finder.pick(names::OCCURRED, |column| column.is_time(dialect));
    let created = finder.pick(names::CREATED, |column| column.is_time(dialect));
    let sequence = finder.pick(names::SEQUENCE, |column| column.holds == Holds::Integer);
    let row_text = row.iter().map(|(name, _)| name.to_string());
    let mut ordered = true;
    if let Some(picked) = &sequence {
        finder.uses(&picked.column.name);
        finder.add(
            "order",
            Value::List(vec![picked.column.name.to_string()]),
            picked.sure,
            "increasing numbers",
            picked.others.clone(),
        );
    } else if row.as_ref().is_some_and(|(_, holds)| *holds == Holds::Integer) {
        finder.add("order", Value::List(row_text.collect()), true, "increasing numbers", Vec::new());
    } else if let Some(picked) = &created {
        let order = std::iter::once(picked.column.name.to_string()).chain(row_text).collect();
        finder.add("order", Value::List(order), picked.sure, "by the time they were written", picked.others.clone());
        if dialect == Dialect::Sqlite && picked.column.holds == Holds::Integer {
            finder.warn(format!("{} holds numbers: they are taken for microseconds since 1970", picked.column.name));
        }
    } else {
        ordered = false;
        let why = "no column tells the order in which rows were written";
        finder.add("order", Value::List(row_text.collect()), false, why, Vec::new());
        finder.warn(format!("{why}: events are sent in the order of their ids, which may be none at all"));
    }
    if let Some(picked) = created.iter().chain(&occurred).next() {
        finder.uses(&picked.column.name);
    }
    let occurred =
        occurred.filter(|picked| created.as_ref().is_none_or(|created| created.column.name != picked.column.name));
    match (occurred, created) {
        (Some(picked), _) => finder.column("event.occurred_at", &picked),
        // Where rows are not read in the order of a time, nothing else says which it is.
        (None, Some(picked)) if !finder.order_begins_with(&picked.column.name) => {
            finder.column("event.occurred_at", &picked);
        }
        _ => {}
    }
    let cached = finder.facts.columns.iter().find(|column| column.cache > 1 && finder.order_begins_with(&column.name));
    if let Some(column) = cached {
        finder.warn(format!(
            "a session draws {} numbers of {} at once, so they do not rise in the order of writing: rows of one key may be \
             swapped. Set the sequence's cache to 1, or read in another order",
            column.cache, column.name
        ));
    }
    let keyed = finder.has("event.key") || finder.has("event.aggregate_id");
    let (value, why) = match (keyed, ordered) {
        (false, _) => (false, "events have no key"),
        (true, false) => (false, "no column tells the order"),
        (true, true) => (true, "events have a key; false lets a failed row wait alone"),
    };
    finder.add("ordered", Value::Flag(value), !value, why, Vec::new());
}

fn list(names: &[Name]) -> String {
    names.iter().map(Name::to_string).collect::<Vec<_>>().join(", ")
}
