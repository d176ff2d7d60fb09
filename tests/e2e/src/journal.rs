//! What the child received, one line each, in the order it was received: written by every child of every relay with one
//! `O_APPEND` write, read by the tests.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::str::FromStr;

/// What the child said to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is delivered.
    Ok,
    /// Not now, try again.
    Again,
    /// Nothing: it died, babbled or kept silent.
    None,
}

/// One event as it reached a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reception {
    /// Process id of the relay that handed it over.
    pub relay: u32,
    /// The route.
    pub route: String,
    /// The event.
    pub id: String,
    /// Its key, from the payload.
    pub key: String,
    /// Its number within the key, from the payload.
    pub number: u64,
    /// Which try the relay said it was.
    pub attempt: u32,
    /// What the child was about to say.
    pub answer: Answer,
}

impl fmt::Display for Reception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { relay, route, id, key, number, attempt, answer } = self;
        let answer = match answer {
            Answer::Ok => "ok",
            Answer::Again => "again",
            Answer::None => "none",
        };
        write!(f, "{relay} {route} {id} {key} {number} {attempt} {answer}")
    }
}

impl FromStr for Reception {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong = || format!("not a line of a journal: {line:?}");
        let [relay, route, id, key, number, attempt, answer] = line.split(' ').collect::<Vec<_>>()[..] else {
            return Err(wrong());
        };
        Ok(Self {
            relay: relay.parse().map_err(|_| wrong())?,
            route: route.to_owned(),
            id: id.to_owned(),
            key: key.to_owned(),
            number: number.parse().map_err(|_| wrong())?,
            attempt: attempt.parse().map_err(|_| wrong())?,
            answer: match answer {
                "ok" => Answer::Ok,
                "again" => Answer::Again,
                "none" => Answer::None,
                _ => return Err(wrong()),
            },
        })
    }
}

/// A journal file.
#[derive(Debug, Clone)]
pub struct Journal {
    path: PathBuf,
}

impl Journal {
    /// The journal in this file, which need not be there yet.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Adds lines in one write, so that lines of several children never mix.
    pub fn add(&self, receptions: &[Reception]) {
        let mut lines = Vec::new();
        for reception in receptions {
            writeln!(lines, "{reception}").unwrap();
        }
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path).unwrap();
        file.write_all(&lines).unwrap();
    }

    /// Counts along while it grows, without reading anything twice.
    pub fn follow(&self) -> Follower {
        Follower { path: self.path.clone(), read: 0, lines: 0 }
    }

    /// Everything so far.
    pub fn read(&self) -> Vec<Reception> {
        self.lines().lines().map(|line| line.parse().unwrap()).collect()
    }

    /// How many so far.
    pub fn len(&self) -> usize {
        self.lines().lines().count()
    }

    /// Whether nothing was received yet.
    pub fn is_empty(&self) -> bool {
        self.lines().is_empty()
    }

    fn lines(&self) -> String {
        fs::read_to_string(&self.path).unwrap_or_default()
    }
}

/// How far somebody has followed a journal.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    read: u64,
    lines: usize,
}

impl Follower {
    /// How many there are by now.
    pub fn count(&mut self) -> usize {
        self.more();
        self.lines
    }

    /// What came since the last look.
    pub fn fresh(&mut self) -> Vec<Reception> {
        self.more().lines().map(|line| line.parse().unwrap()).collect()
    }

    /// Whole lines only: the last one may still be on its way.
    fn more(&mut self) -> String {
        let Ok(mut file) = File::open(&self.path) else { return String::new() };
        file.seek(SeekFrom::Start(self.read)).unwrap();
        let mut more = String::new();
        file.read_to_string(&mut more).unwrap();
        more.truncate(more.rfind('\n').map_or(0, |end| end + 1));
        self.read += more.len() as u64;
        self.lines += more.bytes().filter(|byte| *byte == b'\n').count();
        more
    }
}
