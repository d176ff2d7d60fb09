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
    let (path, body) = ("/api/v1/tokens", r#"{"name": "one", "role": "viewer"}"#);
    let first = write(&site, "admin", "k1", path, body).await;
    let again = write(&site, "admin", "k1", path, body).await;
    assert_eq!((first.status, again.status), (201, 201), "{again:?}");
    assert_eq!(first.body, again.body);
    assert!(again.head.contains("idempotent-replayed: true") && again.head.contains("application/json"));
    assert_eq!(write(&site, "admin", "k2", path, body).await.code(), "http.conflict");
    let other = r#"{"name": "two", "role": "viewer"}"#;
    assert_eq!(write(&site, "admin", "k1", path, other).await.code(), "http.key_reused");
    assert_eq!(write(&site, "operator", "k1", path, body).await.status, 403, "a key is its sender's");
    assert_eq!(write(&site, "admin", &"k".repeat(300), path, other).await.code(), "http.parameter");
    assert_eq!(site.desk.tokens().await.unwrap().iter().filter(|token| token.name == "one").count(), 1);
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
