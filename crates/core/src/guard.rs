//! State guards: which steps a thing may take, so that a repeated or disallowed one is refused before its effect.
//!
//! An inbox tells copies of one event apart. A guard tells different events that say the same again, or come too late: a
//! subscription that is active does not become a trial once more, whoever says so.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;

use crate::error::StoreError;
use crate::failure::Failure;

/// Allowed transitions of an entity, `from → to`.
///
/// ```
/// use postroom_core::{Transition, Transitions};
///
/// let subscription = Transitions::new("subscription")
///     .allow("created", "trialing")
///     .allow("created", "active")
///     .allow("trialing", "active");
/// assert_eq!(subscription.step("created", "trialing"), Transition::Taken);
/// assert_eq!(subscription.step("trialing", "trialing"), Transition::Repeated);
/// assert!(matches!(subscription.step("active", "trialing"), Transition::NotAllowed(_)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transitions {
    name: String,
    // By where they lead.
    allowed: BTreeMap<String, Vec<String>>,
}

impl Transitions {
    /// Creates a set without transitions, which refuses everything. The name appears in messages.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), allowed: BTreeMap::new() }
    }

    /// Allows a transition. From a state to itself means that a repetition does the work again.
    pub fn allow(mut self, from: impl Into<String>, to: impl Into<String>) -> Self {
        let (from, sources) = (from.into(), self.allowed.entry(to.into()).or_default());
        if !sources.contains(&from) {
            sources.push(from);
        }
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the states from which this one may be reached, which a statement expects of its row.
    pub fn sources(&self, to: &str) -> &[String] {
        self.allowed.get(to).map_or(&[], Vec::as_slice)
    }

    /// Returns every state that some transition leads to.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        self.allowed.keys().map(String::as_str)
    }

    /// Decides a transition from one state to another.
    pub fn step(&self, from: &str, to: &str) -> Transition {
        if self.sources(to).iter().any(|source| source == from) {
            Transition::Taken
        } else if from == to {
            Transition::Repeated
        } else {
            Transition::NotAllowed(NotAllowed {
                name: self.name.clone(),
                from: Some(from.to_owned()),
                to: to.to_owned(),
            })
        }
    }

    /// Decides a transition of an entity that does not exist.
    pub fn missing(&self, to: &str) -> Transition {
        Transition::NotAllowed(NotAllowed { name: self.name.clone(), from: None, to: to.to_owned() })
    }
}

/// Result of a transition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "do the work only when the step was taken"]
pub enum Transition {
    /// The transition is allowed: do the work.
    Taken,
    /// The entity is already in that state: acknowledge and go on.
    Repeated,
    /// The transition is not allowed.
    NotAllowed(NotAllowed),
}

impl Transition {
    /// Reports whether the work is to be done; a refusal becomes the permanent failure `guard.refused`.
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
            Self::NotAllowed(not_allowed) => Err(not_allowed.into()),
        }
    }
}

/// Transition that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAllowed {
    /// Name of the transitions.
    pub name: String,
    /// Current state; `None` if the entity does not exist.
    pub from: Option<String>,
    /// Requested state.
    pub to: String,
}

impl fmt::Display for NotAllowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from {
            Some(from) => write!(f, "{} may not go from {from:?} to {:?}", self.name, self.to),
            None => write!(f, "there is no such {} to become {:?}", self.name, self.to),
        }
    }
}

/// A dead letter: another try finds the same state. Make it transient where an earlier event may still come.
impl From<NotAllowed> for Failure {
    fn from(refusal: NotAllowed) -> Self {
        Self::permanent("guard.refused", refusal.to_string())
    }
}

/// Guard of states in a database that change only by allowed transitions.
///
/// Call it first, in the transaction that does the work. The step is one statement that names the states it expects: of two
/// at once, one is taken and the other waits and finds a repeat.
///
/// `Tx` is the caller's transaction.
pub trait StateGuard<Tx: Send>: Send + Sync {
    /// Moves the entity with this key to a state, if the transition is allowed.
    fn advance(&self, tx: &mut Tx, key: &str, to: &str) -> impl Future<Output = Result<Transition, StoreError>> + Send;
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
        assert_eq!(position.step("moving", "moving"), Transition::Taken);
    }
}
