//! `event_outbox` with its indexes, to RabbitMQ and to nowhere.

use std::time::Duration;

use lapin::options::{ConfirmSelectOptions, QueuePurgeOptions};
use lapin::{Channel, Connection, ConnectionProperties};
use postroom_testbed::Servers;

use super::ROUNDS;
use super::system::System;
use super::worker::{Marks, To, Worker};
use crate::postgres::Server;
use crate::rounds::Rounds;

pub(super) const ROWS: usize = 200_000;
/// Of which a worker that waits for each confirm does these.
const SLOW_ROWS: usize = 10_000;
/// What the rows below are routed to.
const QUEUES: [&str; 2] = ["analytics.ingest", "notifications"];

const FILL: &str = "truncate event_outbox; \
    insert into event_outbox (group_id, subsidiary_id, aggregate_type, aggregate_id, event_type, payload, available_at) \
    select gen_random_uuid(), gen_random_uuid(), 'order', gen_random_uuid(), 'created', \
      jsonb_build_object('order_id', g, 'note', repeat('p', 260)), now() - interval '1 hour' + g * interval '1 microsecond' \
    from generate_series(1, 200000) g; \
    vacuum analyze event_outbox";

pub(super) async fn run(server: &Server, servers: &Servers) {
    let url = format!("amqp://guest:guest@127.0.0.1:{}", servers.site("rabbitmq").port);
    let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();

    let system = System::new(server, "holdco", &[("RABBITMQ_URL", url)], "").await;
    fill(&system).await;
    // Makes the queues, and warms everybody.
    system.relayed(1_000).await;
    compare("RabbitMQ", &system, worker(To::RabbitMq(channel.clone(), "holdco.events")), SLOW_ROWS, Some(&channel))
        .await;

    let nowhere = "[[route]]\nname = \"holdco\"\nto = { noop = {} }\nallow_discard = true\n";
    let system = System::new(server, "holdco", &[], nowhere).await;
    compare("noop", &system, worker(To::Nowhere), ROWS, None).await;
}

async fn compare(what: &str, system: &System, worker: Worker, rows: usize, queues: Option<&Channel>) {
    let (mut each, mut batched) = (Rounds::default(), Rounds::default());
    for _ in 0..ROUNDS {
        let mut rates = [0.0; 3];
        for (n, marks) in [Some(Marks::EachRow), Some(Marks::WholeBatch), None].into_iter().enumerate() {
            fill(system).await;
            let work = async {
                match marks {
                    Some(marks) => worker.run(&system.pool, rows, marks).await,
                    None => system.relayed(ROWS).await,
                }
            };
            rates[n] = tokio::select! {
                rate = work => rate,
                () = purge(queues) => 0.0,
            };
        }
        each.add(rates[2], rates[0]);
        batched.add(rates[2], rates[1]);
    }
    let (ratio, rates) = each.show();
    println!("adopted, holdco, {what}: {ratio:.2} × a worker that updates each row ({rates}; target ≥ 3)");
    let (ratio, rates) = batched.show();
    println!("adopted, holdco, {what}: {ratio:.2} × a worker that updates a batch ({rates}; target ≥ 1.5)");
}

pub(super) async fn fill(system: &System) {
    for statement in FILL.split("; ") {
        system.sql(statement).await;
    }
}

fn worker(to: To) -> Worker {
    Worker {
        to,
        batch: "select id::text, aggregate_id::text, aggregate_type || '.' || event_type, json_build_object( \
                  'event_id', id, 'occurred_at', created_at, 'aggregate_type', aggregate_type, 'aggregate_id', aggregate_id, \
                  'event_type', event_type, 'group_id', group_id, 'subsidiary_id', subsidiary_id, 'payload', payload)::text \
                from event_outbox where status = 'pending' and available_at <= now() \
                order by available_at limit 100 for update skip locked"
            .into(),
        mark_one: "update event_outbox set status = 'published' where id = $1::uuid",
        mark_many: "update event_outbox set status = 'published' where id = any($1::uuid[])",
    }
}

/// Empties the queues all the time: a broker that is full blocks its publishers.
async fn purge(queues: Option<&Channel>) {
    let Some(channel) = queues else { return std::future::pending().await };
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        for queue in QUEUES {
            channel.queue_purge(queue.into(), QueuePurgeOptions::default()).await.unwrap();
        }
    }
}
