//! HoldCo eventing (`--preset holdco`): `event_outbox` shared by row locks, to RabbitMQ with its queues and dead-letter queues.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as documented fails the test")]

use std::net::TcpListener;

use futures_util::StreamExt as _;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicRejectOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties, message::Delivery};
use postroom_e2e::until;
use postroom_presets::{System, get};
use serde_json::{Value, json};

const GROUP: &str = "11111111-1111-4111-8111-111111111111";
const ORDER: &str = "22222222-2222-4222-8222-222222222222";

/// A system on a virtual host of its own: exchanges and queues have the names of the documents.
struct HoldCo {
    system: System,
    url: String,
}

impl HoldCo {
    fn start() -> Self {
        let mut system = System::new("holdco");
        let url = system.virtual_host();
        system.set("RABBITMQ_URL", &url);
        Self { system, url }
    }

    /// What the application writes, in its own transaction.
    fn insert(&self, aggregate: &str, event: &str) -> String {
        let id = &self.system.query(&format!(
            "insert into event_outbox (group_id, aggregate_type, aggregate_id, event_type, payload) values \
             ('{GROUP}', '{aggregate}', '{ORDER}', '{event}', '{{\"order_no\": \"ORD-0001\"}}') returning id"
        ))[0];
        id.clone()
    }

    /// So many messages of a queue, read by another client.
    fn messages(&self, queue: &str, count: usize) -> Vec<Delivery> {
        self.system.wait(async {
            let connection = Connection::connect(&self.url, ConnectionProperties::default()).await.unwrap();
            let channel = connection.create_channel().await.unwrap();
            let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
            let mut consumer = channel.basic_consume(queue.into(), "test".into(), options, none).await.unwrap();
            let mut found = Vec::new();
            while found.len() < count {
                let delivery = consumer.next().await.unwrap().unwrap();
                delivery.ack(BasicAckOptions::default()).await.unwrap();
                found.push(delivery);
            }
            found
        })
    }
}

fn header(delivery: &Delivery, name: &str) -> Option<String> {
    match delivery.properties.headers().as_ref()?.inner().get(name)? {
        AMQPValue::LongString(text) => Some(text.to_string()),
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn an_event_arrives_with_the_envelope_headers_and_routing_key_of_the_documents() {
    let holdco = HoldCo::start();
    let id = holdco.insert("order", "created");
    holdco.system.drain();
    assert_eq!(holdco.system.query("select status, attempts from event_outbox"), ["published 0"]);
    for queue in ["analytics.ingest", "notifications"] {
        let message = &holdco.messages(queue, 1)[0];
        assert_eq!((message.exchange.as_str(), message.routing_key.as_str()), ("holdco.events", "order.created"));
        assert_eq!(message.properties.message_id().as_ref().unwrap().as_str(), id);
        let expected = [
            ("x-event-id", Some(id.as_str())),
            ("x-aggregate-type", Some("order")),
            ("x-aggregate-id", Some(ORDER)),
            ("x-group-id", Some(GROUP)),
            ("x-subsidiary-id", None),
            ("x-event-type", Some("created")),
            ("x-attempts", Some("0")),
        ];
        for (name, value) in expected {
            assert_eq!(header(message, name).as_deref(), value, "{name}");
        }
        let body: Value = serde_json::from_slice(&message.data).unwrap();
        let at = holdco
            .system
            .query("select to_char(created_at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') from event_outbox");
        let expected = json!({
            "event_id": id, "occurred_at": at[0], "aggregate_type": "order", "aggregate_id": ORDER, "event_type": "created",
            "group_id": GROUP, "subsidiary_id": null, "payload": {"order_no": "ORD-0001"},
        });
        assert_eq!(body, expected);
        let text = std::str::from_utf8(&message.data).unwrap();
        let order = [
            "event_id",
            "occurred_at",
            "aggregate_type",
            "aggregate_id",
            "event_type",
            "group_id",
            "subsidiary_id",
            "payload",
        ];
        let places: Vec<usize> = order.iter().map(|field| text.find(&format!("\"{field}\":")).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
    }
}

#[test]
fn every_queue_gets_what_it_binds_and_rejected_messages_go_to_its_dead_letter_queue() {
    let holdco = HoldCo::start();
    for (aggregate, event) in [
        ("invoice", "created"),
        ("stock_adjustment", "posted"),
        ("price_list", "changed"),
        ("payment_intent", "failed"),
    ] {
        holdco.insert(aggregate, event);
    }
    holdco.system.drain();
    let keys = |queue: &str, count: usize| {
        let mut keys: Vec<String> =
            holdco.messages(queue, count).iter().map(|message| message.routing_key.to_string()).collect();
        keys.sort();
        keys
    };
    assert_eq!(keys("analytics.ingest", 4).len(), 4);
    assert_eq!(keys("erp.sync", 2), ["invoice.created", "payment_intent.failed"]);
    assert_eq!(keys("pricing.refresh", 1), ["price_list.changed"]);
    assert_eq!(keys("notifications", 1), ["payment_intent.failed"]);
    holdco.system.wait(async {
        let connection = Connection::connect(&holdco.url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
        let mut consumer =
            channel.basic_consume("inventory.reconcile".into(), "test".into(), options, none).await.unwrap();
        consumer.next().await.unwrap().unwrap().reject(BasicRejectOptions { requeue: false }).await.unwrap();
    });
    let dead = &holdco.messages("inventory.reconcile.dlq", 1)[0];
    assert_eq!((dead.exchange.as_str(), dead.routing_key.as_str()), ("holdco.events.dlx", "inventory.reconcile.dlq"));
}

#[test]
fn relays_share_the_table_and_every_row_is_published_once() {
    let holdco = HoldCo::start();
    holdco.system.script(&format!(
        "insert into event_outbox (group_id, subsidiary_id, aggregate_type, aggregate_id, event_type, payload) \
         select '{GROUP}', '{GROUP}', 'order', gen_random_uuid(), 'created', jsonb_build_object('n', n) \
         from generate_series(1, 2000) n"
    ));
    let (first, second) = (holdco.system.relay("first"), holdco.system.relay("second"));
    until("all are published", || {
        holdco.system.query("select count(*) from event_outbox where status = 'published'") == ["2000"]
    });
    first.stop();
    second.stop();
    let mut ids: Vec<String> = holdco
        .messages("analytics.ingest", 2000)
        .iter()
        .map(|message| message.properties.message_id().as_ref().unwrap().to_string())
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 2000, "none twice, none missing");
}

#[test]
fn a_worker_of_the_teams_own_finds_our_rows_locked() {
    let mut holdco = HoldCo::start();
    holdco.insert("order", "created");
    // What its old worker does, beside a relay that cannot reach its broker.
    holdco.system.set("RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:1");
    let relay = holdco.system.relay("ours");
    let free = "select count(*) from (select 1 from event_outbox where status = 'pending' for update skip locked) x";
    until("ours has it", || holdco.system.query(free) == ["0"]);
    relay.stop();
    assert_eq!(
        holdco.system.query("select status, attempts from event_outbox"),
        ["pending 0"],
        "an outage is no failure"
    );
    assert_eq!(holdco.system.query(free), ["1"], "let go at the end");
}

#[test]
fn a_failure_counts_and_waits_as_the_documents_say_and_the_tenth_is_dead() {
    let mut holdco = HoldCo::start();
    // An exchange that nothing is bound to: what comes back is a failure of that event.
    holdco.system.wait(async {
        let connection = Connection::connect(&holdco.url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let options = lapin::options::ExchangeDeclareOptions { durable: true, ..Default::default() };
        let (kind, none) = (lapin::ExchangeKind::Topic, FieldTable::default());
        channel.exchange_declare("bare.events".into(), kind, options, none).await.unwrap();
    });
    holdco.system.set("POSTROOM_ROUTE__HOLDCO__TO__RABBITMQ__EXCHANGE", "bare.events");
    let id = holdco.insert("order", "created");
    let relay = holdco.system.relay("ours");
    let row = "select status, attempts, available_at > now() + interval '7 seconds' as later, \
         available_at <= now() + interval '12 seconds' as soon from event_outbox";
    until("it has failed", || holdco.system.query("select attempts from event_outbox") == ["1"]);
    assert_eq!(holdco.system.query(row), ["pending 1 t t"]);
    holdco.system.script("update event_outbox set attempts = 9, available_at = now()");
    until("it is given up", || holdco.system.query("select status from event_outbox") == ["dead"]);
    relay.stop();
    assert_eq!(holdco.system.query("select attempts from event_outbox"), ["10"]);
    assert_eq!(holdco.system.json(&["dead", "ls"])[0]["id"], json!(id));
}

#[test]
fn what_others_call_failed_is_left_alone_and_counted() {
    let holdco = HoldCo::start();
    holdco.insert("order", "created");
    holdco.system.script("update event_outbox set status = 'failed'");
    holdco.system.drain();
    assert_eq!(holdco.system.query("select status from event_outbox"), ["failed"]);
    let note = holdco.system.json(&["status"])["routes"][0]["note"].to_string();
    assert!(note.contains("1 rows are failed"), "{note}");
}

#[test]
fn published_events_are_replayed_by_aggregate_type_and_time() {
    let holdco = HoldCo::start();
    for aggregate in ["order", "order", "invoice"] {
        holdco.insert(aggregate, "created");
    }
    holdco.system.drain();
    holdco.system.script("update event_outbox set created_at = '2026-01-01T00:00:00Z' where id = (select min(id::text)::uuid from event_outbox where aggregate_type = 'order')");
    let replay = [
        "replay",
        "--yes",
        "--route",
        "holdco",
        "--aggregate-type",
        "order",
        "--from",
        "2026-01-02T00:00:00Z",
        "--to",
        "2100-01-01T00:00:00Z",
    ];
    holdco.system.ok(&replay);
    assert_eq!(holdco.system.query("select aggregate_type from event_outbox where status = 'pending'"), ["order"]);
}

#[test]
fn old_published_rows_go_to_the_archive_where_that_is_wanted() {
    let mut holdco = HoldCo::start();
    holdco.system.script("create table event_outbox_archive (like event_outbox)");
    holdco.system.set("POSTROOM_STORE__MAIN__LAYOUT__PRUNES", "true");
    holdco.system.set("POSTROOM_STORE__MAIN__LAYOUT__ARCHIVE", "event_outbox_archive");
    holdco.system.set("POSTROOM_RETENTION__DELIVERED", "30d");
    holdco.insert("order", "created");
    let old = holdco.insert("invoice", "created");
    holdco.system.drain();
    holdco
        .system
        .script(&format!("update event_outbox set created_at = now() - interval '31 days' where id = '{old}'"));
    holdco.system.ok(&["prune", "--yes"]);
    assert_eq!(holdco.system.query("select id, status from event_outbox_archive"), [format!("{old} published")]);
    assert_eq!(holdco.system.query("select count(*) from event_outbox"), ["1"]);
}

#[test]
fn a_binding_with_half_a_word_is_refused() {
    let mut holdco = HoldCo::start();
    let file = "[topology.queue.\"inventory.reconcile\"]\nbind = [{ exchange = \"holdco.events\", routing_key = \"stock_*.*\" }]\n";
    holdco.system.write("mine.toml", file);
    holdco.system.set("POSTROOM_CONFIG", "mine.toml");
    let said = holdco.system.run(&["config", "check"]);
    assert!(said.code == 2 && said.stderr.contains("stock_*.*"), "{}", said.stderr);
}

#[test]
fn the_indexes_of_the_documents_are_made_and_polls_use_the_first() {
    let holdco = HoldCo::start();
    let indexes =
        "select indexdef from pg_indexes where tablename = 'event_outbox' and indexdef not like '%UNIQUE%' order by 1";
    let made = holdco.system.query(indexes);
    assert!(
        made[0].ends_with("(aggregate_type, aggregate_id)") && made[1].ends_with("(status, available_at)"),
        "{made:?}"
    );
    holdco.system.script(&format!(
        "insert into event_outbox (group_id, aggregate_type, aggregate_id, event_type, payload, status) \
         select '{GROUP}', 'order', gen_random_uuid(), 'created', '{{}}', case when n > 19990 then 'pending' else 'published' end \
         from generate_series(1, 20000) n; analyze event_outbox"
    ));
    holdco.system.drain();
    assert_eq!(holdco.system.query("select count(*) from event_outbox where status = 'pending'"), ["0"]);
    // What a session has scanned is told a moment later.
    let scanned =
        "select idx_scan > 0 from pg_stat_user_indexes where indexrelname = 'event_outbox_status_available_at'";
    until("a poll has used it", || holdco.system.query(scanned) == ["t"]);
}

#[test]
fn every_knob_of_the_documents_is_a_key() {
    let mut holdco = HoldCo::start();
    for (name, value, key) in [
        ("RELAY__TAKE__ROWS", "50", "relay.take.rows"),
        ("STORE__MAIN__POLL__MAX", "3s", "store.main.poll.max"),
        ("ROUTE__HOLDCO__RETRY__ATTEMPTS", "4", "route.holdco.retry.attempts"),
        ("ROUTE__HOLDCO__RETRY__BASE", "2s", "route.holdco.retry.base"),
        ("ROUTE__HOLDCO__RETRY__MAX", "1m", "route.holdco.retry.max"),
    ] {
        holdco.system.set(&format!("POSTROOM_{name}"), value);
        let shown = holdco.system.json(&["config", "show"]);
        let setting = shown.as_array().unwrap().iter().find(|setting| setting["key"] == key).unwrap().clone();
        assert_eq!(setting["value"].as_str().unwrap().trim_matches('"'), value, "{key}");
        assert_eq!(setting["origin"], format!("env POSTROOM_{name}"));
    }
}

#[test]
fn health_and_metrics_are_where_the_documents_say_and_metrics_need_the_token() {
    let mut holdco = HoldCo::start();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    holdco.system.set("METRICS_TOKEN", "canary");
    holdco.system.set("POSTROOM_HTTP__LISTEN", &address);
    holdco.insert("order", "created");
    let relay = holdco.system.relay("ours");
    let published = "postroom_deliveries_total{store=\"main\",route=\"holdco\",result=\"delivered\"} 1";
    let ours = "x-metrics-token: canary";
    // What only the database knows is asked a moment later.
    let dead = "postroom_dead_letters{store=\"main\",route=\"holdco\"} 0";
    let counts = |text: &str| text.contains(published) && text.contains(dead);
    until("the metrics to count it", || counts(&get(&address, "/v1/metrics", ours).1));
    until("the relay to be ready", || get(&address, "/v1/health", ours).0 == "200");
    let (_, health) = get(&address, "/v1/health", ours);
    let health: Value = serde_json::from_str(&health).unwrap();
    assert_eq!((&health["status"], &health["outbox"]["routes"][0]["state"]), (&json!("ok"), &json!("running")));
    for (header, status) in
        [("authorization: Bearer canary", "200"), ("x-metrics-token: other", "401"), ("x: y", "401")]
    {
        assert_eq!(get(&address, "/v1/metrics", header).0, status, "{header}");
    }
    let (status, metrics) = get(&address, "/v1/metrics", ours);
    assert_eq!(status, "200");
    for name in ["delivery_latency_seconds_count", "attempts_total"] {
        assert!(metrics.contains(&format!("postroom_{name}{{store=\"main\",route=\"holdco\"")), "{name}: {metrics}");
    }
    relay.stop();
}
