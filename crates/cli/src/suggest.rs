//! Suggestions for unknown names: the nearest known names.

use std::collections::BTreeSet;

use crate::exit::{Exit, Failed};

/// Maximum number of names in a hint.
const NAMES_MAX: usize = 5;

/// Builds the error for an unknown name: it names the value and the nearest known ones.
pub(crate) fn unknown(what: &str, value: &str, known: &[String], otherwise: &str) -> Failed {
    Failed::new(Exit::Failed, format!("there is no {what} {value:?}"), hint(value, known, otherwise))
}

/// Returns the nearest known names, else `otherwise`.
pub(crate) fn hint(value: &str, known: &[String], otherwise: &str) -> String {
    let known: BTreeSet<&str> = known.iter().map(String::as_str).collect();
    let mut near: Vec<(f64, &str)> =
        known.iter().map(|name| (strsim::jaro_winkler(value, name), *name)).filter(|(score, _)| *score > 0.7).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    match near.as_slice() {
        [] if known.is_empty() || known.len() > NAMES_MAX => otherwise.to_owned(),
        [] => format!("known: {}", known.into_iter().collect::<Vec<_>>().join(", ")),
        [(_, one)] => format!("did you mean {one:?}?"),
        several => {
            let names: Vec<String> = several.iter().take(NAMES_MAX).map(|(_, name)| format!("{name:?}")).collect();
            format!("did you mean one of {}?", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_are_offered_first() {
        let known = ["orders".to_owned(), "billing".to_owned(), "mailer".to_owned()];
        assert_eq!(hint("order", &known, "x"), "did you mean \"orders\"?");
        assert_eq!(hint("zzz", &known, "x"), "known: billing, mailer, orders");
        assert_eq!(hint("zzz", &[], "run `postroom route ls`"), "run `postroom route ls`");
    }
}
