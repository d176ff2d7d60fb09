//! Tells an event that ends its program from a program that ends with whatever it is given. Pure.
//!
//! An event that was alone when its program ended is the *suspect*. Any answer, to any other event, says that the program
//! works, so the suspect is to blame. Another event that does the same before an answer says that it is the program:
//! it is down, for both, and for every event that ends one, until something is answered. With nothing else to ask, the
//! suspect is to blame: it may be all there is, and must not be repeated for ever uncounted.

use postroom_core::Failure;

use crate::deliver::Ready;

/// What is known since the last answer.
#[derive(Debug, Default)]
pub(crate) struct Suspicion {
    suspect: Option<Suspect>,
    // Which event has ended programs, and whether several have.
    ended_by: Option<String>,
    is_down: bool,
}

/// An event that was alone when its program ended.
#[derive(Debug)]
pub(crate) struct Suspect {
    pub(crate) ready: Ready,
    pub(crate) failure: Failure,
}

impl Suspicion {
    /// Takes in that this event was alone when its program ended. Returns those for which the program is down.
    pub(crate) fn ended_by(&mut self, ready: Ready, failure: Failure) -> Vec<Suspect> {
        let is_other = self.ended_by.as_ref().is_some_and(|id| id != ready.id());
        let suspect = Suspect { ready, failure };
        if self.is_down || is_other {
            self.is_down = true;
            return self.suspect.take().into_iter().chain([suspect]).collect();
        }
        self.ended_by = Some(suspect.ready.id().to_owned());
        // Another delivery of the same event says nothing new.
        self.suspect.replace(suspect).into_iter().collect()
    }

    /// Takes in an answer. Returns who is to blame.
    pub(crate) fn answered(&mut self) -> Option<Suspect> {
        std::mem::take(self).suspect
    }

    /// Takes in that there is no other event to try. Returns who is to blame.
    pub(crate) fn nobody_else_to_ask(&mut self) -> Option<Suspect> {
        self.suspect.take()
    }

    /// Returns the suspect that is left at the end.
    pub(crate) fn into_suspect(self) -> Option<Suspect> {
        self.suspect
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postroom_core::{Event, Outbound};
    use tokio::sync::mpsc;

    use super::*;

    fn ends(suspicion: &mut Suspicion, id: &str) -> Vec<String> {
        let (report, _) = mpsc::unbounded_channel();
        let outbound = Outbound::new(1, 1, Arc::new(Event::new("t").id(id)), None, report);
        let ready = Ready { outbound, line: Vec::new().into() };
        names(suspicion.ended_by(ready, Failure::unavailable("x", "y")))
    }

    fn names(blamed: impl IntoIterator<Item = Suspect>) -> Vec<String> {
        blamed.into_iter().map(|suspect| suspect.ready.id().to_owned()).collect()
    }

    #[test]
    fn a_suspect_is_to_blame_as_soon_as_something_else_is_answered() {
        let mut suspicion = Suspicion::default();
        assert_eq!(ends(&mut suspicion, "a"), [""; 0]);
        assert_eq!(names(suspicion.answered()), ["a"]);
        assert_eq!(ends(&mut suspicion, "b"), [""; 0], "an answer lay between them");
    }

    #[test]
    fn a_program_that_ends_with_two_different_events_is_down_until_it_answers() {
        let mut suspicion = Suspicion::default();
        assert_eq!(ends(&mut suspicion, "a"), [""; 0]);
        assert_eq!(ends(&mut suspicion, "b"), ["a", "b"]);
        assert_eq!(ends(&mut suspicion, "c"), ["c"]);
        assert!(suspicion.nobody_else_to_ask().is_none());
        assert!(suspicion.answered().is_none());
        assert_eq!(ends(&mut suspicion, "c"), [""; 0]);
    }

    #[test]
    fn an_event_that_is_all_there_is_is_to_blame_each_time_and_a_second_one_says_that_it_is_the_program() {
        let mut suspicion = Suspicion::default();
        for _ in 0..3 {
            assert_eq!(ends(&mut suspicion, "a"), [""; 0]);
            assert_eq!(names(suspicion.nobody_else_to_ask()), ["a"]);
        }
        assert_eq!(ends(&mut suspicion, "b"), ["b"]);
        assert_eq!(ends(&mut suspicion, "a"), ["a"]);
    }
}
