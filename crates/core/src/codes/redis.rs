//! Codes: Redis.

use super::{Code, Section};

pub(super) const SECTION: Section = Section {
    title: "Redis",
    about: "",
    codes: &[
        Code {
            code: "redis.unreachable",
            kind: "unavailable",
            cause: "the server does not answer within `timeout`: refused, no such name, silence, or no TLS where `rediss://` asks for it",
            next: "check `url`, the network, the server",
        },
        Code {
            code: "redis.tls",
            kind: "unavailable",
            cause: "the certificate is not for this name, expired or not trusted; or the server wants one of ours",
            next: "`tls.ca_file`, the host in `url`; `tls.cert_file` and `key_file`",
        },
        Code {
            code: "redis.login",
            kind: "unavailable",
            cause: "user or password are wrong, or missing",
            next: "correct `url`",
        },
        Code {
            code: "redis.permission",
            kind: "unavailable",
            cause: "the user may not `XADD` there",
            next: "`ACL SETUSER … +xadd ~KEY`",
        },
        Code {
            code: "redis.wrong_type",
            kind: "unavailable",
            cause: "the key is something else than a stream",
            next: "another `stream`, or remove the key",
        },
        Code {
            code: "redis.out_of_memory",
            kind: "unavailable",
            cause: "`maxmemory` is reached",
            next: "more memory, or `maxlen`; it goes on by itself",
        },
        Code {
            code: "redis.misconf",
            kind: "unavailable",
            cause: "Redis cannot write to its disk and takes no writes",
            next: "mend its disk; its log says why",
        },
        Code {
            code: "redis.read_only",
            kind: "unavailable",
            cause: "the server is a replica, or its primary is gone",
            next: "give the name that follows the primary",
        },
        Code {
            code: "redis.loading",
            kind: "unavailable",
            cause: "it reads its data after a start",
            next: "none: it goes on by itself",
        },
        Code {
            code: "redis.busy",
            kind: "unavailable",
            cause: "a script keeps it from answering",
            next: "`SCRIPT KILL`",
        },
        Code {
            code: "redis.cluster",
            kind: "unavailable",
            cause: "the stream lives on another node, or the cluster is down",
            next: "give the URL of that node; one node per route",
        },
        Code {
            code: "redis.replicas",
            kind: "unavailable",
            cause: "fewer replicas have it than `wait_replicas` or `min-replicas-to-write` ask for",
            next: "bring a replica back, or ask for fewer",
        },
        Code {
            code: "redis.timeout",
            kind: "unavailable",
            cause: "an answer did not come within `timeout`",
            next: "the server is overloaded: `SLOWLOG GET`",
        },
        Code {
            code: "redis.disconnected",
            kind: "unavailable",
            cause: "the connection was lost",
            next: "none, unless it happens often: it is sent again",
        },
        Code {
            code: "redis.refused",
            kind: "transient, or unavailable",
            cause: "something else; the text is the server's",
            next: "a database number that is not there, a Redis before 5",
        },
        Code {
            code: "redis.too_large",
            kind: "permanent",
            cause: "a field is over `proto-max-bulk-len`",
            next: "raise it and replay, or send a reference",
        },
        Code {
            code: "redis.closed",
            kind: "unavailable",
            cause: "the relay stopped first",
            next: "none: it is sent again",
        },
        Code {
            code: "redis.unseen",
            kind: "warning",
            cause: "the user may not look at what is to be checked",
            next: "allow it, or look yourself",
        },
        Code {
            code: "redis.eviction",
            kind: "warning",
            cause: "`maxmemory-policy` lets the server remove streams when its memory is full",
            next: "`CONFIG SET maxmemory-policy noeviction`, and in its file",
        },
        Code {
            code: "redis.not_durable",
            kind: "warning",
            cause: "a restart of the server loses events that it took",
            next: "`appendonly yes` and `appendfsync everysec` or `always`, or `wait_replicas`",
        },
        Code {
            code: "redis.trimmed",
            kind: "warning",
            cause: "the stream has reached `maxlen`: its oldest entries go, read or not",
            next: "raise `maxlen` if consumers are behind",
        },
    ],
};
