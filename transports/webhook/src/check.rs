//! What can be known without sending an event: the address, the connection, the certificate, the keys.

use std::io;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use postroom_core::{Diagnostic, Failure, units};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use crate::certificate::not_after;
use crate::connection::tls;
use crate::failures::{self, Failures, find};
use crate::options::WebhookOptions;
use crate::resolver::Resolver;

/// Looks, and sends nothing.
pub(crate) async fn check(options: &WebhookOptions, resolver: &Resolver) -> Vec<Diagnostic> {
    if let Err(error) = options.check() {
        return vec![Diagnostic::from(failures::unusable(&error))];
    }
    let failures = Failures::new(options);
    let lookup = async {
        match &options.proxy {
            Some(proxy) => reach_proxy(proxy.expose(), &failures)
                .await
                .map(|()| format!("the proxy {proxy} answers; the receiver behind it is not looked at")),
            None => reach(options, resolver, &failures).await,
        }
    };
    let reached = timeout(options.connect_timeout, lookup).await.unwrap_or_else(|_| {
        Err(failures.refused(&format!("no connection within {}", units::format_duration(options.connect_timeout))))
    });
    let mut findings = vec![match reached {
        Ok(fine) => Diagnostic::fine(fine),
        Err(failure) => Diagnostic::from(failure),
    }];
    if options.url.scheme() == "http" {
        findings.push(
            Diagnostic::warning(
                "webhook.plain",
                format!(
                    "requests to {} are not encrypted: anybody on the network path can read the events",
                    options.receiver()
                ),
            )
            .hint("use https://".to_owned()),
        );
    }
    findings.push(match options.keys.len() {
        0 => Diagnostic::warning(
            "webhook.unsigned",
            "requests are not signed: the receiver cannot verify the sender".to_owned(),
        )
        .hint("make a secret with `postroom webhook key` and give it to both sides".to_owned()),
        1 => Diagnostic::fine("requests are signed with 1 key".to_owned()),
        several => Diagnostic::fine(format!("requests are signed with {several} keys")),
    });
    findings
}

async fn reach_proxy(url: &str, failures: &Failures) -> Result<(), Failure> {
    let refused = |why: &str| failures.refused(why);
    let url = Url::parse(url).map_err(|error| refused(&error.to_string()))?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let connected = TcpStream::connect((host, url.port_or_known_default().unwrap_or_default())).await;
    connected.map(|_| ()).map_err(|error| refused(&error.to_string()))
}

/// Connects as a delivery would; says where, and until when the certificate is good.
async fn reach(options: &WebhookOptions, resolver: &Resolver, failures: &Failures) -> Result<String, Failure> {
    let addresses = match options.url.host() {
        Some(Host::Domain(host)) => resolver.addresses(host).await.map_err(|error| failures.unresolved(&error))?,
        Some(Host::Ipv4(address)) => vec![address.into()],
        Some(Host::Ipv6(address)) => vec![address.into()],
        None => Vec::new(),
    };
    let port = options.url.port_or_known_default().unwrap_or_default();
    let mut stream = Err(io::Error::from(io::ErrorKind::AddrNotAvailable));
    for address in addresses {
        stream = TcpStream::connect((address, port)).await;
        if stream.is_ok() {
            break;
        }
    }
    let stream = stream.map_err(|error| failures.refused(&error.to_string()))?;
    let address = stream.peer_addr().map_err(|error| failures.refused(&error.to_string()))?;
    let receiver = options.receiver();
    if options.url.scheme() == "http" {
        return Ok(format!("{receiver} answers at {address}"));
    }
    let end = certificate_end(options, stream, failures).await?;
    let until = end.map(|end| end.to_zoned(TimeZone::UTC).strftime(", certificate until %Y-%m-%d").to_string());
    Ok(format!("{receiver} answers at {address}{}", until.unwrap_or_default()))
}

async fn certificate_end(
    options: &WebhookOptions,
    stream: TcpStream,
    failures: &Failures,
) -> Result<Option<Timestamp>, Failure> {
    let unusable = |why: String| Failure::unavailable("webhook.tls", why);
    let config = tls(options).map_err(|error| unusable(error.to_string()))?;
    let host = options.url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let name = ServerName::try_from(host).map_err(|error| unusable(error.to_string()))?;
    let connected = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let stream = connected.map_err(|error| match find::<rustls::Error>(&error) {
        Some(tls) => failures.distrusted(tls),
        None => failures.refused(&error.to_string()),
    })?;
    let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
    Ok(shown.first().and_then(|certificate| not_after(certificate)))
}
