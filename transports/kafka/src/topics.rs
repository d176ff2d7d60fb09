//! Topics as the cluster describes them, looked up before the first message and remembered.
//!
//! Asked before, because librdkafka holds messages for a topic it does not know for a long time before it says so.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postroom_core::Failure;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, OwnedResourceSpecifier, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::metadata::{MetadataBroker, MetadataTopic};
use rdkafka::producer::Producer as _;
use tokio::time::Instant;

use crate::LOG;
use crate::connection::{Producer, in_background};
use crate::context::Shared;
use crate::failures;
use crate::options::{Compression, KafkaOptions};

/// How long a topic that is not there is not asked for again.
const MISSING_FOR: Duration = Duration::from_secs(1);
/// How long nothing is sent to a topic that was refused.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// First and longest time a single question may take; in between we look whether an answer can still be hoped for.
const SLICES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));
/// How long the topics' limits may take; they are worth knowing, not worth waiting for.
const LIMITS_WITHIN: Duration = Duration::from_secs(5);

/// A topic.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) partitions: i32,
    /// Fewest replicas of a partition.
    pub(crate) replicas: usize,
    /// What it takes, as far as that may be known.
    pub(crate) limits: Limits,
    /// Largest message it takes, where that can be told beforehand.
    pub(crate) bytes_max: Option<usize>,
    pub(crate) looked_up: Instant,
    outdated: AtomicBool,
}

/// What a topic's configuration says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// `max.message.bytes`.
    pub(crate) batch_bytes_max: Option<usize>,
    /// `min.insync.replicas`.
    pub(crate) in_sync_min: Option<usize>,
    /// Whether it is compacted, and so takes nothing without a key.
    pub(crate) compacted: bool,
}

impl Topic {
    /// One nothing is known of but its name and partitions.
    #[cfg(test)]
    pub(crate) fn plain(name: &str, partitions: i32) -> Self {
        Self {
            name: name.to_owned(),
            partitions,
            replicas: 1,
            limits: Limits::default(),
            bytes_max: None,
            looked_up: Instant::now(),
            outdated: AtomicBool::new(false),
        }
    }

    /// An acknowledgement from this partition.
    pub(crate) fn wrote_to(&self, partition: i32) {
        if partition >= self.partitions {
            self.outdated.store(true, Ordering::Relaxed);
        }
    }
}

/// What is known of topics.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    known: HashMap<String, Arc<Topic>>,
    refused: HashMap<String, (Instant, Failure)>,
    partitions: HashMap<String, i32>,
}

impl Topics {
    /// The topic, or why nothing can be sent there; nothing when it has to be looked up.
    pub(crate) fn get(&mut self, name: &str) -> Option<Result<Arc<Topic>, Failure>> {
        if let Some(topic) = self.known.get(name)
            && !topic.outdated.load(Ordering::Relaxed)
        {
            return Some(Ok(Arc::clone(topic)));
        }
        if self.refused.is_empty() {
            return None;
        }
        let (until, failure) = self.refused.get(name)?;
        if *until > Instant::now() {
            return Some(Err(failure.clone()));
        }
        self.refused.remove(name);
        None
    }

    /// What was found out.
    pub(crate) fn learn(&mut self, name: String, found: Result<Topic, Failure>, route: &str) {
        match found {
            Ok(topic) => {
                let before = self.partitions.insert(name.clone(), topic.partitions);
                if let Some(before) = before.filter(|before| *before != topic.partitions) {
                    tracing::warn!(
                        target: LOG, route, topic = name, before, now = topic.partitions,
                        "the topic's number of partitions changed: keys may be in other partitions from here on, and their \
                         order across the change is up to the consumers"
                    );
                }
                self.known.insert(name, Arc::new(topic));
            }
            Err(failure) => {
                self.known.remove(&name);
                self.refuse_for(MISSING_FOR, name, failure);
            }
        }
    }

    /// Nothing can be sent there for a while.
    pub(crate) fn refuse(&mut self, name: String, failure: Failure) {
        self.refuse_for(REFUSED_FOR, name, failure);
    }

    fn refuse_for(&mut self, time: Duration, name: String, failure: Failure) {
        let now = Instant::now();
        // Names are made from events, and there may be many wrong ones.
        self.refused.retain(|_, (until, _)| *until > now);
        self.refused.insert(name, (now + time, failure));
    }

    /// Has this topic looked up again.
    pub(crate) fn forget(&mut self, name: &str) {
        self.known.remove(name);
    }

    /// Has all looked up again.
    pub(crate) fn forget_all(&mut self) {
        self.known.clear();
    }
}

/// What there is to look up, and how long that may take.
pub(crate) struct Question {
    pub(crate) options: Arc<KafkaOptions>,
    pub(crate) names: Vec<String>,
    pub(crate) until: Instant,
    /// Whether their limits are wanted, too.
    pub(crate) limits: bool,
}

/// Topics, or the failures of their lookups, by name.
pub(crate) type TopicResults = Vec<(String, Result<Topic, Failure>)>;

/// Looks topics up. Blocks; ends early when the question is abandoned or no answer can be hoped for.
pub(crate) fn look_up(producer: &Producer, shared: &Shared, question: Question) -> Result<TopicResults, Failure> {
    let Question { options, names, until, limits: with_limits } = question;
    let mut found = Vec::with_capacity(names.len());
    let mut broker = -1;
    for name in names {
        let (topic, some_broker) = describe(producer, shared, &name, until, options.timeout)?;
        found.push((name, topic));
        broker = some_broker;
    }
    shared.is_well();
    if !with_limits {
        return Ok(found);
    }
    let there: Vec<&str> = found.iter().filter(|(_, topic)| topic.is_ok()).map(|(name, _)| name.as_str()).collect();
    let limits = limits(&options, broker, &there);
    for (name, topic) in &mut found {
        if let Ok(topic) = topic {
            topic.limits = limits.get(name).copied().unwrap_or_default();
            // What is compressed is measured after that.
            topic.bytes_max = topic.limits.batch_bytes_max.filter(|_| options.compression == Compression::None);
        }
    }
    Ok(found)
}

/// The topic or what is wrong with it, and the number of a broker.
fn describe(
    producer: &Producer,
    shared: &Shared,
    name: &str,
    until: Instant,
    timeout: Duration,
) -> Result<(Result<Topic, Failure>, i32), Failure> {
    let mut slice = SLICES.0;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let error = match producer.client().fetch_metadata(Some(name), slice.min(left)) {
            Ok(metadata) => match metadata.topics().iter().find(|topic| topic.name() == name).map(topic) {
                Some(Err(Code::LeaderNotAvailable)) | None => Code::LeaderNotAvailable,
                Some(found) => {
                    let other = |code| Failure::unavailable("kafka.refused", format!("topic {name}: {code}"));
                    let why = |code| failures::about_topic(code, name).unwrap_or_else(|| other(code));
                    // The one that answered may have been reached by another name and have no number yet.
                    let broker = metadata.brokers().first().map_or(-1, MetadataBroker::id);
                    return Ok((found.map_err(why), broker));
                }
            },
            Err(error) => error.rdkafka_error_code().unwrap_or(Code::Unknown),
        };
        if shared.is_abandoned() {
            return Err(failures::closed());
        }
        if let Some((code, reason)) = producer.client().fatal_error() {
            return Err(failures::fatal(code, &reason));
        }
        if let Some(failure) = shared.hopeless() {
            return Err(failure);
        }
        if left <= slice {
            let silent = failures::silent(&format!("topic {name} could not be looked up ({error})"), timeout);
            return Err(shared.trouble().unwrap_or(silent));
        }
        slice = (slice * 2).min(SLICES.1);
    }
}

fn topic(found: &MetadataTopic) -> Result<Topic, Code> {
    if let Some(error) = found.error() {
        return Err(error.into());
    }
    Ok(Topic {
        name: found.name().to_owned(),
        partitions: i32::try_from(found.partitions().len()).unwrap_or(i32::MAX),
        replicas: found.partitions().iter().map(|partition| partition.replicas().len()).min().unwrap_or_default(),
        limits: Limits::default(),
        bytes_max: None,
        looked_up: Instant::now(),
        outdated: AtomicBool::new(false),
    })
}

/// The topics' limits, as far as they may be read. Every broker knows them, so this one is asked.
fn limits(options: &KafkaOptions, broker: i32, names: &[&str]) -> HashMap<String, Limits> {
    if names.is_empty() {
        return HashMap::new();
    }
    let Ok(admin) = options.client().create::<AdminClient<DefaultClientContext>>() else { return HashMap::new() };
    let resources: Vec<ResourceSpecifier<'_>> = names.iter().copied().map(ResourceSpecifier::Topic).collect();
    let ask = AdminOptions::new().request_timeout(Some(LIMITS_WITHIN.min(options.timeout))).broker_id(broker);
    let asked = admin.describe_configs(&resources, &ask);
    let answered = tokio::runtime::Handle::current().block_on(asked);
    in_background(move || drop(admin));
    let topics = answered.inspect_err(|error| tracing::debug!(target: LOG, %error, "topic limits cannot be read"));
    let read = |resource: ConfigResource| match &resource.specifier {
        OwnedResourceSpecifier::Topic(name) => Some((name.clone(), limits_of(&resource))),
        _ => None,
    };
    topics.into_iter().flatten().flatten().filter_map(read).collect()
}

fn limits_of(resource: &ConfigResource) -> Limits {
    let value = |name: &str| resource.get(name).and_then(|entry| entry.value.as_deref());
    Limits {
        batch_bytes_max: value("max.message.bytes").and_then(|text| text.parse().ok()),
        in_sync_min: value("min.insync.replicas").and_then(|text| text.parse().ok()),
        compacted: value("cleanup.policy").is_some_and(|policy| policy.contains("compact")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_looked_up_again_when_an_unknown_partition_acknowledges() {
        let mut topics = Topics::default();
        assert!(topics.get("t").is_none());
        topics.learn("t".to_owned(), Ok(Topic::plain("t", 3)), "r");
        let topic = topics.get("t").unwrap().unwrap();
        topic.wrote_to(2);
        assert!(topics.get("t").is_some());
        topic.wrote_to(3);
        assert!(topics.get("t").is_none());
        topics.learn("t".to_owned(), Ok(Topic::plain("t", 6)), "r");
        assert!(topics.get("t").is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_topic_that_is_missing_or_refused_is_asked_for_again_after_a_while() {
        let mut topics = Topics::default();
        let failure = || Failure::unavailable("kafka.unknown_topic", "t");
        topics.learn("missing".to_owned(), Err(failure()), "r");
        topics.refuse("refused".to_owned(), failure());
        assert!(matches!(topics.get("missing"), Some(Err(_))) && matches!(topics.get("refused"), Some(Err(_))));
        tokio::time::advance(MISSING_FOR).await;
        assert!(topics.get("missing").is_none() && topics.get("refused").is_some());
        tokio::time::advance(REFUSED_FOR).await;
        assert!(topics.get("refused").is_none());
    }
}
