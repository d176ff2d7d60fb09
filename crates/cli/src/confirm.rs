//! Asks before something that cannot be taken back. A script is never left hanging: without a terminal the answer is no.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::args::Global;
use crate::exit::{Exit, Failed};

/// From so many deliveries on a "y" is not enough: it is typed too easily.
const MANY: u64 = 1_000;

/// Goes on only with `--yes`, or a "y" at the terminal.
pub(crate) fn confirm(global: &Global, question: &str) -> Result<(), Failed> {
    at_terminal(global, question, None)
}

/// The same for something that touches so many; when they are many, the count must be typed.
pub(crate) fn confirm_many(global: &Global, question: &str, touched: u64) -> Result<(), Failed> {
    at_terminal(global, question, (touched > MANY).then_some(touched))
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
    if yes {
        return Ok(());
    }
    if !terminal {
        let message = "not confirmed, and there is no terminal to ask on; nothing was changed";
        return Err(Failed::new(Exit::Refused, message, "add --yes to go on, or --dry-run to only look"));
    }
    match touched {
        Some(touched) => write!(to, "{question}\nType {touched} to go on: ")?,
        None => write!(to, "{question} [y/N] ")?,
    }
    to.flush()?;
    let mut answer = String::new();
    from.read_line(&mut answer)?;
    let (agreed, hint) = match touched {
        Some(touched) => (answer.trim() == touched.to_string(), "type how many there are, or add --yes"),
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
        let asked = "Discard?\nType 12000 to go on: ".to_owned();
        assert_eq!(check(AT_TERMINAL, Some(12_000), "12000\n"), (Ok(()), asked));
        for no in ["\n", "y\n", "yes\n", "1200\n", "12001\n"] {
            assert_eq!(check(AT_TERMINAL, Some(12_000), no).0, Err(Exit::Refused), "{no:?}");
        }
    }

    #[test]
    fn with_yes_nobody_is_asked_and_without_a_terminal_it_is_refused() {
        for touched in [None, Some(12_000)] {
            assert_eq!(check((true, false), touched, ""), (Ok(()), String::new()));
            assert_eq!(check((false, false), touched, "y\n"), (Err(Exit::Refused), String::new()));
        }
    }
}
