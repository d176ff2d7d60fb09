//! The suite itself: a transport in memory passes it, and each broken variant of it is found out.

#![allow(clippy::expect_used, reason = "helpers of tests")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postroom_conformance::transports::{
    Arrived, Behaviour, Breakable, Harness, Observed, Scripted, answers, arrives, goes_down, reports,
};
use postroom_core::{Capabilities, Event, Failure, Outbound, Outcome, Receipt, Transport};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const SOUND: u8 = 0;
const REPORTS_BEFORE_ARRIVAL: u8 = 1;
const FORGETS: u8 = 2;
const WAITS_FOR_THE_BATCH: u8 = 3;
const LAST_FIRST: u8 = 4;
const READS_NUMBERS: u8 = 5;
const FAILS_NEIGHBOURS: u8 = 6;
const LINGERS: u8 = 7;
const OUTAGE_COUNTS: u8 = 8;
const OUTAGE_LOSES: u8 = 9;
const EVERYTHING_IS_RETRIED: u8 = 10;
const NO_TIME_OUT: u8 = 11;

/// A shelf in memory that keeps what arrives, with one fault.
#[derive(Debug, Clone)]
struct Shelf<const FAULT: u8> {
    timeout: Duration,
    script: Arc<watch::Sender<HashMap<String, Behaviour>>>,
    down: Arc<watch::Sender<bool>>,
    arrived: Arc<Mutex<Vec<Arrived>>>,
    forgotten: Arc<Mutex<Vec<Outbound>>>,
    running: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct ToShelf<const FAULT: u8> {
    shelf: Shelf<FAULT>,
    tasks: TaskTracker,
    closed: CancellationToken,
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<const FAULT: u8> Shelf<FAULT> {
    async fn take(self, event: Arc<Event>) -> Outcome {
        if *self.down.borrow() {
            return match FAULT {
                OUTAGE_COUNTS => Err(Failure::transient("shelf.down", "down")),
                OUTAGE_LOSES => Ok(Receipt::default()),
                _ => Err(Failure::unavailable("shelf.down", "down")),
            };
        }
        self.keep(&event);
        let mut script = self.script.subscribe();
        let told = |script: &HashMap<String, Behaviour>| script.get(&event.id).copied();
        let behaviour = {
            let released = script.wait_for(|script| told(script) != Some(Behaviour::Hold)).await;
            told(&released.expect("self has a sender"))
        };
        match behaviour {
            Some(Behaviour::RefuseForGood) if FAULT != EVERYTHING_IS_RETRIED => {
                Err(Failure::permanent("shelf.never", "never"))
            }
            Some(Behaviour::RefuseForNow | Behaviour::RefuseForGood) => Err(Failure::transient("shelf.busy", "busy")),
            Some(Behaviour::Ignore | Behaviour::Hold) => std::future::pending().await,
            Some(Behaviour::Accept) | None => Ok(Receipt::default()),
        }
    }

    fn keep(&self, event: &Event) {
        let mut payload = String::from_utf8(event.payload.to_vec()).expect("it is text");
        if FAULT == READS_NUMBERS
            && let Ok(value) = serde_json::from_str::<serde_json::Value>(&payload)
        {
            payload = value.to_string();
        }
        let arrived = Arrived { id: event.id.clone(), event_type: event.event_type.clone(), payload };
        let mut shelf = self.arrived.lock().expect("no panic");
        let place = if FAULT == LAST_FIRST { 0 } else { shelf.len() };
        shelf.insert(place, arrived);
    }
}

#[async_trait]
impl<const FAULT: u8> Transport for ToShelf<FAULT> {
    fn capabilities(&self) -> Capabilities {
        Capabilities::plain("shelf")
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        let mut together = Vec::new();
        for outbound in batch {
            let (shelf, closed) = (self.shelf.clone(), self.closed.clone());
            let event = Arc::clone(&outbound.event);
            let limit = if FAULT == NO_TIME_OUT { Duration::MAX } else { shelf.timeout };
            shelf.running.fetch_add(1, Ordering::SeqCst);
            let running = Running(Arc::clone(&shelf.running));
            let forgotten = Arc::clone(&shelf.forgotten);
            let taken = async move {
                let _running = running;
                let taken = closed.run_until_cancelled(timeout(limit, shelf.take(event))).await;
                match taken {
                    Some(Ok(outcome)) => outcome,
                    Some(Err(_)) => Err(Failure::unavailable("shelf.timeout", "no answer")),
                    None => Err(Failure::unavailable("shelf.closed", "closed")),
                }
            };
            match FAULT {
                REPORTS_BEFORE_ARRIVAL => {
                    outbound.report(Ok(Receipt::default()));
                    self.tasks.spawn(async {
                        sleep(Duration::from_millis(5)).await;
                        taken.await
                    });
                }
                FORGETS if outbound.event.id == "e-7" => {
                    forgotten.lock().expect("no panic").push(outbound);
                }
                WAITS_FOR_THE_BATCH | FAILS_NEIGHBOURS => together.push((outbound, self.tasks.spawn(taken))),
                _ => {
                    self.tasks.spawn(async move { outbound.report(taken.await) });
                }
            }
        }
        self.tasks.spawn(async move {
            let mut outcomes = Vec::new();
            for (outbound, taken) in together {
                outcomes.push((outbound, taken.await.expect("no panic")));
            }
            let worst = outcomes.iter().find_map(|(_, outcome)| outcome.clone().err());
            for (outbound, outcome) in outcomes {
                match &worst {
                    Some(failure) if FAULT == FAILS_NEIGHBOURS => outbound.report(Err(failure.clone())),
                    _ => outbound.report(outcome),
                }
            }
        });
    }

    async fn close(&self) {
        if FAULT == LINGERS {
            self.shelf.running.fetch_add(1, Ordering::SeqCst);
        }
        self.closed.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl<const FAULT: u8> Drop for ToShelf<FAULT> {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

#[async_trait]
impl<const FAULT: u8> Harness for Shelf<FAULT> {
    async fn start(timeout: Duration) -> Self {
        Self {
            timeout,
            script: Arc::new(watch::Sender::new(HashMap::new())),
            down: Arc::new(watch::Sender::new(false)),
            arrived: Arc::default(),
            forgotten: Arc::default(),
            running: Arc::default(),
        }
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(ToShelf { shelf: self.clone(), tasks: TaskTracker::new(), closed: CancellationToken::new() })
    }

    async fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl<const FAULT: u8> Observed for Shelf<FAULT> {
    async fn arrived(&self) -> Vec<Arrived> {
        self.arrived.lock().expect("no panic").clone()
    }
}

#[async_trait]
impl<const FAULT: u8> Scripted for Shelf<FAULT> {
    async fn behave(&self, id: &str, behaviour: Behaviour) {
        self.script.send_modify(|script| {
            script.insert(id.to_owned(), behaviour);
        });
    }
}

#[async_trait]
impl<const FAULT: u8> Breakable for Shelf<FAULT> {
    async fn stop(&self) {
        self.down.send_replace(true);
    }

    async fn resume(&self) {
        self.down.send_replace(false);
    }
}

mod a_sound_one {
    use super::{SOUND, Shelf};
    postroom_conformance::transport_suite!(Shelf<SOUND>: reports, arrives, answers, goes_down);
}

macro_rules! is_found_out {
    ($($fault:ident by $group:ident::$case:ident: $name:ident, $words:literal;)+) => { $(
        #[tokio::test(start_paused = true)]
        #[should_panic(expected = $words)]
        async fn $name() {
            $group::$case::<Shelf<$fault>>().await;
        }
    )+ };
}

is_found_out! {
    REPORTS_BEFORE_ARRIVAL by arrives::ok_means_that_the_destination_has_it:
        reporting_before_arrival_is_found_out, "has not arrived";
    REPORTS_BEFORE_ARRIVAL by answers::nothing_is_reported_before_the_destination_answers:
        reporting_before_the_answer_is_found_out, "reported before it was answered";
    FORGETS by reports::every_outbound_is_reported_exactly_once:
        a_forgotten_delivery_is_found_out, "for an outcome";
    WAITS_FOR_THE_BATCH by answers::a_slow_one_holds_back_no_other:
        a_barrier_per_batch_is_found_out, "shelf.timeout";
    LAST_FIRST by arrives::deliveries_one_after_the_other_arrive_in_that_order:
        a_wrong_order_is_found_out, "left";
    READS_NUMBERS by arrives::id_type_and_payload_arrive_unchanged:
        a_payload_read_and_written_again_is_found_out, "changed";
    FAILS_NEIGHBOURS by answers::one_refused_for_good_fails_alone:
        a_failure_that_spreads_is_found_out, "never";
    LINGERS by reports::closing_leaves_nothing_running:
        what_outlives_the_close_is_found_out, "for nothing to run after the close";
    OUTAGE_COUNTS by goes_down::a_destination_that_is_down_from_the_start_costs_nothing_but_time:
        an_outage_that_counts_attempts_is_found_out, "Transient";
    OUTAGE_LOSES by goes_down::a_destination_that_goes_down_later_costs_nothing_but_time:
        an_outage_that_loses_events_is_found_out, "was delivered to a destination that is down";
    EVERYTHING_IS_RETRIED by answers::one_refused_for_good_fails_alone:
        a_refusal_that_is_retried_is_found_out, "Permanent";
    NO_TIME_OUT by answers::one_never_answered_is_reported_and_the_others_get_through:
        a_missing_time_out_is_found_out, "for an outcome";
}
