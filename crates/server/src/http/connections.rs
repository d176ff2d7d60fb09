//! Who is connected, and who has to leave: limits in all and per address, and how long a client may take for each thing.
//!
//! A client that has sent no request yet waits. When a place is needed, the one that has waited longest gives it up, so that
//! any number of silent clients keeps nobody out who asks at once. `listener` accepts, and closes what this says.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use postroom_core::metrics as names;
use tokio_util::sync::CancellationToken;

use crate::metrics::{Counter, Gauge, Metrics};

/// Connections at a time; fewer where the process may open few files.
const CONNECTIONS_MAX: usize = 256;
/// Fourths of them for one address: a proxy in front has all of its clients behind one.
const FOURTHS_FOR_ADDRESS: usize = 3;
/// How long a client may take for the TLS handshake and the head of a request, and wait between two requests.
const HEAD_WITHIN: Duration = Duration::from_secs(20);
/// How long a request may take, from its head to the last byte of the response. Live streams are exempt.
const REQUEST_WITHIN: Duration = Duration::from_mins(2);

/// Connections of a listener.
#[derive(Debug)]
pub(super) struct Connections {
    max: usize,
    per_address_max: usize,
    open: Mutex<Open>,
    gauge: Gauge,
    closed: [Counter; 4],
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    entries: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    address: IpAddr,
    phase: Phase,
    since: Instant,
    close: CancellationToken,
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No request is being answered: the client has to send one.
    Waiting,
    /// A request is being answered.
    Busy,
    /// A live stream is sent, for as long as the client reads it.
    Streaming,
}

/// Why the relay closed or refused a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// All places are taken by requests that are being answered.
    Full,
    /// It had waited longest when a place was needed.
    Displaced,
    /// It sent no request in time.
    Silent,
    /// Its request took too long.
    Slow,
}

impl Reason {
    const ALL: [Self; 4] = [Self::Full, Self::Displaced, Self::Silent, Self::Slow];

    fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Displaced => "displaced",
            Self::Silent => "silent",
            Self::Slow => "slow",
        }
    }
}

impl Connections {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self::limited(files_max().map_or(CONNECTIONS_MAX, |files| CONNECTIONS_MAX.min(files / 2)), metrics)
    }

    fn limited(max: usize, metrics: &Metrics) -> Self {
        let counter = |reason: Reason| metrics.counter(&names::HTTP_CONNECTIONS_CLOSED, &[reason.as_str()]);
        Self {
            max,
            per_address_max: (max * FOURTHS_FOR_ADDRESS / 4).max(1),
            open: Mutex::default(),
            gauge: metrics.gauge(&names::HTTP_CONNECTIONS, &[]),
            closed: Reason::ALL.map(counter),
        }
    }

    /// Gives a new connection a place, if need be that of the one that has waited longest.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut open = self.open();
        let of_address = open.entries.values().filter(|entry| entry.address == address).count();
        let room = if of_address >= self.per_address_max {
            self.displace(&mut open, Some(address))
        } else {
            open.entries.len() < self.max || self.displace(&mut open, None)
        };
        if !room {
            self.count(Reason::Full);
            return None;
        }
        let (id, close) = (open.next, CancellationToken::new());
        open.next += 1;
        let entry = Entry { address, phase: Phase::Waiting, since: Instant::now(), close: close.clone() };
        open.entries.insert(id, entry);
        self.gauge.set(open.entries.len() as f64);
        Some(Place { connections: Arc::clone(self), id, address, close })
    }

    /// Closes the connection that has waited longest, of this address or of all.
    fn displace(&self, open: &mut Open, address: Option<IpAddr>) -> bool {
        let waiting = open.entries.iter().filter(|(_, entry)| {
            entry.phase == Phase::Waiting && address.is_none_or(|address| entry.address == address)
        });
        let Some(id) = waiting.min_by_key(|(_, entry)| entry.since).map(|(id, _)| *id) else { return false };
        self.close(open, id, Reason::Displaced);
        true
    }

    /// Closes connections that have taken too long. Called about once a second.
    pub(super) fn sweep(&self) {
        let mut open = self.open();
        let late = |entry: &Entry| match entry.phase {
            Phase::Waiting if entry.since.elapsed() >= HEAD_WITHIN => Some(Reason::Silent),
            Phase::Busy if entry.since.elapsed() >= REQUEST_WITHIN => Some(Reason::Slow),
            _ => None,
        };
        let late: Vec<_> = open.entries.iter().filter_map(|(id, entry)| Some((*id, late(entry)?))).collect();
        for (id, reason) in late {
            self.close(&mut open, id, reason);
        }
    }

    fn close(&self, open: &mut Open, id: u64, reason: Reason) {
        if let Some(entry) = open.entries.remove(&id) {
            entry.close.cancel();
            self.count(reason);
            self.gauge.set(open.entries.len() as f64);
        }
    }

    fn count(&self, reason: Reason) {
        self.closed[reason as usize].increment(1);
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self, id: u64, phase: Phase) {
        if let Some(entry) = self.open().entries.get_mut(&id) {
            entry.phase = phase;
            entry.since = Instant::now();
        }
    }
}

/// How many files the process may open, after asking for as many as it can have: the engine's connections come out of the
/// same number.
fn files_max() -> Option<usize> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let raised = soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok();
    usize::try_from(if raised { hard } else { soft }).ok()
}

/// The place of an open connection; dropping it gives the place up.
#[derive(Debug)]
pub(super) struct Place {
    connections: Arc<Connections>,
    id: u64,
    address: IpAddr,
    close: CancellationToken,
}

impl Place {
    /// The address of the client.
    pub(super) fn address(&self) -> IpAddr {
        self.address
    }

    /// Resolves when the connection has to be closed.
    pub(super) async fn closed(&self) {
        self.close.cancelled().await;
    }

    /// Begins a request of this connection.
    pub(super) fn request(self: &Arc<Self>) -> Answering {
        self.connections.turn(self.id, Phase::Busy);
        Answering(Arc::clone(self))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        open.entries.remove(&self.id);
        self.connections.gauge.set(open.entries.len() as f64);
    }
}

/// A request that is being answered, until the last byte of the response.
#[derive(Debug)]
pub(super) struct Answering(Arc<Place>);

impl Answering {
    /// Notes that the response is a live stream.
    pub(super) fn streams(&self) {
        self.0.connections.turn(self.0.id, Phase::Streaming);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.connections.turn(self.0.id, Phase::Waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn address(n: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, n])
    }

    fn connections(max: usize) -> Arc<Connections> {
        Arc::new(Connections::limited(max, &Metrics::new()))
    }

    #[test]
    fn the_one_that_has_waited_longest_makes_room_and_busy_ones_stay() {
        let all = connections(4);
        let places: Vec<_> = (0..4).map(|n| Arc::new(all.enter(address(n)).unwrap())).collect();
        let busy = places[0].request();
        let newcomer = all.enter(address(9)).unwrap();
        let closed: Vec<bool> = places.iter().map(|place| place.close.is_cancelled()).collect();
        assert_eq!(closed, [false, true, false, false], "the first is busy, the second waits longest");
        assert!(!newcomer.close.is_cancelled());
        drop(busy);
    }

    #[test]
    fn where_all_are_busy_a_newcomer_is_refused() {
        let all = connections(2);
        let places: Vec<_> = (0..2).map(|n| Arc::new(all.enter(address(n)).unwrap())).collect();
        let busy: Vec<_> = places.iter().map(Place::request).collect();
        assert!(all.enter(address(9)).is_none());
        drop(busy);
        assert!(all.enter(address(9)).is_some());
    }

    #[test]
    fn one_address_displaces_its_own_connections_only() {
        let all = connections(4);
        let other = all.enter(address(1)).unwrap();
        let places: Vec<_> = (0..10).filter_map(|_| all.enter(HERE)).collect();
        assert!(!other.close.is_cancelled());
        assert_eq!(places.iter().filter(|place| !place.close.is_cancelled()).count(), all.per_address_max);
    }

    #[test]
    fn a_place_that_is_given_up_is_free() {
        let all = connections(1);
        let place = all.enter(HERE).unwrap();
        let busy = Arc::new(place);
        let request = busy.request();
        assert!(all.enter(HERE).is_none());
        drop((request, busy));
        assert!(all.enter(HERE).is_some());
    }
}
