//! A dispatcher as systems write it: locks a batch, publishes one by one, marks, commits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lapin::options::BasicPublishOptions;
use lapin::{BasicProperties, Channel};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::Timeout;
use sqlx::{AssertSqlSafe, Connection as _, PgPool};

/// Where it publishes.
pub(super) enum To {
    Nowhere,
    RabbitMq(Channel, &'static str),
    Kafka(FutureProducer),
}

/// How it marks what it has published.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Marks {
    EachRow,
    WholeBatch,
}

pub(super) struct Worker {
    pub(super) to: To,
    /// Brings a batch: id, key, where to, and the body.
    pub(super) batch: Arc<str>,
    /// Marks one row, by its id.
    pub(super) mark_one: &'static str,
    /// Marks those of a list of ids.
    pub(super) mark_many: &'static str,
}

impl Worker {
    /// Rows a second, until this many are marked.
    pub(super) async fn run(&self, pool: &PgPool, rows: usize, marks: Marks) -> f64 {
        let (mut done, start) = (0, Instant::now());
        let mut connection = pool.acquire().await.unwrap();
        while done < rows {
            let mut tx = connection.begin().await.unwrap();
            let batch: Vec<(String, String, String, String)> =
                sqlx::query_as(AssertSqlSafe(Arc::clone(&self.batch))).fetch_all(&mut *tx).await.unwrap();
            assert!(!batch.is_empty(), "fewer rows than wanted");
            let mut ids = Vec::with_capacity(batch.len());
            for (id, key, target, body) in batch {
                self.publish(&id, &key, &target, &body).await;
                if marks == Marks::EachRow {
                    sqlx::query(self.mark_one).bind(&id).execute(&mut *tx).await.unwrap();
                }
                ids.push(id);
            }
            if marks == Marks::WholeBatch {
                sqlx::query(self.mark_many).bind(&ids).execute(&mut *tx).await.unwrap();
            }
            tx.commit().await.unwrap();
            done += ids.len();
        }
        done as f64 / start.elapsed().as_secs_f64()
    }

    /// Publishes one and waits until the broker has it.
    async fn publish(&self, id: &str, key: &str, target: &str, body: &str) {
        match &self.to {
            To::Nowhere => {}
            To::RabbitMq(channel, exchange) => {
                let properties = BasicProperties::default().with_delivery_mode(2).with_message_id(id.into());
                let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
                let publish =
                    channel.basic_publish((*exchange).into(), target.into(), options, body.as_bytes(), properties);
                assert!(publish.await.unwrap().await.unwrap().is_ack());
            }
            To::Kafka(producer) => {
                let record = FutureRecord::to(target).key(key).payload(body);
                producer.send(record, Timeout::After(Duration::from_secs(30))).await.unwrap();
            }
        }
    }
}
