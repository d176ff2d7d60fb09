//! What this build was made without: what people may write that only some builds know, and the feature that brings it.
//!
//! The configuration and the commands of the program say it in the same words.

use super::problem::Problem;

/// Somebody asks for something that a feature would have brought, for instance "transport `kafka`".
pub fn absent(what: &str, feature: &str) -> Problem {
    let hint = format!("build with the feature `{feature}`, which the program `postroom` has by default");
    Problem::new(format!("this build has no {what}")).hint(hint)
}

/// Where a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Under {
    /// At the top of the file.
    Root,
    /// In `[store.NAME]`.
    Store,
    /// In `to`, or in `[transport]`.
    To,
}

/// A key that not every build has.
#[derive(Debug)]
struct Part {
    under: Under,
    name: &'static str,
    feature: &'static str,
    here: bool,
}

const fn part(under: Under, name: &'static str, feature: &'static str, here: bool) -> Part {
    Part { under, name, feature, here }
}

static PARTS: &[Part] = &[
    part(Under::Root, "contract", "contracts", cfg!(feature = "contracts")),
    part(Under::Root, "telemetry", "otlp", cfg!(feature = "otlp")),
    part(Under::Root, "topology", "rabbitmq", cfg!(feature = "rabbitmq")),
    part(Under::Store, "layout", "adopted", cfg!(feature = "adopted")),
    part(Under::Store, "migrate", "adopted", cfg!(feature = "adopted")),
    part(Under::To, "exec", "exec", cfg!(feature = "exec")),
    part(Under::To, "kafka", "kafka", cfg!(feature = "kafka")),
    part(Under::To, "rabbitmq", "rabbitmq", cfg!(feature = "rabbitmq")),
    part(Under::To, "nats", "nats", cfg!(feature = "nats")),
    part(Under::To, "redis", "redis", cfg!(feature = "redis")),
    part(Under::To, "webhook", "webhook", cfg!(feature = "webhook")),
    part(Under::To, "pull", "http", cfg!(feature = "http")),
];

impl Part {
    fn problem(&self) -> Problem {
        let what = match self.under {
            Under::Root => "section",
            Under::Store => "key",
            Under::To => "transport",
        };
        absent(&format!("{what} `{}`", self.name), self.feature)
    }
}

/// What to say of a key that this build does not know, if another one does.
pub(super) fn key(under: Under, name: &str) -> Option<Problem> {
    find(PARTS, under, name).map(Part::problem)
}

/// The same of the path that a variable spells.
pub(super) fn variable(path: &str, separator: &str) -> Option<Problem> {
    on_the_way(PARTS, path, separator).map(Part::problem)
}

fn find<'p>(parts: &'p [Part], under: Under, name: &str) -> Option<&'p Part> {
    parts.iter().find(|part| !part.here && part.under == under && part.name == name)
}

fn on_the_way<'p>(parts: &'p [Part], path: &str, separator: &str) -> Option<&'p Part> {
    let path = path.to_ascii_lowercase();
    let names: Vec<&str> = path.split(separator).collect();
    match names.as_slice() {
        ["transport", name, ..] => find(parts, Under::To, name),
        // The name of a route may have separators in it.
        ["route", rest @ ..] => {
            let to = rest.iter().position(|name| *name == "to")?;
            find(parts, Under::To, rest.get(to + 1)?)
        }
        ["store", _, rest @ ..] => rest.iter().find_map(|name| find(parts, Under::Store, name)),
        [section, ..] => find(parts, Under::Root, section),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::ROOT;
    use crate::config::stores::STORE;
    use crate::config::transports::TO;

    #[test]
    fn every_key_that_a_feature_brings_is_one_where_the_feature_is() {
        for part in PARTS {
            let keys = match part.under {
                Under::Root => ROOT,
                Under::Store => STORE,
                Under::To => TO,
            };
            assert_eq!(keys.iter().any(|key| key.name == part.name), part.here, "{part:?}");
        }
        let transports = PARTS.iter().filter(|part| part.under == Under::To && part.here).count();
        assert_eq!(transports + ["stdout", "noop"].len(), TO.len(), "a transport is in no list");
    }

    #[test]
    fn what_another_build_has_is_named_with_the_feature_that_brings_it() {
        let parts = [
            part(Under::Root, "telemetry", "otlp", false),
            part(Under::Store, "layout", "adopted", false),
            part(Under::To, "kafka", "kafka", false),
            part(Under::To, "nats", "nats", true),
        ];
        let said = |path: &str| on_the_way(&parts, path, "__").map(|part| part.problem().to_string());
        assert_eq!(
            said("TELEMETRY__OTLP").unwrap(),
            "this build has no section `telemetry`\n\
             hint: build with the feature `otlp`, which the program `postroom` has by default"
        );
        assert!(said("STORE__MAIN__LAYOUT__TABLE").unwrap().starts_with("this build has no key `layout`\n"));
        for path in ["ROUTE__EU__ORDERS__TO__KAFKA__TOPIC", "TRANSPORT__KAFKA__BROKERS"] {
            assert!(said(path).unwrap().starts_with("this build has no transport `kafka`\n"), "{path}");
        }
        for path in ["ROUTE__KAFKA__RATE", "TRANSPORT__NATS__URL", "TELEMETRI__OTLP", "STORE__LAYOUT__URL", ""] {
            assert_eq!(said(path), None, "{path}");
        }
    }
}
