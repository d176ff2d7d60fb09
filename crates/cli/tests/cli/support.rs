//! `support bundle`: everything a helper needs, and nothing that must stay here.

#![allow(clippy::unwrap_used, reason = "what cannot be made or run fails the test")]

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;

use crate::world::{Running, World, account};

/// Stands in every secret and in every payload.
const CANARY: &str = "canary8d1f";

fn unpacked(world: &World, file: &str) -> BTreeMap<String, String> {
    let packed = std::fs::File::open(world.path(file)).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed));
    let text = |mut entry: tar::Entry<'_, flate2::read::GzDecoder<std::fs::File>>| {
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (entry.path().unwrap().display().to_string(), text)
    };
    archive.entries().unwrap().map(|entry| text(entry.unwrap())).collect()
}

/// Dead letters and a blocked key of a shop named acme, a second store that is away, and a secret wherever one may stand.
fn acme() -> World {
    let world = World::new();
    let lines = [("acme-1", "order.bad", "acme-key-1"), ("acme-2", "held.bad", "acme-key-2"), ("acme-3", "held.good", "acme-key-2")]
        .map(|(id, kind, key)| {
            format!(r#"{{"type":"{kind}","id":"{id}","key":"{key}","tenant":"acme-co","headers":{{"x":"{CANARY}"}},"payload":"{CANARY}"}}"#)
        })
        .join("\n");
    assert_eq!(world.feed(&["event", "append", "-"], &lines).code, 0);
    world.ok(&["relay", "run", "--drain"]);
    world.ok(&["route", "pause", "mailer", "--reason", "acme asked for it"]);
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    let config = config.replace("name = \"mailer\"", "name = \"mailer\"\nstore = \"main\"");
    let config = config.replace("name = \"held\"", "name = \"held\"\nstore = \"main\"");
    let routes = [
        format!(
            r#"webhook = {{ url = "https://127.0.0.1:1/{CANARY}?token={CANARY}", secret = "whsec_Y2FuYXJ5OGQxZmNhbmFyeThkMWZjYW5hcnk=", proxy = "http://acme:{CANARY}@127.0.0.1:1", allow_networks = ["127.0.0.0/8"] }}"#
        ),
        format!(
            r#"kafka = {{ brokers = ["127.0.0.1:1"], topic = "acme-t", sasl = {{ mechanism = "plain", username = "acme", password = "{CANARY}" }} }}"#
        ),
        format!(r#"rabbitmq = {{ url = "amqp://acme:{CANARY}@127.0.0.1:1", exchange = "acme-x" }}"#),
        format!(r#"nats = {{ url = "nats://127.0.0.1:1", token = "{CANARY}", subject = "acme.s", stream = "acme" }}"#),
        format!(r#"exec = {{ command = ["true", "--password", "{CANARY}"] }}"#),
        format!(r#"redis = {{ url = "redis://acme:{CANARY}@127.0.0.1:1", stream = "acme-s" }}"#),
    ];
    let routes: String = routes
        .iter()
        .enumerate()
        .map(|(n, to)| format!("\n[[route]]\nname = \"acme-route-{n}\"\nstore = \"main\"\nto = {{ {to} }}\n"))
        .collect();
    world.write(
        "postroom.toml",
        &format!(
            "{config}{routes}\n[store.acme-away]\nurl = \"postgres://acme:{CANARY}@127.0.0.1:1/acme\"\n\n\
             [http]\nlisten = \"127.0.0.1:1\"\nmetrics_token = \"{CANARY}\"\n\n\
             [telemetry]\notlp = \"http://acme:{CANARY}@127.0.0.1:1/{CANARY}\"\n"
        ),
    );
    world
}

#[test]
fn no_secret_and_no_payload_is_in_it_and_what_is_away_says_why() {
    let world = acme();
    let said = world.run(&["support", "bundle", "--file", "b.tar.gz"]);
    assert_eq!(said.code, 5, "{}{}", said.stdout, said.stderr);
    assert_eq!(std::fs::metadata(world.path("b.tar.gz")).unwrap().permissions().mode() & 0o777, 0o600);
    let files = unpacked(&world, "b.tar.gz");
    let names: Vec<&str> = files.keys().map(|name| name.strip_prefix("postroom-support/").unwrap()).collect();
    assert_eq!(
        names.join(" "),
        "README.txt config.json doctor.json metrics.missing.txt status.json \
         stores/acme-away/audit.missing.txt stores/acme-away/blocked.missing.txt \
         stores/acme-away/dead.missing.txt stores/acme-away/migrations.missing.txt stores/acme-away/stats.missing.txt \
         stores/acme-away/verify.missing.txt stores/main/audit.json stores/main/blocked.json stores/main/dead.json \
         stores/main/migrations.json stores/main/verify.json version.json"
    );
    for (name, text) in &files {
        assert!(!text.contains(CANARY) && !text.contains("Y2FuYXJ5"), "{name} has a secret or a payload: {text}");
    }
    let file = |name: &str| files[&format!("postroom-support/{name}")].as_str();
    assert!(file("stores/acme-away/audit.missing.txt").starts_with("unreachable: "));
    assert!(file("metrics.missing.txt").contains("no relay answers on 127.0.0.1:1"));
    assert!(file("stores/main/dead.json").contains("no such address"));
    assert!(file("stores/main/blocked.json").contains("acme-key-2"));
    assert!(file("stores/main/audit.json").contains("acme asked for it"));
    let again = world.run(&["support", "bundle", "--file", "b.tar.gz"]);
    assert_eq!(again.code, 4, "{}", again.stderr);
}

#[test]
fn redacted_nothing_of_the_business_is_in_it_and_one_key_is_one_word() {
    let world = acme();
    let said = world.run(&["support", "bundle", "--redact", "--file", "b.tar.gz"]);
    assert_eq!(said.code, 5, "{}{}", said.stdout, said.stderr);
    let files = unpacked(&world, "b.tar.gz");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let (folder, user) = (world.folder().display().to_string(), format!("{}@", account()));
    for (name, text) in &files {
        for word in
            ["acme", CANARY, "mailer", "held", "order.", &user, "no such address", "127.0.0.1", host.trim(), &folder]
        {
            // A code may have the name in it.
            let text = text.replace("doctor.readable_file", "");
            assert!(!text.contains(word) && !name.contains(word), "{name} has {word:?}: {text}");
        }
    }
    let json = |name: &str| -> serde_json::Value {
        serde_json::from_str(&files[&format!("postroom-support/{name}")]).unwrap()
    };
    let dead = json("stores/store-1/dead.json");
    let blocked = json("stores/store-1/blocked.json");
    let head = dead.as_array().unwrap().iter().find(|dead| dead["id"] == blocked[0]["head_id"]).unwrap();
    assert_eq!((&head["key"], &head["route"]), (&blocked[0]["key"], &blocked[0]["route"]));
    assert_eq!((&head["code"], &head["attempts"]), (&"exec.error".into(), &1.into()));
}

#[test]
fn a_running_relay_adds_its_metrics() {
    let world = World::new();
    world.append("a", "order.placed", "o-1");
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    let port = postroom_testbed::free_port().unwrap();
    world.write(
        "postroom.toml",
        &format!("{config}\n[http]\nlisten = \"127.0.0.1:{port}\"\nmetrics_token = \"{CANARY}\"\n"),
    );
    let mut relay = Running::start({
        let mut command = world.command(&["relay", "run"]);
        command.stderr(std::process::Stdio::null());
        command
    });
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(5);
    // The first of them are there before the relay has joined its store.
    let metrics = loop {
        let said = world.run(&["support", "bundle", "--redact", "--file", "b.tar.gz", "--overwrite"]);
        let metrics = unpacked(&world, "b.tar.gz").remove("postroom-support/metrics.txt").unwrap_or_default();
        if metrics.contains("postroom_route_state{") {
            assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
            break metrics;
        }
        assert!(std::time::Instant::now() < deadline, "{}{}", said.stdout, said.stderr);
    };
    assert!(!metrics.contains("mailer") && metrics.contains("route=\"route-"), "{metrics}");
    relay.signal_until_end(nix::sys::signal::Signal::SIGTERM);
}

#[test]
fn a_store_on_a_server_adds_its_sizes() {
    let shop = crate::postgres::Shop::new();
    let said = shop.world.run(&["support", "bundle", "--redact", "--file", "b.tar.gz"]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    let files = unpacked(&shop.world, "b.tar.gz");
    let stats: serde_json::Value = serde_json::from_str(&files["postroom-support/stores/store-1/stats.json"]).unwrap();
    assert_eq!((&stats["store"], stats["partitions"].is_array()), (&"store-1".into(), true), "{stats}");
}
