//! The settings of Postroom: its keys with the words around them, and the pages that are made from them.

use postroom_core::{Pattern, StartFrom};
use postroom_settings::{Custom, Definition, Init, Kind, Problem, Wrong};

use super::keys::ROOT;
use super::stores::POSTGRES_KEYS;

/// The settings of Postroom.
pub(crate) static DEFINITION: Definition = Definition {
    program: "postroom",
    root: ROOT,
    customs: &[&START, &PATTERN],
    prefix: "POSTROOM_",
    other_variables: &["POSTROOM_CONFIG", "POSTROOM_PRESET"],
    renamed: &[("late", "ready_max_lag"), ("layout", "mapping"), ("leaves", "partitions"), ("known", "ignored")],
    list_command: "postroom config init",
    schema_title: "Postroom's configuration",
    schema_about: "Strings may hold ${VAR} and ${VAR:-default}. `postroom config check` reports every error.",
    init: Init {
        head: HEAD,
        choice: r#"{ exec = { command = ["python3", "mailer.py"], in_flight = 64, timeout = "30s" } }"#,
        alternatives: &[&["url_file", "schedule", "metrics_token_file"], POSTGRES_KEYS],
    },
};

const HEAD: &str = "\
#:schema postroom.schema.json
# Postroom's configuration.
#
# Lines that begin with `#` and a key are commented out: they show the default, or an example if there is no default.
# Flags override environment variables (POSTROOM_RELAY__LEASE=30s), which override this file, which overrides defaults.
# Strings may hold ${VAR} and ${VAR:-default}. Relative paths are relative to the working folder.
# `postroom config show --origin` shows the values in force and their origins; `postroom config check` finds mistakes.
# Editors that read the first line complete keys, after `postroom config schema > postroom.schema.json` in this folder.
";

/// `now`, `beginning` or a time.
pub(super) const STARTS: Kind = Kind::Custom(&START);
/// Patterns of event types, aggregate types or tenants.
pub(super) const PATTERNS: Kind = Kind::List(&Kind::Custom(&PATTERN));

static START: Custom = Custom {
    name: "start",
    what: "a time",
    reference: "`now`, `beginning`, time",
    shape: r"(now|beginning|[+-]?\d{4,6}-?\d{2}-?\d{2}.*)",
    empty: None,
    check: |text| {
        let hint = "choose now, beginning or a time such as 2026-01-02T03:04:05Z";
        let wrong = || Wrong { message: format!(" cannot be {text:?}"), hint: Some(hint.to_owned()) };
        StartFrom::parse(text).map(drop).ok_or_else(wrong)
    },
};

static PATTERN: Custom = Custom {
    name: "pattern",
    what: "a pattern",
    reference: "pattern",
    shape: r"([^*]+\*?|\*)",
    empty: Some("leave it out, or write [\"*\"], to want everything"),
    check: |text| Pattern::parse(text).map(drop).map_err(|error| Wrong { message: format!(": {error}"), hint: None }),
};

/// What to say to somebody who asks for what a feature would have brought, for instance "transport `kafka`".
pub fn absent(what: &str, feature: &str) -> Problem {
    DEFINITION.absent(what, feature)
}

/// The tables of keys in `docs/config.md`.
pub fn reference() -> String {
    DEFINITION.reference()
}

/// The JSON Schema of the configuration, for editors and for checks without this program.
pub fn schema() -> serde_json::Value {
    DEFINITION.schema()
}

/// The commented file that `config init` writes.
pub fn init() -> String {
    DEFINITION.init()
}

#[cfg(test)]
mod tests {
    use postroom_settings::{Problems, Table};

    use super::*;

    #[test]
    fn every_key_says_what_it_does_in_one_line_and_shows_a_value_that_reads() {
        assert_eq!(DEFINITION.faults(), [""; 0]);
    }

    #[test]
    fn an_old_name_of_a_key_is_answered_with_the_new_one() {
        let hint = |flag: &str| {
            let mut problems = Problems::default();
            DEFINITION.flags(&mut Table::default(), &[(flag.to_owned(), "1".to_owned())], &mut problems);
            problems.into_error().to_string()
        };
        assert!(hint("http.late").contains("did you mean `http.ready_max_lag`?"), "{}", hint("http.late"));
        assert!(hint("store.layout.leaves").contains("did you mean `store.layout.partitions`?"));
        #[cfg(feature = "adopted")]
        assert!(hint("store.main.layout.state.known").contains("did you mean `store.main.mapping.state.ignored`?"));
        assert!(!hint("relay.late").contains("ready_max_lag"));
    }
}
