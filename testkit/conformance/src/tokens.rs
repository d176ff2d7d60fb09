//! Tokens behave alike wherever they are kept.

#![allow(clippy::unwrap_used, reason = "what is not as it should be fails the test")]

use std::time::Duration;

use postroom_admin::{Admin, NewToken, Role, Scope};
use postroom_core::{Actor, StoreErrorKind, Timestamp};

/// Makes tokens, lists them, revokes one; what is said of them is true, and audited.
pub(crate) async fn made_listed_and_revoked(admin: &dyn Admin) {
    let actor = Actor { name: "ann@admin".to_owned(), reason: Some("for the graphs".to_owned()) };
    let ends: Timestamp = "2026-12-01T10:00:00.123456Z".parse().unwrap();
    let scope = Scope { routes: vec!["mailer".into(), "a, \"b\"".into()], tenant: Some("acme".into()) };
    let new = |name: &str, role, expires_at| {
        let scope = if role == Role::Worker { scope.clone() } else { Scope::default() };
        NewToken { name: name.into(), role, expires_at, scope, hash: format!("of-{name}") }
    };
    let made = admin.add_token(&new("grafana", Role::Viewer, Some(ends)), &actor).await.unwrap();
    assert_eq!((made.name.as_str(), made.role, made.expires_at), ("grafana", Role::Viewer, Some(ends)));
    assert!(!made.has_ended("2026-11-30T00:00:00Z".parse().unwrap()) && made.has_ended(ends));
    admin.add_token(&new("ann", Role::Admin, None), &actor).await.unwrap();

    let taken = NewToken { hash: "another".into(), ..new("grafana", Role::Admin, None) };
    assert_eq!(admin.add_token(&taken, &actor).await.unwrap_err().kind, StoreErrorKind::Conflict);
    let all = admin.tokens().await.unwrap();
    let rows: Vec<_> = all.iter().map(|t| (t.name.as_str(), t.role, t.hash.as_str(), t.expires_at)).collect();
    assert_eq!(rows, [("ann", Role::Admin, "of-ann", None), ("grafana", Role::Viewer, "of-grafana", Some(ends))]);
    assert_eq!(all[1], made);
    assert_eq!(all[0].created_by, "ann@admin");

    let worker = admin.add_token(&new("worker", Role::Worker, None), &actor).await.unwrap();
    assert_eq!((worker.scope, worker.last_used_at, worker.revoked_at), (scope, None, None));

    admin.revoke_token("grafana", &actor).await.unwrap();
    assert_eq!(admin.revoke_token("grafana", &actor).await.unwrap_err().kind, StoreErrorKind::NotFound);
    let all = admin.tokens().await.unwrap();
    let left: Vec<_> = all.iter().map(|token| (token.name.as_str(), token.revoked_at.is_some())).collect();
    assert_eq!(left, [("ann", false), ("grafana", true), ("worker", false)], "that there was one is remembered");
    assert!(all[1].has_ended(made.created_at) && all[1].hashes(made.created_at).next().is_none());
    let again = admin.add_token(&taken, &actor).await.unwrap();
    assert_eq!((again.role, again.revoked_at, again.hash.as_str()), (Role::Admin, None, "another"));

    let actions = admin.audit(None, 10).await.unwrap();
    let done: Vec<_> = actions.iter().map(|a| (a.action.as_str(), a.subject.as_str(), a.actor.as_str())).collect();
    assert_eq!(
        done,
        [
            ("token.create", "grafana", "ann@admin"),
            ("token.revoke", "grafana", "ann@admin"),
            ("token.create", "worker", "ann@admin"),
            ("token.create", "ann", "ann@admin"),
            ("token.create", "grafana", "ann@admin")
        ]
    );
}

/// Rotates a secret: both are valid for a while, then the new one; a use is written down.
pub(crate) async fn rotated_and_used(admin: &dyn Admin) {
    let actor = Actor { name: "ann@admin".to_owned(), reason: None };
    let new = NewToken {
        name: "grafana".into(),
        role: Role::Viewer,
        expires_at: None,
        scope: Scope::default(),
        hash: "first".into(),
    };
    let made = admin.add_token(&new, &actor).await.unwrap();
    let rotated = admin.rotate_token("grafana", "second", Duration::from_mins(1), &actor).await.unwrap();
    let until = rotated.previous_until.unwrap();
    assert_eq!(rotated.hashes(made.created_at).collect::<Vec<_>>(), ["second", "first"]);
    assert_eq!(rotated.hashes(until).collect::<Vec<_>>(), ["second"]);
    assert_eq!(admin.tokens().await.unwrap(), [rotated]);
    let nobody = admin.rotate_token("nobody", "third", Duration::ZERO, &actor).await;
    assert_eq!(nobody.unwrap_err().kind, StoreErrorKind::NotFound);

    assert!(made.use_is_news(made.created_at));
    admin.token_used("grafana").await.unwrap();
    admin.token_used("nobody").await.unwrap();
    let used = admin.tokens().await.unwrap().remove(0);
    let at = used.last_used_at.unwrap();
    assert!(!used.use_is_news(at) && used.use_is_news(at + Duration::from_mins(1)));

    admin.revoke_token("grafana", &actor).await.unwrap();
    let revoked = admin.tokens().await.unwrap().remove(0);
    assert_eq!((revoked.previous_hash, revoked.previous_until), (None, None), "the previous secret ends with it");
    let late = admin.rotate_token("grafana", "fourth", Duration::ZERO, &actor).await;
    assert_eq!(late.unwrap_err().kind, StoreErrorKind::NotFound);
}
