//! What never reaches a log, an error or a `Debug`: secrets, payloads, the path and the query of the URL.

use std::time::Duration;

use postroom_conformance::Log;
use postroom_core::SecretUrl;
use postroom_webhook::signature::SigningKey;
use tracing_subscriber::EnvFilter;

use crate::hostile::answering;
use crate::receiver::{LONG, Receiver, Rule, event, failure, http, post, webhook};

#[tokio::test]
async fn secrets_and_payloads_are_shown_nowhere() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false)
        .with_env_filter(EnvFilter::new("postroom=trace,debug"))
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let receiver = Receiver::start().await;
    receiver.rule("refused", Rule::status(500));
    receiver.rule("stuck", Rule::Ignore);
    let (cut, _) = answering("", 1).await;
    let (rubbish, _) = answering("canary", 1).await;
    let mut told = Vec::new();
    for port in [receiver.port(), cut, rubbish, 1] {
        let mut options = http(port, Duration::from_millis(500));
        options.keys = vec![SigningKey::parse("whsec_canarycanarycanarycanarycanaryca").expect("a secret")];
        options.url.set_path("/canary");
        options.url.set_query(Some("token=canary"));
        told.push(format!("{options:?} {:?}", webhook(options.clone())));
        let mut post = post(options);
        for id in ["refused", "stuck", "good"] {
            post.deliver(&[event(id)]).await;
            told.push(format!("{:?}", post.outcome().await.1));
        }
        told.push(format!("{:?}", post.close().await));
    }
    let mut options = http(receiver.port(), LONG);
    options.url.set_host(Some("hooks.invalid")).expect("a host");
    options.proxy = Some(SecretUrl::new(format!("http://relay:canary@127.0.0.1:{cut}")));
    told.push(format!("{options:?} {:?}", failure(&mut post(options.clone()), "proxied").await));

    let logged = log.text();
    assert!(logged.contains("postroom::webhook"), "nothing was logged, so nothing was proven");
    let told = told.join("\n");
    assert!(told.contains("webhook.status_401") && told.contains("webhook.cut"), "{told}");
    for (what, text) in [("the log", &logged), ("an error", &told)] {
        assert!(!text.contains("canary"), "in {what}: {text}");
    }
}
