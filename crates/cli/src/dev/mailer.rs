//! The demo's handler: sends no mail, and fails in ways that can be foreseen.
//!
//! Which mails fail follows from the order's number, so that newcomers meet the first failure with the fifth event and
//! the first dead letter with the sixteenth, and a restart tells the same story.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use postroom_core::Failure;
use postroom_relay::{Handlers, Incoming};

/// The mailer.
pub(crate) fn mailer() -> Handlers {
    let corrected = Arc::new(Mutex::new(HashSet::new()));
    Handlers::new().on("order.*", "mailer", move |mail: Incoming| {
        let result = send(&mail, &corrected);
        async move { result }
    })
}

/// Addresses that failed once have been corrected when an operator replays the dead letter.
fn send(mail: &Incoming, corrected: &Mutex<HashSet<String>>) -> Result<(), Failure> {
    let order = mail.ordering_key().and_then(|k| k.strip_prefix("order-")?.parse().ok()).unwrap_or(0);
    match trouble(&mail.event_type, order) {
        Trouble::Busy { tries } if mail.attempt <= tries => {
            Err(Failure::transient("mail.busy", "the mail server is busy"))
        }
        Trouble::NoAddress => {
            let mut corrected = corrected.lock().unwrap_or_else(PoisonError::into_inner);
            if corrected.insert(mail.id.clone()) {
                return Err(Failure::permanent("mail.no_address", "the customer's address does not exist"));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    /// The first tries fail.
    Busy {
        tries: u32,
    },
    /// Never works by itself.
    NoAddress,
}

fn trouble(event_type: &str, order: u64) -> Trouble {
    match (event_type, order % 12) {
        ("order.paid", 2 | 7) => Trouble::Busy { tries: 1 },
        ("order.placed", 10) => Trouble::Busy { tries: 2 },
        ("order.shipped", 4) => Trouble::NoAddress,
        _ => Trouble::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_mails_go_through() {
        let mails = (0..120).flat_map(|n| ["order.placed", "order.paid", "order.shipped"].map(|t| trouble(t, n)));
        let bad = mails.filter(|t| *t != Trouble::None).count();
        assert_eq!(bad, 40, "of 360");
    }
}
