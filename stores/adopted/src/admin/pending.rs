//! Counts the rows of an adopted table that are still to be delivered.

use postroom_core::StoreError;

use super::query::{Query, number};
use crate::store::Adopted;

impl Adopted {
    /// Returns the name of the table, with its schema.
    pub fn table(&self) -> &str {
        &self.inner.mapping_name
    }

    /// Counts the rows that are to be delivered, now or later, up to a maximum.
    pub async fn pending_rows(&self, counted_max: u64) -> Result<u64, StoreError> {
        let mut query = Query::new(&self.inner);
        query.and(query.is_pending());
        let text = format!("select cast(count(*) as text) from (select 1 {} limit {counted_max}) x", query.from());
        let found = query.fetch("relay", text).await?;
        Ok(found.first().map(|row| number(row, 0)).unwrap_or_default())
    }
}
