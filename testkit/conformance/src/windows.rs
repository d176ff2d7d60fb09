//! The suite every window of ids passes.

#![allow(missing_docs, reason = "the names of the cases are sentences")]
#![allow(clippy::missing_panics_doc, reason = "a suite says what is wrong by panicking")]
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "the same")]

use std::future::Future;
use std::time::Duration;

use postroom_consumer::dedup::{
    Confirmation, DedupClaim, DedupOutcome, DedupTicket, DedupWindow, DedupWindowError, DedupWindowOptions, run_once,
};
use postroom_core::{Failure, FailureKind, RetryPolicy};

/// Makes windows for the suite, and lets time pass for them.
pub trait DedupWindowHarness: Sized + Send + Sync {
    /// Its kind of window.
    type DedupWindow: DedupWindow;
    /// A place for windows that nobody else has.
    fn fresh() -> impl Future<Output = Self> + Send;
    /// A window there.
    fn window(&self, options: &DedupWindowOptions) -> Result<Self::DedupWindow, DedupWindowError>;
    /// So long later.
    fn pass(&self, time: Duration) -> impl Future<Output = ()> + Send;
}

/// Runs the suite against a harness, each case as a test of its own.
#[macro_export]
macro_rules! window_suite {
    ($harness:ty) => { $crate::window_suite!(@cases $harness:
        an_event_is_new_once_and_a_duplicate_when_it_is_confirmed,
        while_one_works_on_it_the_others_are_held_back,
        of_many_at_once_exactly_one_gets_the_claim,
        a_claim_of_a_consumer_that_died_ends_by_itself,
        a_claim_that_is_released_is_new_again,
        a_late_confirmation_says_so_and_is_remembered,
        an_old_ticket_does_not_release_a_newer_claim,
        two_consumers_claim_the_same_event_each_for_itself,
        a_window_shorter_than_an_event_may_come_again_is_not_built,
        a_replay_after_a_window_that_was_allowed_to_be_short_is_done_again,
        an_effect_runs_once_and_a_failed_one_again,
        a_name_that_cannot_be_is_refused,
    ); };
    (@cases $harness:ty: $($case:ident),+ $(,)?) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            $crate::windows::$case::<$harness>().await;
        }
    )+ };
}

const SECOND: Duration = Duration::from_secs(1);

fn none() -> RetryPolicy {
    RetryPolicy::default().attempts(1)
}

fn options() -> DedupWindowOptions {
    DedupWindowOptions::new(&none())
}

async fn fresh<H: DedupWindowHarness>() -> (H, H::DedupWindow) {
    let harness = H::fresh().await;
    let window = harness.window(&options()).unwrap();
    (harness, window)
}

async fn taken<W: DedupWindow>(window: &W, consumer: &str, id: &str) -> DedupTicket {
    match window.claim(consumer, id).await.unwrap() {
        DedupClaim::New(ticket) => ticket,
        other => panic!("{consumer} {id} should be new: {other:?}"),
    }
}

pub async fn an_event_is_new_once_and_a_duplicate_when_it_is_confirmed<H: DedupWindowHarness>() {
    let (harness, window) = fresh::<H>().await;
    let ticket = taken(&window, "mailer", "e-1").await;
    assert_eq!(window.confirm(ticket).await, Ok(Confirmation::InTime));
    assert_eq!(window.claim("mailer", "e-1").await, Ok(DedupClaim::Duplicate));
    harness.pass(9 * 60 * SECOND).await;
    assert_eq!(window.claim("mailer", "e-1").await, Ok(DedupClaim::Duplicate));
    assert_eq!(window.confirm(taken(&window, "mailer", "e-2").await).await, Ok(Confirmation::InTime));
}

pub async fn while_one_works_on_it_the_others_are_held_back<H: DedupWindowHarness>() {
    let (harness, window) = fresh::<H>().await;
    let ticket = taken(&window, "mailer", "e-1").await;
    harness.pass(20 * SECOND).await;
    let DedupClaim::Held(left) = window.claim("mailer", "e-1").await.unwrap() else { panic!("it is held") };
    assert!(left > 10 * SECOND && left <= 40 * SECOND, "{left:?}");
    assert_eq!(window.confirm(ticket).await, Ok(Confirmation::InTime));
}

pub async fn of_many_at_once_exactly_one_gets_the_claim<H: DedupWindowHarness>() {
    let (_harness, window) = fresh::<H>().await;
    for round in 0..10 {
        let id = format!("e-{round}");
        let all = futures_util::future::join_all((0..16).map(|_| window.claim("mailer", &id))).await;
        assert_eq!(all.iter().filter(|claim| matches!(claim, Ok(DedupClaim::New(_)))).count(), 1, "{all:?}");
    }
}

pub async fn a_claim_of_a_consumer_that_died_ends_by_itself<H: DedupWindowHarness>() {
    let (harness, window) = fresh::<H>().await;
    drop(taken(&window, "mailer", "e-1").await);
    harness.pass(59 * SECOND).await;
    assert!(matches!(window.claim("mailer", "e-1").await.unwrap(), DedupClaim::Held(_)));
    harness.pass(2 * SECOND).await;
    drop(taken(&window, "mailer", "e-1").await);
}

pub async fn a_claim_that_is_released_is_new_again<H: DedupWindowHarness>() {
    let (_harness, window) = fresh::<H>().await;
    let ticket = taken(&window, "mailer", "e-1").await;
    window.release(ticket).await.unwrap();
    drop(taken(&window, "mailer", "e-1").await);
}

pub async fn a_late_confirmation_says_so_and_is_remembered<H: DedupWindowHarness>() {
    let (harness, window) = fresh::<H>().await;
    let slow = taken(&window, "mailer", "e-1").await;
    harness.pass(61 * SECOND).await;
    let second = taken(&window, "mailer", "e-1").await;
    assert_eq!(window.confirm(slow).await, Ok(Confirmation::Late));
    assert_eq!(window.claim("mailer", "e-1").await, Ok(DedupClaim::Duplicate));
    assert_eq!(window.confirm(second).await, Ok(Confirmation::Late), "both did the work");
    let alone = taken(&window, "mailer", "e-2").await;
    harness.pass(61 * SECOND).await;
    assert_eq!(window.confirm(alone).await, Ok(Confirmation::Late));
    assert_eq!(window.claim("mailer", "e-2").await, Ok(DedupClaim::Duplicate));
}

pub async fn an_old_ticket_does_not_release_a_newer_claim<H: DedupWindowHarness>() {
    let (harness, window) = fresh::<H>().await;
    let old = taken(&window, "mailer", "e-1").await;
    harness.pass(61 * SECOND).await;
    let newer = taken(&window, "mailer", "e-1").await;
    window.release(old).await.unwrap();
    assert!(matches!(window.claim("mailer", "e-1").await.unwrap(), DedupClaim::Held(_)));
    assert_eq!(window.confirm(newer).await, Ok(Confirmation::InTime));
}

pub async fn two_consumers_claim_the_same_event_each_for_itself<H: DedupWindowHarness>() {
    let (_harness, window) = fresh::<H>().await;
    for (consumer, id) in [("mailer", "e-1"), ("sms", "e-1"), ("a:b", "c"), ("a", "b:c"), ("1:a", "b")] {
        let ticket = taken(&window, consumer, id).await;
        assert_eq!(window.confirm(ticket).await, Ok(Confirmation::InTime));
    }
}

pub async fn a_window_shorter_than_an_event_may_come_again_is_not_built<H: DedupWindowHarness>() {
    let harness = H::fresh().await;
    let default = DedupWindowOptions::new(&RetryPolicy::default());
    let error = harness.window(&default).err().expect("ten minutes are shorter than the default retries");
    assert_eq!(
        error.to_string(),
        "a window of 10m is shorter than the 2128s in which an event may come again (2128s of retries, \
         0s of redelivery): make it longer with `length`, or say `allow_shorter_than_retries`"
    );
    let replayed = options().length(2 * SECOND).claim(SECOND).redelivery(3 * SECOND);
    assert!(matches!(harness.window(&replayed).err(), Some(DedupWindowError::TooShort { .. })));
    assert!(harness.window(&replayed.clone().length(3 * SECOND)).is_ok());
    assert!(harness.window(&replayed.allow_shorter_than_retries()).is_ok());
    for claim in [Duration::ZERO, 11 * 60 * SECOND] {
        assert!(matches!(harness.window(&options().claim(claim)).err(), Some(DedupWindowError::Claim { .. })));
    }
}

pub async fn a_replay_after_a_window_that_was_allowed_to_be_short_is_done_again<H: DedupWindowHarness>() {
    let harness = H::fresh().await;
    let short = options().length(2 * SECOND).claim(SECOND).redelivery(3 * SECOND).allow_shorter_than_retries();
    let window = harness.window(&short).unwrap();
    assert_eq!(window.confirm(taken(&window, "mailer", "e-1").await).await, Ok(Confirmation::InTime));
    harness.pass(3 * SECOND).await;
    drop(taken(&window, "mailer", "e-1").await);
}

pub async fn an_effect_runs_once_and_a_failed_one_again<H: DedupWindowHarness>() {
    let (harness, window) = fresh::<H>().await;
    let refused = run_once(&window, "mailer", "e-1", async { Err(Failure::permanent("mail.refused", "no")) }).await;
    assert_eq!(refused, Err(Failure::permanent("mail.refused", "no")));
    let held = taken(&window, "mailer", "e-1").await;
    let failure = run_once(&window, "mailer", "e-1", async { Ok::<_, Failure>(()) }).await.unwrap_err();
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Transient, "dedup.held"));
    assert!(failure.retry_after.is_some_and(|after| after <= 60 * SECOND));
    window.release(held).await.unwrap();
    assert_eq!(run_once(&window, "mailer", "e-1", async { Ok::<_, Failure>(()) }).await, Ok(DedupOutcome::Done));
    let never = async { panic!("it was done before") };
    assert_eq!(run_once::<_, Failure>(&window, "mailer", "e-1", never).await, Ok(DedupOutcome::Duplicate));
    let slow = async {
        harness.pass(61 * SECOND).await;
        Ok::<_, Failure>(())
    };
    let Ok(DedupOutcome::Doubtful(why)) = run_once(&window, "mailer", "e-2", slow).await else {
        panic!("it took too long")
    };
    assert_eq!(&*why.code, "dedup.late");
}

pub async fn a_name_that_cannot_be_is_refused<H: DedupWindowHarness>() {
    let (_harness, window) = fresh::<H>().await;
    for (consumer, id) in [("", "e-1"), ("mailer", ""), ("mailer", &*"x".repeat(65))] {
        let failure = window.claim(consumer, id).await.unwrap_err();
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Permanent, "dedup.invalid"));
    }
}
