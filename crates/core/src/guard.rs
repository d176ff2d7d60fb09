//! State guards: which steps a thing may take, so that a repeated or disallowed one is refused before its effect.
//!
//! An inbox tells copies of one event apart. A guard tells different events that say the same again, or come too late: a
//! subscription that is active does not become a trial once more, whoever says so.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;

use crate::error::StoreError;
use crate::failure::Failure;

/// The steps that are allowed, `from → to`.
///
/// ```
/// use postroom_core::{Step, Transitions};
///
/// let subscription = Transitions::new("subscription")
///     .allow("created", "trialing")
///     .allow("created", "active")
///     .allow("trialing", "active");
/// assert_eq!(subscription.step("created", "trialing"), Step::Taken);
/// assert_eq!(subscription.step("trialing", "trialing"), Step::Repeated);
/// assert!(matches!(subscription.step("active", "trialing"), Step::Refused(_)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transitions {
    name: String,
    // By where they lead.
    allowed: BTreeMap<String, Vec<String>>,
}

impl Transitions {
    /// No steps yet: everything is refused. The name is what people are told.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), allowed: BTreeMap::new() }
    }

    /// Allows a step. From a state to itself means: again is not a repeat, do the work.
    pub fn allow(mut self, from: impl Into<String>, to: impl Into<String>) -> Self {
        let (from, sources) = (from.into(), self.allowed.entry(to.into()).or_default());
        if !sources.contains(&from) {
            sources.push(from);
        }
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The states from which this one may be reached: what a statement expects of the row it changes.
    pub fn sources(&self, to: &str) -> &[String] {
        self.allowed.get(to).map_or(&[], Vec::as_slice)
    }

    /// Every state that some step leads to.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        self.allowed.keys().map(String::as_str)
    }

    /// What comes of a step from one state to another.
    pub fn step(&self, from: &str, to: &str) -> Step {
        if self.sources(to).iter().any(|source| source == from) {
            Step::Taken
        } else if from == to {
            Step::Repeated
        } else {
            Step::Refused(Refusal { name: self.name.clone(), from: Some(from.to_owned()), to: to.to_owned() })
        }
    }

    /// What comes of a step of something that is not there.
    pub fn missing(&self, to: &str) -> Step {
        Step::Refused(Refusal { name: self.name.clone(), from: None, to: to.to_owned() })
    }
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "do the work only when the step was taken"]
pub enum Step {
    /// Do the work.
    Taken,
    /// It is in that state already: acknowledge and go on.
    Repeated,
    /// It may not be done.
    Refused(Refusal),
}

impl Step {
    /// Whether the work is to be done; a refusal becomes the failure `guard.refused`, permanent.
    ///
    /// ```
    /// # use postroom_core::{Failure, Transitions};
    /// # fn handle(order: &Transitions) -> Result<(), Failure> {
    /// if order.step("paid", "shipped").is_taken()? {
    ///     // the work
    /// }
    /// # Ok(()) }
    /// ```
    pub fn is_taken(self) -> Result<bool, Failure> {
        match self {
            Self::Taken => Ok(true),
            Self::Repeated => Ok(false),
            Self::Refused(refusal) => Err(refusal.into()),
        }
    }
}

/// A step that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What the transitions are called.
    pub name: String,
    /// The state it is in; `None` when there is no such thing.
    pub from: Option<String>,
    /// The state it was to get.
    pub to: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from {
            Some(from) => write!(f, "{} may not go from {from:?} to {:?}", self.name, self.to),
            None => write!(f, "there is no such {} to become {:?}", self.name, self.to),
        }
    }
}

/// A dead letter: another try finds the same state. Make it transient where an earlier event may still come.
impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::permanent("guard.refused", refusal.to_string())
    }
}

/// States that stand in a database, and change only by allowed steps.
///
/// Call it first, in the transaction that does the work. The step is one statement that names the states it expects: of two
/// at once, one is taken and the other waits and finds a repeat.
pub trait States: Send + Sync {
    /// The caller's transaction.
    type Tx<'t>: Send;

    /// Moves the thing with this key to a state, if that is allowed from where it is.
    fn advance(
        &self,
        tx: &mut Self::Tx<'_>,
        key: &str,
        to: &str,
    ) -> impl Future<Output = Result<Step, StoreError>> + Send;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;

    #[test]
    fn a_repeat_is_no_failure_and_a_step_that_is_not_allowed_is_a_permanent_one() {
        let order = Transitions::new("order").allow("placed", "paid");
        assert_eq!(order.step("placed", "paid").is_taken(), Ok(true));
        assert_eq!(order.step("paid", "paid").is_taken(), Ok(false));
        let failure = order.step("cancelled", "paid").is_taken().unwrap_err();
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Permanent, "guard.refused"));
        assert_eq!(failure.error, "order may not go from \"cancelled\" to \"paid\"");
        assert_eq!(order.missing("paid").is_taken().unwrap_err().error, "there is no such order to become \"paid\"");
    }

    #[test]
    fn a_state_that_may_follow_itself_is_never_a_repeat() {
        let position = Transitions::new("truck").allow("moving", "moving");
        assert_eq!(position.step("moving", "moving"), Step::Taken);
    }
}
