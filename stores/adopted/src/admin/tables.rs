//! The operators' tables of an adopted table: the same as those of a native log, by the same code.

use async_trait::async_trait;
use jiff::Timestamp;
use postroom_admin::{Answer, Backend, Fault, Job, Session, Value, audit, run_write};
use postroom_core::{Actor, StoreError};

use crate::executor::Statement;
use crate::store::Inner;

/// The operators' tables, as far as they are about this table.
pub(super) struct Tables<'i>(pub(super) &'i Inner);

#[async_trait]
impl Backend for Tables<'_> {
    fn store(&self) -> &str {
        &self.0.name
    }

    async fn read(&self, operation: &'static str, job: Job) -> Result<Answer, StoreError> {
        self.0.executor.admin_read(operation, &self.0.mapping_name, job).await
    }

    async fn write(&self, operation: &'static str, job: Job) -> Result<Answer, StoreError> {
        self.0.executor.admin_write(operation, &self.0.mapping_name, job).await
    }

    fn wake(&self) {
        self.0.wake.wake();
    }
}

/// Runs statements on the adopted table in the transaction of an operator's work; returns how many rows each brought.
pub(super) async fn run(session: &mut dyn Session, statements: Vec<Statement>) -> Result<Vec<u64>, Fault> {
    let mut brought = Vec::with_capacity(statements.len());
    for Statement { text, values } in statements {
        let mut statement = postroom_admin::Statement::verbatim(&*text);
        statement.values = values.into_iter().map(Value::Text).collect();
        brought.push(session.fetch(statement).await?.len() as u64);
    }
    Ok(brought)
}

/// An operator's action, for the audit.
pub(super) struct Action {
    pub(super) actor: Actor,
    pub(super) verb: &'static str,
    pub(super) subject: String,
}

impl Action {
    pub(super) fn new(actor: &Actor, action: &'static str, subject: impl Into<String>) -> Self {
        Self { actor: actor.clone(), verb: action, subject: subject.into() }
    }

    /// Runs statements with their entry in the audit, in one transaction. `touched` makes of the rows that each brought what
    /// the entry counts; without a count nothing is recorded.
    pub(super) async fn run<F>(
        self,
        inner: &Inner,
        operation: &'static str,
        statements: Vec<Statement>,
        touched: F,
    ) -> Result<Vec<u64>, StoreError>
    where
        F: FnOnce(&[u64]) -> Option<u64> + Send + 'static,
    {
        run_write(&Tables(inner), operation, move |session| {
            Box::pin(async move {
                let brought = run(session, statements).await?;
                if let Some(touched) = touched(&brought) {
                    let now = session.now().await?;
                    audit::record(session, &self.actor, self.verb, &self.subject, touched, now).await?;
                }
                Ok(brought)
            })
        })
        .await
    }
}

/// Counts the rows that the first statement brought, if there are any.
pub(super) fn first(brought: &[u64]) -> Option<u64> {
    brought.first().copied().filter(|rows| *rows > 0)
}

/// Microseconds since 1970 as a time.
pub(super) fn moment(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH)
}
