//! Two databases in one relay: one that cannot be used does not hold up the other.

use std::time::Duration;

use postroom::sqlite::{SqliteOptions, SqliteStore};
use postroom_e2e::{Server, World, until, within};

/// Stores `near` and `far`, each with a route of its own; only `near` is migrated.
fn world() -> World {
    let world = World::new(env!("CARGO_BIN_EXE_e2e-child"));
    world.configure(
        "[store.near]\nurl = \"sqlite://near.db\"\n[store.far]\nurl = \"sqlite://far.db\"\n\
         [[route]]\nname = \"here\"\nstore = \"near\"\nto = { exec = { command = {child} } }\n\
         [[route]]\nname = \"there\"\nstore = \"far\"\nto = { exec = { command = {child} } }\n",
    );
    world.ok(&["store", "migrate", "up", "--store", "near"]);
    world
}

fn append(world: &World, store: &str) {
    world.ok(&["event", "append", "--store", store, "--type", "t", "--key", "k"]);
}

#[test]
fn a_store_that_is_not_there_is_shown_down_while_the_other_goes_on_and_is_served_when_it_comes() {
    let world = world();
    let relay = world.relay("relay");
    append(&world, "near");
    until("the store that is there is served", || world.route("here")["delivered"] == 1);
    let (here, there) = (world.route("here"), world.route("there"));
    assert_eq!((&here["state"], &there["state"]), (&"running".into(), &"down".into()));
    assert_eq!(there["message"], "far.db does not exist");
    let verified = world.run(&["verify"]);
    assert_eq!(verified.code, 5, "only a part could be counted: {}", verified.stderr);

    world.ok(&["store", "migrate", "up", "--store", "far"]);
    append(&world, "far");
    until("the store that came later is served", || world.route("there")["delivered"] == 1);
    assert_eq!(world.run(&["verify"]).code, 0);
    relay.stop();
}

#[test]
fn a_store_whose_file_is_replaced_by_something_else_is_shown_down_while_the_other_goes_on() {
    let world = world();
    world.ok(&["store", "migrate", "up", "--store", "far"]);
    let mut relay = world.relay("relay");
    append(&world, "near");
    append(&world, "far");
    until("both are served", || ["here", "there"].iter().all(|route| world.route(route)["delivered"] == 1));

    for old in ["far.db-wal", "far.db-shm"] {
        std::fs::remove_file(world.path(old)).unwrap();
    }
    world.write("far.db", &"this is no database\n".repeat(1000));
    let there = world.route("there");
    assert_eq!((&there["state"], &there["message"]), (&"down".into(), &"far.db is not a SQLite database".into()));
    append(&world, "near");
    until("the other goes on", || world.route("here")["delivered"] == 2);
    assert_eq!(world.route("here")["state"], "running");
    assert!(relay.is_alive());
}

#[test]
fn a_store_locked_by_a_writer_that_does_not_end_holds_up_only_itself() {
    let world = world();
    world.ok(&["store", "migrate", "up", "--store", "far"]);
    let relay = world.relay("relay");
    append(&world, "near");
    append(&world, "far");
    until("both are served", || ["here", "there"].iter().all(|route| world.route(route)["delivered"] == 1));

    append(&world, "far");
    until("the next of the far one is there too", || world.route("there")["delivered"] == 2);
    let writer = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lock = writer.block_on(async {
        let options = SqliteOptions::new("far", world.path("far.db").to_str().unwrap());
        SqliteStore::open(options).await.unwrap().begin().await.unwrap()
    });
    for delivered in 2..10 {
        append(&world, "near");
        let arrived = || (world.route("here")["delivered"] == delivered).then_some(());
        within(Duration::from_secs(5), "the near store is served as if nothing were", arrived);
    }
    writer.block_on(lock.rollback()).unwrap();
    append(&world, "far");
    until("the far one goes on", || world.route("there")["delivered"] == 3);
    relay.stop();
    assert_eq!(world.run(&["verify"]).code, 0);
}

#[test]
fn a_postgresql_that_is_stopped_holds_up_only_itself_and_its_backlog_arrives_when_it_is_back() {
    const BACKLOG: usize = 200;
    let (orders, billing) = (Server::start(), Server::start());
    let world = World::new(env!("CARGO_BIN_EXE_e2e-child"));
    world.configure(&format!(
        "[store.orders]\nurl = \"{}\"\n[store.billing]\nurl = \"{}\"\n[relay]\nlease = \"2s\"\n\
         [[route]]\nname = \"shipping\"\nstore = \"orders\"\nto = {{ exec = {{ command = {{child}} }} }}\n\
         [[route]]\nname = \"ledger\"\nstore = \"billing\"\nto = {{ exec = {{ command = {{child}} }} }}\n",
        orders.url(),
        billing.url()
    ));
    for store in ["orders", "billing"] {
        world.ok(&["store", "migrate", "up", "--store", store]);
    }
    let mut relay = world.relay("relay");
    append(&world, "orders");
    append(&world, "billing");
    until("both are served", || ["shipping", "ledger"].iter().all(|route| world.route(route)["delivered"] == 1));

    // The child has the first of them and says nothing; the rest waits in the database.
    world.mode("hold");
    let line = |n: usize| format!("{{\"type\":\"t\",\"key\":\"k-{n}\"}}\n");
    let lines: String = (0..BACKLOG).map(line).collect();
    assert_eq!(world.feed(&["event", "append", "-", "--store", "billing"], &lines).code, 0);
    world.received(3);
    billing.stop();
    world.mode("");
    for delivered in 2..10 {
        append(&world, "orders");
        let arrived = || (world.route("shipping")["delivered"] == delivered).then_some(());
        within(Duration::from_secs(5), "the other store is served as if nothing were", arrived);
    }
    assert_eq!(
        (&world.route("shipping")["state"], &world.route("ledger")["state"]),
        (&"running".into(), &"down".into())
    );

    billing.start_again();
    append(&world, "billing");
    until("the backlog arrives, and what came after", || world.route("ledger")["delivered"] == BACKLOG + 2);
    assert!(relay.is_alive());
    relay.stop();
    assert_eq!(world.run(&["verify"]).code, 0);
}
