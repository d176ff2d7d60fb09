//! Every interleaving of small cases: writers that take an id, lock their key, draw numbers, then commit or abort; a reader
//! whose snapshot and whose `above` are taken at different moments.
//!
//! The reader moves by the real [`Position`] and [`Snapshot`]. At every end, what was committed must have been delivered
//! once and each key in order. The broken variants must be caught, or the model shows nothing.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{Position, Snapshot};

mod cases;

/// The rule, or what is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Right,
    /// What pending transactions have committed since is never looked for.
    WithoutLate,
    /// Ids above the latest completed one are not taken for running.
    WithoutAbove,
    /// Writers draw their first number before they take their id.
    IdAfterNumber,
    /// Fresh rows come beside a half-read `late`.
    FreshBesideHalfLate,
    /// Newcomers are said to begin at the last number drawn before this read, not before the one that did not see them.
    DrawnTooLate,
}

/// How large a case is.
#[derive(Debug, Clone, Copy)]
struct Case {
    /// The key of each writer, and how many numbers it may draw.
    writers: &'static [(char, usize)],
    /// Reads before everything has ended; after that as many as bring something.
    reads: usize,
    /// Most fresh rows of a read.
    page: usize,
    /// Most late rows of a read.
    late: usize,
    /// Most numbers a read sweeps.
    span: i64,
    /// The first read throws its rows away: the route starts now.
    now: bool,
}

/// What an end may have wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Lost,
    /// Delivered twice, or never committed.
    Copied,
    Swapped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Phase {
    New,
    /// Has its id, not yet the lock of its key.
    Named,
    /// Has the lock, not yet an id.
    Locked,
    /// Has both.
    Ready,
    Committed,
    Aborted,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Writer {
    phase: Phase,
    id: i64,
    numbers: Vec<i64>,
}

impl Writer {
    fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Committed | Phase::Aborted)
    }
}

/// A read that has its rows and not yet its `above`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Read {
    snapshot: Snapshot,
    rows: Vec<i64>,
    last: Option<i64>,
    swept: Option<i64>,
    starting: bool,
    /// The last number drawn when it began.
    drawn: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    writers: Vec<Writer>,
    next_id: i64,
    next_number: i64,
    completed: i64,
    position: Position,
    read: Option<Read>,
    reads: usize,
    delivered: Vec<i64>,
    /// What a route that starts now found there.
    before: Vec<i64>,
}

impl World {
    fn new(case: &Case) -> Self {
        let writer = Writer { phase: Phase::New, id: 0, numbers: Vec::new() };
        Self {
            writers: vec![writer; case.writers.len()],
            next_id: 1,
            next_number: 1,
            completed: 0,
            position: Position::default(),
            read: None,
            reads: 0,
            delivered: Vec::new(),
            before: Vec::new(),
        }
    }

    fn is_over(&self) -> bool {
        self.read.is_none() && self.writers.iter().all(Writer::has_ended)
    }

    /// Everything that can happen next.
    fn next(&self, case: &Case, rule: Rule) -> Vec<Self> {
        let mut next = Vec::new();
        for i in 0..self.writers.len() {
            self.write(i, case, rule, &mut next);
        }
        if self.read.is_some() {
            next.push(self.read_ended(rule));
        } else if self.reads < case.reads {
            next.push(self.read_begun(case, rule));
        }
        next
    }

    fn write(&self, i: usize, case: &Case, rule: Rule, next: &mut Vec<Self>) {
        let mut step = |change: &dyn Fn(&mut Self, &mut Writer)| {
            let (mut world, mut writer) = (self.clone(), self.writers[i].clone());
            change(&mut world, &mut writer);
            world.writers[i] = writer;
            // Two writers of a kind: which of them did what makes no other world.
            for j in 1..case.writers.len() {
                if case.writers[j - 1] == case.writers[j] && world.writers[j - 1] > world.writers[j] {
                    world.writers.swap(j - 1, j);
                }
            }
            next.push(world);
        };
        let named = |world: &mut Self, writer: &mut Writer| {
            writer.id = world.next_id;
            world.next_id += 1;
        };
        let drawn = |world: &mut Self, writer: &mut Writer| {
            writer.numbers.push(world.next_number);
            world.next_number += 1;
        };
        let (key, most) = case.writers[i];
        let held = |(writer, of): (&Writer, &(char, usize))| {
            of.0 == key && matches!(writer.phase, Phase::Locked | Phase::Ready)
        };
        let free = !self.writers.iter().zip(case.writers).any(held);
        let late = rule == Rule::IdAfterNumber;
        match self.writers[i].phase {
            Phase::New => {
                if !late {
                    step(&|world, writer| {
                        named(world, writer);
                        writer.phase = Phase::Named;
                    });
                }
                if free {
                    step(&|_, writer| writer.phase = Phase::Locked);
                }
            }
            Phase::Named if free => step(&|_, writer| writer.phase = Phase::Ready),
            Phase::Locked if late && self.writers[i].numbers.is_empty() => step(&drawn),
            Phase::Locked => step(&|world, writer| {
                named(world, writer);
                writer.phase = Phase::Ready;
            }),
            Phase::Ready => {
                if self.writers[i].numbers.len() < most {
                    step(&drawn);
                }
                if !self.writers[i].numbers.is_empty() {
                    for phase in [Phase::Committed, Phase::Aborted] {
                        step(&|world, writer| {
                            world.completed = world.completed.max(writer.id);
                            writer.phase = phase;
                        });
                    }
                }
            }
            Phase::Named | Phase::Committed | Phase::Aborted => {}
        }
    }

    /// The snapshot, and the rows that are visible in it.
    fn read_begun(&self, case: &Case, rule: Rule) -> Self {
        let xmax = self.completed + 1;
        let mut running: Vec<i64> =
            self.writers.iter().filter(|w| !w.has_ended() && (1..xmax).contains(&w.id)).map(|w| w.id).collect();
        running.sort_unstable();
        let snapshot = Snapshot { xmin: running.first().copied().unwrap_or(xmax), xmax, running, above: 0 };
        let committed = self.writers.iter().filter(|w| w.phase == Phase::Committed);
        let mut visible: Vec<(i64, i64)> = committed.flat_map(|w| w.numbers.iter().map(|n| (*n, w.id))).collect();
        visible.sort_unstable();
        let mut world = Self { reads: self.reads + 1, ..self.clone() };
        let drawn = self.next_number - 1;
        if case.now && self.reads == 0 {
            world.before = visible.iter().map(|row| row.0).collect();
            let last = world.before.last().copied();
            world.read = Some(Read { snapshot, rows: Vec::new(), last, swept: None, starting: true, drawn });
            return world;
        }
        let Position { hwm, pending, .. } = &self.position;
        let (mut late, mut fresh): (Vec<i64>, Vec<i64>) = visible
            .iter()
            .filter(|(number, id)| number > hwm || pending.get(id).is_some_and(|lo| number > lo))
            .map(|row| row.0)
            .partition(|number| number <= hwm);
        fresh.truncate(case.page);
        let mut swept = None;
        if rule == Rule::WithoutLate {
            late.clear();
        } else if let Some(lo) = pending.iter().filter(|(x, _)| snapshot.has_ended(**x)).map(|(_, lo)| *lo).min() {
            let upto = (*hwm).min(lo + case.span);
            late.retain(|number| *number <= upto);
            swept = Some(upto);
            if late.len() > case.late {
                late.truncate(case.late);
                swept = late.last().copied();
            }
            swept = swept.filter(|swept| swept < hwm);
        }
        if swept.is_some() && rule != Rule::FreshBesideHalfLate {
            fresh.clear();
        }
        let last = fresh.last().copied();
        late.append(&mut fresh);
        world.read = Some(Read { snapshot, rows: late, last, swept, starting: false, drawn });
        world
    }

    /// `above`, and with it the new position.
    fn read_ended(&self, rule: Rule) -> Self {
        let mut world = self.clone();
        let Some(Read { mut snapshot, rows, last, swept, starting, drawn }) = world.read.take() else { return world };
        if rule != Rule::WithoutAbove {
            snapshot.above = self.next_id - snapshot.xmax;
        }
        let before = &mut self.position.clone();
        if rule == Rule::DrawnTooLate {
            before.drawn = drawn;
        }
        world.position = match swept {
            _ if starting => Position::at_start(last.unwrap_or_default(), &snapshot),
            None => before.advanced(&snapshot, last, drawn),
            Some(swept) if rule == Rule::FreshBesideHalfLate => {
                let mut position = before.half_swept(&snapshot, swept);
                let advanced = before.advanced(&snapshot, last, drawn);
                position.pending.extend(advanced.pending);
                Position { hwm: advanced.hwm, ..position }
            }
            Some(swept) => before.half_swept(&snapshot, swept),
        };
        world.delivered.extend(rows);
        world
    }

    /// Reads until nothing more comes; then says what is wrong.
    fn judged(mut self, case: &Case, rule: Rule) -> (Self, Vec<Wrong>) {
        loop {
            let after = self.read_begun(case, rule).read_ended(rule);
            let still = self.position == after.position && self.delivered.len() == after.delivered.len();
            self = after;
            if still {
                break;
            }
        }
        let mut keys = BTreeMap::new();
        let mut wanted = BTreeSet::new();
        for (writer, (key, _)) in self.writers.iter().zip(case.writers) {
            keys.extend(writer.numbers.iter().map(|number| (*number, *key)));
            if writer.phase == Phase::Committed {
                wanted.extend(writer.numbers.iter().copied().filter(|number| !self.before.contains(number)));
            }
        }
        let delivered: BTreeSet<i64> = self.delivered.iter().copied().collect();
        let swapped = |key: char| !self.delivered.iter().filter(|number| keys.get(number) == Some(&key)).is_sorted();
        let wrong = [
            (Wrong::Lost, !wanted.is_subset(&delivered)),
            (Wrong::Copied, !delivered.is_subset(&wanted) || delivered.len() < self.delivered.len()),
            (Wrong::Swapped, case.writers.iter().any(|(key, _)| swapped(*key))),
        ];
        let wrong = wrong.into_iter().filter(|(_, is)| *is).map(|(wrong, _)| wrong).collect();
        (self, wrong)
    }
}

/// Goes through every interleaving until one ends as it should not; says how many states it has seen.
fn explored(case: &Case, rule: Rule, bad: impl Fn(&[Wrong]) -> bool) -> (usize, Option<World>) {
    let start = World::new(case);
    let (mut seen, mut open) = (HashSet::from([start.clone()]), vec![start]);
    while let Some(world) = open.pop() {
        if world.is_over() {
            let (end, wrong) = world.judged(case, rule);
            if bad(&wrong) {
                return (seen.len(), Some(end));
            }
            continue;
        }
        for next in world.next(case, rule) {
            if !seen.contains(&next) {
                seen.insert(next.clone());
                open.push(next);
            }
        }
    }
    (seen.len(), None)
}
