//! `to = { webhook = { … } }`.

use ipnet::IpNet;
use postroom_core::SecretUrl;
use postroom_webhook::signature::SigningKey;
use postroom_webhook::{WebhookError, WebhookOptions};
use url::Url;

use super::super::keys::{Key, Kind, SOME, key, optional, table};
use super::super::read::Read;
use super::super::tree::{Node, Table};
use super::parts::TLS;

const EXAMPLE: &str = r#""https://partner.example/hooks""#;

pub(super) static KEYS: &[Key] = &[
    optional("url", Kind::Secret, EXAMPLE, "Where requests go. Only scheme, host and port are shown in logs."),
    optional(
        "secret",
        Kind::Either(&Kind::Password, &Kind::List(&Kind::Password)),
        r#""whsec_…""#,
        "What requests are signed with, whsec_ or whsk_; a list signs with each, to go from one to the next.",
    ),
    optional(
        "secret_file",
        Kind::Either(&Kind::Path, &Kind::List(&Kind::Path)),
        r#""/run/credentials/partner-whsec""#,
        "A file with the secret, or a list of files, instead of `secret`.",
    ),
    key("concurrency", Kind::Count, "8", "Most requests at once."),
    key("timeout", SOME, r#""20s""#, "How long a delivery may take in all."),
    key("connect_timeout", SOME, r#""5s""#, "How long the connection may take: address, TCP and TLS."),
    key("first_byte_timeout", SOME, r#""10s""#, "How long the head of the answer may take, connecting included."),
    key("https_only", Kind::Flag, "true", "Whether http:// is refused."),
    optional(
        "allow_networks",
        Kind::Listing(&Kind::Text),
        r#"["10.1.0.0/16"]"#,
        "Networks that requests may go to although they are not public; none by default.",
    ),
    optional(
        "proxy",
        Kind::Secret,
        r#""http://proxy.example:3128""#,
        "A proxy for all requests; it decides where they may go.",
    ),
    table("tls", TLS, "Certificates for https://."),
];

impl Read<'_> {
    pub(super) fn webhook(&mut self, route: &str, node: &Node) -> Option<WebhookOptions> {
        let parts = node.table()?;
        let url = self.required(route, node, "url", EXAMPLE);
        let keys = self.signing_keys(route, parts);
        let networks = self.networks(parts);
        let tls = self.tls(parts);
        let given = url?;
        let url = match Url::parse(given.text().filter(|text| !text.is_empty())?) {
            Ok(url) => url,
            Err(error) => {
                let hint = Some(format!("write for instance {EXAMPLE}"));
                self.problems.at(&given.place, format!("the url of route `{route}` is no URL: {error}"), hint);
                return None;
            }
        };
        let options = WebhookOptions {
            keys,
            https_only: parts.flag("https_only"),
            allow_networks: networks?,
            proxy: parts.text("proxy").filter(|text| !text.is_empty()).map(SecretUrl::new),
            tls,
            connect_timeout: parts.duration("connect_timeout"),
            first_byte_timeout: parts.duration("first_byte_timeout"),
            timeout: parts.duration("timeout"),
            concurrency: parts.count("concurrency"),
            ..WebhookOptions::new(url)
        };
        if let Err(error) = options.check() {
            let at = if let WebhookError::Proxy = error { parts.get("proxy").unwrap_or(given) } else { given };
            self.problems.at(&at.place, format!("route `{route}`: {error}"), None);
            return None;
        }
        Some(options)
    }

    fn signing_keys(&mut self, route: &str, parts: &Table) -> Vec<SigningKey> {
        let several = |node: &Node| node.list().map_or_else(|| vec![node.clone()], <[Node]>::to_vec);
        let secrets: Vec<(Node, String)> = match (parts.get("secret"), parts.get("secret_file")) {
            (Some(_), Some(file)) => {
                let message = format!("route `{route}` has both `secret` and `secret_file`");
                self.problems.at(&file.place, message, Some("leave one of them out".to_owned()));
                Vec::new()
            }
            (Some(secret), None) => {
                let text = |node: Node| node.text().map(str::to_owned).map(|text| (node, text));
                several(secret).into_iter().filter_map(text).collect()
            }
            (None, Some(files)) => {
                let read = |node: Node| self.text_of_file(&node, "a secret").map(|text| (node, text));
                several(files).into_iter().filter_map(read).collect()
            }
            (None, None) => Vec::new(),
        };
        let mut keys = Vec::new();
        for (node, text) in secrets.iter().filter(|(_, text)| !text.is_empty()) {
            match SigningKey::parse(text) {
                Ok(key) => keys.push(key),
                Err(error) => {
                    let hint = "make one with `postroom webhook key`".to_owned();
                    self.problems.at(&node.place, format!("the secret of route `{route}`: {error}"), Some(hint));
                }
            }
        }
        keys
    }

    /// Nothing when one of them has been reported.
    fn networks(&mut self, parts: &Table) -> Option<Vec<IpNet>> {
        let list = parts.get("allow_networks").and_then(Node::list).unwrap_or_default();
        let mut networks = Some(Vec::new());
        for node in list {
            let Some(text) = node.text().filter(|text| !text.is_empty()) else { continue };
            match (text.parse(), &mut networks) {
                (Ok(network), Some(networks)) => networks.push(network),
                (Ok(_), None) => {}
                (Err(_), _) => {
                    let hint = "write for instance \"10.1.0.0/16\", or \"10.1.0.7/32\" for one address".to_owned();
                    self.problems.at(&node.place, format!("{text:?} is not a network"), Some(hint));
                    networks = None;
                }
            }
        }
        networks
    }
}
