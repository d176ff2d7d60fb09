//! What was committed against what was delivered.

use std::collections::{HashMap, HashSet};
use std::fmt;

/// An event as producers and readers both know it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Fact {
    /// Its own; what was rolled back and done again has another.
    pub(crate) id: String,
    pub(crate) key: String,
    /// The how many-th of its key: writers of a key come one after the other.
    pub(crate) n: i32,
}

/// What the checker found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) committed: usize,
    /// Different ones.
    pub(crate) delivered: usize,
    pub(crate) lost: usize,
    /// Delivered, never committed.
    pub(crate) ghosts: usize,
    /// First deliveries behind a later one of their key.
    pub(crate) swapped: usize,
    /// Deliveries beyond the first.
    pub(crate) twice: usize,
}

impl Report {
    /// Whether everything came, once and in order.
    pub(crate) fn is_clean(&self) -> bool {
        self.lost + self.ghosts + self.swapped + self.twice == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { committed, delivered, lost, ghosts, swapped, twice } = self;
        write!(
            f,
            "committed {committed} delivered {delivered} lost {lost} ghosts {ghosts} swapped {swapped} twice {twice}"
        )
    }
}

/// Compares what was committed with what came, in the order in which it came.
pub(crate) fn check(committed: &[Fact], seen: &[Fact]) -> Report {
    let wanted: HashSet<&Fact> = committed.iter().collect();
    let mut came = HashSet::new();
    let mut newest: HashMap<&str, i32> = HashMap::new();
    let mut report = Report { committed: wanted.len(), ..Report::default() };
    for fact in seen {
        if !came.insert(fact) {
            report.twice += 1;
            continue;
        }
        if !wanted.contains(fact) {
            report.ghosts += 1;
            continue;
        }
        let newest = newest.entry(&fact.key).or_default();
        if fact.n < *newest {
            report.swapped += 1;
        }
        *newest = fact.n.max(*newest);
    }
    report.delivered = came.len();
    report.lost = wanted.iter().filter(|fact| !came.contains(**fact)).count();
    report
}

#[test]
fn it_tells_loss_ghost_swap_and_copy_apart() {
    let fact = |n: i32| Fact { id: n.to_string(), key: "k".to_owned(), n };
    let seen = [fact(1), fact(3), fact(2), fact(3), fact(9)];
    let report = check(&[fact(1), fact(2), fact(3), fact(4)], &seen);
    assert_eq!(report, Report { committed: 4, delivered: 4, lost: 1, ghosts: 1, swapped: 1, twice: 1 });
    assert!(check(&seen[..2], &seen[..2]).is_clean() && !report.is_clean());
}
