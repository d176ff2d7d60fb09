//! The driver: one task that owns the connection and everybody who waits for a confirm.
//!
//! ```text
//!            first delivery                 lost, silent, timed out, channel or connection closed
//!   idle ───────────────────────► open ───────────────────────────────────────────────────────────► idle
//!                                  │ ▲       everything unconfirmed: unavailable
//!                          blocked │ │ unblocked
//!                                  ▼ │
//!                                blocked: everything unconfirmed and everything new is unavailable
//! ```
//!
//! While blocked the connection is kept: what the broker has not read of it yet comes before what is sent again, so that
//! copies stand before what follows them. Who is to blame for a closed channel is [`crate::culprit`]'s business.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::envelope::Encoder;
use postroom_core::{Failure, Outbound, Outcome, Receipt};
use postroom_transport_kit::driver::at;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::address::Address;
use crate::connection::{Connection, Ending, Heard};
use crate::culprit::{Blame, Culprits};
use crate::message::{Message, Sent};
use crate::options::RabbitMqOptions;
use crate::topology::pattern::PatternBindings;
use crate::topology::setup::{self, NotInPlace};
use crate::unroutable::Unroutables;
use crate::window::Window;
use crate::wire::encode;
use crate::{LOG, failures};

/// How long a broker may take to say goodbye.
pub(crate) const GOODBYE: Duration = Duration::from_secs(2);

/// What a transport is told.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) route: String,
    pub(crate) options: RabbitMqOptions,
    pub(crate) encoder: Encoder,
}

/// Owns the connection.
#[derive(Debug)]
pub(crate) struct Driver {
    setting: Arc<Setting>,
    batches: mpsc::UnboundedReceiver<Vec<Outbound>>,
    /// Handed over and not yet published.
    queue: VecDeque<Outbound>,
    culprits: Culprits,
    unroutable: Unroutables,
}

/// A connection that is open, and what is on it.
#[derive(Debug)]
struct Open {
    address: Address,
    connection: Connection,
    window: Window<Sent>,
    bindings: PatternBindings,
    /// Why nothing may be published now.
    blocked: Option<Failure>,
    /// Whether the message on its way has the channel for itself.
    alone: bool,
}

/// Why nothing more is published over a connection.
enum Stop {
    Ended(Ending),
    TimedOut,
    Closed,
}

impl Driver {
    pub(crate) fn new(setting: Arc<Setting>, batches: mpsc::UnboundedReceiver<Vec<Outbound>>) -> Self {
        Self {
            setting,
            batches,
            queue: VecDeque::new(),
            culprits: Culprits::default(),
            unroutable: Unroutables::default(),
        }
    }

    pub(crate) async fn run(mut self) {
        while let Some(batch) = self.batches.recv().await {
            self.queue.extend(batch);
            let setting = Arc::clone(&self.setting);
            let opened = tokio::select! {
                opened = open(&setting) => opened,
                () = self.collect() => break,
            };
            let mut open = match opened {
                Ok(open) => open,
                Err(failure) => {
                    self.warn(&failure, 0);
                    self.culprits.forget_limit();
                    self.give_back(&failure);
                    continue;
                }
            };
            match self.serve(&mut open).await {
                Stop::Ended(ending) => self.ended(open, ending).await,
                Stop::TimedOut => self.timed_out(open),
                Stop::Closed => {
                    self.give_back(&failures::closed());
                    return self.close(open).await;
                }
            }
        }
        self.give_back(&failures::closed());
    }

    /// Takes what is handed over until nothing more can come.
    async fn collect(&mut self) {
        while let Some(batch) = self.batches.recv().await {
            self.queue.extend(batch);
        }
    }

    async fn serve(&mut self, open: &mut Open) -> Stop {
        loop {
            self.publish(open);
            let deadline = open.window.first().map(|(_, until)| until);
            tokio::select! {
                batch = self.batches.recv() => match batch {
                    Some(batch) => self.queue.extend(batch),
                    None => return Stop::Closed,
                },
                heard = open.connection.next() => {
                    if let Err(ending) = self.hear(open, heard) {
                        return Stop::Ended(ending);
                    }
                }
                () = at(deadline) => return Stop::TimedOut,
            }
        }
    }

    /// Publishes what may be: everything, or one in doubt alone.
    fn publish(&mut self, open: &mut Open) {
        if let Some(failure) = &open.blocked {
            Outbound::report_all(self.queue.drain(..), failure);
        }
        let Setting { options, encoder, .. } = &*self.setting;
        let frame_max = open.connection.frame_max();
        let until = Instant::now() + options.timeout;
        while let Some(outbound) = self.queue.front() {
            let alone = self.culprits.goes_alone(&outbound.event.id);
            if open.window.waiting() > 0 && (alone || open.alone) {
                return;
            }
            let Some(outbound) = self.queue.pop_front() else { return };
            let written = Message::of(&outbound, options, encoder).and_then(|message| {
                let body_bytes = message.body_bytes();
                if let Some(limit) = self.culprits.over_limit(body_bytes) {
                    return Err(failures::too_large(body_bytes, limit));
                }
                let missing = open.bindings.missing(message.routing_key());
                for (queue, key) in missing.map_err(|error| failures::too_many_bindings(&error))? {
                    tracing::info!(target: LOG, route = self.setting.route, queue, routing_key = key, "binding made");
                    encode::queue_bind_unanswered(open.connection.output(), &queue, &options.exchange, &key);
                }
                message.write(open.connection.output(), &options.exchange, frame_max).map(|()| body_bytes)
            });
            match written {
                Ok(body_bytes) => {
                    open.alone = alone;
                    open.window.add(Sent { outbound, body_bytes }, until);
                }
                Err(failure) => outbound.report(Err(failure)),
            }
        }
    }

    /// Acts on what was heard, and on everything that came with it.
    fn hear(&mut self, open: &mut Open, heard: Result<Heard, Ending>) -> Result<(), Ending> {
        let mut heard = Some(heard?);
        while let Some(one) = heard {
            match one {
                Heard::Blocked(reason) => {
                    let failure = failures::blocked(&open.address, &reason);
                    self.warn(&failure, open.window.waiting());
                    report_all(open.window.release(), &failure);
                    open.blocked = Some(failure);
                }
                Heard::Unblocked => {
                    tracing::info!(target: LOG, route = self.setting.route, "unblocked by broker");
                    open.blocked = None;
                }
                other => self.settle(&mut open.window, other)?,
            }
            heard = open.connection.received()?;
        }
        Ok(())
    }

    fn settle(&mut self, window: &mut Window<Sent>, heard: Heard) -> Result<(), Ending> {
        let options = &self.setting.options;
        match heard {
            Heard::Confirm { tag, multiple, accepted } => {
                let route = &self.setting.route;
                let told = window.answered(tag, multiple, |sent, returned| {
                    self.culprits.clear(sent.id());
                    if returned.is_some() {
                        self.unroutable.warn(route, options, &sent.outbound.event);
                    }
                    sent.outbound.report(outcome(options, accepted, returned));
                });
                told.map_err(|_| Ending::Garbled(format!("a confirm of message {tag}, which was never sent")))
            }
            Heard::Returned { message_id, why } => {
                window.returned(&why, |sent| sent.id() == message_id);
                Ok(())
            }
            other => Err(Ending::Garbled(format!("{other:?} where nothing was asked for"))),
        }
    }

    async fn ended(&mut self, mut open: Open, ending: Ending) {
        let failure = failures::ending(&open.address, &ending);
        self.warn(&failure, open.window.waiting());
        let unanswered = open.window.unanswered();
        let in_doubt = open.window.release();
        match &ending {
            Ending::Channel(closing) | Ending::Connection(closing) => {
                let blamed = self.culprits.blame(closing, unanswered, &in_doubt);
                for (sent, blame) in in_doubt.into_iter().zip(blamed) {
                    let failure = match blame {
                        Some(Blame::TooLarge { limit }) => failures::too_large(sent.body_bytes, limit),
                        Some(Blame::Alone) => failures::refused_for_good(closing),
                        None => failure.clone(),
                    };
                    sent.outbound.report(Err(failure));
                }
            }
            _ => {
                self.culprits.forget_limit();
                report_all(in_doubt, &failure);
            }
        }
        self.give_back(&failure);
        open.connection.end(&ending, GOODBYE).await;
    }

    fn timed_out(&mut self, mut open: Open) {
        let id = open.window.first().map_or_else(String::new, |(sent, _)| sent.id().to_owned());
        let failure = failures::timed_out(&open.address, &id, self.setting.options.timeout);
        self.warn(&failure, open.window.waiting());
        self.culprits.forget_limit();
        report_all(open.window.release(), &failure);
        self.give_back(&failure);
        open.connection.abort();
    }

    /// Ends in good order. Confirms that still come count.
    async fn close(&mut self, open: Open) {
        let Open { connection, mut window, blocked, .. } = open;
        // A blocked broker reads nothing, so it cannot say goodbye either.
        if blocked.is_some() {
            connection.abort();
        } else {
            let listen = |heard| {
                let _ = self.settle(&mut window, heard);
            };
            connection.close(GOODBYE, listen).await;
        }
        report_all(window.release(), &failures::closed());
    }

    /// What was never published.
    fn give_back(&mut self, failure: &Failure) {
        Outbound::report_all(self.queue.drain(..), failure);
    }

    fn warn(&self, failure: &Failure, in_flight: usize) {
        tracing::warn!(
            target: LOG, route = self.setting.route, code = &*failure.code, error = failure.error, in_flight,
            "deliveries paused"
        );
    }
}

/// Connects, and puts in place what must be there.
async fn open(setting: &Setting) -> Result<Open, Failure> {
    let options = &setting.options;
    let address = options.check().map_err(|error| failures::options(&error))?;
    let mut connection = Connection::open(&setting.route, options, &address).await?;
    let set_up = async {
        if let Some(topology) = &options.topology {
            setup::put_in_place(&mut connection, topology).await?;
        }
        connection.confirm().await.map_err(NotInPlace::Ended)
    };
    match timeout(options.timeout, set_up).await {
        Ok(Ok(())) => {
            let bindings = PatternBindings::new(options.topology.as_ref(), &options.exchange);
            Ok(Open { address, connection, window: Window::new(), bindings, blocked: None, alone: false })
        }
        Ok(Err(problem)) => {
            let failure = failures::topology(&address, &problem);
            connection.close(GOODBYE, |_| {}).await;
            Err(failure)
        }
        Err(_) => Err(failures::no_answer(&address, options.timeout)),
    }
}

/// What the broker's answer means.
fn outcome(options: &RabbitMqOptions, accepted: bool, returned: Option<String>) -> Outcome {
    if !accepted {
        return Err(failures::refused_for_now(options.exchange_name()));
    }
    let Some(why) = returned else { return Ok(Receipt::default()) };
    match failures::unroutable(options.unroutable, options.exchange_name(), &why) {
        Some(failure) => Err(failure),
        None => Ok(Receipt::at(format!("no queue: {why}")).code("rabbitmq.unroutable")),
    }
}

fn report_all(sent: impl IntoIterator<Item = Sent>, failure: &Failure) {
    Outbound::report_all(sent.into_iter().map(|sent| sent.outbound), failure);
}
