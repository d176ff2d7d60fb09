//! The list of cases: one line per case here, one test per case and kind of table in every database.

/// Runs every case of the suite on every kind of table: `postroom_conformance::mapping_suite!(MyExecutor);`
#[macro_export]
macro_rules! mapping_suite {
    ($harness:ty) => {
        $crate::mapping_suite!(@sample $harness; words Words);
        $crate::mapping_suite!(@sample $harness; inside Inside);
        $crate::mapping_suite!(@sample $harness; stamp Stamp);
        $crate::mapping_suite!(@sample $harness; flag Flag);
        $crate::mapping_suite!(@sample $harness; presence Presence);
        $crate::mapping_suite!(@sample $harness; quoted Quoted);
        // Of tables with a time for the next try.
        mod later {
            use super::*;
            $crate::mapping_suite!(@cases $harness; Words; failing { a_row_for_later_keeps_nobody_waiting });
        }
        $crate::mapping_suite!(@shared $harness; queue Queue;
            sharing {
                a_claim_that_is_not_renewed_is_anybodys_and_its_settle_changes_nothing
                a_claim_that_is_renewed_stays
                a_row_that_is_claimed_too_often_is_given_up
                claims_that_come_back_untried_count_as_no_try
                failed_tries_are_counted_apart_from_claims
                a_verdict_ends_the_count_of_claims_that_ran_out
                claims_of_other_programs_that_ran_out_count_too
                finished_rows_are_in_the_log_with_their_errors
                what_comes_back_untried_may_be_claimed_at_once
                a_release_gives_claims_back_at_once
            }
            clocks {
                a_claim_of_before_the_clock_was_set_back_is_anybodys
            }
        );
        mod odd {
            use super::*;
            $crate::mapping_suite!(@cases $harness; Words;
                odd {
                    what_does_not_fit_into_the_table_of_dead_letters_is_left_out_of_it_alone
                    what_a_json_column_has_no_room_for_is_counted_beside_it
                }
            );
        }
    };
    // Of tables with several routes, and of a route that has another beside it.
    (several $harness:ty) => {
        $crate::mapping_suite!(several $harness; words Words, inside Inside, stamp Stamp, flag Flag, presence Presence, quoted Quoted);
        mod beside {
            use super::*;
            mod words {
                use super::*;
                $crate::mapping_suite!(@beside $harness; Words);
            }
            mod presence {
                use super::*;
                $crate::mapping_suite!(@beside $harness; Presence);
            }
        }
    };
    (several $harness:ty; $($module:ident $sample:ident),*) => {
        mod several {
            use super::*;
            $(mod $module {
                use super::*;
                $crate::mapping_suite!(@cases $harness; $sample;
                    several {
                        every_route_delivers_every_row_whichever_comes_first
                        a_route_that_is_down_for_long_gets_everything_though_rows_are_gone
                        the_first_route_that_is_down_for_long_holds_nobody_up
                        a_failure_of_one_route_waits_with_its_tries_and_keeps_its_key_waiting_there_alone
                        a_key_that_an_operator_lets_go_on_goes_on_where_he_says
                        dead_letters_are_a_routes_own
                        a_dead_letter_of_the_first_route_is_none_of_the_others
                        a_replay_is_of_one_route_and_a_row_set_back_by_hand_of_all
                        a_new_route_begins_where_it_says
                        a_route_that_is_registered_while_rows_are_in_flight_gets_them
                        another_relay_goes_on_with_both_routes
                        a_settle_of_either_route_repeated_changes_nothing
                        routes_that_settle_the_same_rows_at_once_leave_nothing_behind
                        a_route_may_be_renamed_and_forgotten
                        a_route_keeps_its_part
                        what_is_left_of_rows_that_somebody_else_finished_is_swept_away
                    }
                );
            })*
        }
    };
    // Of databases that lock rows.
    (locks $harness:ty) => {
        $crate::mapping_suite!(@shared $harness; locks Locks;
            sharing {
                rows_are_let_go_when_the_last_of_a_take_has_its_verdict
                no_more_is_out_than_one_fault_may_repeat
                a_release_keeps_the_verdicts_there_are_and_lets_the_rest_go
                a_take_that_cannot_be_settled_is_not_repeated_at_once
                rows_of_a_relay_that_stands_still_are_anybodys_within_its_lease
            }
        );
    };
    // Of databases where an application has types of its own.
    (typed $harness:ty) => {
        mod typed {
            use super::*;
            $crate::mapping_suite!(@cases $harness; Words;
                typed {
                    domains_and_enumerations_of_the_applications_own_are_written_as_such
                    triggers_of_the_applications_own_find_their_tables
                    a_mapping_that_does_not_fit_its_table_is_refused_before_anything_is_sent
                }
            );
            $crate::mapping_suite!(@cases $harness; Queue;
                typed {
                    a_log_may_have_an_enumeration_for_its_word
                }
            );
        }
    };
    (@shared $harness:ty; $module:ident $sample:ident; $($own:tt)*) => {
        mod $module {
            use super::*;
            $crate::mapping_suite!(@cases $harness; $sample;
                delivering {
                    rows_come_in_the_order_of_the_table_and_are_marked_as_it_spells_it
                    an_event_has_what_its_row_says_and_nothing_of_its_state
                    a_settle_repeated_changes_nothing
                    a_heartbeat_does_not_lose_what_a_take_holds
                }
                failing {
                    a_failed_row_waits_for_its_time_with_its_attempts
                    a_hundred_rows_in_back_off_do_not_stand_in_the_way
                    fresh_rows_come_at_once_though_many_failed_ones_are_due
                    a_dead_row_is_a_dead_letter_and_never_comes_again_by_itself
                    a_row_that_holds_no_event_is_a_dead_letter_and_the_others_go_on
                }
                operating {
                    a_paused_route_hands_out_nothing_until_it_is_resumed
                    dead_letters_are_replayed_with_their_attempts_at_nought
                    what_was_delivered_is_replayed_by_what_it_is
                    a_replay_ends_though_a_relay_delivers_beside_it
                    a_replay_goes_step_by_step_and_stops_when_it_is_told_to
                    payloads_of_an_adopted_table_are_not_erased
                    several_work_on_one_replay_and_no_row_is_pending_twice
                    tables_of_an_older_build_are_brought_up_to_date
                    an_acceptance_that_is_forgotten_is_gone
                    what_the_route_did_is_counted_per_minute_and_dead_letters_by_cause
                    words_of_others_are_counted_and_those_nobody_declared_are_a_difference
                    a_discarded_dead_letter_is_gone_for_good
                    rows_are_listed_and_audited
                    retention_removes_what_is_done_and_nothing_else
                    tokens_are_made_listed_and_revoked
                    tokens_are_rotated_and_their_use_is_recorded
                }
                sharing {
                    relays_share_the_rows_and_none_has_what_another_has
                }
                clocks {
                    relays_that_have_been_gone_for_a_day_are_forgotten
                }
            );
            $crate::mapping_suite!(@cases $harness; $sample; $($own)*);
        }
    };
    (@sample $harness:ty; $module:ident $sample:ident) => {
        mod $module {
            use super::*;
            $crate::mapping_suite!(@cases $harness; $sample;
                delivering {
                    rows_come_in_the_order_of_the_table_and_are_marked_as_it_spells_it
                    an_event_has_what_its_row_says_and_nothing_of_its_state
                    what_is_in_hand_is_not_handed_out_again_and_what_comes_back_is
                    what_is_committed_late_is_found_wherever_it_stands
                    one_relay_owns_the_table_and_another_takes_over_when_it_leaves
                    a_settle_repeated_changes_nothing
                    a_heartbeat_does_not_lose_what_a_take_holds
                    what_somebody_else_did_to_a_row_in_flight_stays
                    a_row_that_was_set_back_while_it_was_on_its_way_is_tried_anew
                }
                clocks {
                    a_dead_relay_of_before_the_clock_was_set_back_holds_nothing
                    a_relay_that_lives_on_when_the_clock_is_set_back_keeps_the_table
                    a_clock_set_forward_ends_the_lease_and_what_its_holder_still_writes_is_void
                    relays_that_have_been_gone_for_a_day_are_forgotten
                }
                failing {
                    a_failed_row_waits_for_its_time_with_its_attempts
                    a_failed_row_keeps_its_key_waiting_and_no_other
                    what_comes_back_is_not_overtaken_by_later_rows_of_its_key
                    a_failed_row_that_is_due_behind_the_walk_is_not_overtaken
                    a_row_committed_late_is_not_overtaken_by_later_ones_of_its_key
                    where_failures_are_skipped_the_key_goes_on
                    a_head_that_is_given_up_lets_its_key_go_on
                    a_hundred_rows_in_back_off_do_not_stand_in_the_way
                    fresh_rows_come_at_once_though_many_failed_ones_are_due
                    a_dead_row_is_a_dead_letter_and_never_comes_again_by_itself
                    a_second_death_brings_the_letter_in_the_tables_own_table_up_to_date
                    a_row_that_holds_no_event_is_a_dead_letter_and_the_others_go_on
                }
                operating {
                    a_paused_route_hands_out_nothing_until_it_is_resumed
                    dead_letters_are_replayed_with_their_attempts_at_nought
                    what_was_delivered_is_replayed_by_what_it_is
                    a_dead_row_that_was_made_pending_by_hand_is_a_dead_letter_no_more
                    a_replay_ends_though_a_relay_delivers_beside_it
                    a_replay_goes_step_by_step_and_stops_when_it_is_told_to
                    several_work_on_one_replay_and_no_row_is_pending_twice
                    tables_of_an_older_build_are_brought_up_to_date
                    an_acceptance_that_is_forgotten_is_gone
                    what_the_route_did_is_counted_per_minute_and_dead_letters_by_cause
                    words_of_others_are_counted_and_those_nobody_declared_are_a_difference
                    what_consumers_accepted_is_shown
                    a_discarded_dead_letter_is_gone_for_good
                    rows_are_listed_and_audited
                    retention_removes_what_is_done_and_nothing_else
                    tokens_are_made_listed_and_revoked
                    tokens_are_rotated_and_their_use_is_recorded
                }
            );
        }
    };
    (@beside $harness:ty; $sample:ident) => {
        $crate::mapping_suite!(@run run_beside $harness; $sample;
                delivering {
                    rows_come_in_the_order_of_the_table_and_are_marked_as_it_spells_it
                    an_event_has_what_its_row_says_and_nothing_of_its_state
                    what_is_in_hand_is_not_handed_out_again_and_what_comes_back_is
                    what_is_committed_late_is_found_wherever_it_stands
                    one_relay_owns_the_table_and_another_takes_over_when_it_leaves
                    a_settle_repeated_changes_nothing
                    a_heartbeat_does_not_lose_what_a_take_holds
                    what_somebody_else_did_to_a_row_in_flight_stays
                    a_row_that_was_set_back_while_it_was_on_its_way_is_tried_anew
                }
                clocks {
                    a_dead_relay_of_before_the_clock_was_set_back_holds_nothing
                    a_relay_that_lives_on_when_the_clock_is_set_back_keeps_the_table
                    a_clock_set_forward_ends_the_lease_and_what_its_holder_still_writes_is_void
                    relays_that_have_been_gone_for_a_day_are_forgotten
                }
                failing {
                    a_failed_row_waits_for_its_time_with_its_attempts
                    a_failed_row_keeps_its_key_waiting_and_no_other
                    what_comes_back_is_not_overtaken_by_later_rows_of_its_key
                    a_failed_row_that_is_due_behind_the_walk_is_not_overtaken
                    a_row_committed_late_is_not_overtaken_by_later_ones_of_its_key
                    where_failures_are_skipped_the_key_goes_on
                    a_head_that_is_given_up_lets_its_key_go_on
                    a_hundred_rows_in_back_off_do_not_stand_in_the_way
                    fresh_rows_come_at_once_though_many_failed_ones_are_due
                    a_dead_row_is_a_dead_letter_and_never_comes_again_by_itself
                    a_second_death_brings_the_letter_in_the_tables_own_table_up_to_date
                    a_row_that_holds_no_event_is_a_dead_letter_and_the_others_go_on
                }
        );
    };
    (@cases $harness:ty; $sample:ident; $($rest:tt)*) => {
        $crate::mapping_suite!(@run run $harness; $sample; $($rest)*);
    };
    (@run $run:ident $harness:ty; $sample:ident; $($group:ident { $($case:ident)* })*) => {
        $($(
            #[tokio::test]
            async fn $case() {
                use $crate::mappings::{$group, Sample, $run};
                $run::<$harness>(Sample::$sample, $group::$case).await;
            }
        )*)*
    };
}
