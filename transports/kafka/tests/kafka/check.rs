//! What `config check --online` is told.

use postroom_conformance::changed;
use postroom_core::{Diagnostic, Level, Secret, Transport};
use postroom_kafka::{Acks, KafkaOptions, Mechanism, Sasl};
use postroom_testbed::brokers::{LIMITED_USER, PASSWORD, USER};
use postroom_testbed::{Servers, free_port, unique_name};
use postroom_tls::TlsFiles;

use crate::cluster::Cluster;
use crate::kafka::workshop::{kafka, options, template};

/// Findings as lines: how good, code, words.
async fn found(options: KafkaOptions) -> Vec<String> {
    let transport = kafka(options);
    let findings = transport.check().await;
    transport.close().await;
    let line = |found: Diagnostic| match (found.level, found.code) {
        (Level::Warning, Some(code)) => format!("warning {code}: {}", found.message),
        (Level::Problem, Some(code)) => format!("problem {code}: {}", found.message),
        _ => format!("fine: {}", found.message),
    };
    findings.into_iter().map(line).collect()
}

#[tokio::test]
async fn topics_are_described_and_what_promises_less_is_warned_of() {
    let cluster = Cluster::shared();
    let topic = cluster.topic(3, &[("max.message.bytes", "4000")]).await;
    let lines = found(options(&cluster.brokers, &topic)).await;
    assert_eq!(
        lines,
        [
            format!("fine: {} accepts connections without TLS, without a login", cluster.brokers),
            format!("fine: topic {topic} has 3 partitions, 1 replicas, min.insync.replicas 1, max.message.bytes 4000"),
            format!(
                "warning kafka.one_replica: topic {topic} has one replica: its events are lost with the disk of that broker"
            ),
        ]
    );
    assert!(cluster.read(&topic).await.is_empty(), "something was written");
}

#[tokio::test]
async fn the_way_in_is_told_and_a_password_in_clear_is_warned_of() {
    let (servers, ca) = (Servers::find(), Servers::find().certificates().ca());
    let topic = Cluster::shared().topic(1, &[]).await;
    let brokers = |listener: &str| format!("localhost:{}", servers.site("kafka").port_of(listener));
    let sasl = |mechanism| Some(Sasl { mechanism, username: USER.to_owned(), password: Secret::new(PASSWORD) });
    let tls = Some(TlsFiles { ca_file: Some(ca), ..TlsFiles::default() });
    let settings = options(&brokers("sasl_tls"), &topic);
    let lines = found(changed(settings, |o| {
        o.tls = tls;
        o.sasl = sasl(Mechanism::ScramSha512);
    }))
    .await;
    assert!(lines[0].ends_with("accepts connections over TLS, logged in as relay (SCRAM-SHA-512)"), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("clear")), "{lines:?}");
    let settings = options(&brokers("sasl"), &topic);
    let lines = found(changed(settings, |o| {
        o.sasl = sasl(Mechanism::Plain);
        o.acks = Acks::Leader;
    }))
    .await;
    assert!(lines.iter().any(|line| line.starts_with("warning kafka.password_in_clear")), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("warning kafka.acks")), "{lines:?}");
    assert!(!format!("{lines:?}").contains(PASSWORD));
}

#[tokio::test]
async fn what_would_fail_is_a_problem_with_the_code_it_would_have() {
    let (cluster, servers) = (Cluster::shared(), Servers::find());
    let (topic, missing) = (cluster.topic(1, &[]).await, unique_name("missing"));
    let lines = found(changed(options(&cluster.brokers, &topic), |o| o.dlq_topic = Some(template(&missing)))).await;
    assert!(lines.iter().any(|line| line.starts_with(&format!("fine: topic {topic}"))), "{lines:?}");
    assert!(
        lines.iter().any(|line| line.starts_with(&format!("problem kafka.unknown_topic: topic {missing}"))),
        "{lines:?}"
    );

    let nobody = format!("127.0.0.1:{}", free_port().unwrap());
    let lines = found(options(&nobody, &topic)).await;
    assert!(lines.len() == 1 && lines[0].starts_with("problem kafka.unreachable"), "{lines:?}");

    let sasl = |password| {
        let (mechanism, password) = (Mechanism::ScramSha256, Secret::new(password));
        Some(Sasl { mechanism, username: LIMITED_USER.to_owned(), password })
    };
    let brokers = format!("localhost:{}", servers.site("kafka").port_of("sasl"));
    let lines = found(changed(options(&brokers, &topic), |o| o.sasl = sasl(PASSWORD))).await;
    assert!(lines.iter().any(|line| line.starts_with("problem kafka.not_authorized")), "{lines:?}");
    let lines = found(changed(options(&brokers, &topic), |o| o.sasl = sasl("wrong"))).await;
    assert!(lines.len() == 1 && lines[0].starts_with("problem kafka.login"), "{lines:?}");
}

#[tokio::test]
async fn topics_made_from_events_are_left_to_the_events() {
    let cluster = Cluster::shared();
    let lines = found(options(&cluster.brokers, "shop.{type}")).await;
    assert_eq!(
        lines,
        [
            "fine: topics are made from events (shop.{type}): each is looked up at its first event".to_owned(),
            format!("fine: {} accepts connections without TLS, without a login", cluster.brokers),
        ]
    );
    let lines = found(options(&cluster.brokers, "größe")).await;
    assert!(lines[0].starts_with("problem kafka.topic_name"), "{lines:?}");
}
