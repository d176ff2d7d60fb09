//! Every operation of the description with values nobody thought of: never a 5xx, never a lost connection.

use serde_json::{Map, Value, json};

use crate::api::site::{Site, operations};

/// Rounds for each operation.
const ROUNDS: usize = 60;

const TEXTS: &[&str] = &[
    "",
    " ",
    "orders",
    "e-1",
    "k",
    "*",
    "order.*",
    "'; drop table postroom_log; --",
    "\" or 1=1 --",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "%00",
    "\u{7}\u{1b}[31m",
    "\u{202e}evil",
    "😀",
    "p0",
    "p7fffffffffffffff",
    "pffffffffffffffff",
    "-1",
    "0",
    "1e9",
    "9223372036854775808",
    "1h",
    "9999999999999d",
    "2026-11-15T09:30:00Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "true",
    "null",
    "\\",
    "a\nb",
    "{}",
    "$..x",
];

/// The same numbers on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    fn text(&mut self) -> String {
        match self.below(12) {
            0 => "x".repeat(5000),
            1 => "é".repeat(512),
            _ => TEXTS[self.below(TEXTS.len())].to_owned(),
        }
    }

    fn value(&mut self) -> Value {
        match self.below(9) {
            0 => Value::Null,
            1 => json!(self.below(2) == 0),
            2 => json!([-1_i64, 0, 1, 50, i64::MAX][self.below(5)]),
            3 => json!(1e308),
            4 => json!([self.text(), self.text()]),
            5 => json!({ "lease": self.text(), "ok": true }),
            6 => json!([{ "lease": self.text(), "error": self.text() }]),
            _ => json!(self.text()),
        }
    }
}

fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |all, byte| {
        if byte.is_ascii_alphanumeric() { all + &char::from(byte).to_string() } else { all + &format!("%{byte:02X}") }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_sent_breaks_it() {
    let site = Site::guarded("").await;
    let (described, operations) = operations(&site).await;
    let mut dice = Dice(7);
    let (mut sent, mut good) = (0, 0);
    for (method, path, operation) in operations.iter().filter(|(_, path, _)| !path.ends_with("/live")) {
        for _ in 0..ROUNDS {
            let (mut path, mut query) = (path.clone(), Vec::new());
            for parameter in operation["parameters"].as_array().unwrap() {
                let name = parameter["name"].as_str().unwrap();
                match parameter["in"].as_str().unwrap() {
                    "path" => path = path.replace(&format!("{{{name}}}"), &escaped(&dice.text())),
                    "query" if dice.below(3) == 0 => query.push(format!("{name}={}", escaped(&dice.text()))),
                    _ => {}
                }
            }
            if dice.below(10) == 0 {
                query.push(escaped(&dice.text()));
            }
            let target = if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) };
            let body = operation.get("requestBody").map(|body| {
                let schema = &body["content"]["application/json"]["schema"];
                // One event, or a list of events.
                let schema =
                    if schema["oneOf"].is_array() { &described["components"]["schemas"]["NewEvent"] } else { schema };
                let fields = schema["properties"].as_object().unwrap();
                let mut given = Map::new();
                for name in fields.keys() {
                    if dice.below(2) == 0 {
                        given.insert(name.clone(), dice.value());
                    }
                }
                if dice.below(20) == 0 { dice.value().to_string() } else { Value::Object(given).to_string() }
            });
            let who = ["viewer", "operator", "admin"][dice.below(3)];
            let answer = site.ask(who, method, &target, body.as_deref()).await;
            assert!(answer.status < 500, "{method} {target} {body:?}: {answer:?}");
            if answer.status >= 400 {
                answer.code();
            } else {
                good += 1;
            }
            sent += 1;
        }
    }
    assert!(sent > 1000 && good > sent / 20, "{good} of {sent} were answered");
    assert_eq!(site.admin.tokens().await.unwrap().iter().filter(|token| token.name == "viewer").count(), 1);
}
