//! Whether rows that wait for another try slow the others down.

use super::system::System;
use super::{ROUNDS, holdco, payments};
use crate::postgres::Server;
use crate::rounds::Rounds;

const NOWHERE: &str = "to = { noop = {} }\nallow_discard = true\n";

pub(super) async fn run(server: &Server) {
    let file = |name: &str| format!("[[route]]\nname = \"{name}\"\n{NOWHERE}");
    let system = System::new(server, "holdco", &[], &file("holdco")).await;
    let mut rounds = Rounds::default();
    for _ in 0..ROUNDS {
        holdco::fill(&system).await;
        let plain = system.relayed(holdco::ROWS).await;
        holdco::fill(&system).await;
        // At the front by their age, and not due for an hour.
        system.sql("update event_outbox set attempts = 3, available_at = now() + interval '1 hour' where id in (select id from event_outbox order by available_at limit 100)").await;
        rounds.add(system.relayed(holdco::ROWS - 100).await, plain);
    }
    show("holdco", &rounds);

    let system = System::new(server, "payments", &[], &file("payments")).await;
    let mut rounds = Rounds::default();
    for _ in 0..ROUNDS {
        payments::fill(&system).await;
        let plain = system.relayed(payments::ROWS).await;
        payments::fill(&system).await;
        system.sql(IN_BACK_OFF).await;
        rounds.add(system.relayed(payments::ROWS - 100).await, plain);
        system.sql("truncate postroom.sidecar").await;
    }
    show("payments", &rounds);
}

/// What a failed try partitions: the table has no column for the next one.
const IN_BACK_OFF: &str = "insert into postroom.sidecar (mapping, row_id, event_id, state, due, attempts, code, error, since) \
     select (select distinct mapping from postroom.adopted_route), id, id, 'retrying', now() + interval '1 hour', 3, 'bench', 'bench', now() \
     from outbox order by created_at limit 100";

fn show(what: &str, rounds: &Rounds) {
    let (ratio, rates) = rounds.show();
    let change = (ratio - 1.0) * 100.0;
    println!(
        "adopted, {what}, 100 rows in back-off change the rate of the others by {change:.1} % ({rates}; target < 5 %)"
    );
}
