//! What is wrong with the file, or will be. Looks only.

use std::fs::OpenOptions;

use postroom_core::{Diagnostic, StoreError};

use crate::store::SqliteStore;

impl SqliteStore {
    /// Diagnoses the file, whether or not the tables are in it. Changes nothing.
    pub async fn diagnose(&self) -> Result<Vec<Diagnostic>, StoreError> {
        let db = &self.inner.db;
        let (version, mode): (String, String) = db
            .read("diagnose", |conn| {
                Box::pin(async move {
                    let version = sqlx::query_scalar("select sqlite_version()").fetch_one(&mut *conn).await?;
                    Ok((version, sqlx::query_scalar("pragma journal_mode").fetch_one(conn).await?))
                })
            })
            .await?;
        let size = std::fs::metadata(&db.path).map_or(0, |file| file.len() / (1 << 20));
        let mut found = vec![Diagnostic::fine(format!("{} is read by SQLite {version} and has {size} MiB", db.path))];
        found.push(if mode == "wal" {
            Diagnostic::fine("readers and writers do not wait for each other (WAL)")
        } else {
            Diagnostic::warning(
                "doctor.journal_mode",
                format!("{} is in journal mode {mode}: readers keep writers out", db.path),
            )
            .hint("a store that may write sets it when it is opened")
            .fix("pragma journal_mode = wal;")
        });
        // Opening is enough to know, and changes nothing.
        let writable = OpenOptions::new().append(true).open(&db.path);
        found.push(match (db.read_only, writable) {
            (true, _) => Diagnostic::problem("doctor.read_only", format!("{} is opened read-only", db.path))
                .hint("leave `?mode=ro` out of `url`: a relay records its deliveries"),
            (false, Err(error)) => {
                Diagnostic::problem("doctor.read_only", format!("{} cannot be written: {error}", db.path))
                    .hint("grant this user write access to the file and its folder")
            }
            (false, Ok(_)) => Diagnostic::fine("the file can be written"),
        });
        if let Ok(disk) = nix::sys::statvfs::statvfs(db.path.as_str()) {
            found.push(room(&db.path, disk.blocks_available().saturating_mul(disk.fragment_size())));
        }
        Ok(found)
    }
}

/// Room on a disk below which it is as good as full, in bytes.
const FULL: u64 = 16 << 20;
/// Room on a disk below which it is about to be full, in bytes.
const SCARCE: u64 = 512 << 20;

/// Says how much room the disk of a file has left.
fn room(path: &str, free: u64) -> Diagnostic {
    let left = format!("{} MiB", free >> 20);
    let hint = "free space on the disk, or move the file; events and their outcomes cannot be written without room";
    match free {
        0..FULL => {
            Diagnostic::problem("doctor.disk_full", format!("the disk of {path} is full: {left} are left")).hint(hint)
        }
        FULL..SCARCE => {
            Diagnostic::warning("doctor.disk_full", format!("the disk of {path} is nearly full: {left} are left"))
                .hint(hint)
        }
        _ => Diagnostic::fine("the disk of the file has room"),
    }
}

#[cfg(test)]
mod tests {
    use postroom_core::Level;

    use super::*;

    #[test]
    fn a_full_disk_is_a_problem_and_one_that_is_nearly_full_a_warning() {
        let level = |mib: u64| room("shop.db", mib << 20).level;
        assert_eq!(
            [level(0), level(15), level(16), level(511), level(512)].map(|level| level == Level::Problem),
            [true, true, false, false, false]
        );
        assert_eq!([level(16), level(511), level(512)].map(|level| level == Level::Warning), [true, true, false]);
        let full = room("shop.db", 3 << 20);
        assert_eq!(full.message, "the disk of shop.db is full: 3 MiB are left");
    }
}
