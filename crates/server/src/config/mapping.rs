//! `[store.NAME.mapping]`: a table that is there already as the store's outbox. The keys, and what they mean.

use std::time::Duration;

use postroom_adopted::Mapping;
use postroom_adopted::mapping::{
    Claim, Claimed, ColumnPath, DeadTable, Death, EventColumns, InboxTable, LogTable, Name, NameError, State, TableName,
};
use postroom_core::OnDead;
use postroom_core::units::format_duration;
use postroom_settings::{Key, Kind, Node, Table, key, optional, table};

use super::read::Read;
use super::typed::{RouteConfig, StoreConfig};

const NAMES: Kind = Kind::List(&Kind::Text);

pub(super) static MAPPING: &[Key] = &[
    optional(
        "table",
        Kind::Text,
        r#""event_outbox""#,
        "Name of the table, with its schema if it is not in the search path.",
    ),
    key("row", Kind::Text, r#""id""#, "Column that identifies a row."),
    optional("order", NAMES, r#"["created_at", "id"]"#, "Columns that define the order in which rows are read."),
    key("ordered", Kind::Flag, "false", "Whether rows of one key are delivered in the order of `order`."),
    key(
        "claim",
        Kind::Word(&["lease", "row-locks", "columns"]),
        r#""lease""#,
        "Method of claiming rows: one relay owns the table, or relays share it by row locks or by columns.",
    ),
    table("event", EVENT, "Columns of the fields of an event; column.key is a key inside a JSON column."),
    table("state", STATE, "State of a row: in a status column, a timestamp, a flag, or by its existence."),
    optional(
        "attempts",
        Kind::Text,
        r#""attempts""#,
        "Column of the number of failed attempts; by default it is kept beside the table.",
    ),
    optional(
        "next_attempt",
        Kind::Text,
        r#""available_at""#,
        "Column of the time of the next attempt; by default it is kept beside the table.",
    ),
    optional("error", Kind::Text, r#""last_error""#, "Column of the text of the last failure."),
    optional("done_at", Kind::Text, r#""sent_at""#, "Column of the time at which the row was delivered."),
    table("claimed", CLAIMED, "Columns of a claimed row, with claim = \"columns\"; `attempts` counts the claims."),
    table("log", LOG, "Log table that finished rows are moved to; columns of the same name are copied."),
    table("dead_letters", DEAD, "Table that dead letters are copied to, one row per event."),
    table("inbox", INBOX, "Inbox table of the consumers, with the events that they have accepted."),
    optional(
        "replay_suffix",
        Kind::Text,
        r#""-replay-""#,
        "Suffix of the ids of replayed rows, followed by a number; by default the row itself becomes pending again.",
    ),
    optional(
        "marked_by",
        Kind::Text,
        r#""orders""#,
        "Route that marks the rows, if the store has several; the others keep their state beside the table.",
    ),
    Key {
        name: "create",
        kind: Kind::Section(CREATE),
        default: "",
        doc: "SQL that creates the table, run by `store migrate up` if enabled, never by a relay.",
        example: "",
    },
    key("prunes", Kind::Flag, "false", "Whether retention deletes delivered rows."),
    optional(
        "archive",
        Kind::Text,
        r#""event_outbox_archive""#,
        "Table that retention copies rows to before it deletes them.",
    ),
];

static EVENT: &[Key] = &[
    key("id", Kind::Text, r#""id""#, "Column of the event id."),
    key("type", Kind::Text, r#""event_type""#, "Column of the event type."),
    key("payload", Kind::Text, r#""payload""#, "Column of the payload, as JSON."),
    optional(
        "payload_without",
        NAMES,
        r#"["outbox_status"]"#,
        "Keys that are removed from the payload when it is sent.",
    ),
    optional("key", Kind::Text, r#""resource_id""#, "Column of the ordering key; by default the aggregate id."),
    optional("aggregate_type", Kind::Text, r#""aggregate_type""#, "Column of the aggregate type."),
    optional("aggregate_id", Kind::Text, r#""aggregate_id""#, "Column of the aggregate id."),
    optional("tenant", Kind::Text, r#""tenant_id""#, "Column of the tenant."),
    optional(
        "occurred_at",
        Kind::Either(&Kind::Text, &NAMES),
        r#"["payload.occurred_at", "created_at"]"#,
        "Column of the time of occurrence, or a list of which the first with a value counts.",
    ),
    optional("correlation_id", Kind::Text, r#""payload.correlation_id""#, "Column of the correlation id."),
    optional("causation_id", Kind::Text, r#""payload.causation_id""#, "Column of the causation id."),
    optional(
        "schema_version",
        Kind::Text,
        r#""payload.schema_version""#,
        "Column of the version of the payload's schema.",
    ),
    optional("headers", Kind::Text, r#""headers""#, "Column of the headers, as a JSON object."),
    optional(
        "attributes",
        Kind::Open(&Kind::Text),
        r#"{ group_id = "group_id" }"#,
        "Columns of the attributes, by name.",
    ),
];

static STATE: &[Key] = &[
    optional("word", Kind::Text, r#""status""#, "Status column."),
    key("pending", Kind::Text, r#""pending""#, "Status of rows to be delivered."),
    key("done", Kind::Text, r#""done""#, "Status of delivered rows."),
    optional("dead", Kind::Text, r#""dead""#, "Status of dead letters."),
    optional(
        "ignored",
        NAMES,
        r#"["failed"]"#,
        "Status values of other programs; such rows are neither claimed nor changed.",
    ),
    optional("stamp", Kind::Text, r#""published_at""#, "Timestamp column that is null while the row is pending."),
    optional("flag", Kind::Text, r#""processed""#, "Flag column that is true for delivered rows."),
    key(
        "dead_is_done",
        Kind::Flag,
        "false",
        "Whether dead letters get the state of delivered rows, because they are kept in another table.",
    ),
];

static CLAIMED: &[Key] = &[
    optional("word", Kind::Text, r#""PROCESSING""#, "Status of claimed rows."),
    optional(
        "since",
        Kind::Text,
        r#""updated_at""#,
        "Column of the time of the claim, which is renewed while the claim is held.",
    ),
    key(
        "lease",
        Kind::Duration(Duration::from_secs(1)),
        r#""1m""#,
        "Time after which another relay may take over a claim.",
    ),
    optional(
        "claims_max",
        Kind::Count,
        "5",
        "Number of claims after which an unfinished row becomes a dead letter; no limit by default.",
    ),
];

static LOG: &[Key] = &[
    optional(
        "table",
        Kind::Text,
        r#""event_log""#,
        "Name of the log table; it uses the `done` and `dead` values of the state.",
    ),
    optional("errors", Kind::Text, r#""errors""#, "Column of the errors, as a JSON list of handler and error."),
    optional("at", Kind::Text, r#""finished_at""#, "Column of the time at which the row finished."),
];

static DEAD: &[Key] = &[
    optional("table", Kind::Text, r#""dead_letter_events""#, "Name of the table of dead letters."),
    key("id", Kind::Text, r#""event_id""#, "Column of the event id."),
    optional("type", Kind::Text, r#""event_type""#, "Column of the event type."),
    optional("payload", Kind::Text, r#""payload""#, "Column of the payload, copied from the adopted table."),
    optional("error", Kind::Text, r#""error""#, "Column of the text of the last failure."),
    optional(
        "first_at",
        Kind::Text,
        r#""first_seen_at""#,
        "Column of the time at which the event first became a dead letter.",
    ),
    optional(
        "last_at",
        Kind::Text,
        r#""last_seen_at""#,
        "Column of the time at which the event last became a dead letter.",
    ),
    optional(
        "attempts",
        Kind::Text,
        r#""attempts""#,
        "Column of the number of times that the event became a dead letter.",
    ),
];

static CREATE: &[Key] = &[
    optional("sql", Kind::Text, r#""create table event_outbox (…)""#, "SQL statements."),
    optional(
        "service",
        Kind::Text,
        r#""billing_event""#,
        "Name of the service; the statements run only if `services` contains it.",
    ),
    optional(
        "services",
        Kind::AnyText,
        r#""billing_event,invoice""#,
        "Services whose tables are created, separated by commas.",
    ),
];

static INBOX: &[Key] = &[
    optional("table", Kind::Text, r#""processed_events""#, "Name of the inbox table."),
    key("consumer", Kind::Text, r#""consumer_name""#, "Column of the consumer's name."),
    key("id", Kind::Text, r#""event_id""#, "Column of the event id."),
    optional("at", Kind::Text, r#""processed_at""#, "Column of the time of the acceptance."),
];

impl Read<'_> {
    /// The mapping of a store, if it adopts a table.
    pub(super) fn mapping(&mut self, store: &str, section: Option<&Table>) -> Option<Mapping> {
        let section = section?;
        let Some(node) = section.get("table") else {
            if let Some(given) = section.0.iter().find(|entry| !entry.node.is_default()) {
                let message = format!("the mapping of store `{store}` names no `table`");
                self.problems.at(&given.node.place, message, Some("add table = \"event_outbox\"".to_owned()));
            }
            return None;
        };
        let table = self.parsed(node, TableName::parse)?;
        let empty = Table::default();
        let part = |name: &str| section.table(name).unwrap_or(&empty);
        let event = self.event_places(part("event"))?;
        let (state, death) = self.state(part("state"))?;
        let mapping = Mapping {
            table,
            row: self.column(section, "row")?,
            order: self.columns(section, "order"),
            ordered: section.flag("ordered"),
            event,
            state,
            death,
            claim: self.claim(section, part("claimed"))?,
            log: self.log_table(part("log")),
            attempts: self.path(section, "attempts"),
            next_attempt: self.path(section, "next_attempt"),
            error: self.path(section, "error"),
            done_at: self.column(section, "done_at"),
            dead_letters: self.dead_table(part("dead_letters")),
            prunes: section.flag("prunes"),
            archive: section.get("archive").and_then(|node| self.parsed(node, TableName::parse)),
            replay_suffix: section.text("replay_suffix").map(str::to_owned),
            marked_by: section.text("marked_by").map(str::to_owned),
            inbox: self.inbox_table(part("inbox")),
            create: enabled(part("create")),
        };
        for problem in mapping.problems() {
            let key = problem.key.split('.').next().unwrap_or_default();
            let path = section.get(key).map_or(&node.place, |node| &node.place);
            self.problems.at(
                path,
                format!("mapping of store `{store}`: {}", problem.message),
                Some(problem.hint.to_owned()),
            );
        }
        Some(mapping)
    }

    /// That a claim in columns outlives the pauses between two heartbeats.
    pub(super) fn claims(&mut self, stores: &[StoreConfig], lease: Duration, tree: &Table) {
        for store in stores {
            let Some(Claim::Columns(claimed)) = store.mapping.as_ref().map(|mapping| &mapping.claim) else { continue };
            if claimed.lease < lease {
                let at = ["store", &store.name, "mapping", "claimed"];
                let node = at.iter().try_fold(tree, |table, name| table.table(name)).and_then(|t| t.get("lease"));
                let message = format!(
                    "a claim of store `{}` is over after {}, before a relay must have renewed it ({})",
                    store.name,
                    format_duration(claimed.lease),
                    format_duration(lease)
                );
                if let Some(node) = node {
                    let hint = "make claimed.lease at least as long as relay.lease".to_owned();
                    self.problems.at(&node.place, message, Some(hint));
                }
            }
        }
    }

    /// What the routes of adopted tables cannot be: a table has one state, which tells of one route, and every row of it wants to be
    /// delivered.
    pub(super) fn adopted(&mut self, stores: &[StoreConfig], routes: &[RouteConfig], list: &[Node]) {
        for store in stores {
            let Some(mapping) = &store.mapping else { continue };
            let of_store: Vec<&RouteConfig> =
                routes.iter().filter(|route| route.stores.contains(&store.name)).collect();
            let place = |route: &RouteConfig| {
                let is_it =
                    |node: &&Node| node.table().is_some_and(|table| table.text("name") == Some(&route.definition.name));
                list.iter().find(is_it).map(|node| node.place.clone())
            };
            for (route, message, hint) in too_many(store, mapping, &of_store) {
                if let Some(path) = place(route) {
                    self.problems.at(&path, message, Some(hint));
                }
            }
            for route in of_store {
                let name = &route.definition.name;
                let Some(path) = place(route) else { continue };
                if route.definition.on_dead == OnDead::Hold {
                    let message = format!(
                        "route `{name}` holds keys after a death, which the table of store `{}` cannot tell",
                        store.name
                    );
                    let hint = "leave `on_dead` out; after a dead letter, an adopted table always delivers the later rows of the key".to_owned();
                    self.problems.at(&path, message, Some(hint));
                }
                let filter = &route.definition.filter;
                let takes_all = filter.types.iter().all(|pattern| pattern.to_string() == "*");
                if !takes_all || !filter.aggregate_type.is_empty() || !filter.tenant.is_empty() {
                    let message = format!(
                        "route `{name}` leaves rows of store `{}` out, which would be pending for ever",
                        store.name
                    );
                    let hint = "leave match, aggregate_type and tenant out; an adopted table is delivered as a whole"
                        .to_owned();
                    self.problems.at(&path, message, Some(hint));
                }
            }
        }
    }

    /// A text that must read as something; says so where it does not.
    fn parsed<T>(&mut self, node: &Node, parse: impl Fn(&str) -> Result<T, NameError>) -> Option<T> {
        match parse(node.text()?) {
            Ok(value) => Some(value),
            Err(error) => {
                self.problems.at(&node.place, error.to_string(), None);
                None
            }
        }
    }

    fn path(&mut self, section: &Table, name: &str) -> Option<ColumnPath> {
        section.get(name).and_then(|node| self.parsed(node, ColumnPath::parse))
    }

    /// One path, or a list of them.
    fn paths(&mut self, section: &Table, name: &str) -> Vec<ColumnPath> {
        let Some(node) = section.get(name) else { return Vec::new() };
        let nodes = node.list().unwrap_or(std::slice::from_ref(node));
        nodes.iter().filter_map(|node| self.parsed(node, ColumnPath::parse)).collect()
    }

    fn column(&mut self, section: &Table, name: &str) -> Option<Name> {
        let node = section.get(name)?;
        let path = self.parsed(node, ColumnPath::parse)?;
        let column = path.as_column().cloned();
        if column.is_none() {
            let message = format!("`{name}` must be a column, and {path} is inside one");
            self.problems.at(&node.place, message, None);
        }
        column
    }

    fn columns(&mut self, section: &Table, name: &str) -> Vec<Name> {
        let list = section.get(name).and_then(Node::list).unwrap_or_default();
        list.iter().filter_map(|node| Some(self.parsed(node, ColumnPath::parse)?.as_column()?.clone())).collect()
    }

    fn event_places(&mut self, section: &Table) -> Option<EventColumns> {
        let mut attributes = Vec::new();
        for entry in section.table("attributes").map_or(&[][..], |table| &table.0) {
            attributes.extend(self.parsed(&entry.node, ColumnPath::parse).map(|path| (entry.name.clone(), path)));
        }
        let without = section.get("payload_without").and_then(Node::list).unwrap_or_default();
        Some(EventColumns {
            id: self.path(section, "id")?,
            event_type: self.path(section, "type")?,
            payload: self.path(section, "payload")?,
            payload_without: without.iter().filter_map(|node| node.text().map(str::to_owned)).collect(),
            key: self.path(section, "key"),
            aggregate_type: self.path(section, "aggregate_type"),
            aggregate_id: self.path(section, "aggregate_id"),
            tenant: self.path(section, "tenant"),
            occurred_at: self.paths(section, "occurred_at"),
            correlation_id: self.path(section, "correlation_id"),
            causation_id: self.path(section, "causation_id"),
            schema_version: self.path(section, "schema_version"),
            headers: self.path(section, "headers"),
            attributes,
        })
    }

    fn state(&mut self, section: &Table) -> Option<(State, Death)> {
        let given: Vec<&Node> = ["word", "stamp", "flag"].iter().filter_map(|name| section.get(name)).collect();
        if let [_, second, ..] = given.as_slice() {
            let message = "a row's state is told in two ways";
            self.problems.at(&second.place, message, Some("leave one of word, stamp and flag out".to_owned()));
        }
        let word = |name: &str| section.text(name).map(str::to_owned);
        let ignored = section.get("ignored").and_then(Node::list).unwrap_or_default();
        let state = if section.get("word").is_some() {
            State::Words {
                path: self.path(section, "word")?,
                pending: word("pending").unwrap_or_default(),
                done: word("done").unwrap_or_default(),
                ignored: ignored.iter().filter_map(|node| node.text().map(str::to_owned)).collect(),
            }
        } else if section.get("stamp").is_some() {
            State::Stamp(self.column(section, "stamp")?)
        } else if section.get("flag").is_some() {
            State::Flag(self.column(section, "flag")?)
        } else {
            State::Presence
        };
        let death = match word("dead") {
            Some(dead) => Death::Word(dead),
            None if section.flag("dead_is_done") => Death::AsDone,
            None => Death::Parked,
        };
        Some((state, death))
    }

    fn claim(&mut self, mapping: &Table, section: &Table) -> Option<Claim> {
        match mapping.text("claim") {
            Some("row-locks") => Some(Claim::RowLocks),
            Some("columns") => {
                let (Some(word), Some(_)) = (section.text("word"), section.get("since")) else {
                    let path = mapping.get("claim").map(|node| node.place.clone())?;
                    let hint = "add claimed = { word = \"PROCESSING\", since = \"updated_at\" }".to_owned();
                    self.problems.at(&path, "a claim in columns needs `claimed.word` and `claimed.since`", Some(hint));
                    return None;
                };
                Some(Claim::Columns(Claimed {
                    word: word.to_owned(),
                    since: self.column(section, "since")?,
                    lease: section.duration("lease"),
                    claims_max: section.get("claims_max").and_then(Node::count),
                }))
            }
            _ => Some(Claim::Lease),
        }
    }

    fn log_table(&mut self, section: &Table) -> Option<LogTable> {
        let node = section.get("table")?;
        Some(LogTable {
            table: self.parsed(node, TableName::parse)?,
            errors: self.column(section, "errors"),
            at: self.column(section, "at"),
        })
    }

    fn dead_table(&mut self, section: &Table) -> Option<DeadTable> {
        let node = section.get("table")?;
        Some(DeadTable {
            table: self.parsed(node, TableName::parse)?,
            id: self.column(section, "id")?,
            event_type: self.column(section, "type"),
            payload: self.column(section, "payload"),
            error: self.column(section, "error"),
            first_at: self.column(section, "first_at"),
            last_at: self.column(section, "last_at"),
            attempts: self.column(section, "attempts"),
        })
    }

    fn inbox_table(&mut self, section: &Table) -> Option<InboxTable> {
        let node = section.get("table")?;
        Some(InboxTable {
            table: self.parsed(node, TableName::parse)?,
            consumer: self.column(section, "consumer")?,
            id: self.column(section, "id")?,
            at: self.column(section, "at"),
        })
    }
}

/// The SQL that makes the table, where that is wanted.
fn enabled(section: &Table) -> Option<String> {
    let service = section.text("service")?;
    let among = section.text("services")?.split(',').any(|name| name.trim() == service);
    section.text("sql").filter(|_| among).map(str::to_owned)
}

/// Routes that a table cannot have, with what is wrong and what to do.
fn too_many<'r>(
    store: &StoreConfig,
    mapping: &Mapping,
    routes: &[&'r RouteConfig],
) -> Vec<(&'r RouteConfig, String, String)> {
    let (Some(first), name) = (routes.first(), &store.name) else { return Vec::new() };
    if let Some(marks) = &mapping.marked_by {
        if routes.iter().any(|route| route.definition.name == *marks) {
            return Vec::new();
        }
        let names: Vec<&str> = routes.iter().map(|route| route.definition.name.as_str()).collect();
        let message = format!("marked_by of store `{name}` names route `{marks}`, which the store does not have");
        return vec![(first, message, format!("name one of its routes: {}", names.join(", ")))];
    }
    let (why, hint) = if mapping.has_owner() {
        let marks = &first.definition.name;
        let hint = format!("say which route marks the rows: store.{name}.mapping.marked_by = {marks:?}");
        ("whose table has one state", hint)
    } else {
        let hint = "a claim says nothing of a second route: leave `claim` out, so that one relay owns the table, or give the \
                    store one route";
        ("whose rows are claimed in the table itself", hint.to_owned())
    };
    let second = |route: &&'r RouteConfig| {
        let message = format!("route `{}` is the second one of store `{name}`, {why}", route.definition.name);
        (*route, message, hint.clone())
    };
    routes.iter().skip(1).map(second).collect()
}
