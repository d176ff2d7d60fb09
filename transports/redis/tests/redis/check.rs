//! What `config check --online` is told.

use postroom_conformance::changed;
use postroom_core::{Diagnostic, Level, SecretUrl, Transport};
use postroom_redis::RedisOptions;
use postroom_testbed::brokers::{LIMITED_USER, PASSWORD, RedisWith, USER};
use postroom_testbed::{OwnServer, free_port};

use crate::streams::{LONG, Stream, ask, events, fixed, post, redis};

/// Findings as people see them: what is fine as it is, everything else by its code.
async fn check(options: RedisOptions) -> Vec<String> {
    let findings = redis(options).check().await;
    let word = |found: Diagnostic| match (found.level, found.code) {
        (Level::Fine, _) => found.message,
        (Level::Warning, Some(code)) => {
            assert!(!found.message.is_empty() && found.hint.is_some());
            format!("warning {code}: {}", found.message)
        }
        (Level::Problem, Some(code)) => format!("problem {code}"),
        (_, None) => panic!("no code: {}", found.message),
    };
    findings.into_iter().map(word).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_durability_stream_and_rights_are_shown() {
    let stream = Stream::new();
    let (name, port) = (&stream.name, stream.port);
    let info: String = ask(port, "INFO server").await;
    let told = |name: &str| info.lines().find_map(|line| line.strip_prefix(&format!("{name}_version:")));
    let program = told("valkey").map(|version| format!("Valkey {version}"));
    let program = program.unwrap_or_else(|| format!("Redis {}", told("redis").unwrap()));
    let expected = |about: &str| {
        [
            format!("redis://127.0.0.1:{port} is {program} with 0 replicas"),
            "a crash of the server may lose the last second or two (appendfsync everysec)".to_owned(),
            format!("stream {name} {about}"),
            format!("the user may write to {name}"),
        ]
    };
    let options = stream.options(port, LONG);
    assert_eq!(check(options.clone()).await, expected("does not exist; the first event creates it"));
    let there: i64 = ask(port, &format!("EXISTS {name}")).await;
    assert_eq!(there, 0, "looking changes nothing");
    post(options.clone()).deliver_until_ok(&events("e", 5)).await;
    assert_eq!(check(options.clone()).await, expected("has 5 entries and keeps all"));
    let capped = changed(options, |o| o.maxlen = Some(1000));
    assert_eq!(check(capped).await, expected("has 5 entries and keeps about 1000"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_throws_entries_away_is_warned_of() {
    let stream = Stream::new();
    let options = changed(stream.options(stream.port, LONG), |o| o.maxlen = Some(50));
    post(options.clone()).deliver_until_ok(&events("e", 200)).await;
    let found = check(options).await;
    assert!(found[2].starts_with("warning redis.trimmed: "), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_evicts_or_forgets_is_warned_of() {
    let lines = "maxmemory 100mb\nmaxmemory-policy allkeys-lru\nappendonly no";
    let server = OwnServer::start(RedisWith::lines(lines)).expect("a server");
    let found = check(Stream::on(server.site.port).options(server.site.port, LONG)).await;
    let eviction = "warning redis.eviction: the server may remove streams when its memory is full \
                    (maxmemory-policy allkeys-lru)";
    assert_eq!(found[1], eviction);
    assert!(found[2].starts_with("warning redis.not_durable: "), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_stop_the_route_is_a_problem_with_the_deliverys_code() {
    let stream = Stream::new();
    let () = stream.ask(&format!("SET {} occupied", stream.name)).await;
    assert_eq!(check(stream.options(stream.port, LONG)).await[2], "problem redis.wrong_type");
    let lonely = changed(stream.options(stream.port, LONG), |o| o.wait_replicas = Some(2));
    assert_eq!(check(lonely).await[1], "problem redis.replicas");
    assert_eq!(check(stream.options(free_port().expect("a port"), LONG)).await, ["problem redis.unreachable"]);
    let lines = format!("replicaof 127.0.0.1 {}", free_port().expect("a port"));
    let replica = OwnServer::start(RedisWith::lines(lines)).expect("a server");
    assert_eq!(check(stream.options(replica.site.port, LONG)).await[0], "problem redis.read_only");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_is_told_what_it_may_not_do_and_what_it_may_not_even_see() {
    let lines = format!("user sees on >{PASSWORD} ~other* +@all\nuser writes on >{PASSWORD} ~* +xadd");
    let server = OwnServer::start(RedisWith::lines(lines)).expect("a server");
    let stream = Stream::on(server.site.port);
    let of = |user: &str| {
        changed(stream.options(stream.port, LONG), |o| {
            o.url = SecretUrl::new(format!("redis://{user}:{PASSWORD}@127.0.0.1:{}", stream.port));
        })
    };
    assert_eq!(check(of(USER)).await.pop(), Some(format!("the user may write to {}", stream.name)));
    let sees = check(of("sees")).await;
    assert!(sees.contains(&"problem redis.permission".to_owned()), "{sees:?}");
    for user in ["writes", LIMITED_USER] {
        let found = check(of(user)).await;
        assert_eq!(found.len(), 1, "{found:?}");
        for word in ["INFO", "CONFIG GET", "TYPE", "ACL DRYRUN"] {
            assert!(found[0].starts_with("warning redis.unseen") && found[0].contains(word), "{found:?}");
        }
    }
    // It can write all the same: a check that sees nothing is no reason not to.
    post(of("writes")).deliver_until_ok(&events("e", 3)).await;
    assert_eq!(stream.length().await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_per_event_is_not_looked_up() {
    let stream = Stream::new();
    let options = changed(stream.options(stream.port, LONG), |o| o.stream = fixed("{type}"));
    assert_eq!(check(options).await.len(), 2);
}
