//! `cargo xtask controls`: puts faults that were found back, one at a time, where an ordinary test must catch them. Those of which
//! `simulate --controls` plays the scene are there.

use std::process::Stdio;
use std::time::Instant;

use crate::cargo_command;

/// A fault by its name in `crates/core/src/faults.rs`, and the test that must fail with it: which of cargo's targets, and its name.
struct Control {
    fault: &'static str,
    target: &'static [&'static str],
    test: &'static str,
}

const ALL: &[Control] = &[
    Control {
        fault: "ParkedIsForgotten",
        target: &["--test", "postgres"],
        test: "a_blocker_settled_between_two_questions_of_one_take_lets_nobody_overtake",
    },
    Control {
        fault: "AnswersOpenTheBreaker",
        target: &["--test", "relay"],
        test: "events_behind_a_cluster_of_bad_ones_flow_at_half_their_rate_or_more",
    },
    Control {
        fault: "IdleForEver",
        target: &["--test", "postgres"],
        test: "whatever_a_vanished_relay_was_doing_another_one_delivers_within_lease_and_ten_seconds",
    },
    Control {
        fault: "RowsAreHeldForEver",
        target: &["--test", "postgres"],
        test: "rows_of_a_relay_that_stands_still_are_anybodys_within_its_lease",
    },
    Control {
        fault: "PassedIsLost",
        target: &["--test", "postgres"],
        test: "events_appended_on_another_cluster_before_it_was_accepted_arrive",
    },
    Control {
        fault: "CopiesAreServed",
        target: &["--test", "postgres"],
        test: "a_copy_made_as_a_template_in_the_same_cluster_is_refused_until_it_is_accepted",
    },
    Control {
        fault: "FollowersStopTheLane",
        target: &["--test", "postgres"],
        test: "a_key_with_very_many_followers_stops_that_key_only",
    },
    Control {
        fault: "LateIsOvertaken",
        target: &["--test", "postgres"],
        test: "a_row_committed_late_is_not_overtaken_by_later_ones_of_its_key",
    },
    Control {
        fault: "FurtherIsForgotten",
        target: &["--test", "sqlite"],
        test: "every_route_delivers_every_row_whichever_comes_first",
    },
    Control {
        fault: "GoesBackForEver",
        target: &["--lib"],
        test: "what_went_back_and_is_brought_by_the_take_that_was_running_goes_out",
    },
    Control {
        fault: "GivenBackIsOvertaken",
        target: &["--test", "postgres"],
        test: "a_follower_given_back_when_its_key_goes_on_is_not_overtaken",
    },
    Control {
        fault: "HeardIsForgotten",
        target: &["--test", "kafka"],
        test: "once_the_failure_is_heard_of_whichever_comes_first_of_its_key_goes",
    },
];

/// Runs each test without its fault and with it, or those of the faults named; says whether all passed and then failed.
pub(crate) fn run(names: &[&str]) -> std::io::Result<bool> {
    if let Some(unknown) = names.iter().find(|name| !ALL.iter().any(|control| control.fault == **name)) {
        let known: Vec<&str> = ALL.iter().map(|control| control.fault).collect();
        return Err(std::io::Error::other(format!("there is no {unknown:?}: they are {}", known.join(", "))));
    }
    let mut all = true;
    for control in ALL.iter().filter(|control| names.is_empty() || names.contains(&control.fault)) {
        let began = Instant::now();
        let word = match (control.passes(false)?, control.passes(true)?) {
            (true, false) => "caught",
            (true, true) => "NOT CAUGHT",
            (false, _) => "FAILS WITHOUT IT",
        };
        all &= word == "caught";
        println!("{:<22} {word:<16} {:>4} s  {}", control.fault, began.elapsed().as_secs(), control.test);
    }
    Ok(all)
}

impl Control {
    fn passes(&self, put_back: bool) -> std::io::Result<bool> {
        let mut test = cargo_command();
        // The whole workspace: that is how the faults are compiled in.
        test.args(["test", "--quiet", "--workspace", "--no-fail-fast"]).args(self.target).args(["--", self.test]);
        if put_back {
            // A test that fails says so at length.
            test.env("XTASK_BROKEN", self.fault).stdout(Stdio::null()).stderr(Stdio::null());
        } else {
            test.stdout(Stdio::null());
        }
        Ok(test.status()?.success())
    }
}
