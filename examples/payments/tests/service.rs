//! The payment service as its README runs it: `make run`, requests, and the sample consumer in Python.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

mod world;

use std::thread;

use crate::world::Service;

const AUTHORIZED: &str = r#"{"payer_account_id":"alice","payee_account_id":"bob","amount_cents":400,"currency":"USD"}"#;
const MAKE: [&str; 3] = ["make", "--silent", "run-sample-consumer"];

#[test]
fn the_payment_service_does_what_its_readme_says() {
    let service = Service::start("60");
    let readme = include_str!("../README.md");
    let session = readme.split("```console\n").nth(1).unwrap().split("```").next().unwrap();
    let (requests, consumer) = session.split_once("$ make run-sample-consumer").unwrap();
    let mut lines = requests.lines().peekable();
    while let Some(line) = lines.next() {
        let said = service.sh(line.strip_prefix("$ ").unwrap());
        let shown = lines.next_if(|line| !line.starts_with("$ ")).unwrap_or_default();
        assert_eq!(without_ids(&said), shown.replace('…', "ID"), "{line}");
    }
    let shown: Vec<String> = consumer.lines().skip(1).map(|line| line.replace('…', "ID")).collect();
    let printed = service.consumed(&MAKE, 2);
    let mut printed: Vec<String> = printed.iter().map(|line| without_ids(line)).collect();
    printed.sort();
    assert_eq!(printed, shown);
    assert_eq!(service.system.query("select id, balance_cents from accounts order by id"), ["alice 5000", "bob 5000"]);
    let entries = "select account_id, amount_cents from ledger_entries order by amount_cents";
    assert_eq!(service.system.query(entries), ["alice -5000", "bob 5000"]);
}

/// Ids are of 26 characters of Crockford's alphabet.
fn without_ids(text: &str) -> String {
    let is_id = |word: &&str| word.len() == 26 && word.chars().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
    let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(is_id).collect();
    words.iter().fold(text.trim_end().to_owned(), |text, id| text.replace(id, "ID"))
}

#[test]
fn every_decline_code_is_answered_and_told_once_and_moves_no_money() {
    let service = Service::start("2");
    service.system.script("insert into accounts values ('alice', 'USD', 100), ('bob', 'USD', 0), ('carol', 'EUR', 0)");
    let body = |payer: &str, payee: &str, cents: i64| {
        format!(
            r#"{{"payer_account_id":"{payer}","payee_account_id":"{payee}","amount_cents":{cents},"currency":"USD"}}"#
        )
    };
    let cases = [
        (body("alice", "bob", 101), 422, "INSUFFICIENT_FUNDS"),
        (body("alice", "nobody", 1), 422, "ACCOUNT_NOT_FOUND"),
        (body("alice", "bob", 1), 429, "RATE_LIMITED"),
        (body("bob", "alice", 0), 422, "INVALID_AMOUNT"),
        (body("bob", "bob", 1), 422, "SAME_ACCOUNT"),
        (body("carol", "bob", 1), 422, "CURRENCY_MISMATCH"),
    ];
    let mut expected = Vec::new();
    for (body, status, code) in &cases {
        let (answered, answer) = service.post(None, body);
        assert_eq!((answered, answer["error_code"].as_str().unwrap()), (*status, *code));
        expected.push(format!("Payment declined: {}: {code}", answer["payment_id"].as_str().unwrap()));
    }
    for broken in ["{}", "no JSON", &body("a\\u0000b", "bob", 1)] {
        assert_eq!(service.post(None, broken).0, 400, "{broken}");
    }
    let mut printed = service.consumed(&["python3", "scripts/sample_consumer.py"], cases.len());
    printed.sort();
    expected.sort();
    assert_eq!(printed, expected);
    assert_eq!(service.system.query("select count(*) from outbox"), ["6"]);
    assert_eq!(
        service.system.query("select sum(balance_cents), (select count(*) from ledger_entries) from accounts"),
        ["100 0"]
    );
}

#[test]
fn a_request_repeated_with_its_key_gets_the_same_answer_and_makes_no_second_event() {
    let service = Service::start("60");
    service.system.script("insert into accounts values ('alice', 'USD', 1000), ('bob', 'USD', 0)");
    let answers: Vec<_> = thread::scope(|scope| {
        let requests: Vec<_> = (0..8).map(|_| scope.spawn(|| service.post(Some("k-1"), AUTHORIZED))).collect();
        requests.into_iter().map(|request| request.join().unwrap()).collect()
    });
    assert_eq!(answers[0].0, 201);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!(service.post(Some("k-1"), &AUTHORIZED.replace("400", "500")).0, 409);
    // A declined one is repeated as it was, also when there is money meanwhile.
    let declined = service.post(Some("k-2"), &AUTHORIZED.replace("400", "601"));
    service.system.script("update accounts set balance_cents = 5000 where id = 'alice'");
    assert_eq!(service.post(Some("k-2"), &AUTHORIZED.replace("400", "601")), declined);
    assert_eq!(
        service.system.query("select event_type from outbox order by id"),
        ["PaymentAuthorized", "PaymentDeclined"]
    );
}

#[test]
fn payments_at_the_same_time_never_spend_more_than_there_is() {
    let service = Service::start("60");
    service.system.script("insert into accounts values ('alice', 'USD', 1000), ('bob', 'USD', 0)");
    thread::scope(|scope| {
        (0..8).for_each(|_| drop(scope.spawn(|| service.post(None, AUTHORIZED))));
    });
    let told = "select event_type, count(*) from outbox group by 1 order by 1";
    assert_eq!(service.system.query(told), ["PaymentAuthorized 2", "PaymentDeclined 6"]);
    assert_eq!(service.system.query("select balance_cents from accounts order by id"), ["200", "800"]);
}

#[test]
fn a_payment_event_that_breaks_its_schema_stands_among_the_dead_letters_only() {
    let service = Service::start("60");
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
        service.system.script(&format!(
            "insert into outbox values ('{id}', '{aggregate}', '{id}', '{event_type}', '{payload}', clock_timestamp())"
        ));
    }
    let dead: Vec<&str> = rows[..7].iter().map(|row| row.0).collect();
    let printed = service.consumed(&MAKE, 9);
    let mut letters: Vec<&str> = printed.iter().filter_map(|line| line.strip_prefix("Dead letter: ")).collect();
    letters.sort_unstable_by_key(|line| rows.iter().position(|row| line.starts_with(row.0)));
    let ids: Vec<&str> = letters.iter().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(ids, dead, "{printed:?}");
    let of = |what: &str| printed.iter().filter(|line| line.starts_with(what)).count();
    assert_eq!((of("Payment authorized"), of("Payment declined")), (1, 1), "{printed:?}");
}
