//! The suite that every kind of adopted table passes, on PostgreSQL.
#![allow(clippy::unwrap_used, reason = "a harness fails by panicking")]

use std::sync::Arc;

use postroom_adopted::layout::{Name, TableName};
use postroom_adopted::{Ground, Statement};
use postroom_conformance::layouts::GroundHarness;
use postroom_conformance::servers::{Database, Servers};
use postroom_postgres::{Pooler, PostgresGround, PostgresOptions};

struct Harness<const POOLED: bool> {
    ground: Arc<PostgresGround>,
    _database: Database,
}

impl<const POOLED: bool> GroundHarness for Harness<POOLED> {
    async fn fresh() -> Self {
        let database = Database::create(&Servers::find()).await;
        let (url, pooler) =
            if POOLED { (database.pgbouncer_url(), Pooler::Transaction) } else { (database.url(), Pooler::None) };
        let ground = PostgresGround::open(PostgresOptions::new("main", url).pooler(pooler)).await.unwrap();
        Self { ground: Arc::new(ground), _database: database }
    }

    fn ground(&self) -> Arc<dyn Ground> {
        Arc::clone(&self.ground) as Arc<dyn Ground>
    }
}

mod direct {
    use super::*;
    postroom_conformance::layout_suite!(Harness<false>);
    postroom_conformance::layout_suite!(locks Harness<false>);
    postroom_conformance::layout_suite!(typed Harness<false>);
}

mod through_pgbouncer {
    use super::*;
    postroom_conformance::layout_suite!(Harness<true>);
    postroom_conformance::layout_suite!(locks Harness<true>);
    postroom_conformance::layout_suite!(typed Harness<true>);
}

#[tokio::test]
async fn words_that_the_server_keeps_for_itself_are_quoted_where_people_read_them() {
    let reserved = "select word from pg_get_keywords() where catcode in ('R', 'T')";
    let harness = Harness::<false>::fresh().await;
    for row in harness.ground.look("test", vec![Statement::new(reserved)]).await.unwrap().remove(0) {
        let word = row[0].clone().unwrap();
        assert_eq!(Name::new(word.as_str()).in_sql(), format!("\"{word}\""));
    }
}

/// A statement with parameters is two messages, which a pooler may send to two sessions.
#[tokio::test]
async fn a_table_is_found_behind_a_pooler_however_many_look_at_once() {
    let harness = Harness::<true>::fresh().await;
    harness.ground.script("test", "create table event_outbox (id int primary key)".to_owned()).await.unwrap();
    let table = TableName::parse("event_outbox").unwrap();
    let mut looks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (ground, table) = (Arc::clone(&harness.ground), table.clone());
        looks.spawn(async move {
            for _ in 0..50 {
                assert!(ground.table(&table).await.unwrap().is_some());
            }
        });
    }
    looks.join_all().await;
}
