//! Codes of RabbitMQ.

use postroom_core::codes;
use postroom_core::codes::Section;

/// Codes of RabbitMQ.
pub const CODES: &[Section] = &[
    Section {
        title: "RabbitMQ",
        about: "",
        codes: codes! {
            "rabbitmq.unreachable" | "unavailable" | "the broker does not answer within `timeout`" | "check `url`, the network, the broker"
            "rabbitmq.tls" | "unavailable" | "the certificate of the broker is for another name, expired or not trusted; or the broker rejects the client certificate" | "`tls.ca_file`, the host in `url`; `tls.cert_file` and `key_file`"
            "rabbitmq.login" | "unavailable" | "user or password is wrong, or the broker does not offer this login mechanism" | "correct `url`; for `external` enable `rabbitmq_auth_mechanism_ssl`"
            "rabbitmq.vhost" | "unavailable" | "the virtual host does not exist, or the user has no access to it" | "`rabbitmqctl add_vhost`, `set_permissions`"
            "rabbitmq.denied" | "unavailable" | "the user may not write to the exchange, or may not declare the `[topology]`" | "`rabbitmqctl set_permissions`; or `mode = \"check\"`"
            "rabbitmq.no_exchange" | "unavailable" | "the exchange does not exist" | "create the exchange, or declare it in `[topology]`"
            "rabbitmq.topology" | "unavailable" | "an exchange, queue or binding of `[topology]` is missing, or cannot be declared" | "the text names it"
            "rabbitmq.blocked" | "unavailable" | "the broker is low on memory or disk and blocks publishers" | "free memory or disk, or let consumers catch up; deliveries resume without action"
            "rabbitmq.timeout" | "unavailable" | "the broker did not confirm an event within `timeout`" | "the broker is overloaded, or a quorum queue has no majority"
            "rabbitmq.heartbeat" | "unavailable" | "two heartbeats of the broker are missing" | "check the network between relay and broker"
            "rabbitmq.lost" | "unavailable" | "the connection was lost, or the broker is shutting down" | "none, unless it happens often: the event is sent again"
            "rabbitmq.channel" | "unavailable" | "the broker closed the channel, perhaps because of another event" | "the text has the broker's reason; the event is sent again, alone if need be"
            "rabbitmq.protocol" | "unavailable" | "the server does not speak AMQP 0-9-1" | "check host and port"
            "rabbitmq.options" | "unavailable" | "the options are not valid" | "the text names the option"
            "rabbitmq.unroutable" | "as `unroutable` says" | "no queue is bound for the event" | "bind a queue, or set [`unroutable`](rabbitmq.md#unroutable-events)"
            "rabbitmq.bindings" | "transient" | "a pattern with a part of a word (`stock_*.*`) has matched 1,000 different words" | "bind whole words; a word should not have an id in it"
            "rabbitmq.nack" | "transient" | "a full queue rejects the event" | "let the consumers of the queue catch up"
            "rabbitmq.too_large" | "permanent" | "the body is larger than the broker's `max_message_size`" | "raise the limit and replay, or send a reference"
            "rabbitmq.refused" | "permanent" | "the broker closes the channel on this event" | "the text has the broker's reason"
            "rabbitmq.routing_key" | "permanent" | "the routing key has more than 255 bytes" | "correct `routing_key`, then replay"
            "rabbitmq.header" | "permanent" | "the name of a header, or all headers together, are too long; or a header is called `CC` or `BCC`" | "append such events without the header"
            "rabbitmq.closed" | "unavailable" | "the relay stopped first" | "none: the event is sent again"
            "rabbitmq.transient" | "warning" | "the queue is not durable: a restart of its node loses it with every event in it" | "delete the queue and declare it durable, best as a quorum queue"
        },
    },
    Section {
        title: "Consumers",
        about: "",
        codes: codes! {
            "rabbitmq.queue" | "unavailable" | "the consumer cannot read the queue" | "the text quotes the broker: declare the queue, grant `read`"
            "rabbitmq.no_dead_letters" | "unavailable" | "the queue for dead messages does not exist, or is full" | "declare the queue, or empty it"
        },
    },
];
