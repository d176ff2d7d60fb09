//! What the doctor says of real servers: each thing with its code, its reason and what fixes it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what cannot be made or run fails the test")]

use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::world::{Running, World};

/// How it ended, and what it found.
fn diagnosed(world: &World, args: &[&str]) -> (i32, Vec<Value>) {
    let said = world.run(&[&["doctor", "-o", "json"], args].concat());
    assert!(!said.stdout.contains("canary") && !said.stderr.contains("canary"), "{}", said.stdout);
    let found: Vec<Value> = serde_json::from_str(&said.stdout).unwrap_or_else(|e| panic!("{e}: {}", said.stderr));
    (said.code, found)
}

/// What was found under a code.
fn with<'f>(found: &'f [Value], code: &str) -> Vec<&'f Value> {
    found.iter().filter(|found| found["code"] == code).collect()
}

fn codes(found: &[Value]) -> Vec<&str> {
    found.iter().filter_map(|found| found["code"].as_str()).collect()
}

#[test]
fn a_healthy_setup_ends_with_0_and_says_so_in_a_few_lines() {
    let world = World::new();
    let mut command = world.command(&["relay", "run"]);
    command.stderr(Stdio::null());
    let mut relay = Running::start(command);
    let deadline = Instant::now() + Duration::from_mins(5);
    let mut said = world.run(&["doctor"]);
    while !said.stdout.contains("0 problems, 0 warnings") {
        assert!(Instant::now() < deadline, "{}", said.stdout);
        said = world.run(&["doctor"]);
    }
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    insta::assert_snapshot!(world.snapshot(&said));
    let all = world.ok(&["doctor", "-v"]);
    assert!(all.contains("\n  ok       readers and writers do not wait for each other (WAL)\n"), "{all}");
    relay.signal_until_end(Signal::SIGTERM);
}

#[test]
fn without_a_relay_it_is_a_warning_until_something_is_due() {
    let world = World::new();
    let (code, found) = diagnosed(&world, &[]);
    assert_eq!((code, codes(&found)), (0, vec!["doctor.no_relay"]));
    world.append("waits", "order.placed", "order-7");
    let (code, found) = diagnosed(&world, &[]);
    assert_eq!((code, codes(&found)), (7, vec!["doctor.no_relay"]));
    assert_eq!(found.iter().find(|found| found["code"] == "doctor.no_relay").unwrap()["fix"], "postroom relay run");
}

#[test]
fn a_killed_relay_an_orphan_and_a_program_that_is_gone_are_named() {
    let world = World::new();
    let mut command = world.command(&["relay", "run"]);
    command.stderr(Stdio::null());
    let mut relay = Running::start(command);
    let deadline = Instant::now() + Duration::from_mins(5);
    while world.json(&["status"])["relays"][0].is_null() {
        assert!(Instant::now() < deadline, "no relay");
    }
    relay.signal_until_end(Signal::SIGKILL);
    world.sql("update postroom_relay set alive_until = seen_at");
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    let config = config.replace("name = \"held\"", "name = \"other\"").replace("[\"sh\", ", "[\"no-such-program\", ");
    world.write("postroom.toml", &config);
    let (code, found) = diagnosed(&world, &[]);
    assert_eq!(code, 7, "{found:#?}");
    assert_eq!(with(&found, "doctor.relay_overdue").len(), 1, "{found:#?}");
    let orphan = with(&found, "doctor.route_orphan");
    assert!(orphan.len() == 1 && orphan[0]["fix"] == "postroom route forget held --store main", "{found:#?}");
    let gone = with(&found, "exec.not_found");
    assert_eq!(gone.len(), 2, "{found:#?}");
    assert!(gone.iter().all(|found| found["level"] == "problem" && found["hint"].is_string()), "{gone:#?}");
}

/// The routes of a program that embeds the library are in no file: here a relay with a configuration that doctor does not see.
#[test]
fn routes_of_a_program_are_no_fault_of_the_configuration_and_its_end_names_the_program() {
    let world = World::new();
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    world.write("program.toml", &config.replace("name = \"test\"", "name = \"shop-server\""));
    world.write("postroom.toml", "[store.main]\nurl = \"sqlite://shop.db\"\n");
    let mut command = world.command(&["relay", "run", "--config", "program.toml"]);
    command.stderr(Stdio::null());
    let mut program = Running::start(command);
    let deadline = Instant::now() + Duration::from_mins(5);
    loop {
        let (code, found) = diagnosed(&world, &[]);
        if (code, codes(&found)) == (0, Vec::new()) {
            break;
        }
        assert!(Instant::now() < deadline, "{found:#?}");
    }
    program.signal_until_end(Signal::SIGKILL);
    world.sql("update postroom_relay set alive_until = seen_at");
    let (code, found) = diagnosed(&world, &[]);
    assert_eq!(code, 0, "nothing is due: {found:#?}");
    let none = with(&found, "doctor.no_relay");
    assert!(none.len() == 1 && none[0]["hint"] == "start the programs that serve these routes again", "{found:#?}");
    assert!(none[0]["fix"].is_null(), "the program `postroom` does not know these routes: {found:#?}");
    let gone = with(&found, "doctor.route_orphan");
    assert_eq!(gone.len(), 2, "{found:#?}");
    for route in gone {
        let hint = "start the program of relay shop-server again: the route is not in this configuration";
        assert!(route["hint"] == hint && route["fix"].is_null(), "forgetting is not proposed: {route}");
    }
    assert_eq!(with(&found, "doctor.no_routes").len(), 0, "{found:#?}");
}

#[test]
fn a_file_that_is_not_there_and_one_for_admin_only_are_problems() {
    let world = World::bare();
    let (code, found) = diagnosed(&world, &["--store", "main"]);
    assert_eq!((code, with(&found, "store.unreachable").len()), (7, 1), "{found:#?}");
    assert!(!world.path("shop.db").exists(), "looking made a file");
    world.ok(&["store", "migrate", "up"]);
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    world.write("postroom.toml", &config.replace("shop.db\"", "shop.db?mode=ro\""));
    let (code, found) = diagnosed(&world, &[]);
    assert_eq!((code, with(&found, "doctor.read_only").len()), (7, 1), "{found:#?}");
    let said = world.run(&["doctor", "--store", "mian"]);
    assert!(said.code == 2 && said.stderr.contains("main"), "{}", said.stderr);
}

#[test]
fn an_inbox_that_forgets_earlier_than_a_route_retries_is_warned_of() {
    let world = World::new();
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    world.write("postroom.toml", &format!("{config}\n[inbox]\nretention = \"10m\"\n"));
    let (_, found) = diagnosed(&world, &[]);
    let window = with(&found, "doctor.inbox_window");
    assert_eq!(window.len(), 1, "{found:#?}");
    assert_eq!(window[0]["fix"], "[inbox]\nretention = \"36m\"");
}

#[cfg(feature = "postgres")]
mod postgres {
    use postroom_testbed::{Cluster, free_port};

    use super::{codes, diagnosed, with};
    use crate::postgres::{Shop, User};

    /// Of a table `outbox` with the columns that any such table has.
    const MAPPING: &str = r#"
[store.main.mapping]
table = "outbox"
row = "id"
order = ["id"]
ordered = true
state.stamp = "sent_at"
event = { id = "id", type = "type", key = "key", payload = "payload" }

[[route]]
name = "out"
to = { stdout = {} }
"#;

    #[test]
    fn a_sequence_left_behind_is_a_problem_that_a_repair_fixes() {
        let shop = Shop::new();
        shop.sql(
            "select postroom.append('order.placed') from generate_series(1, 5); select setval('postroom.log_seq', 2)",
        );
        let (code, found) = diagnosed(&shop.world, &[]);
        assert_eq!((code, with(&found, "doctor.sequence_behind").len()), (7, 1), "{found:#?}");
        shop.world.ok(&["store", "repair", "--yes", "--store", "main"]);
        assert_eq!(shop.world.run(&["doctor"]).code, 0);
    }

    #[test]
    fn missing_rights_are_a_problem_and_the_grants_that_are_printed_fix_it() {
        let shop = Shop::new();
        let user = User::new(&shop);
        shop.config(&shop.url_of(&user.name), "");
        let (code, found) = diagnosed(&shop.world, &[]);
        assert_eq!((code, with(&found, "store.refused").len()), (7, 1), "{found:#?}");
        shop.sql(&format!("grant usage on schema postroom to {0}; grant select on postroom.meta to {0}", user.name));
        loop {
            let (code, found) = diagnosed(&shop.world, &[]);
            let missing = with(&found, "doctor.rights_missing");
            if missing.is_empty() {
                assert_eq!(code, 0, "{found:#?}");
                break;
            }
            assert_eq!(code, 7);
            for missing in missing {
                shop.sql(missing["fix"].as_str().unwrap());
            }
        }
        let connect = <sqlx::PgConnection as sqlx::Connection>::connect(&shop.database.url());
        let _somebody = shop.runtime.block_on(connect).unwrap();
        let (_, found) = diagnosed(&shop.world, &[]);
        let hidden = with(&found, "doctor.sessions_hidden");
        assert!(hidden.len() == 1 && hidden[0]["level"] == "warning", "{found:#?}");
        shop.sql(hidden[0]["fix"].as_str().unwrap());
        assert!(with(&diagnosed(&shop.world, &[]).1, "doctor.sessions_hidden").is_empty());
    }

    #[test]
    fn an_adopted_table_whose_rows_are_hidden_is_warned_of() {
        let shop = Shop::bare();
        let user = User::new(&shop);
        shop.sql(
            "create table outbox (id bigint generated by default as identity primary key, type text not null, \
             key text not null, payload jsonb not null, sent_at timestamptz)",
        );
        shop.config(&shop.database.url(), MAPPING);
        shop.world.ok(&["store", "migrate", "up"]);
        shop.sql(&format!(
            "grant select, update on outbox to {0}; grant usage on schema postroom to {0}; \
             grant all on all tables in schema postroom to {0}; grant all on all sequences in schema postroom to {0}; \
             alter table outbox enable row level security; create policy mine on outbox using (key = 'mine')",
            user.name
        ));
        shop.config(&shop.url_of(&user.name), MAPPING);
        let (_, found) = diagnosed(&shop.world, &[]);
        let hidden = with(&found, "doctor.rows_hidden");
        assert!(hidden.len() == 1 && hidden[0]["level"] == "warning", "{found:#?}");
        shop.sql("alter table outbox disable row level security");
        assert!(with(&diagnosed(&shop.world, &[]).1, "doctor.rows_hidden").is_empty());
    }

    #[test]
    fn servers_that_are_down_are_findings_and_the_others_are_looked_at_all_the_same() {
        let shop = Shop::new();
        let port = free_port().unwrap();
        let url = format!("postgres://shop:canary@127.0.0.1:{port}/shop");
        let all = format!(
            "[store.main]\nurl = \"{}\"\n\n[store.gone]\nurl = \"{url}\"\n\n[[route]]\nname = \"out\"\nstore = \"main\"\n\
             to = {{ rabbitmq = {{ url = \"amqp://shop:canary@127.0.0.1:{port}\", exchange = \"x\" }} }}\n",
            shop.database.url()
        );
        shop.world.write("postroom.toml", &all);
        let (code, found) = diagnosed(&shop.world, &[]);
        assert_eq!(code, 7);
        let gone = with(&found, "store.unreachable");
        assert!(gone.len() == 1 && gone[0]["store"] == "gone", "{found:#?}");
        assert_eq!(with(&found, "rabbitmq.unreachable").len(), 1, "{found:#?}");
        assert!(found.iter().any(|found| found["message"] == "the role has the rights of a relay"), "{found:#?}");
        let (code, found) = diagnosed(&shop.world, &["--store", "main"]);
        assert!(code == 7 && found.iter().all(|found| found["store"] != "gone"), "{found:#?}");
    }

    #[test]
    fn a_standby_is_a_problem() {
        let shop = Shop::bare();
        let (_primary, standby) = shop.runtime.block_on(async {
            let primary = Cluster::start(&[]).await;
            let standby = Cluster::standby_of(&primary, &[]).await;
            (primary, standby)
        });
        shop.config(&standby.url("postgres"), "");
        let (code, found) = diagnosed(&shop.world, &[]);
        assert_eq!((code, codes(&found)), (7, vec!["store.unreachable"]), "{found:#?}");
    }

    #[test]
    fn a_pooler_nobody_declared_is_warned_of() {
        let shop = Shop::new();
        for (more, warned) in [("", 1), ("pooler = \"transaction\"\n", 0)] {
            shop.config(&shop.database.pgbouncer_url(), more);
            let (code, found) = diagnosed(&shop.world, &[]);
            assert_eq!((code, with(&found, "doctor.pooler_undeclared").len()), (0, warned), "{found:#?}");
        }
        shop.config(&shop.database.pgbouncer_url(), "pooler = \"none\"\n");
        let (code, found) = diagnosed(&shop.world, &[]);
        assert_eq!((code, with(&found, "store.refused").len()), (7, 1), "{found:#?}");
    }

    #[test]
    fn an_adopted_table_is_told_of_cache_overflow_and_index() {
        let shop = Shop::bare();
        shop.sql(
            "create table outbox (id int generated by default as identity (cache 50) primary key, type text not null, \
             key text not null, payload jsonb not null, sent_at timestamptz); \
             insert into outbox (id, type, key, payload) values (2000000000, 'a', 'k', '{}')",
        );
        shop.config(&shop.database.url(), MAPPING);
        let before = shop.one("select count(*) from pg_class");
        let (code, found) = diagnosed(&shop.world, &[]);
        assert_eq!(shop.one("select count(*) from pg_class"), before, "looking made something");
        assert_eq!(code, 0, "{found:#?}");
        shop.world.ok(&["store", "migrate", "up"]);
        let (code, found) = diagnosed(&shop.world, &[]);
        assert_eq!(code, 7, "{found:#?}");
        for (code, fix) in [
            ("doctor.sequence_cache", "alter sequence public.outbox_id_seq cache 1;"),
            ("doctor.id_overflow", "alter table public.outbox alter column id type bigint;"),
            ("doctor.index_missing", "create index "),
        ] {
            let one = with(&found, code);
            assert!(one.len() == 1 && one[0]["fix"].as_str().unwrap().starts_with(fix), "{code}: {found:#?}");
            shop.sql(one[0]["fix"].as_str().unwrap());
        }
        let (_, found) = diagnosed(&shop.world, &[]);
        let left: Vec<&str> = codes(&found).into_iter().filter(|code| *code != "doctor.no_relay").collect();
        assert_eq!(left, Vec::<&str>::new(), "{found:#?}");
    }
}

#[cfg(all(feature = "kafka", feature = "rabbitmq", feature = "nats", feature = "redis"))]
#[test]
fn what_is_missing_at_brokers_and_what_they_lose_is_told_route_by_route() {
    use postroom_testbed::brokers::{PASSWORD, RedisWith, USER};
    use postroom_testbed::{OwnServer, Servers, unique_name};

    let (world, servers) = (World::new(), Servers::find());
    let redis = OwnServer::start(RedisWith::lines("maxmemory-policy allkeys-lru\n")).unwrap();
    let name = unique_name("doctor");
    let (kafka, rabbitmq, nats) = (servers.port("kafka"), servers.port("rabbitmq"), servers.port("nats"));
    let config = format!(
        r#"[store.main]
url = "sqlite://shop.db"

[[route]]
name = "topic"
to = {{ kafka = {{ brokers = ["127.0.0.1:{kafka}"], topic = "{name}" }} }}

[[route]]
name = "queue"
to = {{ rabbitmq = {{ url = "amqp://{USER}:{PASSWORD}@127.0.0.1:{rabbitmq}", routing_key = "{name}" }} }}

[[route]]
name = "stream"
to = {{ nats = {{ url = "nats://127.0.0.1:{nats}", stream = "{name}", subject = "{name}.x" }} }}

[[route]]
name = "redis"
to = {{ redis = {{ url = "redis://127.0.0.1:{}", stream = "{name}" }} }}
"#,
        redis.site.port
    );
    world.write("postroom.toml", &config);
    let (code, found) = diagnosed(&world, &[]);
    assert_eq!(code, 7);
    for (route, code, level) in [
        ("topic", "kafka.unknown_topic", "problem"),
        ("queue", "rabbitmq.unroutable", "problem"),
        ("stream", "nats.no_stream", "problem"),
        ("redis", "redis.eviction", "warning"),
    ] {
        let one = with(&found, code);
        assert!(one.len() == 1 && one[0]["route"] == route && one[0]["level"] == level, "{code}: {found:#?}");
        assert!(one[0]["hint"].is_string(), "{one:#?}");
    }
}

#[cfg(feature = "nats")]
#[test]
fn a_stream_that_forgets_ids_earlier_than_a_route_retries_is_warned_of_with_the_command() {
    use postroom_testbed::OwnServer;
    use postroom_testbed::brokers::Nats;

    let (world, nats) = (World::new(), OwnServer::start(&Nats).unwrap());
    let config = |retry: &str| {
        let text = format!(
            r#"[store.main]
url = "sqlite://shop.db"

[[route]]
name = "orders"
{retry}
to = {{ nats = {{ url = "nats://127.0.0.1:{}", stream = "ORDERS", subject = "orders.{{type}}", create = {{ subjects = ["orders.>"] }} }} }}
"#,
            nats.site.port
        );
        world.write("postroom.toml", &text);
    };
    config("");
    world.ok(&["route", "test", "orders", "--type", "order.test"]);
    let (_, found) = diagnosed(&world, &[]);
    let window = with(&found, "nats.duplicate_window");
    assert!(window.len() == 1 && window[0]["level"] == "warning", "{found:#?}");
    assert_eq!(window[0]["fix"], "nats stream edit ORDERS --dupe-window=36m");
    assert_eq!(with(&found, "nats.one_replica").len(), 1, "{found:#?}");
    config("retry = { attempts = 5 }");
    let (_, found) = diagnosed(&world, &[]);
    assert_eq!(with(&found, "nats.duplicate_window").len(), 0, "{found:#?}");
}
