//! Asks before something that cannot be taken back. A script is never left hanging: without a terminal the answer is no.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::args::Global;
use crate::exit::{Exit, Failed};

/// Goes on only with `--yes`, or a "y" at the terminal.
pub(crate) fn confirm(global: &Global, question: &str) -> Result<(), Failed> {
    let stdin = io::stdin();
    let terminal = stdin.is_terminal();
    ask(global.yes, terminal, question, &mut stdin.lock(), &mut io::stderr())
}

fn ask(yes: bool, terminal: bool, question: &str, from: &mut dyn BufRead, to: &mut dyn Write) -> Result<(), Failed> {
    if yes {
        return Ok(());
    }
    if !terminal {
        let message = "not confirmed, and there is no terminal to ask on; nothing was changed";
        return Err(Failed::new(Exit::Refused, message, "add --yes to go on, or --dry-run to only look"));
    }
    write!(to, "{question} [y/N] ")?;
    to.flush()?;
    let mut answer = String::new();
    from.read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes" | "Yes") {
        Ok(())
    } else {
        Err(Failed::new(Exit::Refused, "not confirmed; nothing was changed", "answer y, or add --yes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(yes: bool, terminal: bool, answer: &str) -> (Result<(), Exit>, String) {
        let mut asked = Vec::new();
        let result = ask(yes, terminal, "Discard 3?", &mut answer.as_bytes(), &mut asked).map_err(|f| f.exit);
        (result, String::from_utf8(asked).unwrap())
    }

    #[test]
    fn only_a_clear_yes_goes_on() {
        assert_eq!(check(false, true, "y\n"), (Ok(()), "Discard 3? [y/N] ".to_owned()));
        for no in ["\n", "n\n", "", "yep\n"] {
            assert_eq!(check(false, true, no).0, Err(Exit::Refused), "{no:?}");
        }
    }

    #[test]
    fn with_yes_nobody_is_asked_and_without_a_terminal_it_is_refused() {
        assert_eq!(check(true, false, ""), (Ok(()), String::new()));
        assert_eq!(check(false, false, "y\n"), (Err(Exit::Refused), String::new()));
    }
}
