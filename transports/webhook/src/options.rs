//! What a webhook transport is told, and what it does not let itself be told.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use postroom_core::SecretUrl;
use postroom_tls::{TlsError, TlsFiles};
use url::{Host, Url};

use crate::address::Guard;
use crate::signature::SigningKey;

/// Options of a webhook transport.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct WebhookOptions {
    /// URL of the receiver. Its path and query may contain tokens, so only scheme, host and port are ever shown.
    pub url: Url,
    /// Signing keys: one signature per key, so that receivers can go over to a new key while the old
    /// one still counts. Without a key requests are not signed, and a receiver cannot know who sent them.
    pub keys: Vec<SigningKey>,
    /// Whether `http://` URLs are refused.
    ///
    /// Without it events may travel where everybody on the way reads and changes them.
    ///
    /// Defaults to true.
    pub https_only: bool,
    /// Private networks that requests may go to.
    ///
    /// Too wide and whoever chooses the URL reaches what stands there.
    ///
    /// Defaults to none.
    pub allow_networks: Vec<IpNet>,
    /// Proxy, `http://` or `https://`, of all requests. It finds the address of the receiver, so
    /// it decides where requests may go; here only an address that stands in the URL is looked at.
    ///
    /// Defaults to none; the environment's proxies are never used.
    pub proxy: Option<SecretUrl>,
    /// TLS files: authorities instead of the system's, and the client certificate.
    pub tls: TlsFiles,
    /// Time-out of connecting: name resolution, TCP and TLS.
    ///
    /// Defaults to 5 seconds.
    pub connect_timeout: Duration,
    /// Time-out of the head of the response, connecting included.
    ///
    /// Too short and work that a receiver does before it answers is repeated; too long and a hung one holds its slots.
    ///
    /// Defaults to 10 seconds.
    pub first_byte_timeout: Duration,
    /// Time-out of a whole request, from the connection to the end of the response.
    ///
    /// Defaults to 20 seconds.
    pub timeout: Duration,
    /// Headers of events that requests carry beside `traceparent`, `tracestate` and `baggage`.
    ///
    /// Too many and the author of an event speaks for a proxy or a login: `x-forwarded-for`, `x-api-key`.
    ///
    /// Defaults to none.
    pub event_headers: Vec<String>,
    /// Maximum number of concurrent requests.
    ///
    /// Too few and the receiver's answering time limits the rate; too many and a small receiver is overrun.
    ///
    /// Defaults to 8.
    pub concurrency: usize,
}

/// Error of options that are not valid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// Not a URL for HTTP.
    #[error("the URL begins with {0:?}; a webhook's begins with https://")]
    Scheme(String),
    /// HTTP without TLS.
    #[error(
        "the URL begins with http://, so everybody on the way could read the events; use https://, or set https_only = false"
    )]
    Plain,
    /// A user or password in the URL.
    #[error(
        "the URL holds a user or a password, which would end up in logs; a receiver knows us by the signature, or by a certificate"
    )]
    UserInfo,
    /// An address in the URL to which nothing may go.
    #[error("{0} is {1}; put its network into allow_networks if that is meant")]
    Address(IpAddr, &'static str),
    /// Not a URL of a proxy.
    #[error("the proxy is not an http:// or https:// URL")]
    Proxy,
    /// The certificate files.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The HTTP client cannot be made.
    #[error("the HTTP client cannot be made")]
    Client(#[source] reqwest::Error),
}

impl WebhookOptions {
    /// Creates options with the defaults, without a key.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            keys: Vec::new(),
            https_only: true,
            allow_networks: Vec::new(),
            proxy: None,
            tls: TlsFiles::default(),
            connect_timeout: Duration::from_secs(5),
            first_byte_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(20),
            event_headers: Vec::new(),
            concurrency: 8,
        }
    }

    /// Checks the options, without network and files.
    pub fn check(&self) -> Result<(), WebhookError> {
        match self.url.scheme() {
            "https" => {}
            "http" if !self.https_only => {}
            "http" => return Err(WebhookError::Plain),
            other => return Err(WebhookError::Scheme(other.to_owned())),
        }
        if !self.url.username().is_empty() || self.url.password().is_some() {
            return Err(WebhookError::UserInfo);
        }
        // The client asks no resolver about these, so nobody else looks at them. Hosts like `0x7f.1` are addresses
        // by now: the URL's parser has seen to that.
        let literal = match self.url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            Some(Host::Domain(_)) | None => None,
        };
        if let Some(address) = literal
            && let Some(what) = self.guard().refuses(address)
        {
            return Err(WebhookError::Address(address, what));
        }
        match &self.proxy {
            Some(proxy) if !is_proxy(proxy) => Err(WebhookError::Proxy),
            _ => Ok(()),
        }
    }

    pub(crate) fn guard(&self) -> Guard {
        Guard::new(self.allow_networks.clone())
    }

    /// Returns scheme, host and port: the part of the URL that may be shown.
    pub fn receiver(&self) -> String {
        self.url.origin().ascii_serialization()
    }
}

fn is_proxy(url: &SecretUrl) -> bool {
    Url::parse(url.expose()).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

impl fmt::Debug for WebhookOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookOptions")
            .field("url", &self.receiver())
            .field("keys", &self.keys)
            .field("https_only", &self.https_only)
            .field("allow_networks", &self.allow_networks)
            .field("proxy", &self.proxy)
            .field("tls", &self.tls)
            .field("connect_timeout", &self.connect_timeout)
            .field("first_byte_timeout", &self.first_byte_timeout)
            .field("timeout", &self.timeout)
            .field("event_headers", &self.event_headers)
            .field("concurrency", &self.concurrency)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: &str) -> WebhookOptions {
        WebhookOptions::new(Url::parse(url).unwrap())
    }

    #[test]
    fn an_address_in_the_url_is_looked_at_however_it_is_written() {
        for host in [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "017700000001",
            "0177.0.0.01",
            "127.0.0.1.",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[0:0:0:0:0:ffff:7f00:1]",
            "[::127.0.0.1]",
            "169.254.169.254",
            "0xa9fea9fe",
            "0",
            "１２７.０.０.１",
            "[64:ff9b::7f00:1]",
            "[fd00::1]",
        ] {
            let options = options(&format!("https://{host}/hook"));
            let error = options.check().unwrap_err();
            assert!(matches!(error, WebhookError::Address(..)), "{host}: {error}");
            let through = WebhookOptions { proxy: Some(SecretUrl::new("http://proxy.example:3128")), ..options };
            assert!(matches!(through.check(), Err(WebhookError::Address(..))), "{host} through a proxy");
        }
        options("https://93.184.216.34/hook").check().unwrap();
        let allowed =
            WebhookOptions { allow_networks: vec!["127.0.0.0/8".parse().unwrap()], ..options("https://127.1/") };
        allowed.check().unwrap();
    }

    #[test]
    fn what_must_not_be_is_refused_with_the_next_step() {
        let error = |options: WebhookOptions| options.check().unwrap_err().to_string();
        assert!(error(options("http://hooks.example/")).contains("https_only = false"));
        assert!(error(options("ftp://hooks.example/")).contains("\"ftp\""));
        for url in
            ["https://user@hooks.example/", "https://user:canary@hooks.example/", "https://:canary@hooks.example/"]
        {
            let text = error(options(url));
            assert!(text.contains("a user or a password") && !text.contains("canary"), "{text}");
        }
        WebhookOptions { https_only: false, ..options("http://hooks.example/") }.check().unwrap();
        for proxy in ["socks5://u:canary@proxy.example", "proxy.example:3128", "nonsense"] {
            let text =
                error(WebhookOptions { proxy: Some(SecretUrl::new(proxy)), ..options("https://hooks.example/") });
            assert!(text.contains("not an http:// or https:// URL") && !text.contains("canary"), "{text}");
        }
    }

    #[test]
    fn what_may_be_secret_is_not_shown() {
        let mut options = options("https://hooks.example:8443/canary/path?token=canary");
        options.proxy = Some(SecretUrl::new("http://user:canary@proxy.example:3128"));
        options.keys = vec![SigningKey::parse("whsec_canarycanarycanarycanarycanaryca").unwrap()];
        let shown = format!("{options:?}");
        assert!(shown.contains("https://hooks.example:8443") && !shown.contains("canary"), "{shown}");
    }
}
