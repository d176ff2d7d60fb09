//! Every endpoint with every role, and without one.

use postroom_core::{NewToken, Role};
use postroom_server::token;

use crate::api::site::{Site, operations, operator};

/// A path with something at its places.
fn filled(path: &str) -> String {
    path.replace("{route}", "nothing").replace("{id}", "nothing").replace("{name}", "nothing")
}

#[tokio::test]
async fn every_endpoint_answers_who_may_and_nobody_else() {
    let site = Site::guarded("").await;
    let (_, operations) = operations(&site).await;
    for (method, path, operation) in operations.iter().filter(|(_, path, _)| !path.ends_with("/live")) {
        let needed = Role::parse(operation["x-role"].as_str().unwrap()).unwrap();
        for (who, _) in &site.tokens {
            let body = (method != "GET").then_some("{}");
            let status = site.ask(who, method, &filled(path), body).await.status;
            match Role::parse(who) {
                None => assert_eq!(status, 401, "{method} {path} as {who}"),
                Some(role) if role < needed => assert_eq!(status, 403, "{method} {path} as {who}"),
                Some(_) => assert!(![401, 403, 405].contains(&status) && status < 500, "{method} {path}: {status}"),
            }
        }
    }
}

#[tokio::test]
async fn without_a_token_one_may_look_until_the_first_is_made() {
    let site = Site::open("").await;
    assert_eq!(site.get("nobody", "/api/v1/status").await.status, 200);
    assert_eq!(site.ask("nobody", "POST", "/api/v1/routes/orders/pause", None).await.status, 401);
    assert_eq!(site.get("nobody", "/api/v1/events/e-1?payload=true").await.status, 403);
    let site = Site::guarded("").await;
    assert_eq!(site.get("nobody", "/api/v1/status").await.status, 401);
    assert_eq!(site.get("nobody", "/metrics").await.status, 200, "metrics are open on this machine");
}

#[tokio::test]
async fn what_somebody_may_without_a_token_can_be_said() {
    let closed = Site::open("anonymous = \"none\"").await;
    for path in ["/api/v1/status", "/metrics", "/readyz?verbose"] {
        assert_eq!(closed.get("nobody", path).await.status, 401, "{path}");
    }
    assert_eq!(closed.get("nobody", "/livez").await.body.trim(), "ok");
    let open = Site::guarded("anonymous = \"operator\"").await;
    assert_eq!(open.ask("nobody", "POST", "/api/v1/routes/orders/pause", None).await.status, 200);
    assert_eq!(open.get("nobody", "/api/v1/tokens").await.status, 401);
    assert_eq!(open.get("wrong", "/api/v1/status").await.status, 401, "a wrong token is worse than none");
}

#[tokio::test]
async fn a_revoked_token_opens_nothing_any_more() {
    let site = Site::guarded("").await;
    assert_eq!(site.get("viewer", "/api/v1/status").await.status, 200);
    let gone = site.ask("admin", "DELETE", "/api/v1/tokens/viewer", None).await;
    assert_eq!(gone.json()["revoked"], true);
    // What a store said of its tokens is believed for a second.
    while site.get("viewer", "/api/v1/status").await.status != 401 {
        tokio::task::yield_now().await;
    }
    assert_eq!(site.ask("admin", "DELETE", "/api/v1/tokens/viewer", None).await.code(), "http.no_such");
    let actions = site.desk.actions(None, 1).await.unwrap();
    assert_eq!((actions[0].action.as_str(), actions[0].actor.as_str()), ("token.revoke", "token admin"));
}

#[tokio::test]
async fn a_token_that_was_just_made_works_at_once() {
    let site = Site::open("").await;
    assert_eq!(site.get("nobody", "/api/v1/status").await.status, 200);
    assert_eq!(
        site.get("nobody", "/api/v1/tokens").await.status,
        401,
        "what the store says of its tokens is known now"
    );
    let token = token::fresh().unwrap();
    let new = NewToken { name: "ann".into(), role: Role::Admin, expires_at: None, hash: token::hash(&token) };
    site.desk.add_token(&new, &operator()).await.unwrap();
    // As long as whoever made it takes to use it.
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let header = format!("authorization: Bearer {token}\r\n");
    assert_eq!(site.send("GET", "/api/v1/tokens", &header, b"").await.status, 200);
}

#[tokio::test]
async fn a_token_is_told_once_and_works_as_it_says() {
    let site = Site::guarded("").await;
    let body = r#"{"name": "grafana", "role": "viewer", "expires": "1h"}"#;
    let made = site.ask("admin", "POST", "/api/v1/tokens", Some(body)).await;
    assert_eq!(made.status, 201, "{made:?}");
    let token = made.json()["token"].as_str().unwrap().to_owned();
    let header = format!("authorization: Bearer {token}\r\n");
    while site.send("GET", "/api/v1/status", &header, b"").await.status != 200 {
        tokio::task::yield_now().await;
    }
    assert_eq!(site.ask("admin", "POST", "/api/v1/tokens", Some(body)).await.code(), "http.conflict");
    let listed = site.get("admin", "/api/v1/tokens").await.body;
    assert!(listed.contains("grafana") && !listed.contains(&token) && !listed.contains("hash"), "{listed}");
}

/// Also what is not asked for has its price: nobody learns from the time of an answer whether a token is known.
#[tokio::test]
async fn a_wrong_and_a_missing_token_take_alike() {
    let site = Site::guarded("").await;
    let mut took = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..40 {
        for (who, took) in ["nobody", "wrong", "over"].iter().zip(&mut took) {
            let begin = std::time::Instant::now();
            assert_eq!(site.get(who, "/api/v1/status").await.status, 401);
            took.push(begin.elapsed());
        }
    }
    let medians = took.map(|mut took| {
        took.sort();
        took[took.len() / 2]
    });
    let (least, most) = (medians.iter().min().unwrap(), medians.iter().max().unwrap());
    assert!(*most < *least * 5 + std::time::Duration::from_millis(2), "{medians:?}");
}
