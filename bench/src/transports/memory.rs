//! What a relay with routes to all five destinations keeps in memory while it delivers.

use std::process::{Command, Stdio};
use std::time::Duration;

use postroom_admin::ManagedStore as _;
use postroom_core::{Event, JSON};
use postroom_postgres::{PostgresOptions, PostgresStore};
use postroom_testbed::{Database, Servers};

use super::{payload, unique};
use crate::process::{binary, rss_mb, stop};

const COUNT: usize = 50_000;

pub(crate) async fn run(servers: &Servers) {
    let database = Database::create(servers).await;
    let folder = tempfile::tempdir().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let receiver = axum::Router::new().route("/hook", axum::routing::post(|_: axum::body::Bytes| async {}));
    let serving = tokio::spawn(async move { axum::serve(listener, receiver).await });
    let broker = format!("127.0.0.1:{}", servers.site("kafka").port);
    let (topic, name) = (super::kafka::topic(&broker), unique("bench"));
    let config = format!(
        r##"[store.main]
url = "{}"
[transport.webhook]
https_only = false
allow_networks = ["127.0.0.0/8"]
[topology.exchange.{name}]
type = "topic"
[topology.queue.{name}]
type = "classic"
bind = [{{ exchange = "{name}", routing_key = "#" }}]
[[route]]
name = "kafka"
to = {{ kafka = {{ brokers = ["{broker}"], topic = "{topic}" }} }}
[[route]]
name = "rabbitmq"
to = {{ rabbitmq = {{ url = "amqp://guest:guest@127.0.0.1:{}", exchange = "{name}" }} }}
[[route]]
name = "nats"
to = {{ nats = {{ url = "nats://127.0.0.1:{}", subject = "{name}", stream = "{name}", create = {{ subjects = ["{name}"] }} }} }}
[[route]]
name = "redis"
to = {{ redis = {{ url = "redis://127.0.0.1:{}", stream = "{name}" }} }}
[[route]]
name = "webhook"
to = {{ webhook = {{ url = "http://127.0.0.1:{port}/hook", concurrency = 32 }} }}
"##,
        database.url(),
        servers.site("rabbitmq").port,
        servers.site("nats").port,
        servers.site("redis").port,
    );
    std::fs::write(folder.path().join("postroom.toml"), config).unwrap();
    let program = || {
        let mut command = Command::new(binary());
        command.current_dir(folder.path()).stdout(Stdio::null());
        command
    };
    assert!(program().args(["store", "migrate", "up"]).status().unwrap().success());
    let mut relay = program().args(["relay", "run"]).stderr(Stdio::null()).spawn().unwrap();
    let store = PostgresStore::open(PostgresOptions::new("main", database.url())).await.unwrap();
    let admin = store.admin();
    for _ in 0..COUNT / 5_000 {
        let event = |n: usize| Event::new("bench.event").key(format!("key-{n}")).bytes(JSON, payload());
        admin.append(&(0..5_000).map(event).collect::<Vec<_>>()).await.unwrap();
    }
    let mut most = 0.0_f64;
    loop {
        most = most.max(rss_mb(&relay));
        let routes = admin.routes().await.unwrap();
        if routes.len() == 5 && routes.iter().all(|route| route.status.delivered >= COUNT as u64) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stop(&mut relay);
    serving.abort();
    println!("transports, one relay with all five, {COUNT} events each: {most:.0} MB RSS at most (target ≤ 80)");
}
