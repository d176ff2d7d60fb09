//! `postroom explain CODE`: what a code means, and what to do.

use postroom_core::codes::{Code, plain};
use postroom_server::codes;
use serde_json::json;

use crate::app::App;
use crate::exit::{Exit, Outcome};
use crate::options::help;
use crate::output::Table;
use crate::suggest;

/// Explain what a code means and what to do about it
#[derive(Debug, clap::Args)]
#[command(after_help = help!(plain:
    "postroom explain kafka.timeout",
    "postroom explain",
))]
pub(crate) struct ExplainArgs {
    /// Code as it is printed; without a code, all codes are listed
    code: Option<String>,
}

pub(crate) fn run(app: &App, args: &ExplainArgs) -> Outcome {
    let Some(code) = &args.code else {
        return list(app);
    };
    let Some(known) = codes::find(code) else {
        let known: Vec<String> = codes::all().map(|known| known.code.to_owned()).collect();
        let otherwise = "`postroom explain` lists all codes; those of your own handlers are yours to explain";
        return Err(suggest::unknown("code", code, &known, otherwise));
    };
    let Code { kind, cause, next, .. } = known;
    let answer = json!({ "code": code, "kind": kind, "cause": plain(cause), "next": plain(next) });
    app.global
        .output
        .one(&answer, || format!("{code} ({kind})\n  cause: {}\n  next:  {}", plain(cause), plain(next)))?;
    Ok(Exit::Done)
}

fn list(app: &App) -> Outcome {
    let rows: Vec<_> = codes::all().map(|known| json!({ "code": known.code, "cause": plain(known.cause) })).collect();
    app.global.output.list(&rows, || {
        let mut table = Table::new(&["code", "cause"], &[]);
        codes::all().for_each(|known| table.row([known.code.to_owned(), plain(known.cause)]));
        table
    })?;
    Ok(Exit::Done)
}
