//! `[http]`: where a relay answers, and to whom.

use std::net::{Ipv4Addr, SocketAddr};

use postroom_core::Secret;

use super::keys::{Key, Kind, SOME, key, optional};
use super::read::Read;
use super::tree::Table;
use super::typed::{HttpConfig, Listen};

pub(super) static HTTP: &[Key] = &[
    optional(
        "listen",
        Kind::Text,
        r#""127.0.0.1:7480""#,
        "Address and port of health and metrics; one that other machines reach needs `metrics_token`.",
    ),
    optional("metrics_token", Kind::Password, r#""secret""#, "A token without which nobody reads metrics."),
    optional(
        "metrics_token_file",
        Kind::Path,
        r#""/run/credentials/metrics""#,
        "A file with it, instead of `metrics_token`.",
    ),
    key("late", SOME, r#""5m""#, "How long a delivery may be due before /readyz says that the relay does not move."),
];

/// Where it listens when only a token for metrics says that it should.
const USUAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7480);

impl Read<'_> {
    pub(super) fn http(&mut self, table: &Table) -> HttpConfig {
        let metrics_token = self.metrics_token(table);
        let chosen = self.listen(table, metrics_token.is_some()).map(|address| Listen { address, must: true });
        // A token without an address is a wish for the usual one, where somebody else may be already.
        let usual = metrics_token.as_ref().map(|_| Listen { address: USUAL, must: false });
        HttpConfig { listen: chosen.or(usual), metrics_token, late: table.duration("late") }
    }

    fn listen(&mut self, table: &Table, guarded: bool) -> Option<SocketAddr> {
        let node = table.get("listen")?;
        let text = node.text().filter(|text| !text.is_empty())?;
        let Ok(address) = text.parse::<SocketAddr>() else {
            let message = format!("{text:?} is not an address with a port");
            self.problems.at(&node.place, message, Some("write it as 127.0.0.1:7480 or [::1]:7480".to_owned()));
            return None;
        };
        if !address.ip().is_loopback() && !guarded {
            let message = format!("{address} can be reached from other machines, and everybody could ask");
            let hint = "set http.metrics_token, or listen on 127.0.0.1";
            self.problems.at(&node.place, message, Some(hint.to_owned()));
            return None;
        }
        Some(address)
    }

    fn metrics_token(&mut self, table: &Table) -> Option<Secret> {
        match (table.get("metrics_token"), table.get("metrics_token_file")) {
            (Some(token), Some(_)) if token.text().is_some_and(|text| !text.is_empty()) => {
                let message = "[http] has both `metrics_token` and `metrics_token_file`".to_owned();
                self.problems.at(&token.place, message, Some("leave one of them out".to_owned()));
                None
            }
            (_, Some(file)) => self.text_of_file(file, "a token").map(Secret::new),
            (Some(token), None) => token.text().filter(|text| !text.is_empty()).map(Secret::new),
            (None, None) => None,
        }
    }
}
