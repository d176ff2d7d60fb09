//! The cases that hold, and the broken variants that are caught.

use std::time::Instant;

use super::{Case, Rule, World, Wrong, explored};

const SMALL: Case =
    Case { writers: &[('k', 1), ('k', 1), ('m', 1)], reads: 2, page: 99, late: 99, span: 99, now: false };

fn holds(case: Case) {
    let start = Instant::now();
    let (states, end) = explored(&case, Rule::Right, |wrong| !wrong.is_empty());
    println!("{states} states in {:.1} s: {case:?}", start.elapsed().as_secs_f64());
    assert_eq!(end, None, "{case:?}");
}

fn caught(case: Case, rule: Rule, as_what: Wrong) {
    let (states, end) = explored(&case, rule, |wrong| wrong.contains(&as_what));
    let end = end.unwrap_or_else(|| panic!("{rule:?}: nothing {as_what:?} in {states} states of {case:?}"));
    println!("{rule:?}: {as_what:?} after {states} states, delivered {:?}: {end:?}", end.delivered);
}

#[test]
fn everything_committed_is_delivered_once_and_in_order() {
    holds(Case { reads: 3, ..SMALL });
}

#[test]
fn a_page_may_be_as_small_as_one_row() {
    holds(Case { page: 1, reads: 3, ..SMALL });
}

#[test]
fn a_transaction_may_draw_several_numbers() {
    holds(Case { writers: &[('k', 2), ('k', 2), ('m', 1)], ..SMALL });
}

#[test]
fn the_sweep_of_what_ended_late_may_stop_half_way() {
    holds(Case { writers: &[('k', 2), ('k', 1), ('m', 1)], late: 1, ..SMALL });
    holds(Case { writers: &[('k', 2), ('k', 1), ('m', 1)], span: 1, page: 1, ..SMALL });
}

#[test]
fn a_route_that_starts_now_gets_what_commits_after_its_first_read() {
    holds(Case { now: true, reads: 3, ..SMALL });
    holds(Case { now: true, writers: &[('k', 2), ('m', 2)], late: 1, reads: 3, ..SMALL });
}

#[test]
fn larger_cases_hold_in_random_interleavings() {
    let case = Case {
        writers: &[('k', 2), ('k', 1), ('k', 2), ('m', 1), ('m', 3), ('o', 2)],
        reads: 12,
        page: 3,
        late: 2,
        span: 4,
        now: false,
    };
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..10_000 {
        let case = Case { now: random.bool(), page: random.usize(1..4), ..case };
        let mut world = World::new(&case);
        while !world.is_over() {
            let mut next = world.next(&case, Rule::Right);
            world = next.swap_remove(random.usize(..next.len()));
        }
        let (end, wrong) = world.judged(&case, Rule::Right);
        assert_eq!(wrong, [], "{case:?}: {end:?}");
    }
}

#[test]
fn without_late_events_are_lost() {
    caught(SMALL, Rule::WithoutLate, Wrong::Lost);
}

#[test]
fn without_above_events_are_lost() {
    caught(SMALL, Rule::WithoutAbove, Wrong::Lost);
}

#[test]
fn with_the_id_taken_after_the_number_events_are_lost() {
    caught(SMALL, Rule::IdAfterNumber, Wrong::Lost);
}

#[test]
fn with_newcomers_that_begin_at_a_number_drawn_too_late_events_are_lost() {
    caught(SMALL, Rule::DrawnTooLate, Wrong::Lost);
}

#[test]
fn fresh_rows_beside_a_half_read_late_swap_a_key() {
    caught(
        Case { writers: &[('k', 2), ('k', 1), ('m', 1)], late: 1, ..SMALL },
        Rule::FreshBesideHalfLate,
        Wrong::Swapped,
    );
}
