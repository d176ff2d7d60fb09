//! The table of commands in `docs/commands.md` is made from the command tree. `cargo xtask docs` writes it anew.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::CommandFactory;

use crate::args::Cli;

const BEGIN: &str = "<!-- begin: made by `cargo xtask docs` -->\n";
const END: &str = "<!-- end -->";

fn rows(command: &clap::Command, path: &str, out: &mut String) {
    let path = format!("{path} {}", command.get_name()).trim().to_owned();
    // One with positionals does something by itself.
    if command.has_subcommands() && command.get_positionals().next().is_none() {
        return command.get_subcommands().for_each(|c| rows(c, &path, out));
    }
    let parent = path.clone();
    let words: Vec<String> = [path].into_iter().chain(command.get_positionals().map(ToString::to_string)).collect();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let codes: Vec<&str> = help
        .lines()
        .find_map(|line| line.strip_prefix("Exit codes: "))
        .unwrap_or_default()
        .split(" · ")
        .filter_map(|code| code.split(' ').next())
        .collect();
    let _ = writeln!(out, "| `{}` | {about} | {} |", words.join(" "), codes.join(" "));
    command.get_subcommands().for_each(|c| rows(c, &parent, out));
}

#[test]
fn the_page_of_the_commands_lists_every_command_as_it_is() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has a place for the commands");
    let (_, after) = rest.split_once(END).expect("that place ends");
    let mut table = "| command | summary | exit codes |\n| --- | --- | --- |\n".to_owned();
    rows(&Cli::command(), "", &mut table);
    let fresh = format!("{before}{BEGIN}\n{table}\n{END}{after}");
    if std::env::var_os("POSTROOM_WRITE_DOCS").is_some() {
        std::fs::write(&file, fresh).unwrap();
    } else {
        assert!(page == fresh, "docs/commands.md is stale; run `cargo xtask docs`");
    }
}
