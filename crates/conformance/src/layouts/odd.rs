//! Rows that are not what their layout expects: each is dealt with alone, and stops no other.

use postroom_adopted::Dialect;
use postroom_adopted::layout::{DeadTable, Name, Place, TableName};
use postroom_core::Selection;

use super::bench::{Bench, dead, ids};

pub async fn what_does_not_fit_into_the_table_of_dead_letters_is_left_out_of_it_alone(bench: &Bench) {
    let uuid = "0190f3c0-1111-7abc-8def-0123456789ab";
    let numbers = ("integer", "2147483647", ["x", "-"]);
    match bench.ground.dialect() {
        Dialect::Sqlite => graves(bench, numbers).await,
        Dialect::Postgres => {
            graves(bench, ("integer", "2147483647", ["2147483648", "1.5"])).await;
            graves(bench, ("bigint", "-9223372036854775808", ["9223372036854775808", "17 "])).await;
            graves(bench, ("uuid", uuid, ["17", &uuid[1..]])).await;
            graves(bench, numbers).await;
        }
    }
}

/// Dead letters are known by ids of this type: one row fits, two do not, and others have nothing to be known by.
async fn graves(bench: &Bench, (id_type, fits, odd): (&str, &str, [&str; 2])) {
    let (schema, json) = match bench.ground.dialect() {
        Dialect::Postgres => ("public.", "jsonb"),
        Dialect::Sqlite => ("", "text"),
    };
    bench
        .execute(&format!(
            "drop table if exists {schema}graves; drop table if exists {schema}notes; delete from {schema}outbox;
             create table {schema}graves (event {id_type} primary key, kind text not null, body {json} not null);
             create table {schema}notes (id text primary key, type text, payload {json}, key text, created_at text, event text, \
             status text default 'pending', attempts integer default 0, available_at text)"
        ))
        .await;
    let mut layout = bench.sample.layout();
    let name = |text: &str| Some(Name::new(text));
    layout.table = TableName::parse("notes").unwrap();
    (layout.archive, layout.inbox) = (None, None);
    layout.event.id = Place::parse("event").unwrap();
    layout.dead_letters = Some(DeadTable {
        table: TableName::parse("graves").unwrap(),
        id: Name::new("event"),
        event_type: name("kind"),
        payload: name("body"),
        error: None,
        first_at: None,
        last_at: None,
        attempts: None,
    });
    let bench = bench.reopened(layout).await;
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
        bench
            .execute(&format!("insert into {schema}notes (id, event, type, payload, created_at) values ({values})"))
            .await;
    }
    let worker = bench.worker(&format!("of-{id_type}-{one}")).await;
    let taken = worker.take_all().await;
    assert_eq!(ids(&taken), [one, two, fits, fits], "{id_type}");
    worker.settle(taken.iter().map(|delivery| (delivery, dead(1)))).await;
    worker.0.release().await.unwrap();
    assert_eq!(bench.column("cast(event as text) || ' ' || kind", "graves").await, [format!("{fits} t")]);
    assert_eq!(bench.column("id", "notes where status = 'dead'").await, ["a", "b", "c", "d", "e", "f", "g"]);
    assert_eq!(bench.desk.dead(&Selection::default(), 0, 10).await.unwrap().len(), 7);
}
