//! The suite every transport passes.
//!
//! A transport's test file writes a harness: how to make its destination, and what the destination can be made to do.
//! The abilities are traits, so that what a destination cannot do is left out by name where the suite is called:
//!
//! ```text
//! mod child {
//!     postroom_conformance::transport_suite!(ChildHarness: reports, arrives, answers, goes_down);
//! }
//! ```
//!
//! | group | needs | promises |
//! | --- | --- | --- |
//! | `reports` | [`Harness`] | every outbound is reported exactly once; closing and dropping leave nothing running |
//! | `arrives` | [`Observed`] | `Ok` means the destination has it; order, id, type and payload are kept |
//! | `answers` | [`Scripted`] | slow, refused and never answered events harm no other |
//! | `goes_down` | [`Breakable`] | an outage is `Unavailable`, loses nothing, and ends |

#![allow(clippy::panic, clippy::missing_panics_doc, reason = "a suite says what is wrong by panicking")]

pub mod answers;
pub mod arrives;
pub mod goes_down;
mod harness;
pub mod reports;

pub use harness::{Arrived, Behaviour, Breakable, Harness, Observed, PATIENCE, Post, Scripted, until};

/// Runs groups of the transport suite against a harness, each case as a test of its own.
#[macro_export]
macro_rules! transport_suite {
    ($harness:ty: $($group:ident),+ $(,)?) => { $( $crate::transport_suite!(@$group $harness); )+ };
    (@reports $harness:ty) => { $crate::transport_suite!(@cases reports $harness:
        every_outbound_is_reported_exactly_once,
        a_thousand_in_one_batch_are_all_delivered,
        an_empty_batch_is_no_trouble,
        closing_before_the_first_delivery_is_no_trouble,
        closing_leaves_nothing_running,
        dropping_leaves_nothing_running,
        what_is_handed_over_after_the_close_is_reported_too,
    ); };
    (@arrives $harness:ty) => { $crate::transport_suite!(@cases arrives $harness:
        ok_means_that_the_destination_has_it,
        deliveries_one_after_the_other_arrive_in_that_order,
        id_type_and_payload_arrive_unchanged,
        a_payload_with_line_breaks_arrives_with_the_same_meaning,
        a_payload_of_200_kb_arrives_unchanged,
        a_very_large_event_does_not_hurt_its_neighbours,
    ); };
    (@answers $harness:ty) => { $crate::transport_suite!(@cases answers $harness:
        nothing_is_reported_before_the_destination_answers,
        a_slow_one_holds_back_no_other,
        one_refused_for_now_fails_alone_and_gets_through_later,
        one_refused_for_good_fails_alone,
        one_never_answered_is_reported_and_the_others_get_through,
        closing_reports_what_is_still_on_its_way,
        dropping_reports_what_is_still_on_its_way,
    ); };
    (@goes_down $harness:ty) => { $crate::transport_suite!(@cases goes_down $harness:
        a_destination_that_is_down_from_the_start_costs_nothing_but_time,
        a_destination_that_goes_down_later_costs_nothing_but_time,
        closing_while_the_destination_is_down_is_no_trouble,
    ); };
    (@cases $group:ident $harness:ty: $($case:ident),+ $(,)?) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            $crate::transports::$group::$case::<$harness>().await;
        }
    )+ };
}
