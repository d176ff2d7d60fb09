//! Events that were written into a table past every check: too large, or nested too deep.

#![allow(clippy::unwrap_used, reason = "what cannot be run fails the test")]

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::adopted::sql;
use crate::http::relay;
use crate::postgres::Shop;
use crate::world::World;

/// Memory that a relay may need more than before, in bytes: much less than one of the payloads.
const MORE_MEMORY_MAX: u64 = 24 << 20;

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(3);
    while !so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Ids, codes and texts of the dead letters, by id.
fn dead(world: &World) -> Vec<(String, String, String)> {
    let letters = world.json(&["dead", "ls"]);
    let text = |letter: &Value, field: &str| letter[field].as_str().unwrap_or_default().to_owned();
    let one = |letter: &Value| (text(letter, "id"), text(letter, "code"), text(letter, "error"));
    let mut all: Vec<_> = letters.as_array().unwrap().iter().map(one).collect();
    all.sort();
    all
}

fn delivered(world: &World) -> u64 {
    world.json(&["status"])["routes"][0]["delivered"].as_u64().unwrap_or(0)
}

/// Lets a relay deliver an event, writes the others while it works, and says what died of them. Its memory must stay.
fn attacked(world: &World, write: impl FnOnce(), letters: usize, through: u64) -> Vec<(String, String, String)> {
    let (more, found) = attacked_and_measured(world, write, letters, through);
    assert!(more < MORE_MEMORY_MAX, "the relay needed {more} bytes more");
    found
}

/// The same, with the memory that the relay needed more.
fn attacked_and_measured(
    world: &World,
    write: impl FnOnce(),
    letters: usize,
    through: u64,
) -> (u64, Vec<(String, String, String)>) {
    let relay = relay(world, &[], &[]);
    until("the first event is delivered", || delivered(world) == 1);
    let before = relay.peak_memory();
    write();
    until("what is too large is dead, and all others are delivered", || {
        dead(world).len() == letters && delivered(world) == through
    });
    let more = relay.peak_memory().saturating_sub(before);
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
    (more, dead(world))
}

const LARGE: &str = "event payload is 60000002 bytes, the limit is 1048576";
const HEADERS: &str = "event headers and attributes is 20000009 bytes, the limit is 65536";
const DEEP: &str = "event payload is nested deeper than 100 levels";
const DEEP_ATTRIBUTE: &str = "event headers and attributes is nested deeper than 100 levels";

fn letter(id: &str, code: &str, error: &str) -> (String, String, String) {
    (id.to_owned(), code.to_owned(), error.to_owned())
}

#[test]
fn a_huge_event_in_the_log_of_postgres_is_a_dead_letter_that_the_relay_never_loads() {
    let shop = Shop::new();
    shop.config(
        &shop.database.url(),
        "[[route]]\nname = \"mailer\"\nretry = { attempts = 1 }\nto = { exec = { command = [\"sh\", \"mailer.sh\"] } }\n",
    );
    shop.world.ok(&["store", "migrate", "up"]);
    shop.sql("select postroom.append('order.placed', 'k', id => 'first')");
    let write = || {
        shop.sql(
            "begin;
             select postroom.append('order.placed', 'k', id => 'large'), postroom.append('order.placed', 'k', id => 'next'),
               postroom.append('order.placed', 'h', id => 'headers'), postroom.append('order.placed', 'd', id => 'deep'),
               postroom.append('order.placed', 'a', id => 'attribute'), postroom.append('order.placed', 'z', id => 'last');
             update postroom.log set payload = convert_to('\"' || repeat('A', 60000000) || '\"', 'UTF8') where id = 'large';
             update postroom.log set headers = jsonb_build_object('x', repeat('A', 20000000)) where id = 'headers';
             update postroom.log set payload = convert_to(repeat('[', 3000) || repeat(']', 3000), 'UTF8') where id = 'deep';
             update postroom.log set attributes = ('{\"a\": ' || repeat('[', 500) || repeat(']', 500) || '}')::jsonb where id = 'attribute';
             commit",
        );
    };
    let letters = attacked(&shop.world, write, 4, 3);
    assert_eq!(
        letters,
        [
            letter("attribute", "event.too_deep", DEEP_ATTRIBUTE),
            letter("deep", "event.too_deep", DEEP),
            letter("headers", "event.too_large", HEADERS),
            letter("large", "event.too_large", LARGE),
        ]
    );
    assert_eq!(shop.world.run(&["verify"]).code, 0);
    // Names are the table's own to refuse.
    let long = "insert into postroom.log select (l).* from (select jsonb_populate_record(l, jsonb_build_object('key', repeat('k', 600), \
                'seq', 9)) as l from postroom.log l where id = 'first') x";
    let refused = shop.runtime.block_on(async {
        use sqlx::{Connection, Executor};
        let mut connection = sqlx::PgConnection::connect(&shop.database.url()).await.unwrap();
        connection.execute(long).await.unwrap_err().to_string()
    });
    assert!(refused.contains("log_names"), "{refused}");
}

#[test]
fn a_huge_event_in_the_log_of_sqlite_is_a_dead_letter_that_the_relay_never_loads() {
    let world = World::bare();
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    let (store, _) = config.split_once("[[route]]").unwrap();
    world.write(
        "postroom.toml",
        &format!("{store}[[route]]\nname = \"mailer\"\nto = {{ exec = {{ command = [\"sh\", \"mailer.sh\"] }} }}\n"),
    );
    world.ok(&["store", "migrate", "up"]);
    world.append("first", "order.placed", "k");
    let write = || {
        let deep = format!("{}{}", "[".repeat(3000), "]".repeat(3000));
        let attribute = format!("{{\"a\":{}{}}}", "[".repeat(500), "]".repeat(500));
        sql(
            &world,
            &format!(
                "insert into postroom_log (id, type, key, payload, headers, attributes) values
                 ('large', 'order.placed', 'k', '\"' || hex(zeroblob(30000000)) || '\"', '{{}}', '{{}}'),
                 ('next', 'order.placed', 'k', '1', '{{}}', '{{}}'),
                 ('headers', 'order.placed', 'h', '1', '{{\"x\": \"' || hex(zeroblob(10000000)) || '\"}}', '{{}}'),
                 ('deep', 'order.placed', 'd', '{deep}', '{{}}', '{{}}'),
                 ('attribute', 'order.placed', 'a', '1', '{{}}', '{attribute}'),
                 ('last', 'order.placed', 'z', '1', '{{}}', '{{}}')"
            ),
        );
    };
    let letters = attacked(&world, write, 4, 3);
    assert_eq!(
        letters,
        [
            letter("attribute", "event.too_deep", DEEP_ATTRIBUTE),
            letter("deep", "event.too_deep", DEEP),
            letter("headers", "event.too_large", HEADERS),
            letter("large", "event.too_large", LARGE),
        ]
    );
    assert_eq!(world.run(&["verify"]).code, 0);
    let nested = format!("{}{}", "[".repeat(101), "]".repeat(101));
    let said = world.run(&["event", "append", "--type", "order.placed", "--payload", &nested]);
    assert!(said.code == 2 && said.stderr.contains(DEEP), "{}", said.stderr);
}

#[test]
fn a_huge_row_of_an_adopted_table_is_a_dead_letter_that_the_relay_never_loads() {
    let world = crate::adopted::adopted();
    // One of its three rows is refused by the mailer.
    let write = || {
        sql(
            &world,
            "insert into event_outbox (id, event_type, payload) values
             ('large', 'order.placed', '\"' || hex(zeroblob(30000000)) || '\"'), ('last', 'order.placed', '1')",
        );
    };
    sql(&world, "delete from event_outbox where id <> 'e-1'");
    // SQLite itself writes the whole row anew when its state changes, within the relay; so only what comes of it is compared.
    let (_, letters) = attacked_and_measured(&world, write, 1, 2);
    assert_eq!(letters, [letter("large", "event.too_large", LARGE)]);

    let shop = Shop::bare();
    shop.sql(
        "create table event_outbox (id text primary key, event_type text not null, payload jsonb not null, status text not null \
         default 'pending', attempts int not null default 0, created_at timestamptz not null default now(), sent_at timestamptz)",
    );
    shop.config(&shop.database.url(), crate::adopted::MAPPING);
    shop.sql("insert into event_outbox (id, event_type, payload) values ('first', 'order.placed', '1')");
    let write = || {
        shop.sql(
            "insert into event_outbox (id, event_type, payload) values
             ('large', 'order.placed', to_jsonb(repeat('A', 60000000))), ('last', 'order.placed', '1')",
        );
    };
    let letters = attacked(&shop.world, write, 1, 2);
    assert_eq!(letters, [letter("large", "event.too_large", LARGE)]);
}

#[test]
fn what_a_lowered_limit_gives_up_is_delivered_once_the_limit_is_raised() {
    let world = World::new();
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    let long = format!("\"{}\"", "x".repeat(3000));
    world.ok(&["event", "append", "--id", "long", "--type", "order.placed", "--payload", &long]);
    world.write("postroom.toml", &format!("{config}\n[limits]\npayload = \"1kB\"\n"));
    world.ok(&["relay", "run", "--drain"]);
    let why = "event payload is 3002 bytes, the limit is 1000";
    assert_eq!(dead(&world), [letter("long", "event.too_large", why)]);
    world.write("postroom.toml", &config);
    world.ok(&["dead", "replay", "--all", "--yes"]);
    world.ok(&["relay", "run", "--drain"]);
    assert!(dead(&world).is_empty());
    let routes = world.json(&["event", "show", "long"])["routes"].take();
    assert!(routes.as_array().unwrap().iter().any(|route| route["state"] == "delivered"), "{routes}");
}
