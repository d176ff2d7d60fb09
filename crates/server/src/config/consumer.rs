//! `consumer` of a route: which routes can have one.

use postroom_core::CONSUMER_BYTES_MAX;
use postroom_settings::{Node, Table};

use super::read::Read;
use super::target::Target;
use super::typed::{RouteConfig, StoreConfig};

impl Read<'_> {
    /// The consumer of a route, if it has one. An empty name is none, so that a preset's can be taken away.
    pub(super) fn consumer(&mut self, route: &str, table: &Table, target: &Target) -> Option<String> {
        let node = table.get("consumer")?;
        let name = node.text().filter(|name| !name.is_empty())?;
        if !target.has_handlers() {
            let message = format!("route `{route}` goes to {}, and has the consumer `{name}`", target.name());
            let hint =
                "only exec and pull routes have one, whose answer is the handler's; set consumer = \"\"".to_owned();
            self.problems.at(&node.place, message, Some(hint));
        }
        if name.len() > CONSUMER_BYTES_MAX || name.contains('\0') {
            let message = format!("a consumer's name must be 1 to {CONSUMER_BYTES_MAX} bytes without zero bytes");
            self.problems.at(&node.place, message, None);
        }
        Some(name.to_owned())
    }

    /// That the stores of such routes can record what a consumer has processed.
    pub(super) fn consumers(&mut self, stores: &[StoreConfig], routes: &[RouteConfig], list: &[Node]) {
        for route in routes {
            let (name, Some(consumer)) = (&route.definition.name, &route.definition.consumer) else { continue };
            let table = list.iter().filter_map(Node::table).find(|table| table.text("name") == Some(name));
            let Some(node) = table.and_then(|table| table.get("consumer")) else { continue };
            for store in stores.iter().filter(|store| route.stores.contains(&store.name)) {
                let (why, hint) = match inbox(store) {
                    Inbox::There => continue,
                    Inbox::Unnamed => (
                        format!("the mapping of store `{}` names no inbox", store.name),
                        "add inbox = { table = \"processed_events\" } to the mapping, or leave `consumer` out",
                    ),
                    Inbox::OfSeveral => (
                        format!("the table of store `{}` has several routes (marked_by)", store.name),
                        "leave `consumer` out, and let the handler accept the event in the transaction of its work",
                    ),
                    Inbox::InTheLog => (
                        format!("store `{}` keeps a log of its own, which settles without its inbox", store.name),
                        "leave `consumer` out, and let the handler accept the event in the transaction of its work",
                    ),
                };
                let message = format!("route `{name}` has the consumer `{consumer}`, and {why}");
                self.problems.at(&node.place, message, Some(hint.to_owned()));
            }
        }
    }
}

/// Where a store has the inbox of a route's consumer.
#[cfg_attr(not(feature = "adopted"), allow(dead_code, reason = "only adopted tables come with an inbox"))]
enum Inbox {
    There,
    Unnamed,
    OfSeveral,
    InTheLog,
}

#[cfg(feature = "adopted")]
fn inbox(store: &StoreConfig) -> Inbox {
    match &store.mapping {
        Some(mapping) if mapping.marked_by.is_some() => Inbox::OfSeveral,
        Some(mapping) if mapping.inbox.is_some() => Inbox::There,
        Some(_) => Inbox::Unnamed,
        None => Inbox::InTheLog,
    }
}

#[cfg(not(feature = "adopted"))]
fn inbox(_: &StoreConfig) -> Inbox {
    Inbox::InTheLog
}
