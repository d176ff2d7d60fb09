//! The shared servers, and what of them belongs to one test.

use std::panic::{AssertUnwindSafe, catch_unwind};

use postroom_testbed::{Database, LOCKED_PASSWORD, Schema, Servers, unique_name};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};

use super::{ask, connect, run};

#[tokio::test]
async fn a_fresh_database_is_the_same_directly_and_through_pgbouncer() {
    let database = Database::create(&Servers::find()).await;
    let mut direct = connect(&database.url()).await;
    run(&mut direct, "create table note (text text)").await;
    run(&mut direct, "insert into note values ('here')").await;
    let mut pooled = connect(&database.pgbouncer_url()).await;
    assert_eq!(ask::<String>(&mut pooled, "select text from note").await, "here");
}

#[tokio::test]
async fn pgbouncer_pools_transactions_over_few_connections() {
    let mut console = connect(&Servers::find().pgbouncer_url("pgbouncer")).await;
    let rows = sqlx::raw_sql("show config").fetch_all(&mut console).await.unwrap();
    let setting = |name: &str| -> String {
        let row = rows.iter().find(|row| row.get::<&str, _>("key") == name);
        row.expect("a setting").get("value")
    };
    assert_eq!((setting("pool_mode").as_str(), setting("default_pool_size").as_str()), ("transaction", "4"));
}

#[tokio::test]
async fn only_the_locked_role_needs_a_password() {
    let servers = Servers::find();
    let refused = PgConnection::connect(&servers.locked_url("postgres", "wrong")).await.unwrap_err();
    assert_eq!(refused.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref(), Some("28P01"));
    let mut let_in = connect(&servers.locked_url("postgres", LOCKED_PASSWORD)).await;
    assert_eq!(ask::<String>(&mut let_in, "select current_user::text").await, "locked");
}

#[tokio::test]
async fn the_shared_postgresql_has_the_settings_tests_rely_on() {
    let mut connection = connect(&Servers::find().postgres_url("postgres")).await;
    for (setting, value) in [("max_connections", "300"), ("max_prepared_transactions", "50")] {
        assert_eq!(ask::<String>(&mut connection, &format!("show {setting}")).await, value, "{setting}");
    }
}

#[tokio::test]
async fn a_database_goes_when_its_test_passes_and_stays_when_it_fails() {
    let servers = Servers::find();
    let mut admin = connect(&servers.postgres_url("postgres")).await;
    let passes = Database::create(&servers).await;
    // Somebody is still connected.
    let _idle = connect(&passes.pgbouncer_url()).await;
    let passed = passes.name().to_owned();
    drop(passes);
    let fails = Database::create(&servers).await;
    let failed = fails.name().to_owned();
    let failure = catch_unwind(AssertUnwindSafe(move || {
        let _fails = fails;
        panic!("a test that fails");
    }));
    assert!(failure.is_err());
    let names = format!("select string_agg(datname, ',') from pg_database where datname in ('{passed}', '{failed}')");
    assert_eq!(ask::<String>(&mut admin, &names).await, failed);
    admin.execute(AssertSqlSafe(format!("drop database {failed}"))).await.unwrap();
}

#[tokio::test]
async fn a_schema_goes_with_all_that_is_in_it() {
    let schema = Schema::choose(&Servers::find());
    let mut connection = connect(&schema.url()).await;
    let name = schema.name().to_owned();
    let make = format!("create schema {name}; create table {name}.message (text text)");
    sqlx::raw_sql(AssertSqlSafe(make)).execute(&mut connection).await.unwrap();
    drop(schema);
    let left = format!("select count(*) from pg_namespace where nspname = '{name}'");
    assert_eq!(ask::<i64>(&mut connection, &left).await, 0);
}

#[test]
fn names_are_never_given_twice() {
    assert_ne!(unique_name("test"), unique_name("test"));
}
