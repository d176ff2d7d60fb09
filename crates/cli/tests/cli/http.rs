//! What a relay answers over HTTP: health, metrics, and nothing to those who may not.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use postroom_testbed::free_port;

use crate::adopted::sql;
use crate::world::{Running, World};

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Asks once, with these headers.
pub(crate) fn ask(address: &str, path: &str, headers: &[&str]) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).ok()?;
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, head: head.to_lowercase(), body: body.to_owned() })
}

/// Asks until the answer is as wanted.
pub(crate) fn until(address: &str, path: &str, what: &str, so: impl Fn(&Answer) -> bool) -> Answer {
    let deadline = Instant::now() + Duration::from_mins(5);
    loop {
        let answer = ask(address, path, &[]);
        if let Some(answer) = answer.filter(|answer| so(answer)) {
            return answer;
        }
        assert!(Instant::now() < deadline, "{path} is still not {what}");
        std::thread::yield_now();
    }
}

/// An address that is free now.
pub(crate) fn free() -> String {
    format!("127.0.0.1:{}", free_port().unwrap())
}

pub(crate) fn relay(world: &World, args: &[&str], env: &[(&str, &str)]) -> Running {
    let mut command = world.command(&[&["relay", "run"], args].concat());
    command.envs(env.iter().copied()).stderr(Stdio::null());
    Running::start(command)
}

/// What Prometheus itself says of a page of metrics.
fn promtool(page: &str) {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let said = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && text.trim().is_empty(), "{text}\n{page}");
}

#[test]
fn a_relay_says_that_it_lives_and_moves_and_counts_what_it_does() {
    let world = World::new();
    world.append("good", "order.placed", "order-7");
    world.append("bad", "order.bad", "order-8");
    let address = free();
    let relay = relay(&world, &["--listen", &address], &[]);
    until(&address, "/readyz", "moving", |answer| answer.status == 200);
    assert_eq!(ask(&address, "/livez", &[]).unwrap().body, "ok\n");
    let dead = "postroom_dead_letters{store=\"main\",route=\"mailer\"} 1";
    let metrics = until(&address, "/metrics", "counting", |answer| answer.body.contains(dead));
    for line in [
        "postroom_deliveries_total{store=\"main\",route=\"mailer\",result=\"delivered\"} 1",
        "postroom_attempts_total{store=\"main\",route=\"mailer\",outcome=\"permanent\",code=\"exec.error\"} 1",
        "postroom_route_state{store=\"main\",route=\"mailer\",state=\"running\"} 1",
        "postroom_oldest_due_age_seconds{store=\"main\",route=\"mailer\"} 0",
        "postroom_store_up{store=\"main\"} 1",
        "postroom_delivery_latency_seconds_count{store=\"main\",route=\"mailer\"} 1",
    ] {
        assert!(metrics.body.contains(line), "{line}\n{}", metrics.body);
    }
    promtool(&metrics.body);
    let verbose = ask(&address, "/readyz?verbose", &[]).unwrap();
    assert!(verbose.body.contains("route mailer of store main: running"), "{}", verbose.body);
    let nothing = ask(&address, "/nothing", &[]).unwrap();
    assert!(nothing.status == 404 && nothing.head.contains("application/problem+json"), "{}", nothing.head);
    assert!(nothing.body.contains("\"code\":\"http.not_found\""), "{}", nothing.body);
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
}

#[test]
fn a_token_for_metrics_opens_metrics_and_nothing_is_told_without_it() {
    let world = World::new();
    let address = free();
    let env = [("POSTROOM_HTTP__METRICS_TOKEN", "canary-secret")];
    let relay = relay(&world, &["--listen", &address], &env);
    until(&address, "/readyz", "moving", |answer| answer.status == 200);
    for (headers, status) in [
        (&[][..], 401),
        (&["authorization: Bearer wrong"], 401),
        (&["authorization: Basic canary-secret"], 401),
        (&["authorization: Bearer canary-secret"], 200),
        (&["authorization: bearer  canary-secret"], 200),
        (&["x-metrics-token: canary-secret"], 200),
        (&["x-metrics-token: canary-secre"], 401),
    ] {
        for path in ["/metrics", "/v1/metrics", "/readyz?verbose"] {
            let answer = ask(&address, path, headers).unwrap();
            assert_eq!(answer.status, status, "{path} with {headers:?}");
            assert!(!answer.body.contains("canary") && (status == 200 || !answer.body.contains("mailer")));
        }
    }
    assert_eq!(ask(&address, "/api/v1/status", &[]).unwrap().status, 401, "nor is anything else");
    let open = ask(&address, "/v1/health", &[]).unwrap();
    assert_eq!(open.status, 200);
    assert!(open.body.contains("\"route\":\"mailer\"") && open.body.contains("\"status\":\"ok\""), "{}", open.body);
    assert!(!open.body.contains("canary") && !open.body.contains("problems"), "{}", open.body);
    let told = ask(&address, "/v1/health", &["x-metrics-token: canary-secret"]).unwrap();
    assert!(told.body.contains("\"problems\":[]"), "{}", told.body);
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
}

#[test]
fn an_address_that_is_taken_or_open_to_others_does_not_start() {
    let world = World::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let said = world.run(&["relay", "run", "--listen", &taken.local_addr().unwrap().to_string()]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains("cannot listen on 127.0.0.1:"), "{}", said.stderr);
    let said = world.run(&["relay", "run", "--listen", "0.0.0.0:7480"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains("can be reached from other machines"), "{}", said.stderr);
    let said = world.run(&["relay", "run", "--listen", "localhost"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains("is not an address with a port"), "{}", said.stderr);
}

#[test]
fn dead_letters_and_acceptances_come_page_by_page_and_each_once() {
    let world = World::bare();
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    world.write("postroom.toml", &config.replace("held.*", "order.*"));
    world.ok(&["store", "migrate", "up"]);
    world.append("twice", "order.bad", "o-1");
    world.append("again", "order.bad", "o-2");
    world.ok(&["relay", "run", "--drain"]);
    let page = world.run(&["dead", "ls", "--limit", "1"]);
    assert_eq!(page.stdout.matches("twice").count(), 2, "a page ends after both routes: {}", page.stdout);
    assert!(page.stderr.contains("there may be more: --after 1"), "{}", page.stderr);
    let address = free();
    let running = relay(&world, &["--listen", &address], &[]);
    until(&address, "/readyz", "moving", |answer| answer.status == 200);
    let pages = |path: &str, field: &str| {
        let (mut next, mut seen) = (Some(path.to_owned()), Vec::new());
        while let Some(path) = next {
            let page = ask(&address, &path, &[]).unwrap();
            let rows: serde_json::Value = serde_json::from_str(&page.body).unwrap();
            seen.extend(rows.as_array().unwrap().iter().map(|row| format!("{} {}", row["id"], row[field])));
            next = page.head.split("link: <").nth(1).map(|link| link.split('>').next().unwrap().to_owned());
        }
        seen
    };
    // Like a consumer in another language.
    sql(&world, r#"insert into postroom_inbox (consumer, id) values ('a&b', '1'), ('ä "c"', '1'), ('a&b', '2')"#);
    assert_eq!(pages("/api/v1/inbox?limit=1", "consumer"), [r#""2" "a&b""#, r#""1" "a&b""#, r#""1" "ä \"c\"""#]);
    let seen = pages("/api/v1/dead?limit=1", "route");
    assert_eq!(seen, ["\"twice\" \"held\"", "\"twice\" \"mailer\"", "\"again\" \"held\"", "\"again\" \"mailer\""]);
    running.signal(Signal::SIGTERM);
    assert_eq!(running.end().0, Some(0));
}

/// H-85
#[test]
fn a_reload_takes_all_of_a_good_configuration_and_nothing_of_a_bad_one() {
    let world = World::new();
    let address = free();
    let relay = relay(&world, &["--listen", &address], &[]);
    until(&address, "/readyz", "moving", |answer| answer.status == 200);
    let good = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    let (taken, refused) = ("postroom_config_reload_success 1", "postroom_config_reload_success 0");
    until(&address, "/metrics", "started", |answer| answer.body.contains(taken));
    let more = "[[route]]\nname = \"late\"\nstart = \"beginning\"\nto = { noop = {} }\n";
    for bad in [
        format!("{good}[[rote]]\nname = \"typo\"\n"),
        format!("{good}{more}[http]\nlate = \"1m\"\n"),
        format!("{good}{more}[store.other]\nurl = \"sqlite:///no/such/folder/shop.db\"\n"),
    ] {
        world.write("postroom.toml", &bad);
        relay.signal(Signal::SIGHUP);
        until(&address, "/metrics", "refused", |answer| answer.body.contains(refused));
        world.write("postroom.toml", &good);
        relay.signal(Signal::SIGHUP);
        let metrics = until(&address, "/metrics", "taken", |answer| answer.body.contains(taken));
        assert!(!metrics.body.contains("route=\"late\""), "nothing of it was taken: {bad}");
    }
    world.append("e-1", "order.placed", "order-7");
    world.write("postroom.toml", &format!("{good}{more}"));
    relay.signal(Signal::SIGHUP);
    let delivered = "postroom_deliveries_total{store=\"main\",route=\"late\",result=\"delivered\"} 1";
    until(&address, "/metrics", "serving the new route", |answer| answer.body.contains(delivered));
    until(&address, "/readyz", "moving", |answer| answer.status == 200);
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
}

#[test]
fn dashboards_and_rules_are_as_grafana_and_prometheus_read_them() {
    let world = World::bare();
    let made = world.json(&["dashboards", "export", "--dir", "monitoring"]);
    assert_eq!(made.as_array().unwrap().len(), 4, "{made}");
    let checked = Command::new("promtool")
        .args(["check", "rules"])
        .arg(world.path("monitoring/postroom-rules.yml"))
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    for file in ["overview", "route", "stores"] {
        let text = std::fs::read_to_string(world.path(&format!("monitoring/postroom-{file}.json"))).unwrap();
        let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(dashboard["panels"].as_array().unwrap().len() > 5, "{file}");
    }
    let said = world.run(&["dashboards", "export", "--dir", "/proc/nowhere"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains("/proc/nowhere cannot be written"), "{}", said.stderr);
}

/// When an alert fires and when it does not, by Prometheus' own reckoning.
#[test]
fn alerts_fire_when_they_should_and_not_before() {
    let world = World::bare();
    world.ok(&["dashboards", "export", "--dir", "."]);
    world.write("tests.yml", include_str!("rules.test.yml"));
    let tested = Command::new("promtool").args(["test", "rules"]).arg(world.path("tests.yml")).output().unwrap();
    let said = String::from_utf8_lossy(&tested.stdout).into_owned() + &String::from_utf8_lossy(&tested.stderr);
    assert!(tested.status.success(), "{said}");
    for alert in postroom_server::dashboards::ALERTS {
        assert!(
            include_str!("rules.test.yml").contains(&format!("alertname: {}\n", alert.name)),
            "{} is not tested",
            alert.name
        );
    }
}

#[test]
fn prometheus_scrapes_a_relay_and_every_panel_has_data() {
    let world = World::new();
    world.append("good", "order.placed", "order-7");
    world.append("bad", "order.bad", "order-8");
    let (address, prometheus) = (free(), free());
    let relay = relay(&world, &["--listen", &address], &[]);
    until(&address, "/metrics", "asked by the relay", |answer| answer.body.contains("postroom_blocked_keys{"));
    world.write(
        "prometheus.yml",
        &format!("scrape_configs:\n  - job_name: postroom\n    scrape_interval: 200ms\n    scrape_timeout: 200ms\n    static_configs:\n      - targets: ['{address}']\n"),
    );
    let mut server = Command::new("prometheus")
        .arg(format!("--config.file={}", world.path("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", world.path("tsdb").display()))
        .arg(format!("--web.listen-address={prometheus}"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for query in postroom_server::dashboards::queries() {
        let path = format!("/api/v1/query?query={}", escaped(&query));
        until(&prometheus, &path, &query, |answer| {
            let said: Option<serde_json::Value> = serde_json::from_str(body(answer)).ok();
            said.is_some_and(|said| said["data"]["result"].as_array().is_some_and(|rows| !rows.is_empty()))
        });
    }
    server.kill().unwrap();
    server.wait().unwrap();
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
}

/// The JSON of an answer that may come in chunks: small ones are one.
fn body(answer: &Answer) -> &str {
    let start = answer.body.find('{').unwrap_or_default();
    let end = answer.body.rfind('}').map_or(start, |end| end + 1);
    &answer.body[start..end]
}

fn escaped(query: &str) -> String {
    query
        .bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
