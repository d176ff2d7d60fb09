//! What a transport's section says for all its routes.

use std::time::Duration;

use postroom_core::envelope::Format;

use crate::layers::case::{Case, origin};

#[cfg(feature = "webhook")]
#[test]
fn webhooks_take_from_their_section_what_they_do_not_say_themselves() {
    let case = Case::new()
        .file("postroom.toml", WEBHOOKS)
        .file("old", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
        .file("new", "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbc=\n");
    let config = case.config();
    let options = |n: usize| config.routes[n].to.options::<postroom_webhook::WebhookOptions>().unwrap();
    let (first, second) = (options(0), options(1));
    assert_eq!((first.timeout, second.timeout), (Duration::from_secs(7), Duration::from_secs(9)));
    assert_eq!((first.keys.len(), second.keys.len()), (2, 1));
    assert_eq!((first.concurrency, first.connect_timeout), (8, Duration::from_secs(5)));
    assert!(!first.https_only && first.proxy.is_some());
    assert_eq!((first.allow_networks.len(), second.allow_networks.len()), (1, 0));
    assert_eq!(config.routes[0].definition.to, "webhook http://partner.internal:8080");
    assert_eq!(config.routes[0].envelope, Format::CloudEventsStructured);
    let shown = format!("{config:?} {:?}", config.show());
    assert!(!shown.contains("canary") && !shown.contains("MfKQ9r8GKY"), "{shown}");
    assert_eq!(origin(&config, "route.second.to.webhook.secret").0, "\"***\"");
    assert_eq!(origin(&config, "route.first.to.webhook.timeout").1, "postroom.toml:6");
}

#[cfg(feature = "webhook")]
const WEBHOOKS: &str = r#"[store.main]
url = "sqlite://shop.db"
[transport.webhook]
https_only = false
allow_networks = ["10.1.0.0/16"]
timeout = "7s"
secret_file = ["old", "new"]
proxy = "http://relay:canary@proxy.internal:3128"
[[route]]
name = "first"
to = { webhook = { url = "http://partner.internal:8080/hook?token=canary" } }
[[route]]
name = "second"
to = { webhook = { url = "https://partner.example/", secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", timeout = "9s", allow_networks = [] } }
"#;

#[cfg(feature = "rabbitmq")]
#[test]
fn routes_to_rabbitmq_share_their_section_and_the_topology() {
    use postroom_rabbitmq::{ExchangeKind, Mode, QueueKind, Unroutable};
    let case = Case::new().file("postroom.toml", RABBITMQ).file("amqp-url", "amqp://relay:canary@rabbit/shop\n");
    let config = case.config();
    let options = |n: usize| config.routes[n].to.options::<postroom_rabbitmq::RabbitMqOptions>().unwrap();
    let (orders, stock) = (options(0), options(1));
    assert_eq!(
        (orders.url.to_string().as_str(), stock.url.to_string().as_str()),
        ("amqp://relay:***@rabbit/shop", "amqp://other")
    );
    assert_eq!((orders.exchange.as_str(), stock.exchange.as_str()), ("shop.events", ""));
    assert_eq!((orders.routing_key.as_str(), stock.routing_key.as_str()), ("{aggregate_type}.{type}", "stock"));
    assert_eq!((orders.unroutable, stock.unroutable), (Unroutable::Dead, Unroutable::Retry));
    assert_eq!((orders.heartbeat, orders.timeout), (Duration::from_secs(5), Duration::from_secs(30)));
    assert_eq!(config.routes[0].definition.to, "rabbitmq shop.events");
    assert_eq!(config.routes[1].definition.to, "rabbitmq (default)");
    assert_eq!(config.routes[0].envelope, Format::CloudEventsBinary);
    assert_eq!(orders.topology, stock.topology);
    let topology = orders.topology.as_ref().expect("there is one");
    assert_eq!(topology.mode, Mode::Check);
    assert_eq!((topology.exchanges[0].name.as_str(), topology.exchanges[0].kind), ("shop.events", ExchangeKind::Topic));
    let [mails, sync] = &topology.queues[..] else { panic!("{topology:?}") };
    assert_eq!(
        (mails.name.as_str(), mails.kind, mails.dlq, mails.max_length),
        ("mails.out", QueueKind::Quorum, true, None)
    );
    assert_eq!((mails.bindings[1].exchange.as_str(), mails.bindings[1].routing_key.as_str()), ("shop.events", "#"));
    assert_eq!((sync.kind, sync.dlq, sync.max_length, sync.bindings.len()), (QueueKind::Classic, false, Some(5), 0));
    let shown = format!("{config:?} {:?}", config.show());
    assert!(!shown.contains("canary"), "{shown}");
}

#[cfg(feature = "rabbitmq")]
const RABBITMQ: &str = r##"[store.main]
url = "sqlite://shop.db"
[transport.rabbitmq]
url_file = "amqp-url"
heartbeat = "5s"
allow_plain_password = true
[topology]
mode = "check"
[topology.exchange."shop.events"]
[topology.queue."mails.out"]
dlq = true
bind = [{ exchange = "shop.events", routing_key = "order.*" }, { exchange = "shop.events", routing_key = "#" }]
[topology.queue.sync]
type = "classic"
max_length = 5
[[route]]
name = "orders"
to = { rabbitmq = { exchange = "shop.events", routing_key = "{aggregate_type}.{type}", unroutable = "dead" } }
[[route]]
name = "stock"
to = { rabbitmq = { url = "amqp://other", routing_key = "stock" } }
"##;

#[cfg(all(feature = "nats", feature = "redis"))]
#[test]
fn routes_take_from_their_transport_what_they_leave_out_and_no_password_of_it_is_shown() {
    let text = r#"
[store.main]
url = "sqlite://shop.db"
[transport.nats]
url = ["nats://relay:canary@a", "tls://b"]
token_file = "token"
stream = "ORDERS"
create = { subjects = ["orders.>"], duplicate_window = "10m" }
allow_plain_password = true
[transport.redis]
url = "redis://relay:canary@c/2"
timeout = "9s"
allow_plain_password = true
[[route]]
name = "orders"
to = { nats = { subject = "orders.{type}" } }
[[route]]
name = "audit"
to = { nats = { stream = "AUDIT", subject = "audit", token = "canary-too", timeout = "1s" } }
[[route]]
name = "cache"
to = { redis = { stream = "orders", maxlen = 1000 } }
[[route]]
name = "returns"
to = { nats = { subject = "returns.{type}" } }
"#;
    let case = Case::new().file("postroom.toml", text).file("token", "canary\n");
    let config = case.config();
    let to: Vec<&str> = config.routes.iter().map(|route| route.definition.to.as_str()).collect();
    assert_eq!(
        to,
        [
            "nats ORDERS orders.{type} at nats://relay:***@a",
            "nats AUDIT audit at nats://relay:***@a",
            "redis orders at redis://relay:***@c/2",
            "nats ORDERS returns.{type} at nats://relay:***@a",
        ]
    );
    let orders = config.routes[0].to.options::<postroom_nats::NatsOptions>().unwrap();
    assert_eq!(orders.login, postroom_nats::Login::Token(postroom_core::Secret::new("canary")));
    let create = orders.create.clone().unwrap();
    assert_eq!((create.replicas, create.max_age, create.duplicate_window), (1, None, Some(Duration::from_mins(10))));
    let audit = config.routes[1].to.options::<postroom_nats::NatsOptions>().unwrap();
    assert_eq!(audit.login, postroom_nats::Login::Token(postroom_core::Secret::new("canary-too")));
    assert_eq!((orders.timeout, audit.timeout), (Duration::from_secs(5), Duration::from_secs(1)));
    let returns = config.routes[3].to.options::<postroom_nats::NatsOptions>().unwrap();
    let shared = [orders, audit, returns].map(|options| options.stream_is_shared);
    assert_eq!(shared, [true, false, true]);
    let cache = config.routes[2].to.options::<postroom_redis::RedisOptions>().unwrap();
    assert_eq!((cache.timeout, cache.maxlen, cache.wait_replicas), (Duration::from_secs(9), Some(1000), None));
    assert!(config.routes.iter().all(|route| route.envelope == Format::CloudEventsBinary));
    assert!(!format!("{config:?}{:?}", config.show()).contains("canary"));
}
