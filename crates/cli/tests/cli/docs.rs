//! What the documentation tells people to type works as it says: a [`Reader`] types the commands of each page. Lists and
//! tables are [`crate::facts`]'s.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what cannot be read or run fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::http::free;
use crate::reader::{Commands, EDITOR, Reader, UNTYPED};
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

/// Every page with commands: the README and the book.
fn pages() -> Vec<String> {
    let files = fs::read_dir(root().join("docs")).unwrap().map(|file| file.unwrap().path());
    let pages = files.filter(|file| file.extension().is_some_and(|end| end == "md"));
    let book = pages.map(|file| format!("docs/{}", file.file_name().unwrap().display()));
    ["README.md".to_owned()].into_iter().chain(book).collect()
}

#[test]
fn every_command_of_every_page_is_typed_by_a_test_or_has_a_reason_why_not() {
    let tests: String = fs::read_dir(root().join("crates/cli/tests/cli"))
        .unwrap()
        .filter_map(|file| fs::read_to_string(file.unwrap().path()).ok())
        .collect();
    let mut needed = BTreeSet::new();
    for name in pages() {
        let text = page(&name);
        for block in ["sh", "bash", "shell"].iter().flat_map(|language| blocks(&text, language)) {
            assert!(block.starts_with('#'), "{name}: commands are `console` blocks, `sh` is a file: {block}");
        }
        assert!(!text.contains(" ```console"), "{name}: a test does not find a block inside a list");
        let steps = blocks(&text, "console").into_iter().map(|block| format!("\n{block}"));
        let commands: Vec<String> =
            steps.flat_map(|b| b.split("\n$ ").skip(1).map(str::to_owned).collect::<Vec<_>>()).collect();
        let untyped = |command: &&String| {
            let found = UNTYPED.iter().position(|(page, start, _)| *page == name && command.starts_with(start));
            needed.extend(found);
            found.is_some()
        };
        let typed = commands.len() - commands.iter().filter(untyped).count();
        let opened = tests.contains(&format!("Commands::of(\"{name}\")"));
        assert!(typed == 0 || opened, "{name}: no test types its commands: {commands:?}");
    }
    for (at, (page, start, _)) in UNTYPED.iter().enumerate() {
        assert!(needed.contains(&at), "{page} has no command `{start}`");
    }
}

#[test]
fn every_command_that_a_sentence_names_exists() {
    let words = |text: &str| -> Vec<String> {
        let is_word = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-');
        text.split_whitespace().take_while(is_word).map(str::to_owned).collect()
    };
    let list = page("docs/commands.md");
    let known: Vec<_> = list.lines().filter_map(|line| line.strip_prefix("| `postroom ")).map(words).collect();
    assert!(known.len() > 50, "{known:?}");
    for name in pages() {
        let text = page(&name);
        for code in text.split('`').skip(1).step_by(2).filter_map(|code| code.strip_prefix("postroom ")) {
            let named = words(code);
            let exists = known.iter().any(|known| named.starts_with(known) || known.starts_with(&named));
            assert!(exists, "{name} names `postroom {code}`, which is no command");
        }
    }
}

/// Makes the table that the README adopts.
const OUTBOX_ITEMS: &str = "create table outbox_items (id integer primary key, event_type text not null, payload text not null, sent_at timestamp)";

/// Types the README: the first event in a database with one URL, the table in another, which `fill` has made.
fn follow_readme(first: &str, adopted: &str, fill: impl FnOnce()) {
    let mut readme = Commands::of("README.md");
    let mut reader = Reader::new();
    let [five, relay, status] = [readme.block(), readme.block(), readme.block()];
    assert_eq!(five.matches("$ ").count(), 5, "{five}");
    let printed = reader.world.path("printed");
    reader.follow(
        &five.replace("sqlite://shop.db", first).replace("--drain", &format!("--drain > {}", printed.display())),
    );
    let printed = fs::read_to_string(printed).unwrap();
    assert!(printed.contains(r#""type":"order.placed""#) && printed.contains(r#""data":{"total": 4200}"#), "{printed}");
    reader.follow(&relay);
    reader.follow(&status);
    reader.end_relay();

    fill();
    let mut reader = Reader::with(&[("EDITOR", "sh choose.sh")]);
    reader.world.write("choose.sh", EDITOR);
    reader.follow(&readme.block().replace("postgres://me@localhost/shop", adopted));
    reader.until_delivered(2);
    reader.end_relay();
    let lines = reader.shell("cat events/*.jsonl");
    assert_eq!(lines.matches("order.placed").count(), 2, "{lines}");
}

#[test]
fn the_readme_works_as_it_says_on_sqlite() {
    let world = World::bare();
    let url = format!("sqlite://{}", world.path("shop.db").display());
    follow_readme("sqlite://shop.db", &url, || {
        crate::adopted::sql(&world, OUTBOX_ITEMS);
        let rows =
            "insert into outbox_items (event_type, payload) values ('order.placed', '{}'), ('order.placed', '{}')";
        crate::adopted::sql(&world, rows);
    });
}

#[cfg(feature = "postgres")]
#[test]
fn the_readme_works_as_it_says_on_postgresql() {
    let (first, adopted) = (crate::postgres::Shop::bare(), crate::postgres::Shop::bare());
    follow_readme(&first.database.url(), &adopted.database.url(), || {
        adopted.sql(OUTBOX_ITEMS);
        adopted.sql("insert into outbox_items values (1, 'order.placed', '{}'), (2, 'order.placed', '{}')");
    });
}

#[test]
fn the_handler_in_python_works_as_its_page_says() {
    let (exec, mut commands) = (page("docs/exec.md"), Commands::of("docs/exec.md"));
    let mut reader = Reader::new();
    reader.world.write("postroom.toml", &blocks(&exec, "toml")[0]);
    reader.world.write("mailer.py", &blocks(&exec, "python")[0]);
    reader.follow(&commands.block());
}

#[test]
fn a_folder_fills_with_lines_as_its_page_says() {
    let mut commands = Commands::of("docs/file.md");
    let mut reader = Reader::new();
    reader.world.write("postroom.toml", &blocks(&page("docs/file.md"), "toml")[0]);
    reader.follow(&commands.block());
}

#[test]
fn the_worker_in_python_works_as_its_page_says() {
    let (text, mut commands) = (page("docs/pull.md"), Commands::of("docs/pull.md"));
    let (mut reader, address) = (Reader::new(), free());
    let here = |text: &str| text.replace("127.0.0.1:7480", &address);
    reader.world.write("postroom.toml", &here(&blocks(&text, "toml")[0]));
    fs::create_dir_all(reader.world.path("examples/pull-worker")).unwrap();
    let worker = "examples/pull-worker/worker.py";
    reader.world.write(worker, &here(&page(worker)));
    // Only the worker ends after its first events.
    let block = commands.block();
    let (before, work) = block.trim_end().rsplit_once("\n$ ").unwrap();
    reader.follow(&format!("{before}\n"));
    let printed = reader.shell(&format!("{work} --once"));
    assert!(printed.contains("mail to ann@example.com about "), "{printed}");
    reader.until_delivered(1);
    reader.end_relay();
}

#[test]
fn the_commands_of_the_page_of_the_api_work() {
    let mut commands = Commands::of("docs/api.md");
    let (mut reader, address) = (Reader::new(), free());
    let config = "[store.main]\nurl = \"sqlite://shop.db\"\n[http]\nlisten = \"ADDRESS\"\n[[route]]\nname = \"mailer\"\nto = { stdout = {} }\n";
    reader.world.write("postroom.toml", &config.replace("ADDRESS", &address));
    reader.shell("postroom store migrate up");
    reader.follow("$ postroom relay run\n");
    crate::http::until(&address, "/readyz", "moving", |answer| answer.status == 200);
    reader.follow(&commands.block().replace("127.0.0.1:7480", &address).replace("curl -s", "curl -sf"));
    assert!(reader.shell("postroom status").contains("paused"));
    reader.follow(&commands.block().replace("127.0.0.1:7480", &address).replace("curl -s", "curl -sf"));
    reader.end_relay();
}

#[cfg(feature = "postgres")]
#[test]
fn the_commands_of_the_page_on_operating_work() {
    use crate::postgres::Shop;
    let (shop, broken) = (Shop::bare(), Shop::new());
    let mut commands = Commands::of("docs/operating.md");
    let mut reader = Reader::new();
    let store = |shop: &Shop| format!("[store.main]\nurl = \"{}\"\n", shop.database.url());
    let route = |name| format!("[[route]]\nname = \"{name}\"\nmatch = [\"order.*\"]\nto = {{ stdout = {{}} }}\n");
    let config = store(&shop) + &route("mailer") + &route("search");
    reader.world.write("postroom.toml", &config);
    reader.shell("postroom store migrate up");
    reader.shell("postroom event append --type order.placed --key customer-17");
    reader.follow("$ postroom relay run\n");
    let all = |status: &Value, so: &dyn Fn(&Value) -> bool| status["routes"].as_array().unwrap().iter().all(so);
    reader.until("postroom status -o json", |status| all(status, &|route| route["delivered"] == 1));
    reader.follow(&commands.block());

    let behind =
        "select postroom.append('order.placed') from generate_series(1, 5); select setval('postroom.log_seq', 2)";
    broken.sql(behind);
    reader.world.write("postroom.toml", &store(&broken));
    reader.follow(&commands.block());

    reader.world.write("postroom.toml", &config);
    reader.follow(&commands.block());
    // What a replay has made due is not erased.
    reader.until("postroom status -o json", |status| all(status, &|route| route["due"] == 0));
    reader.follow(&commands.block());
    reader.follow(&commands.block());
    assert!(reader.shell("cat orders.jsonl").contains("order.placed"));
    reader.end_relay();
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
    let mut commands = Commands::of("docs/contracts.md");
    let mut reader = Reader::new();
    reader.world.write("postroom.toml", &blocks(&page("docs/contracts.md"), "toml")[0]);
    reader.follow(&commands.block());
    reader.follow(&commands.block());
}

#[test]
fn the_commands_of_the_configuration_page_work() {
    let mut commands = Commands::of("docs/config.md");
    let mut reader = Reader::new();
    reader.follow(&commands.block());
    // As the page says: the file that `init` writes is all comments.
    let text = fs::read_to_string(reader.world.path("postroom.toml")).unwrap();
    let route = "[store.main]\nurl = \"sqlite://shop.db\"\n[[route]]\nname = \"mailer\"\nto = { stdout = {} }\n";
    reader.world.write("postroom.toml", &format!("{text}\n{route}"));
    reader.follow(&commands.block());
    assert!(text.starts_with("#:schema postroom.schema.json\n"), "{text}");
    reader.follow(&commands.block());
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
    reader.follow(&Commands::of("docs/sqlite.md").block());
    let plan = fs::read_to_string(reader.world.path("postroom-0001.sql")).unwrap();
    assert!(plan.contains("create table postroom_log"), "{plan}");
}

#[cfg(feature = "webhook")]
#[test]
fn a_webhook_works_as_its_page_says() {
    let (page, mut commands) = (page("docs/webhook.md"), Commands::of("docs/webhook.md"));
    let mut reader = Reader::new();
    reader.follow(&commands.block());

    // The page's port may be taken here.
    let listen = commands.block();
    let listen: Vec<&str> = listen.trim().trim_start_matches("$ postroom ").split(' ').collect();
    let mut receiver = Running::start(reader.world.command(&[&listen, &["--port", "0"][..]].concat()));
    let told = receiver.note();
    let address = told.split("http://").nth(1).and_then(|rest| rest.split(';').next()).unwrap().to_owned();
    reader.world.write("postroom.toml", &blocks(&page, "toml")[0].replace("127.0.0.1:8080", &address));
    reader.follow(&commands.block());
    // The time in the body may end in zeros, which are left out.
    let without_size = |line: &str| mask(line).replace(|digit: char| digit.is_ascii_digit(), "");
    assert_eq!(without_size(&receiver.wait_for("order-7-placed")), without_size(&blocks(&page, "text")[0]));

    reader.follow(&commands.block());
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

    let misbehave = commands.block();
    let words: Vec<&str> = misbehave.trim().trim_start_matches("$ postroom ").split(' ').collect();
    let mut receiver = Running::start(reader.world.command(&[&words, &["--port", "0"][..]].concat()));
    assert!(receiver.note().contains("signatures are not checked"));
}

/// Follows the page of a broker with the real one: its address stands in for the usual one, a name of our own for `orders`.
/// `prepare` makes what the page takes for granted under that name.
#[cfg(any(feature = "kafka", feature = "rabbitmq", feature = "nats", feature = "redis"))]
fn follow_broker(broker: &str, mut commands: Commands, usual: &str, prepare: impl FnOnce(u16, &str)) {
    let port = postroom_testbed::Servers::find().port(broker);
    let name = postroom_testbed::unique_name("orders");
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
    reader.follow(&ours(&commands.block()));
}

#[cfg(feature = "rabbitmq")]
#[test]
fn the_page_of_rabbitmq_works_as_it_says() {
    follow_broker("rabbitmq", Commands::of("docs/rabbitmq.md"), "localhost:5672", |_, _| ());
}

#[cfg(feature = "nats")]
#[test]
fn the_page_of_nats_works_as_it_says() {
    follow_broker("nats", Commands::of("docs/nats.md"), "localhost:4222", |_, _| ());
}

#[cfg(feature = "redis")]
#[test]
fn the_page_of_redis_works_as_it_says() {
    follow_broker("redis", Commands::of("docs/redis.md"), "localhost:6379", |_, _| ());
}

#[cfg(feature = "kafka")]
#[test]
fn the_page_of_kafka_works_as_it_says() {
    use postroom_testbed::brokers::Kafka;
    follow_broker("kafka", Commands::of("docs/kafka.md"), "localhost:9092", |port, topic| {
        let mut create = Kafka::tool("org.apache.kafka.tools.TopicCommand").unwrap();
        create.args(["--bootstrap-server", &format!("127.0.0.1:{port}"), "--create", "--topic", topic]);
        postroom_testbed::run(create.args(["--partitions", "6"])).unwrap();
    });
}

#[cfg(feature = "kafka")]
#[test]
fn what_routes_to_kafka_have_in_common_is_read_as_its_page_says() {
    let ca = postroom_testbed::Servers::find().certificates().ca();
    let mut reader = Reader::new();
    let shared = blocks(&page("docs/kafka.md"), "toml")[1].replace("/etc/ssl/kafka-ca.pem", &ca.display().to_string());
    let store = "[store.main]\nurl = \"sqlite://shop.db\"\n";
    reader.world.write("password", "canary-4711\n");
    reader.world.write("postroom.toml", &format!("{store}{}", shared.replace("/run/credentials/kafka", "password")));
    assert_eq!(reader.shell("postroom config check"), "postroom.toml is fine: 1 store, 1 route\n");
    let shown = reader.shell("postroom config show");
    assert!(shown.contains("scram-sha-512") && !shown.contains("canary"), "{shown}");
}
