//! `postroom key`: keys that wait behind an event that does not get through.

use postroom_core::Desk;
use postroom_core::view::BlockedKey;
use serde_json::json;

use crate::actor::actor;
use crate::app::App;
use crate::args::{Reason, StoreArg, help};
use crate::confirm::confirm;
use crate::exit::{Exit, Failed, Outcome};
use crate::output::{Table, count, dash, note, plain};
use crate::{suggest, when};

/// Most blocked keys looked through to find one.
const KEYS_MAX: usize = 10_000;

/// Look at blocked keys and let them go on
#[derive(Debug, clap::Subcommand)]
pub(crate) enum KeyCommand {
    /// List keys with events waiting behind an earlier one
    #[command(after_help = help!(store: "postroom key ls --blocked", "postroom key ls --blocked --route mailer -o json"))]
    Ls {
        /// Keys that wait; the only list there is
        #[arg(long)]
        blocked: bool,
        /// Route
        #[arg(long, value_name = "ROUTE")]
        route: Option<String>,
        /// Most keys
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        store: StoreArg,
    },
    /// Let a key go on while its head keeps its own retries; order is lost for the head
    #[command(after_help = help!(store: "postroom key unblock order-7 --route mailer"))]
    Unblock(KeyArgs),
    /// Give the head of a key up as a dead letter and let the key go on
    #[command(after_help = help!(ask:
        "postroom key skip-head order-7 --route mailer --dry-run",
        "postroom key skip-head order-7 --reason 'address is gone' --yes",
    ))]
    SkipHead(KeyArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct KeyArgs {
    /// The key
    #[arg(value_name = "KEY")]
    key: String,
    /// Route [default: the only one where the key waits]
    #[arg(long, value_name = "ROUTE")]
    route: Option<String>,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    store: StoreArg,
}

pub(crate) async fn run(app: &App, command: KeyCommand) -> Outcome {
    match command {
        KeyCommand::Ls { blocked: _, route, limit, store } => {
            let config = app.config()?;
            let opened = app.open(&config, &store).await?;
            opened.check_route(route.as_deref()).await?;
            let rows = opened.desk().blocked_keys(route.as_deref(), None, limit).await?;
            app.global.output.list(&rows, || table(&rows))?;
            Ok(Exit::Done)
        }
        KeyCommand::Unblock(args) => unblock(app, &args).await,
        KeyCommand::SkipHead(args) => skip_head(app, &args).await,
    }
}

fn table(rows: &[BlockedKey]) -> Table {
    let columns = ["route", "key", "waiting", "since", "head", "state", "attempts", "next", "code", "error"];
    let mut table = Table::new(&columns, &[2, 6]);
    for row in rows {
        table.row([
            row.route.clone(),
            row.key.clone(),
            row.waiting.to_string(),
            when::seconds(row.since),
            row.head_id.clone(),
            row.head_state.as_str().to_owned(),
            row.attempts.to_string(),
            dash(row.due_at.map(when::seconds).as_ref()),
            dash(row.code.as_ref()),
            dash(row.error.as_ref()),
        ]);
    }
    table
}

async fn unblock(app: &App, args: &KeyArgs) -> Outcome {
    let config = app.config()?;
    let opened = app.open(&config, &args.store).await?;
    opened.check_route(args.route.as_deref()).await?;
    let desk = opened.desk();
    let blocked = find(&*desk, args).await?;
    let (route, key) = (&blocked.route, &blocked.key);
    if app.global.dry_run {
        note(&format!("would let {} of key {key} on route {route} go on", count(blocked.waiting, "event")))?;
        return Ok(Exit::Done);
    }
    let waiting = desk.unblock(route, key, &actor(&args.reason)).await?;
    let answer = json!({ "route": route, "key": key, "unblocked": waiting });
    app.global.output.one(&answer, || format!("{} of key {key} on route {route} go on", count(waiting, "event")))?;
    Ok(Exit::Done)
}

async fn skip_head(app: &App, args: &KeyArgs) -> Outcome {
    let config = app.config()?;
    let opened = app.open(&config, &args.store).await?;
    opened.check_route(args.route.as_deref()).await?;
    let desk = opened.desk();
    let blocked = find(&*desk, args).await?;
    let (route, key, head) = (&blocked.route, &blocked.key, &blocked.head_id);
    let why = blocked.error.as_deref().map(|e| format!(", last error: {}", plain(e, 200))).unwrap_or_default();
    let what = format!(
        "event {head} ({}, {}{why}) of key {key} on route {route}; {} behind it",
        blocked.head_state.as_str(),
        count(u64::from(blocked.attempts), "attempt"),
        count(blocked.waiting, "event"),
    );
    let answer = json!({ "route": route, "key": key, "skipped": head, "waiting": blocked.waiting });
    if app.global.dry_run {
        app.global.output.one(&answer, || format!("would give up {what}"))?;
        return Ok(Exit::Done);
    }
    note(&format!("this will give up {what}"))?;
    confirm(&app.global, &format!("Give up the head of key {key}?"))?;
    let skipped = desk.skip_head(route, key, &actor(&args.reason)).await?;
    let answer = json!({ "route": route, "key": key, "skipped": skipped, "waiting": blocked.waiting });
    app.global.output.one(&answer, || format!("gave up event {skipped}; key {key} goes on"))?;
    Ok(Exit::Done)
}

/// The key where it waits; on one route only, or the error says on which.
async fn find(desk: &dyn Desk, args: &KeyArgs) -> Result<BlockedKey, Failed> {
    let all = desk.blocked_keys(args.route.as_deref(), None, KEYS_MAX).await?;
    let known: Vec<String> = all.iter().map(|row| row.key.clone()).collect();
    let mut fits = all.into_iter().filter(|row| row.key == args.key);
    let Some(first) = fits.next() else {
        return Err(suggest::unknown("blocked key", &args.key, &known, "list them: `postroom key ls --blocked`"));
    };
    let others: Vec<String> = fits.map(|row| row.route).collect();
    if others.is_empty() {
        return Ok(first);
    }
    let message = format!("key {:?} waits on several routes: {}, {}", args.key, first.route, others.join(", "));
    Err(Failed::new(Exit::Usage, message, "say which one with --route"))
}
