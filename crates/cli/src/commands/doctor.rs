//! `postroom doctor`: what is wrong, why, and what fixes it.

use std::collections::BTreeSet;

use postroom_core::{Diagnostic, Level};
use postroom_server::doctor;

use crate::app::{self, App};
use crate::commands::finding;
use crate::exit::{Exit, Outcome};
use crate::options::{StoreArg, help};
use crate::output::{Format, Table, count, print};

/// Diagnose stores, routes, relays and the configuration, and print fixes
#[derive(Debug, clap::Args)]
#[command(after_help = help!(doctor: "postroom doctor", "postroom doctor -v", "postroom doctor --store main -o json"))]
pub(crate) struct DoctorArgs {
    /// Only this store and its routes [default: all stores]
    #[arg(long, value_name = "NAME")]
    store: Option<String>,
}

pub(crate) async fn run(app: &App, args: &DoctorArgs) -> Outcome {
    let mut config = app.config_with_stores()?;
    if let Some(store) = &args.store {
        app::meant(&config, &StoreArg { store: Some(store.clone()) })?;
        config.stores.retain(|known| known.name == *store);
        config.routes.retain(|route| route.stores.contains(store));
    }
    let found = doctor::diagnose(&config).await;
    match app.global.output {
        Format::Table | Format::Wide => print(&render(&found, app.global.verbose))?,
        format => format.list(&found, || Table::new(&[], &[]))?,
    }
    let wrong = found.iter().any(|found| found.level == Level::Problem);
    Ok(if wrong { Exit::CheckFailed } else { Exit::Done })
}

/// Renders the diagnostics by subject; checks that passed are only counted, unless all are wanted.
fn render(found: &[Diagnostic], all: bool) -> String {
    let of = |found: &Diagnostic| finding::about(found).unwrap_or_else(|| "configuration".to_owned());
    let number = |level: Level| found.iter().filter(|found| found.level == level).count() as u64;
    let mut lines = Vec::new();
    let mut seen = BTreeSet::new();
    for about in found.iter().map(of).filter(|about| seen.insert(about.clone())) {
        let here: Vec<&Diagnostic> = found.iter().filter(|found| of(found) == about).collect();
        let fine = here.iter().filter(|found| found.level == Level::Fine).count();
        lines.push(about);
        for level in [Level::Problem, Level::Warning, Level::Fine] {
            let told = here.iter().filter(|found| found.level == level && (all || level != Level::Fine));
            lines.extend(told.map(|found| finding::told(found, "", "  ")));
        }
        if fine > 0 && !all {
            lines.push(format!("  ok       {}", count(fine as u64, "check")));
        }
    }
    let (problems, warnings) = (count(number(Level::Problem), "problem"), count(number(Level::Warning), "warning"));
    lines.push(format!("{problems}, {warnings}, {} ok", number(Level::Fine)));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_comes_first_and_what_is_fine_is_counted() {
        let found = [
            Diagnostic::fine("it answers").of_store("main"),
            Diagnostic::warning("doctor.long_writer", "session 7 is open")
                .fix("select pg_terminate_backend(7);")
                .of_store("main"),
            Diagnostic::problem("doctor.sequence_behind", "behind").hint("stop appending").fix("a\nb").of_store("main"),
            Diagnostic::fine("no mistakes"),
        ];
        let expected = "store main\n\
            \x20 problem  doctor.sequence_behind: behind\n\
            \x20          hint: stop appending\n\
            \x20          fix: a\n\
            \x20               b\n\
            \x20 warning  doctor.long_writer: session 7 is open\n\
            \x20          fix: select pg_terminate_backend(7);\n\
            \x20 ok       1 check\n\
            configuration\n\
            \x20 ok       1 check\n\
            1 problem, 1 warning, 2 ok";
        assert_eq!(render(&found, false), expected);
        assert!(render(&found, true).contains("\n  ok       it answers\n"));
    }
}
