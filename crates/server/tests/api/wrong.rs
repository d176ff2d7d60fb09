//! Wrong input is named, and nothing happens.

use std::time::{Duration, Instant};

use crate::api::site::Site;

#[tokio::test]
async fn wrong_input_is_named() {
    let site = Site::guarded("").await;
    for (method, path, body, status, code) in [
        ("GET", "/api/v1/nothing", None, 404, "http.not_found"),
        ("PUT", "/api/v1/status", None, 405, "http.method"),
        ("GET", "/api/v1/events?limit=0", None, 400, "http.parameter"),
        ("GET", "/api/v1/events?limit=1001", None, 400, "http.parameter"),
        ("GET", "/api/v1/events?cursor=made-up", None, 400, "http.parameter"),
        ("GET", "/api/v1/events?from=yesterday", None, 400, "http.parameter"),
        ("GET", "/api/v1/events?typo=1", None, 400, "http.parameter"),
        ("GET", "/api/v1/events?type=a*b", None, 400, "http.parameter"),
        ("GET", "/api/v1/events?key=%00", None, 400, "http.parameter"),
        ("GET", "/api/v1/events?store=other", None, 404, "http.no_such"),
        ("GET", "/api/v1/events/nothing", None, 404, "http.no_such"),
        ("GET", "/api/v1/routes/nothing", None, 404, "http.no_such"),
        ("GET", "/api/v1/dead?route=nothing", None, 404, "http.no_such"),
        ("POST", "/api/v1/routes/nothing/pause", None, 404, "http.no_such"),
        ("POST", "/api/v1/routes/orders/pause", Some("[]"), 400, "http.body"),
        ("POST", "/api/v1/routes/orders/pause", Some("{"), 400, "http.body"),
        ("POST", "/api/v1/routes/orders/pause", Some(r#"{"why": "x"}"#), 400, "http.parameter"),
        ("POST", "/api/v1/routes/orders/pause", Some(r#"{"reason": 7}"#), 400, "http.parameter"),
        ("POST", "/api/v1/keys/skip-head", Some(r#"{"route": "orders"}"#), 400, "http.parameter"),
        ("POST", "/api/v1/keys/unblock", Some(r#"{"route": "orders", "key": "none"}"#), 404, "http.no_such"),
        ("POST", "/api/v1/tokens", Some(r#"{"name": "Ann Smith", "role": "viewer"}"#), 400, "http.parameter"),
        ("POST", "/api/v1/tokens", Some(r#"{"name": "ann", "role": "king"}"#), 400, "http.parameter"),
        (
            "POST",
            "/api/v1/tokens",
            Some(r#"{"name": "ann", "role": "viewer", "expires": "99999999d"}"#),
            400,
            "http.parameter",
        ),
        ("POST", "/api/v1/pull/orders", Some("{}"), 404, "http.no_such"),
    ] {
        let answer = site.ask("admin", method, path, body).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{method} {path} {body:?}: {answer:?}");
    }
    assert!(site.admin.audit(None, 10).await.unwrap().iter().all(|action| action.action == "token.create"));
}

#[tokio::test]
async fn a_body_of_a_hundred_megabytes_is_refused_at_once() {
    let site = Site::guarded("").await;
    let bearer =
        format!("authorization: Bearer {}\r\ncontent-type: application/json\r\n", site.token("admin").unwrap());
    let begin = Instant::now();
    let large = vec![b' '; 100 * 1024 * 1024];
    let answer = site.send("POST", "/api/v1/routes/orders/pause", &bearer, &large).await;
    assert_eq!(answer.code(), "http.too_large");
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    assert_eq!(site.get("viewer", "/api/v1/status").await.status, 200);
}

#[tokio::test]
async fn what_a_page_of_somebody_else_makes_a_browser_send_is_refused() {
    let site = Site::open("anonymous = \"admin\"").await;
    let path = "/api/v1/routes/orders/pause";
    for (headers, body, code) in [
        ("host: evil.example\r\n", "", "http.host"),
        ("host: evil.example:7480\r\norigin: http://evil.example:7480\r\n", "", "http.host"),
        ("origin: https://evil.example\r\n", "", "http.origin"),
        ("origin: null\r\n", "", "http.origin"),
        ("content-type: text/plain\r\n", "{}", "http.media_type"),
        ("content-type: application/x-www-form-urlencoded\r\n", "a=b", "http.media_type"),
        ("content-type: multipart/form-data\r\n", "x", "http.media_type"),
    ] {
        let answer = site.send("POST", path, headers, body.as_bytes()).await;
        assert_eq!(answer.code(), code, "{headers}");
    }
    assert!(site.admin.audit(None, 10).await.unwrap().is_empty());
    let own = format!("origin: http://{}\r\n", site.address);
    assert_eq!(site.send("POST", path, &own, b"").await.status, 200);
}

#[tokio::test]
async fn a_store_that_is_not_there_is_said_to_be_so() {
    let site = Site::open("").await;
    std::fs::remove_file(site.folder().join("shop.db")).unwrap();
    for path in ["/api/v1/status", "/api/v1/events"] {
        let answer = site.get("nobody", path).await;
        assert_eq!((answer.status, answer.code().as_str()), (503, "http.store"), "{path}");
    }
}
