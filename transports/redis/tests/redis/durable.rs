//! What an answer is worth: replicas, and what a crash leaves.

use nix::sys::signal::Signal;
use postroom_conformance::changed;
use postroom_core::{Diagnostic, FailureKind, Transport};
use postroom_testbed::brokers::RedisWith;
use postroom_testbed::{OwnServer, brokers};

use crate::streams::{LONG, SHORT, Stream, ask, event, events, failure, post, redis};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_replicas_asked_for_an_event_counts_only_when_they_have_it() {
    let primary = OwnServer::start(&brokers::Redis).expect("a server");
    let stream = Stream::on(primary.site.port);
    let options = changed(stream.options(stream.port, SHORT), |o| o.wait_replicas = Some(1));
    let mut post = post(options);
    let failed = failure(&mut post, "alone").await;
    assert_eq!((failed.kind, &*failed.code), (FailureKind::Unavailable, "redis.replicas"), "{failed:?}");

    let replica = OwnServer::start(RedisWith::lines(format!("replicaof 127.0.0.1 {}", stream.port))).expect("a server");
    post.deliver_until_ok(&[event("e-1")]).await;
    let at_replica: u64 = ask(replica.site.port, &format!("XLEN {}", stream.name)).await;
    assert_eq!(at_replica, stream.length().await, "the replica has what was reported");
    post.deliver_until_ok(&events("many", 1000)).await;

    replica.signal(Signal::SIGSTOP).expect("it is there");
    assert_eq!(failure(&mut post, "e-2").await.code, "redis.replicas");
    replica.signal(Signal::SIGCONT).expect("it is there");
    post.deliver_until_ok(&[event("e-2")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_without_an_append_only_file_loses_what_was_answered_and_check_says_so_before() {
    // Not `everysec`: while a sync of its takes long, it answers before it has written, which a slow disk decides.
    for (lines, left, warned) in
        [("appendonly no", 0, true), ("appendfsync no", 100, true), ("appendfsync always", 100, false)]
    {
        let server = OwnServer::start(RedisWith::lines(lines)).expect("a server");
        let stream = Stream::on(server.site.port);
        let transport = redis(stream.options(stream.port, LONG));
        let findings = transport.check().await;
        let warning = |found: &Diagnostic| found.code.as_deref() == Some("redis.not_durable");
        assert_eq!(findings.iter().any(warning), warned, "{lines}: {findings:?}");
        let mut post = post(stream.options(stream.port, LONG));
        post.deliver_until_ok(&events("e", 100)).await;
        // The process dies, the machine does not: what was written to the file is there, synced or not.
        server.crash().expect("it ends");
        server.resume().expect("it starts");
        assert_eq!(stream.length().await, left, "{lines}");
    }
}
