//! What a relay must be allowed before it delivers anything: who cannot mark a row would send it again and again.

use postroom_core::{StoreError, StoreErrorKind};

use crate::executor::{Dialect, SqlExecutor, Statement};
use crate::mapping::{Mapping, Name, State, TableName};
use crate::sql::literal;
use crate::store::Inner;

/// Refuses with the grants that are missing, if one is; with those on the inbox if the route has a consumer.
pub(crate) async fn check(inner: &Inner, has_consumer: bool) -> Result<(), StoreError> {
    if inner.executor.dialect() != Dialect::Postgres {
        return Ok(());
    }
    let mut grants = Vec::new();
    let inbox = inner.mapping.inbox.as_ref().filter(|_| has_consumer);
    let inbox = inbox.map(|inbox| (&inbox.table, &["select", "insert"][..]));
    for (table, rights) in needed(&inner.mapping).into_iter().chain(inbox) {
        let name = literal(&table.quoted());
        let missing = |right: &str| {
            let any = if right == "delete" {
                String::new()
            } else {
                format!(" or has_any_column_privilege({name}, '{right}')")
            };
            format!("select '{right}' where not (has_table_privilege({name}, '{right}'){any})")
        };
        let text = rights.iter().map(|right| missing(right)).collect::<Vec<_>>().join(" union all ");
        let found = inner.executor.look("open", vec![Statement::new(text)]).await?;
        let lacks: Vec<String> =
            found.into_iter().flatten().filter_map(|row| row.into_iter().next().flatten()).collect();
        if !lacks.is_empty() {
            grants.push((lacks.join(", "), table.quoted()));
        }
    }
    let Some((lacks, table)) = grants.first() else { return Ok(()) };
    let user = user(inner.executor.as_ref()).await?;
    let message = format!("{user} may not {lacks} on {table}, which a relay of store {:?} does", inner.name);
    let sql: Vec<String> =
        grants.iter().map(|(rights, table)| format!("grant {rights} on {table} to {user};")).collect();
    Err(StoreError::new(StoreErrorKind::PermissionDenied, "open", message)
        .hint(format!("run as the table's owner: {}", sql.join(" "))))
}

/// Tables, and what is done to them.
fn needed(mapping: &Mapping) -> Vec<(&TableName, &'static [&'static str])> {
    let table: &[&str] = match (&mapping.state, &mapping.log) {
        (_, Some(_)) => &["select", "update", "delete"],
        (State::Presence, None) => &["select", "delete"],
        _ => &["select", "update"],
    };
    let mut needed = vec![(&mapping.table, table)];
    needed.extend(mapping.log.as_ref().map(|log| (&log.table, &["insert"][..])));
    needed.extend(mapping.dead_letters.as_ref().map(|dead| (&dead.table, &["select", "insert", "update"][..])));
    needed
}

/// An error about our own tables, with the SQL that somebody with more rights may run.
pub(super) async fn explained(error: StoreError, executor: &dyn SqlExecutor, script: &str) -> StoreError {
    if error.kind != StoreErrorKind::PermissionDenied || executor.dialect() != Dialect::Postgres {
        return error;
    }
    let Ok(user) = user(executor).await else { return error };
    let schema = Name::new(executor.schema()).quoted();
    error.hint(format!(
        "run this as somebody who may, then start again:\n{script}grant usage on schema {schema} to {user};\n\
         grant select, insert, update, delete on all tables in schema {schema} to {user};\n\
         grant usage on all sequences in schema {schema} to {user};"
    ))
}

async fn user(executor: &dyn SqlExecutor) -> Result<String, StoreError> {
    let found = executor.look("open", vec![Statement::new("select current_user::text")]).await?;
    let name = found.into_iter().flatten().next().and_then(|row| row.into_iter().next().flatten()).unwrap_or_default();
    Ok(Name::new(name).quoted())
}
