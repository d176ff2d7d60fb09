//! One suite that every kind of adopted table passes, on every database.
//!
//! A store's test file says how to make an empty database, and runs everything:
//!
//! ```text
//! postroom_conformance::mapping_suite!(MyExecutor);
//! ```
#![allow(missing_docs, reason = "the names of the cases are sentences")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc, reason = "a suite fails by panicking")]

mod bench;
pub mod beside_log;
pub mod clocks;
pub mod delivering;
pub mod failing;
pub mod odd;
pub mod operating;
mod sample;
pub mod several;
pub mod sharing;
mod suite;
pub mod typed;

use std::sync::Arc;

use postroom_adopted::SqlExecutor;

pub use bench::{Bench, Worker};
pub use sample::Sample;

/// How the suite makes an empty database.
#[allow(async_fn_in_trait, reason = "a test awaits it on its own task")]
pub trait MappingHarness: Sized + 'static {
    /// Makes one of its own.
    async fn fresh() -> Self;
    /// The database.
    fn executor(&self) -> Arc<dyn SqlExecutor>;
}

/// Runs one case on a table of this kind that has a further route: the one of the case marks the rows as if it were alone.
pub async fn run_beside<H: MappingHarness>(sample: Sample, case: impl AsyncFnOnce(&Bench)) {
    let harness = H::fresh().await;
    let bench = Bench::open(sample, harness.executor()).await;
    case(&several::beside(&bench).await).await;
}

/// Runs one case on a table of this kind.
pub async fn run<H: MappingHarness>(sample: Sample, case: impl AsyncFnOnce(&Bench)) {
    let harness = H::fresh().await;
    let bench = Bench::open(sample, harness.executor()).await;
    case(&bench).await;
}
