//! One request to the API, admitted and read: what handlers work with.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use postroom_admin::view::RouteDetail;
use postroom_admin::{Admin, Role, Selection};
use postroom_core::Actor;
use serde::Serialize;

use super::Site;
use super::auth::Caller;
use super::params::Given;
use super::problem::Problem;
use crate::config::{Config, StoreConfig};

/// Rows of a list where nobody says how many.
pub(super) const ROWS: usize = 50;

/// A request.
#[derive(Debug)]
pub(crate) struct Call {
    pub(super) site: Arc<Site>,
    pub(super) caller: Caller,
    /// What the endpoint asks of those who call it.
    pub(super) role: Role,
    pub(super) given: Given,
    /// As it was sent, for endpoints whose body is not an object of parameters.
    pub(super) body: Bytes,
    /// As it was asked, for the next page.
    pub(super) path: String,
    pub(super) query: String,
}

impl Call {
    pub(super) fn config(&self) -> Arc<Config> {
        self.site.monitor.admin_stores.config()
    }

    /// The same call, if its caller still may: for answers that go on for long.
    pub(super) async fn again(self) -> Option<Self> {
        let (guard, admin_stores) = (&self.site.guard, &self.site.monitor.admin_stores);
        let caller = guard.admit_again(&self.caller, self.role, admin_stores).await.ok()?;
        Some(Self { caller, ..self })
    }

    /// Whether the caller may see this store here.
    pub(super) fn sees(&self, store: &StoreConfig) -> bool {
        self.caller.may(self.role, &store.name)
    }

    /// The store that is meant: the one named, or the only one.
    pub(super) fn store<'c>(&self, config: &'c Config) -> Result<&'c StoreConfig, Problem> {
        let visible: Vec<&StoreConfig> = config.stores.iter().filter(|store| self.sees(store)).collect();
        match (self.given.text("store"), visible.as_slice()) {
            (None, [only]) => Ok(only),
            (Some(name), stores) => stores
                .iter()
                .find(|store| store.name == name)
                .copied()
                .ok_or_else(|| Problem::no_such("store", name, "store")),
            (None, several) => {
                let names: Vec<&str> = several.iter().map(|store| store.name.as_str()).collect();
                Err(Problem::parameter("store", "is missing", &format!("one of {}", names.join(", "))))
            }
        }
    }

    /// The admin of that store.
    pub(super) async fn admin(&self) -> Result<Arc<dyn Admin>, Problem> {
        let config = self.config();
        Ok(self.site.monitor.admin_stores.admin(self.store(&config)?).await?)
    }

    /// The caller, as the audit names them.
    pub(super) fn actor(&self) -> Actor {
        Actor { name: format!("token {}", self.caller.name), reason: self.given.owned("reason") }
    }

    pub(super) fn limit(&self) -> usize {
        self.given.number("limit", ROWS)
    }

    /// Which events or deliveries are meant.
    pub(super) fn selection(&self) -> Selection {
        Selection {
            ids: self.given.texts("ids"),
            event_type: self.given.pattern("type"),
            aggregate_type: self.given.owned("aggregate_type"),
            key: self.given.owned("key"),
            tenant: self.given.owned("tenant"),
            route: self.given.owned("route"),
            code: self.given.owned("code"),
            from: self.given.time("from"),
            to: self.given.time("to"),
            died_by: self.given.time("died_by"),
        }
    }

    /// Whether the caller has seen how many it touches.
    pub(super) fn confirmed(&self, touched: u64, what: &str) -> Result<(), Problem> {
        if self.given.number("confirm", 0) as u64 == touched {
            return Ok(());
        }
        let detail = format!("this affects {touched} {what}, and `confirm` is another number");
        let hint = format!("set `confirm` to {touched}, or `dry_run` to true for a preview");
        Err(Problem::new(StatusCode::CONFLICT, "http.confirm", detail).hint(hint))
    }

    /// A registered route; where one is given as a filter, an empty list would look like good news.
    pub(super) async fn route(&self, admin: &dyn Admin, name: &str) -> Result<RouteDetail, Problem> {
        let routes = admin.routes().await?;
        routes
            .into_iter()
            .find(|route| route.status.route == name)
            .ok_or_else(|| Problem::no_such("route", name, "routes"))
    }

    /// Refuses a route that is not there.
    pub(super) async fn check_route(&self, admin: &dyn Admin) -> Result<(), Problem> {
        match self.given.text("route") {
            Some(name) => self.route(admin, name).await.map(drop),
            None => Ok(()),
        }
    }

    /// A list, as `-o json` prints it, and where the next page begins, if there may be one.
    pub(super) fn page<T: Serialize>(&self, rows: &[T], next: Option<String>) -> Response {
        let mut headers = HeaderMap::new();
        if let Some(next) = next {
            let next = self.next(&next);
            headers.extend(HeaderValue::from_str(&next).ok().map(|next| (header::LINK, next)));
        }
        (headers, Json(rows)).into_response()
    }

    /// The last row of a page after which there may be more.
    pub(super) fn last<'r, T>(&self, rows: &'r [T]) -> Option<&'r T> {
        rows.last().filter(|_| rows.len() >= self.limit())
    }

    fn next(&self, cursor: &str) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in form_urlencoded::parse(self.query.as_bytes()).filter(|(name, _)| name != "cursor") {
            query.append_pair(&name, &value);
        }
        query.append_pair("cursor", cursor);
        format!("<{}?{}>; rel=\"next\"", self.path, query.finish())
    }
}

/// One thing, as `-o json` prints it.
pub(super) fn one(thing: &impl Serialize) -> Response {
    Json(thing).into_response()
}
