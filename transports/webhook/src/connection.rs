//! The HTTP client of one route: one of its own, so that nobody waits for somebody else's receiver.
//!
//! It follows no redirect, unpacks nothing, asks no proxy but ours and connects to no address that [`crate::resolver`]
//! has not let through.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Proxy, Request, Response};
use rustls::ClientConfig;
use tokio::time::{Instant, timeout_at};

use crate::options::{WebhookError, WebhookOptions};
use crate::resolver::Resolver;

/// How long an idle connection is kept. Many servers close theirs after five seconds, without a word to who is just
/// about to use it.
const IDLE: Duration = Duration::from_secs(4);
/// Most headers of an answer.
const HEADERS_MAX: usize = 100;
/// Largest head of an answer over HTTP/2; over HTTP/1 the client stops at about 400 kB.
const HEAD_BYTES_MAX: u32 = 64 * 1024;
/// How often an open HTTP/2 connection is asked whether it is still there, and how long it may take to say so. Unlike
/// one of HTTP/1 it outlives a request that timed out, and would be used again.
const PING: Duration = Duration::from_secs(5);
/// Most of an answer's body that is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Most of it that is quoted, in characters.
const QUOTE_CHARS_MAX: usize = 200;

/// Where requests go out.
#[derive(Debug)]
pub(crate) struct Connection {
    client: Client,
    // Keeps no connection, so each of its requests has a fresh one.
    fresh: Client,
}

impl Connection {
    pub(crate) fn new(options: &WebhookOptions, resolver: &Resolver) -> Result<Self, WebhookError> {
        let tls = tls(options)?;
        let pooled = builder(options, tls.clone())?.pool_max_idle_per_host(options.concurrency.max(1));
        let fresh = builder(options, tls)?.pool_max_idle_per_host(0);
        let build = |builder: ClientBuilder| {
            // A proxy finds the receiver's address itself, and its own is the operator's choice.
            let builder = if options.proxy.is_some() { builder } else { builder.dns_resolver(resolver.clone()) };
            builder.build().map_err(WebhookError::Client)
        };
        Ok(Self { client: build(pooled)?, fresh: build(fresh)? })
    }

    /// Sends it; the head of the answer.
    pub(crate) async fn send(&self, request: Request) -> Result<Response, reqwest::Error> {
        self.client.execute(request).await
    }

    /// The same over a connection that nobody has used before.
    pub(crate) async fn send_afresh(&self, request: Request) -> Result<Response, reqwest::Error> {
        self.fresh.execute(request).await
    }
}

/// The TLS client of a route, without what only HTTP wants.
pub(crate) fn tls(options: &WebhookOptions) -> Result<ClientConfig, WebhookError> {
    let mut tls = options.tls.client()?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(tls)
}

fn builder(options: &WebhookOptions, tls: ClientConfig) -> Result<ClientBuilder, WebhookError> {
    let builder = Client::builder()
        .tls_backend_preconfigured(tls)
        .https_only(options.https_only)
        .user_agent(concat!("postroom/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .referer(false)
        // Whatever other crates of the build switch on.
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .connect_timeout(options.connect_timeout)
        .pool_idle_timeout(IDLE)
        .http1_max_headers(HEADERS_MAX)
        .http2_max_header_list_size(HEAD_BYTES_MAX)
        .http2_keep_alive_interval(PING)
        .http2_keep_alive_timeout(PING);
    Ok(match &options.proxy {
        Some(proxy) => builder.proxy(Proxy::all(proxy.expose()).map_err(|_| WebhookError::Proxy)?),
        None => builder.no_proxy(),
    })
}

/// Reads the body of an answer, so that its connection can be used again, and gives back its beginning. One that is
/// too long or not over by the deadline is left, and its connection with it.
pub(crate) async fn rest(response: Response, deadline: Instant) -> String {
    let mut beginning = Vec::new();
    let mut read = 0;
    let mut chunks = response.bytes_stream();
    let reading = async {
        while let Ok(Some(chunk)) = chunks.try_next().await {
            let room = (4 * QUOTE_CHARS_MAX).saturating_sub(beginning.len());
            beginning.extend_from_slice(&chunk[..chunk.len().min(room)]);
            read += chunk.len();
            if read > ANSWER_BYTES_MAX {
                break;
            }
        }
    };
    // What is there by then is what is quoted.
    let _ = timeout_at(deadline, reading).await;
    quote(&beginning)
}

/// The beginning of an answer as one line that cannot trick a terminal.
fn quote(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let visible = text.chars().filter_map(|c| match c {
        // They turn the direction of what follows, or stand for nothing.
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => None,
        c if c.is_control() => Some(' '),
        c => Some(c),
    });
    visible.take(QUOTE_CHARS_MAX).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_is_one_short_line() {
        assert_eq!(quote(b" no \x1b[31mmailbox\r\n"), "no  [31mmailbox");
        assert_eq!(quote("a\u{202e}b\u{feff}".as_bytes()), "ab");
        assert_eq!(quote(&[0xff, b'x']), "\u{fffd}x");
        assert_eq!(quote("é".repeat(400).as_bytes()).chars().count(), QUOTE_CHARS_MAX);
    }
}
