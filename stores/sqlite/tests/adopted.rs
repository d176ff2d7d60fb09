//! The suite that every kind of adopted table passes, on SQLite.
#![allow(clippy::unwrap_used, reason = "a harness fails by panicking")]

use std::sync::Arc;

use postroom_adopted::SqlExecutor;
use postroom_conformance::mappings::{MappingHarness, beside_log};
use postroom_sqlite::{SqliteExecutor, SqliteOptions, SqliteStore};

struct Harness {
    executor: Arc<SqliteExecutor>,
    path: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

impl MappingHarness for Harness {
    async fn fresh() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let executor =
            SqliteExecutor::open(SqliteOptions::new("main", path.to_str().unwrap()).create(true)).await.unwrap();
        Self { executor: Arc::new(executor), path, _folder: folder }
    }

    fn executor(&self) -> Arc<dyn SqlExecutor> {
        Arc::clone(&self.executor) as Arc<dyn SqlExecutor>
    }
}

postroom_conformance::mapping_suite!(Harness);
postroom_conformance::mapping_suite!(several Harness);

#[tokio::test]
async fn a_native_log_and_an_adopted_table_share_the_operators_tables() {
    for first in beside_log::First::ALL {
        let harness = Harness::fresh().await;
        let options = SqliteOptions::new("log", harness.path.to_str().unwrap());
        let native = SqliteStore::open_unmigrated(options).await.unwrap();
        let executor = harness.executor();
        beside_log::a_native_log_and_an_adopted_table_share_the_operators_tables(&native, executor, first).await;
    }
}
