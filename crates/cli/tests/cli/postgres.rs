//! What goes wrong around a store on PostgreSQL, on real servers: each with its code, its words and its next step.

#![allow(clippy::unwrap_used, reason = "what cannot be made or run fails the test")]

use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use postroom_testbed::{Cluster, Database, Servers, free_port, unique_name};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};

use crate::docs;
use crate::reader::Commands;
use crate::world::{ProgramOutput, Running, World};

/// A folder with a configuration, and a database of its own.
pub(crate) struct Shop {
    pub(crate) world: World,
    pub(crate) database: Database,
    pub(crate) runtime: tokio::runtime::Runtime,
}

impl Shop {
    /// A database without tables.
    pub(crate) fn bare() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let database = runtime.block_on(Database::create(&Servers::find()));
        let shop = Self { world: World::bare(), database, runtime };
        shop.config(&shop.database.url(), "");
        shop
    }

    /// A database with the tables that `plan` prints.
    pub(crate) fn new() -> Self {
        let shop = Self::bare();
        let plan = shop.world.ok(&["store", "migrate", "plan"]);
        shop.sql(&plan);
        shop
    }

    /// Writes the configuration of its store, with these keys more.
    pub(crate) fn config(&self, url: &str, more: &str) {
        let text = format!("name = \"test\"\n\n[store.main]\nurl = \"{url}\"\n{more}");
        self.world.write("postroom.toml", &text);
    }

    /// Does something behind the program's back.
    pub(crate) fn sql(&self, text: &str) {
        self.runtime.block_on(async {
            let mut connection = PgConnection::connect(&self.database.url()).await.unwrap();
            connection.execute(AssertSqlSafe(text)).await.unwrap();
        });
    }

    /// One value, as text.
    pub(crate) fn one(&self, text: &str) -> String {
        self.runtime.block_on(async {
            let mut connection = PgConnection::connect(&self.database.url()).await.unwrap();
            connection.fetch_one(AssertSqlSafe(format!("select ({text})::text"))).await.unwrap().get(0)
        })
    }

    /// The same server as another user.
    pub(crate) fn url_of(&self, user: &str) -> String {
        self.database.url().replace("postgres@", &format!("{user}@"))
    }

    /// Runs it; it must end so, without data. All it said, with what differs from run to run masked.
    fn refused(&self, args: &[&str], code: i32) -> String {
        let said = self.world.run(args);
        assert_eq!(said.code, code, "{args:?}: {}", said.stderr);
        assert_eq!(said.stdout, "", "{args:?} printed data although it failed");
        format!("## {}\n{}\n", args.join(" "), self.masked(&said))
    }

    fn masked(&self, said: &ProgramOutput) -> String {
        let text = self.world.snapshot(said).replace(self.database.name(), "[DB]");
        let mut out = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once("127.0.0.1:") {
            out.push_str(before);
            out.push_str("127.0.0.1:[PORT]");
            rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        }
        out + rest
    }
}

/// A user of its own; gone at the end, with what was granted to it.
pub(crate) struct User<'s> {
    shop: &'s Shop,
    pub(crate) name: String,
}

impl<'s> User<'s> {
    pub(crate) fn new(shop: &'s Shop) -> Self {
        let name = format!("u_{}", shop.database.name());
        shop.sql(&format!("create role {name} login"));
        Self { shop, name }
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.shop.sql(&format!("drop owned by {0}; drop role {0}", self.name));
        }
    }
}

#[test]
fn a_server_that_does_not_let_us_in_is_3_and_the_password_is_not_told() {
    let (shop, servers) = (Shop::new(), Servers::find());
    shop.config(&servers.locked_url(shop.database.name(), "canary"), "");
    let mut all = shop.refused(&["event", "ls"], 3);
    shop.config(&shop.database.url().replace(shop.database.name(), "no_such_database"), "");
    all.push_str(&shop.refused(&["event", "ls"], 3));
    let port = free_port().unwrap();
    shop.config(&format!("postgres://shop:canary@127.0.0.1:{port}/shop"), "");
    all.push_str(&shop.refused(&["event", "ls"], 3));
    assert!(!all.contains("canary"), "{all}");
    insta::assert_snapshot!(all);
    for args in [&["event", "ls", "-v"][..], &["config", "show"], &["store", "roles"]] {
        let said = shop.world.run(args);
        assert!(!format!("{}{}", said.stdout, said.stderr).contains("canary"), "{args:?}");
    }
}

#[test]
fn a_database_without_tables_is_4_with_the_command_that_makes_them() {
    let shop = Shop::bare();
    let mut all = String::new();
    for args in [&["event", "ls"][..], &["relay", "run"], &["store", "stats"], &["store", "accept-identity", "--yes"]] {
        if args[0] == "relay" {
            shop.config(&shop.database.url(), "\n[[route]]\nname = \"all\"\nto = { stdout = {} }\n");
        }
        all.push_str(&shop.refused(args, 4));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn tables_of_a_newer_build_are_4_and_are_left_alone() {
    let shop = Shop::new();
    shop.sql("update postroom.meta set value = '99' where name = 'schema_version'");
    let mut all = shop.refused(&["event", "ls"], 4);
    all.push_str(&shop.refused(&["store", "migrate", "up"], 4));
    all.push_str(&shop.refused(&["store", "migrate", "down", "--yes"], 4));
    all.push_str(&shop.refused(&["store", "stats"], 4));
    insta::assert_snapshot!(all);
    assert_eq!(shop.world.json(&["store", "migrate", "status"])["version"], 99);
}

#[test]
fn a_table_changed_by_hand_is_4_with_the_exact_difference() {
    let shop = Shop::new();
    shop.sql("alter table postroom.delivery alter column seq type int4; alter table postroom.stat drop column dead");
    insta::assert_snapshot!(shop.refused(&["event", "ls"], 4));
}

#[test]
fn a_ring_of_another_shape_than_the_tables_have_is_4() {
    let shop = Shop::new();
    let mut all = String::new();
    for more in ["lanes = 4\n", "partitions = 20\n", "segment = \"2d\"\n"] {
        shop.config(&shop.database.url(), more);
        all.push_str(&shop.refused(&["event", "ls"], 4));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn a_missing_right_is_4_and_the_grant_is_named() {
    let shop = Shop::new();
    let user = User::new(&shop);
    shop.config(&shop.url_of(&user.name), "");
    let mut all = shop.refused(&["event", "ls"], 4);
    shop.sql(&format!("grant usage on schema postroom to {}", user.name));
    all.push_str(&shop.refused(&["event", "ls"], 4));
    shop.sql(&format!("grant select on postroom.meta to {}", user.name));
    all.push_str(&shop.refused(&["store", "stats"], 4));
    shop.config(&shop.url_of(&user.name), "schema = \"other\"\n");
    all.push_str(&shop.refused(&["store", "migrate", "up"], 4));
    insta::assert_snapshot!(all.replace(&user.name, "[USER]"));
}

#[test]
fn the_script_of_roles_is_all_a_user_needs() {
    let shop = Shop::new();
    let user = User::new(&shop);
    // Roles belong to the whole server: under another schema's name they are this test's own.
    let schema = format!("s_{}", shop.database.name());
    let config = |url: &str| shop.config(url, &format!("schema = \"{schema}\"\n"));
    config(&shop.database.url());
    let plan = shop.world.ok(&["store", "migrate", "plan"]);
    shop.sql(&plan);
    let script = shop.world.ok(&["store", "roles"]);
    shop.sql(&script);
    shop.sql(&script);
    shop.sql(&format!("grant {schema}_viewer to {}", user.name));
    config(&shop.url_of(&user.name));
    assert_eq!(shop.world.json(&["store", "stats"])["partitions"].as_array().unwrap().len(), 10);
    shop.sql(&format!("select setval('{schema}.log_seq', 5)"));
    shop.sql(&format!("select {schema}.append('order.placed'); select setval('{schema}.log_seq', 2)"));
    let said = shop.world.run(&["store", "repair", "--yes"]);
    assert_eq!(said.code, 4, "{}", said.stderr);
    assert!(said.stderr.contains("grant postroom_migrate"), "{}", said.stderr);
    shop.sql(&format!("grant {schema}_migrate to {}", user.name));
    shop.world.ok(&["store", "repair", "--yes"]);
    for role in ["append", "relay", "inbox", "viewer", "migrate"] {
        shop.sql(&format!("drop owned by {schema}_{role} cascade; drop role {schema}_{role}"));
    }
}

#[test]
fn a_session_that_may_only_read_is_4() {
    let shop = Shop::new();
    shop.sql(&format!("alter database {} set default_transaction_read_only = on", shop.database.name()));
    insta::assert_snapshot!(shop.refused(&["event", "ls"], 4));
}

#[test]
fn when_no_file_descriptor_is_left_that_is_said_and_how_to_get_more() {
    let shop = Shop::new();
    let mut refused = Vec::new();
    // How many the program needs for itself may change: it runs with more and more until it gets through.
    for limit in 10..64 {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "ulimit -n \"$0\"; exec \"$@\"",
            &limit.to_string(),
            env!("CARGO_BIN_EXE_postroom"),
            "event",
            "ls",
        ]);
        let output = command.current_dir(shop.world.folder()).output().unwrap();
        if output.status.success() {
            break;
        }
        refused.push((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let said = |text: &str| text.contains("no file descriptor is left") && text.contains("ulimit -n");
    assert!(refused.iter().any(|(code, text)| *code == Some(3) && said(text)), "{refused:?}");
}

#[test]
fn a_standby_is_3_and_a_list_of_servers_finds_the_primary() {
    let shop = Shop::bare();
    let (primary, standby) = shop.runtime.block_on(async {
        let primary = Cluster::start(&[]).await;
        let standby = Cluster::standby_of(&primary, &[]).await;
        (primary, standby)
    });
    shop.config(&standby.url("postgres"), "");
    insta::assert_snapshot!(shop.refused(&["store", "migrate", "status"], 3));
    let (standby, primary) = (standby.url("postgres"), primary.url("postgres"));
    shop.world.write("postroom.toml", &format!("[store.main]\nurl = [\"{standby}\", \"{primary}\"]\n"));
    assert_eq!(shop.world.json(&["store", "migrate", "status"])["version"], 0);
}

#[test]
fn a_pooler_that_was_denied_is_4_and_one_that_was_not_is_found() {
    let shop = Shop::new();
    shop.config(&shop.database.pgbouncer_url(), "pooler = \"none\"\n");
    insta::assert_snapshot!(shop.refused(&["store", "stats"], 4));
    for more in ["", "pooler = \"auto\"\n", "pooler = \"transaction\"\n"] {
        shop.config(&shop.database.pgbouncer_url(), more);
        assert_eq!(shop.world.json(&["store", "stats"])["last_number"], 0, "{more}");
    }
}

/// Looking up what `event append` notes must not be needed for the append.
#[test]
fn a_role_that_may_only_append_appends() {
    let shop = Shop::new();
    let user = User::new(&shop);
    let schema = format!("s_{}", shop.database.name());
    let config = |url: &str| shop.config(url, &format!("schema = \"{schema}\"\n"));
    config(&shop.database.url());
    shop.sql(&shop.world.ok(&["store", "migrate", "plan"]));
    shop.sql(&shop.world.ok(&["store", "roles"]));
    shop.sql(&format!("grant {schema}_append to {}", user.name));
    config(&shop.url_of(&user.name));
    let said = shop.world.run(&["event", "append", "--type", "other.thing", "--id", "e-1", "--payload", "1"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, "e-1\n"), "{}", said.stderr);
    assert_eq!(shop.one(&format!("select count(*) from {schema}.log where id = 'e-1'")), "1");
    for role in ["append", "relay", "inbox", "viewer", "migrate"] {
        shop.sql(&format!("drop owned by {schema}_{role}; drop role {schema}_{role}"));
    }
}

/// With the settings of Debian's package, in which nobody has written anything for Postroom.
#[test]
fn every_command_works_through_pgbouncer_as_debian_ships_it() {
    let shop = Shop::new();
    for more in ["", "pooler = \"transaction\"\n"] {
        shop.config(&shop.database.debian_pgbouncer_url(), more);
        shop.world.ok(&["store", "migrate", "up"]);
        shop.world.ok(&["event", "append", "--type", "order.placed", "--payload", "1"]);
        assert_eq!(shop.world.json(&["doctor"]).as_array().map(Vec::is_empty), Some(false));
        assert!(!shop.world.json(&["event", "ls"]).as_array().unwrap().is_empty());
        assert_eq!(shop.world.run(&["verify"]).code, 0);
    }
}

#[test]
fn the_copy_of_another_cluster_is_4_until_somebody_says_that_it_is_the_store_now() {
    let shop = Shop::new();
    let here = shop.one("select value from postroom.meta where name = 'system_identifier'");
    shop.sql("update postroom.meta set value = '17' where name = 'system_identifier'");
    let mut all = shop.refused(&["event", "ls"], 4);
    all.push_str(&shop.refused(&["store", "accept-identity"], 4));
    let said = shop.world.run(&["store", "accept-identity", "--dry-run"]);
    all.push_str(&shop.masked(&said));
    assert_eq!(shop.one("select value from postroom.meta where name = 'system_identifier'"), "17");
    let said = shop.world.run(&["store", "accept-identity", "--yes", "--reason", "restored"]);
    all.push_str(&shop.masked(&said));
    let said = shop.world.run(&["store", "accept-identity"]);
    all.push_str(&shop.masked(&said));
    insta::assert_snapshot!(all.replace(&here, "[HERE]"));
    let audited = "select concat_ws(' ', action, reason) from postroom.audit";
    assert_eq!(shop.one(audited), "store.accept_identity restored");
}

#[test]
fn a_sequence_left_behind_is_repaired_after_a_yes() {
    let shop = Shop::new();
    shop.sql("select postroom.append('order.placed') from generate_series(1, 5); select setval('postroom.log_seq', 2)");
    let mut all = shop.refused(&["store", "repair"], 4);
    for args in [&["store", "repair", "--dry-run"][..], &["store", "repair", "--yes"], &["store", "repair"]] {
        all.push_str(&format!("## {}\n{}\n", args.join(" "), shop.masked(&shop.world.run(args))));
    }
    insta::assert_snapshot!(all);
    assert_eq!(shop.one("select last_value from postroom.log_seq"), "5");
}

#[test]
fn two_relays_that_define_one_route_differently_are_not_served_and_the_second_is_4() {
    let shop = Shop::new();
    let route =
        |wanted: &str| format!("\n[[route]]\nname = \"out\"\nmatch = [\"{wanted}\"]\nto = {{ stdout = {{}} }}\n");
    shop.config(&shop.database.url(), &route("order.*"));
    shop.world.ok(&["store", "migrate", "up"]);
    let mut command = shop.world.command(&["relay", "run"]);
    command.stderr(Stdio::null());
    let mut first = Running::start(command);
    shop.sql("select postroom.append('order.placed', 'order-7')");
    first.wait_for("order.placed");
    shop.config(&shop.database.url(), &route("*"));
    let said = shop.world.run(&["relay", "run"]);
    assert_eq!(said.code, 4, "{}", said.stderr);
    assert!(said.stderr.contains("give both relays the same definition"), "{}", said.stderr);
    first.signal(Signal::SIGTERM);
    assert_eq!(first.end().0, Some(0));
}

#[test]
fn the_page_of_postgresql_works_as_it_says() {
    let shop = Shop::bare();
    let (page, mut commands) = (docs::page("docs/postgres.md"), Commands::of("docs/postgres.md"));
    let port = Servers::find().port("postgres").to_string();
    let name = unique_name("shop");
    let here = |text: &str| {
        let url = format!("postgres://postgres@127.0.0.1:{port}/{name}");
        let text =
            text.replace("postgres://localhost/shop", &url).replace("createdb shop", &format!("createdb {name}"));
        text.replace("psql shop", &format!("psql {name}"))
    };
    shop.world.write("postroom.toml", &here(&docs::blocks(&page, "toml")[0]));
    let run = |command: &str| {
        let program = Path::new(env!("CARGO_BIN_EXE_postroom")).parent().unwrap().display().to_string();
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(shop.world.folder())
            .env("PATH", format!("{program}:{}", std::env::var("PATH").unwrap()))
            .envs([("PGHOST", "127.0.0.1"), ("PGPORT", &port), ("PGUSER", "postgres")])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "$ {command}\n{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let mut printed = String::new();
    let typed = [commands.block(), commands.block(), commands.block()].concat();
    for command in typed.split("$ ").filter(|command| !command.is_empty()) {
        printed.push_str(&run(&here(command)));
    }
    assert!(printed.contains(r#""data":{"total": 4200}"#), "{printed}");
    let sql = here(&docs::blocks(&page, "sql")[0]);
    shop.world.write("append.sql", &format!("create table orders (id text, paid boolean);\n{sql}"));
    run(&format!("psql -v ON_ERROR_STOP=1 {name} -f append.sql"));
    assert!(run("postroom relay run --drain").contains("order.paid"));
    run(&format!("dropdb {name}"));
}

#[test]
fn a_store_on_sqlite_has_no_server_to_look_after() {
    let world = World::new();
    for command in ["roles", "stats", "repair", "accept-identity"] {
        let said = world.run(&["store", command]);
        assert_eq!(said.code, 2, "{}", said.stderr);
        assert!(said.stderr.contains("only a store on PostgreSQL has"), "{}", said.stderr);
    }
}
