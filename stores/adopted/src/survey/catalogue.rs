//! What the catalogue says of a table.

use postroom_core::StoreError;

use super::{Fact, Facts, Index, Rights};
use crate::executor::{Dialect, Row, Rows, SqlExecutor, Statement};
use crate::mapping::{Name, TableName};
use crate::sql::columns::Columns;

async fn ask(
    executor: &dyn SqlExecutor,
    postgres: &'static str,
    sqlite: &'static str,
    table: &TableName,
) -> Result<Rows, StoreError> {
    let (text, name) = match executor.dialect() {
        Dialect::Postgres => (postgres, table.quoted()),
        Dialect::Sqlite => (sqlite, table.table.as_str().to_owned()),
    };
    let found = executor.look("adopt", vec![Statement::new(text).bind(name)]).await?;
    Ok(found.into_iter().next().unwrap_or_default())
}

fn text(row: &Row, n: usize) -> String {
    row.get(n).cloned().flatten().unwrap_or_default()
}

/// What it is, if it is no table; what this user may do with it; whether rows of it are hidden.
pub(super) async fn relation(
    executor: &dyn SqlExecutor,
    table: &TableName,
) -> Result<(Option<&'static str>, Rights, bool), StoreError> {
    let found =
        ask(executor, include_str!("postgres/relation.sql"), include_str!("sqlite/relation.sql"), table).await?;
    let row = found.into_iter().next().unwrap_or_default();
    let kind = match text(&row, 0).as_str() {
        "v" | "view" => Some("a view"),
        "m" => Some("a materialized view"),
        "f" => Some("a foreign table"),
        _ => None,
    };
    let yes = |n: usize| executor.dialect() == Dialect::Sqlite || text(&row, n) == "true";
    let rights = Rights { user: Name::new(text(&row, 1)).in_sql(), select: yes(2), update: yes(3), delete: yes(4) };
    Ok((kind, rights, text(&row, 5) == "true"))
}

/// Columns, keys and indexes.
pub(super) async fn facts(
    executor: &dyn SqlExecutor,
    table: TableName,
    columns: &Columns,
) -> Result<Facts, StoreError> {
    let found = ask(executor, include_str!("postgres/columns.sql"), include_str!("sqlite/columns.sql"), &table).await?;
    let indexes =
        ask(executor, include_str!("postgres/indexes.sql"), include_str!("sqlite/indexes.sql"), &table).await?;
    let dialect = executor.dialect();
    let fact = |row: &Row| {
        let name = Name::new(text(row, 0));
        let column = columns.get(&name)?;
        let (labels, check) = match dialect {
            Dialect::Postgres => (text(row, 2), text(row, 3)),
            Dialect::Sqlite => Default::default(),
        };
        let labels: Vec<String> = serde_json::from_str(&labels).unwrap_or_default();
        Some(Fact {
            name,
            sql_type: column.sql_type.clone(),
            holds: column.holds,
            nullable: column.nullable,
            default: literal_of(&text(row, 1)),
            labels: if labels.is_empty() { literals(&check) } else { labels },
            cache: if dialect == Dialect::Postgres { text(row, 4).parse().unwrap_or(1) } else { 1 },
            words: Vec::new(),
            members: Vec::new(),
        })
    };
    let facts: Vec<Fact> = found.iter().filter_map(fact).collect();
    let mut keys = Vec::new();
    if dialect == Dialect::Sqlite {
        let mut primary: Vec<(String, Name)> =
            found.iter().map(|row| (text(row, 2), Name::new(text(row, 0)))).filter(|(part, _)| part != "0").collect();
        primary.sort();
        keys.extend(Some(primary.into_iter().map(|(_, name)| name).collect::<Vec<_>>()).filter(|key| !key.is_empty()));
    }
    let never_null = |name: &Name| columns.get(name).is_some_and(|column| !column.nullable);
    let mut all = Vec::new();
    for row in &indexes {
        let parts: Vec<String> = serde_json::from_str(&text(row, 2)).unwrap_or_default();
        let predicate = row.get(3).cloned().flatten().map(|sql| match dialect {
            Dialect::Postgres => sql,
            Dialect::Sqlite => condition(&sql),
        });
        let names: Vec<Name> = parts.iter().map(Name::new).collect();
        if text(row, 1) == "true" && predicate.is_none() && names.iter().all(never_null) && !keys.contains(&names) {
            keys.push(names);
        }
        all.push(Index { name: text(row, 0), parts, predicate });
    }
    Ok(Facts { dialect, table, columns: facts, keys, indexes: all })
}

/// What stands behind the last `where` of a statement.
fn condition(sql: &str) -> String {
    let at = sql.to_ascii_lowercase().rfind(" where ");
    at.and_then(|at| sql.get(at + " where ".len()..)).unwrap_or(sql).to_owned()
}

/// The value of an expression that is a literal.
fn literal_of(expression: &str) -> Option<String> {
    let expression = expression.trim();
    if expression.starts_with('\'') {
        return literals(expression).into_iter().next();
    }
    let number = expression.trim_matches(['(', ')']);
    let plain = number.parse::<i64>().is_ok() || matches!(number.to_ascii_lowercase().as_str(), "true" | "false");
    plain.then(|| number.to_ascii_lowercase())
}

/// The texts in quotes of an expression.
fn literals(expression: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some((_, inside)) = rest.split_once('\'') {
        let mut word = String::new();
        let mut inside = inside;
        loop {
            let Some((before, after)) = inside.split_once('\'') else { return found };
            word.push_str(before);
            if let Some(more) = after.strip_prefix('\'') {
                word.push('\'');
                inside = more;
            } else {
                rest = after;
                break;
            }
        }
        found.push(word);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_checks_are_read_as_the_databases_spell_them() {
        for (expression, value) in [
            ("'pending'::text", Some("pending")),
            ("'it''s'::character varying", Some("it's")),
            ("0", Some("0")),
            ("(0)", Some("0")),
            ("FALSE", Some("false")),
            ("now()", None),
            ("nextval('outbox_id_seq'::regclass)", None),
            ("", None),
        ] {
            assert_eq!(literal_of(expression).as_deref(), value, "{expression}");
        }
        let check = "CHECK ((status = ANY (ARRAY['new'::text, 'it''s'::text])))";
        assert_eq!(literals(check), ["new", "it's"]);
        assert_eq!(condition("create index i on t (a) WHERE sent_at is null"), "sent_at is null");
    }
}
