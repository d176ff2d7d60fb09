//! Webhooks against a bare reqwest loop with the same concurrency, to the same receiver.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use postroom_core::Transport;
use postroom_core::envelope::Binding;
use postroom_webhook::signature::SigningKey;
use postroom_webhook::{Webhook, WebhookOptions};

use super::{encoder, payload, per_second, relayed, unique, warm};
use crate::rounds::Rounds;

const COUNT: usize = 60_000;
const KEYS: usize = 50_000;
const HOT: usize = 3_000;
const CONCURRENCY: usize = 64;

pub(crate) async fn run() {
    // The bare client cannot be given one.
    postroom_tls::install_provider();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let receiver = Router::new().route("/hook", post(|_: axum::body::Bytes| async { StatusCode::NO_CONTENT }));
    let serving = tokio::spawn(async move { axum::serve(listener, receiver).await });
    let mut options = WebhookOptions::new(url.parse().unwrap());
    options.https_only = false;
    options.allow_networks = vec!["127.0.0.0/8".parse().unwrap()];
    options.keys = vec![SigningKey::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap()];
    options.concurrency = CONCURRENCY;
    let webhook: Arc<dyn Transport> = Arc::new(Webhook::new("bench", options, encoder(Binding::Http)));
    warm(&webhook).await;
    let (mut rounds, mut hot) = (Rounds::default(), Rounds::default());
    for _ in 0..super::ROUNDS {
        let bare = bare(&url).await;
        let many = relayed(Arc::clone(&webhook), COUNT, KEYS).await;
        rounds.add(many, bare);
        hot.add(relayed(Arc::clone(&webhook), HOT, 1).await, many);
    }
    webhook.close().await;
    serving.abort();
    let (ratio, rates) = rounds.show();
    println!("transports, webhook, {CONCURRENCY} at once: {ratio:.2} of a bare reqwest loop ({rates}; target ≥ 0.7)");
    let (ratio, rates) = hot.show();
    println!("transports, webhook, one hot key: {ratio:.3} of many keys ({rates})");
}

/// Requests per second, unsigned.
async fn bare(url: &str) -> f64 {
    let client = reqwest::Client::builder().pool_max_idle_per_host(CONCURRENCY).build().unwrap();
    let (payload, run) = (bytes::Bytes::from(payload()), unique("m"));
    let start = Instant::now();
    let workers = (0..CONCURRENCY).map(|worker| {
        let (client, payload, url, run) = (client.clone(), payload.clone(), url.to_owned(), run.clone());
        tokio::spawn(async move {
            for n in 0..COUNT / CONCURRENCY {
                let request = client.post(&url).header("content-type", postroom_core::JSON);
                let request = request.header("webhook-id", format!("{run}-{worker}-{n}")).body(payload.clone());
                assert!(request.send().await.unwrap().status().is_success());
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    per_second(COUNT / CONCURRENCY * CONCURRENCY, start.elapsed())
}
