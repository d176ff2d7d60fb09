//! Codes of the URL behind `webhook`.

use postroom_core::codes;
use postroom_core::codes::Section;

/// Codes of the `webhook` transport.
pub const CODES: &[Section] = &[Section {
    title: "The `webhook` transport",
    about: "",
    codes: codes! {
        "webhook.rejected" | "permanent" | "the receiver answered 400, 413, 415 or 422: it will never accept the event" | "the text quotes the response; fix the cause, then `postroom dead replay --code webhook.rejected`"
        "webhook.header" | "permanent" | "a header of the event contains a line break or another character that HTTP cannot carry" | "the text names the header; append such events without it"
        "webhook.status_500" | "transient" | "the receiver answered with this status; 429, 502, 503 and 504 are unavailable" | "the text quotes the response; 401 usually means a wrong secret"
        "webhook.redirect" | "transient" | "the receiver answered 3xx, and redirects are never followed" | "set `url` to the target of the redirect"
        "webhook.timeout" | "unavailable" | "no response within `first_byte_timeout` or `timeout`; the receiver may have processed the event all the same. An event that times out three times when sent alone is counted as failed" | "let the receiver answer first and work later; `webhook-id` identifies the repeat"
        "webhook.cut" | "transient" | "the connection closed before a response, and so did a second one" | "read the receiver's log: it drops this request, or restarts"
        "webhook.answer" | "transient" | "the response is not HTTP, or its head is over the limits" | "check which program listens on the port"
        "webhook.gone" | "unavailable" | "the receiver answered 410: the endpoint is gone, and the route is `disabled`" | "ask its owner, then `postroom route resume NAME` or `route forget NAME`"
        "webhook.refused" | "unavailable" | "the connection was refused, the host is unreachable, `connect_timeout` passed, or the proxy denied the request" | "start the receiver; check host, port and firewall"
        "webhook.dns" | "unavailable" | "the host name cannot be resolved" | "check the URL and this machine's resolver"
        "webhook.tls" | "unavailable" | "the TLS handshake failed: certificate expired, for another name or from an unknown authority, an old protocol, or the receiver requires a client certificate" | "renew the certificate; `tls = { ca_file = … }` for an authority of your own"
        "webhook.address" | "unavailable" | "the host resolves to an address that is not public" | "if this is intended, add its network to `allow_networks`"
        "webhook.options" | "unavailable" | "the transport cannot start: a certificate file is missing, or this machine has no trusted authorities" | "the text names the file; install ca-certificates, or set `ca_file`"
        "webhook.closed" | "unavailable" | "the relay stopped first" | "none: the event is sent again"
        "webhook.plain" | "warning" | "`http://` is not encrypted: anybody on the network path can read the events" | "`https://`"
        "webhook.unsigned" | "warning" | "requests are not signed: the receiver cannot verify the sender" | "generate a secret with `postroom webhook key` and configure it on both sides"
        "webhook.unsigned_headers" | "warning" | "requests are signed, but the envelope says type, key and tenant in headers, which the signature does not cover: anybody on the way, a proxy for instance, can change them" | "leave `envelope` out, or set it to `cloudevents-structured`, which has everything in the signed body"
    },
}];
