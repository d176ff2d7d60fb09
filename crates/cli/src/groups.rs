//! The commands in groups, as `postroom --help` lists them.

use std::fmt::Write as _;

use clap::Command;
use clap::builder::styling::Styles;

/// Commands by what a reader is looking for. Those that a build lacks are left out.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start", &["dev", "relay", "event"]),
    ("Look", &["status", "top", "delivery", "report", "doctor", "check", "verify", "audit", "explain"]),
    ("Act", &["dead", "replay", "route", "key", "inbox", "erase", "prune"]),
    ("Set up", &["config", "store", "preset", "adopt", "schema", "token", "webhook", "dashboards"]),
    ("More", &["support", "completions", "man", "version", "help"]),
];

/// Widest line of the help where the terminal is wider.
const WIDTH_MAX: usize = 100;

/// Makes the help of the program list its commands in groups.
pub(crate) fn in_help(tree: Command) -> Command {
    let width = terminal_size::terminal_size().map_or(WIDTH_MAX, |(width, _)| usize::from(width.0).min(WIDTH_MAX));
    in_groups(tree, width)
}

fn in_groups(tree: Command, width: usize) -> Command {
    let template = template(&tree, width);
    tree.help_template(template)
}

fn template(tree: &Command, width: usize) -> String {
    let styles = Styles::styled();
    let (head, name) = (styles.get_header(), styles.get_literal());
    let longest = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or(0);
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (group, names) in GROUPS {
        let _ = write!(text, "\n{head}{group}:{head:#}");
        for command in *names {
            let Some(about) = about(tree, command) else { continue };
            let indent = longest + 4;
            let about = wrapped(&about, width.saturating_sub(indent), indent);
            let _ = write!(text, "\n  {name}{command:longest$}{name:#}  {about}");
        }
        text.push('\n');
    }
    let _ = write!(text, "\n{head}Global options:{head:#}\n{{options}}{{after-help}}");
    text
}

/// Returns the purpose of a command of this build.
fn about(tree: &Command, name: &str) -> Option<String> {
    if name == "help" {
        return Some("Print this list, or the help of a command".to_owned());
    }
    let command = tree.find_subcommand(name).filter(|command| !command.is_hide_set())?;
    command.get_about().map(ToString::to_string)
}

/// Breaks a text into lines of this width; the second and later ones are indented.
fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let (mut out, mut room) = (String::new(), width);
    for word in text.split(' ') {
        let needs = word.chars().count() + usize::from(!out.is_empty());
        if needs > room && !out.is_empty() {
            let _ = write!(out, "\n{:indent$}{word}", "");
            room = width.saturating_sub(word.chars().count());
        } else {
            out.push_str(if out.is_empty() { "" } else { " " });
            out.push_str(word);
            room = room.saturating_sub(needs);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn every_command_stands_in_exactly_one_group() {
        let mut tree = Cli::command();
        tree.build();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for command in tree.get_subcommands().map(Command::get_name) {
            let groups = grouped.iter().filter(|name| **name == command).count();
            assert_eq!(groups, 1, "`{command}` stands in {groups} groups of {GROUPS:?}");
        }
        for name in grouped {
            assert!(tree.find_subcommand(name).is_some(), "{name} is no command");
        }
    }

    #[test]
    fn the_help_fits_its_width_and_a_command_that_is_hidden_is_not_listed() {
        for width in [60, 80, 100] {
            let help = in_groups(Cli::command(), width).render_long_help().to_string();
            let commands =
                help.lines().skip_while(|line| *line != "Start:").take_while(|line| *line != "Global options:");
            for line in commands {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
        let tree = Cli::command().mut_subcommand("top", |command| command.hide(true));
        assert!(!template(&tree, 100).contains("full-screen"));
    }

    #[test]
    fn a_long_line_is_broken_between_words() {
        assert_eq!(wrapped("one two three", 7, 2), "one two\n  three");
        assert_eq!(wrapped("one", 1, 2), "one");
    }
}
