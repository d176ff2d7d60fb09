//! Errors as RFC 9457 describes them, with a code of ours.

use axum::Json;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use postroom_core::{StoreError, StoreErrorKind};
use serde_json::json;

use super::router::ROOT;

/// Marks the response to a request that was refused, with the reason as the metric names it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refused(pub(super) &'static str);

/// What went wrong with a request.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    hint: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), hint: String::new() }
    }

    /// Adds the next step.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// No token, or none that is known or still good: which of them is nobody's business.
    pub(crate) fn unauthorized() -> Self {
        let detail = "a valid token is required: `Authorization: Bearer TOKEN`";
        Self::new(StatusCode::UNAUTHORIZED, "http.unauthorized", detail)
            .hint("`postroom token create NAME` creates a token")
    }

    /// A parameter that is not as it should be.
    pub(crate) fn parameter(name: &str, why: &str, about: &str) -> Self {
        let name: String = name.chars().take(60).filter(|c| !c.is_control()).collect();
        Self::new(StatusCode::BAD_REQUEST, "http.parameter", format!("`{name}` {why}")).hint(about)
    }

    /// A body that cannot be read.
    pub(crate) fn body(why: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "http.body", format!("the body is not the expected JSON: {why}"))
    }

    /// A request beyond the scope of its token.
    pub(crate) fn out_of_scope(what: &str, allowed: &[String]) -> Self {
        let detail = format!("the token is limited to {what} {}", allowed.join(", "));
        Self::new(StatusCode::FORBIDDEN, "http.forbidden", detail)
    }

    /// A payload, asked for by somebody who may not see it.
    pub(crate) fn payload() -> Self {
        let detail = "payloads are shown to operators only";
        Self::new(StatusCode::FORBIDDEN, "http.forbidden", detail)
    }

    /// A thing that is not there, and the list of those that are.
    pub(crate) fn no_such(what: &str, name: &str, list: &str) -> Self {
        let hint = format!("GET {ROOT}/{list} lists the existing ones");
        Self::new(StatusCode::NOT_FOUND, "http.no_such", format!("there is no {what} {name:?}")).hint(hint)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        use StoreErrorKind as K;
        let problem = match error.kind {
            K::NotFound => Self::new(StatusCode::NOT_FOUND, "http.no_such", error.message),
            K::Invalid => Self::new(StatusCode::BAD_REQUEST, "http.invalid", error.message),
            K::Conflict => Self::new(StatusCode::CONFLICT, "http.conflict", error.message),
            K::Busy => Self::new(StatusCode::SERVICE_UNAVAILABLE, "http.too_slow", error.message),
            _ => Self::new(StatusCode::SERVICE_UNAVAILABLE, "http.store", error.message),
        };
        problem.hint(error.hint)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("error");
        let mut body = json!({
            "type": "about:blank",
            "title": title,
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
        });
        if !self.hint.is_empty() {
            body["hint"] = self.hint.into();
        }
        let mut response = (self.status, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
        }
        let refused = match self.code {
            "http.unauthorized" => Some("unauthorized"),
            "http.forbidden" => Some("forbidden"),
            "http.origin" => Some("origin"),
            "http.host" => Some("host"),
            _ => None,
        };
        if let Some(reason) = refused {
            response.extensions_mut().insert(Refused(reason));
        }
        response
    }
}

pub(crate) async fn nothing_here(uri: Uri) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "http.not_found", format!("the path {} does not exist", uri.path()))
        .hint(format!("GET {ROOT}/openapi.json describes all paths"))
}

pub(crate) async fn wrong_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} does not answer {method}", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "http.method", detail)
}
