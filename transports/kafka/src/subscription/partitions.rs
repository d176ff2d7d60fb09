//! Which partitions are ours, and how much of each is in our hands. Told by librdkafka when that changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use postroom_consumer::OrderScope;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;
use rdkafka::{ClientContext, TopicPartitionList};
use tokio::sync::{Notify, mpsc};

use super::complain;
use crate::LOG;

/// Partitions of this member. A partition that is lost and comes again is another lane.
#[derive(Debug)]
pub(super) struct Partitions {
    state: Mutex<State>,
    gone: mpsc::UnboundedSender<Vec<OrderScope>>,
    /// Rings when a paused partition has room again.
    pub(super) room: Notify,
    prefetch: usize,
}

#[derive(Debug, Default)]
struct State {
    assigned: HashMap<(String, i32), Assigned>,
    /// Counts assignments.
    number: u64,
}

#[derive(Debug)]
struct Assigned {
    lane: OrderScope,
    held: usize,
    paused: bool,
}

/// A message's place in its partition; free again when dropped.
#[derive(Debug)]
pub(super) struct Place {
    partitions: Arc<Partitions>,
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) lane: OrderScope,
}

impl Partitions {
    pub(super) fn new(prefetch: u16) -> (Arc<Self>, mpsc::UnboundedReceiver<Vec<OrderScope>>) {
        let (gone, lanes) = mpsc::unbounded_channel();
        let (state, room, prefetch) = (Mutex::default(), Notify::new(), usize::from(prefetch.max(1)));
        (Arc::new(Self { state, gone, room, prefetch }), lanes)
    }

    /// A place for one more message of this partition, unless that is not ours; and whether it must be paused now.
    pub(super) fn take(self: &Arc<Self>, topic: &str, partition: i32) -> Option<(Place, bool)> {
        let mut state = self.state();
        let assigned = state.assigned.get_mut(&(topic.to_owned(), partition))?;
        assigned.held += 1;
        let pause = !assigned.paused && assigned.held >= self.prefetch;
        assigned.paused |= pause;
        let lane = assigned.lane.clone();
        Some((Place { partitions: Arc::clone(self), topic: topic.to_owned(), partition, lane }, pause))
    }

    /// Does something for a partition, if it has been ours all the time. It stays so meanwhile.
    pub(super) fn while_ours(&self, place: &Place, act: impl FnOnce()) {
        let state = self.state();
        let assigned = state.assigned.get(&(place.topic.clone(), place.partition));
        if assigned.is_some_and(|assigned| assigned.lane == place.lane) {
            act();
        }
    }

    /// Paused partitions with room again; they count as paused no longer.
    pub(super) fn with_room(&self) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for ((topic, partition), assigned) in &mut self.state().assigned {
            if assigned.paused && assigned.held <= self.prefetch / 2 {
                assigned.paused = false;
                list.add_partition(topic, *partition);
            }
        }
        list
    }

    fn assign(&self, list: &TopicPartitionList) {
        let mut state = self.state();
        for element in list.elements() {
            state.number += 1;
            let (topic, partition) = (element.topic(), element.partition());
            let lane = OrderScope::from(format!("{topic}[{partition}]#{}", state.number));
            let assigned = Assigned { lane, held: 0, paused: false };
            state.assigned.insert((topic.to_owned(), partition), assigned);
        }
    }

    fn revoke(&self, list: &TopicPartitionList) {
        let mut state = self.state();
        let elements = list.elements();
        let lanes = elements.iter().filter_map(|e| state.assigned.remove(&(e.topic().to_owned(), e.partition())));
        let lanes: Vec<OrderScope> = lanes.map(|assigned| assigned.lane).collect();
        if !lanes.is_empty() {
            // Nobody listens any more: the subscription was dropped.
            let _ = self.gone.send(lanes);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let partitions = Arc::clone(&self.partitions);
        let key = (std::mem::take(&mut self.topic), self.partition);
        let mut state = partitions.state();
        if let Some(assigned) = state.assigned.get_mut(&key).filter(|assigned| assigned.lane == self.lane) {
            assigned.held = assigned.held.saturating_sub(1);
            if assigned.paused && assigned.held <= partitions.prefetch / 2 {
                partitions.room.notify_one();
            }
        }
    }
}

/// Hears what librdkafka says.
#[derive(Debug)]
pub(super) struct Watcher(pub(super) Arc<Partitions>);

impl ClientContext for Watcher {
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(target: LOG, facility, "librdkafka: {message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(target: LOG, %error, reason, "topic cannot be read; retrying");
    }
}

impl ConsumerContext for Watcher {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(list) => {
                // librdkafka remembers a pause of the last time a partition was ours.
                complain(consumer.resume(list).err());
                self.0.assign(list);
            }
            Rebalance::Revoke(list) => self.0.revoke(list),
            Rebalance::Error(error) => tracing::warn!(target: LOG, %error, "rebalance of the consumer group failed"),
        }
    }
}
