//! Why a payment is declined. The order of the questions is the order of the answers.

use crate::payment::Request;

/// An account: its id, its currency, its balance in cents.
pub(crate) type Account = (String, String, i64);

/// A code of the service's schema, and what it says to people.
pub(crate) type Decline = (&'static str, &'static str);

/// The answer to a payment between those accounts whose payer has made `recent` others within a minute.
pub(crate) fn judge(request: &Request, accounts: &[Account], recent: i64, recent_max: i64) -> Option<Decline> {
    let account = |id: &str| accounts.iter().find(|account| account.0 == id);
    if request.amount_cents < 1 {
        return Some(("INVALID_AMOUNT", "The amount is not positive"));
    }
    if request.payer_account_id == request.payee_account_id {
        return Some(("SAME_ACCOUNT", "Payer and payee are the same account"));
    }
    let (Some((_, from, balance)), Some((_, to, _))) =
        (account(&request.payer_account_id), account(&request.payee_account_id))
    else {
        return Some(("ACCOUNT_NOT_FOUND", "Account not found"));
    };
    if *from != request.currency || *to != request.currency {
        return Some(("CURRENCY_MISMATCH", "An account is in another currency"));
    }
    if recent >= recent_max {
        return Some(("RATE_LIMITED", "Too many payments within a minute"));
    }
    (*balance < request.amount_cents).then_some(("INSUFFICIENT_FUNDS", "Insufficient funds"))
}
