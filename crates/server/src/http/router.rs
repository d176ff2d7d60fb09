//! Leads a request to what answers it. Everything that holds for all endpoints is checked here, once.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequestParts as _, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, get, on};
use tokio::time::timeout;

use super::call::Call;
use super::endpoints::{ENDPOINTS, Endpoint, Verb};
use super::params::Given;
use super::problem::{self, Problem};
use super::{Site, idempotency, openapi, operations};

/// Where the API begins.
pub(super) const ROOT: &str = "/api/v1";
/// Largest body.
const BODY_BYTES_MAX: usize = 1 << 20;
/// How long a whole answer may take; a single question to a database may take two seconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

pub(super) fn router(site: Arc<Site>) -> Router {
    let mut router = Router::new()
        .route("/livez", get(operations::livez))
        .route("/readyz", get(operations::readyz))
        .route("/metrics", get(operations::metrics))
        .route("/v1/health", get(operations::health))
        .route("/v1/metrics", get(operations::metrics))
        .route(&format!("{ROOT}/openapi.json"), get(openapi::page));
    for endpoint in ENDPOINTS {
        let answer = move |State(site): State<Arc<Site>>, request: Request| async move {
            answered(site, endpoint, request).await.unwrap_or_else(Problem::into_response)
        };
        router = router.route(&format!("{ROOT}{}", endpoint.path), on(endpoint.verb.filter(), answer));
    }
    router.fallback(problem::nothing_here).method_not_allowed_fallback(problem::wrong_method).with_state(site)
}

impl Verb {
    fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

async fn answered(site: Arc<Site>, endpoint: &'static Endpoint, request: Request) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    check_origin(&site, &parts)?;
    let caller = site.guard.admit(&parts.headers, endpoint.role, &site.operating.desks).await?;
    let path = path_of(&mut parts).await?;
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let body = read(&parts.headers, body).await?;
    let given = Given::read(endpoint.params, &path, &query, &body)?;
    let page = parts.uri.path().to_owned();
    let call = Call { site: Arc::clone(&site), caller, role: endpoint.role, given, path: page, query };
    let work = (endpoint.handler)(call);
    let mut response = if endpoint.verb == Verb::Get {
        within(work).await?
    } else {
        idempotency::once(&site.answered, &parts, &body, within(work)).await?
    };
    // What one may see, a proxy must not show to another.
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    Ok(response)
}

async fn within(work: impl Future<Output = Result<Response, Problem>>) -> Result<Response, Problem> {
    timeout(ANSWER_WITHIN, work).await.unwrap_or_else(|_| {
        let detail = format!("no answer within {} s", ANSWER_WITHIN.as_secs());
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "http.too_slow", detail).hint("ask for less at a time"))
    })
}

async fn path_of(parts: &mut Parts) -> Result<Vec<(String, String)>, Problem> {
    let path = RawPathParams::from_request_parts(parts, &()).await;
    let path = path.map_err(|_| Problem::parameter("path", "is no text", "escape it as UTF-8"))?;
    Ok(path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// The whole body, if it is of a kind and a size that may be.
async fn read(headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let too_large = || {
        let detail = format!("the body is larger than {BODY_BYTES_MAX} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "http.too_large", detail)
    };
    if length.is_some_and(|length| length > BODY_BYTES_MAX as u64) {
        return Err(too_large());
    }
    let body = to_bytes(body, BODY_BYTES_MAX).await.map_err(|_| too_large())?;
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // A page of somebody else's can make a browser send a form or a text; JSON it cannot.
    if !body.is_empty() && !kind.to_ascii_lowercase().starts_with("application/json") {
        let detail = "the body must be `content-type: application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "http.media_type", detail));
    }
    Ok(body)
}

/// Refuses what a page of somebody else's makes a browser on this machine ask: by a name of its own that leads here, or from
/// elsewhere.
fn check_origin(site: &Site, parts: &Parts) -> Result<(), Problem> {
    let text = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(header::HOST).or_else(|| parts.uri.authority().map(Authority::as_str));
    if site.local && !host.is_some_and(is_local) {
        let detail = "this address is for this machine only, and the request names another host";
        return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "http.host", detail)
            .hint("ask for http://127.0.0.1 or http://localhost"));
    }
    let origin = text(header::ORIGIN).and_then(|origin| origin.split_once("://"));
    if text(header::ORIGIN).is_some() && origin.map(|(_, authority)| authority) != host {
        let detail = "the request comes from a page of another site";
        return Err(Problem::new(StatusCode::FORBIDDEN, "http.origin", detail));
    }
    Ok(())
}

/// Whether a host is a name of this machine itself.
fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_local() {
        for host in ["localhost", "LOCALHOST:7480", "127.0.0.1:80", "127.9.9.9", "[::1]:7480", "[::1]"] {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:7480",
            "localhost.evil.example",
            "10.0.0.1",
            "",
            "[::2]:80",
            "127.0.0.1.evil.example",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }
}
