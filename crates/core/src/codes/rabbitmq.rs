//! Codes: RabbitMQ.

use super::{Code, Section};

pub(super) const SECTION: Section = Section {
    title: "RabbitMQ",
    about: "",
    codes: &[
        Code {
            code: "rabbitmq.unreachable",
            kind: "unavailable",
            cause: "nobody answers there, or not within `timeout`",
            next: "check `url`, the network, the broker",
        },
        Code {
            code: "rabbitmq.tls",
            kind: "unavailable",
            cause: "the certificate is not for this name, expired or not trusted; or the broker does not accept ours",
            next: "`tls.ca_file`, the host in `url`; `tls.cert_file` and `key_file`",
        },
        Code {
            code: "rabbitmq.login",
            kind: "unavailable",
            cause: "user or password are wrong, or the broker does not offer to log in like this",
            next: "correct `url`; for `external` enable `rabbitmq_auth_mechanism_ssl`",
        },
        Code {
            code: "rabbitmq.vhost",
            kind: "unavailable",
            cause: "the virtual host is not there, or not for this user",
            next: "`rabbitmqctl add_vhost`, `set_permissions`",
        },
        Code {
            code: "rabbitmq.denied",
            kind: "unavailable",
            cause: "the user may not write to the exchange, or not make what `[topology]` names",
            next: "`rabbitmqctl set_permissions`; or `mode = \"check\"`",
        },
        Code {
            code: "rabbitmq.no_exchange",
            kind: "unavailable",
            cause: "the exchange is not there",
            next: "create it, or declare it in `[topology]`",
        },
        Code {
            code: "rabbitmq.topology",
            kind: "unavailable",
            cause: "something of `[topology]` is missing, or cannot be made",
            next: "the text names it",
        },
        Code {
            code: "rabbitmq.blocked",
            kind: "unavailable",
            cause: "the broker is low on memory or disk and takes nothing",
            next: "give it room, or let consumers catch up; it goes on by itself",
        },
        Code {
            code: "rabbitmq.timeout",
            kind: "unavailable",
            cause: "a confirm did not come within `timeout`",
            next: "the broker is overloaded, or a quorum queue has no majority",
        },
        Code {
            code: "rabbitmq.heartbeat",
            kind: "unavailable",
            cause: "nothing was heard for two heartbeats",
            next: "look at the network between here and there",
        },
        Code {
            code: "rabbitmq.lost",
            kind: "unavailable",
            cause: "the connection ended, or the broker is going down",
            next: "none, unless it happens often: it is sent again",
        },
        Code {
            code: "rabbitmq.channel",
            kind: "unavailable",
            cause: "the broker closed the channel, perhaps because of another event",
            next: "the text has its reason; it is sent again, alone if need be",
        },
        Code {
            code: "rabbitmq.protocol",
            kind: "unavailable",
            cause: "what answers does not speak AMQP 0-9-1",
            next: "check host and port",
        },
        Code {
            code: "rabbitmq.options",
            kind: "unavailable",
            cause: "the options cannot be meant",
            next: "the text says what",
        },
        Code {
            code: "rabbitmq.unroutable",
            kind: "as `unroutable` says",
            cause: "no queue takes it",
            next: "bind a queue, or set [`unroutable`](rabbitmq.md#what-no-queue-takes)",
        },
        Code {
            code: "rabbitmq.nack",
            kind: "transient",
            cause: "a queue refuses it: it is full",
            next: "let its consumers catch up",
        },
        Code {
            code: "rabbitmq.too_large",
            kind: "permanent",
            cause: "the body is over the broker's `max_message_size`",
            next: "raise it and replay, or send a reference",
        },
        Code {
            code: "rabbitmq.refused",
            kind: "permanent",
            cause: "the broker closes the channel on this event",
            next: "the text has its reason",
        },
        Code {
            code: "rabbitmq.routing_key",
            kind: "permanent",
            cause: "the routing key has more than 255 bytes",
            next: "correct `routing_key`, then replay",
        },
        Code {
            code: "rabbitmq.header",
            kind: "permanent",
            cause: "a header's name, or all headers together, are too long; or it is called `CC` or `BCC`",
            next: "append such events without it",
        },
        Code {
            code: "rabbitmq.closed",
            kind: "unavailable",
            cause: "the relay stopped first",
            next: "none: it is sent again",
        },
        Code {
            code: "rabbitmq.transient",
            kind: "warning",
            cause: "the queue is not durable: a restart of its node takes it away, with every event in it",
            next: "delete it and declare it durable, best as a quorum queue",
        },
    ],
};
