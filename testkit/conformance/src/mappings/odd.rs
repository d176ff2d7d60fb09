//! Rows that are not what their mapping expects: each is dealt with alone, and stops no other.

use std::time::Duration;

use postroom_admin::Selection;
use postroom_admin::view::ReplayKind;
use postroom_adopted::mapping::{ColumnPath, DeadTable, Name, TableName};
use postroom_adopted::{Dialect, Mapping};
use serde_json::Value;

use super::bench::{Bench, dead, delivered, ids, retry};

const LONG: Duration = Duration::from_hours(1);

/// A table of ours in SQL.
fn table(bench: &Bench, name: &str) -> String {
    if bench.executor.dialect() == Dialect::Postgres { format!("public.{name}") } else { name.to_owned() }
}

/// An empty table `notes` with these columns beside its own, and a mapping of it that names none of them.
async fn notes(bench: &Bench, more: &str) -> Mapping {
    let notes = table(bench, "notes");
    let json = if bench.executor.dialect() == Dialect::Postgres { "jsonb" } else { "text" };
    bench
        .execute(&format!(
            "drop table if exists {notes};
             create table {notes} (id text primary key, type text, payload {json}, key text, created_at text, \
             status text default 'pending', {more})"
        ))
        .await;
    let mut mapping = bench.sample.mapping();
    mapping.table = TableName::parse("notes").unwrap();
    (mapping.archive, mapping.inbox, mapping.dead_letters) = (None, None, None);
    (mapping.attempts, mapping.next_attempt) = (None, None);
    mapping
}

pub async fn what_does_not_fit_into_the_table_of_dead_letters_is_left_out_of_it_alone(bench: &Bench) {
    let uuid = "0190f3c0-1111-7abc-8def-0123456789ab";
    let numbers = ("integer", "2147483647", ["x", "-"]);
    match bench.executor.dialect() {
        Dialect::Sqlite => dead_events(bench, numbers).await,
        Dialect::Postgres => {
            dead_events(bench, ("integer", "2147483647", ["2147483648", "1.5"])).await;
            dead_events(bench, ("bigint", "-9223372036854775808", ["9223372036854775808", "17 "])).await;
            dead_events(bench, ("uuid", uuid, ["17", &uuid[1..]])).await;
            dead_events(bench, numbers).await;
        }
    }
}

/// Dead letters are known by ids of this type: one row fits, two do not, and others have nothing to be known by.
async fn dead_events(bench: &Bench, (id_type, fits, odd): (&str, &str, [&str; 2])) {
    let mut mapping = notes(bench, "event text").await;
    let (dead_events, json) = match bench.executor.dialect() {
        Dialect::Postgres => ("public.dead_events", "jsonb"),
        Dialect::Sqlite => ("dead_events", "text"),
    };
    bench
        .execute(&format!(
            "drop table if exists {dead_events};
             create table {dead_events} (event {id_type} primary key, kind text not null, body {json} not null)"
        ))
        .await;
    let name = |text: &str| Some(Name::new(text));
    mapping.event.id = ColumnPath::parse("event").unwrap();
    mapping.dead_letters = Some(DeadTable {
        table: TableName::parse("dead_events").unwrap(),
        id: Name::new("event"),
        event_type: name("kind"),
        payload: name("body"),
        error: None,
        first_at: None,
        last_at: None,
        attempts: None,
    });
    let bench = bench.reopened(mapping).await;
    let [one, two] = odd;
    let rows = [
        ("a", "null", "'t'", "'{}'"),
        ("b", &format!("'{one}'"), "'t'", "'{}'"),
        ("c", &format!("'{two}'"), "'t'", "'{}'"),
        // Twice the same event, as replays make them.
        ("d", &format!("'{fits}'"), "'t'", "'{}'"),
        ("e", &format!("'{fits}'"), "'t'", "'{}'"),
        ("f", "'f'", "null", "'{}'"),
        ("g", "'g'", "'t'", "null"),
    ];
    for (id, event, kind, payload) in rows {
        let values = format!("'{id}', {event}, {kind}, {payload}, '2026-01-02 03:04:05'");
        let notes = table(&bench, "notes");
        bench.execute(&format!("insert into {notes} (id, event, type, payload, created_at) values ({values})")).await;
    }
    let worker = bench.worker(&format!("of-{id_type}-{one}")).await;
    let taken = worker.take_all().await;
    assert_eq!(ids(&taken), [one, two, fits, fits], "{id_type}");
    worker.settle(taken.iter().map(|delivery| (delivery, dead(1)))).await;
    worker.0.release().await.unwrap();
    assert_eq!(bench.column("cast(event as text) || ' ' || kind", "dead_events").await, [format!("{fits} t")]);
    assert_eq!(bench.column("id", "notes where status = 'dead'").await, ["a", "b", "c", "d", "e", "f", "g"]);
    assert_eq!(bench.admin.dead(&Selection::default(), 0, 10).await.unwrap().len(), 7);
}

pub async fn what_a_json_column_has_no_room_for_is_counted_beside_it(bench: &Bench) {
    let types: &[&str] =
        if bench.executor.dialect() == Dialect::Postgres { &["jsonb", "json", "text"] } else { &["text"] };
    for json in types {
        for path in ["/tries", "/sent/tries"] {
            counted(bench, json, path).await;
        }
    }
}

/// What may stand in the column, with the columns it has room for.
const HELD: [(&str, &[&str]); 8] = [
    ("null", &["/tries"]),
    ("'{}'", &["/tries"]),
    ("'{\"sent\": [1]}'", &["/tries"]),
    ("'{\"sent\": {}}'", &["/tries", "/sent/tries"]),
    ("'7'", &[]),
    ("'null'", &[]),
    ("'[1]'", &[]),
    ("'no JSON'", &[]),
];

/// Counts and times stand there inside a column of this type, errors always in `sent`; the row's state does not.
async fn counted(bench: &Bench, json: &str, path: &str) {
    let mut mapping = notes(bench, &format!("meta {json}")).await;
    let beside =
        |key: &str| Some(ColumnPath::parse(&format!("meta{}", path.replace("tries", key).replace('/', "."))).unwrap());
    (mapping.attempts, mapping.next_attempt) = (beside("tries"), beside("next"));
    mapping.error = Some(ColumnPath::parse("meta.sent.why").unwrap());
    let bench = bench.reopened(mapping).await;
    // What the side table knows of another run is of rows that are called otherwise.
    let name = format!("of-{json}-{}", path.len());
    let held: Vec<_> = HELD.into_iter().filter(|(text, _)| json == "text" || *text != "'no JSON'").collect();
    let insert = async |set: &str, key: &str| {
        for (n, (meta, _)) in held.iter().enumerate() {
            let columns = format!("{} (id, type, payload, key, created_at, meta)", table(&bench, "notes"));
            let row =
                format!("'{name}-{set}-{n}', 'order.placed', '{{}}', '{key}-{n}', '2026-01-02 03:04:0{n}', {meta}");
            bench.execute(&format!("insert into {columns} values ({row})")).await;
        }
    };
    let worker = bench.worker(&name).await;
    let all = async |attempts: u32| {
        let taken = worker.take_all().await;
        let found: Vec<u32> = taken.iter().map(|delivery| delivery.attempts).collect();
        assert_eq!(found, vec![attempts; held.len()], "{json} {path}");
        taken
    };
    let check = async |set: &str, tries: u64| {
        let select = "coalesce(cast(meta as text), 'null')";
        for (n, (before, room)) in held.iter().enumerate() {
            let found = bench.column(select, &format!("notes where id = '{name}-{set}-{n}'")).await.remove(0);
            if room.contains(&path) {
                let value: Value = serde_json::from_str(&found).unwrap();
                assert_eq!(value.pointer(path), Some(&Value::from(tries)), "{json} {before} {found}");
                assert_eq!(
                    value.pointer("/sent/why").is_some(),
                    room.contains(&"/sent/tries"),
                    "{json} {before} {found}"
                );
            } else {
                assert_eq!(found, before.trim_matches('\''), "{json} {path}");
            }
        }
    };

    insert("r", "k").await;
    worker.settle(all(0).await.iter().map(|delivery| (delivery, retry(1, Duration::ZERO)))).await;
    check("r", 1).await;
    worker.settle(all(1).await.iter().map(|delivery| (delivery, retry(2, LONG)))).await;
    check("r", 2).await;
    let idle = worker.take().await;
    assert!(idle.deliveries.is_empty() && idle.next_due.is_some_and(|due| due > LONG / 2), "{json} {path}: {idle:?}");
    let status = &bench.admin.routes().await.unwrap()[0].status;
    assert_eq!((status.retrying, status.blocked_keys), (held.len() as u64, held.len() as u64));
    let blocked = bench.admin.blocked_keys(None, None, 10).await.unwrap();
    assert!(blocked.iter().all(|key| key.attempts == 2), "{blocked:?}");
    insert("waits", "k").await;
    assert!(worker.take_all().await.is_empty(), "{json} {path}: later rows of a key wait");

    bench.execute(&format!("delete from {}", table(&bench, "notes"))).await;
    insert("d", "d").await;
    worker.settle(all(0).await.iter().map(|delivery| (delivery, dead(1)))).await;
    check("d", 1).await;
    assert!(worker.take_all().await.is_empty());
    assert_eq!(bench.admin.routes().await.unwrap()[0].status.dead, held.len() as u64);
    bench.replay(ReplayKind::Dead, &Selection::default()).await;
    worker.settle(all(0).await.iter().map(|delivery| (delivery, delivered()))).await;
    worker.0.release().await.unwrap();
}
