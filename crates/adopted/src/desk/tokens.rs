//! Who may ask over HTTP.

use postroom_core::{Actor, NewToken, Role, StoreError, TokenRow};

use super::actions::{moment, record_if};
use super::query::{number, text};
use crate::ground::{Dialect, Row, Statement};
use crate::sql::literal;
use crate::store::{Inner, clock};

pub(super) async fn list(inner: &Inner) -> Result<Vec<TokenRow>, StoreError> {
    let writer = inner.writer();
    let statement = format!(
        "select name, hash, role, {}, created_by, {} from {} order by name",
        writer.micros("created_at"),
        writer.micros("expires_at"),
        writer.own("adopted_token")
    );
    let found = inner.ground.look("tokens", vec![Statement::new(statement)]).await?;
    Ok(found.into_iter().flatten().map(|row| token(inner, &row)).collect())
}

fn token(inner: &Inner, row: &Row) -> TokenRow {
    TokenRow {
        store: inner.name.clone(),
        name: text(row, 0).unwrap_or_default(),
        hash: text(row, 1).unwrap_or_default(),
        role: text(row, 2).and_then(|role| Role::parse(&role)).unwrap_or(Role::Viewer),
        created_at: moment(number(row, 3)),
        created_by: text(row, 4).unwrap_or_default(),
        expires_at: text(row, 5).map(|_| moment(number(row, 5))),
    }
}

pub(super) async fn add(inner: &Inner, token: &NewToken, actor: &Actor) -> Result<TokenRow, StoreError> {
    let writer = inner.writer();
    let (table, now) = (writer.own("adopted_token"), writer.now("$1"));
    let ends = match writer.dialect {
        Dialect::Postgres => "timestamptz 'epoch' + cast($6 as int8) * interval '1 microsecond'",
        Dialect::Sqlite => "cast($6 as integer)",
    };
    let insert = format!(
        "insert into {table} (name, hash, role, created_at, created_by, expires_at) \
         select $2, $3, $4, {now}, $5, {ends} where $1 is not null on conflict (name) do nothing returning name"
    );
    let insert = Statement::new(insert)
        .bind(clock())
        .bind(&token.name)
        .bind(&token.hash)
        .bind(token.role.as_str())
        .bind(&actor.name)
        .bind_or_null(token.expires_at.map(|end| end.as_microsecond().to_string()).as_deref());
    let ours = format!("exists (select 1 from {table} t where t.name = $4 and t.hash = {})", literal(&token.hash));
    let written = record_if(inner, actor, "token.create", &token.name, 1, &ours);
    let found = inner.ground.run("token", vec![insert, written]).await?;
    if found.first().is_none_or(Vec::is_empty) {
        return Err(token.taken());
    }
    list(inner).await?.into_iter().find(|row| row.name == token.name).ok_or_else(|| TokenRow::missing(&token.name))
}

pub(super) async fn revoke(inner: &Inner, name: &str, actor: &Actor) -> Result<(), StoreError> {
    let table = inner.writer().own("adopted_token");
    let there = format!("exists (select 1 from {table} t where t.name = $4)");
    let written = record_if(inner, actor, "token.revoke", name, 1, &there);
    let delete = Statement::new(format!("delete from {table} where name = $1 returning name")).bind(name);
    let found = inner.ground.run("token", vec![written, delete]).await?;
    if found.last().is_none_or(Vec::is_empty) { Err(TokenRow::missing(name)) } else { Ok(()) }
}
