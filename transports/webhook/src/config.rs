//! `to = { webhook = { … } }`.

use std::sync::Arc;

use ipnet::IpNet;
use postroom_core::envelope::{Binding, Format};
use postroom_core::{Diagnostic, SecretUrl, Transport};
use postroom_settings::{Key, Kind, Node, SOME, Table, key, optional, table};
use postroom_tls::config::{TLS, read_tls};
use postroom_transport_kit::{Configured, Encoding, TargetReader, TransportKind};
use url::Url;

use crate::signature::SigningKey;
use crate::{CODES, Webhook, WebhookError, WebhookOptions};

/// Kind of transport, for the configuration.
pub const KIND: TransportKind = TransportKind {
    name: "webhook",
    doc: "URL that receives a signed POST request per event.",
    shared: Some("Defaults for routes to webhooks."),
    keys: KEYS,
    codes: CODES,
    headers: true,
    signed_by: &["secret", "secret_file"],
    read: |reader, node| Some(Box::new(options(reader, node)?)),
    together: None,
};

const EXAMPLE: &str = r#""https://partner.example/hooks""#;

static KEYS: &[Key] = &[
    optional("url", Kind::Secret, EXAMPLE, "URL of the receiver. Logs show only scheme, host and port."),
    optional(
        "secret",
        Kind::Either(&Kind::Password, &Kind::List(&Kind::Password)),
        r#""whsec_…""#,
        "Signing secret, whsec_ or whsk_; a list signs with each secret, for rotation.",
    ),
    optional(
        "secret_file",
        Kind::Either(&Kind::Path, &Kind::List(&Kind::Path)),
        r#""/run/credentials/partner-whsec""#,
        "File with the signing secret, or a list of files, instead of `secret`.",
    ),
    optional(
        "event_headers",
        Kind::Listing(&Kind::Text),
        r#"["x-shop"]"#,
        "Headers of events that requests carry beside traceparent, tracestate and baggage.",
    ),
    key("concurrency", Kind::Count, "8", "Maximum number of concurrent requests."),
    key("timeout", SOME, r#""20s""#, "Time-out of a whole request."),
    key("connect_timeout", SOME, r#""5s""#, "Time-out of connecting: name resolution, TCP and TLS."),
    key("first_byte_timeout", SOME, r#""10s""#, "Time-out of the head of the response, connecting included."),
    key("https_only", Kind::Flag, "true", "Whether http:// URLs are refused."),
    optional(
        "allow_networks",
        Kind::Listing(&Kind::Text),
        r#"["10.1.0.0/16"]"#,
        "Private networks that requests may go to; none by default.",
    ),
    optional(
        "proxy",
        Kind::Secret,
        r#""http://proxy.example:3128""#,
        "Proxy of all requests; it decides which addresses are allowed.",
    ),
    table("tls", TLS, "TLS certificates for https://."),
];

impl Configured for WebhookOptions {
    fn describe(&self) -> String {
        format!("webhook {}", self.receiver())
    }

    fn destination(&self) -> Option<String> {
        Some(self.receiver())
    }

    fn warnings(&self, format: &Format) -> Vec<Diagnostic> {
        let headers = match format {
            Format::CloudEventsBinary => "ce-type, ce-subject, ce-tenant and the other ce- headers",
            Format::Raw => "postroom-type and postroom-position",
            _ => return Vec::new(),
        };
        if self.keys.is_empty() {
            return Vec::new();
        }
        let message = format!("the signature does not cover {headers}: a proxy on the way can change them");
        vec![Diagnostic::warning("webhook.unsigned_headers", message)]
    }

    fn build(&self, route: &str, encoding: Encoding<'_>) -> Arc<dyn Transport> {
        Arc::new(Webhook::new(route, self.clone(), encoding.encoder(Binding::Http)))
    }
}

fn options(reader: &mut TargetReader<'_>, node: &Node) -> Option<WebhookOptions> {
    let route = reader.route;
    let parts = node.table()?;
    let url = reader.required(node, "url", EXAMPLE);
    let keys = signing_keys(reader, parts);
    let networks = networks(reader, parts);
    let tls = read_tls(parts, reader.cwd, reader.problems);
    let given = url?;
    let url = match Url::parse(given.text().filter(|text| !text.is_empty())?) {
        Ok(url) => url,
        Err(error) => {
            let hint = Some(format!("write for instance {EXAMPLE}"));
            reader.problems.at(&given.place, format!("the url of route `{route}` is no URL: {error}"), hint);
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
        event_headers: texts(parts, "event_headers"),
        concurrency: parts.count("concurrency"),
        ..WebhookOptions::new(url)
    };
    if let Err(error) = options.check() {
        let at = if let WebhookError::Proxy = error { parts.get("proxy").unwrap_or(given) } else { given };
        reader.problems.at(&at.place, format!("route `{route}`: {error}"), None);
        return None;
    }
    Some(options)
}

fn signing_keys(reader: &mut TargetReader<'_>, parts: &Table) -> Vec<SigningKey> {
    let route = reader.route;
    let several = |node: &Node| node.list().map_or_else(|| vec![node.clone()], <[Node]>::to_vec);
    let secrets: Vec<(Node, String)> = match (parts.get("secret"), parts.get("secret_file")) {
        (Some(_), Some(file)) => {
            reader.both(file, "secret", "secret_file");
            Vec::new()
        }
        (Some(secret), None) => {
            let text = |node: Node| node.text().map(str::to_owned).map(|text| (node, text));
            several(secret).into_iter().filter_map(text).collect()
        }
        (None, Some(files)) => {
            let read = |node: Node| reader.text_of_file(&node, "a secret").map(|text| (node, text));
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
                reader.problems.at(&node.place, format!("the secret of route `{route}`: {error}"), Some(hint));
            }
        }
    }
    keys
}

fn texts(parts: &Table, name: &str) -> Vec<String> {
    let list = parts.get(name).and_then(Node::list).unwrap_or_default();
    list.iter().filter_map(|node| node.text().map(str::to_owned)).collect()
}

/// Nothing when one of them has been reported.
fn networks(reader: &mut TargetReader<'_>, parts: &Table) -> Option<Vec<IpNet>> {
    let list = parts.get("allow_networks").and_then(Node::list).unwrap_or_default();
    let mut networks = Some(Vec::new());
    for node in list {
        let Some(text) = node.text().filter(|text| !text.is_empty()) else { continue };
        match (text.parse(), &mut networks) {
            (Ok(network), Some(networks)) => networks.push(network),
            (Ok(_), None) => {}
            (Err(_), _) => {
                let hint = "write for instance \"10.1.0.0/16\", or \"10.1.0.7/32\" for one address".to_owned();
                reader.problems.at(&node.place, format!("{text:?} is not a network"), Some(hint));
                networks = None;
            }
        }
    }
    networks
}
