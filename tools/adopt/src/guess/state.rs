//! How a row tells what became of it, and what is kept of failures.

use std::fmt::Write as _;

use postroom_adopted::Holds;
use postroom_adopted::mapping::ColumnPath;
use postroom_adopted::survey::{Fact, Member};

use super::Value;
use super::finder::Finder;
use super::names;
use super::words::{Meanings, StateWord, meanings};

/// What somebody said of the state, before anything is guessed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GivenState {
    /// What tells it.
    pub(crate) by: StateColumn,
    /// The word of rows to be sent.
    pub(crate) pending: Option<String>,
}

/// What tells a row's state, as somebody said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum StateColumn {
    /// Nothing was said, or that a time or a flag does, which takes the place of what is guessed.
    #[default]
    Nothing,
    /// A word, which stands here.
    Word(ColumnPath),
    /// That it is there: it is to be sent, and is deleted once it is delivered.
    Presence,
}

/// The state, and where failures are written.
pub(super) fn state(finder: &mut Finder<'_>, told: &GivenState) {
    let pending = told.pending.as_deref();
    match &told.by {
        StateColumn::Presence => finder.warn("being there is a row's state, as you said: delivered rows are DELETED"),
        StateColumn::Word(path) => told_word(finder, path, pending),
        StateColumn::Nothing => guessed(finder, pending),
    }
    failures(finder);
}

/// The word of a row's state where somebody said that it stands.
fn told_word(finder: &mut Finder<'_>, path: &ColumnPath, pending: Option<&str>) {
    let Some(column) = finder.facts.column(&path.column) else {
        // The table has no such column, which is said where the mapping is checked.
        finder.text("state.word", path.to_string(), "given by you");
        return;
    };
    let member = |key: &String| column.members.iter().find(|member| member.key == *key);
    match path.path.as_slice() {
        [] => words(finder, column, pending),
        [key] if let Some(member) = member(key) => {
            members(finder, column, member, names::state_prefix(key).unwrap_or_default(), pending);
        }
        _ => {
            finder.text("state.word", path.to_string(), "given by you");
            // Only columns and their outermost keys are sampled.
            let looked_for = format!("words at {path} in the sampled rows, and found none");
            finder.missing("state.pending", "the word of rows that are still to be sent", looked_for.as_str());
            finder.missing("state.done", "the word of delivered rows", looked_for);
        }
    }
}

fn guessed(finder: &mut Finder<'_>, told_pending: Option<&str>) {
    let dialect = finder.facts.dialect;
    let stamp = finder.free().find(|column| {
        column.nullable && column.is_time(dialect) && names::is_done_at(&names::bare(column.name.as_str()))
    });
    let done = finder.free().find(|column| is_flag(column, names::is_done_flag));
    let pending = finder.free().find(|column| is_flag(column, names::is_pending_flag));
    if let Some(column) = word_column(finder) {
        words(finder, column, told_pending);
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
        members(finder, column, member, prefix, told_pending);
    } else {
        unknown(finder);
    }
}

/// Nothing surely tells it. Deleting is never a guess, nor is sending every row: some may be finished.
fn unknown(finder: &mut Finder<'_>) {
    let mut looked_for =
        "a column such as `status`, a flag such as `processed`, and a time such as `published_at` that may be null"
            .to_owned();
    let keys: Vec<(String, &Member)> = finder
        .facts
        .columns
        .iter()
        .flat_map(|column| column.members.iter().map(move |member| (column, member)))
        .filter(|(_, member)| names::may_tell_state(&member.key) && !member.words.is_empty())
        .map(|(column, member)| {
            (ColumnPath { column: column.name.clone(), path: vec![member.key.clone()] }.to_string(), member)
        })
        .collect();
    let mut tell = String::new();
    if !keys.is_empty() {
        let said: Vec<String> = keys.iter().map(|(path, member)| format!("{path} ({})", counted(member))).collect();
        let _ = write!(looked_for, "; keys inside JSON columns may tell it: {}", said.join(", "));
    }
    if let Some((path, _)) = keys.iter().find(|(_, member)| member.is_text) {
        let _ = write!(tell, "if a key tells it, add for instance --set state.word={path}; ");
    }
    tell.push_str(
        "if every row there is still to be sent, because rows are deleted once they are sent, add --set state=presence: \
         the relay sends every row, and DELETES it once it is delivered",
    );
    finder.missing_told("state", "what tells a delivered row from one that is still to be sent", looked_for, tell);
}

/// The values of a key, with how many of the sampled rows have each.
fn counted(member: &Member) -> String {
    let rows = |n: u64| if n == 1 { "1 row".to_owned() } else { format!("{n} rows") };
    let mut said: Vec<String> =
        member.words.iter().map(|word| format!("{:?} in {}", word.text, rows(word.rows))).collect();
    if member.lacking > 0 {
        said.push(format!("no such key in {}", rows(member.lacking)));
    }
    let looked_at = member.lacking + member.words.iter().map(|word| word.rows).sum::<u64>();
    format!("{}; {} looked at", said.join(", "), rows(looked_at))
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

fn words(finder: &mut Finder<'_>, column: &Fact, pending: Option<&str>) {
    let found = meanings(&column.words, &column.labels, pending.or(column.default.as_deref()));
    finder.uses(&column.name);
    finder.text("state.word", ColumnPath::column(column.name.clone()).to_string(), "by its name");
    say(finder, &column.name.to_string(), found);
}

fn say(finder: &mut Finder<'_>, path: &str, found: Meanings) {
    let tell = |finder: &mut Finder<'_>, key: &str, told: StateWord| {
        finder.add(key, Value::Text(told.word), told.sure, told.why, told.others);
    };
    if found.pending.may_be_finished {
        let words: Vec<String> = found.counted.iter().map(|(word, rows)| format!("{word} ({rows})")).collect();
        finder.missing(
            "state.pending",
            "which value means that a row is still to be sent",
            format!("a value that new rows have, or a word; rows have {} in {path}", words.join(", ")),
        );
    } else {
        tell(finder, "state.pending", found.pending);
    }
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

fn members(finder: &mut Finder<'_>, column: &Fact, member: &Member, prefix: &str, pending: Option<&str>) {
    let mut found = meanings(&member.words, &[], pending);
    // Both spellings of what the others are called are common, and rows may not have them all yet.
    if found.dead.is_none() && prefix == "outbox_" {
        let why = "no row has a word for it yet".to_owned();
        found.dead = Some(StateWord {
            word: "dead_letter".to_owned(),
            why,
            others: vec!["dead".to_owned()],
            ..StateWord::default()
        });
    }
    let path = ColumnPath { column: column.name.clone(), path: vec![member.key.clone()] };
    finder.text("state.word", path.to_string(), "a key inside a JSON column");
    if member.lacking > 0 {
        finder.warn(format!("{} of the sampled objects have no key {path}: such rows are not sent", member.lacking));
    }
    say(finder, &path.to_string(), found);
    let is_ours = |key: &str| key == member.key || (!prefix.is_empty() && key.starts_with(prefix));
    let of_state = column.members.iter().filter(|other| is_ours(&other.key));
    let mut without: Vec<String> = of_state.map(|other| other.key.clone()).collect();
    for (key, names) in [("attempts", names::ATTEMPTS), ("next_attempt", names::NEXT_ATTEMPT), ("error", names::ERROR)]
    {
        let fits = |other: &&Member| {
            let bare = other.key.strip_prefix(prefix).filter(|_| !prefix.is_empty()).map(names::bare);
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
    if finder.found("event.payload") != Some(column) {
        finder.uses(&column.name);
        return;
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
