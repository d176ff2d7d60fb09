//! `postroom dev`: a small shop on a SQLite file, a relay and a mailer, all in this process and told as it happens.
//!
//! Nothing needs to be installed. The shop appends in its own transactions ([`shop`]), the relay delivers to a handler
//! that sometimes fails ([`mailer`]), and every step is one line ([`narrate`]). [`home`] is the folder it lives in.

mod home;
mod mailer;
mod narrate;
mod shop;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::units::parse_duration;
use postroom_core::{Delays, Desk, Filter, RetryPolicy, RouteDefinition, Store};
use postroom_relay::{Poll, Relay, RelayOptions, RouteRun};
use postroom_sqlite::Sqlite;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::args::help;
use crate::commands::replay::rate;
use crate::exit::{Exit, Failed, Outcome};
use crate::output::note;
use crate::stop;
use crate::traces::Traces;
use home::Home;
use narrate::Narrator;
use shop::Shop;

/// How long a stop waits for what is still to be delivered.
const DRAIN: Duration = Duration::from_secs(3);

/// Try it: a demo shop, a relay and a mailer on SQLite, with nothing installed
#[derive(Debug, clap::Args)]
#[command(after_help = help!(run: "postroom dev", "postroom dev --dir demo --rate 20/s", "postroom dev --for 30s"))]
pub(crate) struct DevArgs {
    /// Folder to live in and leave behind [default: a temporary one, removed at the end]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How many events the shop appends
    #[arg(long, value_name = "RATE", default_value = "2/s", value_parser = rate)]
    rate: f64,
    /// Stop by itself after this long
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    lasting: Option<Duration>,
}

pub(crate) async fn run(app: &App, args: DevArgs) -> Outcome {
    if app.global.dry_run {
        let hint = "without --dir it leaves nothing behind";
        return Err(Failed::new(Exit::Usage, "the demo has no dry run", hint));
    }
    let stop = stop::on_signal()?;
    let home = Home::prepare(args.dir.as_deref())?;
    let config = home.load()?;
    let store = Sqlite::create(home.database()).await?;
    let route = route()?;
    store.desk().register(std::slice::from_ref(&route)).await?;
    note(&home.banner())?;

    let traces = Traces::start(&config);
    let (narrator, told) = narrate::narrator(traces.clone());
    let printer = tokio::spawn(narrate::print_all(told, app.global.output, stop.clone()));
    let relay_stop = CancellationToken::new();
    let relay = relay(&store, route, &narrator).run(relay_stop.clone().cancelled_owned());
    let relay = tokio::spawn(relay);
    let shop = Shop::open(store.clone(), Arc::clone(&narrator), traces.clone()).await?;

    if let Some(lasting) = args.lasting {
        let stop = stop.clone();
        tokio::spawn(async move {
            sleep(lasting).await;
            stop.cancel();
        });
    }
    let sold = shop.sell(args.rate, &stop).await;
    // What was appended gets a moment to arrive, so that the counts at the end agree.
    let _ = timeout(DRAIN, settled(&*store.desk())).await;
    relay_stop.cancel();
    let delivered = relay.await;
    sold?;
    match delivered {
        Ok(Ok(())) => {}
        Ok(Err(e)) => return Err(Failed::new(Exit::Failed, format!("the relay stopped: {e}"), "").caused_by(&e)),
        Err(e) => return Err(Failed::new(Exit::Failed, "the relay broke", "").caused_by(&e)),
    }
    narrator.stopped();
    drop((shop, narrator));
    if let Ok(printed) = printer.await {
        printed?;
    }
    traces.stop().await;
    drop(store);
    home.leave()?;
    Ok(Exit::Done)
}

fn route() -> Result<RouteDefinition, Failed> {
    let filter = Filter::types(["order.*"]).map_err(|e| Failed::new(Exit::Failed, e.to_string(), ""))?;
    Ok(RouteDefinition { filter, to: "handler mailer".to_owned(), ..RouteDefinition::new("mailer") })
}

fn relay(store: &Sqlite, route: RouteDefinition, narrator: &Arc<Narrator>) -> Relay {
    let options = RelayOptions {
        name: "dev".to_owned(),
        // Short, so that a demo killed with -9 goes on soon after its restart.
        lease: Duration::from_secs(3),
        shutdown_grace: Duration::from_secs(5),
        ..RelayOptions::default()
    };
    let short = Delays::Exponential { base: Duration::from_secs(1), max: Duration::from_secs(5) };
    let mut run = RouteRun::new(store.clone(), route, mailer::mailer());
    // The shop's own appends wake the relay; only what people do in another terminal waits for a look.
    run.poll = Poll { max: Duration::from_millis(200), ..Poll::default() };
    run.retry = RetryPolicy { delays: short, attempts: 5, ..RetryPolicy::default() };
    Relay::new(options).observer(Arc::clone(narrator) as _).serve(run)
}

/// Resolves when nothing is due or retrying; a store that cannot be asked is not waited for.
async fn settled(desk: &dyn Desk) {
    while let Ok(routes) = desk.routes().await {
        if routes.iter().all(|r| r.status.due == 0 && r.status.retrying == 0) {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
}
