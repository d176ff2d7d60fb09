//! `postroom token`: who may ask a relay over HTTP.

use std::time::Duration;

use postroom_admin::{Admin, NewToken, Role, Scope, TokenRow};
use postroom_core::Timestamp;
use postroom_core::units::parse_duration;
use postroom_server::config::Anonymous;
use postroom_server::token;
use serde_json::json;

use crate::actor::actor;
use crate::app::App;
use crate::exit::{Exit, Failed, Outcome};
use crate::options::{Reason, StoreArg, help};
use crate::output::Narrower::{Drop, Shorten};
use crate::output::{Table, note};
use crate::{suggest, when};

/// Create, list and revoke tokens for the HTTP API
#[derive(Debug, clap::Subcommand)]
pub(crate) enum TokenCommand {
    Create(CreateArgs),
    /// List tokens by name and role, without their secrets
    #[command(after_help = help!(store: "postroom token ls", "postroom token ls -o json"))]
    Ls {
        #[command(flatten)]
        store: StoreArg,
    },
    Rotate(RotateArgs),
    /// Revoke a token, effective immediately
    #[command(after_help = help!(store: "postroom token revoke grafana --reason 'laptop lost'"))]
    Revoke {
        /// Name of the token
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        reason: Reason,
        #[command(flatten)]
        store: StoreArg,
    },
}

/// Create a token and print its secret, which is shown only once
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store:
    "postroom token create grafana",
    "postroom token create ann --role admin --expires 30d",
    "postroom token create mailer-1 --role worker --route mailer -o json",
))]
pub(crate) struct CreateArgs {
    /// Name of the token, under which the audit log records its actions
    #[arg(value_name = "NAME")]
    name: String,
    /// Role of the token: worker leases events of pull routes, viewer reads everything but payloads, operator acts, admin
    /// also forgets and creates tokens
    #[arg(long, value_name = "ROLE", default_value = "viewer", value_parser = role)]
    role: Role,
    /// Route that the token is limited to; may be repeated. Required for a worker
    #[arg(long, value_name = "ROUTE")]
    route: Vec<String>,
    /// Tenant that the token is limited to
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Time until the token expires, or `never`
    #[arg(long, value_name = "DURATION", default_value = "90d", value_parser = expiry)]
    expires: Expiry,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    store: StoreArg,
}

/// Replace the secret of a token and print the new one, which is shown only once
#[derive(Debug, clap::Args)]
#[command(after_help = help!(store:
    "postroom token rotate grafana",
    "postroom token rotate mailer-1 --keep 1h --reason 'quarterly'",
))]
pub(crate) struct RotateArgs {
    /// Name of the token
    #[arg(value_name = "NAME")]
    name: String,
    /// Time for which the previous secret stays valid
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = parse_duration)]
    keep: Duration,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    store: StoreArg,
}

/// End of a token.
#[derive(Debug, Clone, Copy)]
struct Expiry(Option<Duration>);

/// What the first token changes for everybody else.
const FIRST_TOKEN: &str = "this is the first token of the store: from now on requests to its API without a token are refused; \
    `anonymous = \"viewer\"` in [http] allows reading from this machine without one";

pub(crate) async fn run(app: &App, command: TokenCommand) -> Outcome {
    match command {
        TokenCommand::Create(args) => create(app, &args).await,
        TokenCommand::Ls { store } => {
            let config = app.config()?;
            let mut rows = app.open(&config, &store).await?.admin().tokens().await?;
            rows.retain(|token| token.revoked_at.is_none());
            app.global.output.list(&rows, || table(&rows))?;
            Ok(Exit::Done)
        }
        TokenCommand::Rotate(args) => rotate(app, &args).await,
        TokenCommand::Revoke { name, reason, store } => revoke(app, &name, &reason, &store).await,
    }
}

async fn create(app: &App, args: &CreateArgs) -> Outcome {
    let scope = Scope { routes: args.route.clone(), tenant: args.tenant.clone() };
    token::check(&args.name, args.role, &scope)
        .map_err(|(why, hint)| Failed::new(Exit::Usage, format!("{why}: {:?}", args.name), hint))?;
    let Ok(expires_at) = args.expires.0.map(|after| Timestamp::now().checked_add(after)).transpose() else {
        let hint = "use --expires never for a token that never expires";
        return Err(Failed::new(Exit::Usage, "--expires is too far in the future", hint));
    };
    let config = app.config()?;
    let admin = app.open(&config, &args.store).await?.admin();
    let known: Vec<String> = admin.routes().await?.into_iter().map(|route| route.status.route).collect();
    if let Some(unknown) = args.route.iter().find(|route| !known.contains(route)) {
        return Err(suggest::unknown("route", unknown, &known, "list them: `postroom route ls`"));
    }
    if app.global.dry_run {
        note(&format!("would create token {} with the role {}; nothing was changed", args.name, args.role.as_str()))?;
        return Ok(Exit::Done);
    }
    let secret = secret()?;
    let first = admin.tokens().await?.is_empty() && config.http.anonymous == Anonymous::LookAtFirst;
    let new = NewToken { name: args.name.clone(), role: args.role, expires_at, scope, hash: token::hash(&secret) };
    let row = admin.add_token(&new, &actor(&args.reason)).await?;
    show(app, &row, &secret)?;
    if app.is_table() {
        let ends =
            row.expires_at.map_or_else(|| "never expires".to_owned(), |end| format!("expires {}", when::seconds(end)));
        let limited = limits(&row.scope).map(|limits| format!(", is limited to {limits}")).unwrap_or_default();
        let (name, role) = (&row.name, row.role.as_str());
        note(&format!("token {name} has the role {role}{limited}, {ends}; the token is shown only once"))?;
        if first {
            note(FIRST_TOKEN)?;
        }
    }
    Ok(Exit::Done)
}

async fn rotate(app: &App, args: &RotateArgs) -> Outcome {
    let config = app.config()?;
    let admin = app.open(&config, &args.store).await?.admin();
    need(&*admin, &args.name).await?;
    if app.global.dry_run {
        note(&format!("would replace the secret of token {}; nothing was changed", args.name))?;
        return Ok(Exit::Done);
    }
    let secret = secret()?;
    let row = admin.rotate_token(&args.name, &token::hash(&secret), args.keep, &actor(&args.reason)).await?;
    show(app, &row, &secret)?;
    if let Some(until) = row.previous_until.filter(|_| app.is_table()) {
        let (name, until) = (&row.name, when::seconds(until));
        note(&format!("token {name} has a new secret, shown only once; the previous one is valid until {until}"))?;
    }
    Ok(Exit::Done)
}

fn secret() -> Result<String, Failed> {
    token::fresh().map_err(|error| {
        let message = format!("the system returned no random bytes: {error}");
        Failed::new(Exit::Failed, message, "check the random source of the system")
    })
}

/// Prints a token with its secret.
fn show(app: &App, row: &TokenRow, secret: &str) -> Result<(), Failed> {
    let mut answer = json!(row);
    answer["token"] = json!(secret);
    app.global.output.one(&answer, || secret.to_owned())?;
    Ok(())
}

/// Refuses a name that no token has, or had until it was revoked.
async fn need(admin: &dyn Admin, name: &str) -> Result<(), Failed> {
    let tokens = admin.tokens().await?.into_iter().filter(|token| token.revoked_at.is_none());
    let known: Vec<String> = tokens.map(|token| token.name).collect();
    if known.iter().any(|known| known == name) {
        return Ok(());
    }
    Err(suggest::unknown("token", name, &known, "list them: `postroom token ls`"))
}

async fn revoke(app: &App, name: &str, reason: &Reason, store: &StoreArg) -> Outcome {
    let config = app.config()?;
    let admin = app.open(&config, store).await?.admin();
    need(&*admin, name).await?;
    if app.global.dry_run {
        note(&format!("would revoke token {name}; nothing was changed"))?;
        return Ok(Exit::Done);
    }
    admin.revoke_token(name, &actor(reason)).await?;
    app.global.output.one(&json!({ "name": name, "revoked": true }), || format!("token {name} is revoked"))?;
    Ok(Exit::Done)
}

fn table(rows: &[TokenRow]) -> Table {
    let now = Timestamp::now();
    let mut table = Table::new(&["name", "role", "limited to", "created", "by", "last used", "ends"], &[]).narrower(&[
        Shorten("by"),
        Drop("by"),
        Drop("created"),
        Shorten("limited to"),
        Drop("last used"),
    ]);
    for row in rows {
        let ends = match row.expires_at {
            None => "never".to_owned(),
            Some(_) if row.has_ended(now) => "over".to_owned(),
            Some(end) => when::listed(end),
        };
        let limited = limits(&row.scope).unwrap_or_default();
        let used = row.last_used_at.map_or_else(|| "never".to_owned(), when::listed);
        let (name, role) = (row.name.clone(), row.role.as_str().to_owned());
        table.row([name, role, limited, when::listed(row.created_at), row.created_by.clone(), used, ends]);
    }
    table
}

/// What a token is limited to, in words.
fn limits(scope: &Scope) -> Option<String> {
    let routes = (!scope.routes.is_empty()).then(|| format!("route {}", scope.routes.join(", ")));
    let tenant = scope.tenant.as_ref().map(|tenant| format!("tenant {tenant}"));
    let limits: Vec<String> = routes.into_iter().chain(tenant).collect();
    (!limits.is_empty()).then(|| limits.join(", "))
}

/// Parses a role for clap.
fn role(text: &str) -> Result<Role, String> {
    Role::parse(text).ok_or_else(|| format!("{text:?} is not a role; use worker, viewer, operator or admin"))
}

/// Parses the end of a token for clap.
fn expiry(text: &str) -> Result<Expiry, String> {
    if text == "never" { Ok(Expiry(None)) } else { Ok(Expiry(Some(parse_duration(text)?))) }
}
