//! The correlation id of the running task: set once at the edge, found by every append below it.

use std::future::Future;

tokio::task_local! {
    static CORRELATION_ID: String;
}

/// Runs `future` so that every event built inside it carries `id` as its correlation id.
pub async fn with_correlation_id<F: Future>(id: impl Into<String>, future: F) -> F::Output {
    CORRELATION_ID.scope(id.into(), future).await
}

/// The correlation id of the running task, if one was set.
pub(crate) fn current() -> Option<String> {
    CORRELATION_ID.try_with(Clone::clone).ok()
}

#[cfg(test)]
mod tests {
    use crate::event::Event;

    #[tokio::test]
    async fn an_event_takes_the_correlation_id_of_its_task_else_its_own_id() {
        let inside = super::with_correlation_id("req-1", async { Event::new("t") }).await;
        let outside = Event::new("t");
        assert_eq!(inside.correlation(), "req-1");
        assert_eq!(outside.correlation(), outside.id);
        let caused = Event::new("u").caused_by(&inside);
        assert_eq!((caused.correlation(), caused.causation_id.as_deref()), ("req-1", Some(inside.id.as_str())));
    }
}
