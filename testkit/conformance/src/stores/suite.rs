//! The list of cases: one line per case here, one test per case in every store.

/// Runs every case of the suite on a store: `postroom_conformance::store_suite!(MyHarness);`
#[macro_export]
macro_rules! store_suite {
    ($harness:ty) => {
        $crate::store_suite!(@cases $harness;
            appending {
                an_appended_event_is_seen_after_commit_and_not_before
                a_rolled_back_event_is_never_seen
                many_appended_events_keep_their_order
                many_appended_events_are_all_there_or_none
                the_admin_appends_in_one_transaction
                the_admin_appends_each_id_once_where_that_is_asked_for
                an_append_with_a_word_used_before_does_nothing
                a_word_used_twice_in_one_transaction_counts_once
                a_word_is_free_again_after_a_rollback
                an_event_comes_out_byte_for_byte_as_it_went_in
                two_events_of_one_id_are_two_events
                what_breaks_a_limit_is_refused_and_nothing_is_written
                what_is_exactly_at_a_limit_is_kept
                events_are_listed_by_what_they_are_from_either_end
            }
            taking {
                deliveries_of_one_key_come_in_append_order
                a_delivery_says_where_it_comes_from
                a_take_brings_no_more_rows_than_its_budget
                a_take_brings_no_more_bytes_than_its_budget
                one_that_is_larger_than_the_budget_comes_alone
                a_small_event_does_not_overtake_a_large_one_of_its_key
                what_is_in_hand_is_not_handed_out_again
                a_delivered_event_is_never_handed_out_again
                every_route_gets_every_event_it_wants
                events_a_route_does_not_want_are_counted_as_filtered
                a_delayed_event_comes_at_its_time_and_blocks_nobody
                an_event_whose_time_has_come_before_it_is_read_is_an_ordinary_one
                due_retries_and_fresh_events_share_a_take
                with_room_for_one_due_and_fresh_events_take_turns
                the_next_due_time_is_said
                a_hint_after_the_commit_is_heard
            }
            settling {
                a_returned_delivery_comes_again_as_if_it_had_never_been_out
                a_returned_retry_keeps_its_attempts_and_comes_at_once
                what_is_too_early_comes_again_with_the_attempts_it_had
                returned_deliveries_come_before_what_was_appended_since
                a_settle_repeated_changes_nothing
                a_settle_repeated_after_another_take_loses_nothing
                a_settle_of_nothing_says_how_things_stand
                a_settle_of_a_lost_lane_changes_nothing_and_says_so
                a_mixed_settle_writes_what_is_ours_and_reports_what_is_not
                a_settle_after_the_lease_ran_out_counts_while_nobody_took_over
                attempts_and_their_reasons_are_kept
                whatever_a_destination_says_can_be_kept
            }
            erasing {
                erased_payloads_are_gone_and_their_events_are_counted_as_before
                payloads_of_undelivered_events_are_erased_only_if_told_so
                the_payload_of_a_dead_letter_is_erased_and_its_replay_says_so
                other_keys_keep_their_payloads
            }
            blocking {
                a_failed_event_comes_again_when_it_is_due_and_not_before
                a_failed_event_blocks_its_key_and_no_other
                followers_come_in_order_after_their_head
                hundreds_of_followers_come_in_order
                a_follower_that_fails_blocks_the_rest_again
                a_blocker_settled_while_a_take_runs_lets_nobody_overtake
                a_follower_given_back_before_its_head_failed_waits_all_the_same
                a_follower_given_back_when_its_key_goes_on_is_not_overtaken
                a_follower_given_back_is_seen_to_wait_at_once
                a_new_owner_keeps_the_order_behind_a_failed_event
                events_without_a_key_never_wait_for_each_other
                with_skip_later_events_pass_a_failed_one
                after_a_death_the_key_goes_on
                after_a_death_in_a_retry_the_followers_go_on
                with_hold_a_death_holds_the_key_until_an_operator_decides
                with_hold_a_replayed_head_goes_before_its_followers
                a_failed_event_and_its_followers_survive_a_reopening
                many_failing_keys_do_not_hold_back_the_others
                a_key_with_very_many_followers_stops_that_key_only
                a_jump_of_wall_time_loses_no_retry
            }
            leasing {
                what_a_dead_relay_had_taken_comes_before_what_stands_behind_it
                the_only_relay_owns_every_lane
                a_renewal_says_how_long_it_holds
                a_standby_takes_over_when_the_lease_ends_and_not_before
                a_standby_is_told_no_due_times_of_lanes_it_cannot_take
                a_renewed_lease_is_not_taken
                a_heartbeat_on_one_route_keeps_the_lanes_of_all
                a_released_lane_goes_over_at_once_with_nothing_repeated
                what_was_not_settled_before_a_release_is_the_next_owners
                a_release_can_be_repeated
                two_relays_never_own_the_same_lane_at_once
                several_lanes_are_shared_evenly_and_handed_over_gently
                a_relay_that_comes_back_under_its_name_does_not_wait_for_itself_for_ever
                a_silent_relay_is_shown_as_not_alive
                a_route_is_drained_when_no_relay_has_anything_left
            }
            routes {
                a_route_starts_with_what_commits_after_its_registration
                a_route_can_start_with_the_oldest_event
                a_route_can_start_at_a_time
                a_route_can_start_at_a_time_that_is_yet_to_come
                a_route_keeps_its_place_over_a_reopening
                registering_gives_a_route_its_place_before_anybody_serves_it
                a_route_of_an_impossible_name_is_refused
                a_changed_filter_applies_from_the_position_on
                a_live_relay_with_another_definition_is_a_conflict
                a_route_that_a_relay_disabled_says_so_until_it_is_resumed
                a_paused_route_hands_out_nothing_until_it_is_resumed
                acting_on_a_route_that_is_not_there_says_so
                tokens_are_made_listed_and_revoked
                tokens_are_rotated_and_their_use_is_recorded
                a_route_is_forgotten_only_when_nobody_serves_it
                a_route_is_forgotten_once_its_relay_is_dead
                a_renamed_route_keeps_its_position_deliveries_and_dead_letters
                a_route_is_not_renamed_while_a_replay_is_unfinished
                a_pause_says_who_when_and_why
                a_wish_to_try_the_destination_now_reaches_the_relay
                what_a_relay_says_of_its_route_is_shown
            }
            waiting {
                what_waits_is_listed_whether_a_relay_has_read_it_or_not
                what_waits_comes_page_by_page_and_each_once
                what_a_route_does_not_want_does_not_wait_for_it
                retrying_deliveries_are_grouped_like_dead_ones
                events_are_counted_by_when_they_were_appended
            }
            replaying {
                a_dead_letter_is_shown_with_everything_known_of_it
                dead_letters_are_found_by_what_they_are
                dead_letters_of_one_cause_are_one_group
                a_preview_counts_and_changes_nothing
                a_replayed_dead_letter_starts_anew_and_blocks_nobody
                a_replayed_dead_letter_can_die_again
                a_discarded_dead_letter_is_gone_and_counted
                delivered_events_are_sent_again_with_the_same_ids
                a_failed_replay_blocks_nobody_and_can_die
                only_what_is_settled_is_sent_again
                a_replay_says_what_the_inbox_no_longer_remembers
                a_timeline_keeps_every_round_with_its_replay
                a_timeline_keeps_the_rounds_of_a_dead_letter
                a_replay_is_done_when_its_deliveries_are_settled
                what_a_replay_delivered_counts_as_delivered
            }
            stepping {
                a_replay_goes_step_by_step
                dead_letters_are_replayed_step_by_step
                a_step_may_end_between_two_routes_of_an_event
                a_replay_keeps_its_rate
                a_replay_that_nobody_stepped_for_long_keeps_its_rate
                a_paused_replay_waits_and_a_resumed_one_goes_on_where_it_was
                a_cancelled_replay_has_ended
                nothing_is_made_due_after_a_pause_has_returned
                several_work_on_one_replay_and_nothing_is_made_due_twice
                what_comes_after_a_replay_was_asked_for_is_not_sent_again
                a_replay_to_a_route_that_is_forgotten_ends
                replays_are_listed_and_everything_done_to_them_is_in_the_audit
                what_no_replay_can_be_is_refused
                ten_thousand_are_replayed_in_bounded_steps
            }
            keys {
                a_blocked_key_is_listed_with_its_head_and_its_reason
                blocked_keys_come_page_by_page_and_each_once
                a_key_that_went_on_is_no_longer_listed
                an_unblocked_key_goes_on_while_its_head_keeps_its_retries
                a_skipped_head_is_a_dead_letter_and_its_key_goes_on
                a_head_skipped_while_it_is_on_its_way_stays_skipped_or_is_delivered
                a_follower_that_has_not_failed_is_never_skipped
                a_held_key_is_let_go_by_skipping_its_dead_head
                a_key_that_is_not_blocked_cannot_be_let_go
            }
            counting {
                status_counts_what_should_have_been_tried
                status_tells_retrying_blocked_and_dead_apart
                status_counts_a_backlog_without_a_relay
                status_finds_an_event_behind_more_events_of_others_than_it_counts
                a_timeline_says_where_an_event_is_in_every_state
                a_timeline_shows_the_payload_only_when_asked_for
                the_contents_of_listed_events_are_read_together
                a_timeline_shows_who_accepted_the_event
                the_store_says_what_is_in_it
                the_audit_agrees_in_the_middle_of_everything
                the_audit_finds_an_event_that_was_lost
                what_a_route_did_is_counted_per_minute_for_a_day
                what_a_route_did_is_told_at_once_and_kept_when_its_relay_leaves
                what_a_route_did_is_kept_when_its_relay_is_killed
            }
            retaining {
                events_go_when_they_are_old_and_every_route_is_done
                what_a_route_has_not_read_yet_stays
                a_dead_letter_keeps_its_event
                numbers_never_start_again
                a_route_registered_after_a_prune_counts_right
                acceptances_words_tries_and_receipts_go_in_their_own_time
                replays_that_have_ended_go_with_the_tries
            }
            accepting {
                an_event_is_new_once_and_then_a_duplicate
                acceptances_come_page_by_page_and_each_once
                an_acceptance_survives_a_reopening
                a_rolled_back_acceptance_never_was
                two_consumers_accept_the_same_event_each_for_itself
                an_event_accepted_twice_in_one_transaction_is_a_duplicate
                the_second_of_two_at_once_waits_and_finds_a_duplicate
                the_second_of_two_at_once_is_new_when_the_first_rolls_back
                of_many_at_once_exactly_one_is_new
                a_duplicate_does_not_spoil_a_wider_transaction
                an_acceptance_and_its_effect_roll_back_together
                a_consumer_without_a_name_or_with_too_long_a_one_is_refused
                what_is_forgotten_is_accepted_once_more
            }
            histories {
                in_a_random_history_nothing_is_lost_and_nobody_overtakes
                in_a_random_history_that_skips_failures_nothing_is_lost
            }
        );
    };
    (@cases $harness:ty; $($module:ident { $($case:ident)* })*) => {
        $($(
            #[tokio::test]
            async fn $case() {
                $crate::stores::run::<$harness>($crate::stores::$module::$case).await;
            }
        )*)*
    };
}
