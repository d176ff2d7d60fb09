//! Who may ask over HTTP.

use std::sync::Arc;

use postroom_core::{Actor, NewToken, Role, StoreError, TokenRow};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::actions::{Action, record};
use crate::clock::{Time, micros, timestamp};
use crate::store::Inner;

pub(super) async fn list(inner: &Inner) -> Result<Vec<TokenRow>, StoreError> {
    let store = inner.name.clone();
    inner
        .db
        .read("tokens", move |session| {
            Box::pin(async move {
                let all = session.sql.query("select * from postroom.token order by name");
                let rows = all.fetch_all(&mut *session.conn).await?;
                Ok(rows.iter().map(|row| token(&store, row)).collect::<Result<_, _>>()?)
            })
        })
        .await
}

fn token(store: &str, row: &PgRow) -> Result<TokenRow, sqlx::Error> {
    Ok(TokenRow {
        store: store.to_owned(),
        name: row.try_get("name")?,
        hash: row.try_get("hash")?,
        role: Role::parse(row.try_get("role")?).unwrap_or(Role::Viewer),
        created_at: timestamp(row.try_get::<Time, _>("created_at")?.0),
        created_by: row.try_get("created_by")?,
        expires_at: row.try_get::<Option<Time>, _>("expires_at")?.map(|end| timestamp(end.0)),
    })
}

pub(super) async fn add(inner: &Arc<Inner>, new: &NewToken, actor: &Actor) -> Result<TokenRow, StoreError> {
    let (shared, new, actor) = (Arc::clone(inner), new.clone(), actor.clone());
    inner
        .db
        .write("token", move |session| {
            Box::pin(async move {
                let now = shared.now(session).await?;
                let insert = session.sql.query(
                    "insert into postroom.token (name, hash, role, created_at, created_by, expires_at) \
                     values ($1, $2, $3, $4, $5, $6) on conflict (name) do nothing returning *",
                );
                let made = insert
                    .bind(new.name.clone())
                    .bind(new.hash.clone())
                    .bind(new.role.as_str())
                    .bind(Time(now))
                    .bind(actor.name.clone())
                    .bind(new.expires_at.map(|end| Time(micros(end))))
                    .fetch_optional(&mut *session.conn)
                    .await?;
                let made = made.as_ref().map(|row| token(&shared.name, row)).transpose()?.ok_or_else(|| new.taken())?;
                record(session, &Action::of(&actor, "token.create"), &new.name, 1, now).await?;
                Ok(made)
            })
        })
        .await
}

pub(super) async fn revoke(inner: &Arc<Inner>, name: &str, actor: &Actor) -> Result<(), StoreError> {
    let (shared, name, actor) = (Arc::clone(inner), name.to_owned(), actor.clone());
    inner
        .db
        .write("token", move |session| {
            Box::pin(async move {
                let now = shared.now(session).await?;
                let gone = session.sql.query("delete from postroom.token where name = $1").bind(name.clone());
                if gone.execute(&mut *session.conn).await?.rows_affected() == 0 {
                    return Err(TokenRow::missing(&name).into());
                }
                record(session, &Action::of(&actor, "token.revoke"), &name, 1, now).await?;
                Ok(())
            })
        })
        .await
}
