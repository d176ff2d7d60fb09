//! Codes of Redis.

use postroom_core::codes;
use postroom_core::codes::Section;

/// Codes of Redis.
pub const CODES: &[Section] = &[Section {
    title: "Redis",
    about: "",
    codes: codes! {
        "redis.unreachable" | "unavailable" | "the server does not answer within `timeout`: connection refused, unknown host, no response, or no TLS where `rediss://` asks for it" | "check `url`, the network, the server"
        "redis.tls" | "unavailable" | "the certificate of the server is for another name, expired or not trusted; or the server requires a client certificate" | "`tls.ca_file`, the host in `url`; `tls.cert_file` and `key_file`"
        "redis.login" | "unavailable" | "user or password is wrong or missing" | "correct `url`"
        "redis.permission" | "unavailable" | "the user may not `XADD` to the stream" | "`ACL SETUSER … +xadd ~KEY`"
        "redis.wrong_type" | "unavailable" | "the key is not a stream" | "use another `stream`, or remove the key"
        "redis.out_of_memory" | "unavailable" | "`maxmemory` is reached" | "add memory, or set `maxlen`; deliveries resume without action"
        "redis.misconf" | "unavailable" | "Redis cannot write to its disk and rejects writes" | "fix the disk; the log of Redis has the reason"
        "redis.read_only" | "unavailable" | "the server is a replica, or its primary is down" | "use a host name that follows the primary"
        "redis.loading" | "unavailable" | "the server is loading its data after a start" | "none: deliveries resume when it has finished"
        "redis.busy" | "unavailable" | "a script blocks the server" | "`SCRIPT KILL`"
        "redis.cluster" | "unavailable" | "the stream is on another node, or the cluster is down" | "use the URL of that node; one node per route"
        "redis.replicas" | "unavailable" | "fewer replicas have the event than `wait_replicas` or `min-replicas-to-write` require" | "restore a replica, or require fewer"
        "redis.timeout" | "unavailable" | "the server did not answer within `timeout`" | "the server is overloaded: `SLOWLOG GET`"
        "redis.disconnected" | "unavailable" | "the connection was lost" | "none, unless it happens often: the event is sent again"
        "redis.refused" | "transient, or unavailable" | "the server refused for another reason, which the text quotes" | "check the database number, and that the server is Redis 5 or later"
        "redis.too_large" | "permanent" | "a field is larger than `proto-max-bulk-len`" | "raise the limit and replay, or send a reference"
        "redis.closed" | "unavailable" | "the relay stopped first" | "none: the event is sent again"
        "redis.unseen" | "warning" | "the user may not read the settings that are checked" | "grant the permission, or check the settings yourself"
        "redis.eviction" | "warning" | "`maxmemory-policy` allows the server to evict streams when its memory is full" | "`CONFIG SET maxmemory-policy noeviction`, and in its file"
        "redis.not_durable" | "warning" | "a restart of the server loses events that it acknowledged" | "`appendonly yes` and `appendfsync everysec` or `always`, or `wait_replicas`"
        "redis.trimmed" | "warning" | "the stream has reached `maxlen`: its oldest entries are trimmed, read or not" | "raise `maxlen` if consumers are behind"
    },
}];
