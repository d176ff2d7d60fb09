//! Every answer and error as an outcome: kind, stable code, one line.
//!
//! | code | kind | when |
//! | --- | --- | --- |
//! | `webhook.rejected` | permanent | 400, 413, 415, 422: this event will never do |
//! | `webhook.header` | permanent | a header of the event that HTTP cannot carry |
//! | `webhook.status_N` | transient | any other answer |
//! | `webhook.status_429`, `_502`, `_503`, `_504` | unavailable | too many requests; nobody behind the gateway |
//! | `webhook.redirect` | transient | 3xx; never followed |
//! | `webhook.gone` | gone | 410 |
//! | `webhook.timeout` | unavailable | no answer in time |
//! | `webhook.cut` | transient | the connection ended before the answer, twice |
//! | `webhook.answer` | transient | an answer that is not HTTP, or has a head over the limits |
//! | `webhook.refused` | unavailable | no connection: refused, unreachable, or none within `connect_timeout` |
//! | `webhook.dns`, `.tls` | unavailable | no such name; a certificate or protocol that cannot be trusted |
//! | `webhook.address` | unavailable | the name leads to an address that is not public |
//! | `webhook.options` | unavailable | the transport cannot be made |
//! | `webhook.closed` | unavailable | the transport was closed meanwhile |

use std::error::Error;
use std::io;
use std::time::Duration;

use postroom_core::{Failure, units};
use reqwest::StatusCode;

use crate::options::{WebhookError, WebhookOptions};
use crate::resolver::LookupError;

/// How a try ended, as coarsely as a graph wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// An answer with this status.
    Status(StatusCode),
    /// None in time.
    Timeout,
    /// None at all.
    Refused,
}

impl Class {
    /// The word: `2xx`, `429`, `timeout`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Status(StatusCode::TOO_MANY_REQUESTS) => "429",
            Self::Status(status) => match status.as_u16() / 100 {
                2 => "2xx",
                3 => "3xx",
                4 => "4xx",
                _ => "5xx",
            },
            Self::Timeout => "timeout",
            Self::Refused => "refused",
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The connection was there and ended before an answer. An idle one that the receiver has just closed looks
    /// like this, too.
    Cut(String),
    /// Anything else.
    Failed(Class, Failure),
}

/// Knows whom the failures are about.
#[derive(Debug)]
pub(crate) struct Failures {
    receiver: String,
    connect_timeout: Duration,
}

impl Failures {
    pub(crate) fn new(options: &WebhookOptions) -> Self {
        let receiver = match &options.proxy {
            Some(proxy) => format!("{} through the proxy {proxy}", options.receiver()),
            None => options.receiver(),
        };
        Self { receiver, connect_timeout: options.connect_timeout }
    }

    /// What an answer other than 2xx means. `said` is the beginning of its body.
    pub(crate) fn answered(&self, status: StatusCode, retry_after: Option<Duration>, said: &str) -> Failure {
        let mut text = format!("{} answered {status}", self.receiver);
        if status.is_redirection() {
            text.push_str(", and redirects are not followed: give the URL it leads to");
        }
        if !said.is_empty() {
            text.push_str(": ");
            text.push_str(said);
        }
        let numbered = || format!("webhook.status_{}", status.as_u16());
        let failure = match status.as_u16() {
            410 => Failure::gone("webhook.gone", text),
            429 | 502 | 503 | 504 => Failure::unavailable(numbered(), text),
            400 | 413 | 415 | 422 => Failure::permanent("webhook.rejected", text),
            300..=399 => Failure::transient("webhook.redirect", text),
            _ => Failure::transient(numbered(), text),
        };
        match retry_after {
            Some(after) => failure.retry_after(after),
            None => failure,
        }
    }

    /// What it means that no answer came from the client.
    pub(crate) fn unanswered(&self, error: &reqwest::Error) -> NoAnswer {
        let refused = |failure| NoAnswer::Failed(Class::Refused, failure);
        let (receiver, cause) = (&self.receiver, innermost(error));
        if let Some(lookup) = find::<LookupError>(error) {
            return refused(self.unresolved(lookup));
        }
        if error.is_dns() {
            return refused(Failure::unavailable("webhook.dns", format!("{receiver} cannot be found: {cause}")));
        }
        if let Some(tls) = find::<rustls::Error>(error) {
            return refused(self.distrusted(tls));
        }
        if error.is_connect() {
            let why = if error.is_timeout() {
                format!("no connection within {}", units::format_duration(self.connect_timeout))
            } else {
                cause
            };
            return refused(self.refused(&why));
        }
        if find::<hyper::Error>(error).is_some_and(hyper::Error::is_parse) {
            let text =
                format!("{receiver} answered with something that is not HTTP, or more of it than is read: {cause}");
            return refused(Failure::transient("webhook.answer", text));
        }
        NoAnswer::Cut(cause)
    }

    /// The name led nowhere.
    pub(crate) fn unresolved(&self, error: &LookupError) -> Failure {
        match error {
            LookupError::Refused { .. } => Failure::unavailable(
                "webhook.address",
                format!(
                    "nothing is sent to {}: {error}; put its network into allow_networks if that is meant",
                    self.receiver
                ),
            ),
            LookupError::Failed { .. } => Failure::unavailable("webhook.dns", error.to_string()),
        }
    }

    /// TLS said no, on either side.
    pub(crate) fn distrusted(&self, error: &rustls::Error) -> Failure {
        Failure::unavailable("webhook.tls", format!("no trusted connection to {}: {error}", self.receiver))
    }

    /// Nobody there.
    pub(crate) fn refused(&self, why: &str) -> Failure {
        Failure::unavailable("webhook.refused", format!("{} is not reachable: {why}", self.receiver))
    }

    /// The connection ended twice before an answer.
    pub(crate) fn cut(&self, why: &str) -> Failure {
        let text = format!("{} ended the connection before it answered, and a second one too: {why}", self.receiver);
        Failure::transient("webhook.cut", text)
    }

    /// It took too long.
    pub(crate) fn timed_out(&self, within: Duration) -> Failure {
        let text = format!("{} did not answer within {}", self.receiver, units::format_duration(within));
        Failure::unavailable("webhook.timeout", text)
    }
}

/// These options give no transport.
pub(crate) fn unusable(error: &WebhookError) -> Failure {
    Failure::unavailable("webhook.options", error.to_string())
}

/// The transport is closed.
pub(crate) fn closed() -> Failure {
    Failure::unavailable("webhook.closed", "the transport is closed; the event is sent again by the next relay")
}

/// The first error of this type among an error and its causes.
pub(crate) fn find<'e, T: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e T> {
    causes(error).find_map(|cause| cause.downcast_ref::<T>())
}

fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'e (dyn Error + 'static)| -> Option<&'e (dyn Error + 'static)> {
        let error: &'e (dyn Error + 'static) = *error;
        // The `source` of an I/O error made of another error is not that error, but what is behind it.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inner.map(|inner| inner as &(dyn Error + 'static)).or_else(|| error.source())
    })
}

#[cfg(test)]
mod tests {
    use postroom_core::FailureKind::{Gone, Permanent, Transient, Unavailable};
    use url::Url;

    use super::*;

    fn failures() -> Failures {
        Failures::new(&WebhookOptions::new(Url::parse("https://hooks.example/canary?token=canary").unwrap()))
    }

    #[test]
    fn every_answer_has_a_kind_and_a_code() {
        let wait = Some(Duration::from_secs(7));
        for (status, retry_after, kind, code, class) in [
            (100, None, Transient, "webhook.status_100", "5xx"),
            (301, None, Transient, "webhook.redirect", "3xx"),
            (302, None, Transient, "webhook.redirect", "3xx"),
            (304, None, Transient, "webhook.redirect", "3xx"),
            (307, None, Transient, "webhook.redirect", "3xx"),
            (400, None, Permanent, "webhook.rejected", "4xx"),
            (401, None, Transient, "webhook.status_401", "4xx"),
            (403, None, Transient, "webhook.status_403", "4xx"),
            (404, None, Transient, "webhook.status_404", "4xx"),
            (408, None, Transient, "webhook.status_408", "4xx"),
            (410, None, Gone, "webhook.gone", "4xx"),
            (413, None, Permanent, "webhook.rejected", "4xx"),
            (415, None, Permanent, "webhook.rejected", "4xx"),
            (422, None, Permanent, "webhook.rejected", "4xx"),
            (429, None, Unavailable, "webhook.status_429", "429"),
            (429, wait, Unavailable, "webhook.status_429", "429"),
            (500, None, Transient, "webhook.status_500", "5xx"),
            (502, wait, Unavailable, "webhook.status_502", "5xx"),
            (503, None, Unavailable, "webhook.status_503", "5xx"),
            (503, wait, Unavailable, "webhook.status_503", "5xx"),
            (504, None, Unavailable, "webhook.status_504", "5xx"),
            (999, None, Transient, "webhook.status_999", "5xx"),
        ] {
            let code_of = StatusCode::from_u16(status).unwrap();
            let failure = failures().answered(code_of, retry_after, "no thanks");
            assert_eq!((failure.kind, &*failure.code, failure.retry_after), (kind, code, retry_after), "{status}");
            assert!(failure.error.contains("https://hooks.example answered") && failure.error.contains("no thanks"));
            assert!(!failure.error.contains("canary"), "{}", failure.error);
            assert_eq!(Class::Status(code_of).as_str(), class, "{status}");
        }
    }

    #[test]
    fn an_error_inside_an_io_error_is_found() {
        let error = io::Error::other(rustls::Error::HandshakeNotComplete);
        assert!(find::<rustls::Error>(&error).is_some());
        assert_eq!(innermost(&error), "handshake not complete");
    }
}
