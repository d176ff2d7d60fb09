//! What commands share: global options, the options that several take, and the end of their help.

use std::path::PathBuf;

use clap::Args;

use crate::output::Format;
use crate::screen::Times;

/// The end of every `--help`: examples, then the exit codes the command can have.
macro_rules! help {
    ($exits:ident: $($example:literal),+ $(,)?) => {
        concat!("Examples:\n", $("  ", $example, "\n"),+, "\n", $crate::options::exits!($exits))
    };
}

/// Exit codes of a command, by the failures it can meet.
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
        "Exit codes: 0 done · 1 failed · 2 usage or configuration · 3 store not reachable · 4 refused, or the file exists · 5 interrupted, or some events were written without headers and payload"
    };
    (bundle) => {
        "Exit codes: 0 done · 1 failed · 2 usage or configuration · 4 the file exists · 5 written, but some parts are missing"
    };
    (adopt) => {
        "Exit codes: 0 done · 1 failed · 2 usage, configuration or bad input · 3 store not reachable · 4 refused · 7 the dry run failed"
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
        "Exit codes: 0 fine · 1 failed · 2 usage or configuration · 7 a check of --online failed"
    };
    (doctor) => {
        "Exit codes: 0 no errors, at most warnings · 1 failed · 2 usage or configuration · 7 errors were found"
    };
    (monitor) => {
        "Exit codes: 0 ok · 1 warning · 2 critical · 3 unknown (the convention of monitoring plug-ins)"
    };
    (schema) => {
        "Exit codes: 0 done · 1 failed · 2 usage, configuration or no schema · 4 the schema breaks consumers"
    };
    (compare) => {
        "Exit codes: 0 only optional fields were added · 1 failed · 2 usage or no schema · 7 NEW breaks consumers"
    };
    (probe) => {
        "Exit codes: 0 delivered · 1 refused by the destination, or no such route · 2 usage or configuration · 3 destination not reachable"
    };
    (verify) => {
        "Exit codes: 0 the signature is good · 1 failed · 2 usage or bad input · 7 the signature is not valid"
    };
    (listen) => {
        "Exit codes: 0 stopped, or --count requests were received · 1 the port is in use · 2 usage or bad input · 130/143 stopped by a second signal"
    };
    (run) => {
        "Exit codes: 0 stopped or drained · 1 failed · 2 usage or configuration · 3 no store reachable · 4 refused · 130/143 stopped by a second signal"
    };
}
pub(crate) use {exits, help};

/// Options every command takes, before or after its name.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Configuration file [default: $POSTROOM_CONFIG, ./postroom.toml, …]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Preset of a known system to load below the configuration file [default: $POSTROOM_PRESET]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// Output format
    #[arg(short = 'o', long = "output", global = true, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Format,
    /// Times in lists [default: age on a terminal, utc elsewhere]
    #[arg(long, global = true, value_enum, value_name = "TIMES")]
    pub(crate) time: Option<Times>,
    /// Answer yes to every question, except where a count above 1,000 must be confirmed
    #[arg(long, global = true)]
    pub(crate) yes: bool,
    /// Report what the command would do, and change nothing
    #[arg(long, global = true)]
    pub(crate) dry_run: bool,
    /// Print the causes of an error, too
    #[arg(short = 'v', long, global = true)]
    pub(crate) verbose: bool,
}

/// Store that a command works on.
#[derive(Debug, Clone, Args)]
pub(crate) struct StoreArg {
    /// Name of the store [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub(crate) store: Option<String>,
}

/// Reason for an operator action, recorded in the audit log.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Reason {
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}
