//! Finds the addresses of a name, once per connection, and hands on exactly those that [`Guard`] lets through.
//!
//! The connector gets addresses, not the name: what a second look-up would answer cannot matter.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::address::Guard;

/// A name that leads nowhere we may go.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookupError {
    /// It has addresses, and all of them are refused.
    #[error("{host} is at {address}, which is {what}")]
    Refused { host: String, address: IpAddr, what: &'static str },
    /// It has none.
    #[error("{host} has no address: {error}")]
    Failed { host: String, error: io::Error },
}

/// Asks for the addresses of a name; the system's resolver, unless a test answers.
pub(crate) type Lookup = dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync;

/// The resolver of one route.
#[derive(Clone)]
pub(crate) struct Resolver {
    guard: Arc<Guard>,
    lookup: Arc<Lookup>,
}

impl Resolver {
    pub(crate) fn new(guard: Guard) -> Self {
        Self::with(guard, Arc::new(|host| Box::pin(system(host))))
    }

    pub(crate) fn with(guard: Guard, lookup: Arc<Lookup>) -> Self {
        Self { guard: Arc::new(guard), lookup }
    }

    /// Addresses that may be used; at least one.
    pub(crate) async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, LookupError> {
        let failed = |error| LookupError::Failed { host: host.to_owned(), error };
        let found = (self.lookup)(host.to_owned()).await.map_err(failed)?;
        let Some(first) = found.first().copied() else {
            return Err(failed(io::Error::new(io::ErrorKind::NotFound, "the name has no addresses")));
        };
        let usable: Vec<IpAddr> = found.into_iter().filter(|a| self.guard.refuses(*a).is_none()).collect();
        match self.guard.refuses(first) {
            Some(what) if usable.is_empty() => {
                Err(LookupError::Refused { host: host.to_owned(), address: first, what })
            }
            _ => Ok(usable),
        }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let addresses = resolver.addresses(name.as_str()).await?;
            // The port is the URL's.
            Ok(Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("guard", &self.guard).finish_non_exhaustive()
    }
}

async fn system(host: String) -> io::Result<Vec<IpAddr>> {
    Ok(tokio::net::lookup_host((host, 0)).await?.map(|found| found.ip()).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use postroom_conformance::transports::Post;
    use postroom_core::Event;
    use postroom_core::envelope::{Binding, Encoder, Format};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use url::Url;

    use super::*;
    use crate::{Webhook, WebhookOptions};

    async fn check(answer: &[&str]) -> Result<Vec<String>, String> {
        let answer: Vec<IpAddr> = answer.iter().map(|a| a.parse().unwrap()).collect();
        let lookup: Arc<Lookup> = Arc::new(move |_| Box::pin(std::future::ready(Ok(answer.clone()))));
        let found = Resolver::with(Guard::default(), lookup).addresses("hooks.example").await;
        found.map(|found| found.iter().map(ToString::to_string).collect()).map_err(|e| e.to_string())
    }

    #[tokio::test]
    async fn of_several_addresses_only_those_that_may_be_used_are_handed_on() {
        assert_eq!(check(&["10.0.0.1", "93.184.216.34", "::1"]).await, Ok(vec!["93.184.216.34".to_owned()]));
        let refused = "hooks.example is at 10.0.0.1, which is private".to_owned();
        assert_eq!(check(&["10.0.0.1", "127.0.0.1"]).await, Err(refused));
        let nothing = "hooks.example has no address: the name has no addresses".to_owned();
        assert_eq!(check(&[]).await, Err(nothing));
    }

    #[tokio::test]
    async fn a_name_that_leads_elsewhere_later_is_looked_at_again() {
        // Both are ours, but only the first is allowed: it stands for a public address, the second for a private one.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let inside = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let _ = client.read(&mut [0; 4096]).await;
                let _ = client.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await;
            }
        });
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let lookup: Arc<Lookup> = Arc::new(move |_| {
            let answer = if counted.fetch_add(1, Ordering::Relaxed) == 0 { [127, 0, 0, 1] } else { [127, 0, 0, 2] };
            Box::pin(std::future::ready(Ok(vec![IpAddr::from(answer)])))
        });
        let url = Url::parse(&format!("http://hooks.example:{port}/")).unwrap();
        let options = WebhookOptions { https_only: false, ..WebhookOptions::new(url) };
        let resolver = Resolver::with(Guard::new(vec!["127.0.0.1/32".parse().unwrap()]), lookup);
        let encoder = Encoder::new(Format::Raw, Binding::Http, "/s");
        let webhook = Webhook::with_resolver("partners".to_owned(), options, encoder, resolver);
        let mut post = Post::new(Arc::new(webhook));
        post.deliver(&[Event::new("t").id("first")]).await;
        post.outcome().await.1.unwrap();
        post.deliver(&[Event::new("t").id("second")]).await;
        let failure = post.outcome().await.1.unwrap_err();
        assert_eq!(failure.code, "webhook.address");
        assert!(failure.error.contains("hooks.example is at 127.0.0.2, which is loopback"), "{}", failure.error);
        assert_eq!(asked.load(Ordering::Relaxed), 2, "once per connection");
        assert!(futures_util::FutureExt::now_or_never(inside.accept()).is_none(), "somebody connected to the inside");
    }
}
