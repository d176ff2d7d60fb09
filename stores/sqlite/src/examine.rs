//! What is wrong with the file, or will be. Looks only.

use std::fs::OpenOptions;

use postroom_core::StoreError;
use postroom_core::view::Found;

use crate::store::Sqlite;

impl Sqlite {
    /// What is wrong with the file, or will be, whether or not our tables are in it. Changes nothing.
    pub async fn examine(&self) -> Result<Vec<Found>, StoreError> {
        let db = &self.inner.db;
        let (version, mode): (String, String) = db
            .read("examine", |conn| {
                Box::pin(async move {
                    let version = sqlx::query_scalar("select sqlite_version()").fetch_one(&mut *conn).await?;
                    Ok((version, sqlx::query_scalar("pragma journal_mode").fetch_one(conn).await?))
                })
            })
            .await?;
        let size = std::fs::metadata(&db.path).map_or(0, |file| file.len() / (1 << 20));
        let mut found = vec![Found::fine(format!("{} is read by SQLite {version} and has {size} MiB", db.path))];
        found.push(if mode == "wal" {
            Found::fine("readers and writers do not wait for each other (WAL)")
        } else {
            Found::warning(
                "doctor.journal_mode",
                format!("{} is in journal mode {mode}: readers keep writers out", db.path),
            )
            .hint("a store that may write sets it when it is opened")
            .mend("pragma journal_mode = wal;")
        });
        // Opening is enough to know, and changes nothing.
        let writable = OpenOptions::new().append(true).open(&db.path);
        found.push(match (db.read_only, writable) {
            (true, _) => Found::problem("doctor.read_only", format!("{} is opened for looking only", db.path))
                .hint("leave `?mode=ro` out of `url`: a relay marks what it has delivered"),
            (false, Err(error)) => {
                Found::problem("doctor.read_only", format!("{} cannot be written: {error}", db.path))
                    .hint("let this user write the file and its folder")
            }
            (false, Ok(_)) => Found::fine("it can be written"),
        });
        Ok(found)
    }
}
