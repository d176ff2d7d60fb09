//! `outbox` with `published_at`, in order per aggregate, to Kafka.

use postroom_testbed::Servers;
use rdkafka::ClientConfig;

use super::ROUNDS;
use super::system::System;
use super::worker::{Marks, To, Worker};
use crate::postgres::Server;
use crate::rounds::Rounds;
use crate::transports::create_topic;

pub(super) const ROWS: usize = 100_000;
/// Of which a worker that waits for each acknowledgement does these.
const SLOW_ROWS: usize = 10_000;

pub(super) async fn run(server: &Server, servers: &Servers) {
    let broker = format!("127.0.0.1:{}", servers.site("kafka").port);
    // The prefix and the type of the preset's topics are the two halves of this one.
    let prefix = format!("bench{}", fastrand::u32(..));
    create_topic(&broker, &format!("{prefix}.paymentauthorized"));
    let variables = [("REDPANDA_BROKERS", broker.clone()), ("KAFKA_TOPIC_PREFIX", prefix.clone())];
    let system = System::new(server, "payments", &variables, "").await;
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", &broker).set("acks", "all").set("linger.ms", "0");
    let worker = worker(To::Kafka(client.create().unwrap()), &prefix);
    fill(&system).await;
    system.relayed(1_000).await;
    worker.run(&system.pool, 100, Marks::EachRow).await;

    let mut rounds = Rounds::default();
    for _ in 0..ROUNDS {
        fill(&system).await;
        let one_by_one = worker.run(&system.pool, SLOW_ROWS, Marks::EachRow).await;
        fill(&system).await;
        rounds.add(system.relayed(ROWS).await, one_by_one);
    }
    let (ratio, rates) = rounds.show();
    println!("adopted, payments, Kafka: {ratio:.2} × a worker that publishes one by one ({rates}; target ≥ 3)");
}

pub(super) async fn fill(system: &System) {
    system.sql("truncate outbox").await;
    let payload = "jsonb_build_object('payment_id', g::text, 'payer_account_id', 'a', 'payee_account_id', 'b', \
                   'amount_cents', 1000, 'currency', 'EUR', 'note', repeat('p', 180))";
    let rows = format!(
        "insert into outbox (id, aggregate_type, aggregate_id, event_type, payload, created_at) \
         select '01J' || lpad(g::text, 23, '0'), 'Payment', 'pay-' || g % 20000, 'PaymentAuthorized', {payload}, \
           now() - interval '1 hour' + g * interval '1 microsecond' from generate_series(1, {ROWS}) g"
    );
    sqlx::query(sqlx::AssertSqlSafe(rows)).execute(&system.pool).await.unwrap();
    system.sql("vacuum analyze outbox").await;
}

fn worker(to: To, prefix: &str) -> Worker {
    let batch = format!(
        "select id, aggregate_id, '{prefix}.' || lower(event_type), json_build_object('event_id', id, \
           'aggregate_type', aggregate_type, 'aggregate_id', aggregate_id, 'event_type', event_type, 'payload', payload, \
           'timestamp', created_at)::text \
         from outbox where published_at is null order by created_at limit 100 for update skip locked"
    );
    Worker {
        to,
        batch: batch.into(),
        mark_one: "update outbox set published_at = now() where id = $1",
        mark_many: "update outbox set published_at = now() where id = any($1)",
    }
}
