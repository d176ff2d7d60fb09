//! The transport: one task per delivery, as many at once as the receiver may be asked.
//!
//! ```text
//!   handed over ──► waits for a slot ──► sent ──► answered ──► reported ──► the rest of the answer is read
//!                                         │ cut before an answer
//!                                         └──► sent once more, over a fresh connection ──► …
//! ```
//!
//! What a request looks like is [`crate::message`], what an answer means is [`crate::failures`].

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use postroom_core::envelope::Encoder;
use postroom_core::{Capabilities, Diagnostic, Failure, Outbound, Outcome, Receipt, Transport};
use reqwest::header::RETRY_AFTER;
use reqwest::{Request, Response};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::LOG;
use crate::check::check;
use crate::connection::{Connection, rest};
use crate::failures::{self, Class, Failures, NoAnswer, closed};
use crate::message::Requests;
use crate::options::{WebhookError, WebhookOptions};
use crate::resolver::Resolver;
use crate::retry_after;

/// Transport to a URL. See the [crate].
pub struct Webhook {
    name: String,
    options: WebhookOptions,
    encoder: Encoder,
    resolver: Resolver,
    // Made at the first delivery, and again while it cannot be made; gone once it is closed.
    route: Mutex<Option<Arc<Route>>>,
    deliveries: TaskTracker,
    closing: CancellationToken,
}

/// What every delivery needs.
#[derive(Debug)]
struct Route {
    name: String,
    requests: Requests,
    connection: Connection,
    failures: Failures,
    slots: Semaphore,
    first_byte_timeout: Duration,
    timeout: Duration,
}

/// How a try ended, and what is left of the answer.
struct Ending {
    class: Class,
    outcome: Outcome,
    rest: Option<Response>,
}

impl Webhook {
    /// A transport with these options; the encoder is one of [`Binding::Http`](postroom_core::envelope::Binding::Http).
    /// Nothing is read or connected before the first delivery. Options that give no client, because a certificate's file
    /// has vanished for instance, fail each delivery until they do.
    pub fn new(route: impl Into<String>, options: WebhookOptions, encoder: Encoder) -> Self {
        let resolver = Resolver::new(options.guard());
        Self::with_resolver(route.into(), options, encoder, resolver)
    }

    pub(crate) fn with_resolver(name: String, options: WebhookOptions, encoder: Encoder, resolver: Resolver) -> Self {
        Self {
            name,
            options,
            encoder,
            resolver,
            route: Mutex::new(None),
            deliveries: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }

    fn route(&self) -> Result<Arc<Route>, Failure> {
        let mut made = self.route.lock().unwrap_or_else(PoisonError::into_inner);
        if self.closing.is_cancelled() {
            return Err(closed());
        }
        if let Some(route) = &*made {
            return Ok(Arc::clone(route));
        }
        let route = Arc::new(self.make().map_err(|error| failures::unusable(&error))?);
        *made = Some(Arc::clone(&route));
        Ok(route)
    }

    fn make(&self) -> Result<Route, WebhookError> {
        let options = &self.options;
        options.check()?;
        Ok(Route {
            name: self.name.clone(),
            requests: Requests::new(options, self.encoder.clone()),
            connection: Connection::new(options, &self.resolver)?,
            failures: Failures::new(options),
            slots: Semaphore::new(options.concurrency.max(1)),
            first_byte_timeout: options.first_byte_timeout,
            timeout: options.timeout,
        })
    }
}

#[async_trait]
impl Transport for Webhook {
    fn capabilities(&self) -> Capabilities {
        Capabilities { in_flight_max: Some(self.options.concurrency.max(1)), ..Capabilities::plain("webhook") }
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        match self.route() {
            Ok(route) => {
                for outbound in batch {
                    self.deliveries.spawn(Arc::clone(&route).deliver(outbound, self.closing.clone()));
                }
            }
            Err(failure) => Outbound::report_all(batch, &failure),
        }
    }

    async fn check(&self) -> Vec<Diagnostic> {
        check(&self.options, &self.resolver).await
    }

    async fn close(&self) {
        self.closing.cancel();
        drop(self.route.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.deliveries.close();
        self.deliveries.wait().await;
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Route {
    /// One delivery, from its turn to the end of the answer.
    async fn deliver(self: Arc<Self>, outbound: Outbound, closing: CancellationToken) {
        let exchange = async {
            // Nobody closes the semaphore.
            let slot = self.slots.acquire().await;
            let deadline = Instant::now() + self.timeout;
            let ending = match self.requests.of(&outbound, Timestamp::now()) {
                Ok(request) => Ok(self.exchange(request, &outbound, deadline).await),
                Err(failure) => Err(failure),
            };
            (ending, deadline, slot)
        };
        let ended = tokio::select! {
            biased;
            () = closing.cancelled() => None,
            ended = exchange => Some(ended),
        };
        match ended {
            None => outbound.report(Err(closed())),
            // Never sent, so nobody answered.
            Some((Err(failure), ..)) => outbound.report(Err(failure)),
            Some((Ok(ending), deadline, _slot)) => {
                tracing::debug!(
                    target: LOG, route = self.name, event_id = outbound.event.id, class = ending.class.as_str(), "tried"
                );
                outbound.report(ending.outcome);
                if let Some(response) = ending.rest {
                    tokio::select! {
                        () = closing.cancelled() => {}
                        _ = rest(response, deadline) => {}
                    }
                }
            }
        }
    }

    async fn exchange(&self, request: Request, outbound: &Outbound, deadline: Instant) -> Ending {
        let patience = deadline.min(Instant::now() + self.first_byte_timeout);
        let head = match timeout_at(patience, self.head(request, outbound)).await {
            Ok(head) => head,
            Err(_) => Err((Class::Timeout, self.failures.timed_out(self.first_byte_timeout.min(self.timeout)))),
        };
        let response = match head {
            Ok(response) => response,
            Err((class, failure)) => return Ending { class, outcome: Err(failure), rest: None },
        };
        let status = response.status();
        let class = Class::Status(status);
        if status.is_success() {
            // Whatever follows, the receiver has said that it has it.
            return Ending { class, outcome: Ok(Receipt::default()), rest: Some(response) };
        }
        let wish = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let wish = wish.and_then(|text| retry_after::parse(text, Timestamp::now()));
        let said = rest(response, deadline).await;
        Ending { class, outcome: Err(self.failures.answered(status, wish, &said)), rest: None }
    }

    /// The head of the answer. A connection that ends before one is replaced once: most likely it was kept from an
    /// earlier request, and the receiver had closed it before this one came.
    async fn head(&self, request: Request, outbound: &Outbound) -> Result<Response, (Class, Failure)> {
        let mut missing = match self.connection.send(request).await {
            Ok(response) => return Ok(response),
            Err(error) => self.failures.unanswered(&error),
        };
        if let NoAnswer::Cut(why) = &missing
            && let Ok(again) = self.requests.of(outbound, Timestamp::now())
        {
            tracing::debug!(target: LOG, route = self.name, why, "connection closed before a response; retrying once");
            missing = match self.connection.send_afresh(again).await {
                Ok(response) => return Ok(response),
                Err(error) => self.failures.unanswered(&error),
            };
        }
        Err(match missing {
            NoAnswer::Failed(class, failure) => (class, failure),
            NoAnswer::Cut(why) => (Class::Refused, self.failures.cut(&why)),
        })
    }
}
