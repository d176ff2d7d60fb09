//! The interleavings that break other rules, and what the store makes of them.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Executor as _};

use crate::position::checker::{Fact, Report};
use crate::position::readers::{Reader, StoreReader};
use crate::position::shop::{Elsewhere, Shop};

/// How long something may take to come. Readers behind a gate wait for whatever else runs in the cluster.
const PATIENCE: Duration = Duration::from_mins(5);

/// A reader, and what it has seen in the course of a test.
pub(crate) struct Watched<R> {
    pub(crate) reader: R,
    pub(crate) seen: Vec<Fact>,
}

impl<R: Reader> Watched<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, seen: Vec::new() }
    }

    pub(crate) async fn read(&mut self) {
        self.seen.extend(self.reader.read().await);
    }

    /// Reads until this one has come.
    pub(crate) async fn read_until(&mut self, fact: &Fact) {
        let comes = async {
            while !self.seen.contains(fact) {
                self.read().await;
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, comes).await.unwrap_or_else(|_| panic!("{fact:?} did not come"));
    }

    /// Appends a last event and reads until it has come, and what may stand behind it; then compares.
    pub(crate) async fn finish(&mut self, shop: &Shop) -> Report {
        let last = shop.session().await.append("last", i32::try_from(self.seen.len()).unwrap() + 1).await;
        self.read_until(&last).await;
        for _ in 0..3 {
            self.read().await;
        }
        shop.check(&self.seen).await
    }
}

/// T1 draws a number and stays open; T2 draws the next and commits; read; T1 commits; read.
pub(crate) async fn a_lower_number_commits_later(shop: &Shop, reader: &mut Watched<impl Reader>) -> Report {
    let (mut t1, mut t2) = (shop.session().await, shop.session().await);
    t1.run("begin").await.append("one", 1).await;
    let two = t2.append("two", 1).await;
    reader.read_until(&two).await;
    t1.run("commit").await;
    reader.read().await;
    reader.finish(shop).await
}

/// B takes its id; A takes a later one and a number and stays open; B takes the next number and commits; read; A commits;
/// read. Nothing of the cluster may have ended in between for A to stand above the latest completed one.
pub(crate) async fn a_later_id_has_the_lower_number(
    shop: &Shop,
    reader: &mut Watched<impl Reader>,
    round: i32,
) -> Report {
    let (mut a, mut b) = (shop.session().await, shop.session().await);
    b.begin_with_id().await;
    a.begin_with_id().await;
    a.append("a", round).await;
    let two = b.append("b", round).await;
    b.run("commit").await;
    reader.read_until(&two).await;
    a.run("commit").await;
    reader.read().await;
    reader.finish(shop).await
}

/// T2 takes its id early; T1 locks the aggregate, appends and commits; T2 locks it, appends and commits; read.
pub(crate) async fn an_id_is_taken_before_the_lock(shop: &Shop, reader: &mut Watched<impl Reader>) -> Report {
    let (mut t1, mut t2) = (shop.session().await, shop.session().await);
    t1.run("insert into aggregate values ('k', 0)").await;
    t2.begin_with_id().await;
    t1.run("begin").await.run("select n from aggregate where key = 'k' for update").await.append("k", 1).await;
    t1.run("commit").await;
    t2.run("select n from aggregate where key = 'k' for update").await.append("k", 2).await;
    t2.run("commit").await;
    reader.finish(shop).await
}

/// A appends two events and stays open; B commits a later number; read; A commits, and another follows on A's second key;
/// read.
pub(crate) async fn what_ends_late_has_several_events(shop: &Shop, reader: &mut Watched<impl Reader>) -> Report {
    let (mut a, mut b) = (shop.session().await, shop.session().await);
    a.run("begin").await.append("first", 1).await;
    a.append("second", 1).await;
    let later = b.append("b", 1).await;
    reader.read_until(&later).await;
    a.run("commit").await;
    b.append("second", 2).await;
    reader.read().await;
    reader.finish(shop).await
}

#[tokio::test]
async fn a_lower_number_that_commits_later_is_delivered_later() {
    let shop = Shop::open().await;
    let mut reader = Watched::new(StoreReader::open(&shop.store).await);
    let report = a_lower_number_commits_later(&shop, &mut reader).await;
    assert!(report.is_clean(), "{report}");
}

/// Brings a reader to where it only asks whether anything has happened: looks that find nothing.
async fn at_rest(shop: &Shop, reader: &mut Watched<StoreReader>) {
    for _ in 0..4 {
        reader.read().await;
    }
    assert!(shop.check(&reader.seen).await.is_clean());
}

#[tokio::test]
async fn a_reader_at_rest_notices_the_first_number_ever_drawn() {
    let shop = Shop::open().await;
    let mut reader = Watched::new(StoreReader::open(&shop.store).await);
    at_rest(&shop, &mut reader).await;
    let first = shop.session().await.append("k", 1).await;
    reader.read_until(&first).await;
}

#[tokio::test]
async fn a_reader_at_rest_notices_a_commit_whose_number_it_has_passed() {
    let shop = Shop::open().await;
    let (mut t1, mut t2) = (shop.session().await, shop.session().await);
    let mut reader = Watched::new(StoreReader::open(&shop.store).await);
    let late = t1.run("begin").await.append("one", 1).await;
    t2.append("two", 1).await;
    at_rest(&shop, &mut reader).await;
    t1.run("commit").await;
    reader.read_until(&late).await;
    assert!(shop.check(&reader.seen).await.is_clean());
}

#[tokio::test]
async fn a_later_id_with_the_lower_number_is_delivered_too() {
    let shop = Shop::open().await;
    let mut reader = Watched::new(StoreReader::open(&shop.store).await);
    for round in 1..=20 {
        let report = a_later_id_has_the_lower_number(&shop, &mut reader, round).await;
        assert!(report.is_clean(), "round {round}: {report}");
    }
}

#[tokio::test]
async fn an_id_taken_before_the_lock_swaps_nothing() {
    let shop = Shop::open().await;
    let mut reader = Watched::new(StoreReader::open(&shop.store).await);
    let report = an_id_is_taken_before_the_lock(&shop, &mut reader).await;
    assert!(report.is_clean(), "{report}");
}

#[tokio::test]
async fn several_events_of_a_late_transaction_come_before_what_follows_them() {
    let shop = Shop::open().await;
    let mut reader = Watched::new(StoreReader::open(&shop.store).await);
    let report = what_ends_late_has_several_events(&shop, &mut reader).await;
    assert!(report.is_clean(), "{report}");
}

#[tokio::test]
async fn more_late_events_than_one_read_brings_all_come_in_order() {
    let shop = Shop::open().await;
    let (mut a, mut b) = (shop.session().await, shop.session().await);
    let mut reader = Watched::new(StoreReader::open(&shop.store).await);
    a.run(
        "begin; with e as (
           select append('order.changed', 'k' || i % 7, json_build_object('n', i), 'late-' || i), i from generate_series(1, 5000) i)
         insert into committed select 'late-' || i, 'k' || i % 7, i from e",
    )
    .await;
    let later = b.append("b", 1).await;
    reader.read_until(&later).await;
    a.run("commit").await;
    for key in 0..7 {
        b.append(&format!("k{key}"), 6000).await;
    }
    let report = reader.finish(&shop).await;
    assert!(report.is_clean(), "{report}");
}

#[tokio::test]
async fn more_late_numbers_than_one_read_sweeps_are_swept_in_order() {
    let shop = Shop::open().await;
    let (mut a, mut b) = (shop.session().await, shop.session().await);
    let mut reader = Watched::new(StoreReader::open(&shop.store).await);
    a.run("begin").await.append("k", 1).await;
    for (number, n) in [("120000", 2), ("240000", 3)] {
        b.conn.execute(AssertSqlSafe(format!("select setval('log_seq', {number})"))).await.unwrap();
        a.append("k", n).await;
    }
    let later = b.append("b", 1).await;
    reader.read_until(&later).await;
    a.run("commit").await;
    b.append("k", 4).await;
    let report = reader.finish(&shop).await;
    assert!(report.is_clean(), "{report}");
}

#[tokio::test]
async fn a_prepared_transaction_is_delivered_when_it_is_committed() {
    let shop = Shop::open().await;
    let (mut a, mut b) = (shop.session().await, shop.session().await);
    let mut reader = Watched::new(StoreReader::open(&shop.store).await);
    a.run("begin").await.append("a", 1).await;
    let name = shop.schema();
    a.conn.execute(AssertSqlSafe(format!("prepare transaction '{name}'"))).await.unwrap();
    let later = b.append("b", 1).await;
    reader.read_until(&later).await;
    a.conn.execute(AssertSqlSafe(format!("commit prepared '{name}'"))).await.unwrap();
    let report = reader.finish(&shop).await;
    assert!(report.is_clean(), "{report}");
}

#[tokio::test]
async fn an_open_writer_and_one_elsewhere_hold_up_nobody() {
    let shop = Shop::open().await;
    let (elsewhere, mut a, mut b) = (Elsewhere::begin().await, shop.session().await, shop.session().await);
    a.run("begin").await.append("a", 1).await;
    let mut reader = StoreReader::open(&shop.store).await;
    for n in 1..=50 {
        let fact = b.append("b", n).await;
        assert_eq!(reader.read().await, [fact]);
    }
    a.run("rollback").await;
    elsewhere.end().await;
}

#[tokio::test]
async fn a_relay_that_takes_over_still_finds_what_commits_late() {
    let shop = Shop::open().await;
    let (mut a, mut b) = (shop.session().await, shop.session().await);
    a.run("begin").await.append("a", 1).await;
    let later = b.append("b", 1).await;
    let mut first = StoreReader::open(&shop.store).await;
    assert_eq!(first.read().await, std::slice::from_ref(&later));
    first.source.release().await.unwrap();
    let store = shop.another().await;
    let mut second = Watched::new(StoreReader::open(&store).await);
    second.seen.push(later);
    second.read().await;
    a.run("commit").await;
    let report = second.finish(&shop).await;
    assert!(report.is_clean(), "{report}");
}
