//! What is wrong with the configuration although it can be read.

use postroom_core::Diagnostic;
use postroom_core::units::format_duration;

use crate::config::Config;
use crate::preflight::{again_within, in_minutes};

pub(super) fn about(config: &Config) -> Vec<Diagnostic> {
    let (stores, routes) = (config.stores.len(), config.routes.len());
    let file = config.file.as_ref().map_or_else(|| "the configuration".to_owned(), |file| file.display().to_string());
    let mut found = vec![Diagnostic::fine(format!("{file} is valid (stores: {stores}, routes: {routes})"))];
    found.push(inbox(config));
    found
}

/// An inbox must remember an event for as long as it may be sent again.
fn inbox(config: &Config) -> Diagnostic {
    let longest = config.routes.iter().max_by_key(|route| again_within(route, config));
    let (Some(window), Some(route)) = (config.retention.inbox, longest) else {
        return Diagnostic::fine("inboxes keep event ids for as long as an event may be sent again");
    };
    let again = again_within(route, config);
    if window >= again {
        return Diagnostic::fine(format!(
            "inboxes keep event ids for {}, longer than events are retried",
            format_duration(window)
        ));
    }
    let (window, name, again) = (format_duration(window), &route.definition.name, in_minutes(again));
    let message =
        format!("inboxes forget event ids after {window}, but lease and retries of route {name} take up to {again}");
    Diagnostic::warning("doctor.inbox_window", message)
        .hint("an event sent again later is accepted twice")
        .fix(format!("[inbox]\nretention = \"{again}\""))
}
