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

use postroom_admin::{Admin, ManagedStore as _};
use postroom_core::units::parse_duration;
use postroom_core::{Delays, Filter, RetryPolicy, RouteSpec};
use postroom_relay::{Poll, Relay, RelayOptions, Route};
use postroom_sqlite::SqliteStore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::commands::replay::rate;
use crate::exit::{Exit, Failed, Outcome};
use crate::options::help;
use crate::output::note;
use crate::stop;
use crate::traces::Traces;
use home::Home;
use narrate::Narrator;
use shop::Shop;

/// Time that a stop waits for the remaining deliveries.
const DRAIN: Duration = Duration::from_secs(3);

/// Run a demo: a shop, a relay and a mailer on SQLite, without any installation
#[derive(Debug, clap::Args)]
#[command(after_help = help!(run: "postroom dev", "postroom dev --dir demo --rate 20/s", "postroom dev --for 30s"))]
pub(crate) struct DevArgs {
    /// Folder for the demo's files, kept at the end [default: a temporary folder, removed at the end]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Rate at which the shop appends events
    #[arg(long, value_name = "RATE", default_value = "2/s", value_parser = rate)]
    rate: f64,
    /// Time after which the demo stops
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
    let store = SqliteStore::create(home.database()).await?;
    let route = route()?;
    store.admin().register(std::slice::from_ref(&route)).await?;
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
    let _ = timeout(DRAIN, settled(&*store.admin())).await;
    relay_stop.cancel();
    let delivered = relay.await;
    sold?;
    match delivered {
        Ok(Ok(())) => {}
        Ok(Err(e)) => return Err(Failed::new(Exit::Failed, format!("the relay stopped: {e}"), "").caused_by(&e)),
        Err(e) => return Err(Failed::new(Exit::Failed, "the relay panicked", "").caused_by(&e)),
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

fn route() -> Result<RouteSpec, Failed> {
    let filter = Filter::types(["order.*"]).map_err(|e| Failed::new(Exit::Failed, e.to_string(), ""))?;
    Ok(RouteSpec { filter, to: "handler mailer".to_owned(), ..RouteSpec::new("mailer") })
}

fn relay(store: &SqliteStore, route: RouteSpec, narrator: &Arc<Narrator>) -> Relay {
    // The lease is short, so that a demo killed with -9 goes on soon after its restart.
    let options = RelayOptions::default()
        .name("dev".to_owned())
        .lease(Duration::from_secs(3))
        .shutdown_grace(Duration::from_secs(5));
    let short = Delays::Exponential { base: Duration::from_secs(1), max: Duration::from_secs(5) };
    // The shop's own appends wake the relay; only what people do in another terminal waits for a look.
    let poll = Poll::default().max(Duration::from_millis(200));
    let retry = RetryPolicy::default().delays(short).attempts(5);
    Relay::new(store.clone())
        .options(options)
        .observer(Arc::clone(narrator) as _)
        .route(Route::from_spec(route).poll(poll).retry(retry).to(mailer::mailer()))
}

/// Waits until no delivery is due or retrying; returns at once if the store cannot be read.
async fn settled(admin: &dyn Admin) {
    while let Ok(routes) = admin.routes().await {
        if routes.iter().all(|r| r.status.due == Some(0) && r.status.retrying == 0) {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
}
