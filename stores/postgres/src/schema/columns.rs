//! Are the tables still what the migration made? Somebody may have changed them by hand.
//!
//! What there should be stands in `migrations/columns.txt`, one line per column; a test compares it with a fresh store.

use std::collections::BTreeMap;

use postroom_core::{StoreError, StoreErrorKind};
use sqlx::Row as _;

use crate::database::{Database, Session};
use crate::error::Fault;

/// A column and its type, as in `log.seq bigint not null`.
const EXPECTED: &str = include_str!("../../migrations/columns.txt");

/// The rows of `meta` that the migration made, beside the version.
const META: [&str; 7] = ["lanes", "partitions", "segment", "system_identifier", "timeline", "database", "servers"];

/// Fails when a table of ours is not what the migration made; names every difference.
pub(crate) async fn check(db: &Database, schema: &str) -> Result<(), StoreError> {
    let schema = schema.to_owned();
    let (there, meta) = db
        .read("open", move |session| {
            Box::pin(async move { Ok((columns(session, &schema).await?, meta(session).await?)) })
        })
        .await?;
    let expected = EXPECTED.replace("{partitions}", meta.get("partitions").map_or("?", String::as_str));
    let mut differences = differences(&parse(&expected), &there);
    let missing = META.iter().filter(|name| !meta.contains_key(**name));
    differences.extend(missing.map(|name| format!("meta has no row {name}")));
    if differences.is_empty() { Ok(()) } else { Err(changed(&db.place, &differences)) }
}

/// The error of tables that are not what the migration made.
pub(super) fn changed(place: &str, differences: &[String]) -> StoreError {
    let message = format!("the store's tables in {place} were changed: {}", differences.join("; "));
    StoreError::new(StoreErrorKind::Schema, "open", message)
        .hint("undo that by hand, or restore the tables; `postroom store migrate plan` on an empty schema shows how they were made")
}

/// The rows of `meta`, by name.
async fn meta(session: &mut Session) -> Result<BTreeMap<String, String>, Fault> {
    let rows = session.sql.query("select name, value from postroom.meta").fetch_all(&mut *session.conn).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// The columns that are there, by name.
async fn columns(session: &mut Session, schema: &str) -> Result<BTreeMap<String, String>, Fault> {
    let query = session.sql.query(include_str!("../sql/columns.sql")).bind(schema.to_owned());
    let rows = query.fetch_all(&mut *session.conn).await?;
    rows.iter().map(|row| Ok((row.try_get("name")?, row.try_get("type")?))).collect()
}

fn parse(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
        .collect()
}

/// What differs, table by table. Tables of others in the schema are theirs.
fn differences(expected: &BTreeMap<String, String>, there: &BTreeMap<String, String>) -> Vec<String> {
    let table = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let is_there = |wanted: &str| there.keys().any(|name| table(name) == wanted);
    let mut all: Vec<String> = Vec::new();
    let mut say = |difference: String| {
        if !all.contains(&difference) {
            all.push(difference);
        }
    };
    for (name, kind) in expected {
        match there.get(name) {
            Some(found) if found == kind => {}
            Some(found) => say(format!("{name} is {found}, not {kind}")),
            None if is_there(&table(name)) => say(format!("{name} is missing")),
            None => say(format!("table {} is missing", table(name))),
        }
    }
    for (name, kind) in there {
        if !expected.contains_key(name) && expected.keys().any(|known| table(known) == table(name)) {
            say(format!("{name} {kind} was added"));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_is_named_and_tables_of_others_are_left_alone() {
        let expected = parse("a.x int not null\na.y text\nb.z text\nr 4 partitions\n");
        let check = |there: &str| differences(&expected, &parse(there)).join("; ");
        assert_eq!(check("a.x int not null\na.y text\nb.z text\nr 4 partitions\nmine.q int\n"), "");
        assert_eq!(
            check("a.x bigint\na.w text\nr 3 partitions\n"),
            "a.x is bigint, not int not null; a.y is missing; table b is missing; r is 3 partitions, not 4 partitions; \
             a.w text was added"
        );
    }
}
