//! An adopted table beside a native log in the same database: the operators' tables are there once.

use std::sync::Arc;

use postroom_admin::{ManagedStore, NewToken, Role, Scope};
use postroom_adopted::SqlExecutor;
use postroom_core::{Actor, RouteSpec, Store as _};

use super::bench::{delivered, identity};
use super::{Bench, Sample};

/// Which of the two makes its tables first.
#[derive(Debug, Clone, Copy)]
pub enum First {
    Log,
    Adopted,
    /// Both at the same time.
    Neither,
}

impl First {
    pub const ALL: [Self; 3] = [Self::Log, Self::Adopted, Self::Neither];
}

/// Runs the case on a database with neither of them; `native` is a store whose tables are not there yet.
pub async fn a_native_log_and_an_adopted_table_share_the_operators_tables(
    native: &dyn ManagedStore,
    executor: Arc<dyn SqlExecutor>,
    first: First,
) {
    let schema = native.schema().unwrap();
    let adopt = Bench::open(Sample::Words, executor);
    let (bench, up) = match first {
        First::Log => {
            let up = schema.up().await;
            (adopt.await, up)
        }
        First::Adopted => (adopt.await, schema.up().await),
        First::Neither => tokio::join!(adopt, schema.up()),
    };
    up.unwrap();
    let (log, table) = (native.admin(), &bench.admin);
    let actor = |name: &str| Actor { name: name.to_owned(), reason: None };
    let token = NewToken {
        name: "ann".to_owned(),
        hash: "0a".to_owned(),
        role: Role::Viewer,
        expires_at: None,
        scope: Scope::default(),
    };
    log.add_token(&token, &actor("log")).await.unwrap();
    let names = |tokens: Vec<postroom_admin::TokenRow>| tokens.into_iter().map(|token| token.name).collect::<Vec<_>>();
    assert_eq!(names(table.tokens().await.unwrap()), ["ann"], "a token is for everything in the database");

    // One route of this name in either of them; one relay, with one boot, serves both.
    let route = RouteSpec::new("orders");
    log.register(std::slice::from_ref(&route)).await.unwrap();
    let in_log = native.source(&identity("r1"), &route).await.unwrap();
    let worker = bench.worker("r1").await;
    for relays in [log.relays().await.unwrap(), table.relays().await.unwrap()] {
        assert_eq!(relays.len(), 1, "each sees its own heartbeat: {relays:?}");
    }
    bench.insert(2, Some("a")).await;
    let taken = worker.take_all().await;
    worker.settle(taken.iter().map(|delivery| (delivery, delivered()))).await;
    let counted = async |admin: &dyn postroom_admin::Admin| {
        let minutes = admin.throughput(None, postroom_core::Timestamp::UNIX_EPOCH).await.unwrap();
        minutes.iter().map(|minute| minute.delivered).sum::<u64>()
    };
    assert_eq!((counted(&*log).await, counted(&**table).await), (0, 2));
    log.pause("orders", &actor("log")).await.unwrap();
    table.pause("orders", &actor("table")).await.unwrap();
    let who = async |admin: &dyn postroom_admin::Admin| {
        let entries = admin.audit(None, 10).await.unwrap();
        entries.into_iter().map(|entry| format!("{} {}", entry.actor, entry.action)).collect::<Vec<_>>()
    };
    assert_eq!(who(&*log).await, ["log route.pause", "log token.create"]);
    assert_eq!(who(&**table).await, ["table route.pause"]);
    drop((worker, in_log));

    // Whoever goes first leaves the other its tables.
    let beside = bench.store.schema().unwrap();
    while !beside.down().await.unwrap().is_empty() {}
    assert_eq!(names(log.tokens().await.unwrap()), ["ann"]);
    beside.up().await.unwrap();
    while !schema.down().await.unwrap().is_empty() {}
    assert_eq!(names(table.tokens().await.unwrap()), ["ann"]);
    assert_eq!(who(&**table).await, ["table route.pause"]);
    while !beside.down().await.unwrap().is_empty() {}
    schema.up().await.unwrap();
    assert!(log.tokens().await.unwrap().is_empty(), "the last one took them along");
}
