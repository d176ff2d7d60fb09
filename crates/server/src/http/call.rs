//! One request to the API, admitted and read: what handlers work with.

use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use postroom_core::view::RouteDetail;
use postroom_core::{Actor, Desk, Role, Selection};
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
    /// As it was asked, for the next page.
    pub(super) path: String,
    pub(super) query: String,
}

impl Call {
    pub(super) fn config(&self) -> Arc<Config> {
        self.site.operating.desks.config()
    }

    /// The same call, if its caller still may: for answers that go on for long.
    pub(super) async fn again(self) -> Option<Self> {
        let (guard, desks) = (&self.site.guard, &self.site.operating.desks);
        let caller = guard.admit_again(&self.caller, self.role, desks).await.ok()?;
        Some(Self { caller, ..self })
    }

    /// Whether the caller may see this store here.
    pub(super) fn sees(&self, store: &StoreConfig) -> bool {
        self.caller.may(self.role, &store.name)
    }

    /// The desk of the store that is meant: the one named, or the only one.
    pub(super) async fn desk(&self) -> Result<Arc<dyn Desk>, Problem> {
        let config = self.config();
        let visible: Vec<&StoreConfig> = config.stores.iter().filter(|store| self.sees(store)).collect();
        let store = match (self.given.text("store"), visible.as_slice()) {
            (None, [only]) => only,
            (Some(name), stores) => stores
                .iter()
                .find(|store| store.name == name)
                .ok_or_else(|| Problem::no_such("store", name, "store"))?,
            (None, several) => {
                let names: Vec<&str> = several.iter().map(|store| store.name.as_str()).collect();
                return Err(Problem::parameter("store", "is missing", &format!("one of {}", names.join(", "))));
            }
        };
        Ok(self.site.operating.desks.desk(store).await?)
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
        }
    }

    /// Whether the caller has seen how many it touches.
    pub(super) fn confirmed(&self, deliveries: u64) -> Result<(), Problem> {
        if self.given.number("confirm", 0) as u64 == deliveries {
            return Ok(());
        }
        let detail = format!("this touches {deliveries} deliveries, and `confirm` does not say so");
        let hint = format!("send `\"confirm\": {deliveries}`, or `\"dry_run\": true` to only look");
        Err(Problem::new(StatusCode::CONFLICT, "http.confirm", detail).hint(hint))
    }

    /// A registered route; where one is given as a filter, an empty list would look like good news.
    pub(super) async fn route(&self, desk: &dyn Desk, name: &str) -> Result<RouteDetail, Problem> {
        let routes = desk.routes().await?;
        routes
            .into_iter()
            .find(|route| route.status.route == name)
            .ok_or_else(|| Problem::no_such("route", name, "routes"))
    }

    /// Refuses a route that is not there.
    pub(super) async fn check_route(&self, desk: &dyn Desk) -> Result<(), Problem> {
        match self.given.text("route") {
            Some(name) => self.route(desk, name).await.map(drop),
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
