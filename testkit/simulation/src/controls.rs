//! Deliberately broken variants. Each is a wrapper round a seam or a replaced small policy; the checker must catch
//! every one, or its silence about the real engine means nothing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postroom_admin::{Admin, ManagedStore};
use postroom_core::{
    Budget, Capabilities, Delivery, Failure, FailureKind, LaneTerm, Lease, Maintenance, Notified, Outbound, Outcome,
    Ownership, Receipt, RelayIdentity, Retain, RouteHealth, RouteSpec, Schema, Settlement, Source, Store, StoreError,
    Take, Transport, Verdict,
};
use tokio::sync::mpsc;

use crate::process::Process;

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Control {
    /// Nothing: the real engine.
    None,
    /// Deliveries are settled as delivered the moment they are taken.
    SettleBeforeDeliver,
    /// A failed event lets later events of its key pass.
    RetryLetsTheKeyPass,
    /// A settle whose term is over counts as done.
    SettleWithoutTerm,
    /// An outage counts as a failure of the event.
    AttemptCountedInOutage,
    /// A consumer that has its effect first and accepts afterwards.
    AcceptAfterEffect,
    /// Every settle also covers what is still on its way.
    CheckpointAhead,
    /// The lease is believed for ten times its length.
    LeaseByOwnClock,
    /// A slot comes back when the outcome is known, not when it is in the store.
    InFlightUntilAck,
    /// What is returned untried is forgotten.
    ReturnedIsForgotten,
    /// A new owner starts after what the old one had taken.
    TakeOverForgetsUnsettled,
}

impl Control {
    /// Every broken variant.
    pub const BROKEN: [Control; 10] = [
        Control::SettleBeforeDeliver,
        Control::RetryLetsTheKeyPass,
        Control::SettleWithoutTerm,
        Control::AttemptCountedInOutage,
        Control::AcceptAfterEffect,
        Control::CheckpointAhead,
        Control::LeaseByOwnClock,
        Control::InFlightUntilAck,
        Control::ReturnedIsForgotten,
        Control::TakeOverForgetsUnsettled,
    ];

    /// The store as a relay of this variant sees it.
    pub(super) fn store(self, inner: Arc<dyn ManagedStore>, process: &Arc<Process>) -> Arc<dyn ManagedStore> {
        match self {
            Self::None
            | Self::RetryLetsTheKeyPass
            | Self::SettleWithoutTerm
            | Self::AttemptCountedInOutage
            | Self::AcceptAfterEffect => inner,
            _ => Arc::new(BrokenStore { control: self, inner, process: process.clone() }),
        }
    }

    /// The store itself in this variant.
    pub(super) fn database(self, inner: Arc<dyn ManagedStore>, process: &Arc<Process>) -> Arc<dyn ManagedStore> {
        match self {
            Self::SettleWithoutTerm => Arc::new(BrokenStore { control: self, inner, process: process.clone() }),
            _ => inner,
        }
    }

    /// The transport as this variant sees it.
    pub(super) fn transport(self, inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        match self {
            Self::AttemptCountedInOutage => Arc::new(OutageIsFailure { inner }),
            _ => inner,
        }
    }
}

struct BrokenStore {
    control: Control,
    inner: Arc<dyn ManagedStore>,
    process: Arc<Process>,
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Store for BrokenStore {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn source(&self, relay: &RelayIdentity, route: &RouteSpec) -> Result<Arc<dyn Source>, StoreError> {
        let inner = self.inner.source(relay, route).await?;
        Ok(Arc::new(BrokenSource {
            control: self.control,
            inner,
            process: self.process.clone(),
            handed: Mutex::default(),
            fresh: Mutex::new(true),
        }))
    }

    fn retain(&self) -> Arc<dyn Retain> {
        self.inner.retain()
    }

    fn schema(&self) -> Option<Arc<dyn Schema>> {
        self.inner.schema()
    }

    fn maintenance(&self) -> Option<Arc<dyn Maintenance>> {
        self.inner.maintenance()
    }
}

impl ManagedStore for BrokenStore {
    fn admin(&self) -> Arc<dyn Admin> {
        self.inner.admin()
    }
}

struct BrokenSource {
    control: Control,
    inner: Arc<dyn Source>,
    process: Arc<Process>,
    handed: Mutex<Vec<(i64, LaneTerm)>>,
    fresh: Mutex<bool>,
}

impl BrokenSource {
    fn delivered(deliveries: &[Delivery]) -> Vec<Settlement> {
        deliveries.iter().map(|d| delivered(d.handle, d.lane)).collect()
    }
}

fn delivered(handle: i64, lane: LaneTerm) -> Settlement {
    Settlement { handle, lane, verdict: Verdict::Delivered(Receipt::default()), took: Duration::ZERO }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Source for BrokenSource {
    async fn take(&self, budget: Budget) -> Result<Take, StoreError> {
        let mut take = self.inner.take(budget).await?;
        match self.control {
            Control::SettleBeforeDeliver => {
                let _ = self.inner.settle(&Self::delivered(&take.deliveries)).await?;
            }
            Control::CheckpointAhead => {
                let handed = take.deliveries.iter().map(|d| (d.handle, d.lane));
                self.handed.lock().expect("never poisoned").extend(handed);
            }
            Control::TakeOverForgetsUnsettled if !take.deliveries.is_empty() => {
                let first = std::mem::replace(&mut *self.fresh.lock().expect("never poisoned"), false);
                if first {
                    let _ = self.inner.settle(&Self::delivered(&take.deliveries)).await?;
                    take.deliveries.clear();
                }
            }
            _ => {}
        }
        Ok(take)
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Ownership, StoreError> {
        match self.control {
            Control::SettleWithoutTerm => {
                let mut ownership = self.inner.settle(settlements).await?;
                ownership.lost.clear();
                Ok(ownership)
            }
            Control::CheckpointAhead => {
                let mut all = settlements.to_vec();
                let handed = std::mem::take(&mut *self.handed.lock().expect("never poisoned"));
                let known: Vec<i64> = settlements.iter().map(|s| s.handle).collect();
                all.extend(handed.into_iter().filter(|(h, _)| !known.contains(h)).map(|(h, lane)| delivered(h, lane)));
                self.inner.settle(&all).await
            }
            Control::InFlightUntilAck => {
                let (inner, process, settlements) = (self.inner.clone(), self.process.clone(), settlements.to_vec());
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(700)).await;
                    process.step(super::process::Step::BeforeSettle).await;
                    let _ = inner.settle(&settlements).await;
                });
                Ok(Ownership { lanes: 1, ..Ownership::default() })
            }
            Control::ReturnedIsForgotten => {
                let mut all = settlements.to_vec();
                for settlement in all.iter_mut().filter(|s| s.verdict == Verdict::Returned) {
                    settlement.verdict = Verdict::Delivered(Receipt::default());
                }
                self.inner.settle(&all).await
            }
            _ => self.inner.settle(settlements).await,
        }
    }

    async fn renew(&self, health: &RouteHealth) -> Result<Lease, StoreError> {
        let mut lease = self.inner.renew(health).await?;
        if self.control == Control::LeaseByOwnClock {
            lease.valid_for *= 10;
        }
        Ok(lease)
    }

    async fn release(&self) -> Result<(), StoreError> {
        self.inner.release().await
    }

    async fn disable(&self, failure: &Failure) -> Result<(), StoreError> {
        self.inner.disable(failure).await
    }

    async fn is_drained(&self) -> Result<bool, StoreError> {
        self.inner.is_drained().await
    }

    fn bound(&self, deliveries: usize) {
        self.inner.bound(deliveries);
    }

    fn holds_transactions(&self) -> bool {
        self.inner.holds_transactions()
    }

    fn notified(&self) -> Notified {
        self.inner.notified()
    }

    fn watch(&self, every: Duration) -> bool {
        self.inner.watch(every)
    }
}

/// Reports an outage as the event's own failure.
#[derive(Debug)]
struct OutageIsFailure {
    inner: Arc<dyn Transport>,
}

#[async_trait]
impl Transport for OutageIsFailure {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        let (report, mut reports) = mpsc::unbounded_channel::<(u64, Outcome)>();
        let mut originals = Vec::new();
        let mut copies = Vec::new();
        for (ticket, outbound) in (0..).zip(batch) {
            let (event, attempt, position) = (outbound.event.clone(), outbound.attempt, outbound.position);
            let mut copy = Outbound::new(ticket, attempt, event, position, report.clone());
            copy.round = outbound.round;
            copies.push(copy);
            originals.push(Some(outbound));
        }
        drop(report);
        self.inner.deliver(copies).await;
        tokio::spawn(async move {
            while let Some((ticket, mut outcome)) = reports.recv().await {
                if let Err(failure) = &mut outcome
                    && failure.kind == FailureKind::Unavailable
                {
                    failure.kind = FailureKind::Transient;
                }
                if let Some(original) = usize::try_from(ticket).ok().and_then(|n| originals.get_mut(n)?.take()) {
                    original.report(outcome);
                }
            }
        });
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
