//! Tables of the application's own on SQLite: its inbox, and states that change only by allowed steps.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use postroom_admin::ManagedStore as _;
use postroom_core::{
    Acceptance, Contract, Event, EventError, Inbox as _, Outbox as _, StateGuard as _, StoreErrorKind, Transition,
    Transitions, new_id,
};
use postroom_sqlite::{InboxTable, SqliteInbox, SqliteOptions, SqliteStateGuard, SqliteStore, StateTable};
use sqlx::{AssertSqlSafe, Executor as _};

const EVENT_INBOX: &str = "create table event_inbox (consumer_name text not null, event_id uuid not null, \
     processed_at datetime not null, primary key (consumer_name, event_id)) without rowid";
const PROCESSED_EVENTS: &str = "create table processed_events (n integer primary key, event_id text, consumer_name varchar(40), unique (event_id, consumer_name))";

struct Shop {
    store: SqliteStore,
    _folder: tempfile::TempDir,
}

impl Shop {
    async fn with(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::create(folder.path().join("shop.db")).await.unwrap();
        store.pool().execute(sqlx::raw_sql(AssertSqlSafe(script.to_owned()))).await.unwrap();
        Self { store, _folder: folder }
    }

    async fn accept(&self, inbox: &SqliteInbox, consumer: &str, id: &str) -> Acceptance {
        let mut tx = self.store.begin().await.unwrap();
        let acceptance = inbox.accept(&mut tx, consumer, id).await.unwrap();
        tx.commit().await.unwrap();
        acceptance
    }
}

#[tokio::test]
async fn inbox_tables_that_were_there_before_accept_once_per_consumer() {
    let shop = Shop::with(&format!("{EVENT_INBOX}; {PROCESSED_EVENTS}")).await;
    for table in [InboxTable::event_inbox(), InboxTable::processed_events()] {
        let inbox = SqliteInbox::open(shop.store.pool(), &table).await.unwrap();
        let id = new_id();
        let mut tx = shop.store.begin().await.unwrap();
        assert_eq!(inbox.accept(&mut tx, "erp", &id).await.unwrap(), Acceptance::New);
        tx.rollback().await.unwrap();
        for consumer in ["erp", "analytics"] {
            assert_eq!(shop.accept(&inbox, consumer, &id).await, Acceptance::New);
            assert_eq!(shop.accept(&inbox, consumer, &id).await, Acceptance::Duplicate);
        }
    }
    let at: String =
        sqlx::query_scalar("select processed_at from event_inbox").fetch_one(shop.store.pool()).await.unwrap();
    assert!(at.ends_with('Z') && at.contains('T'), "{at}");
}

#[tokio::test]
async fn what_an_inbox_table_lacks_is_named_when_it_is_opened() {
    let refusal = async |script: &str| {
        let shop = Shop::with(script).await;
        SqliteInbox::open(shop.store.pool(), &InboxTable::processed_events()).await.unwrap_err().to_string()
    };
    let not_unique = "(consumer_name, event_id) of processed_events is not unique: every copy of an event would be new";
    let table = |rest: &str| format!("create table processed_events (event_id text, consumer_name text{rest})");
    assert_eq!(refusal("select 1").await, "there is no table processed_events");
    assert_eq!(
        refusal("create table processed_events (event_id text)").await,
        "table processed_events has no column consumer_name for the consumer"
    );
    assert_eq!(refusal(&table("")).await, not_unique);
    let nocase = "; create unique index u on processed_events (event_id collate nocase, consumer_name)";
    assert_eq!(refusal(&(table("") + nocase)).await, not_unique);
    let partial = "; create unique index u on processed_events (event_id, consumer_name) where event_id > 'a'";
    assert_eq!(refusal(&(table("") + partial)).await, not_unique);
    assert_eq!(
        refusal(&table(", unique (event_id), unique (event_id, consumer_name)")).await,
        "event_id is unique by itself in processed_events: a second consumer could accept nothing"
    );
    let number =
        "create table processed_events (event_id integer, consumer_name text, unique (event_id, consumer_name))";
    assert_eq!(refusal(number).await, "column event_id of processed_events is of type INTEGER");
}

#[tokio::test]
async fn old_acceptances_go_and_younger_ones_stay() {
    let shop = Shop::with(EVENT_INBOX).await;
    let inbox = SqliteInbox::open(shop.store.pool(), &InboxTable::event_inbox()).await.unwrap();
    let old = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 2500) \
        insert into event_inbox select 'erp', printf('%036d', i), '2020-01-01T00:00:00.000000Z' from n";
    shop.store.pool().execute(old).await.unwrap();
    let kept = new_id();
    assert_eq!(shop.accept(&inbox, "erp", &kept).await, Acceptance::New);
    assert_eq!(inbox.prune(shop.store.pool(), Duration::from_hours(24)).await.unwrap(), 2500);
    assert_eq!(shop.accept(&inbox, "erp", &kept).await, Acceptance::Duplicate);
}

#[tokio::test]
async fn a_step_is_taken_once_then_repeated_and_a_step_back_is_refused() {
    let shop = Shop::with(
        "create table orders (number integer primary key, state text not null); insert into orders values (7, 'placed')",
    )
    .await;
    let table = StateTable::new("orders").unwrap().key_column("number").unwrap().state_column("state").unwrap();
    let order = Transitions::new("order").allow("placed", "paid").allow("paid", "shipped");
    let states = SqliteStateGuard::open(shop.store.pool(), &table, order).await.unwrap();
    let advance = async |key: &str, to: &str| {
        let mut tx = shop.store.begin().await.unwrap();
        let step = states.advance(&mut tx, key, to).await;
        tx.commit().await.unwrap();
        step
    };
    assert_eq!(advance("7", "paid").await.unwrap(), Transition::Taken);
    assert_eq!(advance("7", "paid").await.unwrap(), Transition::Repeated);
    assert_eq!(advance("7", "shipped").await.unwrap(), Transition::Taken);
    assert!(matches!(advance("7", "paid").await.unwrap(), Transition::NotAllowed(_)));
    assert!(matches!(advance("8", "paid").await.unwrap(), Transition::NotAllowed(refusal) if refusal.from.is_none()));
    assert_eq!(advance("seven", "paid").await.unwrap_err().kind, StoreErrorKind::Invalid);
}

/// Says no to one type.
#[derive(Debug)]
struct NoRefunds;

impl Contract for NoRefunds {
    fn check(&self, event: &Event) -> Result<(), EventError> {
        if event.event_type == "refund" {
            let breaches = "/total: minimum".to_owned();
            return Err(EventError::Contract { event_type: event.event_type.clone(), breaches });
        }
        Ok(())
    }
}

#[tokio::test]
async fn an_event_that_breaks_its_contract_is_not_appended_by_anybody() {
    let shop = Shop::with("select 1").await;
    let path = shop.store.pool().connect_options().get_filename().to_owned();
    let options = SqliteOptions::new("main", path.to_str().unwrap()).contract(Arc::new(NoRefunds));
    let store = SqliteStore::open(options).await.unwrap();
    let (sale, refund) = (Event::new("sale"), Event::new("refund"));
    let mut tx = store.begin().await.unwrap();
    let error = store.append(&mut tx, &refund).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Invalid);
    assert_eq!(error.to_string(), "event of type \"refund\" breaks its contract: /total: minimum");
    assert!(store.append_many(&mut tx, &[sale.clone(), refund.clone()]).await.is_err());
    assert!(store.append_once(&mut tx, "word", &refund).await.is_err());
    tx.commit().await.unwrap();
    assert!(store.admin().append(&[sale.clone(), refund]).await.is_err());
    let there = async || -> i64 {
        sqlx::query_scalar("select count(*) from postroom_log").fetch_one(store.pool()).await.unwrap()
    };
    assert_eq!(there().await, 0);
    assert_eq!(store.admin().append(&[sale]).await.unwrap().len(), 1);
    assert_eq!(there().await, 1);
}
