//! Who asks, and what they may.
//!
//! A token opens the store it was made in, with its role and within its scope. Without one, somebody on this machine may what
//! the configuration says; where it says nothing: look, until the first token is made, revoked or not.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, StatusCode, header};
use postroom_admin::{Role, Scope, TokenRow};
use postroom_core::{Secret, Timestamp};
use subtle::ConstantTimeEq as _;
use tokio::sync::Mutex;

use super::problem::Problem;
use crate::admin_stores::AdminStores;
use crate::config::{Anonymous, HttpConfig};
use crate::token::{ANONYMOUS, hash};

/// How long what a store said of its tokens is believed.
const BELIEVED: Duration = Duration::from_secs(1);
/// The same when it lets somebody not in: their token may have been made since.
const DOUBTED: Duration = Duration::from_millis(20);

/// Says who may.
#[derive(Debug)]
pub(crate) struct Guard {
    metrics: Option<String>,
    anonymous: Anonymous,
    tokens: Mutex<BTreeMap<String, Known>>,
}

/// The tokens of a store, when they were last asked for.
#[derive(Debug)]
struct Known {
    at: Instant,
    tokens: Vec<TokenRow>,
}

/// Somebody who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    /// As the audit names them.
    pub(crate) name: String,
    /// The hash of the token they gave.
    hash: Option<String>,
    /// What they may, in each store.
    roles: BTreeMap<String, Role>,
    /// What their token is limited to.
    pub(crate) scope: Scope,
}

impl Caller {
    /// Whether they may that in the store.
    pub(crate) fn may(&self, role: Role, store: &str) -> bool {
        self.roles.get(store).is_some_and(|theirs| theirs.includes(role))
    }

    /// Whether they may see the words of receivers and handlers, and values of headers.
    pub(crate) fn sees_words(&self) -> bool {
        self.roles.values().all(|theirs| *theirs >= Role::Operator)
    }

    /// Tells callers apart: two tokens are two callers, whatever their names.
    pub(crate) fn key(&self) -> &str {
        self.hash.as_deref().unwrap_or_default()
    }

    /// Whether they may that in any store.
    fn may_anywhere(&self, role: Role) -> bool {
        self.roles.values().any(|theirs| theirs.includes(role))
    }
}

/// Whether two hashes are equal, in a time that tells nothing about where they differ.
fn same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

impl Guard {
    pub(crate) fn new(config: &HttpConfig) -> Self {
        let metrics = config.metrics_token.as_ref().map(|token: &Secret| hash(token.expose()));
        Self { metrics, anonymous: config.anonymous, tokens: Mutex::default() }
    }

    /// Whether metrics may be read: with the token for them, with any other, or where neither is needed.
    pub(crate) async fn may_read_metrics(
        &self,
        headers: &HeaderMap,
        admin_stores: &AdminStores,
    ) -> Result<(), Problem> {
        let given = bearer(headers).or_else(|| text(headers, "x-metrics-token")).map(hash);
        match (&self.metrics, given) {
            (Some(metrics), Some(given)) if same(&given, metrics) => Ok(()),
            (Some(_), None) => Err(Problem::unauthorized()),
            // Only this machine can ask: elsewhere one of the two is needed.
            (None, None) if self.anonymous != Anonymous::Nothing => Ok(()),
            _ => self.admit(headers, Role::Viewer, admin_stores).await.map(drop),
        }
    }

    /// Who asks, if they may that in some store. Whether a token is missing, unknown or over takes the same time.
    pub(crate) async fn admit(
        &self,
        headers: &HeaderMap,
        role: Role,
        admin_stores: &AdminStores,
    ) -> Result<Caller, Problem> {
        let given = bearer(headers);
        let hashed = hash(given.unwrap_or_default());
        self.caller(given.map(|_| hashed), role, admin_stores).await
    }

    /// The same caller, if they still may: a token may be revoked or end while its owner watches.
    pub(crate) async fn admit_again(
        &self,
        caller: &Caller,
        role: Role,
        admin_stores: &AdminStores,
    ) -> Result<Caller, Problem> {
        self.caller(caller.hash.clone(), role, admin_stores).await
    }

    async fn caller(&self, given: Option<String>, role: Role, admin_stores: &AdminStores) -> Result<Caller, Problem> {
        match self.caller_as_of(given.clone(), role, admin_stores, BELIEVED).await {
            Err(_) => self.caller_as_of(given, role, admin_stores, DOUBTED).await,
            known => known,
        }
    }

    async fn caller_as_of(
        &self,
        given: Option<String>,
        role: Role,
        admin_stores: &AdminStores,
        believed: Duration,
    ) -> Result<Caller, Problem> {
        let now = Timestamp::now();
        let mut caller =
            Caller { name: ANONYMOUS.to_owned(), hash: given, roles: BTreeMap::new(), scope: Scope::default() };
        let hashed = caller.hash.clone().unwrap_or_default();
        let mut silent = None;
        for store in &admin_stores.config().stores {
            let tokens = match self.tokens_of(&store.name, admin_stores, believed).await {
                Ok(tokens) => tokens,
                Err(problem) => {
                    silent = Some(problem);
                    continue;
                }
            };
            let mut known = None;
            for token in &tokens {
                // Every one is looked at.
                for hash in token.hashes(now) {
                    if same(hash, &hashed) {
                        known = Some(token);
                    }
                }
            }
            match (known, &caller.hash) {
                (Some(token), Some(_)) => {
                    caller.name.clone_from(&token.name);
                    caller.scope.clone_from(&token.scope);
                    caller.roles.insert(store.name.clone(), token.role);
                    if token.use_is_news(now) {
                        self.note_use(&store.name, &token.name, now, admin_stores).await;
                    }
                }
                (_, None) => {
                    let role = self.anonymous.role(!tokens.is_empty());
                    caller.roles.extend(role.map(|role| (store.name.clone(), role)));
                }
                (None, Some(_)) => {}
            }
        }
        match silent {
            _ if caller.may_anywhere(role) => Ok(caller),
            _ if !caller.roles.is_empty() && caller.hash.is_some() => Err(forbidden(role)),
            Some(problem) => Err(problem),
            None => Err(Problem::unauthorized()),
        }
    }

    /// Writes down that a token is used. It is not waited for, and one that fails is tried again with the next request.
    async fn note_use(&self, store: &str, token: &str, now: Timestamp, admin_stores: &AdminStores) {
        let mut known = self.tokens.lock().await;
        let noted = known.get_mut(store).and_then(|known| known.tokens.iter_mut().find(|known| known.name == token));
        if let Some(noted) = noted {
            noted.last_used_at = Some(now);
        }
        drop(known);
        let config = admin_stores.config();
        let Ok(configured) = config.store(Some(store)) else { return };
        if let Ok(admin) = admin_stores.admin(configured).await {
            let token = token.to_owned();
            tokio::spawn(async move {
                let _ = admin.token_used(&token).await;
            });
        }
    }

    /// What a store says of its tokens, or said a moment ago; while it does not answer, what it said last.
    async fn tokens_of(
        &self,
        store: &str,
        admin_stores: &AdminStores,
        believed: Duration,
    ) -> Result<Vec<TokenRow>, Problem> {
        let mut known = self.tokens.lock().await;
        if let Some(known) = known.get(store).filter(|known| known.at.elapsed() < believed) {
            return Ok(known.tokens.clone());
        }
        let config = admin_stores.config();
        let Ok(configured) = config.store(Some(store)) else { return Ok(Vec::new()) };
        let asked = async { admin_stores.admin(configured).await?.tokens().await };
        match (asked.await, known.get_mut(store)) {
            (Ok(tokens), _) => {
                known.insert(store.to_owned(), Known { at: Instant::now(), tokens: tokens.clone() });
                Ok(tokens)
            }
            (Err(_), Some(before)) => {
                before.at = Instant::now();
                Ok(before.tokens.clone())
            }
            (Err(error), None) => Err(error.into()),
        }
    }
}

fn forbidden(role: Role) -> Problem {
    let detail = format!("this request requires a token with the role {}", role.as_str());
    Problem::new(StatusCode::FORBIDDEN, "http.forbidden", detail)
}

/// The token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = text(headers, header::AUTHORIZATION.as_str())?.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok()).filter(|text| !text.is_empty())
}
