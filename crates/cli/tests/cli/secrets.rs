//! H-90: passwords are changed under load, first in the server, then in the file a relay reads them from.

#![allow(clippy::unwrap_used, reason = "what cannot be made or run fails the test")]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use postroom_testbed::brokers::Redis;
use postroom_testbed::{Cluster, LOCKED_ROLE, OwnServer};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use crate::http::{free, until};
use crate::world::{Running, World};

/// Does something on the server, as somebody who needs no password.
fn sql(url: &str, text: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = PgConnection::connect(url).await.unwrap();
        connection.execute(AssertSqlSafe(text)).await.unwrap();
    });
}

/// What the server answers, in one line.
fn redis(server: &OwnServer, command: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.site.port)).unwrap();
    write!(stream, "{command}\r\nQUIT\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(!answer.starts_with('-'), "{command}: {answer}");
    answer.lines().next().unwrap().to_owned()
}

/// Looks until it is so.
fn in_time(what: &str, so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(2);
    while !so() {
        assert!(Instant::now() < deadline, "{what}: not within two minutes");
    }
}

/// Appends as the application does, until it is told to stop; says how many.
fn load(url: String, stop: Arc<AtomicBool>) -> JoinHandle<u64> {
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut connection = PgConnection::connect(&url).await.unwrap();
            let mut appended = 0;
            while !stop.load(Ordering::SeqCst) {
                let event = format!("select postroom.append('order.placed', key => 'k-{}')", appended % 7);
                connection.execute(AssertSqlSafe(event)).await.unwrap();
                appended += 1;
            }
            appended
        })
    })
}

#[test]
fn a_relay_goes_on_with_new_passwords_and_loses_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (cluster, broker) = (runtime.block_on(Cluster::start(&[])), OwnServer::start(&Redis).unwrap());
    let (open, world, address) = (cluster.url("postgres"), World::bare(), free());
    let set_database = |password: &str| {
        sql(&open, &format!("alter role {LOCKED_ROLE} superuser password '{password}'"));
        format!("postgres://{LOCKED_ROLE}:{password}@127.0.0.1:{}/postgres\n", cluster.port())
    };
    let set_broker = |password: &str| {
        redis(&broker, &format!("ACL SETUSER relay on resetpass >{password} allkeys allchannels +@all"));
        format!("redis://relay:{password}@127.0.0.1:{}\n", broker.site.port)
    };
    world.write("database", &set_database("canary-one"));
    world.write("broker", &set_broker("canary-one"));
    let config = "name = \"test\"\n[store.main]\nurl_file = \"database\"\nlanes = 2\n[relay]\nlease = \"5s\"\n\
         [[route]]\nname = \"orders\"\nto = { redis = { url_file = \"broker\", stream = \"orders\" } }\n";
    world.write("postroom.toml", config);
    world.ok(&["store", "migrate", "up"]);
    let stop = Arc::new(AtomicBool::new(false));
    let appending = load(open.clone(), Arc::clone(&stop));
    let mut command = world.command(&["relay", "run", "--listen", &address]);
    command.stderr(File::create(world.path("log")).unwrap());
    let running = Running::start(command);
    let delivered = || {
        let page = until(&address, "/metrics", "counting", |answer| answer.body.contains("result=\"delivered\"}"));
        let line = page.body.lines().find(|line| line.contains("deliveries_total") && line.contains("\"delivered\"}"));
        line.unwrap().rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let goes_on = || {
        let before = delivered();
        in_time("it goes on", || delivered() >= before + 10);
    };
    goes_on();

    let url = set_database("canary-two");
    sql(&open, &format!("select pg_terminate_backend(pid) from pg_stat_activity where usename = '{LOCKED_ROLE}'"));
    until(&address, "/metrics", "kept out", |answer| answer.body.contains("postroom_store_up{store=\"main\"} 0"));
    world.write("database", &url);
    running.signal(Signal::SIGHUP);
    goes_on();

    let url = set_broker("canary-two");
    redis(&broker, "CLIENT KILL USER relay");
    // Not only the connection that was lost: the old password is refused.
    until(&address, "/metrics", "kept out", |answer| answer.body.contains("code=\"redis.login\""));
    world.write("broker", &url);
    running.signal(Signal::SIGHUP);
    goes_on();

    stop.store(true, Ordering::SeqCst);
    let appended = appending.join().unwrap();
    in_time("all is delivered", || world.json(&["status"])["routes"][0]["delivered"] == appended);
    let arrived: u64 = redis(&broker, "XLEN orders").trim_start_matches(':').parse().unwrap();
    assert!(arrived >= appended, "{arrived} of {appended} arrived");
    world.ok(&["verify"]);
    running.signal(Signal::SIGTERM);
    assert_eq!(running.end().0, Some(0));
    let log = std::fs::read_to_string(world.path("log")).unwrap();
    assert!(log.contains("refused the login") && log.contains("redis.login"), "both were refused: {log}");
    assert!(!log.contains("canary"), "{log}");
}
