//! Looks whether a topology is there, and makes what is missing.
//!
//! One thing after the other, each asked for first: a broker closes the channel on who asks for something that is not
//! there, so the channel is opened again. Whether a queue is bound cannot be asked; binding again changes nothing. Patterns
//! that RabbitMQ does not have ([`super::pattern`]) are bound as they are written: that matches no event, shows who looks what
//! is meant, and finds out at the start whether we may bind.

use super::{Exchange, ExchangeKind, Mode, Queue, Topology};
use crate::connection::{Connection, Ending};
use crate::wire::decode::{Closing, ServerMethod};
use crate::wire::encode::{self, Value};

const NOT_FOUND: u16 = 404;

/// Why a topology is not in place.
#[derive(Debug)]
pub(crate) enum NotInPlace {
    /// It may not be made by us.
    Missing(String),
    /// The broker does not let us make it.
    Refused(String, Closing),
    Ended(Ending),
}

/// How full a queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) messages: u32,
    pub(crate) consumers: u32,
}

impl Topology {
    /// Everything there must be, dead-letter exchanges and queues included, in the order in which it can be made.
    pub(crate) fn parts(&self) -> (Vec<Exchange>, Vec<Part<'_>>) {
        let mut exchanges = self.exchanges.clone();
        let mut queues = Vec::new();
        for queue in &self.queues {
            if queue.dlq {
                let dlx = Exchange { name: queue.dead_letter_exchange(), kind: ExchangeKind::Direct };
                if !exchanges.iter().any(|known| known.name == dlx.name) {
                    exchanges.push(dlx);
                }
                queues.push(Part::DeadLetters(queue));
            }
            queues.push(Part::Queue(queue));
        }
        (exchanges, queues)
    }
}

/// A queue to make.
#[derive(Debug)]
pub(crate) enum Part<'a> {
    Queue(&'a Queue),
    /// The queue for what that one's consumers reject.
    DeadLetters(&'a Queue),
}

impl Part<'_> {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Queue(queue) => queue.name.clone(),
            Self::DeadLetters(queue) => queue.dead_letter_queue(),
        }
    }
}

/// Looks, and makes what is missing if it may.
pub(crate) async fn put_in_place(connection: &mut Connection, topology: &Topology) -> Result<(), NotInPlace> {
    let (exchanges, queues) = topology.parts();
    for Exchange { name, kind } in exchanges {
        if !find_exchange(connection, &name).await? {
            let what = format!("{} exchange {name}", kind.word());
            may_be_made(topology.mode, &what)?;
            encode::exchange_declare(connection.output(), &name, Some(kind.word()));
            done(connection, what).await?;
        }
    }
    for part in queues {
        let name = part.name();
        if find_queue(connection, &name).await?.is_none() {
            let what = format!("queue {name}");
            may_be_made(topology.mode, &what)?;
            declare_queue(connection.output(), &part);
            match connection.ask().await {
                Ok(ServerMethod::QueueDeclareOk { .. }) => {}
                Ok(other) => return Err(Ending::Garbled(format!("{other:?} for a queue")).into()),
                Err(ending) => return Err(refused(what, ending)),
            }
        }
        if topology.mode == Mode::Declare {
            bind(connection, &part).await?;
        }
    }
    Ok(())
}

/// Whether an exchange is there.
pub(crate) async fn find_exchange(connection: &mut Connection, name: &str) -> Result<bool, Ending> {
    encode::exchange_declare(connection.output(), name, None);
    match connection.done().await {
        Ok(()) => Ok(true),
        Err(Ending::Channel(Closing { code: NOT_FOUND, .. })) => connection.open_channel().await.map(|()| false),
        Err(ending) => Err(ending),
    }
}

/// How full a queue is, if it is there.
pub(crate) async fn find_queue(connection: &mut Connection, name: &str) -> Result<Option<Level>, Ending> {
    encode::queue_declare(connection.output(), name, None);
    match connection.ask().await {
        Ok(ServerMethod::QueueDeclareOk { messages, consumers }) => Ok(Some(Level { messages, consumers })),
        Ok(other) => Err(Ending::Garbled(format!("{other:?} for a queue"))),
        Err(Ending::Channel(Closing { code: NOT_FOUND, .. })) => connection.open_channel().await.map(|()| None),
        Err(ending) => Err(ending),
    }
}

fn may_be_made(mode: Mode, what: &str) -> Result<(), NotInPlace> {
    match mode {
        Mode::Declare => Ok(()),
        Mode::Check => Err(NotInPlace::Missing(what.to_owned())),
    }
}

fn declare_queue(out: &mut bytes::BytesMut, part: &Part<'_>) {
    let (Part::Queue(queue) | Part::DeadLetters(queue)) = part;
    let (dlx, dlq) = (queue.dead_letter_exchange(), queue.dead_letter_queue());
    let mut arguments = vec![("x-queue-type", Value::Text(queue.kind.word()))];
    if matches!(part, Part::DeadLetters(_)) {
        return encode::queue_declare(out, &dlq, Some(&arguments));
    }
    if queue.dlq {
        arguments.push(("x-dead-letter-exchange", Value::Text(&dlx)));
        arguments.push(("x-dead-letter-routing-key", Value::Text(&dlq)));
    }
    if let Some(most) = queue.max_length {
        arguments.push(("x-max-length", Value::Number(most)));
        // The default drops the oldest without a word to anybody.
        arguments.push(("x-overflow", Value::Text("reject-publish")));
    }
    encode::queue_declare(out, &queue.name, Some(&arguments));
}

async fn bind(connection: &mut Connection, part: &Part<'_>) -> Result<(), NotInPlace> {
    let bindings = match part {
        Part::Queue(queue) => {
            queue.bindings.iter().map(|b| (b.exchange.clone(), b.routing_key.clone())).collect::<Vec<_>>()
        }
        Part::DeadLetters(queue) => vec![(queue.dead_letter_exchange(), queue.dead_letter_queue())],
    };
    let queue = part.name();
    for (exchange, key) in bindings {
        encode::queue_bind(connection.output(), &queue, &exchange, &key);
        done(connection, format!("binding of queue {queue} to exchange {exchange} with {key:?}")).await?;
    }
    Ok(())
}

async fn done(connection: &mut Connection, what: String) -> Result<(), NotInPlace> {
    connection.done().await.map_err(|ending| refused(what, ending))
}

fn refused(what: String, ending: Ending) -> NotInPlace {
    match ending {
        Ending::Channel(closing) => NotInPlace::Refused(what, closing),
        ending => NotInPlace::Ended(ending),
    }
}

impl From<Ending> for NotInPlace {
    fn from(ending: Ending) -> Self {
        Self::Ended(ending)
    }
}
