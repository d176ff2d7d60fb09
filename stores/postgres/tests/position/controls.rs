//! Rules that were tried and fail. The checker must catch each: one that catches nothing proves nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sqlx::Row as _;

use crate::position::checker::{Fact, Report};
use crate::position::interleavings::{
    Watched, a_later_id_has_the_lower_number, a_lower_number_commits_later, an_id_is_taken_before_the_lock,
    what_ends_late_has_several_events,
};
use crate::position::load::Load;
use crate::position::readers::{ByPosition, Cursor, Flaw, Reader};
use crate::position::shop::{Elsewhere, Session, Shop};

/// How often an interleaving is tried that others in the cluster can disturb.
const ROUNDS: i32 = 1_000;

#[tokio::test]
async fn the_rule_as_these_tests_spell_it_holds_where_its_broken_forms_fail() {
    let shop = Shop::open().await;
    let mut reader = Watched::new(ByPosition::with(&shop, Flaw::None).await);
    a_lower_number_commits_later(&shop, &mut reader).await;
    for round in 1..=10 {
        a_later_id_has_the_lower_number(&shop, &mut reader, round).await;
    }
    an_id_is_taken_before_the_lock(&shop, &mut reader).await;
    what_ends_late_has_several_events(&shop, &mut reader).await;
    let report = shop.check(&reader.seen).await;
    // `b` has its number 1 in two of them; all else is told apart by its key.
    assert_eq!((report.lost, report.ghosts, report.twice), (0, 0, 0), "{report}");
}

#[tokio::test]
async fn a_cursor_by_number_loses_what_commits_late() {
    let shop = Shop::open().await;
    let mut reader = Watched::new(Cursor::by_number(&shop).await);
    let report = a_lower_number_commits_later(&shop, &mut reader).await;
    assert_eq!((report.lost, report.swapped), (1, 0), "{report}");
}

#[tokio::test]
async fn a_cursor_by_number_behind_a_gate_still_loses() {
    let shop = Shop::open().await;
    let mut reader = Watched::new(Cursor::by_number_behind_a_gate(&shop).await);
    let report = a_later_id_has_the_lower_number(&shop, &mut reader, 1).await;
    assert_eq!((report.lost, report.swapped), (1, 0), "{report}");
}

#[tokio::test]
async fn a_gate_stalls_on_a_transaction_of_another_database() {
    let shop = Shop::open().await;
    let (elsewhere, mut producer) = (Elsewhere::begin().await, shop.session().await);
    let fact = producer.append("k", 1).await;
    let mut gated = Watched::new(Cursor::by_number_behind_a_gate(&shop).await);
    let mut right = ByPosition::with(&shop, Flaw::None).await;
    assert_eq!(right.read().await, std::slice::from_ref(&fact));
    gated.read().await;
    assert_eq!(shop.check(&gated.seen).await.lost, 1);
    elsewhere.end().await;
    gated.read_until(&fact).await;
}

#[tokio::test]
async fn order_by_transaction_swaps_a_key() {
    let shop = Shop::open().await;
    let mut reader = Watched::new(Cursor::by_transaction_behind_a_gate(&shop).await);
    let report = an_id_is_taken_before_the_lock(&shop, &mut reader).await;
    assert_eq!((report.lost, report.swapped), (0, 1), "{report}");
}

#[tokio::test]
async fn claims_that_skip_what_is_locked_swap_a_key() {
    async fn claim(relay: &mut Session) -> Fact {
        let text = "select id, key, (convert_from(payload, 'UTF8')::json ->> 'n')::int, seq from log l
            where not exists (select from sent s where s.seq = l.seq) order by seq limit 1 for update skip locked";
        let row = sqlx::query(text).fetch_one(&mut relay.run("begin").await.conn).await.unwrap();
        let sent = sqlx::query("insert into sent values ($1)").bind(row.get::<i64, _>(3));
        sent.execute(&mut relay.conn).await.unwrap();
        Fact { id: row.get(0), key: row.get(1), n: row.get(2) }
    }
    let shop = Shop::open().await;
    let (mut a, mut b) = (shop.session().await, shop.session().await);
    a.run("create table sent (seq int8 primary key)").await;
    a.append("k", 1).await;
    a.append("k", 2).await;
    // Both have one in hand; nothing says whose goes out first.
    let (of_a, of_b) = (claim(&mut a).await, claim(&mut b).await);
    b.run("commit").await;
    a.run("commit").await;
    let report = shop.check(&[of_b, of_a]).await;
    assert_eq!((report.lost, report.swapped), (0, 1), "{report}");
}

#[tokio::test]
async fn without_late_events_are_lost() {
    let shop = Shop::open().await;
    let mut reader = Watched::new(ByPosition::with(&shop, Flaw::WithoutLate).await);
    let report = a_lower_number_commits_later(&shop, &mut reader).await;
    assert_eq!(report.lost, 1, "{report}");
}

/// Tries the interleaving until nothing of the cluster ended in between, and so the event is lost.
async fn loses_a_later_id_with_the_lower_number(shop: &Shop, reader: ByPosition) {
    let mut reader = Watched::new(reader);
    for round in 1..=ROUNDS {
        let report = a_later_id_has_the_lower_number(shop, &mut reader, round).await;
        if report.lost > 0 {
            assert_eq!((report.lost, report.ghosts), (1, 0), "{report}");
            return;
        }
    }
    panic!("nothing was lost in {ROUNDS} rounds");
}

#[tokio::test]
async fn without_above_events_are_lost() {
    let shop = Shop::open().await;
    let reader = ByPosition::with(&shop, Flaw::WithoutAbove).await;
    loses_a_later_id_with_the_lower_number(&shop, reader).await;
}

#[tokio::test]
async fn a_read_that_is_not_the_first_statement_of_its_transaction_loses_events() {
    let shop = Shop::open().await;
    let mut reader = ByPosition::with(&shop, Flaw::None).await;
    reader.session.run("begin isolation level read committed").await;
    reader.read().await;
    loses_a_later_id_with_the_lower_number(&shop, reader).await;
}

#[tokio::test]
async fn a_read_after_a_write_of_its_transaction_loses_events() {
    let shop = Shop::open().await;
    let mut reader = ByPosition::with(&shop, Flaw::None).await;
    reader.session.run("create table own (a int)").await.run("begin isolation level read committed").await;
    reader.session.run("insert into own values (1)").await;
    loses_a_later_id_with_the_lower_number(&shop, reader).await;
}

#[tokio::test]
async fn fresh_rows_beside_a_half_read_late_swap_a_key() {
    let shop = Shop::open().await;
    let mut reader = Watched::new(ByPosition::with(&shop, Flaw::FreshBesideHalfLate).await);
    let report = what_ends_late_has_several_events(&shop, &mut reader).await;
    assert_eq!((report.lost, report.swapped), (0, 1), "{report}");
}

#[tokio::test]
async fn a_sequence_that_caches_swaps_a_key() {
    let shop = Shop::open().await;
    let (mut a, mut b) = (shop.session().await, shop.session().await);
    a.run("alter sequence log_seq cache 32").await.append("k", 1).await;
    b.append("k", 2).await;
    a.append("k", 3).await;
    let mut reader = Watched::new(ByPosition::with(&shop, Flaw::None).await);
    let report = reader.finish(&shop).await;
    assert_eq!((report.lost, report.swapped), (0, 1), "{report}");
}

/// Remembers the numbers it has not seen, and asks for them until nobody can have them any more.
#[derive(Debug)]
struct ByGaps {
    session: Session,
    hwm: i64,
    /// Number → the transactions from this one on began after it was missed.
    gaps: BTreeMap<i64, i64>,
}

impl Reader for ByGaps {
    async fn read(&mut self) -> Vec<Fact> {
        let text = "select r.id, r.key, (convert_from(r.payload, 'UTF8')::json ->> 'n')::int, r.seq,
              pg_snapshot_xmin(s.snap)::text::int8,
              pg_snapshot_xmax(s.snap)::text::int8 + age(pg_snapshot_xmax(s.snap)::xid)
            from (select pg_current_snapshot() as snap) s
            left join (select * from log where seq > $1 or seq = any($2)) r on true order by r.seq";
        let gaps: Vec<i64> = self.gaps.keys().copied().collect();
        let rows = sqlx::query(text).bind(self.hwm).bind(gaps).fetch_all(&mut self.session.conn).await.unwrap();
        let (oldest, next): (i64, i64) = (rows[0].get(4), rows[0].get(5));
        let mut seen = Vec::new();
        for row in &rows {
            let Some(seq) = row.get::<Option<i64>, _>(3) else { continue };
            self.gaps.remove(&seq);
            self.gaps.extend((self.hwm + 1..seq).map(|gap| (gap, next)));
            self.hwm = self.hwm.max(seq);
            seen.push(Fact { id: row.get(0), key: row.get(1), n: row.get(2) });
        }
        self.gaps.retain(|_, began| *began > oldest);
        seen
    }
}

#[tokio::test]
async fn a_list_of_gaps_grows_without_bound_behind_an_idle_writer() {
    let shop = Shop::open().await;
    let (elsewhere, mut producer) = (Elsewhere::begin().await, shop.session().await);
    let mut gaps = ByGaps { session: shop.session().await, hwm: 0, gaps: BTreeMap::new() };
    let mut right = ByPosition::with(&shop, Flaw::None).await;
    let mut widest = 0;
    for round in 1..=5 {
        for n in 1..=100 {
            producer.run("begin").await.append("k", n).await;
            producer.run(if n % 10 < 3 { "rollback" } else { "commit" }).await;
        }
        gaps.read().await;
        right.read().await;
        widest = widest.max(right.pending.len());
        // Rolled back at the end of a round is above what was read.
        assert!(gaps.gaps.len() >= round * 30 - 3, "{} gaps after round {round}", gaps.gaps.len());
    }
    println!("gaps {}, pending at most {widest}", gaps.gaps.len());
    assert!(widest < 100, "{widest} pending");
    elsewhere.end().await;
}

/// Reads beside the load until it has ended and nothing more comes.
async fn follow(mut reader: impl Reader, load: &Load, shop: &Shop) -> Report {
    let mut seen = Vec::new();
    loop {
        let over = load.is_over();
        let new = reader.read().await;
        if new.is_empty() {
            if over {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        seen.extend(new);
    }
    shop.check(&seen).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_the_broken_readers_lose_and_the_right_one_does_not() {
    let shop = Shop::open().await;
    let start = Instant::now();
    let load = Load::begin(&shop, Duration::from_secs(6)).await;
    let (cursor, late, right) = tokio::join!(
        async { follow(Cursor::by_number(&shop).await, &load, &shop).await },
        async { follow(ByPosition::with(&shop, Flaw::WithoutLate).await, &load, &shop).await },
        async { follow(ByPosition::with(&shop, Flaw::None).await, &load, &shop).await },
    );
    let written = load.end().await;
    println!("{written}, {:.0} s", start.elapsed().as_secs_f64());
    println!("by number     {cursor}\nwithout late  {late}\nby position   {right}");
    assert!(cursor.lost > 0 && late.lost > 0, "nothing was lost");
    assert!(right.is_clean(), "{right}");
}
