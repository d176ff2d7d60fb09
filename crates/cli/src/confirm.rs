//! Asks for confirmation before an action that cannot be undone. Without a terminal the answer is no, so that a script never hangs.

use std::io::{self, BufRead, IsTerminal, Write};

use postroom_admin::Undelivered;

use crate::exit::{Exit, Failed};
use crate::options::Global;

/// Number of deliveries from which a "y" is not enough, because it is typed too easily.
const MANY: u64 = 1_000;

/// Asks for confirmation; `--yes` or a "y" at the terminal confirms.
pub(crate) fn confirm(global: &Global, question: &str) -> Result<(), Failed> {
    at_terminal(global, question, None)
}

/// Asks for confirmation of an action on `touched` deliveries or events. If they are many, the count must be typed, or given
/// as `--confirm`: a `--yes` in a script covers no more.
pub(crate) fn confirm_many(
    global: &Global,
    question: &str,
    touched: u64,
    confirmed: Option<u64>,
) -> Result<(), Failed> {
    confirm_count(global, question, (touched, touched > MANY), confirmed)
}

/// Asks for confirmation of the loss of deliveries. If they are many, or not all counted, their number must be typed.
pub(crate) fn confirm_lost(
    global: &Global,
    question: &str,
    left: &Undelivered,
    confirmed: Option<u64>,
) -> Result<(), Failed> {
    let lost = left.deliveries();
    confirm_count(global, question, (lost, lost > MANY || !left.is_exact()), confirmed)
}

fn confirm_count(
    global: &Global,
    question: &str,
    (touched, must_be_typed): (u64, bool),
    confirmed: Option<u64>,
) -> Result<(), Failed> {
    match confirmed {
        Some(confirmed) if confirmed == touched => Ok(()),
        Some(confirmed) => {
            let message = format!("--confirm is {confirmed}, but {touched} are affected; nothing was changed");
            Err(Failed::new(Exit::Refused, message, "look again with --dry-run"))
        }
        None => at_terminal(global, question, must_be_typed.then_some(touched)),
    }
}

fn at_terminal(global: &Global, question: &str, touched: Option<u64>) -> Result<(), Failed> {
    let stdin = io::stdin();
    let terminal = stdin.is_terminal();
    ask((global.yes, terminal), question, touched, &mut stdin.lock(), &mut io::stderr())
}

fn ask(
    (yes, terminal): (bool, bool),
    question: &str,
    touched: Option<u64>,
    from: &mut dyn BufRead,
    to: &mut dyn Write,
) -> Result<(), Failed> {
    if yes && touched.is_none() {
        return Ok(());
    }
    if !terminal {
        let message = "not confirmed, and there is no terminal to ask on; nothing was changed";
        let hint = match touched {
            Some(touched) => {
                format!("--yes covers 1,000, and no estimate; add --confirm {touched}, or --dry-run for a preview")
            }
            None => "add --yes to continue, or --dry-run for a preview".to_owned(),
        };
        return Err(Failed::new(Exit::Refused, message, hint));
    }
    match touched {
        Some(touched) => write!(to, "{question}\nType {touched} to continue: ")?,
        None => write!(to, "{question} [y/N] ")?,
    }
    to.flush()?;
    let mut answer = String::new();
    from.read_line(&mut answer)?;
    let (agreed, hint) = match touched {
        Some(touched) => {
            (answer.trim() == touched.to_string(), "type how many there are, or add --confirm with that number")
        }
        None => (matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"), "answer y, or add --yes"),
    };
    if agreed { Ok(()) } else { Err(Failed::new(Exit::Refused, "not confirmed; nothing was changed", hint)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(asked: (bool, bool), touched: Option<u64>, answer: &str) -> (Result<(), Exit>, String) {
        let mut said = Vec::new();
        let result = ask(asked, "Discard?", touched, &mut answer.as_bytes(), &mut said).map_err(|f| f.exit);
        (result, String::from_utf8(said).unwrap())
    }

    const AT_TERMINAL: (bool, bool) = (false, true);

    #[test]
    fn only_a_clear_yes_goes_on() {
        assert_eq!(check(AT_TERMINAL, None, "y\n"), (Ok(()), "Discard? [y/N] ".to_owned()));
        for no in ["\n", "n\n", "", "yep\n"] {
            assert_eq!(check(AT_TERMINAL, None, no).0, Err(Exit::Refused), "{no:?}");
        }
    }

    #[test]
    fn of_many_the_count_must_be_typed() {
        let asked = "Discard?\nType 12000 to continue: ".to_owned();
        assert_eq!(check(AT_TERMINAL, Some(12_000), "12000\n"), (Ok(()), asked));
        for no in ["\n", "y\n", "yes\n", "1200\n", "12001\n"] {
            assert_eq!(check(AT_TERMINAL, Some(12_000), no).0, Err(Exit::Refused), "{no:?}");
        }
    }

    #[test]
    fn with_yes_nobody_is_asked_and_without_a_terminal_it_is_refused() {
        assert_eq!(check((true, false), None, ""), (Ok(()), String::new()));
        for touched in [None, Some(12_000)] {
            assert_eq!(check((false, false), touched, "y\n"), (Err(Exit::Refused), String::new()));
        }
    }

    #[test]
    fn yes_does_not_cover_many() {
        assert_eq!(check((true, false), Some(12_000), ""), (Err(Exit::Refused), String::new()));
        assert_eq!(check((true, true), Some(12_000), "12000\n").0, Ok(()));
    }
}
