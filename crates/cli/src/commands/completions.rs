//! `postroom completions`: prints completion scripts for shells.

use std::io;

use clap_complete::Shell;

use crate::exit::{Exit, Outcome};
use crate::options::help;
use crate::output::print;

/// Print the completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = help!(plain:
    "postroom completions bash > /etc/bash_completion.d/postroom",
    "postroom completions zsh > ~/.zfunc/_postroom",
))]
pub(crate) struct CompletionsArgs {
    /// Shell to complete for
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(mut tree: clap::Command, args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut tree, "postroom", &mut script);
    print(String::from_utf8(script).map_err(io::Error::other)?.trim_end())?;
    Ok(Exit::Done)
}
