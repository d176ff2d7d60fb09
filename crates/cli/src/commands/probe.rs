//! `postroom route test`: one marked event through a route's transport, past the store, so that no other route sees it.

use std::time::Duration;

use postroom_core::units::format_duration;
use postroom_core::{Event, JSON, Outbound, new_id};
use postroom_server::pulls::Pulls;
use postroom_server::transports;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::app::{self, App};
use crate::exit::{Exit, Failed, Outcome};
use crate::options::StoreArg;
use crate::suggest;

/// Time-out of the destination, longer than the default time-out of any transport.
const ANSWER_WITHIN: Duration = Duration::from_mins(1);
/// Header that marks the test event, so that receivers can ignore it.
const MARK: &str = "x-postroom-test";

#[derive(Debug, clap::Args)]
pub(crate) struct TestArgs {
    /// Name of the route
    #[arg(value_name = "ROUTE")]
    route: String,
    /// Type of the test event, for destination names that are made from it
    #[arg(long = "type", default_value = "postroom.test", value_name = "TYPE")]
    event_type: String,
    /// Key of the test event
    #[arg(long, default_value = "postroom-test", value_name = "KEY")]
    key: String,
    /// Tenant of the test event
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Aggregate type of the test event
    #[arg(long, value_name = "NAME")]
    aggregate_type: Option<String>,
    /// Payload of the test event, as JSON
    #[arg(long, default_value = r#"{"test":true}"#, value_name = "JSON")]
    payload: String,
    #[command(flatten)]
    store: StoreArg,
}

pub(crate) async fn run(app: &App, args: &TestArgs) -> Outcome {
    let config = app.config()?;
    let Some(route) = config.routes.iter().find(|route| route.definition.name == args.route) else {
        let known: Vec<String> = config.routes.iter().map(|route| route.definition.name.clone()).collect();
        let otherwise = "`postroom route ls` shows those there are; one to test must be in the configuration";
        return Err(suggest::unknown("route", &args.route, &known, otherwise));
    };
    let store = match (&args.store.store, config.stores.iter().find(|store| route.stores.contains(&store.name))) {
        (None, Some(first)) => first,
        _ => app::meant(&config, &args.store)?,
    };
    let event = event(args, config.limits)?;
    let (id, to) = (event.id.clone(), route.definition.to.clone());
    if app.global.dry_run {
        let answer = json!({ "route": args.route, "to": to, "id": id, "sent": false });
        app.global.output.one(&answer, || format!("would send test event {id} to {to}"))?;
        return Ok(Exit::Done);
    }
    let transport = transports::build(&config, route, store, &Pulls::default());
    let (report, mut outcomes) = mpsc::unbounded_channel();
    let began = std::time::Instant::now();
    let outcome = timeout(ANSWER_WITHIN, async {
        transport.deliver(vec![Outbound::new(0, 1, event.into(), None, report)]).await;
        outcomes.recv().await
    })
    .await;
    let took = Duration::from_millis(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
    transport.close().await;
    match outcome {
        Ok(Some((_, Ok(receipt)))) => {
            let receipt = receipt.place.map(String::from);
            let answer = json!({
                "route": args.route, "to": to, "id": id, "sent": true, "receipt": receipt, "took_ms": took.as_millis(),
            });
            app.global.output.one(&answer, || {
                let place = receipt.as_ref().map_or_else(String::new, |place| format!(", {place}"));
                format!("delivered test event {id} to {to} in {}{place}", format_duration(took))
            })?;
            Ok(Exit::Done)
        }
        Ok(Some((_, Err(failure)))) => {
            let exit = if failure.kind.is_outage() { Exit::Unreachable } else { Exit::Failed };
            let message = format!("the test event did not get through to {to}: {}: {}", failure.code, failure.error);
            Err(Failed::new(exit, message, "postroom config check --online looks for what is missing"))
        }
        Ok(None) | Err(_) => {
            let message = format!("{to} did not answer within {}", format_duration(ANSWER_WITHIN));
            Err(Failed::new(Exit::Unreachable, message, "postroom config check --online looks for what is missing"))
        }
    }
}

fn event(args: &TestArgs, limits: postroom_core::Limits) -> Result<Event, Failed> {
    let mut event =
        Event::new(&args.event_type).id(new_id()).key(&args.key).header(MARK, "true").bytes(JSON, args.payload.clone());
    event.aggregate_type.clone_from(&args.aggregate_type);
    event.tenant.clone_from(&args.tenant);
    limits.check(&event)?;
    Ok(event)
}
