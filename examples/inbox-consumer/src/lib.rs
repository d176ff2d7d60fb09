//! A bookkeeper behind a Kafka topic: whatever comes twice is booked once.

use postroom::Failure;
use postroom::consumer::kafka::{KafkaSubscription, KafkaSubscriptionOptions};
use postroom::consumer::{Consumer, Handler, Message};
use postroom::postgres::{PostgresStore, PostgresTx, sqlx};
use tokio::sync::mpsc::UnboundedSender;

/// The handler; tells which order it has worked on.
#[derive(Debug)]
pub struct Books {
    /// Where it tells.
    pub worked: UnboundedSender<String>,
}

impl Handler<PostgresTx> for Books {
    /// Books in the transaction in which the event's id is accepted: both commit, or neither does.
    async fn handle(&self, tx: &mut PostgresTx, order: &Message) -> Result<(), Failure> {
        let key = order.key.clone().unwrap_or_default();
        sqlx::query("insert into ledger values ($1)").bind(&key).execute(&mut **tx).await?;
        let _ = self.worked.send(key);
        Ok(())
    }
}

/// The consumer of a topic; instances of one group share its partitions.
pub fn consumer(
    store: PostgresStore,
    brokers: &str,
    topic: &str,
    books: Books,
) -> Result<Consumer<PostgresStore, PostgresStore, KafkaSubscription, Books>, Box<dyn std::error::Error>> {
    let brokers = brokers.split(',').map(str::to_owned).collect();
    let dead = format!("{topic}.dead");
    let options = KafkaSubscriptionOptions::new(brokers, vec![topic.to_owned()], format!("books-{topic}"), dead);
    Ok(Consumer::new("books", store, KafkaSubscription::new(options)?, books)?)
}
