//! A gate in front of the file, for tests that decide what else happens before a relay's next look or transaction. It is compiled
//! with the feature `broken` only; without it nothing waits and nothing is kept.
//!
//! What runs inside one snapshot or one write transaction sees one moment, whatever others do. So the moments that matter are
//! before a look, before a transaction begins, before it commits, and before its caller hears of it.

#[cfg(feature = "broken")]
pub(crate) use there::Gated;
#[cfg(feature = "broken")]
pub use there::{Gate, Passage};

#[cfg(feature = "broken")]
mod there {
    use std::fmt;
    use std::sync::Arc;

    use async_trait::async_trait;

    /// Where the work of one process waits.
    #[async_trait]
    pub trait Gate: fmt::Debug + Send + Sync {
        /// Waits until this work may begin; it goes on until the passage is dropped. Nothing where it may not: the process is dead,
        /// or the disk fails.
        async fn pass(&self, moment: &'static str, operation: &'static str) -> Option<Passage>;
    }

    /// Work that goes on.
    pub type Passage = Box<dyn Send + Sync>;

    /// A gate, if there is one.
    #[derive(Debug, Clone, Default)]
    pub(crate) struct Gated(pub(crate) Option<Arc<dyn Gate>>);

    impl Gated {
        pub(crate) async fn pass(
            &self,
            moment: &'static str,
            operation: &'static str,
        ) -> Result<Option<Passage>, sqlx::Error> {
            let Some(gate) = &self.0 else { return Ok(None) };
            match gate.pass(moment, operation).await {
                Some(passage) => Ok(Some(passage)),
                None => Err(sqlx::Error::Io(std::io::Error::other("the gate is closed"))),
            }
        }
    }
}

/// No gate, outside tests.
#[cfg(not(feature = "broken"))]
#[derive(Debug, Clone, Default)]
pub(crate) struct Gated {}

/// Work that goes on; nobody asks how long.
#[cfg(not(feature = "broken"))]
#[derive(Debug)]
pub(crate) struct Passage;

#[cfg(not(feature = "broken"))]
impl Gated {
    #[allow(clippy::unused_async, reason = "a gate of a test waits")]
    pub(crate) async fn pass(&self, _: &'static str, _: &'static str) -> Result<Passage, sqlx::Error> {
        Ok(Passage)
    }
}
