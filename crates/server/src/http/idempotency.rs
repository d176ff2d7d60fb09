//! A write that comes again with the same `Idempotency-Key` is answered as before, and not done again.
//!
//! The relay that answered remembers it, for a day or until there is no room: the room is bounded in bytes, in all and per
//! caller. A key belongs to the caller who sent it. A key that comes with another request is refused, and so is one whose
//! first request is still being answered. Answers with secrets and leases are never remembered: those endpoints have no keys.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, to_bytes};
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};

use super::auth::Caller;
use super::problem::Problem;

/// How long an answer is remembered.
const REMEMBERED: Duration = Duration::from_hours(24);
/// Bytes of answers that are remembered, in all and of one caller; the oldest ones go first.
const BYTES_MAX: usize = 16 << 20;
const BYTES_OF_CALLER_MAX: usize = 4 << 20;
/// Largest answer that is remembered; a larger one is answered all the same.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// What an answer takes beside its bytes.
const ENTRY_BYTES: usize = 512;
/// Longest key.
const KEY_BYTES_MAX: usize = 255;

/// Answers to writes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answered(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// By the key and the caller who sent it.
    answers: BTreeMap<Id, Entry>,
    /// Oldest first.
    order: VecDeque<(Instant, Id)>,
    bytes: usize,
}

/// A caller and a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    caller: [u8; 32],
    key: [u8; 32],
}

#[derive(Debug)]
struct Entry {
    request: [u8; 32],
    /// `None` while it is being answered.
    answer: Option<(StatusCode, Option<HeaderValue>, Bytes)>,
}

/// A write as it was asked for.
pub(super) struct Write {
    id: Option<Id>,
    request: [u8; 32],
}

impl Write {
    /// Reads the key of a request, if it has one.
    pub(super) fn read(caller: &Caller, parts: &Parts, body: &[u8]) -> Result<Self, Problem> {
        let id = key(&parts.headers)?.map(|key| Id { caller: digest(&[caller.key().as_bytes()]), key: digest(&[key]) });
        let target = parts.uri.path_and_query().map(PathAndQuery::as_str).unwrap_or_default();
        Ok(Self { id, request: digest(&[parts.method.as_str().as_bytes(), target.as_bytes(), body]) })
    }
}

fn key(headers: &HeaderMap) -> Result<Option<&[u8]>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        let why = format!("must have 1 to {KEY_BYTES_MAX} characters");
        return Err(Problem::parameter("Idempotency-Key", &why, "for instance a UUID, new for every write"));
    }
    Ok(Some(key.as_bytes()))
}

impl Answered {
    /// Does the work, unless a request with the same key was answered already.
    pub(super) async fn once(
        &self,
        write: Write,
        work: impl Future<Output = Result<Response, Problem>>,
    ) -> Result<Response, Problem> {
        let Some(id) = write.id else { return work.await };
        if let Some(response) = self.begin(id, write.request)? {
            return Ok(response);
        }
        // However it ends, the key is free again unless there is an answer to remember.
        let open = Open { answered: self, id, done: false };
        let response = work.await.unwrap_or_else(Problem::into_response);
        open.end(response).await
    }

    /// The answer there was, or nothing: then the caller does the work.
    fn begin(&self, id: Id, request: [u8; 32]) -> Result<Option<Response>, Problem> {
        let mut state = self.lock();
        state.forget_old();
        let Some(entry) = state.answers.get(&id) else {
            state.answers.insert(id, Entry { request, answer: None });
            return Ok(None);
        };
        if entry.request != request {
            let detail = "this Idempotency-Key was used for another request before";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "http.key_reused", detail)
                .hint("use a new key for every write"));
        }
        let Some((status, kind, body)) = &entry.answer else {
            let detail = "a request with this Idempotency-Key is in progress";
            return Err(Problem::new(StatusCode::CONFLICT, "http.key_busy", detail).hint("retry in a moment"));
        };
        let mut response = (*status, body.clone()).into_response();
        response.headers_mut().remove(header::CONTENT_TYPE);
        response.headers_mut().extend(kind.clone().map(|kind| (header::CONTENT_TYPE, kind)));
        response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
        Ok(Some(response))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is being answered.
struct Open<'a> {
    answered: &'a Answered,
    id: Id,
    done: bool,
}

impl Open<'_> {
    async fn end(mut self, response: Response) -> Result<Response, Problem> {
        // What failed on our side may be tried again under the same key.
        if response.status().is_server_error() {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.map_err(|_| Problem::body("the answer cannot be read"))?;
        if body.len() <= ANSWER_BYTES_MAX {
            let kind = parts.headers.get(header::CONTENT_TYPE).cloned();
            self.answered.lock().remember(self.id, (parts.status, kind, body.clone()));
            self.done = true;
        }
        Ok(Response::from_parts(parts, Body::from(body)))
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.answered.lock().answers.remove(&self.id);
        }
    }
}

impl State {
    fn remember(&mut self, id: Id, answer: (StatusCode, Option<HeaderValue>, Bytes)) {
        let bytes = ENTRY_BYTES + answer.2.len();
        let Some(entry) = self.answers.get_mut(&id) else { return };
        entry.answer = Some(answer);
        self.order.push_back((Instant::now(), id));
        self.bytes += bytes;
        while self.bytes_of(id.caller) > BYTES_OF_CALLER_MAX {
            let Some(oldest) = self.order.iter().position(|(_, old)| old.caller == id.caller) else { break };
            self.forget(oldest);
        }
        while self.bytes > BYTES_MAX {
            self.forget(0);
        }
    }

    fn bytes_of(&self, caller: [u8; 32]) -> usize {
        let from = Id { caller, key: [0; 32] };
        self.answers.range(from..).take_while(|(id, _)| id.caller == caller).map(|(_, entry)| entry.bytes()).sum()
    }

    fn forget_old(&mut self) {
        while self.order.front().is_some_and(|(at, _)| at.elapsed() >= REMEMBERED) {
            self.forget(0);
        }
    }

    fn forget(&mut self, place: usize) {
        let Some((_, id)) = self.order.remove(place) else { return };
        if let Some(entry) = self.answers.remove(&id) {
            self.bytes -= entry.bytes();
        }
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        self.answer.as_ref().map_or(0, |(_, _, body)| ENTRY_BYTES + body.len())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn id(caller: u8, key: u32) -> Id {
        Id { caller: digest(&[&[caller]]), key: digest(&[&key.to_be_bytes()]) }
    }

    fn remember(state: &mut State, id: Id, bytes: usize) {
        state.answers.insert(id, Entry { request: [0; 32], answer: None });
        state.remember(id, (StatusCode::OK, None, Bytes::from(vec![b' '; bytes])));
    }

    #[test]
    fn the_room_is_bounded_in_all_and_per_caller() {
        let mut state = State::default();
        remember(&mut state, id(0, 0), 100);
        for key in 0..100 {
            remember(&mut state, id(1, key), ANSWER_BYTES_MAX);
        }
        assert!(state.bytes <= BYTES_OF_CALLER_MAX + 1000, "{}", state.bytes);
        assert!(state.answers.contains_key(&id(0, 0)), "one caller does not make another one's answers be forgotten");
        assert!(state.answers.contains_key(&id(1, 99)) && !state.answers.contains_key(&id(1, 0)));
        for caller in 2..20 {
            for key in 0..20 {
                remember(&mut state, id(caller, key), ANSWER_BYTES_MAX);
            }
        }
        assert!(state.bytes <= BYTES_MAX, "{}", state.bytes);
        let counted: usize = state.answers.values().map(Entry::bytes).sum();
        assert_eq!((counted, state.answers.len()), (state.bytes, state.order.len()));
    }
}
