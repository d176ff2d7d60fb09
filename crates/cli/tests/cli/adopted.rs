//! A table that was there already: the same commands, and nothing changed about it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};

use crate::world::World;

const TABLE: &str = "create table event_outbox (id text primary key, event_type text not null, payload text not null, \
     status text not null default 'pending', attempts integer not null default 0, \
     created_at datetime not null default current_timestamp, sent_at datetime)";

pub(crate) const MAPPING: &str = r#"
[store.main.mapping]
table = "event_outbox"
order = ["created_at", "id"]
attempts = "attempts"
done_at = "sent_at"
state = { word = "status", done = "sent", dead = "failed" }

[[route]]
name = "mailer"
retry = { attempts = 1 }
to = { exec = { command = ["sh", "mailer.sh"] } }
"#;

/// Runs SQL as the application would; brings the first column of each row.
pub(crate) fn sql(world: &World, text: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = SqliteConnectOptions::new().filename(world.path("shop.db")).create_if_missing(true);
        let mut conn = options.connect().await.unwrap();
        let rows = sqlx::query(AssertSqlSafe(text.to_owned())).fetch_all(&mut conn).await.unwrap();
        conn.close().await.unwrap();
        rows.iter().map(|row| row.try_get::<String, _>(0).unwrap_or_default()).collect()
    })
}

/// Three rows: two good ones, one that the mailer refuses for good.
pub(crate) fn adopted() -> World {
    let world = World::bare();
    let url = world.path("shop.db").display().to_string();
    world.write("postroom.toml", &format!("name = \"test\"\n[store.main]\nurl = \"sqlite://{url}\"\n{MAPPING}"));
    sql(&world, TABLE);
    for (id, event_type) in [("e-1", "order.placed"), ("e-2", "order.bad"), ("e-3", "order.paid")] {
        sql(
            &world,
            &format!(
                "insert into event_outbox (id, event_type, payload) values ('{id}', '{event_type}', '{{\"n\":1}}')"
            ),
        );
    }
    world
}

fn states(world: &World) -> Vec<String> {
    sql(
        world,
        "select id || ' ' || status || ' ' || attempts || ' ' || (sent_at is not null) from event_outbox order by id",
    )
}

#[test]
fn a_table_that_was_there_is_delivered_and_marked_as_its_own_dispatcher_would() {
    let world = adopted();
    let said = world.run(&["relay", "run", "--drain"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(states(&world), ["e-1 sent 0 1", "e-2 failed 1 0", "e-3 sent 0 1"]);
    let status = world.json(&["status"]);
    let route = &status["routes"][0];
    assert_eq!((&route["delivered"], &route["dead"], &route["due"]), (&2.into(), &1.into(), &0.into()), "{route}");
    assert_eq!(status["stores"][0]["kind"], "adopted");
    assert_eq!(world.json(&["dead", "ls"])[0]["error"], "no such address");
    assert_eq!(world.json(&["event", "show", "e-2"])["routes"][0]["state"], "dead");
    assert_eq!(world.run(&["verify"]).code, 0);
}

#[test]
fn a_dead_letter_is_replayed_by_command_or_by_the_tables_own_sql() {
    let world = adopted();
    world.ok(&["relay", "run", "--drain"]);
    world.ok(&["dead", "replay", "--all", "--yes"]);
    assert_eq!(states(&world)[1], "e-2 pending 0 0");
    sql(&world, "update event_outbox set event_type = 'order.good' where id = 'e-2'");
    world.ok(&["relay", "run", "--drain"]);
    assert_eq!(states(&world)[1], "e-2 sent 0 1");
    sql(&world, "update event_outbox set status = 'pending', sent_at = null where id = 'e-1'");
    world.ok(&["relay", "run", "--drain"]);
    assert_eq!(
        (states(&world)[0].as_str(), world.json(&["status"])["routes"][0]["delivered"].as_u64()),
        ("e-1 sent 0 1", Some(4))
    );
}

#[test]
fn what_is_not_there_is_named() {
    let world = adopted();
    sql(&world, "alter table event_outbox rename column sent_at to done_at");
    let said = world.run(&["relay", "run", "--drain"]);
    assert_ne!(said.code, 0);
    assert!(said.stderr.contains("has no column sent_at, which `done_at` of its mapping names"), "{}", said.stderr);
    sql(&world, "drop table event_outbox");
    let said = world.run(&["status"]);
    assert!(said.code != 0 && said.stderr.contains("has no table event_outbox"), "{}", said.stderr);
}

#[test]
fn rows_are_the_applications_to_write() {
    let world = adopted();
    let said = world.run(&["event", "append", "--type", "order.placed"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains("which its application writes"), "{}", said.stderr);
}

#[test]
fn where_tables_are_made_by_hand_the_sql_is_printed_and_a_relay_makes_none() {
    let world = adopted();
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    world.write("postroom.toml", &config.replace("[store.main.mapping]", "migrate = \"never\"\n[store.main.mapping]"));
    let said = world.run(&["relay", "run", "--drain"]);
    assert_eq!(said.code, 4, "{}", said.stderr);
    assert!(world.ok(&["store", "migrate", "plan"]).contains("create table postroom_sidecar"));
    world.ok(&["store", "migrate", "up"]);
    world.ok(&["relay", "run", "--drain"]);
    assert_eq!(states(&world)[0], "e-1 sent 0 1");
}
