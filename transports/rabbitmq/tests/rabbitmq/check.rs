//! What `check` finds, and that it changes nothing.

use lapin::options::{QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::FieldTable;
use postroom_conformance::changed;
use postroom_core::{Level, Template, Transport as _};
use postroom_rabbitmq::{Binding, Exchange, ExchangeKind, Mode, Queue, QueueKind, RabbitMqOptions, Topology};
use postroom_testbed::Servers;
use postroom_testbed::brokers::{LIMITED_USER, PASSWORD};
use postroom_tls::TlsFiles;

use crate::rabbitmq::place::{Place, Proxied, options, transport, url};

/// What is fine, as it is said; warnings and problems by their code and what they say.
async fn found(options: RabbitMqOptions) -> (Vec<String>, Vec<(String, String)>) {
    let (mut fine, mut problems) = (Vec::new(), Vec::new());
    for finding in transport(options).check().await {
        match (finding.level, finding.code) {
            (Level::Problem, Some(code)) => problems.push((code, finding.message)),
            (Level::Warning, Some(code)) => problems.push((format!("warning {code}"), finding.message)),
            _ => fine.push(finding.message),
        }
    }
    (fine, problems)
}

#[tokio::test]
async fn a_destination_in_good_order_is_described() {
    let to = Proxied::shared().await;
    let (fine, problems) = found(to.options()).await;
    assert_eq!(problems, []);
    assert_eq!(
        fine,
        [
            format!("127.0.0.1:{} accepts relay on virtual host /, without TLS", to.proxy.port()),
            format!("exchange {} exists", to.place.name),
            "events that no queue is bound for are retried; AMQP does not list bindings".to_owned(),
        ]
    );
    assert_eq!(to.place.arrived().await, [], "it sent something");
    to.proxy.until(|counts| counts.open() == 0).await;
}

#[tokio::test]
async fn in_private_it_says_so() {
    let place = Place::shared().await;
    let servers = Servers::find();
    let url = format!("amqps://guest:guest@localhost:{}/%2f", servers.site("rabbitmq").port_of("tls"));
    let tls = TlsFiles { ca_file: Some(servers.certificates().ca()), ..TlsFiles::default() };
    let (fine, problems) = found(changed(options(&url, &place.name), |o| o.tls = tls)).await;
    assert!(problems.is_empty() && fine[0].ends_with("with TLS"), "{fine:?} {problems:?}");
}

#[tokio::test]
async fn each_reason_for_which_deliveries_would_fail_is_found() {
    let place = Place::shared().await;
    let limited = format!("amqp://{LIMITED_USER}:{PASSWORD}@127.0.0.1:{}/%2f", place.port);
    let straight =
        changed(options(&url(place.port), ""), |o| o.routing_key = Template::parse("no-such-queue", &[]).unwrap());
    for (options, code, said) in [
        (options(&url(place.port).replace(PASSWORD, "wrong"), ""), "rabbitmq.login", "refuses the login"),
        (options("amqp://127.0.0.1:1", ""), "rabbitmq.unreachable", "127.0.0.1:1"),
        (options("amqp://127.0.0.1/a/b", ""), "rabbitmq.options", "virtual host"),
        (options(&url(place.port), "no-such-exchange"), "rabbitmq.no_exchange", "no-such-exchange"),
        (options(&limited, &place.name), "rabbitmq.denied", &place.name),
        (straight, "rabbitmq.unroutable", "no queue no-such-queue"),
    ] {
        let (_, problems) = found(options).await;
        let [(found, text)] = &problems[..] else { panic!("{code}: {problems:?}") };
        assert!(found == code && text.contains(said), "{code}: {found}: {text}");
        assert!(!text.contains(PASSWORD), "{text}");
    }
}

#[tokio::test]
async fn a_topology_is_looked_at_and_nothing_is_made() {
    let place = Place::shared().await;
    let queue = |name: &str, dlq: bool| Queue {
        name: name.to_owned(),
        kind: QueueKind::Classic,
        bindings: vec![Binding { exchange: place.name.clone(), routing_key: "#".to_owned() }],
        dlq,
        max_length: None,
    };
    let missing = format!("{}-missing", place.name);
    let exchange = Exchange { name: place.name.clone(), kind: ExchangeKind::Topic };
    let of = |mode: Mode| Topology {
        mode,
        exchanges: vec![exchange.clone()],
        queues: vec![queue(&place.name, false), queue(&missing, true)],
    };
    let with = |mode: Mode| changed(place.options(place.port), |o| o.topology = Some(of(mode)));
    // Twice, so that whatever the first look had made would be found by the second.
    for _ in 0..2 {
        let (fine, problems) = found(with(Mode::Declare)).await;
        assert_eq!(problems, []);
        assert_eq!(
            fine[1..5],
            [
                format!("direct exchange {}.dlx will be declared", place.name),
                format!("queue {} has 0 messages and 0 consumers", place.name),
                format!("queue {missing}.dlq will be declared"),
                format!("queue {missing} will be declared"),
            ]
        );
    }
    let (_, problems) = found(with(Mode::Check)).await;
    let said: Vec<&str> = problems.iter().map(|(_, text)| text.split(';').next().unwrap()).collect();
    let expected = [
        format!("direct exchange {}.dlx is missing", place.name),
        format!("queue {missing}.dlq is missing"),
        format!("queue {missing} is missing"),
    ];
    assert_eq!(said, expected);
    assert!(problems.iter().all(|(code, _)| code == "rabbitmq.topology"));
}

#[tokio::test]
async fn a_queue_that_a_restart_takes_away_is_warned_of_and_asking_changes_nothing() {
    let place = Place::shared().await;
    let name = format!("{}.transient", place.name);
    let transient = QueueDeclareOptions::default();
    place.channel.queue_declare(name.clone().into(), transient, FieldTable::default()).await.unwrap();
    for (queue, warned) in [(&name, true), (&place.name, false)] {
        let to = changed(options(&url(place.port), ""), |o| o.routing_key = Template::parse(queue, &[]).unwrap());
        let (fine, found) = found(to).await;
        let codes: Vec<&str> = found.iter().map(|(code, _)| code.as_str()).collect();
        assert_eq!(codes, if warned { vec!["warning rabbitmq.transient"] } else { vec![] }, "{found:?}");
        assert!(fine[1].starts_with(&format!("queue {queue} has 0 messages")), "{fine:?}");
    }
    let still = place.channel.queue_declare(name.clone().into(), transient, FieldTable::default()).await;
    assert!(still.is_ok(), "it is another queue now: {still:?}");
    place.channel.queue_delete(name.into(), QueueDeleteOptions::default()).await.unwrap();
}
