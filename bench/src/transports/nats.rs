//! NATS JetStream against a bare async-nats loop with as many acknowledgements on their way.

use std::collections::VecDeque;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Instant;

use async_nats::HeaderMap;
use async_nats::jetstream::{self, stream};
use postroom_core::envelope::Binding;
use postroom_core::{SecretUrl, Transport};
use postroom_nats::{Nats, NatsOptions};
use postroom_testbed::Servers;

use super::{encoder, payload, per_second, relayed, template, unique, warm};
use crate::rounds::Rounds;

const COUNT: usize = 200_000;
const KEYS: usize = 50_000;
const HOT: usize = 10_000;

pub(crate) async fn run(servers: &Servers) {
    let url = format!("nats://127.0.0.1:{}", servers.site("nats").port);
    // As many as ours, or it would wait for the first of them.
    let context = jetstream::ContextBuilder::new().max_ack_inflight(2 * super::WINDOW);
    let context = context.build(async_nats::connect(&url).await.unwrap());
    let name = unique("bench");
    let config = stream::Config { name: name.clone(), subjects: vec![name.clone()], ..stream::Config::default() };
    let stream = context.create_stream(config).await.unwrap();
    let mut options = NatsOptions::new(vec![SecretUrl::new(&url)], template(&name));
    options.stream = Some(name.clone());
    let nats: Arc<dyn Transport> = Arc::new(Nats::new("bench", options, encoder(Binding::Nats)));
    warm(&nats).await;
    let (mut rounds, mut hot) = (Rounds::default(), Rounds::default());
    for _ in 0..super::ROUNDS {
        let bare = bare(&context, &name).await;
        let many = relayed(Arc::clone(&nats), COUNT, KEYS).await;
        rounds.add(many, bare);
        hot.add(relayed(Arc::clone(&nats), HOT, 1).await, many);
        stream.purge().await.unwrap();
    }
    nats.close().await;
    context.delete_stream(&name).await.unwrap();
    let (ratio, rates) = rounds.show();
    println!("transports, NATS: {ratio:.2} of a bare async-nats loop ({rates}; target ≥ 0.7)");
    let (ratio, rates) = hot.show();
    println!("transports, NATS, one hot key: {ratio:.3} of many keys ({rates})");
}

/// Messages per second with a message id each, and a window of acknowledgements.
async fn bare(context: &jetstream::Context, subject: &str) -> f64 {
    let (payload, mut acks, run) = (bytes::Bytes::from(payload()), VecDeque::new(), fastrand::u32(..));
    let start = Instant::now();
    for n in 0..COUNT {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", format!("{run}-{n}"));
        headers.insert("Nats-Expected-Stream", subject);
        let publish = context.publish_with_headers(subject.to_owned(), headers, payload.clone());
        acks.push_back(publish.await.unwrap());
        if acks.len() >= super::WINDOW {
            acks.pop_front().unwrap().into_future().await.unwrap();
        }
    }
    for ack in acks {
        ack.into_future().await.unwrap();
    }
    per_second(COUNT, start.elapsed())
}
