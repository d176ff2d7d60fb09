//! Tables as they are found, and what is made of them.

use postroom_adopted::mapping::{ColumnPath, TableName};
use postroom_adopted::survey::{Fact, Member, Word};
use postroom_adopted::{Columns, Dialect};

use super::*;

/// A table from `name type [null] [= default]` lines; the first column is the primary key.
fn table(columns: &[&str]) -> Facts {
    let mut catalogue = Columns::default();
    let mut facts = Vec::new();
    for line in columns {
        let (line, default) =
            line.split_once(" = ").map_or((*line, None), |(line, default)| (line, Some(default.to_owned())));
        let (line, nullable) = line.strip_suffix(" null").map_or((line, false), |line| (line, true));
        let (name, sql_type) = line.split_once(' ').unwrap();
        catalogue.add(Name::new(name), sql_type, nullable);
        let holds = catalogue.get(&Name::new(name)).unwrap().holds;
        facts.push(Fact {
            name: Name::new(name),
            sql_type: sql_type.to_owned(),
            holds,
            nullable,
            default,
            labels: Vec::new(),
            cache: 1,
            words: Vec::new(),
            members: Vec::new(),
        });
    }
    let key = vec![facts[0].name.clone()];
    let table = TableName::parse("public.outbox").unwrap();
    Facts { dialect: Dialect::Postgres, table, columns: facts, keys: vec![key], indexes: Vec::new() }
}

/// What a sample of rows adds.
trait Sampled {
    fn words(self, column: &str, words: &[(&str, u64)]) -> Self;
    fn members(self, column: &str, members: &[(&str, &[(&str, u64)])]) -> Self;
}

impl Sampled for Facts {
    fn words(mut self, column: &str, words: &[(&str, u64)]) -> Self {
        let column = self.columns.iter_mut().find(|c| c.name.as_str() == column).unwrap();
        let word = |(text, rows): &(&str, u64)| Word { text: (*text).to_owned(), rows: *rows, stamped: 0 };
        column.words = words.iter().map(word).collect();
        self
    }

    fn members(mut self, column: &str, members: &[(&str, &[(&str, u64)])]) -> Self {
        let column = self.columns.iter_mut().find(|c| c.name.as_str() == column).unwrap();
        let word = |(text, rows): &(&str, u64)| Word { text: (*text).to_owned(), rows: *rows, stamped: 0 };
        let member = |(key, words): &(&str, &[(&str, u64)])| Member {
            key: (*key).to_owned(),
            common: true,
            lacking: 0,
            is_text: true,
            words: words.iter().map(word).collect(),
        };
        column.members = members.iter().map(member).collect();
        self
    }
}

/// The keys as lines, those that are unsure with a `?`.
fn lines(guess: &Guess) -> Vec<String> {
    let line = |guessed: &Guessed| {
        let value = match &guessed.value {
            Value::Text(text) => text.clone(),
            Value::List(list) => list.join(","),
            Value::Flag(flag) => flag.to_string(),
        };
        let doubt = if guessed.confidence == Confidence::Unsure { " ?" } else { "" };
        format!("{}={value}{doubt}", guessed.key)
    };
    guess.keys.iter().filter(|guessed| guessed.key != "table").map(line).collect()
}

fn check(facts: &Facts, expected: &[&str]) -> Guess {
    let guess = guess(facts, &GivenState::default());
    assert_eq!(guess.missing, []);
    let (mut found, mut expected) = (lines(&guess), expected.to_vec());
    found.sort();
    expected.sort_unstable();
    assert_eq!(found, expected);
    guess
}

#[test]
fn an_outbox_whose_payload_is_an_envelope_and_whose_row_is_not_the_event() {
    let facts = table(&[
        "id text",
        "event_id text",
        "event_type text",
        "payload jsonb",
        "status text = pending",
        "attempts integer = 0",
        "created_at timestamp with time zone",
        "sent_at timestamp with time zone null",
    ])
    .words("status", &[("sent", 90), ("pending", 9), ("failed", 1)])
    .members("payload", &[("event_id", &[]), ("tenant_id", &[]), ("correlation_id", &[]), ("schema_version", &[])]);
    let guess = check(
        &facts,
        &[
            "row=id",
            "event.id=event_id",
            "event.type=event_type",
            "event.payload=payload",
            "event.tenant=payload.tenant_id ?",
            "event.correlation_id=payload.correlation_id",
            "event.schema_version=payload.schema_version",
            "state.word=status",
            "state.pending=pending",
            "state.done=sent",
            "state.dead=failed ?",
            "done_at=sent_at",
            "attempts=attempts",
            "order=created_at,id",
            "ordered=false",
        ],
    );
    assert_eq!((guess.unused, guess.warnings), (vec![], vec![]));
}

#[test]
fn an_outbox_whose_state_stands_inside_the_payload() {
    let facts = table(&[
        "id character varying(26)",
        "subject text",
        "tenant_id text",
        "resource_id text null",
        "payload jsonb",
        "created_at timestamp with time zone",
    ])
    .members(
        "payload",
        &[
            ("amount", &[]),
            ("outbox_status", &[("dispatched", 50), ("pending", 3), ("dead_letter", 1)]),
            ("outbox_retry_count", &[]),
            ("outbox_next_attempt_at", &[]),
            ("status", &[("paid", 10)]),
            ("causation_id", &[]),
        ],
    );
    check(
        &facts,
        &[
            "row=id",
            "event.id=id",
            "event.type=subject ?",
            "event.payload=payload",
            "event.payload_without=outbox_last_error,outbox_next_attempt_at,outbox_retry_count,outbox_status",
            "event.key=resource_id ?",
            "event.tenant=tenant_id",
            "event.causation_id=payload.causation_id",
            "state.word=payload.outbox_status",
            "state.pending=pending",
            "state.done=dispatched",
            "state.dead=dead_letter",
            "attempts=payload.outbox_retry_count",
            "next_attempt=payload.outbox_next_attempt_at",
            "error=payload.outbox_last_error ?",
            "order=created_at,id",
            "ordered=true ?",
        ],
    );
}

#[test]
fn an_outbox_that_stamps_what_is_published() {
    let facts = table(&[
        "id character varying(26)",
        "aggregate_type character varying(100)",
        "aggregate_id character varying(26)",
        "event_type character varying(100)",
        "payload jsonb",
        "created_at timestamp with time zone",
        "published_at timestamp with time zone null",
        "retry_count integer = 0",
    ]);
    check(
        &facts,
        &[
            "row=id",
            "event.id=id",
            "event.type=event_type",
            "event.payload=payload",
            "event.aggregate_type=aggregate_type",
            "event.aggregate_id=aggregate_id",
            "state.stamp=published_at",
            "attempts=retry_count",
            "order=created_at,id",
            "ordered=true ?",
        ],
    );
}

#[test]
fn a_queue_whose_rows_move_to_a_log_has_no_word_for_what_is_done() {
    // The columns are an assumption: the system says only what it does with them.
    let facts = table(&[
        "id bigint",
        "type text",
        "payload jsonb",
        "status text = PENDING",
        "attempts integer = 0",
        "created_at timestamp with time zone",
        "updated_at timestamp with time zone",
    ])
    .words("status", &[("PENDING", 4), ("PROCESSING", 1)]);
    let guess = check(
        &facts,
        &[
            "row=id",
            "event.id=id",
            "event.type=type",
            "event.payload=payload",
            "event.occurred_at=created_at",
            "state.word=status",
            "state.pending=PENDING",
            "state.done=SENT ?",
            "state.ignored=PROCESSING",
            "attempts=attempts",
            "order=id",
            "ordered=false",
        ],
    );
    assert!(guess.warnings[0].contains("PROCESSING in status is what a dispatcher works on"), "{:?}", guess.warnings);
    assert_eq!(guess.unused, [Name::new("updated_at")]);
}

#[test]
fn an_outbox_with_two_levels_of_tenants_and_a_time_for_the_next_try() {
    let facts = table(&[
        "id uuid",
        "group_id uuid",
        "subsidiary_id uuid null",
        "aggregate_type text",
        "aggregate_id uuid",
        "event_type text",
        "payload jsonb",
        "status text = pending",
        "available_at timestamp with time zone",
        "attempts integer = 0",
        "created_at timestamp with time zone",
    ])
    .words("status", &[("published", 900), ("failed", 4), ("dead", 3), ("pending", 1)]);
    let guess = check(
        &facts,
        &[
            "row=id",
            "event.id=id",
            "event.type=event_type",
            "event.payload=payload",
            "event.aggregate_type=aggregate_type",
            "event.aggregate_id=aggregate_id",
            "event.tenant=group_id ?",
            "state.word=status",
            "state.pending=pending",
            "state.done=published",
            "state.dead=dead",
            "state.ignored=failed",
            "attempts=attempts",
            "next_attempt=available_at",
            "order=created_at,id",
            "ordered=true ?",
        ],
    );
    assert_eq!(guess.unused, [Name::new("subsidiary_id")]);
}

#[test]
fn a_table_that_tells_no_state_has_no_mapping_until_somebody_says_that_rows_are_deleted() {
    let facts = table(&["id uuid", "aggregatetype text", "aggregateid text", "type text", "payload jsonb null"]);
    let unsaid = guess(&facts, &GivenState::default());
    assert_eq!(unsaid.missing.iter().map(|missing| missing.key.as_str()).collect::<Vec<_>>(), ["state"]);
    assert!(unsaid.missing[0].tell.as_ref().unwrap().contains("--set state=presence"), "{:?}", unsaid.missing);
    let guess = guess(&facts, &GivenState { by: StateColumn::Presence, pending: None });
    assert_eq!(guess.missing, []);
    assert!(!lines(&guess).iter().any(|line| line.starts_with("state")), "{:?}", lines(&guess));
    assert!(guess.warnings[0].contains("delivered rows are DELETED"), "{:?}", guess.warnings);
    assert!(guess.warnings[1].contains("no column tells the order"), "{:?}", guess.warnings);
}

#[test]
fn a_state_inside_another_json_column_is_named_with_its_values_and_never_guessed() {
    let mut facts = table(&["id uuid", "type text", "payload jsonb", "meta jsonb"])
        .members("meta", &[("status", &[("sent", 120), ("new", 3)]), ("trace", &[]), ("retried", &[("true", 1)])]);
    facts.columns[3].members[0].lacking = 2;
    let unsaid = guess(&facts, &GivenState::default());
    let missing = &unsaid.missing[0];
    let named = "meta.status (\"sent\" in 120 rows, \"new\" in 3 rows, no such key in 2 rows; 125 rows looked at)";
    assert!(missing.looked_for.ends_with(named), "{missing:?}");
    assert!(
        missing.tell.as_ref().unwrap().starts_with("if a key tells it, add for instance --set state.word=meta.status")
    );
    let path = ColumnPath::parse("meta.status").unwrap();
    let said = guess(&facts, &GivenState { by: StateColumn::Word(path), pending: None });
    assert_eq!(said.missing, []);
    let state: Vec<String> = lines(&said).into_iter().filter(|line| line.starts_with("state")).collect();
    assert_eq!(state, ["state.word=meta.status", "state.pending=new", "state.done=sent"]);
    assert!(!lines(&said).iter().any(|line| line.contains("payload_without") || line.contains("headers")));
    let deeper = GivenState { by: StateColumn::Word(ColumnPath::parse("meta.outbox.status").unwrap()), pending: None };
    let mut deeper = guess(&facts, &deeper);
    let missing: Vec<&str> = deeper.missing.iter().map(|missing| missing.key.as_str()).collect();
    assert_eq!(missing, ["state.pending", "state.done"], "no word is invented where none was seen");
    deeper.set("state.pending", Value::Text("new".to_owned()));
    deeper.set("state.done", Value::Text("sent".to_owned()));
    assert_eq!(deeper.missing, []);
    assert!(said.warnings[0].contains("2 of the sampled objects have no key meta.status"), "{:?}", said.warnings);
}

#[test]
fn which_number_is_pending_is_not_guessed_where_rows_have_several_and_new_ones_none() {
    let facts =
        table(&["id bigint", "type text", "payload jsonb", "status integer"]).words("status", &[("1", 90), ("2", 3)]);
    let unsaid = guess(&facts, &GivenState::default());
    assert_eq!(unsaid.missing[0].key, "state.pending");
    assert!(unsaid.missing[0].looked_for.ends_with("rows have 1 (90), 2 (3) in status"), "{:?}", unsaid.missing);
    let mut said = guess(&facts, &GivenState { by: StateColumn::Nothing, pending: Some("2".to_owned()) });
    said.set("state.pending", Value::Text("2".to_owned()));
    let state: Vec<String> = lines(&said).into_iter().filter(|line| line.starts_with("state")).collect();
    assert_eq!(state, ["state.word=status", "state.pending=2", "state.done=1 ?"]);
}

#[test]
fn items_of_a_framework_have_numbers_for_their_states() {
    let mut facts = table(&[
        "id bigint",
        "uuid uuid",
        "event_name text",
        "event_key text",
        "bucket integer",
        "status integer = 0",
        "options jsonb null",
        "payload jsonb",
        "errors_count integer = 0",
        "error_log text null",
        "processed_at timestamp without time zone null",
        "created_at timestamp without time zone",
        "updated_at timestamp without time zone",
    ])
    .words("status", &[("1", 90), ("0", 3), ("2", 1)]);
    let status = facts.columns.iter_mut().find(|c| c.name.as_str() == "status").unwrap();
    status.words[0].stamped = 90;
    check(
        &facts,
        &[
            "row=id",
            "event.id=uuid",
            "event.type=event_name",
            "event.payload=payload",
            "event.key=event_key",
            "event.occurred_at=created_at",
            "state.word=status",
            "state.pending=0",
            "state.done=1",
            "state.ignored=2 ?",
            "done_at=processed_at",
            "attempts=errors_count",
            "error=error_log",
            "order=id",
            "ordered=true ?",
        ],
    );
}

#[test]
fn what_is_needed_and_not_there_is_named_with_what_was_looked_for() {
    let mut facts = table(&["a integer", "proto_payload bytea", "b text"]);
    facts.keys.clear();
    let mut guess = guess(&facts, &GivenState::default());
    let keys: Vec<&str> = guess.missing.iter().map(|missing| missing.key.as_str()).collect();
    assert_eq!(keys, ["row", "event.payload", "state", "event.type"]);
    assert!(guess.missing[1].looked_for.contains("proto_payload is bytea"), "{:?}", guess.missing[1]);
    guess.set("row", Value::Text("a".to_owned()));
    assert_eq!(guess.missing.len(), 3);
    guess.set("state.stamp", Value::Text("b".to_owned()));
    assert_eq!(guess.missing.len(), 2);
}

#[test]
fn what_somebody_says_takes_the_place_of_what_was_guessed() {
    let facts =
        table(&["id text", "type text", "payload jsonb", "status text", "sent_on timestamp with time zone null"]);
    let mut guess = guess(&facts, &GivenState::default());
    assert!(guess.get("state.word").is_some() && guess.get("done_at").is_some());
    guess.set("state.stamp", Value::Text("sent_on".to_owned()));
    let state: Vec<&str> = guess.keys.iter().map(|g| g.key.as_str()).filter(|key| key.starts_with("state")).collect();
    assert_eq!(state, ["state.stamp"]);
}

#[test]
fn numbers_that_sessions_draw_in_advance_are_no_order() {
    let mut facts = table(&["id bigint", "type text", "payload jsonb", "sent_at timestamp with time zone null"]);
    assert_eq!(guess(&facts, &GivenState::default()).warnings, [""; 0]);
    facts.columns[0].cache = 50;
    let warnings = guess(&facts, &GivenState::default()).warnings;
    assert!(warnings[0].contains("draws 50 numbers of id at once"), "{warnings:?}");
}

#[test]
fn a_flag_may_be_a_number_or_say_the_opposite() {
    let flag =
        |line: &str| lines(&guess(&table(&["id text", "type text", "payload jsonb", line]), &GivenState::default()));
    assert!(flag("processed boolean = false").contains(&"state.flag=processed".to_owned()));
    let number = flag("is_sent smallint = 0");
    assert!(
        number.contains(&"state.word=is_sent".to_owned()) && number.contains(&"state.done=1".to_owned()),
        "{number:?}"
    );
    let opposite = flag("pending boolean = true");
    assert!(opposite.contains(&"state.pending=true".to_owned()), "{opposite:?}");
}
