//! Leads a request to what answers it. Everything that holds for all endpoints is checked here, once.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequestParts as _, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, get, on};
use postroom_admin::Role;
use postroom_core::HEADER_BYTES_MAX;
use tokio::time::timeout;

use super::call::Call;
use super::endpoints::{ENDPOINTS, Endpoint, Repeat, Verb};
use super::hidden::hide_in;
use super::idempotency::Write;
use super::params::{At, Given};
use super::problem::{self, Problem, Refused};
use super::refusals::Peer;
use super::{Site, openapi, operations};

/// Where the API begins.
pub(super) const ROOT: &str = "/api/v1";
/// Largest body.
const BODY_BYTES_MAX: usize = 1 << 20;
/// How long a client may take to send a body.
const BODY_WITHIN: Duration = Duration::from_secs(10);
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
    let guarded = from_fn_with_state(Arc::clone(&site), guarded);
    let router = router.fallback(problem::nothing_here).method_not_allowed_fallback(problem::wrong_method);
    router.layer(guarded).with_state(site)
}

/// Stands before every path, whatever answers there.
async fn guarded(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let peer = parts.extensions.get::<Peer>().map(|peer| peer.0);
    let mut response = match check_origin(&site, &parts) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(problem) => problem.into_response(),
    };
    if let Some(Refused(reason)) = response.extensions().get::<Refused>().copied() {
        site.refusals.note(&site.monitor.metrics, reason, peer);
    }
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
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
    let caller = site.guard.admit(&parts.headers, endpoint.role, &site.monitor.admin_stores).await?;
    let path = path_of(&mut parts).await?;
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let body = read(&parts.headers, body, body_bytes_max(&site, endpoint)).await?;
    let mut given = Given::read(endpoint.params, &path, &query, &body)?;
    given.limit_to(&caller.scope, endpoint.params)?;
    let write = match endpoint.repeat {
        Repeat::Never => None,
        Repeat::ByKey => Some(Write::read(&caller, &parts, &body)?),
    };
    let page = parts.uri.path().to_owned();
    let sees_words = caller.sees_words();
    let call = Call { site: Arc::clone(&site), caller, role: endpoint.role, given, body, path: page, query };
    let work = within((endpoint.handler)(call));
    let mut response = match write {
        None if endpoint.role == Role::Viewer && !sees_words => hide_in(work.await?).await,
        None => work.await?,
        // A write goes on when its client leaves, and its answer is remembered.
        Some(write) => {
            let answered = site.answered.clone();
            let task = tokio::spawn(async move { answered.once(write, work).await });
            task.await.map_err(|error| {
                Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "http.store", format!("the request failed: {error}"))
            })??
        }
    };
    // What one may see, a proxy must not show to another.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

async fn within(work: impl Future<Output = Result<Response, Problem>>) -> Result<Response, Problem> {
    timeout(ANSWER_WITHIN, work).await.unwrap_or_else(|_| {
        let detail = format!("no answer within {} s", ANSWER_WITHIN.as_secs());
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "http.too_slow", detail).hint("request less at a time"))
    })
}

async fn path_of(parts: &mut Parts) -> Result<Vec<(String, String)>, Problem> {
    let path = RawPathParams::from_request_parts(parts, &()).await;
    let path = path.map_err(|_| Problem::parameter("path", "is not text", "escape it as UTF-8"))?;
    Ok(path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Largest body of a request; one with events has room for the largest of them.
fn body_bytes_max(site: &Site, endpoint: &Endpoint) -> usize {
    if endpoint.params.iter().all(|param| param.at != At::WholeBody) {
        return BODY_BYTES_MAX;
    }
    let payload = site.monitor.admin_stores.config().limits.payload_bytes_max;
    BODY_BYTES_MAX.max(payload.saturating_add(8 * HEADER_BYTES_MAX))
}

/// The whole body, if it is of a kind and a size that may be.
async fn read(headers: &HeaderMap, body: Body, bytes_max: usize) -> Result<Bytes, Problem> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let too_large = || {
        let detail = format!("the body is larger than {bytes_max} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "http.too_large", detail)
    };
    if length.is_some_and(|length| length > bytes_max as u64) {
        return Err(too_large());
    }
    let body = timeout(BODY_WITHIN, to_bytes(body, bytes_max)).await.map_err(|_| {
        let detail = format!("the body did not arrive within {} s", BODY_WITHIN.as_secs());
        Problem::new(StatusCode::REQUEST_TIMEOUT, "http.slow_body", detail)
    })?;
    let body = body.map_err(|_| too_large())?;
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // A page of somebody else's can make a browser send a form or a text; JSON it cannot.
    if !body.is_empty() && !kind.to_ascii_lowercase().starts_with("application/json") {
        let detail = "the body must be `content-type: application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "http.media_type", detail));
    }
    Ok(body)
}

/// Refuses what a page of another site makes a browser ask: by a name of its own that leads here, or from elsewhere.
fn check_origin(site: &Site, parts: &Parts) -> Result<(), Problem> {
    let text = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(header::HOST).or_else(|| parts.uri.authority().map(Authority::as_str));
    if !host.is_some_and(|host| site.is_named(host)) {
        let detail = "the request names a host that is not this relay's";
        return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "http.host", detail)
            .hint("use the address that the relay listens on, or add the name to http.hosts"));
    }
    let foreign = || {
        let detail = "the request comes from a page of another site";
        Problem::new(StatusCode::FORBIDDEN, "http.origin", detail)
    };
    let origin = text(header::ORIGIN).and_then(|origin| origin.split_once("://"));
    if text(header::ORIGIN).is_some() && origin.map(|(_, authority)| authority) != host {
        return Err(foreign());
    }
    // An image or a form of another site has no origin to compare; browsers tell where it comes from all the same.
    match text(SEC_FETCH_SITE) {
        Some("cross-site" | "same-site") => Err(foreign()),
        _ => Ok(()),
    }
}

/// The header by which a browser tells where a request comes from.
const SEC_FETCH_SITE: header::HeaderName = header::HeaderName::from_static("sec-fetch-site");

impl Site {
    /// Whether a `Host` is a name of this relay. A listener that only this machine reaches has the names of this machine; any
    /// other has every name, unless the configuration lists them. Beside its names it has its addresses: a page of another
    /// site reaches it by a name.
    fn is_named(&self, host: &str) -> bool {
        let name = name_of(host);
        let listed = self.hosts.iter().any(|listed| listed.eq_ignore_ascii_case(name));
        if self.local {
            return listed || is_local(name);
        }
        listed || self.hosts.is_empty() || name.parse::<std::net::IpAddr>().is_ok()
    }
}

/// A host without its port and brackets.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// Whether a name is one of this machine itself.
fn is_local(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_local() {
        for host in ["localhost", "LOCALHOST:7480", "127.0.0.1:80", "127.9.9.9", "[::1]:7480", "[::1]"] {
            assert!(is_local(name_of(host)), "{host}");
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
            assert!(!is_local(name_of(host)), "{host}");
        }
    }
}
