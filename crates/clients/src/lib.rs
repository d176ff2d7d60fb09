//! Appending and accepting on PostgreSQL in a transaction of another client than sqlx, each behind a feature of its name.
//!
//! Every module has the same four functions, `append`, `append_many`, `append_once` and `accept`, and they promise what
//! [`Outbox`](postroom_core::Outbox) and [`Inbox`](postroom_core::Inbox) do. They execute the same
//! [`Statement`](postroom_postgres::Statement)s, so which client wrote an event cannot be told afterwards. The transaction must
//! be in the database the store was opened on.

#[cfg(feature = "diesel-async")]
pub mod diesel_async;
#[cfg(feature = "sea-orm")]
pub mod sea_orm;
#[cfg(feature = "tokio-postgres")]
pub mod tokio_postgres;

/// Stands for an error without a SQLSTATE: the server did not answer.
#[cfg(any(feature = "tokio-postgres", feature = "diesel-async", feature = "sea-orm"))]
const NO_ANSWER: &str = "08006";
