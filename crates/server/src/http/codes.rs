//! Codes of answers over HTTP that are no success.

use postroom_core::codes;
use postroom_core::codes::Section;

/// Codes of answers over HTTP that are no success.
pub(crate) const CODES: &[Section] = &[Section {
    title: "HTTP API",
    about: "Values of the field `code` in error responses of the API.",
    codes: codes! {
        "http.unauthorized" | "401" | "the request has no token, or the token is unknown, revoked or expired" | "send `Authorization: Bearer TOKEN`; `postroom token create` creates a token, `http.metrics_token` is one that reads metrics only"
        "http.forbidden" | "403" | "the role of the token does not allow the request" | "use a token with the role that the response names; see [roles](api.md#tokens)"
        "http.origin" | "403" | "a browser sent the request from a page of another site" | "send the request from a program, or from a page of the same origin"
        "http.host" | "421" | "the request names a host that is not the relay's" | "use the address that the relay listens on, or add the name to `http.hosts`"
        "http.not_found" | "404" | "the path does not exist" | "see [the list of paths](api.md)"
        "http.method" | "405" | "the path does not support this method" | "see [the list of paths](api.md)"
        "http.no_such" | "404" | "the named route, event, key, token or store does not exist" | "list the existing ones"
        "http.parameter" | "400" | "a parameter is missing, unknown or not valid" | "the response names the parameter and its valid values"
        "http.body" | "400" | "the body is not a JSON object" | "send a JSON object, with `content-type: application/json`"
        "http.media_type" | "415" | "the body is not declared as JSON" | "send `content-type: application/json`"
        "http.slow_body" | "408" | "the body did not arrive in time" | "send the request at once; check the network"
        "http.too_large" | "413" | "the body is larger than 1 MiB" | "send less at a time"
        "http.invalid" | "400" | "the store does not support the request" | "the response has the reason"
        "http.conflict" | "409" | "the request conflicts with the current state: a name is in use, a relay serves the route, another event is the head of the key" | "read the current state, then decide"
        "http.confirm" | "409" | "`confirm` is not the number of affected deliveries" | "send the number that the response names, or `dry_run` for a preview"
        "http.older_than_inbox" | "409" | "some of the events are older than the retention of the inbox" | "narrow the selection with `from`, or send `allow_duplicates`: consumers may do their work twice"
        "http.key_reused" | "422" | "the Idempotency-Key was used for another request before" | "use a new key for every write"
        "http.key_busy" | "409" | "a request with the same Idempotency-Key is in progress" | "retry in a moment"
        "http.streams" | "503" | "the maximum number of live streams is open" | "close a stream"
        "http.too_slow" | "503" | "the query took longer than two seconds, or no database connection was free" | "request less: `from`, `to`, `key`, a smaller `limit`; the commands may take longer"
        "http.store" | "503" | "the store is not reachable, or refuses" | "`postroom doctor` reports the reason"
    },
}];
