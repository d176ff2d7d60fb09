//! Users of a PostgreSQL database who may do little, and do it on purpose.

#![allow(clippy::unwrap_used, reason = "what cannot be run fails the test")]

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::postgres::Shop;

/// What the server says to a statement that it refuses.
fn refused(shop: &Shop, statement: &str) -> String {
    let done = shop.runtime.block_on(async {
        let mut connection = PgConnection::connect(&shop.database.url()).await.unwrap();
        connection.execute(AssertSqlSafe(statement)).await
    });
    done.unwrap_err().to_string()
}

#[test]
fn the_functions_refuse_what_is_over_the_limits() {
    let shop = Shop::new();
    let large = "json_build_object('x', repeat('A', 2000000))";
    for statement in [
        format!("select postroom.append('a', 'k', {large})"),
        format!("select postroom.append_ordered('a', 'k', {large})"),
        format!("select postroom.append_once('once', 'a', 'k', {large})"),
        format!("select postroom.append_many(json_build_array(json_build_object('type', 'a', 'payload', {large})))"),
    ] {
        let said = refused(&shop, &statement);
        assert!(said.contains("event payload is 2000010 bytes, the limit is 1048576"), "{statement}: {said}");
    }
    let said = refused(&shop, "select postroom.append_bytes('a', 'k', repeat('A', 2000000)::bytea, 'text/plain')");
    assert!(said.contains("event payload is 2000000 bytes, the limit is 1048576"), "{said}");
    let said =
        refused(&shop, "select postroom.append('a', 'k', headers => jsonb_build_object('x', repeat('A', 100000)))");
    assert!(said.contains("event headers and attributes are 100001 bytes, the limit is 65536"), "{said}");
    // The control: what is within them gets in.
    shop.sql("select postroom.append('a', 'k', json_build_object('x', repeat('A', 1000000)))");
    shop.sql("select postroom.append('a', 'k', headers => jsonb_build_object('x', repeat('A', 60000)))");
    assert_eq!(shop.one("select count(*) from postroom.log"), "2");
}

#[test]
fn a_changed_limit_is_the_functions_limit_after_a_migration() {
    let shop = Shop::new();
    shop.config(&shop.database.url(), "[limits]\npayload = \"1kB\"\n");
    shop.world.ok(&["store", "migrate", "up"]);
    let said = refused(&shop, "select postroom.append_bytes('a', 'k', repeat('A', 40000)::bytea, 'text/plain')");
    assert!(said.contains("event payload is 40000 bytes, the limit is 1000"), "{said}");
}

#[test]
fn a_lock_that_anybody_may_take_does_not_stop_a_prune() {
    let shop = Shop::new();
    shop.sql("insert into postroom.inbox values ('mailer', 'e-1', now() - interval '30 days')");
    shop.runtime.block_on(async {
        let mut nobody = PgConnection::connect(&shop.database.url()).await.unwrap();
        let take = "select pg_advisory_lock(hashtextextended('postroom prune ' || s, 0)) from unnest(array['postroom', '\"postroom\"']) s";
        nobody.execute(take).await.unwrap();
        shop.world.ok(&["prune", "--yes"]);
    });
    assert_eq!(shop.one("select count(*) from postroom.inbox"), "0");
}
