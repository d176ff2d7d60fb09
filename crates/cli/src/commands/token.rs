//! `postroom token`: who may ask a relay over HTTP.

use std::time::Duration;

use postroom_core::units::parse_duration;
use postroom_core::{NewToken, Role, Timestamp, TokenRow, valid_name};
use postroom_server::token;
use serde_json::json;

use crate::actor::actor;
use crate::app::App;
use crate::args::{Reason, StoreArg, help};
use crate::exit::{Exit, Failed, Outcome};
use crate::output::{Table, note};
use crate::{suggest, when};

/// Make, list and revoke the tokens that open the HTTP API
#[derive(Debug, clap::Subcommand)]
pub(crate) enum TokenCommand {
    Create(CreateArgs),
    /// List tokens; never the tokens themselves
    #[command(after_help = help!(store: "postroom token ls", "postroom token ls -o json"))]
    Ls {
        #[command(flatten)]
        store: StoreArg,
    },
    /// End a token, at once
    #[command(after_help = help!(store: "postroom token revoke grafana --reason 'laptop lost'"))]
    Revoke {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        reason: Reason,
        #[command(flatten)]
        store: StoreArg,
    },
}

/// Make a token and print it: now, and never again
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store:
    "postroom token create grafana",
    "postroom token create ann --role admin --expires 30d",
    "postroom token create worker --role operator -o json",
))]
pub(crate) struct CreateArgs {
    /// Its name; the audit calls whoever has it so
    #[arg(value_name = "NAME")]
    name: String,
    /// What it allows: viewer looks at all but payloads, operator acts, admin also forgets and makes tokens
    #[arg(long, value_name = "ROLE", default_value = "viewer", value_parser = role)]
    role: Role,
    /// When it ends, from now [default: never]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    expires: Option<Duration>,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    store: StoreArg,
}

pub(crate) async fn run(app: &App, command: TokenCommand) -> Outcome {
    match command {
        TokenCommand::Create(args) => create(app, &args).await,
        TokenCommand::Ls { store } => {
            let config = app.config()?;
            let rows = app.open(&config, &store).await?.desk().tokens().await?;
            app.global.output.list(&rows, || table(&rows))?;
            Ok(Exit::Done)
        }
        TokenCommand::Revoke { name, reason, store } => revoke(app, &name, &reason, &store).await,
    }
}

async fn create(app: &App, args: &CreateArgs) -> Outcome {
    if !valid_name(&args.name) {
        let message = format!("{:?} cannot be the name of a token", args.name);
        let hint = "use lower-case letters, digits, `-`, `_` and `.`, at most 63, not beginning with a sign";
        return Err(Failed::new(Exit::Usage, message, hint));
    }
    let Ok(expires_at) = args.expires.map(|after| Timestamp::now().checked_add(after)).transpose() else {
        let hint = "leave it out for a token that never ends";
        return Err(Failed::new(Exit::Usage, "--expires is further away than any calendar goes", hint));
    };
    let config = app.config()?;
    let desk = app.open(&config, &args.store).await?.desk();
    if app.global.dry_run {
        note(&format!("would make token {} with the role {}; nothing was changed", args.name, args.role.as_str()))?;
        return Ok(Exit::Done);
    }
    let token = token::fresh().map_err(|error| {
        Failed::new(Exit::Failed, format!("the system gave no random bytes: {error}"), "look at the machine")
    })?;
    let new = NewToken { name: args.name.clone(), role: args.role, expires_at, hash: token::hash(&token) };
    let row = desk.add_token(&new, &actor(&args.reason)).await?;
    let mut answer = json!(row);
    answer["token"] = json!(token);
    app.global.output.one(&answer, || token.clone())?;
    if app.is_table() {
        let ends =
            row.expires_at.map_or_else(|| "it never ends".to_owned(), |end| format!("it ends {}", when::seconds(end)));
        note(&format!("token {} has the role {}, {ends}; it is shown this once", row.name, row.role.as_str()))?;
    }
    Ok(Exit::Done)
}

async fn revoke(app: &App, name: &str, reason: &Reason, store: &StoreArg) -> Outcome {
    let config = app.config()?;
    let desk = app.open(&config, store).await?.desk();
    let known: Vec<String> = desk.tokens().await?.into_iter().map(|token| token.name).collect();
    if !known.iter().any(|known| known == name) {
        return Err(suggest::unknown("token", name, &known, "list them: `postroom token ls`"));
    }
    if app.global.dry_run {
        note(&format!("would revoke token {name}; nothing was changed"))?;
        return Ok(Exit::Done);
    }
    desk.revoke_token(name, &actor(reason)).await?;
    app.global.output.one(&json!({ "name": name, "revoked": true }), || format!("token {name} is revoked"))?;
    Ok(Exit::Done)
}

fn table(rows: &[TokenRow]) -> Table {
    let now = Timestamp::now();
    let mut table = Table::new(&["name", "role", "created", "by", "ends"], &[]);
    for row in rows {
        let ends = match row.expires_at {
            None => "never".to_owned(),
            Some(_) if row.has_ended(now) => "over".to_owned(),
            Some(end) => when::seconds(end),
        };
        let role = row.role.as_str().to_owned();
        table.row([row.name.clone(), role, when::seconds(row.created_at), row.created_by.clone(), ends]);
    }
    table
}

/// A role, for clap.
fn role(text: &str) -> Result<Role, String> {
    Role::parse(text).ok_or_else(|| format!("{text:?} is no role; there are viewer, operator and admin"))
}
