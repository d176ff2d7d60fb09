//! `[store.NAME.layout]`: a table that is there already as the store's outbox. The keys, and what they mean.

use std::time::Duration;

use postroom_adopted::Layout;
use postroom_adopted::layout::{
    Claim, Claimed, DeadTable, Death, EventPlaces, InboxTable, LogTable, Name, NameError, Place, State, TableName,
};
use postroom_core::OnDead;
use postroom_core::units::format_duration;

use super::keys::{Key, Kind, key, optional, table};
use super::read::Read;
use super::tree::{Node, Table};
use super::typed::{RouteConfig, StoreConfig};

const NAMES: Kind = Kind::List(&Kind::Text);

pub(super) static LAYOUT: &[Key] = &[
    optional("table", Kind::Text, r#""event_outbox""#, "The table, with its schema if it is not in the search path."),
    key("row", Kind::Text, r#""id""#, "The column that names a row."),
    optional("order", NAMES, r#"["created_at", "id"]"#, "The columns rows are read in the order of."),
    key("ordered", Kind::Flag, "false", "Whether rows of one key are delivered in that order."),
    key(
        "claim",
        Kind::Word(&["lease", "row-locks", "columns"]),
        r#""lease""#,
        "How rows are claimed: one relay owns the table, or relays share it by locks or by columns.",
    ),
    table("event", EVENT, "Where an event's parts stand: a column, or a key inside a JSON column as column.key."),
    table("state", STATE, "How a row tells what became of it: a word, a stamp, a flag, or by being there."),
    optional("attempts", Kind::Text, r#""attempts""#, "Failed tries; without a place they are kept beside the table."),
    optional("next_attempt", Kind::Text, r#""available_at""#, "When it is tried next; without a place kept beside."),
    optional("error", Kind::Text, r#""last_error""#, "Why it failed last."),
    optional("done_at", Kind::Text, r#""sent_at""#, "A column that gets the time when a row is done."),
    table("claimed", CLAIMED, "Of claims in columns: what a claimed row looks like; `attempts` counts the claims."),
    table("log", LOG, "A table that finished rows move to; columns of one name are copied."),
    table("dead_letters", DEAD, "A table that dead events are copied to, one row per event."),
    table("inbox", INBOX, "The consumers' table of what they have accepted."),
    optional(
        "replay_suffix",
        Kind::Text,
        r#""-replay-""#,
        "Replays are new rows, named by the event's id, this and a number; by default the row is pending again.",
    ),
    Key {
        name: "create",
        kind: Kind::Section(CREATE),
        default: "",
        doc: "SQL that makes the table; run by `store migrate up` where that is enabled, never by a relay.",
        example: "",
    },
    key("prunes", Kind::Flag, "false", "Whether retention deletes rows that are done."),
    optional("archive", Kind::Text, r#""event_outbox_archive""#, "Where retention copies rows before it deletes them."),
];

static EVENT: &[Key] = &[
    key("id", Kind::Text, r#""id""#, "Its id."),
    key("type", Kind::Text, r#""event_type""#, "What happened."),
    key("payload", Kind::Text, r#""payload""#, "The payload; JSON."),
    optional(
        "payload_without",
        NAMES,
        r#"["outbox_status"]"#,
        "Keys that are left out of the payload when it is sent.",
    ),
    optional("key", Kind::Text, r#""resource_id""#, "The ordering key, when it is not the aggregate's id."),
    optional("aggregate_type", Kind::Text, r#""aggregate_type""#, "Whose event: the kind."),
    optional("aggregate_id", Kind::Text, r#""aggregate_id""#, "Whose event: which one."),
    optional("tenant", Kind::Text, r#""tenant_id""#, "The tenant."),
    optional("occurred_at", Kind::Text, r#""created_at""#, "When; by default the first time in the order of reading."),
    optional("correlation_id", Kind::Text, r#""payload.correlation_id""#, "What it belongs to."),
    optional("causation_id", Kind::Text, r#""payload.causation_id""#, "What caused it."),
    optional("schema_version", Kind::Text, r#""payload.schema_version""#, "Version of the payload's schema."),
    optional("headers", Kind::Text, r#""headers""#, "Headers; a JSON object."),
    optional("attributes", Kind::Open(&Kind::Text), r#"{ group_id = "group_id" }"#, "Scope fields by name."),
];

static STATE: &[Key] = &[
    optional("word", Kind::Text, r#""status""#, "Where the word stands."),
    key("pending", Kind::Text, r#""pending""#, "The word of rows to be delivered."),
    key("done", Kind::Text, r#""done""#, "The word of delivered rows."),
    optional("dead", Kind::Text, r#""dead""#, "The word of dead rows."),
    optional("known", NAMES, r#"["failed"]"#, "Words of others, never written nor claimed."),
    optional("stamp", Kind::Text, r#""published_at""#, "A time that is null as long as the row is pending."),
    optional("flag", Kind::Text, r#""processed""#, "Whether the row is done."),
    key(
        "dead_is_done",
        Kind::Flag,
        "false",
        "Whether dead rows look like delivered ones: somebody else has the dead letter.",
    ),
];

static CLAIMED: &[Key] = &[
    optional("word", Kind::Text, r#""PROCESSING""#, "The word of claimed rows."),
    optional(
        "since",
        Kind::Text,
        r#""updated_at""#,
        "The column with the time of the claim; refreshed while it is held.",
    ),
    key("lease", Kind::Duration(Duration::from_secs(1)), r#""1m""#, "A claim older than this is anybody's."),
    optional(
        "claims_max",
        Kind::Count,
        "5",
        "Rows claimed more often, and never finished, are dead; no limit by default.",
    ),
];

static LOG: &[Key] = &[
    optional("table", Kind::Text, r#""event_log""#, "The table; it has the words `done` and `dead` of the state."),
    optional("errors", Kind::Text, r#""errors""#, "A column for errors, as a JSON list of handler and error."),
    optional("at", Kind::Text, r#""finished_at""#, "A column for the time of the end."),
];

static DEAD: &[Key] = &[
    optional("table", Kind::Text, r#""dead_letter_events""#, "The table."),
    key("id", Kind::Text, r#""event_id""#, "The event's id."),
    optional("type", Kind::Text, r#""event_type""#, "What happened."),
    optional("payload", Kind::Text, r#""payload""#, "The payload column, as it stands in the adopted table."),
    optional("error", Kind::Text, r#""error""#, "Why."),
    optional("first_at", Kind::Text, r#""first_seen_at""#, "When it first died."),
    optional("last_at", Kind::Text, r#""last_seen_at""#, "When it last died."),
    optional("attempts", Kind::Text, r#""attempts""#, "How often it died."),
];

static CREATE: &[Key] = &[
    optional("sql", Kind::Text, r#""create table event_outbox (…)""#, "The statements."),
    optional("service", Kind::Text, r#""billing_event""#, "They are run when this is among `services`; else never."),
    optional("services", Kind::AnyText, r#""billing_event,invoice""#, "Services whose tables are made; with commas."),
];

static INBOX: &[Key] = &[
    optional("table", Kind::Text, r#""processed_events""#, "The table."),
    key("consumer", Kind::Text, r#""consumer_name""#, "The consumer."),
    key("id", Kind::Text, r#""event_id""#, "The event's id."),
    optional("at", Kind::Text, r#""processed_at""#, "When."),
];

impl Read<'_> {
    /// The layout of a store, if it adopts a table.
    pub(super) fn layout(&mut self, store: &str, section: Option<&Table>) -> Option<Layout> {
        let section = section?;
        let Some(node) = section.get("table") else {
            if let Some(given) = section.0.iter().find(|entry| !entry.node.is_default()) {
                let message = format!("the layout of store `{store}` names no `table`");
                self.problems.at(&given.node.place, message, Some("add table = \"event_outbox\"".to_owned()));
            }
            return None;
        };
        let table = self.parsed(node, TableName::parse)?;
        let empty = Table::default();
        let part = |name: &str| section.table(name).unwrap_or(&empty);
        let event = self.event_places(part("event"))?;
        let (state, death) = self.state(part("state"))?;
        let layout = Layout {
            table,
            row: self.column(section, "row")?,
            order: self.columns(section, "order"),
            ordered: section.flag("ordered"),
            event,
            state,
            death,
            claim: self.claim(section, part("claimed"))?,
            log: self.log_table(part("log")),
            attempts: self.place(section, "attempts"),
            next_attempt: self.place(section, "next_attempt"),
            error: self.place(section, "error"),
            done_at: self.column(section, "done_at"),
            dead_letters: self.dead_table(part("dead_letters")),
            prunes: section.flag("prunes"),
            archive: section.get("archive").and_then(|node| self.parsed(node, TableName::parse)),
            replay_suffix: section.text("replay_suffix").map(str::to_owned),
            inbox: self.inbox_table(part("inbox")),
            create: enabled(part("create")),
        };
        for problem in layout.problems() {
            let key = problem.key.split('.').next().unwrap_or_default();
            let place = section.get(key).map_or(&node.place, |node| &node.place);
            self.problems.at(
                place,
                format!("layout of store `{store}`: {}", problem.message),
                Some(problem.hint.to_owned()),
            );
        }
        Some(layout)
    }

    /// That a claim in columns outlives the pauses between two heartbeats.
    pub(super) fn claims(&mut self, stores: &[StoreConfig], lease: Duration, tree: &Table) {
        for store in stores {
            let Some(Claim::Columns(claimed)) = store.layout.as_ref().map(|layout| &layout.claim) else { continue };
            if claimed.lease < lease {
                let at = ["store", &store.name, "layout", "claimed"];
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

    /// What the routes of adopted tables cannot be: a table has one state, and every row of it wants to be delivered.
    pub(super) fn adopted(&mut self, stores: &[StoreConfig], routes: &[RouteConfig], list: &[Node]) {
        for store in stores.iter().filter(|store| store.layout.is_some()) {
            let of_store = routes.iter().filter(|route| route.stores.contains(&store.name));
            for (n, route) in of_store.enumerate() {
                let name = &route.definition.name;
                let node = list.iter().find(|node| node.table().is_some_and(|t| t.text("name") == Some(name)));
                let Some(place) = node.map(|node| node.place.clone()) else { continue };
                if n > 0 {
                    let message = format!(
                        "route `{name}` is the second one of store `{}`, whose table has one state",
                        store.name
                    );
                    let hint = "an adopted table has one route; a log of its own has any number".to_owned();
                    self.problems.at(&place, message, Some(hint));
                }
                if route.definition.on_dead == OnDead::Hold {
                    let message = format!(
                        "route `{name}` holds keys after a death, which the table of store `{}` cannot tell",
                        store.name
                    );
                    let hint = "leave `on_dead` out; after a death an adopted table goes on".to_owned();
                    self.problems.at(&place, message, Some(hint));
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
                    self.problems.at(&place, message, Some(hint));
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

    fn place(&mut self, section: &Table, name: &str) -> Option<Place> {
        section.get(name).and_then(|node| self.parsed(node, Place::parse))
    }

    fn column(&mut self, section: &Table, name: &str) -> Option<Name> {
        let node = section.get(name)?;
        let place = self.parsed(node, Place::parse)?;
        let column = place.as_column().cloned();
        if column.is_none() {
            let message = format!("`{name}` must be a column, and {place} is inside one");
            self.problems.at(&node.place, message, None);
        }
        column
    }

    fn columns(&mut self, section: &Table, name: &str) -> Vec<Name> {
        let list = section.get(name).and_then(Node::list).unwrap_or_default();
        list.iter().filter_map(|node| Some(self.parsed(node, Place::parse)?.as_column()?.clone())).collect()
    }

    fn event_places(&mut self, section: &Table) -> Option<EventPlaces> {
        let mut attributes = Vec::new();
        for entry in section.table("attributes").map_or(&[][..], |table| &table.0) {
            attributes.extend(self.parsed(&entry.node, Place::parse).map(|place| (entry.name.clone(), place)));
        }
        let without = section.get("payload_without").and_then(Node::list).unwrap_or_default();
        Some(EventPlaces {
            id: self.place(section, "id")?,
            event_type: self.place(section, "type")?,
            payload: self.place(section, "payload")?,
            payload_without: without.iter().filter_map(|node| node.text().map(str::to_owned)).collect(),
            key: self.place(section, "key"),
            aggregate_type: self.place(section, "aggregate_type"),
            aggregate_id: self.place(section, "aggregate_id"),
            tenant: self.place(section, "tenant"),
            occurred_at: self.place(section, "occurred_at"),
            correlation_id: self.place(section, "correlation_id"),
            causation_id: self.place(section, "causation_id"),
            schema_version: self.place(section, "schema_version"),
            headers: self.place(section, "headers"),
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
        let known = section.get("known").and_then(Node::list).unwrap_or_default();
        let state = if section.get("word").is_some() {
            State::Words {
                place: self.place(section, "word")?,
                pending: word("pending").unwrap_or_default(),
                done: word("done").unwrap_or_default(),
                known: known.iter().filter_map(|node| node.text().map(str::to_owned)).collect(),
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
            None => Death::Aside,
        };
        Some((state, death))
    }

    fn claim(&mut self, layout: &Table, section: &Table) -> Option<Claim> {
        match layout.text("claim") {
            Some("row-locks") => Some(Claim::RowLocks),
            Some("columns") => {
                let (Some(word), Some(_)) = (section.text("word"), section.get("since")) else {
                    let place = layout.get("claim").map(|node| node.place.clone())?;
                    let hint = "add claimed = { word = \"PROCESSING\", since = \"updated_at\" }".to_owned();
                    self.problems.at(&place, "a claim in columns needs `claimed.word` and `claimed.since`", Some(hint));
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
