//! What `config check --online` looks up: is there a cluster that lets us in, and are the topics as they should be?
//!
//! Nothing is written. That a user may write to one topic and not to another shows at the first event only.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::{Diagnostic, Failure};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::connection::Connection;
use crate::driver::Orders;
use crate::options::{Acks, BATCH_BYTES, Batches, KafkaOptions, Mechanism, Sasl};
use crate::topics::{self, Question, Topic, TopicResults};
use crate::{failures, message};

/// How long all questions together may take.
const WITHIN: Duration = Duration::from_secs(20);
/// How often librdkafka is asked whether it may write.
const ASKED_EVERY: &str = "100";
/// Asked for where no topic has a fixed name; whether it is there does not matter.
const SOME_TOPIC: &str = "postroom";

/// Looks everything up and says what there is.
pub(crate) async fn check(orders: &Arc<Orders>) -> Vec<Diagnostic> {
    let options = &orders.options;
    let mut findings = Vec::new();
    let mut names = Vec::new();
    for template in std::iter::once(&options.topic).chain(&options.dlq_topic) {
        match template.fixed() {
            Some(name) => match message::valid_name(name) {
                Ok(()) => names.push(name.to_owned()),
                Err(failure) => findings.push(Diagnostic::from(failure)),
            },
            None => findings.push(Diagnostic::fine(format!(
                "topics are made from events ({}): each is looked up at its first event",
                template.as_str()
            ))),
        }
    }
    match ask(orders, names).await {
        Ok(found) => {
            findings.extend(way_in(options));
            findings.extend(found.into_iter().flat_map(|(_, topic)| about(topic)));
        }
        Err(failure) => findings.push(Diagnostic::from(failure)),
    }
    findings
}

async fn ask(orders: &Arc<Orders>, names: Vec<String>) -> Result<TopicResults, Failure> {
    let until = Instant::now() + WITHIN.min(orders.options.timeout);
    let asked = Arc::clone(orders);
    let asking = spawn_blocking(move || {
        let mut config = asked.options.producer(Batches::Bytes(BATCH_BYTES));
        config.set("statistics.interval.ms", ASKED_EVERY);
        let connection = Connection::with(&config, &asked.route, Batches::Bytes(BATCH_BYTES))?;
        let Some((producer, shared)) = connection.to_ask() else { return Err(failures::closed()) };
        let (options, nothing) = (Arc::clone(&asked.options), names.is_empty());
        let names = if nothing { vec![SOME_TOPIC.to_owned()] } else { names };
        let mut found = topics::look_up(&producer, &shared, Question { options, names, until, limits: true })?;
        if nothing {
            found.clear();
        }
        Ok((connection, found))
    });
    let panicked = |_| Err(Failure::unavailable("kafka.fatal", "a thread of the transport panicked"));
    let (connection, found) = asking.await.unwrap_or_else(panicked)?;
    if orders.options.acks == Acks::All && found.iter().all(|(_, topic)| topic.is_ok()) {
        may_write(&connection, until, orders.options.timeout).await?;
    }
    Ok(found)
}

/// Waits until the cluster has given us a producer id, which it does not give to who may write nowhere.
async fn may_write(connection: &Connection, until: Instant, timeout: Duration) -> Result<(), Failure> {
    let answered = async {
        loop {
            if connection.shared.may_write() {
                return Ok(());
            }
            if let Some(ended) = connection.ended() {
                return Err(ended.failure);
            }
            connection.shared.bell.notified().await;
        }
    };
    let silent = |_| Err(failures::silent("no producer id was given", timeout));
    timeout_at(until, answered).await.unwrap_or_else(silent)
}

fn way_in(options: &KafkaOptions) -> Vec<Diagnostic> {
    let tls = match &options.tls {
        Some(files) if files.cert_file.is_some() => "over TLS, with a certificate of ours",
        Some(_) => "over TLS",
        None => "without TLS",
    };
    let login = match &options.sasl {
        Some(Sasl { mechanism, username, .. }) => format!("logged in as {username} ({})", mechanism.as_str()),
        None => "without a login".to_owned(),
    };
    let mut findings =
        vec![Diagnostic::fine(format!("{} accepts connections {tls}, {login}", options.brokers.join(", ")))];
    if options.tls.is_none() && options.sasl.as_ref().is_some_and(|sasl| sasl.mechanism == Mechanism::Plain) {
        findings.push(
            Diagnostic::warning(
                "kafka.password_in_clear",
                "the password is sent in clear text: anybody on the network path can read it".to_owned(),
            )
            .hint("add tls, or use mechanism = \"scram-sha-512\"".to_owned()),
        );
    }
    if options.acks != Acks::All {
        findings.push(
            Diagnostic::warning(
                "kafka.acks",
                "events count as delivered before replicas have them: a broker that dies loses events".to_owned(),
            )
            .hint("use acks = \"all\", unless these events may be lost".to_owned()),
        );
    }
    findings
}

fn about(topic: Result<Topic, Failure>) -> Vec<Diagnostic> {
    let Topic { name, partitions, replicas, limits, .. } = match topic {
        Ok(topic) => topic,
        Err(failure) => return vec![Diagnostic::from(failure)],
    };
    let known = |value: Option<usize>| value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    let mut findings = vec![Diagnostic::fine(format!(
        "topic {name} has {partitions} partitions, {replicas} replicas, min.insync.replicas {}, max.message.bytes {}",
        known(limits.in_sync_min),
        known(limits.batch_bytes_max),
    ))];
    if replicas == 1 {
        findings.push(
            Diagnostic::warning(
                "kafka.one_replica",
                format!("topic {name} has one replica: its events are lost with the disk of that broker"),
            )
            .hint("give it three replicas and min.insync.replicas = 2".to_owned()),
        );
    } else if limits.in_sync_min == Some(1) {
        findings.push(
            Diagnostic::warning(
                "kafka.in_sync_min",
                format!("topic {name} has min.insync.replicas 1: a single broker may acknowledge an event"),
            )
            .hint("set it to 2".to_owned()),
        );
    }
    if limits.batch_bytes_max.is_none() {
        findings.push(
            Diagnostic::warning(
                "kafka.limits_unknown",
                format!("the user may not read the configuration of topic {name}, so events that are too large are found by trying"),
            )
            .hint("grant this user DESCRIBE_CONFIGS on it".to_owned()),
        );
    }
    findings
}
