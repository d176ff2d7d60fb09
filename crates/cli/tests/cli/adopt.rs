//! Tables nobody here has seen: what `adopt` prints is a configuration that works, and what it says is true.

#![allow(clippy::unwrap_used, reason = "what cannot be made or run fails the test")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use nix::sys::signal::Signal;
use postroom_testbed::{Servers, unique_name};

use crate::adopted::sql;
use crate::docs;
use crate::http::{self, free};
use crate::postgres::{Shop, User};
use crate::reader::{Commands, EDITOR, Reader};
use crate::world::{ProgramOutput, World};

/// A table as some team has it.
struct Foreign {
    table: &'static str,
    /// Makes it with two rows to be sent.
    create: &'static str,
    /// What the report must say.
    said: &'static [&'static str],
    /// What the file must have.
    printed: &'static [&'static str],
    /// A query that is `true` once both are delivered.
    delivered: &'static str,
}

const ON_POSTGRES: &[Foreign] = &[
    Foreign {
        table: "outboxevent",
        create: "create table outboxevent (id uuid primary key default gen_random_uuid(), aggregatetype varchar(255) not null, \
                 aggregateid varchar(255) not null, type varchar(255) not null, payload jsonb);
                 insert into outboxevent (aggregatetype, aggregateid, type, payload) \
                 values ('order', 'o-1', 'OrderPlaced', '{}'), ('order', 'o-2', 'OrderPlaced', '{}')",
        said: &["delivered rows are DELETED", "no column tells the order"],
        printed: &[
            "aggregate_id = \"aggregateid\"",
            "# a row that is there is to be sent, as you said: delivered rows are DELETED",
        ],
        delivered: "select count(*) = 0 from outboxevent",
    },
    Foreign {
        table: "outbox_items",
        create: "create table outbox_items (id bigserial primary key, uuid uuid not null unique default gen_random_uuid(), \
                 event_name varchar not null, event_key varchar not null, bucket integer not null, status integer not null default 0, \
                 options jsonb, payload jsonb not null, errors_count integer not null default 0, error_log text, \
                 processed_at timestamp, created_at timestamp not null default now(), updated_at timestamp not null default now());
                 insert into outbox_items (event_name, event_key, bucket, payload, status, processed_at) \
                 values ('order_created', 'o-1', 1, '{}', 1, now()), ('order_created', 'o-1', 1, '{}', 3, null);
                 insert into outbox_items (event_name, event_key, bucket, payload) \
                 values ('order_created', 'o-1', 1, '{}'), ('order_paid', 'o-1', 1, '{}')",
        said: &["unsure: state.ignored = [\"3\"]: what 3 means is not known", "not used: bucket, options, updated_at"],
        printed: &["id = \"uuid\"", "pending = \"0\"", "done = \"1\"", "attempts = \"errors_count\"", "order = [\"id\"]"],
        delivered: "select count(*) = 3 and bool_and(processed_at is not null) from outbox_items where status = 1",
    },
    Foreign {
        table: "messages",
        create: "create table messages (message_id uuid primary key default gen_random_uuid(), topic text not null, body text not null, \
                 created timestamptz not null default now(), processed boolean not null default false);
                 insert into messages (topic, body) values ('order.placed', '{\"n\":1}'), ('order.placed', '{\"n\":2}')",
        said: &["unsure: event.type = \"topic\"", "no other session changed rows"],
        printed: &["order = [\"created\", \"message_id\"]", "flag = \"processed\"", "row = \"message_id\"", "payload = \"body\""],
        delivered: "select bool_and(processed) from messages",
    },
    Foreign {
        table: "typed_outbox",
        create: "create type outbox_state as enum ('new', 'sent', 'dead');
                 create table typed_outbox (id uuid primary key default gen_random_uuid(), event_type text not null, \
                 payload json not null, state outbox_state not null default 'new', created_at timestamptz not null default now(), \
                 tenant_id uuid, \"correlationId\" text);
                 insert into typed_outbox (event_type, payload) values ('order.placed', '{}'), ('order.placed', '{}')",
        said: &["no index finds pending rows"],
        printed: &["done = \"sent\"", "dead = \"dead\"", "tenant = \"tenant_id\"", "correlation_id = \"correlationId\""],
        delivered: "select bool_and(state = 'sent') from typed_outbox",
    },
    Foreign {
        table: "billing_events",
        create: "create table billing_events (id varchar(26) primary key, subject text not null, tenant_id text not null, \
                 resource_id text, payload jsonb not null, created_at timestamptz not null default now());
                 insert into billing_events (id, subject, tenant_id, payload) values \
                 ('1', 'invoice.paid', 't', '{\"n\":1,\"outbox_status\":\"pending\"}'), \
                 ('2', 'invoice.paid', 't', '{\"n\":1,\"outbox_status\":\"pending\",\"outbox_retry_count\":0}'), \
                 ('3', 'invoice.paid', 't', '{\"n\":1,\"outbox_status\":\"dispatched\"}')",
        said: &["where (\"payload\" ->> 'outbox_status') = 'pending';"],
        printed: &["word = \"payload.outbox_status\"", "done = \"dispatched\"", "payload_without = ["],
        delivered: "select bool_and(payload ->> 'outbox_status' = 'dispatched') from billing_events",
    },
    Foreign {
        table: "public.outbox",
        create: "create table outbox (id varchar(26) primary key, aggregate_type varchar(100) not null, \
                 aggregate_id varchar(26) not null, event_type varchar(100) not null, payload jsonb not null, \
                 created_at timestamptz not null, published_at timestamptz, retry_count integer not null default 0);
                 create index ix_outbox_unpublished on outbox (created_at) where published_at is null;
                 insert into outbox values ('1', 'Payment', 'p', 'PaymentAuthorized', '{}', now()), \
                 ('2', 'Payment', 'p', 'PaymentDeclined', '{}', now())",
        said: &["ix_outbox_unpublished finds due rows in the order of reading"],
        printed: &["stamp = \"published_at\"", "ordered = true", "attempts = \"retry_count\""],
        delivered: "select bool_and(published_at is not null) from outbox",
    },
];

const ON_SQLITE: &[Foreign] = &[
    Foreign {
        table: "outbox_items",
        create: "create table outbox_items (id integer primary key, uuid varchar not null, event_name varchar not null, \
                 event_key varchar not null, status integer not null default 0, payload text not null, \
                 errors_count integer not null default 0, error_log text, processed_at datetime, created_at datetime not null); \
                 insert into outbox_items (uuid, event_name, event_key, payload, created_at) \
                 values ('u-1', 'order_created', 'o-1', '{}', '2026-01-01 00:00:00'), ('u-2', 'order_paid', 'o-1', '{}', '2026-01-01 00:00:00')",
        said: &["unsure: state.done = \"1\""],
        printed: &["id = \"uuid\"", "pending = \"0\"", "done_at = \"processed_at\"", "occurred_at = \"created_at\""],
        delivered: "select case when sum(status = 1 and processed_at is not null) = 2 then 'true' end from outbox_items",
    },
    Foreign {
        table: "messages",
        create: "create table messages (id text primary key, type text not null, data text not null, processed boolean not null default false); \
                 insert into messages (id, type, data) values ('a', 'order.placed', '{}'), ('b', 'order.placed', '{}')",
        said: &["no column tells the order"],
        printed: &["flag = \"processed\"", "payload = \"data\""],
        delivered: "select case when sum(processed) = 2 then 'true' end from messages",
    },
    Foreign {
        table: "outbox",
        create: "create table outbox (id text primary key, aggregatetype text not null, aggregateid text not null, type text not null, \
                 payload text); insert into outbox values ('a', 'order', 'o-1', 'OrderPlaced', '{}'), ('b', 'order', 'o-1', 'OrderPaid', '{}')",
        said: &["delivered rows are DELETED"],
        printed: &["aggregate_type = \"aggregatetype\""],
        delivered: "select case when count(*) = 0 then 'true' end from outbox",
    },
];

/// Adopts a table; where nothing tells the state of a row, only once somebody has said that rows are deleted.
fn adopt(foreign: &Foreign, run: impl Fn(&[&str]) -> ProgramOutput) -> ProgramOutput {
    let args = ["adopt", foreign.table, "--watch", "0s"];
    if !foreign.said.contains(&"delivered rows are DELETED") {
        return run(&args);
    }
    let refused = run(&args);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{}", refused.stderr);
    for text in ["shows no `state`", "add --set state=presence", "DELETES it once it is delivered"] {
        assert!(refused.stderr.contains(text), "{text}\n{}", refused.stderr);
    }
    run(&[&args[..], &["--set", "state=presence"]].concat())
}

fn check(foreign: &Foreign, said: &ProgramOutput) {
    assert_eq!(said.code, 0, "{}: {}", foreign.table, said.stderr);
    for text in foreign.said {
        assert!(said.stderr.contains(text), "{}: {text}\n{}", foreign.table, said.stderr);
    }
    for text in foreign.printed {
        assert!(said.stdout.contains(text), "{}: {text}\n{}", foreign.table, said.stdout);
    }
    assert!(said.stderr.contains("2 rows due"), "{}", said.stderr);
}

/// Destinations that a printed file offers.
const DESTINATIONS: [&str; 7] = ["kafka", "rabbitmq", "nats", "redis", "webhook", "exec", "file"];

/// Chooses a destination as a user does: removes the comment signs of the route and of one of its lines `to`.
fn choose(printed: &str, destination: &str) -> String {
    let to = format!("# to = {{ {destination} = ");
    let wanted = ["# [[route]]", "# name = ", "# store = ", &to];
    let mut chosen = String::new();
    for line in printed.lines() {
        let is_wanted = wanted.iter().any(|start| line.starts_with(start));
        chosen.push_str(if is_wanted { &line["# ".len()..] } else { line });
        chosen.push('\n');
    }
    assert_eq!(chosen.matches("\nto = ").count(), 1, "{destination}: {printed}");
    chosen
}

/// Delivers everything with the configuration that is there, to the folder `events`. How many lines came.
fn relay(world: &World) -> usize {
    let folder = world.path("events");
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir(&folder).unwrap();
    world.ok(&["config", "check"]);
    let said = world.run(&["relay", "run", "--drain"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let files = fs::read_dir(folder).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    files.map(|text| text.lines().count()).sum()
}

#[test]
fn what_is_printed_for_a_table_on_postgresql_delivers_its_rows() {
    let shop = Shop::bare();
    for foreign in ON_POSTGRES {
        shop.sql(foreign.create);
        shop.config(&shop.database.url(), "");
        let tables = shop.one("select count(*) from pg_class");
        let said = adopt(foreign, |args| shop.world.run(args));
        check(foreign, &said);
        assert_eq!(shop.one("select count(*) from pg_class"), tables, "{} made something", foreign.table);
        shop.config(&shop.database.url(), &choose(&said.stdout, "file"));
        assert_eq!(relay(&shop.world), 2, "{}", foreign.table);
        assert_eq!(shop.one(foreign.delivered), "true", "{}", foreign.table);
    }
}

#[test]
fn what_is_printed_for_a_table_on_sqlite_delivers_its_rows() {
    for foreign in ON_SQLITE {
        let world = World::bare();
        for statement in foreign.create.split("; ") {
            sql(&world, statement);
        }
        fs::remove_file(world.path("postroom.toml")).unwrap();
        let url = format!("sqlite://{}", world.path("shop.db").display());
        let run = |args: &[&str]| {
            let output = world.command(args).env("DATABASE_URL", &url).output().unwrap();
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            ProgramOutput {
                code: output.status.code().unwrap(),
                stdout: text(output.stdout),
                stderr: text(output.stderr),
            }
        };
        let said = adopt(foreign, run);
        check(foreign, &said);
        let chosen = choose(&said.stdout, "file");
        world.write("postroom.toml", &chosen.replace("${DATABASE_URL}", &url));
        assert_ne!(fs::read_to_string(world.path("postroom.toml")).unwrap(), chosen, "the variable names the file");
        assert_eq!(relay(&world), 2, "{}", foreign.table);
        assert_eq!(sql(&world, foreign.delivered), ["true"], "{}", foreign.table);
    }
}

#[test]
fn odd_names_are_quoted_wherever_they_stand() {
    let shop = Shop::bare();
    let table = "\"My Schema\".\"Odd.Täble \"\"x\"\"; drop\"";
    shop.sql(&format!(
        "create schema \"My Schema\"; create table {table} (\"i'd\" text, \"Event Type\" text not null, \"pay.load\" jsonb not null, \
         \"sta\"\"tus\" text not null default 'it''s new', \"${{HOME}}\" text, \"Größe\" text, created_at timestamptz default now());
         insert into {table} (\"i'd\", \"Event Type\", \"pay.load\") values ('1', 'order.placed', '{{}}'), ('2', 'order.placed', '{{}}')"
    ));
    let said = shop.world.run(&["adopt", table, "--watch", "0s", "--set", "state.done=it's sent"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("nothing makes \"i'd\" unique"), "{}", said.stderr);
    assert!(said.stderr.contains("create index concurrently"), "{}", said.stderr);
    let index = shop.world.json(&["adopt", table, "--watch", "0s", "--set", "state.done=it's sent"])["index"].clone();
    for statement in index["create"].as_array().unwrap() {
        shop.sql(statement.as_str().unwrap());
    }
    shop.config(&shop.database.url(), &choose(&said.stdout, "file"));
    assert_eq!(relay(&shop.world), 2);
    assert_eq!(shop.one(&format!("select bool_and(\"sta\"\"tus\" = 'it''s sent') from {table}")), "true");
}

#[test]
fn names_that_sql_or_toml_would_read_otherwise_are_quoted_in_what_it_prints() {
    let shop = Shop::bare();
    let role = format!("Clerk_{}", shop.database.name());
    shop.sql(&format!(
        "create schema \"order\"; create role \"{role}\" login; grant usage on schema \"order\" to \"{role}\";
         create table \"order\".\"OutboxMessages\" (id bigint primary key, type text not null, payload jsonb not null, \
         sent_at timestamptz, created_at timestamptz default now());
         insert into \"order\".\"OutboxMessages\" (id, type, payload) values (1, 'order.placed', '{{}}')"
    ));
    let store = |url: &str| format!("name = \"test\"\n\n[store.\"eu.main\"]\nurl = \"{url}\"\n");
    let args = ["adopt", "order.OutboxMessages", "--watch", "0s"];
    shop.world.write("postroom.toml", &store(&shop.url_of(&role)));
    // Twice a right is missing; each time what it prints is what gives it.
    for (code, missing) in [(4, "run as its owner: "), (0, "run as the table's owner: ")] {
        let said = shop.world.run(&args);
        assert_eq!(said.code, code, "{}", said.stderr);
        let (_, grants) = said.stderr.split_once(missing).unwrap_or_else(|| panic!("{}", said.stderr));
        shop.sql(grants.lines().next().unwrap());
        shop.sql(&format!("revoke update on \"order\".\"OutboxMessages\" from \"{role}\""));
    }
    let found = shop.world.json(&args);
    let create = found["index"]["create"][0].as_str().unwrap();
    assert!(create.contains("\"OutboxMessages_pending_idx\" on \"order\".\"OutboxMessages\""), "{create}");
    shop.sql(create);
    let toml = found["toml"].as_str().unwrap();
    assert!(toml.contains("\n[store.\"eu.main\".mapping]\n"), "{toml}");
    shop.world.write("postroom.toml", &(store(&shop.database.url()) + &choose(toml, "file")));
    assert_eq!(relay(&shop.world), 1);
    assert_eq!(shop.one("select sent_at is not null from \"order\".\"OutboxMessages\""), "true");
    shop.sql(&format!("drop owned by \"{role}\"; drop role \"{role}\""));
}

#[test]
fn what_cannot_be_adopted_is_said_with_the_next_step() {
    let shop = Shop::bare();
    shop.sql(
        "create table event_outbox (id uuid primary key, event_type text not null, payload jsonb not null, sent_at timestamptz);
         create view outbox_view as select * from event_outbox;
         create table blobs (id bigint primary key, proto_payload bytea, event_name text, status text);
         create schema hidden; create table hidden.outbox as table event_outbox",
    );
    let refused = |args: &[&str], code: i32, texts: &[&str]| {
        let said = shop.world.run(args);
        assert_eq!((said.code, said.stdout.as_str()), (code, ""), "{args:?}: {}", said.stderr);
        for text in texts {
            assert!(said.stderr.contains(text), "{args:?}: {text}\n{}", said.stderr);
        }
    };
    refused(&["adopt", "outbox_view"], 2, &["public.outbox_view is a view", "adopt the table that holds the rows"]);
    refused(&["adopt", "Event_Outbox"], 2, &["there is no table Event_Outbox", "public.event_outbox"]);
    refused(&["adopt", "event outbox"], 2, &["double quotes"]);
    refused(
        &["adopt", "blobs"],
        2,
        &["public.blobs shows no `event.payload`", "proto_payload is bytea", "--set event.payload=…"],
    );
    refused(
        &["adopt", "event_outbox", "--set", "event.colour=id"],
        2,
        &["unknown key `store.main.mapping.event.colour`"],
    );
    refused(
        &["adopt", "event_outbox", "--set", "event.type=colour"],
        1,
        &["has no column colour", "it has event_type"],
    );
    let mapping = "[store.main.mapping]\ntable = \"event_outbox\"\norder = [\"id\"]\nstate = { stamp = \"sent_at\" }\n";
    shop.config(&shop.database.url(), mapping);
    refused(&["adopt", "event_outbox"], 2, &["store `main` adopts event_outbox already"]);
    let user = User::new(&shop);
    shop.config(&shop.url_of(&user.name), "");
    let grant = format!("grant select, update on public.event_outbox to {}", user.name);
    refused(&["adopt", "event_outbox"], 4, &["may not read public.event_outbox", &grant]);
    refused(
        &["adopt", "hidden.outbox"],
        4,
        &["permission denied for schema hidden", "grant select, update on hidden.outbox"],
    );
    shop.sql(&format!("grant select on event_outbox to {}", user.name));
    let said = shop.world.run(&["adopt", "event_outbox", "--watch", "0s"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("this user may not mark rows") && said.stderr.contains(&grant), "{}", said.stderr);
}

#[test]
fn a_row_that_cannot_be_read_fails_the_dry_run_and_not_the_mapping() {
    let shop = Shop::bare();
    shop.sql(
        "create table events (id text primary key, type text not null, payload text not null, created_at timestamptz default now());
         insert into events (id, type, payload) select n, 'order.placed', '{\"outbox_status\":\"pending\"}' from generate_series(1, 2) n",
    );
    let said = shop.world.run(&["adopt", "events", "--watch", "0s"]);
    assert!(said.stderr.contains("dry run: 2 rows due"), "{}", said.stderr);
    assert!(said.stderr.contains("the index calls a function that `store migrate up` makes"), "{}", said.stderr);
    shop.sql("insert into events (id, type, payload) values ('0', 'order.placed', 'no JSON')");
    let said = shop.world.run(&["adopt", "events", "--watch", "0s"]);
    assert_eq!(said.code, 7, "{}", said.stderr);
    let column = "dry run: FAILED: column payload (text) cannot be read as state.word = payload.outbox_status says: ";
    assert!(said.stderr.contains(column), "{}", said.stderr);
    assert!(!said.stderr.contains("relay run"), "a relay is not the next step: {}", said.stderr);
    assert!(said.stderr.contains("rows could not be compared"), "{}", said.stderr);
    shop.config(&shop.database.url(), &choose(&said.stdout, "file"));
    assert_eq!(relay(&shop.world), 2);
    let index = said.stderr.lines().find_map(|line| line.trim().strip_prefix("create it yourself: ")).unwrap();
    shop.sql(index);
}

/// 120 rows are finished, 3 are to be sent, and only a key inside a JSON column tells which.
const INSIDE: &str = "insert into events (id, type, payload, meta) select n, 'order.placed', '{\"total\":1}', \
     case when n <= 120 then '{\"status\":\"sent\"}' else '{\"status\":\"new\"}' end from";

/// Nothing is printed that sends or deletes finished rows; what is said about the key makes a mapping that sends the others.
fn a_state_inside_json(run: impl Fn(&[&str]) -> ProgramOutput) -> String {
    let refused = run(&["adopt", "events", "--watch", "0s"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{}", refused.stderr);
    for text in [
        "events shows no `state`: what tells a delivered row from one that is still to be sent",
        "meta.status (\"sent\" in 120 rows, \"new\" in 3 rows; 123 rows looked at)",
        "--set state.word=meta.status",
        "--set state=presence",
    ] {
        assert!(refused.stderr.contains(text), "{text}\n{}", refused.stderr);
    }
    let odd = run(&["adopt", "events", "--watch", "0s", "--set", "state=gone"]);
    assert!(odd.code == 2 && odd.stderr.contains("write state=presence"), "{}", odd.stderr);
    let said = run(&["adopt", "events", "--watch", "0s", "--set", "state.word=meta.status"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("dry run: 3 rows due"), "{}", said.stderr);
    for text in ["word = \"meta.status\"", "pending = \"new\"", "done = \"sent\""] {
        assert!(said.stdout.contains(text), "{text}\n{}", said.stdout);
    }
    choose(&said.stdout, "file")
}

#[test]
fn a_state_inside_a_json_column_is_asked_for_and_finished_rows_are_neither_sent_nor_deleted_on_postgresql() {
    let shop = Shop::bare();
    shop.sql(&format!(
        "create table events (id int primary key, type text not null, payload jsonb not null, meta jsonb not null);
         {} generate_series(1, 123) n",
        INSIDE
            .replace("case when", "(case when")
            .replace(" end from", " end)::jsonb from")
            .replace("'{\"total\":1}'", "'{\"total\":1}'::jsonb")
    ));
    let chosen = a_state_inside_json(|args| shop.world.run(args));
    shop.config(&shop.database.url(), &chosen);
    assert_eq!(relay(&shop.world), 3);
    assert_eq!(shop.one("select count(*) from events where meta ->> 'status' = 'sent'"), "123");
}

#[test]
fn a_state_inside_a_json_column_is_asked_for_and_finished_rows_are_neither_sent_nor_deleted_on_sqlite() {
    let world = World::bare();
    let store = format!("[store.main]\nurl = \"sqlite://{}\"\n", world.path("shop.db").display());
    world.write("postroom.toml", &store);
    sql(
        &world,
        "create table events (id integer primary key, type text not null, payload text not null, meta text not null)",
    );
    sql(&world, &format!("{} {INSIDE} n", numbers(123)));
    let chosen = a_state_inside_json(|args| world.run(args));
    world.write("postroom.toml", &(store + &chosen));
    assert_eq!(relay(&world), 3);
    let sent = "select cast(count(*) as text) from events where json_extract(meta, '$.status') = 'sent'";
    assert_eq!(sql(&world, sent), ["123"]);
}

#[test]
fn the_page_of_adopted_tables_works_as_it_says() {
    let (page, mut commands) = (docs::page("docs/adopted.md"), Commands::of("docs/adopted.md"));
    let port = Servers::find().port("redis");
    let stream = unique_name("events");
    let shop = Shop::bare();
    shop.sql(
        "create table event_outbox (id uuid primary key default gen_random_uuid(), event_type text not null, payload jsonb not null, \
         aggregate_type text not null, aggregate_id text not null, group_id text, subsidiary_id text, status text not null default 'pending', \
         attempts int not null default 0, available_at timestamptz not null default now(), created_at timestamptz not null default now());
         insert into event_outbox (event_type, payload, aggregate_type, aggregate_id) \
         values ('placed', '{}', 'order', 'order-7'), ('paid', '{}', 'order', 'order-7')",
    );
    let mut reader = Reader::new();
    let here = |url: &str, text: &str| {
        let text = text.replace("postgres://shop@db/shop", url).replace("postgres://metering@db/metering", url);
        text.replace("redis://redis", &format!("redis://127.0.0.1:{port}")).replace("shop.events", &stream)
    };
    let url = shop.database.url();
    reader.world.write("postroom.toml", &here(&url, &docs::blocks(&page, "toml")[0]));
    reader.follow(&here(&url, &commands.block()));
    reader.until_delivered(2);
    reader.end_relay();
    assert_eq!(shop.one("select bool_and(status = 'published') from event_outbox"), "true");
    assert_eq!(reader.shell(&format!("redis-cli -p {port} xlen {stream}")), "2\n");

    let metering = Shop::bare();
    let mut reader = Reader::new();
    metering.sql(&reader.shell("postroom preset show m4 --ddl"));
    reader.world.write("handlers.py", "import json, sys\nfor line in sys.stdin:\n    print(json.dumps({'id': json.loads(line)['id'], 'ok': True}), flush=True)\n");
    reader.follow(&here(&metering.database.url(), &commands.block()));
    reader.until("postroom status --preset m4 -o json", |status| status["routes"][0]["state"] == "running");
    reader.end_relay();

    let old = Shop::bare();
    old.sql(
        "create table event_outbox (id bigint primary key, event_type text not null, payload jsonb not null, published_at timestamptz);
         insert into event_outbox values (1, 'order.placed', '{}')",
    );
    let mut reader = Reader::with(&[("EDITOR", "sh choose.sh")]);
    reader.world.write("choose.sh", EDITOR);
    reader.follow(&here(&old.database.url(), &commands.block()));
    reader.until_delivered(1);
    reader.end_relay();
    assert_eq!(old.one("select published_at is not null from event_outbox"), "true");
}

/// A table with this many pending rows on SQLite, and what `adopt` says of it.
fn pending(rows: usize) -> (World, ProgramOutput) {
    let world = World::bare();
    world.write("postroom.toml", &format!("[store.main]\nurl = \"sqlite://{}\"\n", world.path("shop.db").display()));
    sql(
        &world,
        "create table event_outbox (id integer primary key, event_type text not null, payload text not null, sent_at datetime)",
    );
    sql(
        &world,
        &format!(
            "{} insert into event_outbox (event_type, payload) select 'order.placed', '{{}}' from n",
            numbers(rows)
        ),
    );
    let said = world.run(&["adopt", "event_outbox", "--watch", "0s"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    (world, said)
}

/// The rows of SQLite's `n`, from 1.
fn numbers(rows: usize) -> String {
    format!("with recursive n(n) as (select 1 union all select n + 1 from n where n < {rows})")
}

/// How many rows are still to be sent.
fn unsent(world: &World) -> Vec<String> {
    sql(world, "select cast(count(*) as text) from event_outbox where sent_at is null")
}

#[test]
fn nothing_is_sent_before_somebody_has_chosen_a_destination() {
    let (world, said) = pending(180);
    assert!(
        said.stderr.contains("next: choose one destination in the file and remove the comment signs"),
        "{}",
        said.stderr
    );
    assert!(said.stdout.contains("choose one destination and remove the comment signs"), "{}", said.stdout);
    let store = fs::read_to_string(world.path("postroom.toml")).unwrap();
    world.write("postroom.toml", &(store.clone() + &said.stdout));
    for args in [&["relay", "run"][..], &["relay", "run", "--drain"], &["relay", "run", "--yes"]] {
        let refused = world.run(args);
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{}", refused.stderr);
        assert!(refused.stderr.contains("no route is configured"), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("hint: choose a destination for the adopted table of store `main`"),
            "{}",
            refused.stderr
        );
    }
    assert_eq!(unsent(&world), ["180"]);
    let checked = world.run(&["config", "check"]);
    assert_eq!(checked.code, 2, "{}", checked.stderr);
    let hint = "hint: choose a destination for the adopted table of store `main`";
    assert!(checked.stderr.contains(hint) && !checked.stderr.contains("config init"), "{}", checked.stderr);
    for destination in DESTINATIONS {
        world.write("postroom.toml", &(store.clone() + &choose(&said.stdout, destination)));
        assert_eq!(world.ok(&["config", "check"]), "postroom.toml is fine: 1 store, 1 route\n", "{destination}");
    }
    // A store that has a route keeps it.
    let route = "[[route]]\nname = \"out\"\nto = { file = { folder = \"events\" } }\n";
    world.write("postroom.toml", &(store + route));
    let said = world.run(&["adopt", "event_outbox", "--watch", "0s"]);
    assert!(!said.stdout.contains("[[route]]"), "{}", said.stdout);
    assert!(said.stderr.contains("next: stop the old dispatcher, then run `postroom relay run`"), "{}", said.stderr);
}

/// A route that keeps nothing does not get the 180 rows that this world's table has pending, until somebody allows it.
fn rows_are_not_discarded(world: &World, table: &str, printed: &str, unsent: impl Fn() -> String) {
    let store = fs::read_to_string(world.path("postroom.toml")).unwrap();
    let route = |to: &str| {
        let route = format!("[[route]]\nname = \"out\"\nto = {{ {to} = {{}} }}\n");
        world.write("postroom.toml", &format!("{store}{printed}\n{route}"));
    };
    for to in ["stdout", "noop"] {
        route(to);
        for args in [&["relay", "run"][..], &["relay", "run", "--drain"]] {
            let said = world.run(args);
            assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{}", said.stderr);
            let message = format!(
                "error: route `out` goes to {to}, which keeps no events: at least 180 pending rows of table {table} in store `main` \
                 would count as delivered\n"
            );
            assert!(said.stderr.contains(&message), "{message}{}", said.stderr);
            assert!(said.stderr.contains("add --yes, or allow_discard = true to the route"), "{}", said.stderr);
        }
        assert_eq!(unsent(), "180");
    }
    route("stdout");
    let said = world.run(&["relay", "run", "--drain", "--yes"]);
    assert_eq!((said.code, said.stdout.lines().count()), (0, 180), "{}", said.stderr);
    assert_eq!(unsent(), "0");
    // A table that is empty now has rows later.
    let said = world.run(&["relay", "run", "--drain"]);
    let message = format!("keeps no events: rows of table {table} in store `main` would count as delivered\n");
    assert!(said.code == 2 && said.stderr.contains(&message), "{}", said.stderr);
}

#[test]
fn a_route_that_keeps_nothing_does_not_get_pending_rows_of_a_table_on_sqlite() {
    let (world, said) = pending(180);
    rows_are_not_discarded(&world, "event_outbox", &said.stdout, || unsent(&world).remove(0));
}

#[test]
fn a_route_that_keeps_nothing_does_not_get_pending_rows_of_a_table_on_postgresql() {
    let shop = Shop::bare();
    shop.sql(
        "create table event_outbox (id bigserial primary key, event_type text not null, payload jsonb not null, sent_at timestamptz);
         insert into event_outbox (event_type, payload) select 'order.placed', '{}' from generate_series(1, 180)",
    );
    let said = shop.world.run(&["adopt", "event_outbox", "--watch", "0s"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let unsent = || shop.one("select count(*) from event_outbox where sent_at is null");
    rows_are_not_discarded(&shop.world, "public.event_outbox", &said.stdout, unsent);
}

#[test]
fn a_key_of_the_route_allows_it_to_discard_rows() {
    let (world, said) = pending(3);
    let store = fs::read_to_string(world.path("postroom.toml")).unwrap();
    let route = "[[route]]\nname = \"out\"\nto = { noop = {} }\nallow_discard = true\n";
    world.write("postroom.toml", &format!("{store}{}\n{route}", said.stdout));
    world.ok(&["relay", "run", "--drain"]);
    assert_eq!(unsent(&world), ["0"]);
}

#[test]
fn a_reload_that_would_discard_rows_is_refused() {
    let (world, said) = pending(3);
    let store = fs::read_to_string(world.path("postroom.toml")).unwrap();
    let route = |to: &str| {
        let route = format!("[[route]]\nname = \"out\"\nto = {{ {to} }}\n");
        world.write("postroom.toml", &format!("{store}{}\n{route}", said.stdout));
    };
    // Never answers, so the rows stay pending.
    route(r#"exec = { command = ["sh", "-c", "cat > unanswered"] }"#);
    let address = free();
    let running = http::relay(&world, &["--listen", &address], &[]);
    http::until(&address, "/readyz", "moving", |answer| answer.status == 200);
    route("stdout = {}");
    running.signal(Signal::SIGHUP);
    let refused = |answer: &http::Answer| answer.body.contains("postroom_config_reload_success 0");
    http::until(&address, "/metrics", "refused", refused);
    running.signal(Signal::SIGTERM);
    assert_eq!(running.end().0, Some(0));
    assert_eq!(unsent(&world), ["3"]);
}

/// Runs something again and again beside something else.
fn beside<T>(mut work: impl FnMut() + Send, main: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                work();
            }
        });
        let result = main();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

#[test]
fn a_dispatcher_that_still_runs_is_noticed_on_postgresql() {
    let shop = Shop::bare();
    shop.sql(
        "create table event_outbox (id bigserial primary key, event_type text not null, payload jsonb not null, sent_at timestamptz);
         insert into event_outbox (event_type, payload) select 'order.placed', '{}' from generate_series(1, 2000)",
    );
    // Somebody at work on another table is nobody's business.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut other = runtime.block_on(<sqlx::PgConnection as sqlx::Connection>::connect(&shop.database.url())).unwrap();
    runtime.block_on(sqlx::query("create table event_outbox_old (update int)").execute(&mut other)).unwrap();
    let quiet = shop.world.json(&["adopt", "event_outbox", "--watch", "100ms"]);
    assert_eq!(
        quiet["others"],
        serde_json::json!({"changed": 0, "done": 0, "updated": 0, "deleted": 0, "sessions": [], "blind": false})
    );
    let url = format!("{}?application_name=old-dispatcher", shop.database.url());
    let mut connection = runtime.block_on(<sqlx::PgConnection as sqlx::Connection>::connect(&url)).unwrap();
    let mut work = || {
        let claim = "update event_outbox set sent_at = now() where id = (select min(id) from event_outbox where sent_at is null)";
        runtime.block_on(sqlx::query(claim).execute(&mut connection)).unwrap();
    };
    work();
    let said = beside(work, || shop.world.run(&["adopt", "event_outbox", "--watch", "500ms"]));
    assert_eq!(said.code, 0, "{}", said.stderr);
    for text in ["WARNING: stop the old dispatcher first", "became done", "updates rows (old-dispatcher"] {
        assert!(said.stderr.contains(text), "{text}\n{}", said.stderr);
    }
}

#[test]
fn a_dispatcher_that_still_runs_is_noticed_on_sqlite() {
    let world = World::bare();
    // A dispatcher that never rests starves every reader of a file in another mode.
    sql(&world, "pragma journal_mode = wal");
    sql(
        &world,
        "create table event_outbox (id integer primary key, event_type text not null, payload text not null, sent_at datetime)",
    );
    sql(
        &world,
        "with recursive n(n) as (select 1 union all select n + 1 from n where n < 3000) \
         insert into event_outbox (event_type, payload) select 'order.placed', '{}' from n",
    );
    world.write("postroom.toml", &format!("[store.main]\nurl = \"sqlite://{}\"\n", world.path("shop.db").display()));
    let work = || {
        let claim = "update event_outbox set sent_at = current_timestamp where id = (select min(id) from event_outbox where sent_at is null)";
        sql(&world, claim);
    };
    let said = beside(work, || world.run(&["adopt", "event_outbox", "--watch", "500ms"]));
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("WARNING: stop the old dispatcher first"), "{}", said.stderr);
}

#[test]
fn the_index_it_proposes_is_the_one_that_polls_use() {
    let shop = Shop::bare();
    shop.sql(
        "create table billing_events (id text primary key, subject text not null, payload jsonb not null, created_at timestamptz not null);
         insert into billing_events select n::text, 'invoice.paid', \
         jsonb_build_object('n', n, 'outbox_status', case when n % 1000 = 0 then 'pending' else 'dispatched' end), \
         now() + n * interval '1 second' from generate_series(1, 20000) n; analyze billing_events",
    );
    let found = shop.world.json(&["adopt", "billing_events", "--watch", "0s"]);
    assert_eq!((&found["index"]["served_by"], &found["dry_run"]["due"]), (&serde_json::Value::Null, &20.into()));
    let create = found["index"]["create"][0].as_str().unwrap();
    shop.sql(create);
    let used = "select idx_scan from pg_stat_all_indexes where indexrelname = 'billing_events_pending_idx'";
    assert_eq!(shop.one(used), "0");
    let found = shop.world.json(&["adopt", "billing_events", "--watch", "0s"]);
    assert_eq!(
        found["index"],
        serde_json::json!({"served_by": "billing_events_pending_idx", "in_order": true, "create": []})
    );
    // A session counts at the latest when it ends, which is a moment after its program did.
    let until = Instant::now() + Duration::from_mins(5);
    while shop.one(used) == "0" {
        assert!(Instant::now() < until, "never used: {create}");
    }
}

/// Where no relay has been, nothing of ours is beside the table yet.
#[test]
fn the_dry_run_works_on_a_fresh_database_for_ids_of_every_type() {
    for (kind, id) in [("uuid", "gen_random_uuid()"), ("bigint", "7"), ("int", "7"), ("text", "'a'")] {
        let shop = Shop::new();
        shop.sql(&format!(
            "create table event_outbox (id {kind} primary key, event_type text not null, aggregate_id text not null, \
             payload jsonb not null, status text not null default 'pending', created_at timestamptz not null default now())"
        ));
        shop.sql(&format!(
            "insert into event_outbox (id, event_type, aggregate_id, payload) values ({id}, 'order.placed', 'o-1', '1')"
        ));
        let found = shop.world.json(&["adopt", "event_outbox", "--watch", "0s"]);
        assert_eq!(
            (&found["dry_run"]["due"], &found["dry_run_failed"]),
            (&1.into(), &serde_json::Value::Null),
            "{kind}"
        );
    }
}
