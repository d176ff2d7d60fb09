//! Controls: producers that draw the number before they take their transaction id, because the id is a column's default.
//!
//! A default looks as if it were computed with the row; in each of these forms PostgreSQL computes it after the number. The
//! stall between the two is a lock that the test holds.

use postroom_core::new_id;

use crate::position::checker::{Fact, Report};
use crate::position::interleavings::Watched;
use crate::position::readers::{ByPosition, Flaw};
use crate::position::shop::Shop;

const DEFAULTS: &str = "
create table gate (a int);
create function stalled_id() returns int8 language plpgsql volatile as $$
begin
  perform from gate;
  return pg_current_xact_id()::text::int8;
end $$;
alter table log alter column tx set default stalled_id(), alter column partition set default 0, alter column lane set default 0,
  alter column occurred_at set default now(), alter column type set default 'order.changed'";

/// W1 draws a number and stops before it has an id; W2 draws the next and commits; read; W1 goes on and commits; read.
/// `None` when W1 had its id all the same: a sequence that writes to the WAL takes one, every 32 numbers and after a
/// checkpoint.
async fn tried(insert: &'static str, rows: i32) -> Option<Report> {
    let shop = Shop::open().await;
    let (mut guard, mut w1, mut w2) = (shop.session().await, shop.session().await, shop.session().await);
    let mut reader = Watched::new(ByPosition::with(&shop, Flaw::None).await);
    guard.run(DEFAULTS).await.run("select nextval('log_seq')").await.run("begin; lock table gate").await;
    let (pid, id) = (w1.pid().await, new_id());
    let inserting = tokio::spawn(async move {
        w1.run("begin").await;
        sqlx::query(insert).bind(&id).execute(&mut w1.conn).await.unwrap();
        for n in 1..=rows {
            w1.note(&Fact { id: format!("{id}-{n}"), key: "w1".to_owned(), n }).await;
        }
        w1.run("commit").await;
    });
    let has_id = w2.sees_waiting(pid).await;
    let two = w2.append("w2", 1).await;
    reader.read_until(&two).await;
    guard.run("rollback").await;
    inserting.await.unwrap();
    let report = reader.finish(&shop).await;
    (!has_id).then_some(report)
}

async fn loses(insert: &'static str, rows: i32) {
    for _ in 0..5 {
        if let Some(report) = tried(insert, rows).await {
            assert_eq!((report.lost, report.ghosts), (1, 0), "{report}");
            return;
        }
    }
    panic!("the id was always there before the number");
}

#[tokio::test]
async fn an_id_by_default_in_insert_select_loses() {
    let insert = "insert into log (seq, id, key, payload) select nextval('log_seq'), $1 || '-1', 'w1', '{\"n\": 1}'";
    loses(insert, 1).await;
}

#[tokio::test]
async fn an_id_by_default_in_several_rows_of_values_loses() {
    let insert = "insert into log (seq, id, key, payload) values
        (nextval('log_seq'), $1 || '-1', 'w1', '{\"n\": 1}'), (nextval('log_seq'), $1 || '-2', 'w1', '{\"n\": 2}')";
    loses(insert, 2).await;
}

#[tokio::test]
async fn an_id_by_default_behind_a_common_table_expression_loses() {
    let insert = "with drawn as (select nextval('log_seq') as seq)
        insert into log (seq, id, key, payload) select seq, $1 || '-1', 'w1', '{\"n\": 1}' from drawn";
    loses(insert, 1).await;
}
