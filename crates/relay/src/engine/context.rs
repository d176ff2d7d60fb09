//! The constant things of a route: where its deliveries come from, where they go, and whom the engine tells.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::{
    Capabilities, Clock, Delivery, Event, Failure, OnDead, OnFailure, Ownership, RetryPolicy, RouteSpec, Source,
    StoreError, StoreErrorKind, TraceParent, Transport, Verdict,
};

use crate::observer::RouteObserver;
use crate::options::RelayOptions;
use crate::outage::StoreOutage;

/// A route as its engine was given it. Nothing here changes while the engine runs.
pub(super) struct RouteContext {
    pub(super) store_name: String,
    pub(super) definition: RouteSpec,
    pub(super) source: Arc<dyn Source>,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) capabilities: Capabilities,
    pub(super) retry: RetryPolicy,
    pub(super) options: Arc<RelayOptions>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) observer: Arc<dyn RouteObserver>,
    /// Shared with the other routes of the store.
    pub(super) outage: StoreOutage,
}

impl RouteContext {
    pub(super) fn name(&self) -> &str {
        &self.definition.name
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Whether later events of the key must wait until this verdict is in the store.
    pub(super) fn goes_back(&self, verdict: &Verdict) -> bool {
        *verdict == Verdict::Returned || self.keeps_key(verdict)
    }

    /// Whether later events of the key must not go on at once. A death must be in the store first: otherwise a crash
    /// brings the event back after those behind it.
    pub(super) fn keeps_key(&self, verdict: &Verdict) -> bool {
        match verdict {
            Verdict::Retry { .. } => self.definition.on_failure == OnFailure::Block,
            Verdict::Dead { .. } => {
                self.definition.on_failure == OnFailure::Block || self.definition.on_dead == OnDead::Hold
            }
            Verdict::Delivered(_) | Verdict::Returned => false,
        }
    }

    /// Disables the route in the store, for every relay, because the receiver is gone for good.
    pub(super) fn disable(&self, failure: &Failure) {
        let (source, failure) = (self.source.clone(), failure.clone());
        let (store, route) = (self.store_name.clone(), self.definition.name.clone());
        // Beside the work: until it is done, and if it fails, the breaker waits and the next probe comes here again.
        tokio::spawn(async move {
            if let Err(error) = source.disable(&failure).await {
                tracing::warn!(store, route, %error, "route could not be disabled; retrying");
            }
        });
    }

    /// Logs that a call of the store failed. A store that does not answer is one line for all its routes.
    pub(super) fn log_store_error(&self, operation: &str, error: &StoreError) {
        let (store, route) = (&self.store_name, self.name());
        let is_away = matches!(error.kind, StoreErrorKind::Unreachable | StoreErrorKind::CommitUnknown);
        let error = chain(error);
        if !is_away {
            tracing::warn!(store, route, operation, error, "store error; retrying");
        } else if self.outage.began(self.elapsed()) {
            tracing::warn!(store, error, "store does not answer; retrying until it does");
        } else {
            tracing::debug!(store, route, operation, error, "store does not answer yet");
        }
    }

    /// Notes that the store answered.
    pub(super) fn store_answered(&self) {
        if let Some(away) = self.outage.ended(self.elapsed()) {
            let away_ms = u64::try_from(away.as_millis()).unwrap_or(u64::MAX);
            tracing::info!(store = self.store_name, away_ms, "store answers again");
        }
    }

    /// Logs which lanes were lost. Without an outage or a restart of the store, another relay has taken them over.
    pub(super) fn log_lost_lanes(&self, ownership: &Ownership) {
        let lanes = &ownership.lost;
        if lanes.is_empty() {
            return;
        }
        let lost: Vec<String> = lanes.iter().map(|lane| format!("{}@{}", lane.lane, lane.term)).collect();
        let (store, route, count, lost) = (&self.store_name, self.name(), lanes.len(), lost.join(" "));
        let away = self.is_store_away();
        if !away && ownership.given_up {
            // It was back before a call failed.
            self.outage.passed(self.elapsed());
            tracing::info!(store, "store was restarted; taking the lanes again");
        }
        if away || ownership.given_up {
            let why = "lanes lost while the store was away; taking them again";
            tracing::debug!(target: "postroom_relay::lanes", store, route, lanes = count, lost, "{why}");
        } else {
            tracing::warn!(store, route, lanes = count, lost, "another relay has taken over lanes");
        }
    }

    /// Returns whether the store is away, or was a short time ago: what follows from that is not news.
    pub(super) fn is_store_away(&self) -> bool {
        self.outage.is_recent(self.elapsed(), self.options.lease)
    }

    /// The text of a failure, where it quotes nobody.
    fn logged<'f>(&self, failure: &'f Failure) -> Option<&'f str> {
        self.capabilities.logs_errors.then_some(&*failure.error)
    }

    pub(super) fn log_unpublished_dead_letter(&self, delivery: &Delivery, attempts: u32, no: &Failure) {
        tracing::warn!(
            store = self.store_name,
            route = self.name(),
            event_id = delivery.event.id,
            event_type = delivery.event.event_type,
            tenant_id = delivery.event.tenant,
            trace_id = trace_id(&delivery.event),
            attempt = attempts,
            code = %no.code,
            error = self.logged(no),
            "cannot publish the dead letter"
        );
    }

    pub(super) fn log_verdict(&self, delivery: &Delivery, verdict: &Verdict, took: Duration) {
        let event = &delivery.event;
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        match verdict {
            Verdict::Retry { attempts, after, failure } => tracing::info!(
                store = self.store_name,
                route = self.name(),
                event_id = event.id,
                event_type = event.event_type,
                tenant_id = event.tenant,
                trace_id = trace_id(event),
                attempt = attempts,
                code = %failure.code,
                error = self.logged(failure),
                took_ms,
                retry_in_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
                "delivery failed and will be tried again"
            ),
            Verdict::Dead { attempts, failure, .. } => tracing::warn!(
                store = self.store_name,
                route = self.name(),
                event_id = event.id,
                event_type = event.event_type,
                tenant_id = event.tenant,
                trace_id = trace_id(event),
                attempt = attempts,
                code = %failure.code,
                error = self.logged(failure),
                took_ms,
                "delivery failed for good: dead letter"
            ),
            Verdict::Delivered(_) => tracing::debug!(
                store = self.store_name,
                route = self.name(),
                event_id = event.id,
                event_type = event.event_type,
                tenant_id = event.tenant,
                trace_id = trace_id(event),
                attempt = delivery.attempts + 1,
                took_ms,
                "delivered"
            ),
            Verdict::Returned => {}
        }
    }
}

/// The trace of an event, as tools for traces write it.
fn trace_id(event: &Event) -> String {
    format!("{:032x}", u128::from_be_bytes(TraceParent::trace_of(event)))
}

/// Writes an error and its causes in one line.
pub(super) fn chain(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
