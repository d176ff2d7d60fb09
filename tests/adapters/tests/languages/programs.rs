//! Python, Node.js, Go and Java.

use std::path::PathBuf;
use std::process::Command;

use postroom_adapters::Shop;
use serde_json::{Value, json};

use crate::languages::{folder, run};

/// What every program leaves: one order, its event, booked once although it came twice; and nothing of the order whose
/// event was refused.
pub(crate) async fn check(shop: &Shop) {
    assert_eq!(shop.orders().await, ["order-7"]);
    let booked: Vec<(String, i32)> = sqlx::query_as("select * from booked").fetch_all(shop.pool()).await.unwrap();
    assert_eq!(booked, [("order-7".to_owned(), 4200)]);
    let taken = shop.taken().await;
    let [event] = &*taken else { panic!("{taken:?}") };
    assert_eq!((&*event.event_type, event.key.as_deref()), ("order.placed", Some("order-7")));
    assert_eq!(event.payload_as::<Value>().unwrap(), json!({ "total": 4200 }));
    assert_eq!(event.id.len(), 36);
}

#[tokio::test]
async fn python_appends_and_accepts() {
    let shop = Shop::open().await;
    // Debian's own, which has Debian's psycopg2.
    let mut python = Command::new("/usr/bin/python3");
    let said = run(python.arg(folder().join("snippet.py")).env("DATABASE_URL", shop.url()));
    assert_eq!(said, "22023 event key contains a control character\n");
    check(&shop).await;
}

#[tokio::test]
async fn node_appends_and_accepts() {
    let shop = Shop::open().await;
    let mut node = Command::new("node");
    node.arg(folder().join("snippet.js")).env("DATABASE_URL", shop.url()).env("NODE_PATH", node_modules());
    assert_eq!(run(&mut node), "22023 event key contains a control character\n");
    check(&shop).await;
}

/// Where `pg` is when Debian's `node-pg` is not: fetched once into the target folder.
fn node_modules() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("node");
    let modules = folder.join("node_modules");
    let there = Command::new("node").args(["-e", "require('pg')"]).env("NODE_PATH", &modules).output();
    if !there.is_ok_and(|there| there.status.success()) {
        let npm = ["install", "--silent", "--no-audit", "--no-fund", "--no-package-lock", "pg@8.23.1", "--prefix"];
        run(Command::new("npm").args(npm).arg(folder));
    }
    modules
}

#[tokio::test]
async fn go_appends_and_accepts() {
    let shop = Shop::open().await;
    let mut go = Command::new("go");
    let url = format!("{}?sslmode=disable", shop.url());
    let said = run(go.args(["run", "."]).current_dir(folder().join("go")).env("DATABASE_URL", url));
    assert_eq!(said, "22023 event key contains a control character\n");
    check(&shop).await;
}

#[tokio::test]
async fn java_appends_and_accepts() {
    let shop = Shop::open().await;
    let (host, user) = (shop.url().replace("postgres://postgres@", "jdbc:postgresql://"), "?user=postgres");
    let mut java = Command::new("java");
    java.args(["-cp", "/usr/share/java/postgresql.jar"]).arg(folder().join("Snippet.java"));
    let said = run(java.env("DATABASE_URL", host + user));
    assert_eq!(said, "22023 ERROR: event key contains a control character\n");
    check(&shop).await;
}
