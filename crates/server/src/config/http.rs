//! `[http]`: where a relay answers, and to whom.

use std::net::{Ipv4Addr, SocketAddr};

use postroom_admin::Role;
use postroom_core::{Pattern, Secret};

use super::alias::Alias;
#[cfg(not(feature = "http"))]
use super::definition::absent;
use super::read::Read;
use super::typed::{Anonymous, HttpConfig, Listen};
use crate::redact::{JsonPath, Redaction};
#[cfg(feature = "http")]
use postroom_settings::table;
use postroom_settings::{Entry, Table};
use postroom_settings::{Key, Kind, SOME, key, optional};
#[cfg(feature = "http")]
use postroom_tls::config::{SERVER_TLS, read_server_tls};

pub(super) static HTTP: &[Key] = &[
    optional(
        "listen",
        Kind::Text,
        r#""127.0.0.1:7480""#,
        "Address and port of health, metrics and the API; a public one requires TLS, and `anonymous` or `metrics_token`.",
    ),
    #[cfg(feature = "http")]
    table("tls", SERVER_TLS, "Certificate with which the relay speaks HTTPS."),
    #[cfg(not(feature = "http"))]
    postroom_settings::absent("tls", "server for `http.tls`", "http"),
    key(
        "tls_by_proxy",
        Kind::Flag,
        "false",
        "Whether a proxy in front of the relay terminates TLS; allows plain HTTP on an address that other machines reach.",
    ),
    key(
        "hosts",
        Kind::Listing(&Kind::Text),
        "[]",
        "Names under which clients reach the relay; others are refused. By default those of this machine, or any if public.",
    ),
    optional("metrics_token", Kind::Password, r#""secret""#, "Token that reading metrics requires."),
    optional(
        "metrics_token_file",
        Kind::Path,
        r#""/run/credentials/metrics""#,
        "File with the metrics token, instead of `metrics_token`.",
    ),
    optional(
        "anonymous",
        Kind::Word(&["none", "viewer", "operator", "admin"]),
        r#""none""#,
        "Role of local requests without a token. By default viewer, until the first token exists.",
    ),
    optional(
        "redact",
        Kind::Open(&Kind::List(&Kind::Text)),
        r#"{ "payment.*" = ["$.card", "$..iban"] }"#,
        "JSON paths, by event type, that are redacted from payloads.",
    ),
    optional(
        "metrics_alias",
        Kind::Open(&Kind::Text),
        r#"{ orders_in_flight = "postroom_in_flight_deliveries" }"#,
        "Additional names of metrics, or of parts of them by a label, for existing dashboards.",
    ),
    key(
        "ready_max_lag",
        SOME,
        r#""5m""#,
        "Age of the oldest due delivery from which /readyz reports that the relay is not ready.",
    ),
];

/// Where it listens when only a token for metrics says that it should.
const USUAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7480);

impl Read<'_> {
    pub(super) fn http(&mut self, table: &Table) -> HttpConfig {
        #[cfg(not(feature = "http"))]
        self.nobody_listens(table);
        let metrics_token = self.metrics_token(table);
        let word = table.get("anonymous").and_then(|node| node.text()).map(str::to_owned);
        let guarded = metrics_token.is_some() || word.as_deref() == Some("none");
        #[cfg(feature = "http")]
        let tls = read_server_tls(table, &self.sources.cwd, self.problems);
        let encrypted =
            table.table("tls").is_some_and(|tls| tls.text("cert_file").is_some()) || table.flag("tls_by_proxy");
        let chosen = self.listen(table, guarded, encrypted).map(|address| Listen { address, must: true });
        // A token without an address is a wish for the usual one, where somebody else may be already.
        let usual = metrics_token.as_ref().map(|_| Listen { address: USUAL, must: false });
        let listen = chosen.or(usual);
        let anonymous = match self.anonymous(table, word.as_deref(), listen) {
            // Whoever guards the metrics does not mean that everybody may look at the rest.
            Anonymous::LookAtFirst if metrics_token.is_some() => Anonymous::Nothing,
            said => said,
        };
        let (redact, metrics_alias) = (self.redact(table), self.metrics_alias(table));
        HttpConfig {
            listen,
            hosts: table.texts("hosts"),
            #[cfg(feature = "http")]
            tls,
            metrics_token,
            anonymous,
            redact,
            metrics_alias,
            ready_max_lag: table.duration("ready_max_lag"),
        }
    }

    /// Refuses what asks for a server that is not there.
    #[cfg(not(feature = "http"))]
    fn nobody_listens(&mut self, table: &Table) {
        for key in ["listen", "metrics_token", "metrics_token_file"] {
            if let Some(node) = table.get(key).filter(|node| node.text().is_some_and(|text| !text.is_empty())) {
                let absent = absent(&format!("server for `http.{key}`"), "http");
                self.problems.at(&node.place, absent.message, absent.hint);
            }
        }
    }

    fn anonymous(&mut self, table: &Table, word: Option<&str>, listen: Option<Listen>) -> Anonymous {
        let local = listen.is_none_or(|listen| listen.address.ip().is_loopback());
        match (word, word.and_then(Role::parse)) {
            (Some("none"), _) => Anonymous::Nothing,
            (_, None) if local => Anonymous::LookAtFirst,
            (_, None) => Anonymous::Nothing,
            (_, Some(role)) if local => Anonymous::May(role),
            (_, Some(role)) => {
                if let (Some(node), Some(listen)) = (table.get("anonymous"), listen) {
                    let message = format!(
                        "{} can be reached from other machines, and everybody there would be {}",
                        listen.address,
                        role.as_str()
                    );
                    let hint = "make tokens with `postroom token create`, or listen on 127.0.0.1";
                    self.problems.at(&node.place, message, Some(hint.to_owned()));
                }
                Anonymous::Nothing
            }
        }
    }

    fn metrics_alias(&mut self, table: &Table) -> Vec<Alias> {
        let mut aliases = Vec::new();
        for Entry { name, node, .. } in table.table("metrics_alias").into_iter().flat_map(|names| &names.0) {
            match Alias::parse(name, node.text().unwrap_or_default()) {
                Ok(alias) => aliases.push(alias),
                Err(why) => self.problems.at(&node.place, why, None),
            }
        }
        aliases
    }

    fn redact(&mut self, table: &Table) -> Redaction {
        let mut rules = Vec::new();
        let Some(given) = table.get("redact").and_then(|node| node.table()) else { return Redaction::default() };
        for Entry { name, node, .. } in &given.0 {
            let pattern = match Pattern::parse(name) {
                Ok(pattern) => pattern,
                Err(error) => {
                    self.problems.at(&node.place, error.to_string(), None);
                    continue;
                }
            };
            let mut paths = Vec::new();
            for entry in node.list().unwrap_or_default() {
                match JsonPath::parse(entry.text().unwrap_or_default()) {
                    Ok(path) => paths.push(path),
                    Err(why) => self.problems.at(&entry.place, why, None),
                }
            }
            rules.push((pattern, paths));
        }
        Redaction::new(rules)
    }

    fn listen(&mut self, table: &Table, guarded: bool, encrypted: bool) -> Option<SocketAddr> {
        let node = table.get("listen")?;
        let text = node.text().filter(|text| !text.is_empty())?;
        let Ok(address) = text.parse::<SocketAddr>() else {
            let message = format!("{text:?} is not an address with a port");
            self.problems.at(&node.place, message, Some("write it as 127.0.0.1:7480 or [::1]:7480".to_owned()));
            return None;
        };
        if !address.ip().is_loopback() && !guarded {
            let message = format!("{address} can be reached from other machines, and everybody could ask");
            let hint =
                "set http.anonymous = \"none\" and make tokens with `postroom token create`, or listen on 127.0.0.1";
            self.problems.at(&node.place, message, Some(hint.to_owned()));
            return None;
        }
        if !address.ip().is_loopback() && !encrypted {
            let message =
                format!("{address} can be reached from other machines, and tokens and events would travel in clear");
            let hint = "set http.tls = { cert_file = \"…\", key_file = \"…\" }, http.tls_by_proxy = true if a proxy in front does it, or listen on 127.0.0.1";
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
