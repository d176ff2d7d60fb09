//! `postroom top`: the whole screen, live. [`model`] is what is known, [`draw`] how it looks; here are the terminal, the
//! keys and the clock.

mod draw;
mod model;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossterm::event::{Event, EventStream, KeyEventKind};
use futures_util::StreamExt;
use postroom_admin::ManagedStore;
use postroom_server::config::{Config, StoreConfig};
use postroom_server::status::{self, Part, Report};
use postroom_server::stores;
use tokio::sync::{Mutex, mpsc};
use tokio::time::{MissedTickBehavior, interval};

use crate::app::App;
use crate::exit::{Exit, Failed, Outcome};
use crate::options::help;
use crate::stop;
use model::{KeyEffect, Model};

/// Show a live full-screen view of routes, relays and stores
#[derive(Debug, clap::Args)]
#[command(after_help = help!(plain: "postroom top"))]
pub(crate) struct TopArgs {}

pub(crate) async fn run(app: &App, _: &TopArgs) -> Outcome {
    let config = app.config_with_stores()?;
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        let hint = "use `postroom status --watch`, or `postroom status -o json` in a script";
        return Err(Failed::new(Exit::Usage, "`top` needs a terminal", hint));
    }
    let stop = stop::on_signal()?;
    let mut reports = look(config);
    let mut keys = EventStream::new();
    let mut model = Model::default();
    let _screen = Screen;
    let mut terminal = ratatui::try_init()?;
    loop {
        terminal.draw(|frame| draw::draw(frame, &model))?;
        tokio::select! {
            () = stop.cancelled() => break,
            Some(report) = reports.recv() => model.learn(report, Instant::now()),
            event = keys.next() => match event {
                Some(Ok(Event::Key(key))) if key.kind == KeyEventKind::Press && model.press(key) == KeyEffect::Quit => break,
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => break,
            },
        }
    }
    Ok(Exit::Done)
}

/// Guard that restores the terminal when it is dropped.
struct Screen;

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Samples every second on a task of its own, so that a slow store does not delay key presses.
fn look(config: Config) -> mpsc::Receiver<Report> {
    let (sender, reports) = mpsc::channel(1);
    tokio::spawn(async move {
        let opened = Opened::default();
        let mut each_second = interval(Duration::from_secs(1));
        each_second.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            each_second.tick().await;
            let limits = config.limits;
            let open = |store: StoreConfig| async { Ok(opened.store(store, limits).await?.admin()) };
            if sender.send(status::collect(&config, Part::All, |_| true, open).await).await.is_err() {
                return;
            }
        }
    });
    reports
}

/// Stores that stay open between samples.
#[derive(Default)]
struct Opened(Mutex<BTreeMap<String, Arc<dyn ManagedStore>>>);

impl Opened {
    async fn store(
        &self,
        store: StoreConfig,
        limits: postroom_core::Limits,
    ) -> Result<Arc<dyn ManagedStore>, postroom_core::StoreError> {
        let mut opened = self.0.lock().await;
        if let Some(store) = opened.get(&store.name) {
            return Ok(Arc::clone(store));
        }
        let new = stores::open_for_admin(&store, limits).await?;
        opened.insert(store.name, Arc::clone(&new));
        Ok(new)
    }
}
