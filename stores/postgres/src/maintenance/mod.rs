//! Looking after the store on its server: rights, sizes, the sequence, and another cluster.
//!
//! Works on a store whose identity was not checked, because that is what it fixes.

mod diagnose;
mod identity;
mod passed;
mod roles;
mod stats;

use std::sync::Arc;

use async_trait::async_trait;
use postroom_core::view::{Accepted, Repaired, StoreGauges, StoreStats};
use postroom_core::{Actor, Diagnostic, Maintenance, StoreError};

use crate::schema;
use crate::store::Inner;

/// The maintenance of one store.
pub(crate) struct PostgresMaintenance(pub(crate) Arc<Inner>);

#[async_trait]
impl Maintenance for PostgresMaintenance {
    fn roles(&self) -> String {
        roles::script(&self.0)
    }

    async fn stats(&self) -> Result<StoreStats, StoreError> {
        schema::check(&self.0.db).await?;
        let inner = Arc::clone(&self.0);
        let work =
            self.0.db.read("measure", move |session| Box::pin(async move { stats::collect(session, &inner).await }));
        work.await
    }

    async fn gauges(&self) -> Result<StoreGauges, StoreError> {
        self.0.db.read("measure", move |session| Box::pin(async move { stats::gauges(session).await })).await
    }

    async fn diagnose(&self) -> Result<Vec<Diagnostic>, StoreError> {
        let tables = schema::is_current(&self.0.db).await?;
        let inner = Arc::clone(&self.0);
        let work = self.0.db.read("diagnose", move |session| {
            Box::pin(async move { diagnose::diagnose(session, &inner, tables).await })
        });
        work.await
    }

    async fn repair(&self, dry_run: bool, actor: &Actor) -> Result<Repaired, StoreError> {
        schema::check(&self.0.db).await?;
        // By itself, because appends wait for it; counting the log takes longer.
        let repaired = self.sequences(dry_run, actor).await?;
        let (inner, actor, sequence) = (Arc::clone(&self.0), actor.clone(), repaired.clone());
        let work = self.0.db.write_long("repair", move |session| {
            Box::pin(async move { identity::recover(session, &inner, &sequence, dry_run, &actor).await })
        });
        Ok(Repaired { passed: work.await?, ..repaired })
    }

    async fn accept_identity(&self, dry_run: bool, actor: &Actor) -> Result<Accepted, StoreError> {
        schema::check(&self.0.db).await?;
        let other = self.0.db.read("accept identity", |session| Box::pin(identity::is_other_cluster(session))).await?;
        let sequence = self.sequences(dry_run || !other, actor).await?;
        let (inner, actor) = (Arc::clone(&self.0), actor.clone());
        let work = self.0.db.write_long("accept identity", move |session| {
            Box::pin(async move { identity::accept(session, &inner, sequence, dry_run, &actor).await })
        });
        work.await
    }
}

impl PostgresMaintenance {
    async fn sequences(&self, dry_run: bool, actor: &Actor) -> Result<Repaired, StoreError> {
        let (inner, actor) = (Arc::clone(&self.0), actor.clone());
        let work = self.0.db.write("repair", move |session| {
            Box::pin(async move { identity::sequences(session, &inner, dry_run, &actor).await })
        });
        work.await
    }
}
