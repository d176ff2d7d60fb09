//! One route of this store as one relay sees it.

pub(crate) mod position;
pub(crate) mod read;
pub(crate) mod unsettled;

use std::sync::Arc;

use async_trait::async_trait;
use postroom_core::{
    Budget, Ear, Lease, RelayIdentity, RouteDefinition, RouteHealth, Settlement, Source, Standing, StoreError, Take,
};

use crate::store::Inner;

pub(crate) struct PostgresSource;

impl PostgresSource {
    pub(crate) fn new(_: Arc<Inner>, _: RelayIdentity, _: RouteDefinition) -> Self {
        Self
    }
}

#[async_trait]
impl Source for PostgresSource {
    async fn take(&self, _: Budget) -> Result<Take, StoreError> {
        unimplemented!()
    }
    async fn settle(&self, _: &[Settlement]) -> Result<Standing, StoreError> {
        unimplemented!()
    }
    async fn renew(&self, _: &RouteHealth) -> Result<Lease, StoreError> {
        unimplemented!()
    }
    async fn release(&self) -> Result<(), StoreError> {
        unimplemented!()
    }
    fn ear(&self) -> Ear {
        unimplemented!()
    }
}
