//! The suite that every kind of adopted table passes, on SQLite.
#![allow(clippy::unwrap_used, reason = "a harness fails by panicking")]

use std::sync::Arc;

use postroom_adopted::Ground;
use postroom_conformance::layouts::GroundHarness;
use postroom_sqlite::{SqliteGround, SqliteOptions};

struct Harness {
    ground: Arc<SqliteGround>,
    _folder: tempfile::TempDir,
}

impl GroundHarness for Harness {
    async fn fresh() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let ground = SqliteGround::open(SqliteOptions::new("main", path.to_str().unwrap()).create(true)).await.unwrap();
        Self { ground: Arc::new(ground), _folder: folder }
    }

    fn ground(&self) -> Arc<dyn Ground> {
        Arc::clone(&self.ground) as Arc<dyn Ground>
    }
}

postroom_conformance::layout_suite!(Harness);
