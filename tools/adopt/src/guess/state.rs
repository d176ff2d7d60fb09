//! How a row tells what became of it, and what is kept of failures.

use postroom_adopted::Holds;
use postroom_adopted::mapping::ColumnPath;
use postroom_adopted::survey::{Fact, Member};

use super::Value;
use super::finder::Finder;
use super::names;
use super::words::{Meanings, StateWord, meanings};

/// The state, and where failures are written.
pub(super) fn state(finder: &mut Finder<'_>) {
    let dialect = finder.facts.dialect;
    let stamp = finder.free().find(|column| {
        column.nullable && column.is_time(dialect) && names::is_done_at(&names::bare(column.name.as_str()))
    });
    let done = finder.free().find(|column| is_flag(column, names::is_done_flag));
    let pending = finder.free().find(|column| is_flag(column, names::is_pending_flag));
    if let Some(column) = word_column(finder) {
        words(finder, column);
        done_at(finder, stamp);
    } else if let Some(column) = done {
        flag(finder, column);
        done_at(finder, stamp);
    } else if let Some(column) = pending {
        opposite(finder, column);
        done_at(finder, stamp);
    } else if let Some(column) = stamp {
        finder.uses(&column.name);
        finder.text("state.stamp", column.name.to_string(), "a time that may be null, by its name");
    } else if let Some((column, member, prefix)) = inside(finder) {
        members(finder, column, member, prefix);
    } else {
        finder.warn(
            "no column tells a row's state, so being there is it: delivered rows are DELETED. \
             If rows must stay, the table needs a column such as `published_at`",
        );
    }
    failures(finder);
}

fn word_column<'f>(finder: &Finder<'f>) -> Option<&'f Fact> {
    let fits = |column: &Fact| column.is_word() && !column.is_json_type();
    let other = || {
        finder.free().find(|column| {
            let bare = names::bare(column.name.as_str());
            fits(column) && (bare.ends_with("status") || bare.ends_with("state")) && !column.words.is_empty()
        })
    };
    finder.pick(names::STATE, fits).map(|picked| picked.column).or_else(other)
}

fn words(finder: &mut Finder<'_>, column: &Fact) {
    let found = meanings(&column.words, &column.labels, column.default.as_deref());
    finder.uses(&column.name);
    finder.text("state.word", ColumnPath::column(column.name.clone()).to_string(), "by its name");
    say(finder, &column.name.to_string(), found);
}

fn say(finder: &mut Finder<'_>, path: &str, found: Meanings) {
    let tell = |finder: &mut Finder<'_>, key: &str, told: StateWord| {
        finder.add(key, Value::Text(told.word), told.sure, told.why, told.others);
    };
    tell(finder, "state.pending", found.pending);
    if let Some(done) = found.done {
        tell(finder, "state.done", done);
    } else {
        let looked_for = format!("one among those that {path} may hold");
        finder.missing("state.done", "the word of delivered rows", looked_for);
    }
    if let Some(dead) = found.dead {
        tell(finder, "state.dead", dead);
    }
    if !found.at_work.is_empty() {
        finder.warn(format!(
            "{} in {path} is what a dispatcher works on: once it is stopped, set such rows back to pending, or they stay where they are",
            found.at_work.join(", ")
        ));
    }
    if !found.ignored.is_empty() {
        let sure = found.strange.is_empty();
        let why = if sure {
            "words of others".to_owned()
        } else {
            format!("what {} means is not known", found.strange.join(", "))
        };
        finder.add("state.ignored", Value::List(found.ignored), sure, why, Vec::new());
    }
}

fn is_flag(column: &Fact, named: fn(&str) -> bool) -> bool {
    let few = column.words.iter().all(|word| matches!(word.text.as_str(), "0" | "1"));
    let number = column.holds == Holds::Integer && few;
    (column.holds == Holds::Boolean || number) && named(&names::bare(column.name.as_str()))
}

fn flag(finder: &mut Finder<'_>, column: &Fact) {
    finder.uses(&column.name);
    if column.holds == Holds::Boolean {
        finder.text("state.flag", column.name.to_string(), "yes or no, by its name");
        if column.nullable && column.default.is_none() {
            finder.warn(format!("{} may be null and has no default: a row without it is never sent", column.name));
        }
        return;
    }
    as_words(finder, column, ["0", "1"]);
}

/// A flag that is set as long as a row is pending, or a number in the column of one.
fn opposite(finder: &mut Finder<'_>, column: &Fact) {
    finder.uses(&column.name);
    let boolean = column.holds == Holds::Boolean && finder.facts.dialect == postroom_adopted::Dialect::Postgres;
    as_words(finder, column, if boolean { ["true", "false"] } else { ["1", "0"] });
}

fn as_words(finder: &mut Finder<'_>, column: &Fact, [pending, done]: [&str; 2]) {
    finder.text("state.word", column.name.to_string(), "yes or no, by its name");
    finder.text("state.pending", pending.to_owned(), "by the name of the column");
    finder.text("state.done", done.to_owned(), "by the name of the column");
}

fn done_at(finder: &mut Finder<'_>, stamp: Option<&Fact>) {
    if let Some(column) = stamp {
        finder.uses(&column.name);
        finder.text("done_at", column.name.to_string(), "a time that may be null, by its name");
    }
}

/// A key of the payload that tells the state.
fn inside<'f>(finder: &Finder<'f>) -> Option<(&'f Fact, &'f Member, &'f str)> {
    let column = finder.found("event.payload")?;
    let tells = |member: &'f Member| Some((column, member, names::state_prefix(&member.key)?));
    column.members.iter().find_map(tells)
}

fn members(finder: &mut Finder<'_>, column: &Fact, member: &Member, prefix: &str) {
    let mut found = meanings(&member.words, &[], None);
    // Both spellings of what the others are called are common, and rows may not have them all yet.
    if found.dead.is_none() && prefix == "outbox_" {
        let why = "no row has a word for it yet".to_owned();
        found.dead =
            Some(StateWord { word: "dead_letter".to_owned(), sure: false, why, others: vec!["dead".to_owned()] });
    }
    let path = ColumnPath { column: column.name.clone(), path: vec![member.key.clone()] };
    finder.text("state.word", path.to_string(), "a key of the payload, by its name");
    say(finder, &path.to_string(), found);
    let mut without: Vec<String> = Vec::new();
    for other in column.members.iter().filter(|other| other.key.starts_with(prefix)) {
        without.push(other.key.clone());
    }
    for (key, names) in [("attempts", names::ATTEMPTS), ("next_attempt", names::NEXT_ATTEMPT), ("error", names::ERROR)]
    {
        let fits = |other: &&Member| {
            let bare = other.key.strip_prefix(prefix).map(names::bare);
            bare.is_some_and(|bare| names.sure.contains(&bare.as_str()) || names.maybe.contains(&bare.as_str()))
        };
        if let Some(other) = column.members.iter().find(fits) {
            finder.inside(key, &column.name, &other.key, true);
        } else if prefix == "outbox_" {
            // They appear with the first failure.
            let usual = match key {
                "attempts" => "outbox_retry_count",
                "next_attempt" => "outbox_next_attempt_at",
                _ => "outbox_last_error",
            };
            without.push(usual.to_owned());
            finder.inside(key, &column.name, usual, false);
        }
    }
    without.sort();
    finder.add("event.payload_without", Value::List(without), true, "the state is not the event's", Vec::new());
}

/// Where failures are written.
fn failures(finder: &mut Finder<'_>) {
    let dialect = finder.facts.dialect;
    if let Some(picked) = finder.pick(names::ATTEMPTS, |column| column.holds == Holds::Integer) {
        finder.column("attempts", &picked);
    }
    if let Some(picked) = finder.pick(names::NEXT_ATTEMPT, |column| column.is_time(dialect)) {
        finder.column("next_attempt", &picked);
    }
    if let Some(picked) = finder.pick(names::ERROR, Fact::is_plain_text) {
        finder.column("error", &picked);
    }
}
