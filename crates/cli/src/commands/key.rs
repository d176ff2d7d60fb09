//! `postroom key`: keys that wait behind an event that does not get through.

use postroom_admin::Admin;
use postroom_admin::view::BlockedKey;
use serde_json::json;

use crate::actor::actor;
use crate::app::App;
use crate::confirm::confirm;
use crate::exit::{Exit, Failed, Outcome};
use crate::options::{Reason, StoreArg, help};
use crate::output::Narrower::{Drop, Shorten, ShortenId};
use crate::output::{Table, count, dash, note, plain};
use crate::{suggest, when};

/// Largest number of blocked keys searched for a key.
const KEYS_MAX: usize = 10_000;

/// List blocked keys and unblock them
#[derive(Debug, clap::Subcommand)]
pub(crate) enum KeyCommand {
    /// List blocked keys: keys whose events wait behind an earlier event
    #[command(after_help = help!(store: "postroom key ls --blocked", "postroom key ls --blocked --route mailer -o json"))]
    Ls {
        /// List blocked keys; this is the only list
        #[arg(long)]
        blocked: bool,
        /// Only keys of this route
        #[arg(long, value_name = "ROUTE")]
        route: Option<String>,
        /// Maximum number of keys
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        store: StoreArg,
    },
    /// Let the later events of a key overtake its head, which keeps its own retries; the head loses its order
    #[command(after_help = help!(store: "postroom key unblock order-7 --route mailer"))]
    Unblock(KeyArgs),
    /// Turn the head of a key into a dead letter, and deliver the later events of the key
    #[command(after_help = help!(ask:
        "postroom key skip-head order-7 --route mailer --dry-run",
        "postroom key skip-head order-7 --reason 'address is gone' --yes",
    ))]
    SkipHead(KeyArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct KeyArgs {
    /// Ordering key
    #[arg(value_name = "KEY")]
    key: String,
    /// Route [default: the only route where the key is blocked]
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
            let rows = opened.admin().blocked_keys(route.as_deref(), None, limit).await?;
            app.global.output.list(&rows, || table(&rows))?;
            Ok(Exit::Done)
        }
        KeyCommand::Unblock(args) => unblock(app, &args).await,
        KeyCommand::SkipHead(args) => skip_head(app, &args).await,
    }
}

fn table(rows: &[BlockedKey]) -> Table {
    let columns = ["route", "key", "waiting", "since", "head", "state", "attempts", "next", "code", "error"];
    let mut table = Table::new(&columns, &[2, 6]).narrower(&[
        Shorten("error"),
        Drop("attempts"),
        ShortenId("head"),
        Drop("since"),
        Drop("next"),
        Shorten("key"),
        Drop("head"),
        Shorten("route"),
        Drop("error"),
        Drop("code"),
    ]);
    for row in rows {
        table.row([
            row.route.clone(),
            row.key.clone(),
            row.waiting.to_string(),
            when::listed(row.since),
            row.head_id.clone(),
            row.head_state.as_str().to_owned(),
            row.attempts.to_string(),
            dash(row.due_at.map(when::listed).as_ref()),
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
    let admin = opened.admin();
    let blocked = find(&*admin, args).await?;
    let (route, key) = (&blocked.route, &blocked.key);
    if app.global.dry_run {
        note(&format!(
            "would unblock key {key} on route {route}: {} would be released",
            count(blocked.waiting, "event")
        ))?;
        return Ok(Exit::Done);
    }
    let waiting = admin.unblock(route, key, &actor(&args.reason)).await?;
    let answer = json!({ "route": route, "key": key, "unblocked": waiting });
    app.global
        .output
        .one(&answer, || format!("unblocked key {key} on route {route}: {} released", count(waiting, "event")))?;
    Ok(Exit::Done)
}

async fn skip_head(app: &App, args: &KeyArgs) -> Outcome {
    let config = app.config()?;
    let opened = app.open(&config, &args.store).await?;
    opened.check_route(args.route.as_deref()).await?;
    let admin = opened.admin();
    let blocked = find(&*admin, args).await?;
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
    let skipped = admin.skip_head(route, key, &actor(&args.reason)).await?;
    let answer = json!({ "route": route, "key": key, "skipped": skipped, "waiting": blocked.waiting });
    app.global.output.one(&answer, || {
        format!("gave up event {skipped}, now a dead letter; later events of key {key} are delivered")
    })?;
    Ok(Exit::Done)
}

/// Finds the route on which the key is blocked; if there are several, the error names them.
async fn find(admin: &dyn Admin, args: &KeyArgs) -> Result<BlockedKey, Failed> {
    let all = admin.blocked_keys(args.route.as_deref(), None, KEYS_MAX).await?;
    let known: Vec<String> = all.iter().map(|row| row.key.clone()).collect();
    let mut fits = all.into_iter().filter(|row| row.key == args.key);
    let Some(first) = fits.next() else {
        return Err(suggest::unknown("blocked key", &args.key, &known, "list them: `postroom key ls --blocked`"));
    };
    let others: Vec<String> = fits.map(|row| row.route).collect();
    if others.is_empty() {
        return Ok(first);
    }
    let message = format!("key {:?} is blocked on several routes: {}, {}", args.key, first.route, others.join(", "));
    Err(Failed::new(Exit::Usage, message, "choose one with --route"))
}

#[cfg(test)]
mod tests {
    use postroom_core::DeliveryState;

    use super::*;

    #[test]
    fn blocked_keys_fit_every_terminal() {
        let at = "2026-11-15T09:30:00Z".parse().unwrap();
        let row = BlockedKey {
            store: "main".into(),
            route: "order-confirmations".into(),
            key: "customer-4711-order-17".into(),
            head_id: "0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11".into(),
            head_position: 120_417,
            head_state: DeliveryState::Retrying,
            attempts: 3,
            code: Some("exec.error".into()),
            error: Some("smtp 451: greylisted, try again later".into()),
            due_at: Some(at),
            waiting: 12,
            since: at,
        };
        insta::assert_snapshot!(Table::at_widths(|| table(std::slice::from_ref(&row))));
    }
}
