//! Every endpoint with every role, and without one.

use postroom_admin::{NewToken, Role, Scope};
use postroom_server::token;

use crate::api::site::{Site, operations, operator};

/// A path with something at its places.
fn filled(path: &str) -> String {
    let path = path.replace("/pull/{route}", "/pull/orders");
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
                Some(role) if !role.includes(needed) => assert_eq!(status, 403, "{method} {path} as {who}"),
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
    let actions = site.admin.audit(None, 1).await.unwrap();
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
    let new = NewToken {
        name: "ann".into(),
        role: Role::Admin,
        expires_at: None,
        scope: Scope::default(),
        hash: token::hash(&token),
    };
    site.admin.add_token(&new, &operator()).await.unwrap();
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
    // The quickest of each: what else the machine does only ever adds to the others.
    let quickest = took.map(|took| took.into_iter().min().unwrap());
    let (least, most) = (quickest.iter().min().unwrap(), quickest.iter().max().unwrap());
    assert!(*most < *least * 5 + std::time::Duration::from_millis(2), "{quickest:?}");
}

/// After a leak the operator revokes, and does not open the house.
#[tokio::test]
async fn revoking_the_last_token_opens_nothing() {
    let site = Site::open("").await;
    let token = token::fresh().unwrap();
    let (name, hash) = ("ann".to_owned(), token::hash(&token));
    let new = NewToken { name, role: Role::Admin, expires_at: None, scope: Scope::default(), hash };
    site.admin.add_token(&new, &operator()).await.unwrap();
    let header = format!("authorization: Bearer {token}\r\n");
    assert_eq!(site.send("DELETE", "/api/v1/tokens/ann", &header, b"").await.status, 200);
    while site.send("GET", "/api/v1/status", &header, b"").await.status != 401 {
        tokio::task::yield_now().await;
    }
    assert_eq!(site.get("nobody", "/api/v1/status").await.status, 401);
    assert_eq!(site.get("nobody", "/api/v1/events").await.status, 401);
}

#[tokio::test]
async fn a_token_reaches_no_further_than_its_scope() {
    let site = Site::guarded("").await;
    let made = async |body: &str| {
        let made = site.ask("admin", "POST", "/api/v1/tokens", Some(body)).await;
        assert_eq!(made.status, 201, "{made:?}");
        format!(
            "authorization: Bearer {}\r\ncontent-type: application/json\r\n",
            made.json()["token"].as_str().unwrap()
        )
    };
    let of_route = made(r#"{"name": "r", "role": "operator", "routes": ["orders"]}"#).await;
    let of_other = made(r#"{"name": "o", "role": "operator", "routes": ["mail", "bills"]}"#).await;
    let of_tenant = made(r#"{"name": "t", "role": "viewer", "only_tenant": "acme"}"#).await;
    let of_nobody = made(r#"{"name": "n", "role": "viewer", "only_tenant": "globex"}"#).await;
    while site.send("GET", "/api/v1/dead?route=mail", &of_other, b"").await.status == 401 {
        tokio::task::yield_now().await;
    }
    for (token, method, path, body, status) in [
        (&of_route, "GET", "/api/v1/dead", "", 200),
        (&of_route, "GET", "/api/v1/routes/orders", "", 200),
        (&of_route, "POST", "/api/v1/routes/orders/pause", "{}", 200),
        (&of_route, "GET", "/api/v1/routes/mail", "", 403),
        (&of_route, "POST", "/api/v1/dead/discard", r#"{"route": "mail", "dry_run": true}"#, 403),
        (&of_route, "GET", "/api/v1/events", "", 403),
        (&of_route, "POST", "/api/v1/events", r#"{"type": "order.placed"}"#, 403),
        (&of_route, "GET", "/api/v1/audit", "", 403),
        (&of_route, "GET", "/api/v1/verify", "", 403),
        (&of_other, "GET", "/api/v1/dead", "", 400),
        (&of_other, "GET", "/api/v1/dead?route=orders", "", 403),
        (&of_tenant, "GET", "/api/v1/events", "", 200),
        (&of_tenant, "GET", "/api/v1/events?tenant=globex", "", 403),
        (&of_tenant, "GET", "/api/v1/events/e-1", "", 200),
        (&of_tenant, "GET", "/api/v1/status", "", 403),
        (&of_nobody, "GET", "/api/v1/events/e-1", "", 404),
    ] {
        let answer = site.send(method, path, token, body.as_bytes()).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    }
    let theirs = site.send("GET", "/api/v1/events", &of_nobody, b"").await;
    assert_eq!(theirs.json().as_array().unwrap().len(), 0, "events of another tenant are not shown");
    let status = site.send("GET", "/api/v1/status", &of_other.clone(), b"").await;
    assert_eq!(status.status, 400, "one of two routes has to be named: {status:?}");
    let status = site.send("GET", "/api/v1/status?route=mail", &of_other, b"").await.json();
    assert_eq!((status["routes"].as_array().unwrap().len(), status["stores"].as_array().unwrap().len()), (0, 0));
    for body in [
        r#"{"name": "w", "role": "worker"}"#,
        r#"{"name": "w", "role": "worker", "routes": ["orders"], "only_tenant": "acme"}"#,
        r#"{"name": "w", "role": "admin", "routes": ["orders"]}"#,
        r#"{"name": "anonymous", "role": "viewer"}"#,
    ] {
        assert_eq!(site.ask("admin", "POST", "/api/v1/tokens", Some(body)).await.code(), "http.parameter", "{body}");
    }
}

#[tokio::test]
async fn a_secret_is_replaced_without_a_gap() {
    let site = Site::guarded("").await;
    let first = format!("authorization: Bearer {}\r\n", site.token("viewer").unwrap());
    let rotate = async |keep: &str| {
        let body = format!(r#"{{"keep": "{keep}"}}"#);
        let rotated = site.ask("admin", "POST", "/api/v1/tokens/viewer/rotate", Some(&body)).await;
        assert_eq!(rotated.status, 201, "{rotated:?}");
        format!("authorization: Bearer {}\r\n", rotated.json()["token"].as_str().unwrap())
    };
    let second = rotate("1h").await;
    while site.send("GET", "/api/v1/status", &second, b"").await.status != 200 {
        tokio::task::yield_now().await;
    }
    assert_eq!(site.send("GET", "/api/v1/status", &first, b"").await.status, 200, "both are valid for a while");
    let third = rotate("0s").await;
    while site.send("GET", "/api/v1/status", &second, b"").await.status != 401 {
        tokio::task::yield_now().await;
    }
    assert_eq!(site.send("GET", "/api/v1/status", &first, b"").await.status, 401);
    assert_eq!(site.send("GET", "/api/v1/status", &third, b"").await.status, 200);
    let listed = site.get("admin", "/api/v1/tokens").await.json();
    let used =
        listed.as_array().unwrap().iter().find(|token| token["name"] == "viewer").unwrap()["last_used_at"].clone();
    assert!(used.is_string(), "{listed}");
}

#[tokio::test]
async fn refused_requests_are_counted_by_reason() {
    let site = Site::guarded("").await;
    for _ in 0..5 {
        assert_eq!(site.get("wrong", "/api/v1/status").await.status, 401);
    }
    assert_eq!(site.ask("viewer", "POST", "/api/v1/routes/orders/pause", None).await.status, 403);
    assert_eq!(site.send("GET", "/metrics", "host: evil.example\r\n", b"").await.status, 421);
    let metrics = site.get("nobody", "/metrics").await.body;
    for (reason, count) in [("unauthorized", 5), ("forbidden", 1), ("host", 1)] {
        let line = format!("postroom_http_requests_refused_total{{reason=\"{reason}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
}
