//! Codes of NATS.

use postroom_core::codes;
use postroom_core::codes::Section;

/// Codes of NATS.
pub const CODES: &[Section] = &[
    Section {
        title: "NATS",
        about: "",
        codes: codes! {
            "nats.unreachable" | "unavailable" | "no server answers within `timeout`: connection refused, unknown host, or no response" | "check `url`, the network, the server"
            "nats.tls" | "unavailable" | "the certificate of the server is for another name, expired or not trusted; or the server requires a client certificate" | "`tls.ca_file`, the host in `url`; `tls.cert_file` and `key_file`"
            "nats.login" | "unavailable" | "the server rejects the login, or a credentials file cannot be read" | "correct the login; JWTs expire"
            "nats.permission" | "unavailable" | "the user may not publish to the subject, look up the stream, or read its inbox" | "the text names the subject; [what is needed](nats.md#logging-in-and-tls)"
            "nats.no_jetstream" | "unavailable" | "JetStream is not enabled for the server or the account" | "enable JetStream"
            "nats.no_stream" | "unavailable" | "the stream does not exist, or does not include the subject" | "create the stream, set `create`, or widen its subjects"
            "nats.wrong_stream" | "unavailable" | "the subject belongs to another stream, or the stream never acknowledges (`no_ack`)" | "correct `stream` or `subject`"
            "nats.create" | "unavailable" | "the stream cannot be created" | "the text has the server's reason, often overlapping subjects"
            "nats.stream_full" | "unavailable; transient for one subject" | "the stream has reached its limits and rejects new messages" | "raise the limits, or let consumers catch up; deliveries resume without action"
            "nats.timeout" | "unavailable" | "the server did not acknowledge an event within `timeout`" | "the server is overloaded, or its stream has no leader"
            "nats.disconnected" | "unavailable" | "the connection was lost" | "none, unless it happens often: the event is sent again"
            "nats.lame_duck" | "unavailable" | "the server is about to stop" | "none: the next server is tried"
            "nats.refused" | "transient, or unavailable" | "the server refused for another reason, which the text quotes" | "look the error number up in the documentation of NATS"
            "nats.too_large" | "permanent" | "the event is larger than the server's `max_payload` or the stream's `max_msg_size`, headers included" | "raise the limit and replay, or send a reference"
            "nats.subject" | "permanent" | "the subject made from the event is not valid" | "the text shows the subject; correct `subject`, then replay"
            "nats.header" | "permanent" | "the value of a header contains a line break, or its name a colon" | "append such events without the header"
            "nats.closed" | "unavailable" | "the relay stopped first" | "none: the event is sent again"
            "nats.subjects" | "warning" | "the stream does not include every subject that `subject` can make" | "widen the stream's subjects"
            "nats.duplicate_window" | "warning" | "the duplicate window of the stream is shorter than the time in which an event may be sent again: lease and all retries" | "`nats stream edit STREAM --dupe-window=…`, fewer or shorter retries, or an inbox at the consumers"
            "nats.core" | "warning" | "`jetstream = false`: an event is delivered when the server has taken its bytes; subscribers that are not connected at that moment never get it" | "use JetStream, unless a lost event does no harm"
            "nats.memory" | "warning" | "the stream is kept in memory" | "use file storage"
            "nats.one_replica" | "warning" | "the stream is on one server, which acknowledges before its disk has the event" | "three replicas, or `sync_interval: always`"
        },
    },
    Section {
        title: "Consumers",
        about: "",
        codes: codes! {
            "nats.consumer" | "unavailable" | "the durable consumer cannot be created or read, or would read its own dead messages" | "the text has the reason"
            "nats.dead_letters" | "unavailable" | "no stream includes the subject for dead messages" | "create a stream for it"
        },
    },
];
