//! What an application does about a message.

use std::future::Future;

use postroom_core::Failure;

use crate::message::Message;

/// Handler, which does the work of a message in the given transaction.
///
/// What is written in `tx` is there if and only if the event counts as accepted. What is written through another
/// connection is there even if it is rolled back and tried again: everything that must happen once goes through `tx`.
///
/// An `async fn` is one; a type of your own can be one, too, when it needs more than it is given:
///
/// ```
/// # use postroom_consumer::{Handler, Message};
/// # use postroom_core::Failure;
/// # struct Tx;
/// async fn book(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
///     Ok(())
/// }
///
/// struct Books {
///     currency: &'static str,
/// }
///
/// impl Handler<Tx> for Books {
///     async fn handle(&self, tx: &mut Tx, message: &Message) -> Result<(), Failure> {
///         Ok(())
///     }
/// }
/// ```
///
/// An error means another try later, as every error that is passed on with `?`; `Failure::permanent` means none.
/// `Failure::unavailable` means that something the work needs is down: it is tried again and counts as no try.
pub trait Handler<Tx>: Send + Sync + 'static {
    /// Does it.
    fn handle(&self, tx: &mut Tx, message: &Message) -> impl Future<Output = Result<(), Failure>> + Send;
}

impl<Tx, F> Handler<Tx> for F
where
    F: for<'a> Call<'a, Tx> + Send + Sync + 'static,
    Tx: Send + 'static,
{
    async fn handle(&self, tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        self(tx, message).await
    }
}

/// Function of a transaction and a message whose future may borrow both.
pub trait Call<'a, Tx: 'a>: Fn(&'a mut Tx, &'a Message) -> Self::Done {
    /// Its future.
    type Done: Future<Output = Result<(), Failure>> + Send + 'a;
}

impl<'a, Tx, F, Done> Call<'a, Tx> for F
where
    Tx: 'a,
    F: Fn(&'a mut Tx, &'a Message) -> Done,
    Done: Future<Output = Result<(), Failure>> + Send + 'a,
{
    type Done = Done;
}
