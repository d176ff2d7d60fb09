//! The suite that every kind of adopted table passes, on PostgreSQL.
#![allow(clippy::unwrap_used, reason = "a harness fails by panicking")]

use std::sync::Arc;

use postroom_adopted::mapping::{Name, TableName};
use postroom_adopted::{SqlExecutor, Statement};
use postroom_conformance::mappings::{MappingHarness, beside_log};
use postroom_postgres::{Pooler, PostgresExecutor, PostgresOptions, PostgresStore};
use postroom_testbed::{Database, Servers};

struct Harness<const POOLED: bool> {
    executor: Arc<PostgresExecutor>,
    database: Database,
}

impl<const POOLED: bool> MappingHarness for Harness<POOLED> {
    async fn fresh() -> Self {
        let database = Database::create(&Servers::find()).await;
        let (url, pooler) =
            if POOLED { (database.pgbouncer_url(), Pooler::Transaction) } else { (database.url(), Pooler::None) };
        let executor = PostgresExecutor::open(PostgresOptions::new("main", url).pooler(pooler)).await.unwrap();
        Self { executor: Arc::new(executor), database }
    }

    fn executor(&self) -> Arc<dyn SqlExecutor> {
        Arc::clone(&self.executor) as Arc<dyn SqlExecutor>
    }
}

mod direct {
    use super::*;
    postroom_conformance::mapping_suite!(Harness<false>);
    postroom_conformance::mapping_suite!(locks Harness<false>);
    postroom_conformance::mapping_suite!(typed Harness<false>);
    postroom_conformance::mapping_suite!(several Harness<false>);
}

mod through_pgbouncer {
    use super::*;
    postroom_conformance::mapping_suite!(Harness<true>);
    postroom_conformance::mapping_suite!(locks Harness<true>);
    postroom_conformance::mapping_suite!(typed Harness<true>);
    postroom_conformance::mapping_suite!(several Harness<true>; words Words);
}

#[tokio::test]
async fn words_that_the_server_keeps_for_itself_are_quoted_where_people_read_them() {
    let reserved = "select word from pg_get_keywords() where catcode in ('R', 'T')";
    let harness = Harness::<false>::fresh().await;
    for row in harness.executor.look("test", vec![Statement::new(reserved)]).await.unwrap().remove(0) {
        let word = row[0].clone().unwrap();
        assert_eq!(Name::new(word.as_str()).in_sql(), format!("\"{word}\""));
    }
}

/// A statement with parameters is two messages, which a pooler may send to two sessions.
#[tokio::test]
async fn a_table_is_found_behind_a_pooler_however_many_look_at_once() {
    let harness = Harness::<true>::fresh().await;
    harness.executor.script("test", "create table event_outbox (id int primary key)".to_owned()).await.unwrap();
    let table = TableName::parse("event_outbox").unwrap();
    let mut looks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (executor, table) = (Arc::clone(&harness.executor), table.clone());
        looks.spawn(async move {
            for _ in 0..50 {
                assert!(executor.table(&table).await.unwrap().is_some());
            }
        });
    }
    looks.join_all().await;
}

#[tokio::test]
async fn a_native_log_and_an_adopted_table_share_the_operators_tables() {
    for first in beside_log::First::ALL {
        let harness = Harness::<false>::fresh().await;
        let options = PostgresOptions::new("log", harness.database.url());
        let native = PostgresStore::open_unmigrated(options).await.unwrap();
        let executor = harness.executor();
        beside_log::a_native_log_and_an_adopted_table_share_the_operators_tables(&native, executor, first).await;
    }
}
