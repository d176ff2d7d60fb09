//! What `config check --online` looks up, on a connection of its own that publishes nothing.
//!
//! AMQP shows what is there and how full queues are. It does not show an exchange's kind, nor what is bound to it.

use postroom_core::{Diagnostic, Failure};
use tokio::time::timeout;

use crate::connection::{Connection, Ending};
use crate::driver::{GOODBYE, Setting};
use crate::failures;
use crate::options::{RabbitMqOptions, Unroutable};
use crate::topology::setup::{Level, find_exchange, find_queue};
use crate::topology::{Mode, Topology};
use crate::wire::decode::Closing;
use crate::wire::encode::{self, Value};

const ACCESS_REFUSED: u16 = 403;
const NOT_FOUND: u16 = 404;
const PRECONDITION_FAILED: u16 = 406;
/// An exchange that nobody has.
const NOWHERE: &str = "postroom.check.nowhere";

pub(crate) async fn look(setting: &Setting) -> Vec<Diagnostic> {
    let options = &setting.options;
    let mut findings = Vec::new();
    let address = match options.check() {
        Ok(address) => address,
        Err(error) => return vec![Diagnostic::from(failures::options(&error))],
    };
    let mut connection = match Connection::open(&setting.route, options, &address).await {
        Ok(connection) => connection,
        Err(failure) => return vec![Diagnostic::from(failure)],
    };
    findings.push(Diagnostic::fine(format!(
        "{}:{} accepts {} on virtual host {}, {} TLS",
        address.host,
        address.port,
        address.who(),
        address.vhost,
        if address.tls { "with" } else { "without" }
    )));
    let looked = timeout(options.timeout, things(&mut connection, options, &mut findings)).await;
    match looked {
        Ok(Ok(())) => {}
        Ok(Err(ending)) => findings.push(Diagnostic::from(failures::ending(&address, &ending))),
        Err(_) => findings.push(Diagnostic::from(failures::no_answer(&address, options.timeout))),
    }
    connection.close(GOODBYE, |_| {}).await;
    findings
}

async fn things(
    connection: &mut Connection,
    options: &RabbitMqOptions,
    findings: &mut Vec<Diagnostic>,
) -> Result<(), Ending> {
    if let Some(topology) = &options.topology {
        topology_found(connection, topology, findings).await?;
    }
    if options.exchange.is_empty() {
        default_exchange(connection, options, findings).await?;
    } else {
        exchange(connection, options, findings).await?;
    }
    let becomes = match options.unroutable {
        Unroutable::Retry => "are retried",
        Unroutable::Dead => "become dead letters",
        Unroutable::Accept => "count as delivered",
    };
    findings
        .push(Diagnostic::fine(format!("events that no queue is bound for {becomes}; AMQP does not list bindings")));
    Ok(())
}

async fn exchange(
    connection: &mut Connection,
    options: &RabbitMqOptions,
    findings: &mut Vec<Diagnostic>,
) -> Result<(), Ending> {
    let name = &options.exchange;
    if !find_exchange(connection, name).await? {
        let declared = options.topology.as_ref().is_some_and(|topology| {
            topology.mode == Mode::Declare && topology.exchanges.iter().any(|exchange| exchange.name == *name)
        });
        if !declared {
            let error = format!("no exchange {name}; create it, or declare it in [topology]");
            findings.push(Diagnostic::from(Failure::unavailable("rabbitmq.no_exchange", error)));
        }
        return Ok(());
    }
    findings.push(Diagnostic::fine(format!("exchange {name} exists")));
    if let Some(said) = may_not_write(connection, name).await? {
        let error = format!("{said}; grant the right to write");
        findings.push(Diagnostic::from(Failure::unavailable("rabbitmq.denied", error)));
    }
    Ok(())
}

/// What the broker says if we may not write to this exchange.
///
/// It tells by the order in which it looks: who takes away a binding must be allowed to write to its destination; only
/// then the broker finds that the source does not exist. Nothing changes either way.
async fn may_not_write(connection: &mut Connection, exchange: &str) -> Result<Option<String>, Ending> {
    encode::exchange_unbind(connection.output(), exchange, NOWHERE, "");
    match connection.done().await {
        Ok(()) => Ok(None),
        Err(Ending::Channel(Closing { code, text })) if code == ACCESS_REFUSED || code == NOT_FOUND => {
            connection.open_channel().await?;
            Ok((code == ACCESS_REFUSED && !text.contains(NOWHERE)).then_some(text))
        }
        Err(ending) => Err(ending),
    }
}

/// The routing key is the queue's name there.
async fn default_exchange(
    connection: &mut Connection,
    options: &RabbitMqOptions,
    findings: &mut Vec<Diagnostic>,
) -> Result<(), Ending> {
    let Some(queue) = options.routing_key.fixed() else { return Ok(()) };
    match find_queue(connection, queue).await? {
        Some(level) => queue_found(connection, queue, level, findings).await?,
        None => findings.extend(
            failures::unroutable(options.unroutable, options.exchange_name(), &format!("no queue {queue}"))
                .map(Diagnostic::from),
        ),
    }
    Ok(())
}

async fn topology_found(
    connection: &mut Connection,
    topology: &Topology,
    findings: &mut Vec<Diagnostic>,
) -> Result<(), Ending> {
    let (exchanges, queues) = topology.parts();
    for exchange in exchanges {
        if !find_exchange(connection, &exchange.name).await? {
            findings.push(missing(topology.mode, &format!("{} exchange {}", exchange.kind.word(), exchange.name)));
        }
    }
    for queue in queues {
        let name = queue.name();
        match find_queue(connection, &name).await? {
            Some(level) => queue_found(connection, &name, level, findings).await?,
            None => findings.push(missing(topology.mode, &format!("queue {name}"))),
        }
    }
    Ok(())
}

fn missing(mode: Mode, what: &str) -> Diagnostic {
    match mode {
        Mode::Declare => Diagnostic::fine(format!("{what} will be declared")),
        Mode::Check => Diagnostic::from(failures::missing(what)),
    }
}

async fn queue_found(
    connection: &mut Connection,
    name: &str,
    level: Level,
    findings: &mut Vec<Diagnostic>,
) -> Result<(), Ending> {
    let Level { messages, consumers } = level;
    findings.push(Diagnostic::fine(format!("queue {name} has {messages} messages and {consumers} consumers")));
    if is_transient(connection, name).await? {
        findings.push(
            Diagnostic::warning(
                "rabbitmq.transient",
                format!("queue {name} is not durable: a restart of its node loses it with every event in it"),
            )
            .hint("delete it and declare it durable, best as a quorum queue".to_owned()),
        );
    }
    Ok(())
}

/// Whether a queue goes when its node stops.
///
/// It is declared as durable, with an argument that no queue can have: the broker first compares what is there, and says
/// where it differs; it never makes such a queue. Who may not declare cannot ask, and is told nothing.
async fn is_transient(connection: &mut Connection, name: &str) -> Result<bool, Ending> {
    encode::queue_declare(connection.output(), name, Some(&[("x-message-ttl", Value::Text("never"))]));
    match connection.ask().await {
        Err(Ending::Channel(Closing { code, text })) if code == PRECONDITION_FAILED || code == ACCESS_REFUSED => {
            connection.open_channel().await?;
            Ok(code == PRECONDITION_FAILED && text.contains("inequivalent arg 'durable'"))
        }
        Ok(other) => Err(Ending::Garbled(format!("{other:?} for a queue that cannot be"))),
        Err(ending) => Err(ending),
    }
}
