//! Payments: a service and consumers in Python, a topic per type on Kafka.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

use postroom_e2e::until;
use postroom_examples::Example;
use postroom_presets::Kafka;
use postroom_testbed::unique_name;
use serde_json::Value;

const AUTHORIZED: &str = r#"{"payer_account_id":"alice","payee_account_id":"bob","amount_cents":400,"currency":"USD"}"#;
const PUBLISHED: &str = "select count(*) from outbox where published_at is not null";

fn payments() -> Example {
    let mut payments = Example::new("payments");
    payments.set("REDPANDA_BROKERS", &Kafka::shared().brokers);
    payments.set("KAFKA_TOPIC_PREFIX", &unique_name("payments"));
    // As often as the tests would like to look.
    payments.set("OUTBOX_POLL_INTERVAL_SECONDS", "0.05");
    payments.set("OUTBOX_BASE_DELAY_SECONDS", "0.2");
    let environment = payments.kept("venv");
    payments.set("VENV", environment.to_str().unwrap());
    payments.prepare("packages");
    payments
}

/// With tables and topics, and nothing that runs.
fn at_rest() -> Example {
    let payments = payments();
    payments.sh("make --silent prepared");
    payments
}

/// Puts authorized payments into the outbox whose last attempts were so many.
fn insert(payments: &Example, ids: std::ops::Range<u32>, retry_count: u32) {
    payments.system.script(&format!(
        r"insert into outbox select lpad(n::text, 26, '0'), 'Payment', 'p-' || n % 7, 'PaymentAuthorized',
           jsonb_build_object('payment_id', n::text, 'payer_account_id', 'ada', 'payee_account_id', 'ben', 'amount_cents', 1, 'currency', 'USD'),
           clock_timestamp(), null, {retry_count} from generate_series({}, {}) n",
        ids.start,
        ids.end - 1,
    ));
}

/// With nothing but the service, and two accounts.
fn service(per_minute: &str) -> Example {
    let mut payments = payments();
    payments.set("PAYMENTS_PER_MINUTE", per_minute);
    payments.sh("make --silent tables");
    payments.start("service");
    payments.listens();
    payments.system.script("insert into accounts values ('alice', 'USD', 1000), ('bob', 'USD', 0)");
    payments
}

/// A request for a payment; its status and what is answered.
fn post(payments: &Example, key: Option<&str>, body: &str) -> (u16, Value) {
    let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
    let head = format!("POST /payments HTTP/1.1\r\nHost: payments\r\n{key}");
    let mut stream = TcpStream::connect(payments.variable("LISTEN")).unwrap();
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap())
}

/// How often each event is in a topic.
fn copies(payments: &Example, topic: &str) -> BTreeMap<String, usize> {
    let mut copies = BTreeMap::new();
    for record in Kafka::shared().read(&format!("{}.{topic}", payments.variable("KAFKA_TOPIC_PREFIX"))) {
        *copies.entry(record.json()["event_id"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    copies
}

#[test]
fn the_payment_service_does_what_its_readme_says() {
    let mut payments = payments();
    for section in ["Run it", "Fail, retry, die, replay", "Cutting over"] {
        payments.follow(section);
    }
}

#[test]
fn the_teams_own_sample_consumer_reads_what_the_relay_publishes() {
    let mut payments = payments();
    // It has the names of its topics in its text.
    payments.set("KAFKA_TOPIC_PREFIX", "payments");
    payments.sh("make --silent prepared");
    payments.start("run");
    payments.until_rows("select count(*) > 1 from payments where error_code is null", &["t"]);
    payments.start("run-sample-consumer");
    let id = &payments.system.query("select id from payments where error_code is null limit 1")[0];
    until("the payment is printed", || {
        let said = payments.said("run-sample-consumer");
        let shown = said.split(&format!("Payment authorized: {id}\n")).nth(1).unwrap_or_default();
        let lines: Vec<&str> =
            shown.lines().take(3).filter_map(|line| line.split_once(": ")).map(|line| line.0).collect();
        lines == ["  Amount", "  From", "  To"]
    });
}

#[test]
fn payments_that_the_old_worker_has_left_in_any_state_are_published_or_visibly_dead() {
    let mut payments = at_rest();
    insert(&payments, 1..2, 0);
    insert(&payments, 2..3, 3);
    insert(&payments, 3..4, 5);
    insert(&payments, 4..5, 0);
    payments.system.script("update outbox set published_at = now() - interval '1 day' where id like '%4'");
    insert(&payments, 5..6, 4);
    payments.system.script("update outbox set event_type = 'PaymentForgotten' where id like '%5'");
    payments.start("relay");
    payments.until_rows(PUBLISHED, &["5"]);
    let id = |number: u32| format!("{number:026}");
    assert_eq!(copies(&payments, "paymentauthorized"), [(id(1), 1), (id(2), 1), (id(3), 1)].into());
    assert_eq!(copies(&payments, "dlq"), [(id(5), 1)].into());
    let dead = payments.system.json(&["dead", "ls"]);
    assert_eq!((dead.as_array().unwrap().len(), &dead[0]["id"]), (1, &id(5).into()));
    let counts = payments.system.query("select retry_count from outbox order by id");
    assert_eq!(counts, ["0", "3", "5", "0", "5"], "its tries stay counted");
}

#[test]
fn what_the_old_worker_had_in_flight_when_it_was_killed_comes_twice_and_notifies_once() {
    let mut payments = at_rest();
    insert(&payments, 1..4, 0);
    let mut session = payments.system.begin();
    session.script("select from outbox where id like '%2' for update");
    payments.start("old");
    // It has published the second one and waits to mark it.
    until("the second one is published", || copies(&payments, "paymentauthorized").len() == 2);
    payments.kill("old");
    drop(session);
    payments.start("notifications");
    payments.start("relay");
    payments.until_rows(PUBLISHED, &["3"]);
    payments.until_rows("select count(*) from notifications", &["3"]);
    let counts: Vec<usize> = copies(&payments, "paymentauthorized").into_values().collect();
    assert_eq!(counts, [1, 2, 1]);
}

#[test]
fn old_worker_and_relay_side_by_side_publish_an_event_twice_at_most_and_lose_none() {
    let mut payments = at_rest();
    payments.start("old");
    payments.start("relay");
    payments.start("notifications");
    for start in (1..300).step_by(30) {
        insert(&payments, start..start + 30, 0);
    }
    payments.until_rows(PUBLISHED, &["300"]);
    payments.until_rows("select count(*), count(distinct event_id) from notifications", &["300 300"]);
    payments.stop("old");
    let copies = copies(&payments, "paymentauthorized");
    assert_eq!(copies.len(), 300);
    assert!(copies.values().all(|count| *count <= 2), "{copies:?}");
    assert_eq!(payments.system.json(&["dead", "ls"]), serde_json::json!([]));
}

#[test]
fn the_old_payment_worker_goes_on_with_what_the_relay_has_left() {
    let mut payments = at_rest();
    payments.set("OUTBOX_BASE_DELAY_SECONDS", "60");
    insert(&payments, 1..3, 0);
    payments.system.script("update outbox set event_type = 'PaymentForgotten' where id like '%1'");
    payments.start("relay");
    payments.until_rows(
        "select id like '%2' and published_at is not null, retry_count from outbox order by id",
        &["f 1", "t 0"],
    );
    payments.stop("relay");
    insert(&payments, 3..5, 0);
    payments.set("OUTBOX_BASE_DELAY_SECONDS", "0.05");
    payments.start("old");
    payments.until_rows("select id from outbox where published_at is null", &[]);
    assert_eq!(copies(&payments, "paymentauthorized").into_values().collect::<Vec<_>>(), [1, 1, 1]);
    assert_eq!(copies(&payments, "dlq").into_values().collect::<Vec<_>>(), [1]);
}

#[test]
fn every_decline_code_is_answered_and_told_once_and_moves_no_money() {
    let payments = service("2");
    payments.system.script("insert into accounts values ('carol', 'EUR', 0)");
    let body = |payer: &str, payee: &str, cents: i64| {
        format!(
            r#"{{"payer_account_id":"{payer}","payee_account_id":"{payee}","amount_cents":{cents},"currency":"USD"}}"#
        )
    };
    let cases = [
        (body("alice", "bob", 1001), 422, "INSUFFICIENT_FUNDS"),
        (body("alice", "nobody", 1), 422, "ACCOUNT_NOT_FOUND"),
        (body("alice", "bob", 1), 429, "RATE_LIMITED"),
        (body("bob", "alice", 0), 422, "INVALID_AMOUNT"),
        (body("bob", "bob", 1), 422, "SAME_ACCOUNT"),
        (body("carol", "bob", 1), 422, "CURRENCY_MISMATCH"),
    ];
    let mut expected = Vec::new();
    for (body, status, code) in &cases {
        let (answered, answer) = post(&payments, None, body);
        assert_eq!((answered, answer["error_code"].as_str().unwrap()), (*status, *code));
        expected.push(format!("PaymentDeclined {} {code}", answer["payment_id"].as_str().unwrap()));
    }
    for broken in ["{}", "no JSON", &body("a\\u0000b", "bob", 1)] {
        assert_eq!(post(&payments, None, broken).0, 400, "{broken}");
    }
    let told = "select event_type, payload->>'payment_id', payload->>'error_code' from outbox order by created_at";
    assert_eq!(payments.system.query(told), expected);
    let money = "select sum(balance_cents), (select count(*) from ledger_entries) from accounts";
    assert_eq!(payments.system.query(money), ["1000 0"]);
}

#[test]
fn a_request_repeated_with_its_key_gets_the_same_answer_and_makes_no_second_event() {
    let payments = service("60");
    let answers: Vec<_> = thread::scope(|scope| {
        let requests: Vec<_> = (0..8).map(|_| scope.spawn(|| post(&payments, Some("k-1"), AUTHORIZED))).collect();
        requests.into_iter().map(|request| request.join().unwrap()).collect()
    });
    assert_eq!(answers[0].0, 201);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!(post(&payments, Some("k-1"), &AUTHORIZED.replace("400", "500")).0, 409);
    // A declined one is repeated as it was, also when there is money meanwhile.
    let declined = post(&payments, Some("k-2"), &AUTHORIZED.replace("400", "601"));
    payments.system.script("update accounts set balance_cents = 5000 where id = 'alice'");
    assert_eq!(post(&payments, Some("k-2"), &AUTHORIZED.replace("400", "601")), declined);
    assert_eq!(
        payments.system.query("select event_type from outbox order by created_at"),
        ["PaymentAuthorized", "PaymentDeclined"]
    );
}

#[test]
fn payments_at_the_same_time_never_spend_more_than_there_is() {
    let payments = service("60");
    thread::scope(|scope| {
        (0..8).for_each(|_| drop(scope.spawn(|| post(&payments, None, AUTHORIZED))));
    });
    let told = "select event_type, count(*) from outbox group by 1 order by 1";
    assert_eq!(payments.system.query(told), ["PaymentAuthorized 2", "PaymentDeclined 6"]);
    assert_eq!(payments.system.query("select balance_cents from accounts order by id"), ["200", "800"]);
}

#[test]
fn a_payment_event_that_breaks_its_schema_stands_among_the_dead_letters_only() {
    let mut payments = at_rest();
    let good = r#"{"payment_id":"p","payer_account_id":"a","payee_account_id":"b","amount_cents":1,"currency":"USD"}"#;
    let declined = r#"{"payment_id":"p","payer_account_id":"a","error_code":"SAME_ACCOUNT"}"#;
    let no_payee = good.replace(r#""payee_account_id":"b","#, "");
    let rows = [
        ("01K00000000000000000000001", "Payment", "PaymentAuthorized", good.replace(":1,", ":0,")),
        ("01K00000000000000000000002", "Payment", "PaymentAuthorized", good.replace("USD", "usd")),
        ("01K00000000000000000000003", "Payment", "PaymentAuthorized", no_payee),
        ("01K00000000000000000000004", "Refund", "PaymentAuthorized", good.to_owned()),
        ("01K0000000000000000000005", "Payment", "PaymentAuthorized", good.to_owned()),
        ("01K00000000000000000000006", "Payment", "PaymentDeclined", declined.replace("SAME_ACCOUNT", "NO_MOOD")),
        ("01K00000000000000000000007", "Payment", "PaymentDeclined", declined.replace("payer_account_id", "payer")),
        ("01K00000000000000000000008", "Payment", "PaymentAuthorized", good.to_owned()),
        ("01K00000000000000000000009", "Payment", "PaymentDeclined", declined.to_owned()),
    ];
    for (id, aggregate, event_type, payload) in &rows {
        payments.system.script(&format!(
            "insert into outbox values ('{id}', '{aggregate}', '{id}', '{event_type}', '{payload}', clock_timestamp())"
        ));
    }
    payments.start("relay");
    payments.until_rows(PUBLISHED, &["9"]);
    let ids = |rows: &[(&str, &str, &str, String)]| rows.iter().map(|row| (row.0.to_owned(), 1)).collect();
    let expected: [BTreeMap<String, usize>; 3] = [ids(&rows[..7]), ids(&rows[7..8]), ids(&rows[8..])];
    assert_eq!(["dlq", "paymentauthorized", "paymentdeclined"].map(|topic| copies(&payments, topic)), expected);
}
