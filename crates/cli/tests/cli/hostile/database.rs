//! Users of a PostgreSQL database who may do little, and do it on purpose.

#![allow(clippy::unwrap_used, reason = "what cannot be run fails the test")]

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::postgres::{Shop, User};

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

/// What a statement of this user says, or how it is refused.
fn tried(shop: &Shop, user: &User<'_>, statement: &str) -> Result<(), String> {
    shop.runtime.block_on(async {
        let mut connection = PgConnection::connect(&shop.url_of(&user.name)).await.unwrap();
        let done = connection.execute(AssertSqlSafe(statement)).await;
        done.map(drop)
            .map_err(|error| error.as_database_error().and_then(|e| e.code()).unwrap_or_default().into_owned())
    })
}

/// H-149: one row with a number far ahead, and every route of the store halts.
#[test]
fn a_producer_says_what_happened_and_nothing_of_where_it_stands() {
    let shop = Shop::bare();
    let user = User::new(&shop);
    let schema = format!("s_{}", shop.database.name());
    let route = "[[route]]\nname = \"mailer\"\nto = { exec = { command = [\"sh\", \"mailer.sh\"] } }\n";
    let config = |url: &str| shop.config(url, &format!("schema = \"{schema}\"\n{route}"));
    config(&shop.database.url());
    shop.sql(&shop.world.ok(&["store", "migrate", "plan"]));
    shop.sql(&shop.world.ok(&["store", "roles"]));
    shop.world.ok(&["store", "migrate", "up"]);
    shop.sql(&format!("grant {schema}_append to {}", user.name));
    let columns = "(partition, lane, tx, seq, occurred_at, id, type, key, payload)";
    for forged in [
        format!("insert into {schema}.log {columns} values (0, 0, 1, 9000000000000000000, now(), 'x', 't', 'k', '1')"),
        format!(
            "insert into {schema}.log_0 {columns} values (0, 0, 1, 9000000000000000000, now(), 'x', 't', 'k', '1')"
        ),
        format!("insert into {schema}.evacuated {columns} values (0, 0, 1, 1, now(), 'x', 't', 'k', '1')"),
        format!("select nextval('{schema}.log_seq')"),
        format!("select setval('{schema}.log_seq', 1)"),
        format!("update {schema}.log set seq = seq + 1000000"),
        format!("insert into {schema}.append_key values ('request-1')"),
    ] {
        assert_eq!(tried(&shop, &user, &forged), Err("42501".to_owned()), "{forged}");
    }
    let rows = |payload: &str| {
        let no = "array[null]";
        format!(
            "select {schema}.append_rows(array['e-1'], array['order.placed'], array['k'], {no}, {no}, {no}, {no}, {no}, {no}, {no}, {no}, \
             array[1], {no}, {no}, array[{payload}]::bytea[])"
        )
    };
    assert_eq!(tried(&shop, &user, &rows("'1'")), Ok(()));
    assert_eq!(tried(&shop, &user, &rows("convert_to(repeat('A', 2000000), 'UTF8')")), Err("54000".to_owned()));
    config(&shop.url_of(&user.name));
    shop.world.ok(&["event", "append", "--type", "order.placed", "--key", "k", "--payload", "1"]);
    config(&shop.database.url());
    shop.world.ok(&["relay", "run", "--drain"]);
    assert_eq!(shop.world.json(&["status"])["routes"][0]["delivered"], 2);
    assert_eq!(shop.world.run(&["verify"]).code, 0);
    for role in ["append", "relay", "inbox", "viewer", "migrate"] {
        shop.sql(&format!("drop owned by {schema}_{role} cascade; drop role {schema}_{role}"));
    }
}

/// H-150: everybody may take an advisory lock, and can see in `pg_locks` which ones others take.
#[test]
fn a_lock_that_anybody_may_take_delays_no_append() {
    let shop = Shop::new();
    let nobody = User::new(&shop);
    assert_eq!(tried(&shop, &nobody, "select from postroom.append_lock for update"), Err("42501".to_owned()));
    assert_eq!(
        tried(&shop, &nobody, "begin; lock table postroom.append_lock in access share mode"),
        Err("42501".to_owned())
    );
    let in_time = |statement: &str| shop.sql(&format!("set lock_timeout = '10s'; {statement}"));
    shop.runtime.block_on(async {
        let mut hostile = PgConnection::connect(&shop.url_of(&nobody.name)).await.unwrap();
        let keys = "select pg_advisory_lock(hashtextextended('k', seed)) from unnest(array[0, 7077]) as seed";
        hostile.execute(keys).await.unwrap();
        let mut producer = PgConnection::connect(&shop.database.url()).await.unwrap();
        producer.execute("set lock_timeout = '10s'; select postroom.append_ordered('t', 'k')").await.unwrap();
        // Another append to the key is still waited for, and no other key is.
        producer.execute("begin; select postroom.append_ordered('t', 'k')").await.unwrap();
        let mut second = PgConnection::connect(&shop.database.url()).await.unwrap();
        let waits = second.execute("set lock_timeout = '300ms'; select postroom.append_ordered('t', 'k')").await;
        let code = waits.unwrap_err().as_database_error().and_then(|error| error.code()).unwrap().into_owned();
        assert_eq!(code, "55P03");
        second.execute("select postroom.append_ordered('t', 'another')").await.unwrap();
        producer.execute("rollback").await.unwrap();
    });
    in_time("select postroom.append_ordered('t', 'k')");
    assert_eq!(shop.one("select count(*) from postroom.log"), "3");
}

/// H-152: rows that the relay's role does not see are sent by nobody; that is said, not found out.
#[test]
fn rows_that_row_level_security_hides_from_the_relay_are_told_of() {
    let shop = Shop::bare();
    let user = User::new(&shop);
    shop.sql(
        "create table event_outbox (id text primary key, event_type text not null, payload jsonb not null, status text not null \
         default 'pending', attempts int not null default 0, created_at timestamptz not null default now(), sent_at timestamptz);
         insert into event_outbox (id, event_type, payload) values ('mine', 'order.placed', '1'), ('hidden', 'order.placed', '1')",
    );
    shop.config(&shop.database.url(), crate::adopted::MAPPING);
    shop.world.ok(&["store", "migrate", "up"]);
    shop.sql(&format!(
        "alter table event_outbox enable row level security;
         create policy visible on event_outbox using (id = 'mine');
         grant select, update on event_outbox to {0};
         grant usage on schema postroom to {0};
         grant all on all tables in schema postroom to {0};
         grant all on all sequences in schema postroom to {0};
         grant execute on all functions in schema postroom to {0}",
        user.name
    ));
    shop.config(&shop.url_of(&user.name), crate::adopted::MAPPING);
    let said = shop.world.run(&["doctor", "-o", "json"]);
    assert!(said.stdout.contains("doctor.rows_hidden"), "{} {}", said.stdout, said.stderr);
    let said = shop.world.run(&["relay", "run", "--drain"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(
        shop.one("select string_agg(id || ' ' || status, ', ' order by id) from event_outbox"),
        "hidden pending, mine sent"
    );
}
