//! A secret in every field for secrets, and one in every payload: nothing that the program ever says has it.

#![allow(clippy::unwrap_used, reason = "what cannot be made or run fails the test")]

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::docs::page;
use crate::http::{ask, free, until};
use crate::world::{Running, World};

const CANARY: &str = "c4n4ry";

/// Destinations that do not answer, each with a secret in every field there is for one.
fn config(world: &World) -> String {
    let folder = world.folder().display();
    // The discard port: whoever listens there says nothing.
    format!(
        r#"name = "test"
[store.main]
url = "sqlite://{folder}/shop.db"

[telemetry]
otlp = "http://user:{CANARY}@127.0.0.1:9/"
sample = 1.0

[http]
metrics_token = "{CANARY}-metrics"

[retry]
attempts = 1

[[route]]
name = "kafka"
match = ["order.*"]
to = {{ kafka = {{ brokers = ["127.0.0.1:9"], topic = "orders", sasl = {{ mechanism = "plain", username = "shop", password = "{CANARY}" }}, tls = {{}} }} }}

[[route]]
name = "rabbitmq"
match = ["order.*"]
to = {{ rabbitmq = {{ url = "amqp://shop:{CANARY}@127.0.0.1:9/", exchange = "orders" }} }}

[[route]]
name = "nats"
match = ["order.*"]
to = {{ nats = {{ url = "nats://127.0.0.1:9", subject = "orders", stream = "orders", token = "{CANARY}" }} }}

[[route]]
name = "redis"
match = ["order.*"]
to = {{ redis = {{ url = "redis://shop:{CANARY}@127.0.0.1:9", stream = "orders" }} }}

[[route]]
name = "webhook"
match = ["order.*"]
to = {{ webhook = {{ url = "http://127.0.0.1:9/hook/{CANARY}?key={CANARY}", secret = "whsec_YzRuNHJ5LWM0bjRyeS1jNG40cnktYzRuNHJ5" , allow_networks = ["127.0.0.0/8"], https_only = false }} }}

[[route]]
name = "mailer"
match = ["order.*"]
to = {{ exec = {{ command = ["sh", "mailer.sh"] }} }}
"#
    )
}

/// Every command, in an order in which each has something to do. What is after `#` in a line is a command of the list it stands for.
const COMMANDS: &str = "
store migrate up
store migrate plan
store migrate status
config check
config check --online
config show
config show --origin
config schema
config init --config fresh.toml
event append --type order.bad --key k --id bad --payload {\"card\":\"c4n4ry\"}
event ls
event show bad
event tail --follow=false
status
check
doctor
doctor -v
route ls
route show mailer
route test webhook
route test redis
route test nats
route test rabbitmq
route pause mailer
route resume mailer
key ls --blocked
key unblock k
key skip-head k --yes
dead ls
dead groups
dead compare
delivery ls --state due,dead
delivery groups
report --since 1h
dead show bad
dead replay bad --yes
dead discard --yes
replay --yes
replay ls
replay show x
replay pause x
replay resume x
replay cancel x
inbox ls
inbox show bad
inbox forget bad --consumer mailer --yes
erase --key o-1 --dry-run
erase --key o-1 --undelivered --yes
adopt shop
schema ls
schema add nothing.json
schema check a.json b.json
verify
audit
event export
event export --headers
support bundle --file bundle.tar.gz
support bundle --redact --file redacted.tar.gz
top
explain
explain webhook.unsigned
dashboards export --to dashboards
prune
token ls
token create vic
token rotate vic
token revoke vic
preset ls
preset show holdco
store roles
store stats
store repair --yes
store accept-identity --yes
completions bash
man
version
webhook sign
webhook verify
route probe webhook
route rename webhook hooks --yes
route forget webhook --yes
store migrate down --yes
";

/// Commands that run until somebody stops them, or are there to print a secret.
const OTHERWISE: [&str; 4] = ["dev", "relay run", "webhook listen", "webhook key"];

#[test]
fn no_secret_and_no_payload_is_in_anything_the_program_says() {
    let world = World::bare();
    world.write("postroom.toml", &config(&world));
    world.ok(&["store", "migrate", "up"]);
    let address = free();
    let log = std::fs::File::create(world.path("relay.log")).unwrap();
    let mut command = world.command(&["relay", "run", "--listen", &address]);
    command.env("RUST_LOG", "debug,hyper=info,h2=info").stderr(Stdio::from(log));
    let mut relay = Running::start(command);
    until(&address, "/livez", "alive", |answer| answer.status == 200);

    let mut said = Vec::new();
    let mut tried: BTreeSet<String> = OTHERWISE.iter().map(|command| (*command).to_owned()).collect();
    for line in COMMANDS.lines().filter(|line| !line.is_empty() && !line.starts_with("store migrate down")) {
        let args: Vec<&str> = line.split(' ').collect();
        for more in [&[][..], &["-o", "json"], &["-v"]] {
            let all = [&args[..], more].concat();
            let answer = world.run(&all);
            said.push((all.join(" "), answer.stdout + &answer.stderr));
        }
        tried.insert(line.to_owned());
    }
    // The mailer's dead letter is known by now, and the others' failures are logged.
    let deadline = Instant::now() + Duration::from_mins(5);
    let logged = || std::fs::read_to_string(world.path("relay.log")).unwrap_or_default();
    while ["redis.unreachable", "rabbitmq.unreachable", "nats.unreachable", "webhook.refused", "dead letter"]
        .iter()
        .any(|text| !logged().contains(text))
    {
        assert!(Instant::now() < deadline, "{}", logged());
    }
    let token = format!("authorization: Bearer {CANARY}-metrics");
    for path in
        ["/metrics", "/livez?verbose", "/readyz?verbose", "/v1/health", "/api/v1/openapi.json", "/api/v1/status"]
    {
        said.push((path.to_owned(), ask(&address, path, &[&token]).map(|answer| answer.body).unwrap_or_default()));
    }
    relay.signal_until_end(Signal::SIGTERM);
    let last = world.run(&["store", "migrate", "down", "--yes"]);
    said.push(("store migrate down".to_owned(), last.stdout + &last.stderr));
    tried.insert("store migrate down".to_owned());
    said.push(("the log".to_owned(), logged()));

    for (what, text) in &said {
        // What a command was given it may repeat: an argument that it does not know.
        assert!(!text.contains(CANARY) && !text.contains("YzRuNHJ5"), "{what}: {text}");
    }
    let list = page("docs/commands.md");
    for row in list.lines().filter_map(|line| line.strip_prefix("| `postroom ")) {
        let name: Vec<&str> =
            row.split('`').next().unwrap().split(' ').take_while(|word| !word.starts_with(['[', '<'])).collect();
        let name = name.join(" ");
        assert!(tried.iter().any(|tried| tried.starts_with(&name)), "nobody tried `{name}`");
    }
}
