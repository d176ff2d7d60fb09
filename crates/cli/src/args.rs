//! The command tree: names, options, help. What a command does is its file under [`crate::commands`].

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    audit, check, config, dashboards, dead, doctor, event, explain, inbox, key, preset, prune, relay, replay, route,
    status, store,
};
use crate::dev;
use crate::output::Format;

/// The end of every `--help`: examples, then the exit codes the command can have.
macro_rules! help {
    ($exits:ident: $($example:literal),+ $(,)?) => {
        concat!("Examples:\n", $("  ", $example, "\n"),+, "\n", $crate::args::exits!($exits))
    };
}

/// The exit codes, by what a command can meet.
macro_rules! exits {
    (plain) => {
        "Exit codes: 0 done · 1 failed · 2 usage or configuration"
    };
    (store) => {
        "Exit codes: 0 done · 1 failed · 2 usage, configuration or bad input · 3 store not reachable · 4 refused"
    };
    (append) => {
        "Exit codes: 0 done · 1 failed · 2 usage, configuration or bad input · 3 store not reachable · 4 refused · 5 appended, but the ids could not be printed"
    };
    (export) => {
        "Exit codes: 0 done · 1 failed · 2 usage or configuration · 3 store not reachable · 4 refused, or the file is there · 5 some events without headers and payload"
    };
    (bundle) => {
        "Exit codes: 0 done · 1 failed · 2 usage or configuration · 4 the file is there · 5 written, but not everything answered"
    };
    (ask) => {
        "Exit codes: 0 done · 1 failed · 2 usage or configuration · 3 store not reachable · 4 refused or not confirmed"
    };
    (replay) => {
        "Exit codes: 0 done · 1 failed · 2 usage or configuration · 3 store not reachable · 4 refused or not confirmed · 5 paused or cancelled before its end"
    };
    (check) => {
        "Exit codes: 0 nothing lost · 1 failed · 2 usage or configuration · 3 store not reachable · 4 refused · 5 some stores not reachable · 7 the counts differ"
    };
    (online) => {
        "Exit codes: 0 fine · 1 failed · 2 usage or configuration · 7 something asked with --online would not work"
    };
    (doctor) => {
        "Exit codes: 0 nothing is wrong, or only warnings · 1 failed · 2 usage or configuration · 7 something is wrong"
    };
    (monitor) => {
        "Exit codes: 0 ok · 1 warning · 2 critical · 3 unknown, as monitoring plug-ins have it"
    };
    (schema) => {
        "Exit codes: 0 done · 1 failed · 2 usage, configuration or no schema · 4 it breaks consumers"
    };
    (compare) => {
        "Exit codes: 0 only optional fields were added · 1 failed · 2 usage or no schema · 7 it breaks consumers"
    };
    (probe) => {
        "Exit codes: 0 delivered · 1 refused by the destination, or no such route · 2 usage or configuration · 3 destination not reachable"
    };
    (verify) => {
        "Exit codes: 0 the signature is good · 1 failed · 2 usage or bad input · 7 not to be trusted"
    };
    (listen) => {
        "Exit codes: 0 stopped, or so many requests came · 1 the port is taken · 2 usage or bad input · 130/143 stopped by a second signal"
    };
    (run) => {
        "Exit codes: 0 stopped or drained · 1 failed · 2 usage or configuration · 3 no store reachable · 4 refused · 130/143 stopped by a second signal"
    };
}
pub(crate) use {exits, help};

/// Gets every committed event out of a database and to whoever must know, in order, without losing one.
#[derive(Debug, Parser)]
#[command(
    name = "postroom",
    version,
    propagate_version = false,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = help!(plain: "postroom dev", "postroom status", "postroom event show 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11")
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options every command takes, before or after its name.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Configuration file [default: $POSTROOM_CONFIG, ./postroom.toml, …]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A system to take over as it is, under the configuration [default: $POSTROOM_PRESET]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// How data is written
    #[arg(short = 'o', long = "output", global = true, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Format,
    /// Do not ask; the answer is yes
    #[arg(long, global = true)]
    pub(crate) yes: bool,
    /// Say what would be done, and change nothing
    #[arg(long, global = true)]
    pub(crate) dry_run: bool,
    /// Say more: the causes of an error
    #[arg(short = 'v', long, global = true)]
    pub(crate) verbose: bool,
}

/// Which store a command works on.
#[derive(Debug, Clone, Args)]
pub(crate) struct StoreArg {
    /// Name of the store [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub(crate) store: Option<String>,
}

/// Why an operator does it; kept in the audit.
#[derive(Debug, Clone, Args)]
pub(crate) struct Reason {
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Dev(dev::DevArgs),
    #[command(subcommand)]
    Relay(relay::RelayCommand),
    #[command(subcommand)]
    Event(event::EventCommand),
    Status(status::StatusArgs),
    #[cfg(feature = "top")]
    Top(crate::commands::top::TopArgs),
    Doctor(doctor::DoctorArgs),
    Check(check::CheckArgs),
    #[command(subcommand)]
    Dead(dead::DeadCommand),
    Replay(Box<replay::ReplayArgs>),
    #[command(subcommand)]
    Route(route::RouteCommand),
    #[command(subcommand)]
    Key(key::KeyCommand),
    #[command(subcommand)]
    Store(store::StoreCommand),
    #[command(subcommand)]
    Inbox(inbox::InboxCommand),
    #[cfg(feature = "adopted")]
    Adopt(crate::commands::adopt::AdoptArgs),
    #[cfg(feature = "contracts")]
    #[command(subcommand)]
    Schema(crate::commands::schema::SchemaCommand),
    Audit(audit::AuditArgs),
    Explain(explain::ExplainArgs),
    #[command(subcommand)]
    Dashboards(dashboards::DashboardsCommand),
    #[cfg(feature = "support")]
    #[command(subcommand)]
    Support(crate::commands::support::SupportCommand),
    Prune(prune::PruneArgs),
    #[cfg(feature = "webhook")]
    #[command(subcommand)]
    Webhook(crate::commands::webhook::WebhookCommand),
    #[cfg(feature = "http")]
    #[command(subcommand)]
    Token(crate::commands::token::TokenCommand),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    #[command(subcommand)]
    Preset(preset::PresetCommand),
    #[cfg(feature = "manual")]
    Completions(crate::commands::completions::CompletionsArgs),
    #[cfg(feature = "manual")]
    Man(crate::commands::man::ManArgs),
    /// Say which version this is
    #[command(after_help = help!(plain: "postroom version", "postroom version -o json"))]
    Version,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn walk(command: &clap::Command, path: &str, leaves: &mut Vec<String>) {
        let path = format!("{path} {}", command.get_name()).trim().to_owned();
        command.get_subcommands().for_each(|c| walk(c, &path, leaves));
        // One with positionals does something by itself.
        if command.has_subcommands() && command.get_positionals().next().is_none() {
            return;
        }
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples = help.lines().filter(|l| l.trim_start().contains(&path)).count();
        assert!((1..=3).contains(&examples), "{path} has {examples} examples in its help");
        assert!(help.contains("Exit codes: 0 "), "{path} does not say its exit codes");
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(!about.is_empty() && about.lines().count() == 1, "{path} has no one-line purpose");
        leaves.push(path);
    }

    #[test]
    fn every_command_says_what_it_is_for_with_examples_and_exit_codes() {
        let mut leaves = Vec::new();
        walk(&Cli::command(), "", &mut leaves);
        assert_eq!(
            leaves.join("\n"),
            "postroom dev\npostroom relay run\npostroom event append\npostroom event ls\npostroom event show\n\
             postroom event tail\npostroom event export\npostroom status\npostroom top\npostroom doctor\npostroom check\npostroom dead ls\npostroom dead groups\npostroom dead show\npostroom dead replay\n\
             postroom dead discard\npostroom replay ls\npostroom replay show\npostroom replay pause\npostroom replay resume\n\
             postroom replay cancel\npostroom replay\npostroom route ls\npostroom route show\npostroom route pause\n\
             postroom route resume\npostroom route test\npostroom route forget\npostroom key ls\npostroom key unblock\n\
             postroom key skip-head\npostroom store migrate up\npostroom store migrate down\n\
             postroom store migrate status\npostroom store migrate plan\npostroom store roles\npostroom store stats\n\
             postroom store repair\npostroom store accept-identity\npostroom inbox ls\npostroom inbox show\npostroom inbox forget\n\
             postroom adopt\npostroom schema ls\npostroom schema add\npostroom schema check\npostroom audit\npostroom explain\n\
             postroom dashboards export\npostroom support bundle\n\
             postroom prune\npostroom webhook listen\npostroom webhook sign\npostroom webhook verify\n\
             postroom webhook key\npostroom token create\npostroom token ls\npostroom token revoke\n\
             postroom config init\npostroom config check\npostroom config show\n\
             postroom config schema\n\
             postroom preset ls\npostroom preset show\n\
             postroom completions\npostroom man\npostroom version"
        );
    }

    #[test]
    fn every_example_in_the_help_is_a_command_that_parses() {
        fn each(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines().filter(|l| l.starts_with("  ")) {
                let start = line.find("postroom ").expect("an example runs postroom");
                let words = words(line[start..].split(" | ").next().unwrap());
                let words = words.iter().take_while(|w| !matches!(w.as_str(), "<" | ">" | ">>"));
                Cli::try_parse_from(words).unwrap_or_else(|e| panic!("{line}: {e}"));
            }
            command.get_subcommands().for_each(each);
        }
        each(&Cli::command());
    }

    #[test]
    fn every_command_that_an_alert_names_is_one() {
        for alert in postroom_server::dashboards::ALERTS {
            for command in alert.commands.iter().filter(|command| command.starts_with("postroom ")) {
                let command = command.replace("{{ $labels.route }}", "orders");
                Cli::try_parse_from(words(&command)).unwrap_or_else(|e| panic!("{}: {command}: {e}", alert.name));
            }
        }
    }

    /// Splits as a shell does, as far as the examples need it.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
        for c in line.chars() {
            match c {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(std::mem::take(&mut word)),
                c => word.push(c),
            }
        }
        words.push(word);
        words
    }

    #[test]
    fn global_options_stand_before_or_after_the_command() {
        for line in ["postroom -o json --yes status", "postroom status --yes -o json"] {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            assert!(cli.global.yes && cli.global.output == Format::Json, "{line}");
        }
    }
}
