//! `postroom doctor`: what is wrong, why, and what mends it.

use std::collections::BTreeSet;

use postroom_core::view::{Found, Level};
use postroom_server::doctor;

use crate::app::{self, App};
use crate::args::{StoreArg, help};
use crate::commands::finding;
use crate::exit::{Exit, Outcome};
use crate::output::{Format, Table, count, print};

/// Say what is wrong with stores, routes, relays and configuration, and what mends it
#[derive(Debug, clap::Args)]
#[command(after_help = help!(doctor: "postroom doctor", "postroom doctor -v", "postroom doctor --store main -o json"))]
pub(crate) struct DoctorArgs {
    /// Only this store and the routes it has [default: every one]
    #[arg(long, value_name = "NAME")]
    store: Option<String>,
}

pub(crate) async fn run(app: &App, args: &DoctorArgs) -> Outcome {
    let mut config = app.config()?;
    if let Some(store) = &args.store {
        app::meant(&config, &StoreArg { store: Some(store.clone()) })?;
        config.stores.retain(|known| known.name == *store);
        config.routes.retain(|route| route.stores.contains(store));
    }
    let found = doctor::examine(&config).await;
    match app.global.output {
        Format::Table => print(&render(&found, app.global.verbose))?,
        format => format.list(&found, || Table::new(&[], &[]))?,
    }
    let wrong = found.iter().any(|found| found.level == Level::Problem);
    Ok(if wrong { Exit::CheckFailed } else { Exit::Done })
}

/// What is wrong, by what it is about; what is fine is only counted unless somebody wants it all.
fn render(found: &[Found], all: bool) -> String {
    let of = |found: &Found| finding::about(found).unwrap_or_else(|| "configuration".to_owned());
    let number = |level: Level| found.iter().filter(|found| found.level == level).count() as u64;
    let mut lines = Vec::new();
    let mut seen = BTreeSet::new();
    for about in found.iter().map(of).filter(|about| seen.insert(about.clone())) {
        let here: Vec<&Found> = found.iter().filter(|found| of(found) == about).collect();
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
            Found::fine("it answers").of_store("main"),
            Found::warning("doctor.long_writer", "session 7 is open")
                .mend("select pg_terminate_backend(7);")
                .of_store("main"),
            Found::problem("doctor.sequence_behind", "behind").hint("stop appending").mend("a\nb").of_store("main"),
            Found::fine("no mistakes"),
        ];
        let expected = "store main\n\
            \x20 problem  doctor.sequence_behind: behind\n\
            \x20          hint: stop appending\n\
            \x20          mend: a\n\
            \x20                b\n\
            \x20 warning  doctor.long_writer: session 7 is open\n\
            \x20          mend: select pg_terminate_backend(7);\n\
            \x20 ok       1 check\n\
            configuration\n\
            \x20 ok       1 check\n\
            1 problem, 1 warning, 2 ok";
        assert_eq!(render(&found, false), expected);
        assert!(render(&found, true).contains("\n  ok       it answers\n"));
    }
}
