//! `postroom completions`: the shell's help in finding words.

use std::io;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::{Cli, help};
use crate::exit::{Exit, Outcome};
use crate::output::print;

/// Print the completion script of a shell
#[derive(Debug, clap::Args)]
#[command(after_help = help!(plain:
    "postroom completions bash > /etc/bash_completion.d/postroom",
    "postroom completions zsh > ~/.zfunc/_postroom",
))]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "postroom", &mut script);
    print(String::from_utf8(script).map_err(io::Error::other)?.trim_end())?;
    Ok(Exit::Done)
}
