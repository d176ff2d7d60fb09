//! The task behind a transport, for those that have one: it owns a connection and everybody who waits for an answer.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// Starts the driver with the first hand-over, and ends it when the transport is closed or dropped: its channel closes then.
#[derive(Debug, Default)]
pub struct DriverTask<T>(Mutex<State<T>>);

#[derive(Debug, Default)]
enum State<T> {
    #[default]
    Idle,
    Running(mpsc::UnboundedSender<T>, JoinHandle<()>),
    Closed,
}

impl<T> DriverTask<T> {
    /// Gives it something to do; `start` makes the driver when there is none yet, or when it has panicked. Back it comes
    /// when the transport is closed.
    pub fn hand_over<F>(&self, mut work: T, start: impl FnOnce(mpsc::UnboundedReceiver<T>) -> F) -> Result<(), T>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Closed => return Err(work),
            State::Idle => {}
            State::Running(hand_over, _) => match hand_over.send(work) {
                Ok(()) => return Ok(()),
                // It ends by itself only by a panic, which drops, and so reports, everything it owned.
                Err(refused) => work = refused.0,
            },
        }
        let (hand_over, batches) = mpsc::unbounded_channel();
        let sent = hand_over.send(work).map_err(|refused| refused.0);
        *state = State::Running(hand_over, tokio::spawn(start(batches)));
        sent
    }

    /// Waits until the driver has ended; nothing is taken any more.
    pub async fn close(&self) {
        let state = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, State::Closed)
        };
        if let State::Running(hand_over, driver) = state {
            drop(hand_over);
            // A driver that panicked has dropped, and so reported, everything it owned.
            let _ = driver.await;
        }
    }
}

/// Resolves at this time; never without one.
pub async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_starts_with_the_first_work_ends_with_the_close_and_gives_back_what_comes_later() {
        let (done, mut finished) = mpsc::unbounded_channel();
        let task = DriverTask::default();
        let start = |mut work: mpsc::UnboundedReceiver<u8>| {
            let done = done.clone();
            async move {
                while let Some(number) = work.recv().await {
                    done.send(number).unwrap();
                }
            }
        };
        assert_eq!((task.hand_over(1, start), task.hand_over(2, start)), (Ok(()), Ok(())));
        task.close().await;
        task.close().await;
        assert_eq!(task.hand_over(3, start), Err(3));
        assert_eq!((finished.try_recv(), finished.try_recv(), finished.try_recv().is_err()), (Ok(1), Ok(2), true));
    }

    #[tokio::test]
    async fn one_that_panicked_is_started_again_with_the_next_work() {
        let (done, mut finished) = mpsc::unbounded_channel();
        let task = DriverTask::default();
        let start = |mut work: mpsc::UnboundedReceiver<Vec<(u8, mpsc::Sender<()>)>>| {
            let done = done.clone();
            async move {
                while let Some(batch) = work.recv().await {
                    for (number, _held) in batch {
                        assert_ne!(number, 13, "a driver with a bug");
                        done.send(number).unwrap();
                    }
                }
            }
        };
        let (held, mut dropped) = mpsc::channel(1);
        assert!(
            task.hand_over(vec![(1, held.clone())], start).is_ok() && task.hand_over(vec![(13, held)], start).is_ok()
        );
        // Everything it owned is dropped, and with a transport reported, when it has panicked.
        assert_eq!(dropped.recv().await, None);
        let (held, mut dropped) = mpsc::channel(1);
        assert!(task.hand_over(vec![(2, held)], start).is_ok());
        assert_eq!(dropped.recv().await, None);
        assert_eq!((finished.recv().await, finished.recv().await), (Some(1), Some(2)));
        task.close().await;
    }

    #[tokio::test]
    async fn one_that_was_closed_before_it_started_never_starts() {
        let task = DriverTask::default();
        task.close().await;
        assert_eq!(task.hand_over(1, |_| async { unreachable!("it was closed") }), Err(1));
    }
}
