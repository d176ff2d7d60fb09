//! Consumers behind a route, as `route show` lists them.

use std::fmt::Write as _;

use postroom_core::{ConsumerLag, ConsumerLags};

use crate::output::Narrower::Shorten;
use crate::output::{Table, dash, plain};

/// Renders the consumers, indented, and why something is unknown.
pub(crate) fn render(lags: &ConsumerLags) -> String {
    let mut text = String::new();
    if !lags.consumers.is_empty() {
        let mut table = Table::new(&["consumer", "of", "messages", "members"], &[2, 3]).narrower(&[Shorten("of")]);
        for ConsumerLag { destination, consumer, messages, members } in &lags.consumers {
            table.row([consumer.clone(), destination.clone(), dash(messages.as_ref()), dash(members.as_ref())]);
        }
        for line in table.render().lines() {
            let _ = write!(text, "\n  {line}");
        }
    }
    if !lags.message.is_empty() {
        let _ = write!(text, "\n  consumers       {}", plain(&lags.message, usize::MAX));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_a_dash_and_has_its_reason() {
        let lags = ConsumerLags::new(
            vec![
                ConsumerLag::new("orders.v1", "search", None, None),
                ConsumerLag::new("orders.v1", "billing", Some(3), Some(0)),
            ],
            "kafka.unreachable: connection refused",
        );
        assert_eq!(
            render(&lags),
            "
  consumer  of         messages  members
  billing   orders.v1         3        0
  search    orders.v1         –        –
  consumers       kafka.unreachable: connection refused"
        );
        assert_eq!(render(&ConsumerLags::default()), "");
    }
}
