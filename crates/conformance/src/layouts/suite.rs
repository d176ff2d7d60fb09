//! The list of cases: one line per case here, one test per case and kind of table in every database.

/// Runs every case of the suite on every kind of table: `postroom_conformance::layout_suite!(MyGround);`
#[macro_export]
macro_rules! layout_suite {
    ($harness:ty) => {
        $crate::layout_suite!(@sample $harness; words Words);
        $crate::layout_suite!(@sample $harness; inside Inside);
        $crate::layout_suite!(@sample $harness; stamp Stamp);
        $crate::layout_suite!(@sample $harness; flag Flag);
        $crate::layout_suite!(@sample $harness; presence Presence);
        $crate::layout_suite!(@sample $harness; quoted Quoted);
    };
    (@sample $harness:ty; $module:ident $sample:ident) => {
        mod $module {
            use super::*;
            $crate::layout_suite!(@cases $harness; $sample;
                delivering {
                    rows_come_in_the_order_of_the_table_and_are_marked_as_it_spells_it
                    an_event_has_what_its_row_says_and_nothing_of_its_state
                    what_is_in_hand_is_not_handed_out_again_and_what_comes_back_is
                    what_is_committed_late_is_found_wherever_it_stands
                    one_relay_owns_the_table_and_another_takes_over_when_it_leaves
                    a_settle_repeated_changes_nothing
                    what_somebody_else_did_to_a_row_in_flight_stays
                }
                failing {
                    a_failed_row_waits_for_its_time_with_its_attempts
                    a_failed_row_keeps_its_key_waiting_and_no_other
                    a_head_that_is_given_up_lets_its_key_go_on
                    a_hundred_rows_in_back_off_do_not_stand_in_the_way
                    a_dead_row_is_a_dead_letter_and_never_comes_again_by_itself
                    a_second_death_brings_the_letter_in_the_tables_own_table_up_to_date
                    a_row_that_holds_no_event_is_a_dead_letter_and_the_others_go_on
                }
                operating {
                    a_paused_route_hands_out_nothing_until_it_is_resumed
                    dead_letters_are_replayed_with_their_attempts_at_nought
                    what_was_delivered_is_replayed_by_what_it_is
                    a_discarded_dead_letter_is_gone_for_good
                    rows_are_listed_and_audited
                    retention_removes_what_is_done_and_nothing_else
                }
            );
        }
    };
    (@cases $harness:ty; $sample:ident; $($group:ident { $($case:ident)* })*) => {
        $($(
            #[tokio::test]
            async fn $case() {
                use $crate::layouts::{$group, Sample, run};
                run::<$harness>(Sample::$sample, $group::$case).await;
            }
        )*)*
    };
}
