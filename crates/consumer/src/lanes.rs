//! Who waits behind whom: messages of one lane are worked on one after the other.

use std::collections::{HashMap, VecDeque};

use tokio_util::sync::CancellationToken;

use crate::subscription::{OrderScope, Revoked};

/// One lane's turn. A lane of the same name that begins later is another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    lane: Option<OrderScope>,
    number: u64,
}

/// What waits, lane by lane. A lane is there while something of it is worked on.
#[derive(Debug)]
pub(crate) struct Lanes<M> {
    at_work: HashMap<OrderScope, Lane<M>>,
    /// For those that have no lane.
    all: CancellationToken,
    stop: CancellationToken,
    number: u64,
}

#[derive(Debug)]
struct Lane<M> {
    number: u64,
    waiting: VecDeque<M>,
    gone: CancellationToken,
}

/// A message whose turn it is.
#[derive(Debug)]
pub(crate) struct Ready<M> {
    pub(crate) message: M,
    pub(crate) turn: Turn,
    pub(crate) gone: CancellationToken,
}

impl<M> Lanes<M> {
    /// None yet. When `stop` resolves, so does every `gone`.
    pub(crate) fn new(stop: CancellationToken) -> Self {
        Self { at_work: HashMap::new(), all: stop.child_token(), stop, number: 0 }
    }

    /// The message, if it is its turn at once.
    pub(crate) fn arrive(&mut self, lane: Option<OrderScope>, message: M) -> Option<Ready<M>> {
        self.number += 1;
        let number = self.number;
        let Some(name) = lane else {
            return Some(Ready { message, turn: Turn { lane: None, number }, gone: self.all.clone() });
        };
        if let Some(lane) = self.at_work.get_mut(&name) {
            lane.waiting.push_back(message);
            return None;
        }
        let gone = self.stop.child_token();
        self.at_work.insert(name.clone(), Lane { number, waiting: VecDeque::new(), gone: gone.clone() });
        Some(Ready { message, turn: Turn { lane: Some(name), number }, gone })
    }

    /// A turn is over; who is next.
    pub(crate) fn done(&mut self, turn: Turn) -> Option<Ready<M>> {
        let name = turn.lane.as_ref()?;
        let lane = self.at_work.get_mut(name).filter(|lane| lane.number == turn.number)?;
        if let Some(message) = lane.waiting.pop_front() {
            return Some(Ready { message, gone: lane.gone.clone(), turn });
        }
        self.at_work.remove(name);
        None
    }

    /// What waits there is not ours any more, and what runs there is the last.
    pub(crate) fn gone(&mut self, gone: &Revoked) {
        match gone {
            Revoked::All => {
                self.all.cancel();
                self.all = self.stop.child_token();
                for (_, lane) in self.at_work.drain() {
                    lane.gone.cancel();
                }
            }
            Revoked::Scopes(names) => {
                for lane in names.iter().filter_map(|name| self.at_work.remove(name)) {
                    lane.gone.cancel();
                }
            }
        }
    }

    /// Everything that still waits.
    pub(crate) fn into_waiting(self) -> impl Iterator<Item = M> {
        self.at_work.into_values().flat_map(|lane| lane.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_lane_at_a_time_in_order_and_lanes_beside_each_other() {
        let mut lanes = Lanes::new(CancellationToken::new());
        let name = |text: &str| Some(OrderScope::from(text));
        let first = lanes.arrive(name("a"), 1).unwrap();
        assert!(lanes.arrive(name("a"), 2).is_none());
        assert_eq!(lanes.arrive(name("b"), 3).unwrap().message, 3);
        assert_eq!([lanes.arrive(None, 4).unwrap().message, lanes.arrive(None, 5).unwrap().message], [4, 5]);
        let second = lanes.done(first.turn).unwrap();
        assert_eq!(second.message, 2);
        assert!(lanes.done(second.turn).is_none());
        assert_eq!(lanes.arrive(name("a"), 6).unwrap().message, 6);
    }

    #[test]
    fn what_is_gone_neither_waits_nor_makes_room_in_the_lane_that_follows() {
        let mut lanes = Lanes::new(CancellationToken::new());
        let name = || Some(OrderScope::from("a"));
        let old = lanes.arrive(name(), 1).unwrap();
        lanes.arrive(name(), 2);
        lanes.gone(&Revoked::Scopes(vec!["a".into()]));
        assert!(old.gone.is_cancelled());
        let new = lanes.arrive(name(), 1).unwrap();
        lanes.arrive(name(), 2);
        assert!(lanes.done(old.turn).is_none());
        assert_eq!(lanes.done(new.turn).unwrap().message, 2);
        lanes.gone(&Revoked::All);
        assert!(new.gone.is_cancelled());
        assert_eq!(lanes.into_waiting().count(), 0);
    }

    #[test]
    fn a_stop_reaches_every_lane() {
        let stop = CancellationToken::new();
        let mut lanes = Lanes::new(stop.clone());
        let (laned, free) = (lanes.arrive(Some("a".into()), 1).unwrap(), lanes.arrive(None, 2).unwrap());
        lanes.arrive(Some("a".into()), 3);
        stop.cancel();
        assert!(laned.gone.is_cancelled() && free.gone.is_cancelled());
        assert_eq!(lanes.into_waiting().collect::<Vec<_>>(), [3]);
    }
}
