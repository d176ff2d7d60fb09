//! A write that comes again with the same `Idempotency-Key` is answered as before, and not done again.
//!
//! The relay that answered remembers it, for a day or until very many came since. A key that comes with another request is
//! refused, and so is one whose first request is still being answered.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, to_bytes};
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};

use super::problem::Problem;

/// How long an answer is remembered, and how many are.
const REMEMBERED: Duration = Duration::from_hours(24);
const REMEMBERED_MAX: usize = 10_000;
/// Largest answer that is remembered.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Longest key.
const KEY_BYTES_MAX: usize = 255;

/// Answers to writes.
#[derive(Debug, Default)]
pub(crate) struct Answered(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By the key, and whoever sent it.
    answers: BTreeMap<[u8; 32], Entry>,
    /// Oldest first.
    order: VecDeque<(Instant, [u8; 32])>,
}

#[derive(Debug)]
struct Entry {
    request: [u8; 32],
    /// `None` while it is being answered.
    answer: Option<(StatusCode, Option<HeaderValue>, Bytes)>,
}

/// Does the work, unless a request with the same key was answered already.
pub(super) async fn once(
    answered: &Answered,
    parts: &Parts,
    body: &[u8],
    work: impl Future<Output = Result<Response, Problem>>,
) -> Result<Response, Problem> {
    let Some(key) = parts.headers.get("idempotency-key") else { return work.await };
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        let why = format!("must have 1 to {KEY_BYTES_MAX} characters");
        return Err(Problem::parameter("Idempotency-Key", &why, "for instance a UUID, new for every write"));
    }
    let token = parts.headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    let key = digest(&[token, key.as_bytes()]);
    let target = parts.uri.path_and_query().map(PathAndQuery::as_str).unwrap_or_default();
    let request = digest(&[parts.method.as_str().as_bytes(), target.as_bytes(), body]);
    if let Some(response) = answered.begin(key, request)? {
        return Ok(response);
    }
    // However it ends, the key is free again unless there is an answer to remember.
    let open = Open { answered, key, done: false };
    let response = work.await.unwrap_or_else(Problem::into_response);
    open.end(response).await
}

/// A request that is being answered.
struct Open<'a> {
    answered: &'a Answered,
    key: [u8; 32],
    done: bool,
}

impl Open<'_> {
    async fn end(mut self, response: Response) -> Result<Response, Problem> {
        // What failed on our side may be tried again under the same key.
        if response.status().is_server_error() {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, ANSWER_BYTES_MAX).await.map_err(|_| Problem::body("the answer is too large"))?;
        let kind = parts.headers.get(header::CONTENT_TYPE).cloned();
        self.answered.end(self.key, (parts.status, kind, body.clone()));
        self.done = true;
        Ok(Response::from_parts(parts, Body::from(body)))
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.answered.lock().answers.remove(&self.key);
        }
    }
}

impl Answered {
    /// The answer there was, or nothing: then the caller does the work.
    fn begin(&self, key: [u8; 32], request: [u8; 32]) -> Result<Option<Response>, Problem> {
        let mut state = self.lock();
        state.forget();
        let Some(entry) = state.answers.get(&key) else {
            state.answers.insert(key, Entry { request, answer: None });
            return Ok(None);
        };
        if entry.request != request {
            let detail = "this Idempotency-Key came with another request before";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "http.key_reused", detail)
                .hint("use a new key for every write"));
        }
        let Some((status, kind, body)) = &entry.answer else {
            let detail = "a request with this Idempotency-Key is being answered";
            return Err(Problem::new(StatusCode::CONFLICT, "http.key_busy", detail).hint("ask again in a moment"));
        };
        let mut response = (*status, body.clone()).into_response();
        response.headers_mut().remove(header::CONTENT_TYPE);
        response.headers_mut().extend(kind.clone().map(|kind| (header::CONTENT_TYPE, kind)));
        response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
        Ok(Some(response))
    }

    fn end(&self, key: [u8; 32], answer: (StatusCode, Option<HeaderValue>, Bytes)) {
        let mut state = self.lock();
        if let Some(entry) = state.answers.get_mut(&key) {
            entry.answer = Some(answer);
            state.order.push_back((Instant::now(), key));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn forget(&mut self) {
        while let Some((at, key)) = self.order.front() {
            if at.elapsed() < REMEMBERED && self.order.len() <= REMEMBERED_MAX {
                break;
            }
            self.answers.remove(key);
            self.order.pop_front();
        }
    }
}

fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}
