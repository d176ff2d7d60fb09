//! Codes: NATS.

use super::{Code, Section};

pub(super) const SECTION: Section = Section {
    title: "NATS",
    about: "",
    codes: &[
        Code {
            code: "nats.unreachable",
            kind: "unavailable",
            cause: "no server answers within `timeout`: refused, no such name, silence",
            next: "check `url`, the network, the server",
        },
        Code {
            code: "nats.tls",
            kind: "unavailable",
            cause: "the certificate is not for this name, expired or not trusted; or the server wants one of ours",
            next: "`tls.ca_file`, the host in `url`; `tls.cert_file` and `key_file`",
        },
        Code {
            code: "nats.login",
            kind: "unavailable",
            cause: "the server does not take the login, or its file cannot be read",
            next: "correct it; JWTs expire",
        },
        Code {
            code: "nats.permission",
            kind: "unavailable",
            cause: "the user may not publish there, not look the stream up, or not read its inbox",
            next: "the text names the subject; [what is needed](nats.md#logging-in-and-tls)",
        },
        Code {
            code: "nats.no_jetstream",
            kind: "unavailable",
            cause: "the server, or the account, has no JetStream",
            next: "enable it",
        },
        Code {
            code: "nats.no_stream",
            kind: "unavailable",
            cause: "the stream is not there, or takes no such subject",
            next: "create it, let `create` do it, or widen its subjects",
        },
        Code {
            code: "nats.wrong_stream",
            kind: "unavailable",
            cause: "the subject belongs to another stream, or the stream never acknowledges (`no_ack`)",
            next: "correct `stream` or `subject`",
        },
        Code {
            code: "nats.create",
            kind: "unavailable",
            cause: "the stream cannot be created",
            next: "the text has the server's reason, often overlapping subjects",
        },
        Code {
            code: "nats.stream_full",
            kind: "unavailable; transient for one subject",
            cause: "limits are reached and the stream refuses what is new",
            next: "raise them, or let consumers catch up; it goes on by itself",
        },
        Code {
            code: "nats.timeout",
            kind: "unavailable",
            cause: "an acknowledgement did not come within `timeout`",
            next: "the server is overloaded, or its stream has no leader",
        },
        Code {
            code: "nats.disconnected",
            kind: "unavailable",
            cause: "the connection was lost",
            next: "none, unless it happens often: it is sent again",
        },
        Code {
            code: "nats.lame_duck",
            kind: "unavailable",
            cause: "the server is about to stop",
            next: "none: the next server is tried",
        },
        Code {
            code: "nats.refused",
            kind: "transient, or unavailable",
            cause: "something else; the text is the server's",
            next: "look the number up in its documentation",
        },
        Code {
            code: "nats.too_large",
            kind: "permanent",
            cause: "over the server's `max_payload` or the stream's `max_msg_size`, headers included",
            next: "raise the limit and replay, or send a reference",
        },
        Code {
            code: "nats.subject",
            kind: "permanent",
            cause: "the event makes a subject that cannot be",
            next: "the text shows it; correct `subject`, then replay",
        },
        Code {
            code: "nats.header",
            kind: "permanent",
            cause: "a header holds a line break, or its name a colon",
            next: "append such events without it",
        },
        Code {
            code: "nats.closed",
            kind: "unavailable",
            cause: "the relay stopped first",
            next: "none: it is sent again",
        },
        Code {
            code: "nats.subjects",
            kind: "warning",
            cause: "the stream does not take every subject that `subject` can make",
            next: "widen the stream's subjects",
        },
        Code {
            code: "nats.duplicate_window",
            kind: "warning",
            cause: "the stream remembers ids for a shorter time than an event may be sent again: lease and all retries",
            next: "`nats stream edit STREAM --dupe-window=…`, fewer or shorter retries, or an inbox at the consumers",
        },
        Code { code: "nats.memory", kind: "warning", cause: "the stream is kept in memory", next: "use file storage" },
        Code {
            code: "nats.one_replica",
            kind: "warning",
            cause: "the stream is on one server, which acknowledges before its disk has the event",
            next: "three replicas, or `sync_interval: always`",
        },
    ],
};
