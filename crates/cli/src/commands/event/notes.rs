//! What a user who appends may not have meant: ids that are there already, types with a space, events that no route matches.
//!
//! A database role that may only append cannot read ids and routes, and gets no note about them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use postroom_admin::{Admin, Page, Selection};
use postroom_core::Event;

use crate::app::Opened;
use crate::output::count;

/// Ids that are looked up at once.
const IDS: usize = 1_000;
/// Examples that a note names.
const NAMED: usize = 3;

/// Notes about events that are about to be appended; `named` are the ids that the user gave.
pub(super) async fn of(opened: &Opened, events: &[Event], named: &[String]) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(used_before(&*opened.admin(), named).await);
    notes.extend(given_twice(named));
    notes.extend(with_space(events));
    notes.extend(unwanted(opened, events).await);
    notes
}

async fn used_before(admin: &dyn Admin, named: &[String]) -> Option<String> {
    let mut used = BTreeMap::new();
    for ids in named.chunks(IDS) {
        let which = Selection { ids: ids.to_vec(), ..Selection::default() };
        let page = Page::Newest { before: None, above: 0, limit: IDS };
        let found = admin.events(&which, page).await.unwrap_or_default();
        used.extend(found.into_iter().map(|event| (event.id, event.position)));
    }
    match used.iter().next() {
        Some((id, position)) if used.len() == 1 => {
            Some(format!("id {id} was appended before, at position {position}: both events are delivered"))
        }
        Some(_) => Some(format!(
            "{} of these ids were appended before ({}): both events of each are delivered",
            used.len(),
            some(used.keys().map(String::as_str))
        )),
        None => None,
    }
}

fn given_twice(named: &[String]) -> Option<String> {
    let mut once = BTreeSet::new();
    let twice: BTreeSet<&str> = named.iter().map(String::as_str).filter(|id| !once.insert(*id)).collect();
    (!twice.is_empty()).then(|| {
        let ids = some(twice.iter().copied());
        format!("{} more than once here ({ids}): every one of these events is delivered", were(twice.len(), "id"))
    })
}

fn with_space(events: &[Event]) -> Option<String> {
    let kind = events.iter().map(|event| &event.event_type).find(|kind| kind.contains(char::is_whitespace))?;
    Some(format!("the type {kind:?} contains white space: a route matches it only if its pattern does, too"))
}

async fn unwanted(opened: &Opened, events: &[Event]) -> Option<String> {
    let wanted = opened.filters().await.ok()?;
    let unwanted: Vec<&Event> = events.iter().filter(|event| !wanted.iter().any(|f| f.matches(event))).collect();
    let kinds: BTreeSet<&str> = unwanted.iter().map(|event| event.event_type.as_str()).collect();
    let shows = "`postroom route ls` shows the routes";
    match unwanted.as_slice() {
        [] => None,
        [event] if events.len() == 1 => Some(format!(
            "no route matches this event of type {}: it is kept, and delivered to nobody; {shows}",
            event.event_type
        )),
        _ => Some(format!(
            "no route matches {} of {} ({}): they are kept, and delivered to nobody; {shows}",
            unwanted.len(),
            count(events.len() as u64, "event"),
            some(kinds.into_iter())
        )),
    }
}

fn were(n: usize, thing: &str) -> String {
    format!("{} {} given", count(n as u64, thing), if n == 1 { "is" } else { "are" })
}

/// The first few names, and how many more there are.
fn some<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(NAMED);
    let mut text = names.take(NAMED).collect::<Vec<_>>().join(", ");
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}
