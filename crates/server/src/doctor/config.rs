//! What is wrong with the configuration although it can be read.

use postroom_core::units::format_duration;
use postroom_core::view::Found;

use crate::config::Config;
use crate::online::{again_within, in_minutes};

pub(super) fn about(config: &Config) -> Vec<Found> {
    let (stores, routes) = (config.stores.len(), config.routes.len());
    let file = config.file.as_ref().map_or_else(|| "the configuration".to_owned(), |file| file.display().to_string());
    let mut found = vec![Found::fine(format!("{file} has no mistakes (stores: {stores}, routes: {routes})"))];
    if routes == 0 {
        found.push(Found::warning("doctor.no_routes", "no route is configured: events are kept and go nowhere"));
    }
    found.push(inbox(config));
    found
}

/// An inbox must remember an event for as long as it may be sent again.
fn inbox(config: &Config) -> Found {
    let longest = config.routes.iter().max_by_key(|route| again_within(route, config));
    let (Some(window), Some(route)) = (config.retention.inbox, longest) else {
        return Found::fine("inboxes remember every event for as long as it may be sent again");
    };
    let again = again_within(route, config);
    if window >= again {
        return Found::fine(format!(
            "inboxes remember events for {}, longer than any is retried",
            format_duration(window)
        ));
    }
    let (window, name, again) = (format_duration(window), &route.definition.name, in_minutes(again));
    let message =
        format!("inboxes forget an event after {window}, but lease and retries of route {name} take up to {again}");
    Found::warning("doctor.inbox_window", message)
        .hint("an event sent again later is accepted twice")
        .mend(format!("[inbox]\nretention = \"{again}\""))
}
