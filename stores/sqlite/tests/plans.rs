//! The statements a relay runs all day use the indexes they say they use.
#![allow(clippy::unwrap_used, reason = "helpers are part of the tests")]

use sqlx::Row;

use crate::common::*;

async fn plan(shop: &Shop, sql: &str) -> String {
    // Comments stand in front of the statement; `explain` goes between.
    let statement: String = sql.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
    let explain = sqlx::AssertSqlSafe(format!("explain query plan {statement}"));
    let rows = sqlx::query(explain).fetch_all(shop.store.pool()).await.unwrap();
    rows.iter().map(|row| row.try_get::<String, _>("detail").unwrap()).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn no_statement_of_a_relay_scans_a_table() {
    let shop = Shop::open().await;
    for (name, sql, index) in [
        ("due", include_str!("../src/sql/due.sql"), "postroom_delivery_due"),
        ("heads_after", include_str!("../src/sql/heads_after.sql"), "postroom_delivery_key"),
        ("heads_of", include_str!("../src/sql/heads_of.sql"), "postroom_delivery_key"),
        ("release", include_str!("../src/sql/release.sql"), "postroom_delivery_key"),
        ("block_again", include_str!("../src/sql/block_again.sql"), "postroom_delivery_key"),
        ("park_returned", include_str!("../src/sql/park_returned.sql"), "postroom_delivery_key"),
        ("receipts", include_str!("../src/sql/receipts.sql"), "postroom_receipt_first"),
        ("lane", include_str!("../src/sql/lane.sql"), "PRIMARY KEY"),
        ("acquire", include_str!("../src/sql/acquire.sql"), "PRIMARY KEY"),
        ("fence", include_str!("../src/sql/fence.sql"), "PRIMARY KEY"),
        ("delivered", include_str!("../src/sql/delivered.sql"), "INTEGER PRIMARY KEY"),
        ("parked", include_str!("../src/sql/parked.sql"), "INTEGER PRIMARY KEY"),
        ("next_due", include_str!("../src/sql/next_due.sql"), "postroom_delivery_due"),
        ("retrying", include_str!("../src/sql/retrying.sql"), "postroom_delivery_state"),
        ("blocked", include_str!("../src/sql/blocked.sql"), "postroom_delivery_key"),
        ("load", include_str!("../src/sql/load.sql"), "INTEGER PRIMARY KEY"),
    ] {
        let plan = plan(&shop, sql).await;
        assert!(plan.contains(index), "{name} does not use {index}:\n{plan}");
        for table in
            ["postroom_log", "postroom_delivery", "postroom_receipt", "postroom_lane", "postroom_relay", " l", " d"]
        {
            assert!(
                !plan.lines().any(|line| line.trim() == format!("SCAN {}", table.trim())),
                "{name} scans {table}:\n{plan}"
            );
        }
        if name == "due" {
            assert!(!plan.contains("TEMP B-TREE"), "a take sorts:\n{plan}");
        }
    }
}
