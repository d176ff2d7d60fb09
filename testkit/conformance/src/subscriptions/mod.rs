//! The suite every subscription passes: a consumer's promises, against a real broker and a real database.
//!
//! A subscription's test file writes a harness: how to make a place on its broker, and what can be done to it. The database is a
//! [`Effects`].
//!
//! ```text
//! mod postgres {
//!     postroom_conformance::subscription_suite!(Shared, PostgresEffects: once, failing, stopping, outages, cut, prefetch, aborting);
//! }
//! ```
//!
//! | group | promises |
//! | --- | --- |
//! | `once` | effects once: repeated messages, a crash before the acknowledgement, every envelope, two instances |
//! | `failing` | tried again with growing delays, then among the dead with why; others go on; nothing half done |
//! | `stopping` | what runs is finished, the rest is left to the broker |
//! | `outages` | no database, no place for the dead: nothing is acknowledged, nothing is lost |
//! | `silence` | a database that does not answer is asked again through another connection; needs [`Effects::forget`] |
//! | `cut` | a lost connection costs nothing but time; needs [`Harness::cut`] |
//! | `prefetch` | no more in our hands than was said; for brokers that count over all keys |
//! | `aborting` | a failed statement that a handler overlooks is no success; for databases where it aborts |

#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a suite says what is wrong by panicking"
)]

pub mod aborting;
mod bench;
pub mod cut;
mod effects;
pub mod failing;
mod harness;
pub mod once;
pub mod outages;
pub mod prefetch;
mod script;
pub mod silence;
pub mod stopping;
mod watched;

pub use bench::{Bench, Running};
pub use effects::{Effects, PostgresEffects, SqliteEffects, Tx};
pub use harness::{Dead, Harness};
pub use script::{Behaviour, Script};
pub use watched::{Counters, Watched};

/// Runs groups of the subscription suite against a harness and a database, each case as a test of its own.
#[macro_export]
macro_rules! subscription_suite {
    ($harness:ty, $effects:ty: $($group:ident),+ $(,)?) => { $( $crate::subscription_suite!(@$group $harness, $effects); )+ };
    (@once $harness:ty, $effects:ty) => { $crate::subscription_suite!(@cases once $harness, $effects:
        an_event_that_comes_twice_has_its_effect_once,
        a_crash_between_commit_and_acknowledgement_repeats_nothing,
        every_envelope_of_postroom_is_understood,
        two_instances_share_the_work,
    ); };
    (@failing $harness:ty, $effects:ty) => { $crate::subscription_suite!(@cases failing $harness, $effects:
        a_failing_handler_is_tried_with_growing_delays_and_then_dead_with_its_reason,
        one_that_waits_for_its_next_try_holds_up_neither_others_nor_a_stop,
        a_failure_for_good_is_dead_at_once,
        a_message_without_an_id_is_dead_and_the_next_goes_on,
        a_handler_that_writes_and_fails_leaves_neither_effect_nor_acceptance,
        a_panic_and_a_time_out_are_failed_tries,
        what_is_unavailable_to_a_handler_costs_no_try,
    ); };
    (@stopping $harness:ty, $effects:ty) => { $crate::subscription_suite!(@cases stopping $harness, $effects:
        a_stop_finishes_what_runs_and_leaves_the_rest,
        a_consumer_stopped_before_it_began_and_one_stopped_again_are_no_trouble,
        events_of_one_key_are_worked_on_in_order,
        a_dead_letter_that_is_never_acknowledged_holds_up_no_stop,
    ); };
    (@outages $harness:ty, $effects:ty) => { $crate::subscription_suite!(@cases outages $harness, $effects:
        without_a_place_for_the_dead_a_message_is_kept,
        without_a_database_nothing_is_acknowledged_and_no_try_counted,
    ); };
    (@silence $harness:ty, $effects:ty) => { $crate::subscription_suite!(@cases silence $harness, $effects:
        a_commit_that_is_never_answered_is_given_up_and_costs_no_try,
        a_transaction_that_does_not_begin_is_begun_elsewhere,
    ); };
    (@cut $harness:ty, $effects:ty) => { $crate::subscription_suite!(@cases cut $harness, $effects:
        a_lost_connection_costs_nothing_but_time,
    ); };
    (@prefetch $harness:ty, $effects:ty) => { $crate::subscription_suite!(@cases prefetch $harness, $effects:
        no_more_is_in_our_hands_than_was_said,
    ); };
    (@aborting $harness:ty, $effects:ty) => { $crate::subscription_suite!(@cases aborting $harness, $effects:
        a_failed_statement_that_a_handler_overlooks_is_no_success,
    ); };
    (@cases $group:ident $harness:ty, $effects:ty: $($case:ident),+ $(,)?) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            $crate::subscriptions::$group::$case::<$harness, $effects>().await;
        }
    )+ };
}
