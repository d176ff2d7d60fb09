//! Redis streams against a pipelined `XADD` loop.

use std::sync::Arc;
use std::time::Instant;

use postroom_core::envelope::Binding;
use postroom_core::{SecretUrl, Transport};
use postroom_redis::{Redis, RedisOptions};
use postroom_testbed::Servers;
use redis::aio::MultiplexedConnection;

use super::{encoder, payload, per_second, relayed, template, unique, warm};
use crate::rounds::Rounds;

const COUNT: usize = 400_000;
const KEYS: usize = 50_000;
const HOT: usize = 20_000;
/// Commands of one pipeline.
const PIPELINE: usize = 1_000;
/// Pipelines on their way at once: together as many as the window.
const PIPELINES: usize = super::WINDOW / PIPELINE;

pub(crate) async fn run(servers: &Servers) {
    let url = format!("redis://127.0.0.1:{}", servers.site("redis").port);
    let client = ::redis::Client::open(url.as_str()).unwrap();
    let config = ::redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    let stream = unique("bench");
    let options = RedisOptions::new(SecretUrl::new(&url), template(&stream));
    let redis: Arc<dyn Transport> = Arc::new(Redis::new("bench", options, encoder(Binding::Redis)));
    warm(&redis).await;
    let (mut rounds, mut hot) = (Rounds::default(), Rounds::default());
    for _ in 0..super::ROUNDS {
        let bare = bare(&connection, &stream).await;
        let many = relayed(Arc::clone(&redis), COUNT, KEYS).await;
        rounds.add(many, bare);
        hot.add(relayed(Arc::clone(&redis), HOT, 1).await, many);
        let () = ::redis::cmd("DEL").arg(&stream).query_async(&mut connection).await.unwrap();
    }
    redis.close().await;
    let (ratio, rates) = rounds.show();
    println!("transports, Redis: {ratio:.2} of a pipelined XADD loop ({rates}; target ≥ 0.7)");
    let (ratio, rates) = hot.show();
    println!("transports, Redis, one hot key: {ratio:.3} of many keys ({rates})");
}

/// Entries per second with the fields that ours have, a window of pipelines on their way.
async fn bare(connection: &MultiplexedConnection, stream: &str) -> f64 {
    let payload = payload();
    let start = Instant::now();
    let mut waiting = std::collections::VecDeque::new();
    for n in 0..COUNT / PIPELINE {
        let mut pipeline = ::redis::Pipeline::with_capacity(PIPELINE);
        for m in 0..PIPELINE {
            // As long as an event's.
            let id = format!("{:036}", n * PIPELINE + m);
            pipeline.cmd("XADD").arg(stream).arg("*").arg("content-type").arg(postroom_core::JSON);
            pipeline
                .arg("postroom-id")
                .arg(&id)
                .arg("postroom-type")
                .arg("bench.event")
                .arg("postroom-position")
                .arg(n * PIPELINE + m);
            pipeline.arg("data").arg(&payload).ignore();
        }
        let mut connection = connection.clone();
        waiting.push_back(tokio::spawn(async move { pipeline.query_async::<()>(&mut connection).await.unwrap() }));
        if waiting.len() >= PIPELINES {
            waiting.pop_front().unwrap().await.unwrap();
        }
    }
    for pipeline in waiting {
        pipeline.await.unwrap();
    }
    per_second(COUNT, start.elapsed())
}
