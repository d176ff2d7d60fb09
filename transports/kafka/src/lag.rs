//! Lag of consumer groups: what they have committed, against the ends of the topics of the route.
//!
//! Asks with clients of its own, that write nothing and join no group: one for topics and the list of groups, and one for each group,
//! because librdkafka asks for offsets in the name of a group. They block, so a thread of their own asks; one that nobody waits for
//! any more ends by itself.

mod members;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use postroom_core::{ConsumerLag, ConsumerLags, Failure, LagOptions, LagReader};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::groups::GroupInfo;
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::connection::in_background;
use crate::options::KafkaOptions;
use crate::{LOG, failures, message};

/// How long one read may take.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// First and longest time a single question may take; in between we look whether an answer can still be hoped for.
const SLICES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(2));
/// How long one look takes at what librdkafka has to say.
const LOOK: Duration = Duration::from_millis(5);
/// Most groups whose lag is read; each has a client, with its threads and connections.
const GROUPS_MAX: usize = 16;
/// Most groups without members that one read looks into for the first time.
const LOOKED_INTO_MAX: usize = 8;
/// How long a group that has nothing to do with our topics is not looked into again.
const ELSEWHERE_FOR: Duration = Duration::from_mins(10);
/// Most topics of a route whose consumers are read.
const TOPICS_MAX: usize = 100;

/// Reader of the lag of the groups that read the topics of a route.
pub(crate) struct GroupLag {
    options: Arc<KafkaOptions>,
    lag: LagOptions,
    // Away while a thread asks.
    clients: Option<Clients>,
}

impl GroupLag {
    /// Nothing when the names of the topics have no fixed start: then nobody knows which they are.
    pub(crate) fn new(options: &Arc<KafkaOptions>, lag: &LagOptions) -> Option<Self> {
        let known = !options.topic.start().is_empty();
        known.then(|| Self { options: Arc::clone(options), lag: lag.clone(), clients: None })
    }
}

#[async_trait]
impl LagReader for GroupLag {
    fn every(&self) -> Duration {
        self.lag.every
    }

    async fn read(&mut self) -> Result<ConsumerLags, Failure> {
        let mut clients = self.clients.take().unwrap_or_default();
        let (options, names) = (Arc::clone(&self.options), self.lag.names.clone());
        let (answer, answered) = oneshot::channel();
        let asking = move || {
            let until = Instant::now() + READ_WITHIN.min(options.timeout);
            let read = clients.read(&Question { options: &options, names: &names, until });
            // Nobody waits any more when the relay has stopped.
            let _ = answer.send((clients, read));
        };
        let started = thread::Builder::new().name("kafka-lag".to_owned()).spawn(asking);
        started.map_err(|error| Failure::unavailable("kafka.config", format!("no thread to read the lag: {error}")))?;
        let panicked = |_| Failure::unavailable("kafka.fatal", "the thread that reads the lag panicked");
        let (clients, read) = answered.await.map_err(panicked)?;
        // Clients that were told nothing are ended: the next read begins anew.
        if read.is_ok() {
            self.clients = Some(clients);
        } else {
            in_background(move || drop(clients));
        }
        read
    }
}

impl Drop for GroupLag {
    fn drop(&mut self) {
        let clients = self.clients.take();
        in_background(move || drop(clients));
    }
}

impl fmt::Debug for GroupLag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupLag").field("options", &self.options).field("lag", &self.lag).finish_non_exhaustive()
    }
}

/// What there is to read, and until when.
struct Question<'a> {
    options: &'a KafkaOptions,
    names: &'a [String],
    until: Instant,
}

impl Question<'_> {
    /// Asks, for a while at a time: librdkafka waits even where no answer can be hoped for.
    fn ask<R>(&self, client: &Client, question: impl Fn(Duration) -> KafkaResult<R>) -> Result<R, Failure> {
        let mut slice = SLICES.0;
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            let answer = question(slice.min(left).max(Duration::from_millis(1)));
            let trouble = client.context().trouble(client);
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let code = error.rdkafka_error_code().unwrap_or(Code::Unknown);
            let waits =
                matches!(code, Code::OperationTimedOut | Code::BrokerTransportFailure | Code::WaitingForCoordinator);
            if let Some(failure) = trouble.filter(|_| waits) {
                return Err(failure);
            }
            if !waits || left <= slice {
                return Err(failures::lag(code, &client.context().reason().unwrap_or_else(|| error.to_string())));
            }
            slice = (slice * 2).min(SLICES.1);
        }
    }

    fn client(&self, group: Option<&str>) -> Result<Client, Failure> {
        let mut config = self.options.client();
        config.set("enable.auto.commit", "false");
        if let Some(group) = group {
            config.set("group.id", group);
        }
        config.create_with_context(Quiet::default()).map_err(|error| failures::setting_up(&error))
    }
}

type Client = BaseConsumer<Quiet>;

/// A topic with its partitions, and the offsets of their first and next message.
type Partitions = BTreeMap<i32, (i64, i64)>;
type Topics = BTreeMap<String, Partitions>;

/// Clients that were opened so far.
#[derive(Default)]
struct Clients {
    asker: Option<Client>,
    groups: BTreeMap<String, Client>,
    /// Groups that have committed nothing on our topics, and when that was found.
    elsewhere: HashMap<String, Instant>,
}

/// A group that may read our topics.
struct Group {
    name: String,
    members: Option<u64>,
    /// Topics its members are subscribed to.
    topics: BTreeSet<String>,
    /// Whether it is shown whatever it has committed.
    wanted: bool,
}

impl Clients {
    fn read(&mut self, question: &Question<'_>) -> Result<ConsumerLags, Failure> {
        let asker = match self.asker.take() {
            Some(asker) => asker,
            None => question.client(None)?,
        };
        let asker = self.asker.insert(asker);
        let topics = ends(asker, topics(asker, question)?, question)?;
        let mut problems = Vec::new();
        let groups = if question.names.is_empty() {
            let listed = question.ask(asker, |within| asker.fetch_group_list(None, within))?;
            discovered(listed.groups(), &topics, &self.groups)
        } else {
            question.names.iter().map(|name| named(asker, name, question)).collect()
        };
        let groups = self.chosen(groups, question, &mut problems)?;
        let mut consumers = Vec::new();
        for group in groups {
            match self.committed(&group, &topics, question) {
                Ok(committed) => self.add(&group, &topics, &committed, &mut consumers, &mut problems),
                Err(failure) => {
                    let places = topics
                        .keys()
                        .filter(|topic| group.wanted && (group.topics.is_empty() || group.topics.contains(*topic)));
                    consumers.extend(places.map(|topic| ConsumerLag::new(topic, &group.name, None, None)));
                    problems.push(format!("{}: {}", failure.code, failure.error));
                }
            }
        }
        Ok(ConsumerLags::new(consumers, problems.join("; ")))
    }

    /// Opens clients for the groups that count, and ends those of groups that are gone.
    fn chosen(
        &mut self,
        groups: Vec<Group>,
        question: &Question<'_>,
        problems: &mut Vec<String>,
    ) -> Result<Vec<Group>, Failure> {
        let now = Instant::now();
        self.elsewhere.retain(|name, since| {
            now.duration_since(*since) < ELSEWHERE_FOR && groups.iter().any(|group| group.name == *name)
        });
        let (mut chosen, mut looked_into, mut left_out) = (Vec::new(), 0, 0);
        // Known ones and those with members first: what is left out is what nobody has asked for.
        let mut groups = groups;
        groups.sort_by_key(|group| (!group.wanted, !self.groups.contains_key(&group.name)));
        for group in groups {
            let known = self.groups.contains_key(&group.name);
            if !group.wanted && !known {
                if self.elsewhere.contains_key(&group.name) || looked_into == LOOKED_INTO_MAX {
                    continue;
                }
                looked_into += 1;
            }
            if chosen.len() == GROUPS_MAX {
                left_out += usize::from(group.wanted || known);
                continue;
            }
            chosen.push(group);
        }
        if left_out > 0 {
            problems
                .push(format!("{left_out} more groups read these topics; name those that matter in consumers.groups"));
        }
        self.groups.retain(|name, _| chosen.iter().any(|group| group.name == *name));
        for group in &chosen {
            // All of them before the first is asked: they find their coordinators side by side.
            if !self.groups.contains_key(&group.name) {
                self.groups.insert(group.name.clone(), question.client(Some(&group.name))?);
            }
        }
        Ok(chosen)
    }

    /// What the group has committed: nothing for partitions on which it never did.
    fn committed(&self, group: &Group, topics: &Topics, question: &Question<'_>) -> Result<Committed, Failure> {
        let Some(client) = self.groups.get(&group.name) else { return Ok(Committed::new()) };
        let answer = question.ask(client, |within| client.committed_offsets(list(topics, Offset::Invalid), within));
        let answer = answer.map_err(|failure| about_group(failure, &group.name))?;
        let mut committed = Committed::new();
        for element in answer.elements() {
            match (element.error(), element.offset()) {
                (Err(error), _) => {
                    let code = error.rdkafka_error_code().unwrap_or(Code::Unknown);
                    return Err(about_group(failures::lag(code, &error.to_string()), &group.name));
                }
                (Ok(()), Offset::Offset(offset)) => {
                    committed.insert((element.topic().to_owned(), element.partition()), offset);
                }
                (Ok(()), _) => {}
            }
        }
        Ok(committed)
    }

    fn add(
        &mut self,
        group: &Group,
        topics: &Topics,
        committed: &Committed,
        consumers: &mut Vec<ConsumerLag>,
        problems: &mut Vec<String>,
    ) {
        let before = consumers.len();
        for (topic, partitions) in topics {
            let messages = lag(topic, partitions, committed);
            let reads = group.topics.contains(topic) || group.wanted && group.topics.is_empty() && topics.len() == 1;
            if messages.is_none() && reads {
                problems.push(format!("group {} has committed nothing on topic {topic}", group.name));
            }
            if messages.is_some() || reads {
                consumers.push(ConsumerLag::new(topic, &group.name, messages, group.members));
            }
        }
        if consumers.len() == before && !group.wanted {
            self.elsewhere.insert(group.name.clone(), Instant::now());
            if let Some(client) = self.groups.remove(&group.name) {
                in_background(move || drop(client));
            }
        }
    }
}

/// Offsets that a group has committed, by topic and partition.
type Committed = HashMap<(String, i32), i64>;

/// Messages behind what is committed. On a partition where the group never committed, all that are there; nothing if it never did
/// on the whole topic.
fn lag(topic: &str, partitions: &Partitions, committed: &Committed) -> Option<u64> {
    let of = |partition: i32| committed.get(&(topic.to_owned(), partition)).copied();
    partitions.keys().any(|partition| of(*partition).is_some()).then(|| {
        let behind = |(partition, (first, next)): (&i32, &(i64, i64))| {
            let done = of(*partition).map_or(*first, |offset| offset.max(*first));
            u64::try_from(next - done).unwrap_or(0)
        };
        partitions.iter().map(behind).sum()
    })
}

/// The topics of the route, with their partitions.
fn topics(asker: &Client, question: &Question<'_>) -> Result<Topics, Failure> {
    let template = &question.options.topic;
    let fixed = template.fixed();
    if let Some(name) = fixed {
        message::valid_name(name)?;
    }
    let metadata = question.ask(asker, |within| asker.fetch_metadata(fixed, within))?;
    let dead = question.options.dlq_topic.as_ref().and_then(|template| template.fixed());
    let mut topics = Topics::new();
    for topic in metadata.topics() {
        let ours = fixed == Some(topic.name())
            || fixed.is_none() && dead != Some(topic.name()) && template.makes(topic.name());
        if !ours || topics.len() == TOPICS_MAX {
            continue;
        }
        if let Some(error) = topic.error() {
            let code = Code::from(error);
            let unknown = || failures::lag(code, &format!("topic {}: {code}", topic.name()));
            return Err(failures::about_topic(code, topic.name())
                .filter(|_| code == Code::UnknownTopicOrPartition)
                .unwrap_or_else(unknown));
        }
        topics.insert(
            topic.name().to_owned(),
            topic.partitions().iter().map(|partition| (partition.id(), (0, 0))).collect(),
        );
    }
    Ok(topics)
}

/// Finds the offsets of the first and the next message of every partition.
fn ends(asker: &Client, mut topics: Topics, question: &Question<'_>) -> Result<Topics, Failure> {
    let ask = |offset: Offset, topics: &Topics| {
        // A time of -2 or -1 stands for the beginning and the end.
        question.ask(asker, |within| asker.offsets_for_times(list(topics, offset), within))
    };
    if topics.is_empty() {
        return Ok(topics);
    }
    let (first, next) = (ask(Offset::Beginning, &topics)?, ask(Offset::End, &topics)?);
    for (found, is_next) in [(first, false), (next, true)] {
        for element in found.elements() {
            element.error().map_err(|error| {
                failures::lag(error.rdkafka_error_code().unwrap_or(Code::Unknown), &error.to_string())
            })?;
            let Offset::Offset(offset) = element.offset() else { continue };
            if let Some(place) = topics.get_mut(element.topic()).and_then(|topic| topic.get_mut(&element.partition())) {
                if is_next { place.1 = offset } else { place.0 = offset }
            }
        }
    }
    Ok(topics)
}

fn list(topics: &Topics, offset: Offset) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for (topic, partitions) in topics {
        for partition in partitions.keys() {
            // It refuses offsets that librdkafka cannot express; these it can.
            let _ = list.add_partition_offset(topic, *partition, offset);
        }
    }
    list
}

/// The groups that may read our topics: those whose members do, those without members, which may have done so, and those that did
/// before: while members join a group, nothing is told of what they read.
fn discovered(listed: &[GroupInfo], topics: &Topics, known: &BTreeMap<String, Client>) -> Vec<Group> {
    let group = |info: &GroupInfo| {
        let reads = members::topics(info);
        let wanted = reads.iter().any(|topic| topics.contains_key(topic));
        (wanted || info.members().is_empty() || known.contains_key(info.name())).then(|| Group {
            name: info.name().to_owned(),
            members: Some(info.members().len() as u64),
            topics: reads,
            wanted,
        })
    };
    listed.iter().filter(|info| matches!(info.protocol_type(), "" | "consumer")).filter_map(group).collect()
}

/// A group that the configuration names. What is not told of its members is unknown.
fn named(asker: &Client, name: &str, question: &Question<'_>) -> Group {
    let listed = question.ask(asker, |within| asker.fetch_group_list(Some(name), within)).ok();
    let info = listed.as_ref().and_then(|list| list.groups().iter().find(|info| info.name() == name));
    Group {
        name: name.to_owned(),
        members: info.map(|info| info.members().len() as u64),
        topics: info.map(members::topics).unwrap_or_default(),
        wanted: true,
    }
}

/// Names the group in a failure that is about it.
fn about_group(failure: Failure, group: &str) -> Failure {
    let error = format!("group {group}: {}", failure.error);
    Failure { error, ..failure }
}

/// Keeps why a broker could not be reached, and says nothing by itself: the route does, or the reader.
#[derive(Debug, Default)]
struct Quiet(Mutex<Option<String>>);

impl Quiet {
    fn reason(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes in what librdkafka has said: why nothing can be hoped for, if so.
    fn trouble(&self, client: &Client) -> Option<Failure> {
        let mut trouble = None;
        while let Some(event) = client.poll(LOOK) {
            let code = event.err().and_then(|error| error.rdkafka_error_code()).unwrap_or(Code::Unknown);
            let hopeless = matches!(
                code,
                Code::AllBrokersDown
                    | Code::Authentication
                    | Code::SaslAuthenticationFailed
                    | Code::UnsupportedSASLMechanism
                    | Code::SSL
                    | Code::GroupAuthorizationFailed
            );
            if hopeless {
                trouble = Some(failures::lag(code, &self.reason().unwrap_or_else(|| code.to_string())));
            }
        }
        trouble
    }
}

impl ClientContext for Quiet {
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, message: &str) {
        if facility == "FAIL" {
            let said = message.split_once("]: ").map_or(message, |(_, said)| said);
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(said.to_owned());
        }
        tracing::trace!(target: LOG, facility, "librdkafka: {message}");
    }
}

impl ConsumerContext for Quiet {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lag_is_what_is_there_and_not_committed() {
        let partitions = Partitions::from([(0, (0, 10)), (1, (5, 8)), (2, (0, 0))]);
        let lag_of = |committed: &[(i32, i64)]| {
            lag("t", &partitions, &committed.iter().map(|(p, offset)| (("t".to_owned(), *p), *offset)).collect())
        };
        assert_eq!(lag_of(&[]), None, "a group that never committed is no group that is up to date");
        assert_eq!(lag_of(&[(0, 10), (1, 8)]), Some(0));
        assert_eq!(lag_of(&[(0, 7), (1, 8)]), Some(3));
        assert_eq!(lag_of(&[(0, 10)]), Some(3), "all of a partition on which it never committed");
        assert_eq!(lag_of(&[(0, 10), (1, 2)]), Some(3), "what was deleted unread cannot be read any more");
        assert_eq!(lag_of(&[(0, 12), (1, 8)]), Some(0), "a topic that was made anew");
    }
}
