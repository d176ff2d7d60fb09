//! What `config check --online` is told, and requests through a proxy.

use postroom_conformance::changed;
use postroom_core::{Diagnostic, Level, SecretUrl, Transport};
use postroom_testbed::{Impostor, free_port};
use postroom_webhook::WebhookOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::receiver::{LONG, Receiver, event, failure, http, options, post, webhook};
use crate::tls::{Papers, trusting};

async fn check(options: WebhookOptions) -> Vec<String> {
    let findings = webhook(options).check().await;
    let told = |found: Diagnostic| match (found.level, found.code) {
        (Level::Warning, Some(code)) => format!("{code}: {}; {}", found.message, found.hint.unwrap_or_default()),
        (Level::Problem, Some(code)) => format!("{code}: {}", found.message),
        _ => format!("fine: {}", found.message),
    };
    findings.into_iter().map(told).collect()
}

#[tokio::test]
async fn a_check_says_where_the_receiver_is_and_until_when_its_certificate_is_good() {
    let papers = Papers::new();
    let impostor = Impostor::start(&papers.certificates.server()).await.expect("it starts");
    let port = impostor.port();
    let fine = format!("fine: https://localhost:{port} answers at 127.0.0.1:{port}, certificate until 2100-01-01");
    assert_eq!(check(trusting(&papers, port, LONG)).await, [&fine, "fine: requests are signed with 1 key"]);
    assert_eq!(impostor.told(), 0, "a check sends nothing");
}

#[tokio::test]
async fn a_check_warns_of_what_is_neither_signed_nor_encrypted() {
    let receiver = Receiver::start().await;
    let mut options = http(receiver.port(), LONG);
    options.keys.clear();
    let found = check(options).await;
    assert!(found[0].starts_with("fine: http://127.0.0.1:"), "{found:?}");
    assert!(found[1].starts_with("webhook.plain: ") && found[2].starts_with("webhook.unsigned: "), "{found:?}");
    assert!(found[2].contains("postroom webhook key"), "{found:?}");
    assert!(receiver.got().is_empty());
}

#[tokio::test]
async fn a_check_names_what_a_delivery_would_fail_with() {
    let papers = Papers::new();
    let expired = Impostor::start(&papers.certificates.expired()).await.expect("it starts");
    assert!(check(trusting(&papers, expired.port(), LONG)).await[0].starts_with("webhook.tls: "));
    assert!(check(http(free_port().expect("a port"), LONG)).await[0].starts_with("webhook.refused: "));
    assert!(check(options("http://no-such-name.invalid/", LONG)).await[0].starts_with("webhook.dns: "));
    let mut inside = options("http://localhost/", LONG);
    inside.allow_networks.clear();
    assert!(check(inside).await[0].starts_with("webhook.address: "));
    let number = changed(options("http://127.0.0.1/", LONG), |o| o.allow_networks = Vec::new());
    let found = check(number.clone()).await;
    assert!(found[0].starts_with("webhook.options: 127.0.0.1 is ") && found.len() == 1, "{found:?}");
    assert_eq!(failure(&mut post(number), "e-1").await.code, "webhook.options");
    let mut proxied = options("http://hooks.invalid/", LONG);
    proxied.proxy = Some(SecretUrl::new(format!("http://u:canary@127.0.0.1:{}", free_port().expect("a port"))));
    let found = check(proxied).await;
    assert!(found[0].starts_with("webhook.refused: ") && !found[0].contains("canary"), "{found:?}");
}

/// A proxy that answers everything like this; what it was told.
async fn proxy(answer: &'static str) -> (u16, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut buffer = vec![0; 8192];
            let read = client.read(&mut buffer).await.unwrap_or_default();
            let _ = tell.send(String::from_utf8_lossy(&buffer[..read]).into_owned());
            let _ = client.write_all(answer.as_bytes()).await;
        }
    });
    (port, told)
}

#[tokio::test]
async fn through_a_proxy_the_name_is_the_proxys_to_find() {
    let (port, mut told) = proxy("HTTP/1.1 204 No Content\r\n\r\n").await;
    let mut plain = options("http://hooks.invalid/hook", LONG);
    // The proxy's own address needs no leave.
    plain.allow_networks.clear();
    plain.proxy = Some(SecretUrl::new(format!("http://relay:secret@127.0.0.1:{port}")));
    assert!(check(plain.clone()).await[0].starts_with("fine: the proxy http://relay:***@127.0.0.1:"));
    assert_eq!(told.recv().await.as_deref(), Some(""), "a check says nothing to a proxy");
    post(plain).deliver_until_ok(&[event("e-1")]).await;
    let request = told.recv().await.expect("a request");
    assert!(request.starts_with("POST http://hooks.invalid/hook HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("proxy-authorization: Basic cmVsYXk6c2VjcmV0"), "{request}");
}

#[tokio::test]
async fn a_proxy_that_says_no_counts_no_attempt() {
    let (port, mut told) = proxy("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").await;
    let mut private = options("https://hooks.invalid/hook", LONG);
    private.proxy = Some(SecretUrl::new(format!("http://relay:secret@127.0.0.1:{port}")));
    let failure = failure(&mut post(private), "e-1").await;
    assert_eq!(failure.code, "webhook.refused", "{failure:?}");
    assert!(failure.error.contains("through the proxy http://relay:***@127.0.0.1:"), "{}", failure.error);
    let request = told.recv().await.expect("a request");
    assert!(request.starts_with("CONNECT hooks.invalid:443 HTTP/1.1\r\n"), "{request}");
    assert!(!request.contains("webhook-"), "{request}");
}
