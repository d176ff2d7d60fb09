//! Tokens behave alike wherever they are kept.

#![allow(clippy::unwrap_used, reason = "what is not as it should be fails the test")]

use postroom_core::{Actor, Desk, NewToken, Role, StoreErrorKind, Timestamp};

/// Makes tokens, lists them, revokes one; what is said of them is true, and audited.
pub(crate) async fn made_listed_and_revoked(desk: &dyn Desk) {
    let actor = Actor { name: "ann@desk".to_owned(), reason: Some("for the graphs".to_owned()) };
    let ends: Timestamp = "2026-12-01T10:00:00.123456Z".parse().unwrap();
    let new =
        |name: &str, role, expires_at| NewToken { name: name.into(), role, expires_at, hash: format!("of-{name}") };
    let made = desk.add_token(&new("grafana", Role::Viewer, Some(ends)), &actor).await.unwrap();
    assert_eq!((made.name.as_str(), made.role, made.expires_at), ("grafana", Role::Viewer, Some(ends)));
    assert!(!made.has_ended("2026-11-30T00:00:00Z".parse().unwrap()) && made.has_ended(ends));
    desk.add_token(&new("ann", Role::Admin, None), &actor).await.unwrap();

    let taken = NewToken { hash: "another".into(), ..new("grafana", Role::Admin, None) };
    assert_eq!(desk.add_token(&taken, &actor).await.unwrap_err().kind, StoreErrorKind::Conflict);
    let all = desk.tokens().await.unwrap();
    let rows: Vec<_> = all.iter().map(|t| (t.name.as_str(), t.role, t.hash.as_str(), t.expires_at)).collect();
    assert_eq!(rows, [("ann", Role::Admin, "of-ann", None), ("grafana", Role::Viewer, "of-grafana", Some(ends))]);
    assert_eq!(all[1], made);
    assert_eq!(all[0].created_by, "ann@desk");

    desk.revoke_token("grafana", &actor).await.unwrap();
    assert_eq!(desk.revoke_token("grafana", &actor).await.unwrap_err().kind, StoreErrorKind::NotFound);
    let left: Vec<String> = desk.tokens().await.unwrap().into_iter().map(|token| token.name).collect();
    assert_eq!(left, ["ann"]);
    let actions = desk.actions(None, 10).await.unwrap();
    let done: Vec<_> = actions.iter().map(|a| (a.action.as_str(), a.subject.as_str(), a.actor.as_str())).collect();
    assert_eq!(
        done,
        [
            ("token.revoke", "grafana", "ann@desk"),
            ("token.create", "ann", "ann@desk"),
            ("token.create", "grafana", "ann@desk")
        ]
    );
}
