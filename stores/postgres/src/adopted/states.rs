//! StateGuard in a table of the application's, changed by steps that are allowed and no others.

use std::sync::Arc;

use postroom_adopted::{Dialect, STEP_TRIES as TRIES, StateTable, StateTexts};
use postroom_core::{StateGuard, StoreError, Transition, Transitions};
use sqlx::{AssertSqlSafe, PgPool};

use super::catalogue;
use crate::error::Fault;
use crate::tx::PostgresTransaction;

/// Guard of the state column of a table.
#[derive(Debug, Clone)]
pub struct PostgresStateGuard {
    texts: StateTexts,
    transitions: Transitions,
}

impl PostgresStateGuard {
    /// Opens the guard and checks its table once: the error names a missing table or column.
    pub async fn open(pool: &PgPool, table: &StateTable, transitions: Transitions) -> Result<Self, StoreError> {
        let found = catalogue::read(pool, &table.table).await?;
        let texts = StateTexts::new(Dialect::Postgres, table, &transitions, &found)?;
        Ok(Self { texts, transitions })
    }

    fn failed(&self, error: sqlx::Error) -> StoreError {
        Fault::from(error).at("advance", &self.texts.table())
    }
}

impl<T: PostgresTransaction> StateGuard<T> for PostgresStateGuard {
    async fn advance(&self, tx: &mut T, key: &str, to: &str) -> Result<Transition, StoreError> {
        self.texts.check(key)?;
        for _ in 0..TRIES {
            if let Some(step) = self.texts.step(to) {
                let query = sqlx::query(AssertSqlSafe(Arc::clone(step))).bind(key);
                if query.execute(tx.connection()).await.map_err(|error| self.failed(error))?.rows_affected() > 0 {
                    return Ok(Transition::Taken);
                }
            }
            // Nothing was changed; what is there says why.
            let look = sqlx::query_scalar::<_, Option<String>>(AssertSqlSafe(Arc::clone(&self.texts.look))).bind(key);
            match look.fetch_optional(tx.connection()).await.map_err(|error| self.failed(error))? {
                None => return Ok(self.transitions.missing(to)),
                Some(from) => match self.transitions.step(from.as_deref().unwrap_or_default(), to) {
                    // Somebody has committed in between, and now it would be allowed.
                    Transition::Taken => {}
                    other => return Ok(other),
                },
            }
        }
        Err(self.texts.busy(key))
    }
}
