//! Who asks, and what they may.

use axum::http::{HeaderMap, header};
use postroom_core::Secret;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::problem::Problem;
use crate::config::HttpConfig;

/// Says who may.
#[derive(Debug)]
pub(crate) struct Guard {
    metrics: Option<Fingerprint>,
}

/// What is kept of a secret: equal ones are found in a time that tells nothing about the others.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(crate) fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fingerprint(***)")
    }
}

impl Guard {
    pub(crate) fn new(config: &HttpConfig) -> Self {
        let metrics = config.metrics_token.as_ref().map(|token: &Secret| Fingerprint::of(token.expose()));
        Self { metrics }
    }

    /// Whether metrics may be read: with the token for them, or where there is none: then only this machine can ask.
    pub(crate) fn may_read_metrics(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(metrics) = &self.metrics else { return Ok(()) };
        let given = given(headers).map(|token| Fingerprint::of(&token));
        if given.is_some_and(|given| given.is(metrics)) { Ok(()) } else { Err(Problem::unauthorized()) }
    }
}

/// The token of a request.
fn given(headers: &HeaderMap) -> Option<String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text(header::AUTHORIZATION.as_str()).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    bearer.or_else(|| text("x-metrics-token")).filter(|token| !token.is_empty()).map(str::to_owned)
}
