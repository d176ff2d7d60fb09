//! Ids as people type them: whole, or a prefix that only one id has. An exact id always wins.
//!
//! Stores find whole ids only. A prefix is looked for among the ids that a store lists cheaply: its newest events, its dead
//! letters, and the events of the time that an id made by Postroom begins with.

use std::collections::BTreeSet;
use std::io::{self, BufRead as _};

use jiff::{SignedDuration, Timestamp};
use postroom_admin::view::InboxCursor;
use postroom_admin::{Admin, Page, Selection};
use postroom_core::StoreError;

use crate::exit::{Exit, Failed};
use crate::suggest;

/// Shortest prefix that is accepted, in characters.
const PREFIX_MIN: usize = 8;
/// Maximum number of ids of one list that are searched.
const SEARCHED_MAX: usize = 10_000;
/// Maximum number of candidates that an error lists.
const CANDIDATES_MAX: usize = 10;

/// Returns the only known id that begins with what was typed. Fails if there is none, or more than one.
pub(crate) fn only<'k>(what: &str, typed: &str, known: &'k [String], otherwise: &str) -> Result<&'k str, Failed> {
    // A table on a small terminal shows the beginning of an id.
    let prefix = typed.trim_end_matches('…');
    if prefix.chars().count() < PREFIX_MIN {
        return Err(suggest::unknown(what, typed, known, otherwise));
    }
    let fits: BTreeSet<&str> = known.iter().map(String::as_str).filter(|id| id.starts_with(prefix)).collect();
    let Some(first) = fits.first() else { return Err(suggest::unknown(what, typed, known, otherwise)) };
    if fits.len() == 1 {
        return Ok(first);
    }
    let mut listed: Vec<&str> = fits.iter().copied().take(CANDIDATES_MAX).collect();
    if fits.len() > CANDIDATES_MAX {
        listed.push("…");
    }
    let message = format!("{typed:?} is the beginning of {} ids: {}", fits.len(), listed.join(", "));
    Err(Failed::new(Exit::Usage, message, format!("type more of the id of the {what}")))
}

/// Returns the ids among which an event with this prefix is looked for.
pub(crate) async fn of_events(admin: &dyn Admin, prefix: &str) -> Result<Vec<String>, StoreError> {
    let newest = Page::Newest { before: None, above: 0, limit: SEARCHED_MAX };
    let everything = Selection::default();
    let mut ids: Vec<String> = admin.events(&everything, newest).await?.into_iter().map(|row| row.id).collect();
    ids.extend(admin.dead(&everything, 0, SEARCHED_MAX).await?.into_iter().map(|row| row.id));
    if let Some((from, to)) = made_between(prefix) {
        let then = Selection { from: Some(from), to: Some(to), ..Selection::default() };
        // The event is among the first of its time, however many follow within the second.
        let oldest = Page::Oldest { after: 0, limit: SEARCHED_MAX };
        ids.extend(admin.events(&then, oldest).await?.into_iter().map(|row| row.id));
    }
    Ok(ids)
}

/// Returns the accepted ids with this prefix, or the largest ones if there are none.
pub(crate) async fn of_inbox(admin: &dyn Admin, prefix: &str) -> Result<Vec<String>, StoreError> {
    // The list is in descending order of ids: those with the prefix follow one that is greater than all of them. A `z` is
    // behind digits and letters in every collation.
    let beyond = format!("{}{}", prefix.trim_end_matches('…'), "z".repeat(36));
    let beyond = InboxCursor { id: beyond, consumer: String::new() };
    let mut rows = admin.inbox(None, None, Some(&beyond), SEARCHED_MAX).await?;
    if rows.is_empty() {
        rows = admin.inbox(None, None, None, SEARCHED_MAX).await?;
    }
    Ok(rows.into_iter().map(|row| row.id).collect())
}

/// Reads ids from stdin, one per line.
pub(crate) fn from_stdin() -> Result<Vec<String>, Failed> {
    let mut ids = Vec::new();
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|e| Failed::new(Exit::Usage, format!("the ids on stdin cannot be read: {e}"), ""))?;
        ids.extend(Some(line.trim()).filter(|id| !id.is_empty()).map(str::to_owned));
    }
    if ids.is_empty() {
        return Err(Failed::new(Exit::Usage, "no ids on stdin; nothing was changed", "write one id per line"));
    }
    Ok(ids)
}

/// Returns when ids with this prefix are made, if Postroom makes them: they begin with the milliseconds since 1970 as
/// twelve hexadecimal digits.
fn made_between(prefix: &str) -> Option<(Timestamp, Timestamp)> {
    let digits: String = prefix.trim_end_matches('…').chars().filter(|c| *c != '-').take(12).collect();
    if digits.len() < PREFIX_MIN || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let missing = 12 - digits.len();
    let millis = |fill: &str| i64::from_str_radix(&(digits.clone() + &fill.repeat(missing)), 16).ok();
    let from = Timestamp::from_millisecond(millis("0")?).ok()?;
    let to = Timestamp::from_millisecond(millis("f")?).ok()?;
    // The event is made right after its id.
    Some((from, to.checked_add(SignedDuration::from_secs(1)).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(typed: &str, known: &[&str]) -> Result<String, (u8, String)> {
        let known: Vec<String> = known.iter().map(|id| (*id).to_owned()).collect();
        let found = only("event", typed, &known, "list them").map(str::to_owned);
        found.map_err(|failed| (failed.exit as u8, failed.problems[0].message.clone()))
    }

    #[test]
    fn a_prefix_of_eight_letters_that_one_id_has_is_that_id() {
        assert_eq!(check("order-17", &["order-17-placed", "order-18-placed"]), Ok("order-17-placed".into()));
        assert_eq!(check("order-17…", &["order-17-placed", "order-17-placed"]), Ok("order-17-placed".into()));
        assert_eq!(check("order-1", &["order-17-placed"]), Err((1, "there is no event \"order-1\"".into())));
        assert_eq!(check("order-19", &["order-17-placed"]), Err((1, "there is no event \"order-19\"".into())));
    }

    #[test]
    fn a_prefix_of_several_ids_is_none_of_them() {
        let (code, message) = check("order-17", &["order-17-b", "order-17-a", "order-18"]).unwrap_err();
        assert_eq!((code, message.as_str()), (2, "\"order-17\" is the beginning of 2 ids: order-17-a, order-17-b"));
        let many: Vec<String> = (10..30).map(|n| format!("order-17-{n}")).collect();
        let (_, message) = check("order-17", &many.iter().map(String::as_str).collect::<Vec<_>>()).unwrap_err();
        assert!(message.contains("of 20 ids: order-17-10, ") && message.ends_with("order-17-19, …"), "{message}");
    }

    #[test]
    fn an_id_that_postroom_made_tells_its_time() {
        let event = postroom_core::Event::new("t");
        for length in [8, 11, 13, 20, 36] {
            let (from, to) = made_between(&event.id[..length]).unwrap();
            assert!(from <= event.occurred_at && event.occurred_at < to, "{length}: {from} {to}");
        }
        assert_eq!((made_between("order-17-placed"), made_between("0199a3f")), (None, None));
    }
}
