//! Summary that an operator sees before and after an action on many deliveries.

use postroom_admin::view::Affected;

use crate::output::count;
use crate::when;

/// Describes the affected deliveries: `3 deliveries of 2 keys: orders 2, billing 1; oldest 2026-…`.
pub(crate) fn affected(affected: &Affected) -> String {
    let mut text = format!("{} of {}", count(affected.deliveries, "delivery"), count(affected.keys, "key"));
    let routes: Vec<String> = affected.routes.iter().map(|(route, n)| format!("{route} {n}")).collect();
    if !routes.is_empty() {
        text.push_str(": ");
        text.push_str(&routes.join(", "));
    }
    if let Some(oldest) = affected.oldest {
        text.push_str("; oldest ");
        text.push_str(&when::seconds(oldest));
    }
    if affected.older_than_inbox > 0 {
        text.push_str("; ");
        text.push_str(&affected.older_than_inbox.to_string());
        text.push_str(" older than the inbox remembers");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_deliveries_keys_and_routes() {
        let mut what = Affected { deliveries: 3, keys: 2, ..Affected::default() };
        assert_eq!(affected(&what), "3 deliveries of 2 keys");
        what.routes = [("orders".to_owned(), 2), ("billing".to_owned(), 1)].into();
        what.oldest = Some("2026-01-02T03:04:05Z".parse().unwrap());
        what.older_than_inbox = 1;
        assert_eq!(
            affected(&what),
            "3 deliveries of 2 keys: billing 1, orders 2; oldest 2026-01-02T03:04:05Z; 1 older than the inbox remembers"
        );
    }
}
