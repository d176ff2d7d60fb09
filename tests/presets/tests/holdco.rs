//! HoldCo eventing (`--preset holdco`): `event_outbox` shared by row locks, to RabbitMQ with its queues and dead-letter queues.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as documented fails the test")]

use std::net::TcpListener;

use futures_util::StreamExt as _;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicRejectOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties, message::Delivery};
use postroom_e2e::until;
use postroom_presets::{System, get};
use postroom_testbed::proxy::Mode;
use postroom_testbed::{Collector, FaultProxy, OwnServer, Servers, brokers};
use serde_json::{Value, json};

const GROUP: &str = "11111111-1111-4111-8111-111111111111";
const SUBSIDIARY: &str = "33333333-3333-4333-8333-333333333333";
const ORDER: &str = "22222222-2222-4222-8222-222222222222";

/// A system on a virtual host of its own: exchanges and queues have the names of the documents.
struct HoldCo {
    system: System,
    url: String,
}

impl HoldCo {
    fn start() -> Self {
        let system = System::new("holdco");
        let url = system.virtual_host();
        Self::with(system, url)
    }

    /// On a broker of its own.
    fn on(server: &OwnServer) -> Self {
        Self::with(System::new("holdco"), format!("amqp://guest:guest@127.0.0.1:{}", server.site.port))
    }

    fn with(mut system: System, url: String) -> Self {
        system.set("RABBITMQ_URL", &url);
        Self { system, url }
    }

    /// An exchange of its own that nothing is bound to: what comes back is a failure of that event.
    fn publish_to_nobody(&mut self) {
        self.system.wait(async {
            let connection = Connection::connect(&self.url, ConnectionProperties::default()).await.unwrap();
            let channel = connection.create_channel().await.unwrap();
            let options = lapin::options::ExchangeDeclareOptions { durable: true, ..Default::default() };
            let (kind, none) = (lapin::ExchangeKind::Topic, FieldTable::default());
            channel.exchange_declare("bare.events".into(), kind, options, none).await.unwrap();
        });
        self.system.set("POSTROOM_ROUTE__HOLDCO__TO__RABBITMQ__EXCHANGE", "bare.events");
    }

    /// Has the relay serve HTTP there.
    fn listen(&mut self) -> String {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        self.system.set("POSTROOM_HTTP__LISTEN", &address);
        address
    }

    /// The line of the log of `work_until` with this message about an event.
    fn log_line(&self, id: &str, message: &str) -> Value {
        let log = self.system.log("relay");
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["event_id"] == id && line["message"] == message).unwrap_or_else(|| panic!("{log}"))
    }

    /// The routing keys of so many messages of a queue.
    fn keys(&self, queue: &str, count: usize) -> Vec<String> {
        let mut keys: Vec<String> =
            self.messages(queue, count).iter().map(|message| message.routing_key.to_string()).collect();
        keys.sort();
        keys
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

fn header(delivery: &Delivery, name: &str) -> Option<AMQPValue> {
    delivery.properties.headers().as_ref()?.inner().get(name).cloned()
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

/// Rows that nobody has locked.
const FREE: &str =
    "select count(*) from (select 1 from event_outbox where status = 'pending' for update skip locked) x";

/// Transactions of relays that have been open for longer than the lease of two seconds.
const LONG: &str = "select count(*) from pg_stat_activity where datname = current_database() \
                    and application_name = 'postroom' and xact_start < now() - interval '2 seconds'";

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
            ("x-event-id", Some(text(&id))),
            ("x-aggregate-type", Some(text("order"))),
            ("x-aggregate-id", Some(text(ORDER))),
            ("x-group-id", Some(text(GROUP))),
            ("x-subsidiary-id", None),
            ("x-event-type", Some(text("created"))),
            ("x-attempts", Some(AMQPValue::LongInt(0))),
        ];
        for (name, value) in expected {
            assert_eq!(header(message, name), value, "{name}");
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
fn the_subsidiary_and_the_number_of_failed_tries_are_in_the_envelope_and_the_headers() {
    let holdco = HoldCo::start();
    holdco.insert("order", "created");
    holdco.system.script(&format!("update event_outbox set subsidiary_id = '{SUBSIDIARY}', attempts = 3"));
    holdco.system.drain();
    let message = &holdco.messages("notifications", 1)[0];
    assert_eq!(header(message, "x-group-id"), Some(text(GROUP)));
    assert_eq!(header(message, "x-subsidiary-id"), Some(text(SUBSIDIARY)));
    assert_eq!(header(message, "x-attempts"), Some(AMQPValue::LongInt(3)), "a number, as a count is");
    let body: Value = serde_json::from_slice(&message.data).unwrap();
    assert_eq!((&body["group_id"], &body["subsidiary_id"]), (&json!(GROUP), &json!(SUBSIDIARY)));
    assert_eq!(holdco.system.query("select status, attempts from event_outbox"), ["published 3"]);
}

#[test]
fn every_stock_and_price_aggregate_reaches_its_queue_when_it_is_first_seen_and_after_a_restart_of_the_broker() {
    let server = OwnServer::start(&brokers::RabbitMq).unwrap();
    let mut holdco = HoldCo::on(&server);
    holdco.system.set("POSTROOM_RELAY__LEASE", "2s");
    holdco.system.set("POSTROOM_ROUTE__HOLDCO__BREAKER__COOLDOWN_MAX", "1s");
    for (aggregate, event) in [("stock_transfer", "posted"), ("price_rule", "updated"), ("stock", "counted")] {
        holdco.insert(aggregate, event);
    }
    let relay = holdco.system.relay("ours");
    let published =
        |count: &str| holdco.system.query("select count(*) from event_outbox where status = 'published'") == [count];
    until("the first are published", || published("3"));
    server.stop().unwrap();
    for (aggregate, event) in [("stock_count", "posted"), ("stock_transfer", "undone"), ("price_list", "changed")] {
        holdco.insert(aggregate, event);
    }
    until("the breaker is open", || holdco.system.route("holdco")["state"] == "breaker_open");
    until("their rows are free", || holdco.system.query(FREE) == ["3"]);
    server.resume().unwrap();
    until("all are published", || published("6"));
    relay.stop();
    assert_eq!(holdco.system.query("select max(attempts) from event_outbox"), ["0"]);
    let stock = ["stock_count.posted", "stock_transfer.posted", "stock_transfer.undone"];
    assert_eq!(holdco.keys("inventory.reconcile", 3), stock);
    assert_eq!(holdco.keys("pricing.refresh", 2), ["price_list.changed", "price_rule.updated"]);
    assert_eq!(holdco.keys("analytics.ingest", 6).len(), 6);
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
    assert_eq!(holdco.keys("analytics.ingest", 4).len(), 4);
    assert_eq!(holdco.keys("erp.sync", 2), ["invoice.created", "payment_intent.failed"]);
    assert_eq!(holdco.keys("pricing.refresh", 1), ["price_list.changed"]);
    assert_eq!(holdco.keys("notifications", 1), ["payment_intent.failed"]);
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
    // What its old worker does, beside a relay whose broker has not answered yet.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    holdco.system.set("RABBITMQ_URL", &format!("amqp://guest:guest@{}", silent.local_addr().unwrap()));
    let relay = holdco.system.relay("ours");
    until("ours has it", || holdco.system.query(FREE) == ["0"]);
    relay.stop();
    assert_eq!(
        holdco.system.query("select status, attempts from event_outbox"),
        ["pending 0"],
        "an outage is no failure"
    );
    assert_eq!(holdco.system.query(FREE), ["1"], "let go at the end");
}

#[test]
fn while_rabbitmq_is_away_no_transaction_stays_open_and_no_try_is_counted() {
    let mut holdco = HoldCo::start();
    for _ in 0..20 {
        holdco.insert("order", "created");
    }
    holdco.system.set("POSTROOM_RELAY__LEASE", "2s");
    holdco.system.set("POSTROOM_ROUTE__HOLDCO__BREAKER__COOLDOWN_MAX", "1s");
    holdco.system.set("RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:1");
    let relay = holdco.system.relay("ours");
    let refused = |times: usize| holdco.system.log("ours").matches("rabbitmq.unreachable").count() >= times;
    let mut longest = 0;
    until("it was tried again and again", || {
        longest = longest.max(holdco.system.query(LONG)[0].parse().unwrap());
        refused(6)
    });
    assert_eq!(longest, 0, "transactions that were open for longer than the lease");
    until("all rows are free", || holdco.system.query(FREE) == ["20"]);
    let state = holdco.system.route("holdco")["state"].to_string();
    assert!(state.contains("breaker_open") || state.contains("half_open"), "{state}");
    assert_eq!(holdco.system.query("select max(attempts) from event_outbox"), ["0"]);
    relay.stop();
}

#[test]
fn a_paused_route_holds_no_row_locked() {
    let mut holdco = HoldCo::start();
    holdco.insert("order", "created");
    holdco.system.set("POSTROOM_ROUTE__HOLDCO__RATE", "1/s");
    let relay = holdco.system.relay("ours");
    until("one is published", || {
        holdco.system.query("select count(*) from event_outbox where status = 'published'") == ["1"]
    });
    for _ in 0..20 {
        holdco.insert("order", "created");
    }
    until("ours has some", || holdco.system.query(FREE)[0].parse::<u32>().unwrap() < 15);
    holdco.system.ok(&["route", "pause", "holdco"]);
    until("it has let go of them", || {
        holdco.system.query(FREE) == holdco.system.query("select count(*) from event_outbox where status = 'pending'")
    });
    relay.stop();
}

#[test]
fn an_event_that_no_queue_gets_is_warned_of_once_per_routing_key_and_counted() {
    let mut holdco = HoldCo::start();
    holdco.publish_to_nobody();
    holdco.system.set("POSTROOM_ROUTE__HOLDCO__TO__RABBITMQ__UNROUTABLE", "accept");
    let address = holdco.listen();
    for event in ["created", "created", "cancelled"] {
        holdco.insert("order", event);
    }
    let relay = holdco.system.relay("ours");
    let counted =
        "postroom_attempts_total{store=\"main\",route=\"holdco\",outcome=\"delivered\",code=\"rabbitmq.unroutable\"} 3";
    until("they are counted", || get(&address, "/metrics", "accept: text/plain").1.contains(counted));
    relay.stop();
    assert_eq!(holdco.system.query("select distinct status from event_outbox"), ["published"]);
    let log = holdco.system.log("ours");
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let mut warned: Vec<(String, String)> = lines
        .iter()
        .filter(|line| line["code"] == "rabbitmq.unroutable" && line["level"] == "WARN")
        .map(|line| (line["routing_key"].as_str().unwrap().to_owned(), line["event_type"].as_str().unwrap().to_owned()))
        .collect();
    warned.sort();
    let expected = [("order.cancelled", "cancelled"), ("order.created", "created")];
    assert_eq!(warned, expected.map(|(key, kind)| (key.to_owned(), kind.to_owned())), "{log}");
}

#[test]
fn a_failure_counts_and_waits_as_the_documents_say_and_the_tenth_is_dead() {
    let mut holdco = HoldCo::start();
    holdco.publish_to_nobody();
    let address = holdco.listen();
    let id = holdco.insert("order", "created");
    let relay = holdco.system.relay("ours");
    let row = "select status, attempts, available_at > now() + interval '1 second' as later, \
         available_at <= now() + interval '6 seconds' as soon from event_outbox";
    until("it has failed", || holdco.system.query("select attempts from event_outbox") == ["1"]);
    assert_eq!(holdco.system.query(row), ["pending 1 t t"]);
    holdco.system.script("update event_outbox set attempts = 9, available_at = now()");
    until("it is given up", || holdco.system.query("select status from event_outbox") == ["dead"]);
    let dead = "postroom_dead_letters{store=\"main\",route=\"holdco\"} 1";
    until("it is counted", || get(&address, "/metrics", "accept: text/plain").1.contains(dead));
    relay.stop();
    assert_eq!(holdco.system.query("select attempts from event_outbox"), ["10"]);
    assert_eq!(holdco.system.json(&["dead", "ls"])[0]["id"], json!(id));
}

#[test]
fn each_delay_is_twice_the_one_before_up_to_fifteen_minutes_with_all_its_jitter() {
    let mut holdco = HoldCo::start();
    holdco.publish_to_nobody();
    let ids: Vec<String> = (0..9).map(|_| holdco.insert("order", "created")).collect();
    for (attempts, id) in ids.iter().enumerate() {
        holdco.system.script(&format!("update event_outbox set attempts = {attempts} where id = '{id}'"));
    }
    let relay = holdco.system.relay("ours");
    let open = "select count(*) from event_outbox where available_at <= now()";
    until("each has failed once more", || holdco.system.query(open) == ["0"]);
    // Now, and not when they failed: the delay was longer by what has passed since.
    let seconds = holdco
        .system
        .query("select floor(extract(epoch from available_at - now())) from event_outbox order by attempts");
    relay.stop();
    // As in payments: the exponent is the number of failures before this one.
    for (before, left) in (0_i32..).zip(&seconds) {
        let (left, plain) = (left.parse::<f64>().unwrap(), (2_f64.powi(before) * 5.0).min(900.0));
        assert!(
            left > plain - 9.0 && left <= (plain * 1.2).min(900.0),
            "after {before} failures {left} s, not {plain} s"
        );
    }
    assert_eq!(seconds.len(), 9);
}

#[test]
fn what_others_call_failed_is_left_alone_and_counted() {
    let holdco = HoldCo::start();
    holdco.insert("order", "created");
    holdco.system.script("update event_outbox set status = 'failed'");
    holdco.system.drain();
    assert_eq!(holdco.system.query("select status from event_outbox"), ["failed"]);
    let note = holdco.system.json(&["status"])["routes"][0]["message"].to_string();
    assert!(note.contains("1 rows are failed"), "{note}");
}

#[test]
fn published_events_are_replayed_by_aggregate_type_and_time() {
    let holdco = HoldCo::start();
    let ago = |hours: u32| {
        let sql = format!("select to_char(now() - interval '{hours} hours', 'YYYY-MM-DD\"T\"HH24:MI:SSOF:00')");
        holdco.system.query(&sql)[0].clone()
    };
    for (aggregate, hours) in [("order", 9), ("order", 5), ("invoice", 5), ("order", 1)] {
        let id = holdco.insert(aggregate, "created");
        let event = format!("at_{hours}");
        holdco.system.script(&format!(
            "update event_outbox set created_at = '{}', event_type = '{event}' where id = '{id}'",
            ago(hours)
        ));
    }
    holdco.system.drain();
    let (from, to) = (ago(7), ago(3));
    let between = ["--from", &from, "--to", &to];
    let replay = ["replay", "--yes", "--route", "holdco", "--aggregate-type", "order"];
    holdco.system.ok(&[&replay[..], &between[..]].concat());
    assert_eq!(
        holdco.system.query("select aggregate_type, event_type from event_outbox where status = 'pending'"),
        ["order at_5"],
        "not the one before, nor the one after"
    );
}

#[test]
fn an_operator_replays_the_events_of_one_group_and_those_of_no_other() {
    let holdco = HoldCo::start();
    let other = "44444444-4444-4444-8444-444444444444";
    let (ours, theirs) = (holdco.insert("order", "created"), holdco.insert("order", "created"));
    holdco.system.script(&format!("update event_outbox set group_id = '{other}' where id = '{theirs}'"));
    holdco.system.drain();
    let seen = |tenant: &str| holdco.system.json(&["event", "ls", "--tenant", tenant]);
    assert_eq!(seen(GROUP).as_array().unwrap().len(), 1);
    assert_eq!(seen(GROUP)[0]["id"], json!(ours));
    holdco.system.ok(&["replay", "--yes", "--route", "holdco", "--tenant", other]);
    assert_eq!(holdco.system.query("select id from event_outbox where status = 'pending'"), [theirs]);
    for (id, group) in
        [(&ours, GROUP), (&holdco.system.query("select id from event_outbox where status = 'pending'")[0], other)]
    {
        let found = holdco.messages("analytics.ingest", 1);
        assert_eq!(header(&found[0], "x-group-id"), Some(text(group)), "{id}");
    }
}

#[test]
fn old_published_rows_go_to_the_archive_where_that_is_wanted() {
    let mut holdco = HoldCo::start();
    holdco.system.script("create table event_outbox_archive (like event_outbox)");
    holdco.system.set("POSTROOM_STORE__MAIN__MAPPING__PRUNES", "true");
    holdco.system.set("POSTROOM_STORE__MAIN__MAPPING__ARCHIVE", "event_outbox_archive");
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
fn each_try_is_a_span_with_the_events_id_and_its_group() {
    let collector = Collector::start();
    let mut holdco = HoldCo::start();
    holdco.publish_to_nobody();
    holdco.system.set("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{}", collector.address));
    holdco.system.set("OTEL_TRACES_SAMPLER_ARG", "1");
    let id = holdco.insert("order", "created");
    holdco.system.work_until("it has failed", || holdco.system.query("select attempts from event_outbox") == ["1"]);
    let bodies: Vec<u8> = collector.taken().into_iter().flat_map(|posted| posted.body).collect();
    let text = String::from_utf8_lossy(&bodies);
    for told in [id.as_str(), GROUP, "postroom.tenant", "rabbitmq.unroutable"] {
        assert!(text.contains(told), "no {told}: {text}");
    }
    assert!(!text.contains("ORD-0001"), "{text}");
    let line = holdco.log_line(&id, "delivery failed and will be tried again");
    assert_eq!((&line["tenant_id"], &line["attempt"]), (&json!(GROUP), &json!(1)));
    let trace: Vec<u8> = line["trace_id"].as_str().unwrap().as_bytes().chunks(2).map(hex).collect();
    assert!(bodies.windows(16).any(|bytes| bytes == trace), "the trace that the log names is the one of the span");
}

fn hex(digits: &[u8]) -> u8 {
    u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()
}

#[test]
fn what_becomes_of_each_event_and_how_long_it_took_is_in_the_log() {
    let mut holdco = HoldCo::start();
    holdco.system.set("RUST_LOG", "info,postroom_relay=debug");
    let id = holdco.insert("order", "created");
    holdco
        .system
        .work_until("it is published", || holdco.system.query("select status from event_outbox") == ["published"]);
    let line = holdco.log_line(&id, "delivered");
    assert_eq!((&line["tenant_id"], &line["attempt"]), (&json!(GROUP), &json!(1)));
    assert!(line["took_ms"].is_u64() && !line.to_string().contains("ORD-0001"), "{line}");
}

#[test]
fn a_binding_with_half_a_word_is_refused_where_the_relay_may_bind_nothing() {
    let mut holdco = HoldCo::start();
    holdco.system.set("POSTROOM_TOPOLOGY__MODE", "check");
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
fn the_batch_size_the_tries_and_the_first_and_longest_delay_are_those_that_are_set() {
    let mut holdco = HoldCo::start();
    for _ in 0..100 {
        holdco.insert("order", "created");
    }
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    holdco.system.set("POSTROOM_RELAY__TAKE__ROWS", "3");
    holdco.system.set("POSTROOM_RELAY__IN_FLIGHT_MAX", "12");
    let url = holdco.url.clone();
    holdco.system.set("RABBITMQ_URL", &format!("amqp://guest:guest@{}", silent.local_addr().unwrap()));
    let relay = holdco.system.relay("small");
    let mut locked = 0;
    until("it holds all that it may", || {
        locked = locked.max(100 - holdco.system.query(FREE)[0].parse::<u32>().unwrap());
        locked >= 12
    });
    assert_eq!(locked, 12, "four takes of three rows");
    relay.stop();
    holdco.system.set("RABBITMQ_URL", &url);
    holdco.publish_to_nobody();
    holdco.system.script("delete from event_outbox");
    holdco.system.set("POSTROOM_ROUTE__HOLDCO__RETRY__BASE", "40s");
    holdco.system.set("POSTROOM_ROUTE__HOLDCO__RETRY__MAX", "1m");
    holdco.system.set("POSTROOM_ROUTE__HOLDCO__RETRY__ATTEMPTS", "3");
    let ids: Vec<String> = (0..3).map(|_| holdco.insert("order", "created")).collect();
    for (attempts, id) in ids.iter().enumerate() {
        holdco.system.script(&format!("update event_outbox set attempts = {attempts} where id = '{id}'"));
    }
    let relay = holdco.system.relay("patient");
    let told = "select status, attempts, available_at > now() + interval '30 seconds' as first, \
                available_at > now() + interval '50 seconds' as longest, \
                available_at <= now() + interval '60 seconds' as within from event_outbox order by attempts";
    until("each has failed once more", || holdco.system.query("select min(attempts) from event_outbox") == ["1"]);
    until("the last is dead", || {
        holdco.system.query("select count(*) from event_outbox where status = 'dead'") == ["1"]
    });
    let rows = holdco.system.query(told);
    relay.stop();
    assert_eq!((rows[0].as_str(), rows[1].as_str()), ("pending 1 t f t", "pending 2 t t t"));
    assert!(rows[2].starts_with("dead 3"), "{rows:?}");
}

#[test]
fn health_and_metrics_are_where_the_documents_say_and_metrics_need_the_token() {
    let mut holdco = HoldCo::start();
    let address = holdco.listen();
    holdco.system.set("METRICS_TOKEN", "canary");
    holdco.insert("order", "created");
    let relay = holdco.system.relay("ours");
    let published = "postroom_deliveries_total{store=\"main\",route=\"holdco\",result=\"delivered\"} 1";
    let ours = "x-metrics-token: canary";
    // What only the database knows is asked a moment later.
    let dead = "postroom_dead_letters{store=\"main\",route=\"holdco\"} 0";
    let counts = |text: &str| text.contains(published) && text.contains(dead);
    until("the metrics to count it", || counts(&get(&address, "/v1/metrics", ours).1));
    let nobody = "x: y";
    until("the relay to be ready", || get(&address, "/v1/health", nobody).0 == "200");
    for who in [nobody, ours] {
        let (_, health) = get(&address, "/v1/health", who);
        assert!(!health.contains("canary") && !health.contains("guest") && !health.contains("ORD-0001"), "{health}");
        let health: Value = serde_json::from_str(&health).unwrap();
        assert_eq!((&health["status"], &health["outbox"]["routes"][0]["state"]), (&json!("ok"), &json!("running")));
        assert_eq!(health["outbox"]["problems"].is_null(), who == nobody, "what others said needs the token");
    }
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

#[test]
fn what_waits_in_each_queue_is_read_from_the_broker_and_unknown_while_it_is_down() {
    let mut holdco = HoldCo::start();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let port = Servers::find().port("rabbitmq");
    let proxy = holdco.system.wait(FaultProxy::to(port));
    let behind = holdco.url.replace(&port.to_string(), &proxy.port().to_string());
    for (name, value) in [
        ("RABBITMQ_URL", behind.as_str()),
        ("POSTROOM_HTTP__LISTEN", &address),
        ("POSTROOM_ROUTE__HOLDCO__TO__RABBITMQ__CONSUMERS__EVERY", "1s"),
        // A status is as old as a heartbeat.
        ("POSTROOM_RELAY__LEASE", "3s"),
    ] {
        holdco.system.set(name, value);
    }
    for _ in 0..4 {
        holdco.insert("invoice", "created");
    }
    let relay = holdco.system.relay("ours");
    let metric = |queue: &str, value: &str| {
        let labels = format!("store=\"main\",route=\"holdco\",destination=\"holdco.events\",consumer=\"{queue}\"");
        get(&address, "/metrics", "x: y").1.contains(&format!("postroom_consumer_lag_messages{{{labels}}} {value}\n"))
    };
    let status = |system: &System, queue: &str| {
        let consumers = system.route("holdco")["consumers"]["consumers"].clone();
        consumers.as_array().and_then(|list| list.iter().find(|lag| lag["consumer"] == queue).cloned())
    };
    let lag = |queue: &str, messages: Value, members: Value| {
        Some(json!({ "destination": "holdco.events", "consumer": queue, "messages": messages, "members": members }))
    };
    until("the metrics to say 4", || metric("erp.sync", "4") && metric("analytics.ingest", "4"));
    assert!(metric("pricing.refresh", "0"), "a queue that gets nothing of it is up to date");
    until("the status to say 4", || status(&holdco.system, "erp.sync") == lag("erp.sync", json!(4), json!(0)));
    assert_eq!(holdco.messages("erp.sync", 4).len(), 4);
    until("the metrics to say 0", || metric("erp.sync", "0"));
    until("the status to say 0", || status(&holdco.system, "erp.sync") == lag("erp.sync", json!(0), json!(0)));

    holdco.system.wait(proxy.set(Mode::Refuse));
    until("the metrics to know nothing", || metric("analytics.ingest", "NaN"));
    let unknown = || lag("analytics.ingest", Value::Null, Value::Null);
    until("the status to know nothing", || status(&holdco.system, "analytics.ingest") == unknown());
    let table = holdco.system.ok(&["route", "show", "holdco"]);
    // The connection was lost at first, and cannot be made again.
    let told = table.contains("rabbitmq.unreachable") || table.contains("rabbitmq.lost");
    assert!(told && !table.contains("guest"), "{table}");
    holdco.system.wait(proxy.set(Mode::Pass));
    until("the metrics to know again", || metric("analytics.ingest", "4"));
    relay.stop();
}
