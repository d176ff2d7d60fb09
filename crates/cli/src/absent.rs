//! Commands that this build lacks: they are not listed, and running one prints the feature that adds it.

use std::ffi::OsString;

use clap::{Arg, ArgMatches, Command};
use postroom_server::config::absent;

use crate::exit::{Exit, Failed};

/// Command that not every build has.
#[derive(Debug)]
struct Part {
    command: &'static str,
    feature: &'static str,
    here: bool,
}

const fn part(command: &'static str, feature: &'static str, here: bool) -> Part {
    Part { command, feature, here }
}

static PARTS: &[Part] = &[
    part("top", "top", cfg!(feature = "top")),
    part("adopt", "adopted", cfg!(feature = "adopted")),
    part("schema", "contracts", cfg!(feature = "contracts")),
    part("support", "support", cfg!(feature = "support")),
    part("webhook", "webhook", cfg!(feature = "webhook")),
    part("token", "http", cfg!(feature = "http")),
    part("completions", "manual", cfg!(feature = "manual")),
    part("man", "manual", cfg!(feature = "manual")),
];

/// Adds the missing commands to the tree; they accept any arguments.
pub(crate) fn known(tree: Command) -> Command {
    known_of(PARTS, tree)
}

/// Fails if the command is missing in this build.
pub(crate) fn refuse(asked: &ArgMatches) -> Result<(), Failed> {
    refuse_of(PARTS, asked)
}

fn known_of(parts: &[Part], tree: Command) -> Command {
    let said = || Arg::new("said").num_args(0..).trailing_var_arg(true).allow_hyphen_values(true);
    let hidden = |part: &Part| {
        let said = said().value_parser(clap::value_parser!(OsString));
        Command::new(part.command).hide(true).disable_help_flag(true).arg(said)
    };
    tree.subcommands(parts.iter().filter(|part| !part.here).map(hidden))
}

fn refuse_of(parts: &[Part], asked: &ArgMatches) -> Result<(), Failed> {
    let asked = asked.subcommand_name();
    match parts.iter().find(|part| !part.here && asked == Some(part.command)) {
        Some(Part { command, feature, .. }) => {
            let problem = absent(&format!("command `{command}`"), feature);
            Err(Failed::several(Exit::Usage, vec![problem.into()]))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn every_command_that_a_feature_brings_is_one_where_the_feature_is() {
        for part in PARTS {
            assert_eq!(Cli::command().find_subcommand(part.command).is_some(), part.here, "{part:?}");
        }
    }

    #[test]
    fn a_command_of_another_build_is_not_listed_and_says_which_feature_brings_it() {
        let parts = [part("console", "console", false)];
        let mut tree = known_of(&parts, Cli::command());
        assert!(!tree.render_long_help().to_string().contains("console"));
        for said in ["postroom console", "postroom console --help", "postroom -o json console x --y -z 7"] {
            let asked = tree.clone().try_get_matches_from(said.split(' ')).unwrap();
            let failed = refuse_of(&parts, &asked).unwrap_err();
            assert_eq!(failed.exit, Exit::Usage, "{said}");
            assert_eq!(
                failed.report(false),
                "error: this build has no command `console`\n\
                 hint: build with the feature `console`, which the program `postroom` has by default\n"
            );
        }
        let asked = tree.clone().try_get_matches_from(["postroom", "status"]).unwrap();
        assert!(refuse_of(&parts, &asked).is_ok());
        assert!(tree.try_get_matches_from(["postroom", "event", "console"]).is_err(), "no command of that name there");
    }
}
