//! Tables of the application's own: its inbox, and states that change only by allowed steps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "as applications begin; nothing here is cancelled")]

use std::sync::Arc;
use std::time::Duration;

use postroom_admin::ManagedStore as _;
use postroom_core::{
    Acceptance, Contract, Event, EventError, Inbox as _, Outbox as _, StateGuard as _, Store as _, StoreErrorKind,
    Transition, Transitions, new_id,
};
use postroom_postgres::{InboxTable, PostgresInbox, PostgresOptions, PostgresStateGuard, PostgresStore, StateTable};
use postroom_testbed::{Database, Servers};
use sqlx::{AssertSqlSafe, Executor as _, PgPool};

const EVENT_INBOX: &str = "create table event_inbox (consumer_name varchar(100) not null, event_id uuid not null, \
     processed_at timestamptz not null default now(), unique (consumer_name, event_id))";
const PROCESSED_EVENTS: &str = "create table processed_events (event_id text, consumer_name text, \
     note text not null default 'x', primary key (event_id, consumer_name))";

struct Shop {
    pool: PgPool,
    _database: Database,
}

impl Shop {
    async fn with(script: &str) -> Self {
        let database = Database::create(&Servers::find()).await;
        let pool = PgPool::connect(&database.url()).await.unwrap();
        pool.execute(AssertSqlSafe(script.to_owned())).await.unwrap();
        Self { pool, _database: database }
    }

    async fn accept(&self, inbox: &PostgresInbox, consumer: &str, id: &str) -> Acceptance {
        let mut tx = self.pool.begin().await.unwrap();
        let acceptance = inbox.accept(&mut tx, consumer, id).await.unwrap();
        tx.commit().await.unwrap();
        acceptance
    }

    async fn one(&self, sql: &str) -> String {
        sqlx::query_scalar(AssertSqlSafe(format!("select ({sql})::text"))).fetch_one(&self.pool).await.unwrap()
    }
}

/// What is said about a table that does not do.
async fn refusal(script: &str, table: InboxTable) -> String {
    let shop = Shop::with(script).await;
    let error = PostgresInbox::open(&shop.pool, &table).await.unwrap_err();
    format!("{error}; {}", error.hint)
}

#[tokio::test]
async fn an_event_inbox_that_was_there_before_accepts_once_per_consumer_in_the_callers_transaction() {
    let shop = Shop::with(EVENT_INBOX).await;
    let inbox = PostgresInbox::open(&shop.pool, &InboxTable::event_inbox()).await.unwrap();
    let id = new_id();
    let mut tx = shop.pool.begin().await.unwrap();
    assert_eq!(inbox.accept(&mut tx, "erp", &id).await.unwrap(), Acceptance::New);
    tx.rollback().await.unwrap();
    assert_eq!(shop.accept(&inbox, "erp", &id).await, Acceptance::New);
    assert_eq!(shop.accept(&inbox, "erp", &id).await, Acceptance::Duplicate);
    assert_eq!(shop.accept(&inbox, "erp", &id.to_uppercase()).await, Acceptance::Duplicate, "a uuid is a number");
    assert_eq!(shop.one("select count(*) from event_inbox where processed_at <= now()").await, "1");
}

#[tokio::test]
async fn processed_events_of_any_name_accept_by_text() {
    let shop = Shop::with(&format!(
        "{PROCESSED_EVENTS}; create schema \"My Shop\"; create table \"My Shop\".\"seen;drop\" \
         (who text, \"what \"\"it\"\" was\" text, at timestamp not null, primary key (who, \"what \"\"it\"\" was\"))"
    ))
    .await;
    let plain = PostgresInbox::open(&shop.pool, &InboxTable::processed_events()).await.unwrap();
    let odd = InboxTable::new("\"My Shop\".\"seen;drop\"").unwrap();
    let odd =
        odd.consumer_column("who").unwrap().id_column("\"what \"\"it\"\" was\"").unwrap().at_column("at").unwrap();
    let odd = PostgresInbox::open(&shop.pool, &odd).await.unwrap();
    for inbox in [&plain, &odd] {
        assert_eq!(shop.accept(inbox, "erp'; --", "01HYABCDEF1234567890QRST").await, Acceptance::New);
        assert_eq!(shop.accept(inbox, "erp'; --", "01HYABCDEF1234567890QRST").await, Acceptance::Duplicate);
        assert_eq!(shop.accept(inbox, "erp'; --", "01hyabcdef1234567890qrst").await, Acceptance::New);
    }
    let utc =
        "select abs(extract(epoch from at at time zone 'utc' - now())) < 60 from \"My Shop\".\"seen;drop\" limit 1";
    assert_eq!(shop.one(utc).await, "true");
}

#[tokio::test]
async fn two_consumers_of_one_table_accept_the_same_event_each_for_itself() {
    let shop = Shop::with(EVENT_INBOX).await;
    let inbox = PostgresInbox::open(&shop.pool, &InboxTable::event_inbox()).await.unwrap();
    let id = new_id();
    for consumer in ["erp", "analytics"] {
        assert_eq!(shop.accept(&inbox, consumer, &id).await, Acceptance::New, "{consumer}");
        assert_eq!(shop.accept(&inbox, consumer, &id).await, Acceptance::Duplicate, "{consumer}");
    }
    let mut tx = shop.pool.begin().await.unwrap();
    let nameless = inbox.accept(&mut tx, "", &id).await.unwrap_err();
    assert_eq!(nameless.kind, StoreErrorKind::Invalid);
}

#[tokio::test]
async fn of_many_that_accept_one_event_at_once_exactly_one_is_new() {
    let shop = Shop::with(EVENT_INBOX).await;
    let inbox = PostgresInbox::open(&shop.pool, &InboxTable::event_inbox()).await.unwrap();
    for _ in 0..10 {
        let id = new_id();
        let (a, b, c, d) = tokio::join!(
            shop.accept(&inbox, "erp", &id),
            shop.accept(&inbox, "erp", &id),
            shop.accept(&inbox, "erp", &id),
            shop.accept(&inbox, "erp", &id)
        );
        assert_eq!([a, b, c, d].iter().filter(|one| one.is_new()).count(), 1);
    }
}

#[tokio::test]
async fn an_id_that_cannot_be_in_the_column_is_refused_without_spoiling_the_transaction() {
    let shop = Shop::with(EVENT_INBOX).await;
    let inbox = PostgresInbox::open(&shop.pool, &InboxTable::event_inbox()).await.unwrap();
    let mut tx = shop.pool.begin().await.unwrap();
    let error = inbox.accept(&mut tx, "erp", "01HYABCDEF1234567890QRST").await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Invalid);
    assert_eq!(
        error.to_string(),
        "the event id \"01HYABCDEF1234567890QRST\" is not a UUID, which column event_id wants"
    );
    assert_eq!(inbox.accept(&mut tx, "erp", &new_id()).await.unwrap(), Acceptance::New);
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn what_is_too_long_for_its_column_is_refused_and_only_an_id_for_good() {
    let shop = Shop::with(
        "create table processed_events (event_id varchar(36), consumer_name char(10), primary key (event_id, consumer_name))",
    )
    .await;
    let inbox = PostgresInbox::open(&shop.pool, &InboxTable::processed_events()).await.unwrap();
    let mut tx = shop.pool.begin().await.unwrap();
    let (fits, long) = ("é".repeat(20) + &"x".repeat(16), "é".repeat(20) + &"x".repeat(17));
    let error = inbox.accept(&mut tx, "erp", &long).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Invalid, "{error}");
    assert_eq!(error.to_string(), format!("the event id {long:?} has 37 characters, column event_id takes 36"));
    // Whatever the event: a consumer that took it for the event's fault would give up every one.
    let error = inbox.accept(&mut tx, "bookkeeping", "e-1").await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::UnexpectedSchema, "{error}");
    assert_eq!(inbox.accept(&mut tx, "erp", &fits).await.unwrap(), Acceptance::New, "neither has spoilt it");
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn what_an_inbox_table_lacks_is_named_when_it_is_opened() {
    let table = |columns: &str| format!("create table event_inbox ({columns})");
    let columns = "consumer_name text, event_id uuid, processed_at timestamptz";
    assert_eq!(
        refusal("select 1", InboxTable::event_inbox()).await,
        "there is no table event_inbox; create it, or write its name with its schema"
    );
    assert_eq!(
        refusal(&table("consumer text, event_id uuid"), InboxTable::event_inbox()).await,
        "table public.event_inbox has no column consumer_name for the consumer; it has consumer, event_id; name the one that is meant"
    );
    assert_eq!(
        refusal(
            &table("consumer_name text, event_id uuid, unique (consumer_name, event_id)"),
            InboxTable::event_inbox()
        )
        .await,
        "table public.event_inbox has no column processed_at for the time of the acceptance; \
         it has consumer_name, event_id; name the one that is meant"
    );
    for constraint in [
        "",
        "; create index on event_inbox (consumer_name, event_id)",
        "; create unique index on event_inbox (consumer_name, event_id) where processed_at is null",
        "; create unique index on event_inbox (consumer_name, event_id, processed_at)",
        "; create unique index on event_inbox (lower(consumer_name), event_id)",
        "; alter table event_inbox add unique (consumer_name, event_id) deferrable",
    ] {
        let said = refusal(&(table(columns) + constraint), InboxTable::event_inbox()).await;
        let expected =
            "(consumer_name, event_id) of public.event_inbox is not unique: every copy of an event would be new";
        assert!(said.starts_with(expected), "{constraint}: {said}");
    }
    let alone = table(columns)
        + "; create unique index on event_inbox (event_id); create unique index on event_inbox (consumer_name, event_id)";
    assert_eq!(
        refusal(&alone, InboxTable::event_inbox()).await,
        "event_id is unique by itself in public.event_inbox: a second consumer could accept nothing; \
         make (consumer_name, event_id) unique instead"
    );
    let unfilled = table(&format!("{columns}, shard int not null, primary key (consumer_name, event_id)"));
    assert_eq!(
        refusal(&unfilled, InboxTable::event_inbox()).await,
        "column shard of public.event_inbox must be given, and nothing says what to write there; \
         give it a default, or allow nulls"
    );
    let number = table("consumer_name text, event_id int, processed_at timestamptz, unique (consumer_name, event_id)");
    assert_eq!(
        refusal(&number, InboxTable::event_inbox()).await,
        "column event_id of public.event_inbox is of type integer; ids are text or uuid"
    );
}

#[tokio::test]
async fn old_acceptances_go_in_bounded_batches_by_the_databases_clock() {
    let shop = Shop::with(EVENT_INBOX).await;
    let inbox = PostgresInbox::open(&shop.pool, &InboxTable::event_inbox()).await.unwrap();
    // A statement that deletes more than a batch is one too many.
    let watch = "create table turns (rows int); create function turn() returns trigger language plpgsql as \
        $$ begin insert into turns select count(*) from gone; return null; end $$; \
        create trigger turn after delete on event_inbox referencing old table as gone for each statement execute function turn()";
    shop.pool.execute(watch).await.unwrap();
    let old = "insert into event_inbox select 'erp', gen_random_uuid(), now() - interval '15 days' from generate_series(1, 2500)";
    shop.pool.execute(old).await.unwrap();
    let kept = new_id();
    assert_eq!(shop.accept(&inbox, "erp", &kept).await, Acceptance::New);
    assert_eq!(inbox.prune(&shop.pool, Duration::from_hours(24 * 14)).await.unwrap(), 2500);
    assert_eq!(shop.one("select string_agg(rows::text, ' ' order by rows) from turns").await, "500 1000 1000");
    assert_eq!(shop.accept(&inbox, "erp", &kept).await, Acceptance::Duplicate);
}

#[tokio::test]
async fn a_table_without_a_time_is_never_pruned_and_says_why() {
    let shop = Shop::with(PROCESSED_EVENTS).await;
    let inbox = PostgresInbox::open(&shop.pool, &InboxTable::processed_events()).await.unwrap();
    let error = inbox.prune(&shop.pool, Duration::ZERO).await.unwrap_err();
    assert_eq!(error.to_string(), "table public.processed_events has no column that says when an event was accepted");
}

fn subscription() -> Transitions {
    Transitions::new("subscription").allow("created", "trialing").allow("created", "active").allow("trialing", "active")
}

const SUBSCRIPTIONS: &str = "create type phase as enum ('created', 'trialing', 'active', 'ended'); \
     create table subscriptions (id uuid primary key, status phase not null); \
     insert into subscriptions values ('0190f3c0-1111-7abc-8def-0123456789ab', 'created')";
const ONE: &str = "0190f3c0-1111-7abc-8def-0123456789ab";

#[tokio::test]
async fn a_step_is_taken_once_then_repeated_and_a_step_back_is_refused() {
    let shop = Shop::with(SUBSCRIPTIONS).await;
    let table = StateTable::new("subscriptions").unwrap();
    let states = PostgresStateGuard::open(&shop.pool, &table, subscription()).await.unwrap();
    let advance = async |to: &str| {
        let mut tx = shop.pool.begin().await.unwrap();
        let step = states.advance(&mut tx, ONE, to).await.unwrap();
        tx.commit().await.unwrap();
        step
    };
    assert_eq!(advance("trialing").await, Transition::Taken);
    assert_eq!(advance("trialing").await, Transition::Repeated);
    assert_eq!(advance("active").await, Transition::Taken);
    let Transition::NotAllowed(back) = advance("trialing").await else { panic!("a step back") };
    assert_eq!(back.to_string(), "subscription may not go from \"active\" to \"trialing\"");
    assert!(matches!(advance("no such state").await, Transition::NotAllowed(_)));
    let mut tx = shop.pool.begin().await.unwrap();
    let Transition::NotAllowed(none) = states.advance(&mut tx, &new_id(), "active").await.unwrap() else {
        panic!("not there")
    };
    assert_eq!(none.from, None);
    assert_eq!(states.advance(&mut tx, "7", "active").await.unwrap_err().kind, StoreErrorKind::Invalid);
    assert_eq!(shop.one("select status from subscriptions").await, "active");
}

#[tokio::test]
async fn of_many_that_take_one_step_at_once_exactly_one_does() {
    let shop = Shop::with(SUBSCRIPTIONS).await;
    let states =
        PostgresStateGuard::open(&shop.pool, &StateTable::new("subscriptions").unwrap(), subscription()).await.unwrap();
    let advance = async || {
        let mut tx = shop.pool.begin().await.unwrap();
        let step = states.advance(&mut tx, ONE, "trialing").await.unwrap();
        tx.commit().await.unwrap();
        step
    };
    let (a, b, c, d) = tokio::join!(advance(), advance(), advance(), advance());
    let taken = [a, b, c, d].iter().filter(|step| **step == Transition::Taken).count();
    assert_eq!(taken, 1);
}

#[tokio::test]
async fn a_key_that_is_not_unique_guards_nothing_and_is_refused() {
    let shop = Shop::with("create table orders (id text, status text)").await;
    let error =
        PostgresStateGuard::open(&shop.pool, &StateTable::new("orders").unwrap(), subscription()).await.unwrap_err();
    assert_eq!(error.to_string(), "id of public.orders is not unique: one step would change several rows");
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
    let database = Database::create(&Servers::find()).await;
    let options = PostgresOptions::new("main", database.url()).contract(Arc::new(NoRefunds));
    let empty = PostgresStore::open_unmigrated(options.clone()).await.unwrap();
    empty.schema().unwrap().up().await.unwrap();
    let store = PostgresStore::open(options).await.unwrap();
    let (sale, refund) = (Event::new("sale"), Event::new("refund"));
    let mut tx = store.begin().await.unwrap();
    let error = store.append(&mut tx, &refund).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Invalid);
    assert_eq!(error.to_string(), "event of type \"refund\" breaks its contract: /total: minimum");
    assert!(store.append_many(&mut tx, &[sale.clone(), refund.clone()]).await.is_err());
    assert!(store.append_once(&mut tx, "word", &refund).await.is_err());
    assert!(store.statement(&refund).is_err(), "for every other client");
    drop(store.append(&mut tx, &sale).await.expect("the transaction is not spoilt"));
    tx.commit().await.unwrap();
    assert!(store.admin().append(&[sale, refund]).await.is_err());
    let there: i64 = sqlx::query_scalar("select count(*) from postroom.log").fetch_one(store.pool()).await.unwrap();
    assert_eq!(there, 1);
}
