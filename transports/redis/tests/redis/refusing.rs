//! What the server refuses: whose failure it is, and that nobody else's event suffers.

use postroom_conformance::changed;
use postroom_conformance::transports::until;
use postroom_core::FailureKind::{Permanent, Transient, Unavailable};
use postroom_core::{Event, JSON};
use postroom_testbed::brokers::RedisWith;
use postroom_testbed::{FaultProxy, OwnServer, brokers, free_port};

use crate::streams::{LONG, Stream, event, events, failure, fixed, outcome, post};
use crate::stub::Stub;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_refusal_has_its_kind_and_code_and_ends_with_it() {
    let stub = Stub::answering("").await;
    let mut post = post(Stream::on(stub.port).options(stub.port, LONG));
    for (said, kind, code) in [
        ("-OOM command not allowed when used memory > 'maxmemory'.", Unavailable, "redis.out_of_memory"),
        ("-MISCONF Redis is configured to save RDB snapshots", Unavailable, "redis.misconf"),
        ("-READONLY You can't write against a read only replica.", Unavailable, "redis.read_only"),
        ("-MASTERDOWN Link with MASTER is down", Unavailable, "redis.read_only"),
        ("-LOADING Redis is loading the dataset in memory", Unavailable, "redis.loading"),
        ("-BUSY Redis is busy running a script.", Unavailable, "redis.busy"),
        ("-MOVED 3999 127.0.0.1:6381", Unavailable, "redis.cluster"),
        ("-ASK 3999 127.0.0.1:6381", Unavailable, "redis.cluster"),
        ("-CLUSTERDOWN The cluster is down", Unavailable, "redis.cluster"),
        ("-TRYAGAIN Multiple keys request during rehashing of slot", Unavailable, "redis.cluster"),
        ("-NOREPLICAS Not enough good replicas to write.", Unavailable, "redis.replicas"),
        ("-NOPERM this user has no permissions", Unavailable, "redis.permission"),
        ("-NOAUTH Authentication required.", Unavailable, "redis.login"),
        ("-WRONGTYPE Operation against a key holding the wrong kind of value", Unavailable, "redis.wrong_type"),
        ("-ERR unknown command 'XADD'", Unavailable, "redis.refused"),
        ("-ERR something new", Transient, "redis.refused"),
        ("-ERR Protocol error: invalid bulk length", Permanent, "redis.too_large"),
        (":7", Unavailable, "redis.refused"),
    ] {
        stub.answer(said);
        let failed = failure(&mut post, "e-1").await;
        assert_eq!((failed.kind, &*failed.code), (kind, code), "{said}: {failed:?}");
    }
    stub.answer("+1-0");
    outcome(&mut post, event("e-1")).await.expect("the server has come to its senses");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_among_a_thousand_fails_alone() {
    let stream = Stream::new();
    let name = stream.name.clone();
    let () = stream.ask(&format!("SET {name}.letter.sent occupied")).await;
    let mut events = events("e", 999);
    events.insert(500, Event::new("letter.sent").id("astray").bytes(JSON, "{}"));
    let options = changed(stream.options(stream.port, LONG), |o| o.stream = fixed(&format!("{name}.{{type}}")));
    let mut post = post(options);
    post.deliver(&events).await;
    let mut outcomes = post.outcomes().await;
    let failed = outcomes.remove("astray").expect("it was reported").expect_err("the key is no stream");
    assert_eq!((failed.kind, &*failed.code), (Unavailable, "redis.wrong_type"), "{failed:?}");
    assert_eq!(outcomes.values().filter(|outcome| outcome.is_ok()).count(), 999);
    let length: u64 = stream.ask(&format!("XLEN {name}.parcel.sent")).await;
    assert_eq!(length, 999);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receipt_says_stream_and_entry() {
    let stream = Stream::new();
    let receipt = outcome(&mut post(stream.options(stream.port, LONG)), event("e-1")).await.expect("it gets through");
    let entries: Vec<(String, Vec<String>)> = stream.ask(&format!("XRANGE {} - +", stream.name)).await;
    assert_eq!(receipt.place.as_deref(), Some(format!("{}@{}", stream.name, entries[0].0).as_str()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_memory_kills_no_event_and_takes_them_when_it_has_some() {
    let server = OwnServer::start(RedisWith::lines("maxmemory 1mb\nmaxmemory-policy noeviction")).expect("a server");
    let stream = Stream::on(server.site.port);
    let mut post = post(stream.options(stream.port, LONG));
    let large: Vec<Event> = events("e", 100).into_iter().map(|e| e.bytes("text/plain", vec![b'x'; 50_000])).collect();
    post.deliver(&large).await;
    let outcomes = post.outcomes().await;
    let left: Vec<Event> = large.into_iter().filter(|event| outcomes[&event.id].is_err()).collect();
    assert!(left.len() > 50, "{} did not fit", left.len());
    for failed in outcomes.into_values().filter_map(Result::err) {
        assert_eq!((failed.kind, &*failed.code), (Unavailable, "redis.out_of_memory"), "{failed:?}");
    }
    let () = stream.ask("CONFIG SET maxmemory 0").await;
    post.deliver_until_ok(&left).await;
    assert_eq!(stream.length().await, 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_has_become_a_replica_is_left_after_its_last_answer() {
    let server = OwnServer::start(&brokers::Redis).expect("a server");
    let stream = Stream::on(server.site.port);
    let proxy = FaultProxy::to(stream.port).await;
    let mut post = post(stream.options(proxy.port(), LONG));
    post.deliver_until_ok(&[event("e-0")]).await;
    let () = stream.ask(&format!("REPLICAOF 127.0.0.1 {}", free_port().expect("a port"))).await;
    post.deliver(&events("e", 500)).await;
    for (id, outcome) in post.outcomes().await {
        let failed = outcome.expect_err("a replica takes nothing");
        assert_eq!((failed.kind, &*failed.code), (Unavailable, "redis.read_only"), "{id}: {failed:?}");
    }
    until("the connection to be left", async || proxy.counts().open() == 0).await;
    let () = stream.ask("REPLICAOF NO ONE").await;
    post.deliver_until_ok(&events("e", 500)).await;
    assert_eq!(stream.length().await, 501);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_over_the_servers_limit_is_refused_for_good_and_alone() {
    let server = OwnServer::start(RedisWith::lines("proto-max-bulk-len 1mb")).expect("a server");
    let stream = Stream::on(server.site.port);
    let mut post = post(stream.options(stream.port, LONG));
    let sized = |id: &str, bytes: usize| event(id).bytes("text/plain", vec![b'x'; bytes]);
    let limit = 1024 * 1024;
    post.deliver(&[event("a"), sized("large", limit + 1), sized("fits", limit), event("b")]).await;
    let outcomes = post.outcomes().await;
    let failed = outcomes["large"].clone().expect_err("it is over the limit");
    assert_eq!((failed.kind, &*failed.code), (Permanent, "redis.too_large"), "{failed:?}");
    assert_eq!(stream.ids().await, ["a", "fits", "b"]);
    assert!(["a", "fits", "b"].iter().all(|id| outcomes[*id].is_ok()), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_keeps_about_as_many_entries_as_told() {
    let stream = Stream::new();
    let options = changed(stream.options(stream.port, LONG), |o| o.maxlen = Some(100));
    post(options).deliver_until_ok(&events("e", 1000)).await;
    let length = stream.length().await;
    // Whole nodes of the server's tree are thrown away, so it may be some more.
    assert!((100..500).contains(&length), "{length} entries");
    let newest = stream.ids().await.pop();
    assert_eq!(newest.as_deref(), Some("e-999"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_of_the_url_is_the_one_written_to() {
    let stream = Stream::new();
    let mut options = stream.options(stream.port, LONG);
    options.url = postroom_core::SecretUrl::new(format!("redis://127.0.0.1:{}/7", stream.port));
    post(options.clone()).deliver_until_ok(&[event("e-1")]).await;
    assert_eq!(stream.length().await, 0);
    let client = redis::Client::open(options.url.expose()).expect("an address");
    let mut seventh = client.get_multiplexed_async_connection().await.expect("it is there");
    let moved: i64 = redis::cmd("MOVE").arg(&stream.name).arg(0).query_async(&mut seventh).await.expect("an answer");
    assert_eq!((moved, stream.length().await), (1, 1));
    options.url = postroom_core::SecretUrl::new(format!("redis://127.0.0.1:{}/99", stream.port));
    let failed = failure(&mut post(options), "e-2").await;
    assert_eq!((failed.kind, &*failed.code), (Unavailable, "redis.refused"), "{failed:?}");
}
