//! Keeps the relay processes of a run alive, and ends them as the plan says.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use postroom_admin::ManagedStore;
use postroom_core::{BreakerPolicy, Budget, Delays, RetryPolicy};
use postroom_relay::{Relay, RelayOptions, Route, SystemClock};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use crate::destination::Road;
use crate::faulty::{FaultyStore, FaultyTransport, LeaseWatch};
use crate::process::{Process, Step};
use crate::world::World;

/// How long a stop may take; longer counts as a fault.
const GRACE: Duration = Duration::from_secs(10);

/// What a relay's supervisor is told.
pub(super) enum Order {
    Kill { down_for: Duration },
    Arm { step: Step, times: u32, down_for: Duration },
    Freeze { lasts: Duration },
    Restart { down_for: Duration },
}

impl World {
    /// Keeps one relay running, life after life.
    pub(super) async fn supervise(self: Arc<Self>, relay: usize, mut orders: mpsc::UnboundedReceiver<Order>) {
        let mut life = 0;
        let mut down_for = Duration::ZERO;
        loop {
            sleep(down_for).await;
            life += 1;
            let process = Process::new();
            let (stop, stopped) = oneshot::channel::<()>();
            let running = tokio::spawn(self.relay(relay, life, &process).run(async move {
                if stopped.await.is_err() {
                    std::future::pending::<()>().await;
                }
            }));
            down_for = Duration::from_millis(100);
            loop {
                tokio::select! {
                    biased;
                    () = process.died.notified() => {
                        self.notes.costly.fetch_add(1, Ordering::Relaxed);
                        break;
                    }
                    order = orders.recv() => match order {
                        Some(Order::Kill { down_for: pause }) => {
                            down_for = pause;
                            process.kill();
                        }
                        Some(Order::Arm { step, times, down_for: pause }) => {
                            down_for = pause;
                            process.arm(step, times);
                        }
                        Some(Order::Freeze { lasts }) => {
                            process.freeze();
                            let process = process.clone();
                            tokio::spawn(async move {
                                sleep(lasts).await;
                                process.thaw();
                            });
                        }
                        Some(Order::Restart { down_for: pause }) => {
                            down_for = pause;
                            let asked = Instant::now();
                            let _ = stop.send(());
                            let ended = async {
                                while !running.is_finished() {
                                    sleep(Duration::from_millis(10)).await;
                                }
                            };
                            let died = tokio::select! {
                                biased;
                                () = process.died.notified() => true,
                                () = ended => false,
                            };
                            if died || asked.elapsed() >= GRACE {
                                self.notes.costly.fetch_add(1, Ordering::Relaxed);
                            }
                            break;
                        }
                        None => std::future::pending().await,
                    },
                }
            }
            running.abort();
        }
    }

    fn relay(&self, relay: usize, life: u64, process: &Arc<Process>) -> Relay {
        let lease = Arc::new(LeaseWatch::default());
        let inner = self.control.database(Arc::new(self.store.clone()), process);
        let faulty: Arc<dyn ManagedStore> = Arc::new(FaultyStore {
            inner,
            process: process.clone(),
            weather: self.weather[relay].clone(),
            lease: lease.clone(),
            unfenced: self.unfenced.clone(),
            handed_out: self.handed_out.clone(),
        });
        let store = self.control.store(faulty, process);
        let options = RelayOptions::default()
            .name(format!("relay-{relay}"))
            .lease(self.plan.lease)
            .in_flight_max(self.plan.in_flight_max)
            .shutdown_grace(GRACE)
            .take(Budget { rows: self.plan.take_rows, bytes: 1 << 20 })
            .retention(None);
        let retry = RetryPolicy::default()
            .delays(Delays::Exponential { base: Duration::from_millis(40), max: Duration::from_millis(400) })
            .jitter(0.2)
            .attempts(self.plan.attempts);
        let relay = Relay::new(store)
            .options(options)
            .clock(Arc::new(SystemClock::new()))
            .deterministic(format!("boot-{relay}-{life}"), self.seed ^ (life << 8) ^ relay as u64);
        self.roads.iter().fold(relay, |relay, road| {
            let transport = FaultyTransport {
                inner: self.control.transport(Arc::new(Road(road.destination.clone()))),
                process: process.clone(),
                lease: lease.clone(),
                unleased: self.unleased.clone(),
            };
            let breaker = BreakerPolicy::default().cooldown(Duration::from_millis(100));
            relay.route(Route::from_spec(road.definition.clone()).retry(retry.clone()).breaker(breaker).to(transport))
        })
    }
}
