//! What the documentation tells people to type works as it says: its console blocks run line by line, in folders of
//! their own. Lists and tables are [`crate::facts`]'s.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what cannot be read or run fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::http::free;
use crate::world::{Running, World, mask};

/// The folder of the repository.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a page.
pub(crate) fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The blocks of this language, in order.
pub(crate) fn blocks(page: &str, language: &str) -> Vec<String> {
    let opening = format!("\n```{language}\n");
    page.split(&opening).skip(1).map(|rest| rest.split("\n```\n").next().unwrap().to_owned() + "\n").collect()
}

/// A folder in which `postroom` is the real program.
struct Reader {
    world: World,
    relay: Option<Running>,
}

impl Reader {
    fn new() -> Self {
        let world = World::bare();
        for file in fs::read_dir(world.folder()).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        Self { world, relay: None }
    }

    /// Types a block of commands; what is printed below one must come out. One that runs for ever runs in the background.
    fn follow(&mut self, block: &str) {
        for step in format!("\n{block}").split("\n$ ").skip(1) {
            let (command, expected) = step.split_once('\n').unwrap_or((step, ""));
            if command == "postroom relay run" {
                let mut relay = self.world.command(&["relay", "run"]);
                relay.stderr(Stdio::null());
                self.relay = Some(Running::start(relay));
                continue;
            }
            let printed = self.shell(command);
            if !expected.is_empty() {
                assert_eq!(mask(printed.trim_end()), mask(expected.trim_end()), "$ {command}");
            }
        }
    }

    fn shell(&self, command: &str) -> String {
        let program = Path::new(env!("CARGO_BIN_EXE_postroom"));
        let path = std::env::var("PATH").unwrap();
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(self.world.folder())
            .env("PATH", format!("{}:{path}", program.parent().unwrap().display()))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "$ {command}\n{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn the_relay_beside_the_service_works_as_the_readme_says() {
    let readme = page("README.md");
    let mut reader = Reader::new();
    reader.world.write("postroom.toml", &blocks(&readme, "toml")[0]);
    reader.world.write("mailer.py", &blocks(&page("docs/exec.md"), "python")[0]);
    let block = blocks(&readme, "console").into_iter().find(|b| b.contains("relay run")).unwrap();
    reader.follow(&block);

    // Another process delivers, and only the store can tell when.
    let deadline = Instant::now() + Duration::from_mins(1);
    while reader.world.json(&["status"])["routes"][0]["delivered"] != 1 {
        assert!(Instant::now() < deadline, "not delivered: {}", reader.world.ok(&["status"]));
    }
    let relay = reader.relay.take().unwrap();
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
    assert_eq!(fs::read_to_string(reader.world.path("mail.log")).unwrap(), "attempt 1: order.placed order-7 4200\n");
}

#[test]
fn the_handler_in_python_works_as_its_page_says() {
    let exec = page("docs/exec.md");
    let mut reader = Reader::new();
    reader.world.write("postroom.toml", &blocks(&exec, "toml")[0]);
    reader.world.write("mailer.py", &blocks(&exec, "python")[0]);
    reader.follow(&blocks(&exec, "console")[0]);
}

#[test]
fn the_worker_in_python_works_as_its_page_says() {
    let text = page("docs/pull.md");
    let (reader, address) = (Reader::new(), free());
    let here = |text: &str| text.replace("127.0.0.1:7480", &address);
    reader.world.write("postroom.toml", &here(&blocks(&text, "toml")[0]));
    fs::create_dir_all(reader.world.path("examples/pull-worker")).unwrap();
    let worker = "examples/pull-worker/worker.py";
    reader.world.write(worker, &here(&page(worker)));
    // One shell, as the page's reader has; only the worker ends after its first events, and then the relay does.
    let typed = format!("\n{}", blocks(&text, "console")[0]).replace("\n$ ", "\n");
    let printed = reader.shell(&format!("set -e{} --once\nkill $!\nwait", typed.trim_end()));
    assert!(printed.contains("mail to ann@example.com about "), "{printed}");
    assert_eq!(reader.world.json(&["status"])["routes"][0]["delivered"], 1);
}

#[test]
fn the_example_with_a_handler_in_sh_works_as_its_readme_says() {
    let mut reader = Reader::new();
    for name in ["postroom.toml", "mailer.sh"] {
        reader.world.write(name, &page(&format!("examples/exec-handler/{name}")));
    }
    for block in blocks(&page("examples/exec-handler/README.md"), "console") {
        reader.follow(&block);
    }
    assert_eq!(blocks(&page("docs/exec.md"), "sh")[0], page("examples/exec-handler/mailer.sh"), "they are one script");
}

#[test]
fn the_commands_of_the_page_on_contracts_work() {
    let page = page("docs/contracts.md");
    let mut reader = Reader::new();
    reader.world.write("postroom.toml", &blocks(&page, "toml")[0]);
    for block in blocks(&page, "console") {
        reader.follow(&block);
    }
}

#[test]
fn the_commands_of_the_configuration_page_work() {
    let mut reader = Reader::new();
    for block in blocks(&page("docs/config.md"), "console") {
        // The file that `init` writes names no store, which a check rightly asks for.
        reader.world.write("url", "sqlite://shop.db\n");
        let with_store = block.replace("$ postroom config ", "$ POSTROOM_STORE__MAIN__URL_FILE=url postroom config ");
        reader.follow(&with_store);
    }
}

#[test]
fn an_event_inserted_as_the_page_of_sqlite_says_is_delivered_with_its_write() {
    use sqlx::ConnectOptions;
    let sqlite = page("docs/sqlite.md");
    let world = World::new();
    let file = sqlx::sqlite::SqliteConnectOptions::new().filename(world.path("shop.db"));
    let statements = format!("create table orders (id text, paid int);\n{}", blocks(&sqlite, "sql")[0]);
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let mut connection = file.connect().await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(statements)).execute(&mut connection).await.unwrap();
    });
    world.ok(&["relay", "run", "--drain"]);
    assert_eq!(world.json(&["route", "show", "mailer"])["delivered"], 1);
}

#[test]
fn the_plan_for_own_tooling_comes_out_for_an_empty_file() {
    let mut reader = Reader::new();
    reader.world.write("postroom.toml", "[store.main]\nurl = \"sqlite://shop.db\"\n");
    reader.shell("touch shop.db");
    reader.follow(&blocks(&page("docs/sqlite.md"), "console")[0]);
    let plan = fs::read_to_string(reader.world.path("postroom-0001.sql")).unwrap();
    assert!(plan.contains("create table postroom_log"), "{plan}");
}

#[cfg(feature = "webhook")]
#[test]
fn a_webhook_works_as_its_page_says() {
    let page = page("docs/webhook.md");
    let mut reader = Reader::new();
    let console = blocks(&page, "console");
    let [key, listen, send, verify, misbehave] = &console[..] else { panic!("{} blocks", console.len()) };
    reader.follow(key);

    // The page's port may be taken here.
    let listen: Vec<&str> = listen.trim().trim_start_matches("$ postroom ").split(' ').collect();
    let mut receiver = Running::start(reader.world.command(&[&listen, &["--port", "0"][..]].concat()));
    let told = receiver.note();
    let address = told.split("http://").nth(1).and_then(|rest| rest.split(';').next()).unwrap().to_owned();
    reader.world.write("postroom.toml", &blocks(&page, "toml")[0].replace("127.0.0.1:8080", &address));
    reader.follow(send);
    assert_eq!(mask(&receiver.wait_for("order-7-placed")), mask(&blocks(&page, "text")[0]));

    reader.follow(verify);
    let secret = fs::read_to_string(reader.world.path("partner-whsec")).unwrap();
    reader.world.write("verify.py", &blocks(&page, "python")[0]);
    let script = "import sys, verify
headers = dict(line.strip().split(': ', 1) for line in open('headers'))
body = open('body.json', 'rb').read()
print(verify.verify(sys.argv[1], headers, body), verify.verify(sys.argv[1], headers, body + b' '))
";
    reader.world.write("check.py", script);
    assert_eq!(reader.shell(&format!("python3 check.py {}", secret.trim())), "True False\n");
    let script = "const fs = require('node:fs');
const headers = Object.fromEntries(fs.readFileSync('headers', 'utf8').trim().split('\\n').map((l) => l.split(': ')));
const [body, secret] = [fs.readFileSync('body.json'), process.argv[2]];
console.log(verify(secret, headers, body), verify(secret, headers, Buffer.concat([body, body])));
";
    reader.world.write("check.js", &(blocks(&page, "js")[0].clone() + script));
    assert_eq!(reader.shell(&format!("node check.js {}", secret.trim())), "true false\n");

    let words: Vec<&str> = misbehave.trim().trim_start_matches("$ postroom ").split(' ').collect();
    let mut receiver = Running::start(reader.world.command(&[&words, &["--port", "0"][..]].concat()));
    assert!(receiver.note().contains("signatures are not checked"));
}

/// Follows the page of a broker with the real one: its address stands in for the usual one, a name of our own for `orders`.
/// `prepare` makes what the page takes for granted under that name.
#[cfg(any(feature = "kafka", feature = "rabbitmq", feature = "nats", feature = "redis"))]
fn follow_broker(broker: &str, usual: &str, prepare: impl FnOnce(u16, &str)) {
    let port = postroom_conformance::servers::Servers::find().port(broker);
    let name = postroom_conformance::servers::unique_name("orders");
    prepare(port, &name);
    let ours = |block: &str| {
        let block =
            block.replace(usual, &format!("127.0.0.1:{port}")).replace("redis-cli", &format!("redis-cli -p {port}"));
        // Only where it stands for itself: types begin with `order.`, keys with `order-`.
        block.replace("orders", &name).replace("ORDERS", &name.to_uppercase())
    };
    let text = page(&format!("docs/{broker}.md"));
    let mut reader = Reader::new();
    reader.world.write("postroom.toml", &ours(&blocks(&text, "toml")[0]));
    reader.follow(&ours(&blocks(&text, "console")[0]));
}

#[cfg(feature = "rabbitmq")]
#[test]
fn the_page_of_rabbitmq_works_as_it_says() {
    follow_broker("rabbitmq", "localhost:5672", |_, _| ());
}

#[cfg(feature = "nats")]
#[test]
fn the_page_of_nats_works_as_it_says() {
    follow_broker("nats", "localhost:4222", |_, _| ());
}

#[cfg(feature = "redis")]
#[test]
fn the_page_of_redis_works_as_it_says() {
    follow_broker("redis", "localhost:6379", |_, _| ());
}

#[cfg(feature = "kafka")]
#[test]
fn the_page_of_kafka_works_as_it_says() {
    use postroom_conformance::servers::brokers::Kafka;
    follow_broker("kafka", "localhost:9092", |port, topic| {
        let mut create = Kafka::tool("org.apache.kafka.tools.TopicCommand").unwrap();
        create.args(["--bootstrap-server", &format!("127.0.0.1:{port}"), "--create", "--topic", topic]);
        postroom_conformance::servers::run(create.args(["--partitions", "6"])).unwrap();
    });
}

#[cfg(feature = "kafka")]
#[test]
fn what_routes_to_kafka_have_in_common_is_read_as_its_page_says() {
    let ca = postroom_conformance::servers::Servers::find().certificates().ca();
    let reader = Reader::new();
    let shared = blocks(&page("docs/kafka.md"), "toml")[1].replace("/etc/ssl/kafka-ca.pem", &ca.display().to_string());
    let store = "[store.main]\nurl = \"sqlite://shop.db\"\n";
    reader.world.write("password", "canary-4711\n");
    reader.world.write("postroom.toml", &format!("{store}{}", shared.replace("/run/credentials/kafka", "password")));
    assert_eq!(reader.shell("postroom config check"), "postroom.toml is fine: 1 store, 1 route\n");
    let shown = reader.shell("postroom config show");
    assert!(shown.contains("scram-sha-512") && !shown.contains("canary"), "{shown}");
}
