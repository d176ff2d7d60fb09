//! What `config check --online` is told.

use std::time::Duration;

use async_nats::jetstream::stream::StorageType;
use postroom_conformance::changed;
use postroom_core::{Diagnostic, DuplicateWindow, Level, Template, Transport};
use postroom_nats::{CreateStream, NatsOptions};
use postroom_testbed::{Servers, free_port};

use crate::nats::streams::{LONG, Stream, nats};

fn port() -> u16 {
    Servers::find().port("nats")
}

/// Findings as people see them: what is fine as it is, everything else by its code.
async fn check(options: NatsOptions) -> Vec<String> {
    let findings = nats(options).check().await;
    let word = |found: Diagnostic| match (found.level, found.code) {
        (Level::Fine, _) => match found.duplicate_window {
            Some(DuplicateWindow { code, what, lasts, fix }) => format!("{code}: {what} for {lasts:?}, {fix}"),
            None => found.message,
        },
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
async fn server_subject_window_and_what_an_acknowledgement_is_worth_are_shown() {
    let stream = Stream::new().await;
    let (name, port) = (&stream.name, port());
    let found = check(stream.options(port, LONG)).await;
    let server = (format!("nats://127.0.0.1:{port} is NATS 2."), "; it takes messages up to 1048576 bytes");
    assert!(found[0].starts_with(&server.0) && found[0].ends_with(server.1), "{}", found[0]);
    let expected = [
        format!("stream {name} takes {name}.{{type}}"),
        format!("nats.duplicate_window: stream {name} for 120s, nats stream edit {name} --dupe-window="),
        format!("warning nats.one_replica: stream {name} is on one server"),
    ];
    assert_eq!(found[1..], expected);
    assert_eq!(stream.messages().await, 0, "looking changes nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_and_subjects_left_out_are_warned_of() {
    let stream = Stream::missing(port()).await;
    let name = stream.name.clone();
    stream
        .create(|config| {
            (config.storage, config.duplicate_window) = (StorageType::Memory, Duration::from_secs(30));
            config.subjects = vec![format!("{name}.*")];
        })
        .await;
    let expected = [
        format!(
            "warning nats.subjects: stream {name} takes {name}.*; not every subject that {name}.{{type}} can make is one \
             of them"
        ),
        format!("nats.duplicate_window: stream {name} for 30s, nats stream edit {name} --dupe-window="),
        format!("warning nats.memory: stream {name} is kept in memory"),
    ];
    assert_eq!(check(stream.options(port(), LONG)).await[1..], expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_stop_the_route_is_a_problem_with_the_deliverys_code() {
    let (stream, missing) = (Stream::new().await, Stream::missing(port()).await);
    let mut astray = stream.options(port(), LONG);
    astray.subject = Template::parse("elsewhere", &[]).expect("a template");
    assert_eq!(check(astray).await[1], "problem nats.no_stream");
    let silent = Stream::with(|config| config.no_ack = true).await;
    assert_eq!(check(silent.options(port(), LONG)).await[1], "problem nats.wrong_stream");
    assert_eq!(check(missing.options(port(), LONG)).await[1], "problem nats.no_stream");
    let nobody = stream.options(free_port().expect("a port"), LONG);
    assert_eq!(check(nobody).await, ["problem nats.unreachable"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_will_be_created_is_not_created_by_looking() {
    let stream = Stream::missing(port()).await;
    let create = CreateStream { subjects: vec!["x".into()], replicas: 1, max_age: None, duplicate_window: None };
    let options = changed(stream.options(port(), LONG), |o| o.create = Some(create));
    for _ in 0..2 {
        let later = format!("stream {} does not exist; it is created at the first delivery", stream.name);
        assert_eq!(check(options.clone()).await[1], later);
    }
}
