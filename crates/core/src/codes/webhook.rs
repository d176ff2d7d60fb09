//! Codes: The URL behind webhook.

use super::{Code, Section};

pub(super) const SECTION: Section = Section {
    title: "The URL behind `webhook`",
    about: "",
    codes: &[
        Code {
            code: "webhook.rejected",
            kind: "permanent",
            cause: "the receiver answered 400, 413, 415 or 422: this event will never do",
            next: "the text quotes its answer; mend, then `postroom dead replay --code webhook.rejected`",
        },
        Code {
            code: "webhook.header",
            kind: "permanent",
            cause: "a header of the event holds a line break or another character that HTTP cannot carry",
            next: "the text names the header; append such events without it",
        },
        Code {
            code: "webhook.status_500",
            kind: "transient",
            cause: "it answered with this status; 429, 502, 503 and 504 are unavailable",
            next: "the text quotes its answer; 401 usually is the wrong secret",
        },
        Code {
            code: "webhook.redirect",
            kind: "transient",
            cause: "it answered 3xx, and redirects are never followed",
            next: "give the URL it leads to",
        },
        Code {
            code: "webhook.timeout",
            kind: "unavailable",
            cause: "no answer within `first_byte_timeout` or `timeout`; the receiver may have taken it all the same. An event that alone gets none, three times, is counted as failed",
            next: "let it answer first and work later; it knows the repeat by `webhook-id`",
        },
        Code {
            code: "webhook.cut",
            kind: "transient",
            cause: "the connection ended before an answer, and a second one too",
            next: "its log: it hangs up on this event, or restarts",
        },
        Code {
            code: "webhook.answer",
            kind: "transient",
            cause: "what came back is not HTTP, or has a head over the limits",
            next: "look what listens on that port",
        },
        Code {
            code: "webhook.gone",
            kind: "unavailable",
            cause: "it answered 410: the endpoint is no more, and the route is `disabled`",
            next: "ask its owner, then `postroom route resume NAME` or `route forget NAME`",
        },
        Code {
            code: "webhook.refused",
            kind: "unavailable",
            cause: "no connection: refused, unreachable, none within `connect_timeout`, or the proxy said no",
            next: "start the receiver; check host, port and firewall",
        },
        Code {
            code: "webhook.dns",
            kind: "unavailable",
            cause: "the host has no address",
            next: "check the URL and this machine's resolver",
        },
        Code {
            code: "webhook.tls",
            kind: "unavailable",
            cause: "no trusted connection: expired, wrong name, unknown authority, an old protocol, or it wants a certificate of us",
            next: "renew the certificate; `tls = { ca_file = … }` for an authority of your own",
        },
        Code {
            code: "webhook.address",
            kind: "unavailable",
            cause: "the host leads to an address that is not public",
            next: "if that is meant, put its network into `allow_networks`",
        },
        Code {
            code: "webhook.options",
            kind: "unavailable",
            cause: "the transport cannot be made: a certificate's file vanished, or this machine trusts nobody",
            next: "the text names it; install ca-certificates, or give `ca_file`",
        },
        Code {
            code: "webhook.closed",
            kind: "unavailable",
            cause: "the relay stopped first",
            next: "none: it is sent again",
        },
        Code {
            code: "webhook.plain",
            kind: "warning",
            cause: "`http://`: everybody on the way can read the events",
            next: "`https://`",
        },
        Code {
            code: "webhook.unsigned",
            kind: "warning",
            cause: "requests are not signed: the receiver cannot know who sent them",
            next: "`postroom webhook key`, on both sides",
        },
    ],
};
