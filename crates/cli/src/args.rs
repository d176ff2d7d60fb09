//! The command tree: names, options, help. What a command does is its file under [`crate::commands`].

use clap::{Parser, Subcommand};

use crate::commands::{
    audit, check, config, dashboards, dead, delivery, doctor, erase, event, explain, inbox, key, preset, prune, relay,
    replay, report, route, status, store, verify,
};
use crate::dev;
use crate::options::{Global, help};

/// Deliver every committed event from a database to brokers, webhooks and handlers, in order per key and at least once
#[derive(Debug, Parser)]
#[command(
    name = "postroom",
    version,
    propagate_version = false,
    arg_required_else_help = true,
    after_help = help!(plain: "postroom dev", "postroom status", "postroom event show 0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11")
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Commands of the program.
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
    Report(report::ReportArgs),
    #[command(subcommand)]
    Delivery(delivery::DeliveryCommand),
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
    Erase(erase::EraseArgs),
    #[cfg(feature = "adopted")]
    Adopt(crate::commands::adopt::AdoptArgs),
    #[cfg(feature = "contracts")]
    #[command(subcommand)]
    Schema(crate::commands::schema::SchemaCommand),
    Verify(verify::VerifyArgs),
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
    /// Print the version of the program, its commit, its features and the schema versions it supports
    #[command(after_help = help!(plain: "postroom version", "postroom version -o json"))]
    Version,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::output::Format;

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
             postroom event tail\npostroom event export\npostroom status\npostroom top\npostroom doctor\npostroom check\npostroom report\npostroom delivery ls\npostroom delivery groups\npostroom dead ls\npostroom dead groups\npostroom dead compare\npostroom dead show\npostroom dead replay\n\
             postroom dead discard\npostroom replay ls\npostroom replay show\npostroom replay pause\npostroom replay resume\n\
             postroom replay cancel\npostroom replay\npostroom route ls\npostroom route show\npostroom route pause\n\
             postroom route resume\npostroom route probe\npostroom route test\npostroom route rename\npostroom route forget\npostroom key ls\npostroom key unblock\n\
             postroom key skip-head\npostroom store migrate up\npostroom store migrate down\n\
             postroom store migrate status\npostroom store migrate plan\npostroom store roles\npostroom store stats\n\
             postroom store repair\npostroom store accept-identity\npostroom inbox ls\npostroom inbox show\npostroom inbox forget\n\
             postroom erase\npostroom adopt\npostroom schema ls\npostroom schema add\npostroom schema check\npostroom verify\npostroom audit\npostroom explain\n\
             postroom dashboards export\npostroom support bundle\n\
             postroom prune\npostroom webhook listen\npostroom webhook sign\npostroom webhook verify\n\
             postroom webhook key\npostroom token create\npostroom token ls\npostroom token rotate\npostroom token revoke\n\
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
