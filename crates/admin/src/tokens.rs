//! Tokens: who may ask over HTTP.

use std::time::Duration;

use postroom_core::{Actor, StoreError};
use serde_json::json;

use crate::audit::record;
use crate::backend::{Backend, run_read, run_write};
use crate::row::{Row, odd};
use crate::statement::Statement;
use crate::{NewToken, Role, Scope, TokenRow};

const COLUMNS: &str = "name, hash, role, created_at, created_by, expires_at, routes, tenant, last_used_at, revoked_at, \
                       previous_hash, previous_until";

/// Lists tokens by name, revoked ones too.
pub async fn list(backend: &dyn Backend) -> Result<Vec<TokenRow>, StoreError> {
    let store = backend.store().to_owned();
    run_read(backend, "tokens", move |session| {
        Box::pin(async move {
            let all = Statement::new(format!("select {COLUMNS} from postroom.token order by name"));
            let rows = session.fetch(all).await?;
            Ok(rows.iter().map(|row| token(&store, row)).collect::<Result<_, _>>()?)
        })
    })
    .await
}

fn token(store: &str, row: &Row) -> Result<TokenRow, StoreError> {
    let routes = serde_json::from_str(&row.text("routes")?).map_err(|_| odd("routes", "is no list of names"))?;
    Ok(TokenRow {
        store: store.to_owned(),
        name: row.text("name")?,
        hash: row.text("hash")?,
        role: Role::parse(&row.text("role")?).unwrap_or(Role::Worker),
        created_at: row.time("created_at")?,
        created_by: row.text("created_by")?,
        expires_at: row.maybe_time("expires_at")?,
        scope: Scope { routes, tenant: row.maybe_text("tenant")? },
        last_used_at: row.maybe_time("last_used_at")?,
        revoked_at: row.maybe_time("revoked_at")?,
        previous_hash: row.maybe_text("previous_hash")?,
        previous_until: row.maybe_time("previous_until")?,
    })
}

/// Adds a token, with its entry in the audit; fails if a token that is not revoked has the name.
pub async fn add(backend: &dyn Backend, new: &NewToken, actor: &Actor) -> Result<TokenRow, StoreError> {
    let (store, new, actor) = (backend.store().to_owned(), new.clone(), actor.clone());
    run_write(backend, "token", move |session| {
        Box::pin(async move {
            let now = session.now().await?;
            let insert = Statement::new(format!(
                "insert into postroom.token as t (name, hash, role, created_at, created_by, expires_at, routes, tenant) \
                 values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (name) do update set \
                 hash = excluded.hash, role = excluded.role, created_at = excluded.created_at, \
                 created_by = excluded.created_by, expires_at = excluded.expires_at, routes = excluded.routes, \
                 tenant = excluded.tenant, last_used_at = null, revoked_at = null, previous_hash = null, \
                 previous_until = null where t.revoked_at is not null returning {COLUMNS}"
            ));
            let insert = insert.bind(new.name.as_str()).bind(new.hash.as_str()).bind(new.role.as_str()).bind(now);
            let insert = insert.bind(actor.name.as_str()).bind(new.expires_at);
            let insert = insert.bind(json!(new.scope.routes).to_string()).bind(new.scope.tenant.clone());
            let made = session.fetch(insert).await?;
            let made = made.first().map(|row| token(&store, row)).transpose()?.ok_or_else(|| new.taken())?;
            record(session, &actor, "token.create", &new.name, 1, now).await?;
            Ok(made)
        })
    })
    .await
}

/// Revokes a token, with its entry in the audit; fails if there is none of this name that is not revoked.
pub async fn revoke(backend: &dyn Backend, name: &str, actor: &Actor) -> Result<(), StoreError> {
    let (name, actor) = (name.to_owned(), actor.clone());
    run_write(backend, "token", move |session| {
        Box::pin(async move {
            let now = session.now().await?;
            let revoke = Statement::new(
                "update postroom.token set revoked_at = $2, previous_hash = null, previous_until = null \
                 where name = $1 and revoked_at is null",
            );
            if session.execute(revoke.bind(name.as_str()).bind(now)).await? == 0 {
                return Err(TokenRow::missing(&name).into());
            }
            record(session, &actor, "token.revoke", &name, 1, now).await?;
            Ok(())
        })
    })
    .await
}

/// Gives a token another secret, with its entry in the audit; the one it had stays valid for a while.
pub async fn rotate(
    backend: &dyn Backend,
    name: &str,
    hash: &str,
    keep: Duration,
    actor: &Actor,
) -> Result<TokenRow, StoreError> {
    let (store, actor) = (backend.store().to_owned(), actor.clone());
    let (name, hash) = (name.to_owned(), hash.to_owned());
    run_write(backend, "token", move |session| {
        Box::pin(async move {
            let now = session.now().await?;
            let until = now.checked_add(keep).map_err(|_| odd("previous_until", "is too far in the future"))?;
            let rotate = Statement::new(format!(
                "update postroom.token set previous_hash = hash, previous_until = $3, hash = $2 \
                 where name = $1 and revoked_at is null returning {COLUMNS}"
            ));
            let rotated = session.fetch(rotate.bind(name.as_str()).bind(hash.as_str()).bind(until)).await?;
            let rotated = rotated.first().map(|row| token(&store, row)).transpose()?;
            let rotated = rotated.ok_or_else(|| TokenRow::missing(&name))?;
            record(session, &actor, "token.rotate", &name, 1, now).await?;
            Ok(rotated)
        })
    })
    .await
}

/// Writes down that a token is used.
pub async fn used(backend: &dyn Backend, name: &str) -> Result<(), StoreError> {
    let name = name.to_owned();
    run_write(backend, "token", move |session| {
        Box::pin(async move {
            let now = session.now().await?;
            let used = Statement::new(
                "update postroom.token set last_used_at = $2 where name = $1 \
                 and (last_used_at is null or last_used_at < $2)",
            );
            // Another relay may have written a later one down, or the token is gone: both are fine.
            session.execute(used.bind(name.as_str()).bind(now)).await?;
            Ok(())
        })
    })
    .await
}
