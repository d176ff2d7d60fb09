//! A write that comes again with the same key is not done again.

use crate::api::site::Site;

async fn write(site: &Site, who: &str, key: &str, path: &str, body: &str) -> crate::api::site::Answer {
    let bearer = site.token(who).map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let headers = format!("{bearer}content-type: application/json\r\nidempotency-key: {key}\r\n");
    site.send("POST", path, &headers, body.as_bytes()).await
}

#[tokio::test]
async fn the_same_write_with_the_same_key_is_done_once_and_answered_alike() {
    let site = Site::guarded("").await;
    let (path, body) = ("/api/v1/routes/orders/pause", r#"{"reason": "one"}"#);
    let first = write(&site, "operator", "k1", path, body).await;
    let again = write(&site, "operator", "k1", path, body).await;
    assert_eq!((first.status, again.status), (200, 200), "{again:?}");
    assert_eq!((first.json()["changed"].as_bool(), first.body), (Some(true), again.body));
    assert!(again.head.contains("idempotent-replayed: true") && again.head.contains("application/json"));
    assert_eq!(write(&site, "operator", "k2", path, body).await.json()["changed"], false);
    let other = r#"{"reason": "two"}"#;
    assert_eq!(write(&site, "operator", "k1", path, other).await.code(), "http.key_reused");
    let others = write(&site, "admin", "k1", path, other).await;
    assert_eq!(others.status, 200, "a key is its sender's: {others:?}");
    assert_eq!(write(&site, "operator", &"k".repeat(300), path, other).await.code(), "http.parameter");
}

/// An answer with a secret is given once, to whoever caused it.
#[tokio::test]
async fn a_secret_is_never_answered_again() {
    let site = Site::guarded("").await;
    let (path, body) = ("/api/v1/tokens", r#"{"name": "one", "role": "viewer"}"#);
    assert_eq!(write(&site, "admin", "k1", path, body).await.status, 201);
    for (header, code) in [
        (format!("authorization: Bearer {}", site.token("admin").unwrap()), "http.conflict"),
        // A token of the API is one in `Authorization` only.
        (format!("x-metrics-token: {}", site.token("admin").unwrap()), "http.unauthorized"),
    ] {
        let headers = format!("{header}\r\ncontent-type: application/json\r\nidempotency-key: k1\r\n");
        assert_eq!(site.send("POST", path, &headers, body.as_bytes()).await.code(), code);
    }
}

#[tokio::test]
async fn a_problem_of_the_caller_is_remembered_too() {
    let site = Site::guarded("").await;
    let (path, body) = ("/api/v1/routes/nothing/pause", "{}");
    let first = write(&site, "operator", "k", path, body).await;
    let again = write(&site, "operator", "k", path, body).await;
    assert_eq!((first.status, again.status, first.body), (404, 404, again.body));
    assert!(again.head.contains("application/problem+json"), "{}", again.head);
}
