//! Who may ask over HTTP.

use postroom_core::{Actor, NewToken, Role, StoreError, TokenRow};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use super::actions::{Action, record};
use crate::clock::{micros, timestamp};
use crate::store::Inner;

pub(super) async fn list(inner: &Inner) -> Result<Vec<TokenRow>, StoreError> {
    let store = inner.name.clone();
    inner
        .db
        .read("tokens", move |conn| {
            Box::pin(async move {
                let rows = sqlx::query("select * from postroom_token order by name").fetch_all(conn).await?;
                Ok(rows.iter().map(|row| token(&store, row)).collect::<Result<_, _>>()?)
            })
        })
        .await
}

fn token(store: &str, row: &SqliteRow) -> Result<TokenRow, sqlx::Error> {
    Ok(TokenRow {
        store: store.to_owned(),
        name: row.try_get("name")?,
        hash: row.try_get("hash")?,
        role: Role::parse(row.try_get("role")?).unwrap_or(Role::Viewer),
        created_at: timestamp(row.try_get("created_at")?),
        created_by: row.try_get("created_by")?,
        expires_at: row.try_get::<Option<i64>, _>("expires_at")?.map(timestamp),
    })
}

pub(super) async fn add(inner: &Inner, new: &NewToken, actor: &Actor) -> Result<TokenRow, StoreError> {
    let (store, new, actor, now) = (inner.name.clone(), new.clone(), actor.clone(), inner.now());
    inner
        .db
        .write("token", move |conn| {
            Box::pin(async move {
                let made = sqlx::query(
                    "insert into postroom_token (name, hash, role, created_at, created_by, expires_at) \
                     values (?1, ?2, ?3, ?4, ?5, ?6) on conflict (name) do nothing returning *",
                )
                .bind(&new.name)
                .bind(&new.hash)
                .bind(new.role.as_str())
                .bind(now)
                .bind(&actor.name)
                .bind(new.expires_at.map(micros))
                .fetch_optional(&mut *conn)
                .await?;
                let made = made.as_ref().map(|row| token(&store, row)).transpose()?.ok_or_else(|| new.taken())?;
                record(conn, &Action::of(&actor, "token.create"), &new.name, 1, now).await?;
                Ok(made)
            })
        })
        .await
}

pub(super) async fn revoke(inner: &Inner, name: &str, actor: &Actor) -> Result<(), StoreError> {
    let (name, actor, now) = (name.to_owned(), actor.clone(), inner.now());
    inner
        .db
        .write("token", move |conn| {
            Box::pin(async move {
                let gone = sqlx::query("delete from postroom_token where name = ?1").bind(&name);
                if gone.execute(&mut *conn).await?.rows_affected() == 0 {
                    return Err(TokenRow::missing(&name).into());
                }
                record(conn, &Action::of(&actor, "token.revoke"), &name, 1, now).await?;
                Ok(())
            })
        })
        .await
}
