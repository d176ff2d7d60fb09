//! What a `[[route]]` means: its stores, policies, envelope and destination.
//!
//! As in [`super::read`], what has been reported already counts as absent.

use std::collections::HashSet;

use postroom_core::envelope::{FieldTable, Format, Part};
use postroom_core::units::{parse_duration, parse_rate};
use postroom_core::{
    BreakerCounts, BreakerPolicy, Delays, Filter, OnDead, OnFailure, Pattern, RetryPolicy, RouteSpec, StartFrom,
};
use postroom_settings::{Node, Origin, Table, nearest, suggest};

use super::read::Read;
use super::target::Target;
use super::typed::{NO_STORE_HINT, RouteConfig};

impl Read<'_> {
    /// The routes of a list of tables.
    pub(super) fn routes(&mut self, list: &[Node], stores: &[String], retry: &Table) -> Vec<RouteConfig> {
        let mut routes: Vec<RouteConfig> = Vec::new();
        let mut seen: Vec<(&str, &Node)> = Vec::new();
        let configured: Vec<&str> =
            list.iter().filter_map(|n| n.table().filter(|t| t.get("to").is_some())?.text("name")).collect();
        for node in list {
            let Some(table) = node.table() else { continue };
            let name = table.text("name").unwrap_or_default();
            if let Some((_, first)) = seen.iter().find(|(other, _)| *other == name && !name.is_empty())
                && let Some(node) = table.get("name")
            {
                let message = format!("route `{name}` is there twice; the first is at {}", first.place.origin);
                self.problems.at(&node.place, message, Some("give each route its own name".to_owned()));
            }
            if let Some(node) = table.get("name") {
                seen.push((name, node));
            }
            let Some(to) = table.get("to") else {
                if matches!(node.place.origin, Origin::File { .. }) {
                    let hint =
                        "choose a destination, for instance to = { exec = { command = [\"python3\", \"mailer.py\"] } }"
                            .to_owned();
                    self.problems.at(&node.place, format!("route `{name}` has no `to`"), Some(hint));
                } else {
                    let hint = nearest(name, configured.iter().copied()).map(|near| format!("did you mean `{near}`?"));
                    self.problems.at(&node.place, format!("there is no route `{name}`"), hint);
                }
                continue;
            };
            let stores = self.route_stores(name, node, table, stores);
            let retry = self.retry(table.table("retry"), retry);
            let envelope = self.envelope(table.get("envelope"));
            let breaker = self.breaker(table.table("breaker"));
            let Some(target) = self.target(name, to) else { continue };
            if let (Format::CloudEventsBinary, Some(node)) = (&envelope, table.get("envelope"))
                && !target.has_headers()
            {
                let message =
                    format!("`cloudevents-binary` needs headers, and route `{name}` goes where there are none");
                self.problems.at(&node.place, message, Some("choose cloudevents-structured, raw or fields".to_owned()));
            }
            let definition = RouteSpec { consumer: self.consumer(name, table, &target), ..definition(table, &target) };
            let start_is_explicit = table.get("start").is_some_and(|node| !node.is_default());
            let rate = table.text("rate").and_then(|text| parse_rate(text).ok());
            let allow_discard = table.flag("allow_discard");
            routes.push(RouteConfig {
                definition,
                start_is_explicit,
                stores,
                to: target,
                envelope,
                retry,
                breaker,
                rate,
                allow_discard,
            });
        }
        routes
    }

    fn route_stores(&mut self, name: &str, node: &Node, table: &Table, stores: &[String]) -> Vec<String> {
        let Some(value) = table.get("store") else {
            let (message, hint) = match stores {
                [] => (format!("route `{name}` has no store: none is configured"), NO_STORE_HINT.to_owned()),
                _ => (
                    format!("route `{name}` does not say which store it serves"),
                    format!("add store = \"*\", or one of {}", stores.join(", ")),
                ),
            };
            self.problems.at(&node.place, message, Some(hint));
            return Vec::new();
        };
        let mut chosen = Vec::new();
        for entry in value.list().unwrap_or(std::slice::from_ref(value)) {
            match entry.text() {
                Some("*") => chosen.extend_from_slice(stores),
                Some(text) if stores.iter().any(|s| s == text) => chosen.push(text.to_owned()),
                Some(text) if !text.is_empty() => {
                    let known: Vec<&str> = stores.iter().map(String::as_str).collect();
                    let hint = suggest(text, &known).unwrap_or_else(|| NO_STORE_HINT.to_owned());
                    let message = format!("route `{name}` names store `{text}`, which is not configured");
                    self.problems.at(&entry.place, message, Some(hint));
                }
                _ => {}
            }
        }
        let mut seen = HashSet::new();
        chosen.retain(|store| seen.insert(store.clone()));
        chosen
    }

    /// A route's retries: its own where it has them, `[retry]` for the rest.
    pub(super) fn retry(&mut self, own: Option<&Table>, common: &Table) -> RetryPolicy {
        let empty = Table::default();
        let own = own.unwrap_or(&empty);
        self.retry_conflict(own);
        let of = |name: &str| own.get(name).or_else(|| common.get(name));
        let schedule = own.get("schedule").or_else(|| {
            // A route with delays of its own does not want the common schedule.
            let plain = own.get("base").is_none() && own.get("max").is_none();
            common.get("schedule").filter(|_| plain)
        });
        let time = |name| of(name).and_then(Node::text).and_then(|t| parse_duration(t).ok()).unwrap_or_default();
        let delays = if let Some(list) = schedule.and_then(Node::list) {
            Delays::Schedule(list.iter().filter_map(|n| parse_duration(n.text()?).ok()).collect())
        } else {
            let (base, max) = (time("base"), time("max"));
            self.problems.in_order(own, ("base", base), ("max", max));
            Delays::Exponential { base, max }
        };
        RetryPolicy::default()
            .delays(delays)
            .jitter(of("jitter").and_then(Node::share).unwrap_or_default())
            .jitter_beyond_max(of("jitter_beyond_max").and_then(Node::flag).unwrap_or_default())
            .attempts(of("attempts").and_then(Node::count).unwrap_or(1))
            .crashes(of("crashes").and_then(Node::count))
    }

    fn retry_conflict(&mut self, table: &Table) {
        let set = |name| table.get(name).is_some_and(|n: &Node| !n.is_default());
        if let Some(schedule) = table.get("schedule")
            && (set("base") || set("max"))
        {
            let hint = "leave `schedule` out, or `base` and `max`".to_owned();
            self.problems.at(&schedule.place, "`schedule` replaces `base` and `max`; both are given", Some(hint));
        }
    }

    fn breaker(&mut self, table: Option<&Table>) -> BreakerPolicy {
        let empty = Table::default();
        let table = table.unwrap_or(&empty);
        let all = table.text("counts") == Some("all");
        let policy = BreakerPolicy::default()
            .counts(if all { BreakerCounts::All } else { BreakerCounts::Unavailable })
            .failures(table.count("failures"))
            .cooldown(table.duration("cooldown"))
            .cooldown_max(table.duration("cooldown_max"));
        self.problems.in_order(table, ("cooldown", policy.cooldown), ("cooldown_max", policy.cooldown_max));
        policy
    }

    fn envelope(&mut self, node: Option<&Node>) -> Format {
        let Some(node) = node else { return Format::CloudEventsStructured };
        match node.text() {
            Some("cloudevents-binary") => return Format::CloudEventsBinary,
            Some("raw") => return Format::Raw,
            Some(_) => return Format::CloudEventsStructured,
            None => {}
        }
        let Some(fields) = node.table().and_then(|t| t.table("fields")).filter(|f| !f.0.is_empty()) else {
            if let Some(table) = node.table()
                && table.get("fields").is_none_or(|f| f.table().is_some())
            {
                let hint = "write for instance { fields = { event_id = \"id\", data = \"payload\" } }".to_owned();
                self.problems.at(&node.place, "the envelope has no fields", Some(hint));
            }
            return Format::CloudEventsStructured;
        };
        let open = |name: &str| node.table().and_then(|table| table.table(name));
        let table = FieldTable::new(self.parts(fields));
        let dead = open("dead").map(|fields| self.parts(fields)).unwrap_or_default();
        let headers = open("headers").map(|fields| self.parts(fields)).unwrap_or_default();
        Format::Fields(table.dead(dead).headers(headers))
    }

    fn parts(&mut self, fields: &Table) -> Vec<(String, Part)> {
        let mut parts = Vec::new();
        for entry in &fields.0 {
            let (from, time) = match entry.node.table() {
                Some(table) => (table.text("from"), table.text("time")),
                None => (entry.node.text(), None),
            };
            match from.map(|from| Part::parse(from, time)) {
                Some(Ok(part)) => parts.push((entry.name.clone(), part)),
                Some(Err(error)) => {
                    self.problems.at(&entry.node.place, format!("envelope field `{}`: {error}", entry.name), None);
                }
                None if entry.node.table().is_some_and(|t| t.get("from").is_none()) => {
                    let message = format!("envelope field `{}` has no `from`", entry.name);
                    self.problems.at(&entry.node.place, message, None);
                }
                None => {}
            }
        }
        parts
    }
}

fn definition(table: &Table, target: &Target) -> RouteSpec {
    let patterns = |name: &str| -> Vec<Pattern> {
        let list = table.get(name).and_then(Node::list).unwrap_or_default();
        list.iter().filter_map(|n| Pattern::parse(n.text()?).ok()).collect()
    };
    RouteSpec {
        name: table.text("name").unwrap_or_default().to_owned(),
        filter: Filter {
            types: patterns("match"),
            aggregate_type: patterns("aggregate_type"),
            tenant: patterns("tenant"),
        },
        start: table.text("start").and_then(StartFrom::parse).unwrap_or(StartFrom::Now),
        to: target.describe(),
        on_failure: if table.text("on_failure") == Some("skip") { OnFailure::Skip } else { OnFailure::Block },
        on_dead: if table.text("on_dead") == Some("hold") { OnDead::Hold } else { OnDead::Continue },
        consumer: None,
    }
}
