//! Codes: HTTP.

use super::{Code, Section};

pub(super) const SECTION: Section = Section {
    title: "HTTP",
    about: "The field `code` of an answer that is no success; the status says the rest.",
    codes: &[
        Code {
            code: "http.unauthorized",
            kind: "401",
            cause: "no token came with the request, or none that is known and has not ended",
            next: "send `Authorization: Bearer TOKEN`; `postroom token create` makes one, `http.metrics_token` is one that reads metrics only",
        },
        Code {
            code: "http.forbidden",
            kind: "403",
            cause: "the token is good, and its role is not enough",
            next: "use a token with the role that the answer names; see [who may what](api.md#tokens)",
        },
        Code {
            code: "http.origin",
            kind: "403",
            cause: "a browser sent the request for a page of another site",
            next: "ask from a program, or from a page of the same address",
        },
        Code {
            code: "http.host",
            kind: "421",
            cause: "the relay listens for this machine only, and the request names another host",
            next: "ask for `http://127.0.0.1` or `http://localhost`; a proxy in front must set that `Host`",
        },
        Code {
            code: "http.not_found",
            kind: "404",
            cause: "there is nothing at this path",
            next: "see [the paths there are](api.md)",
        },
        Code {
            code: "http.method",
            kind: "405",
            cause: "the path is there and does not answer this method",
            next: "see [the paths there are](api.md)",
        },
        Code {
            code: "http.no_such",
            kind: "404",
            cause: "the route, event, key, token or store that was named is not there",
            next: "list what there is",
        },
        Code {
            code: "http.parameter",
            kind: "400",
            cause: "a parameter is missing, unknown, or not what it should be",
            next: "the answer names it and says what it should be",
        },
        Code {
            code: "http.body",
            kind: "400",
            cause: "the body is not a JSON object",
            next: "send one, with `content-type: application/json`",
        },
        Code {
            code: "http.media_type",
            kind: "415",
            cause: "the body is not declared as JSON",
            next: "send `content-type: application/json`",
        },
        Code {
            code: "http.too_large",
            kind: "413",
            cause: "the body is larger than 1 MiB",
            next: "send less at a time",
        },
        Code {
            code: "http.invalid",
            kind: "400",
            cause: "the store cannot do what was asked",
            next: "the answer says why",
        },
        Code {
            code: "http.conflict",
            kind: "409",
            cause: "things are not as the request expects: a name is taken, a relay serves the route, another event is in front",
            next: "look again, then decide",
        },
        Code {
            code: "http.confirm",
            kind: "409",
            cause: "`confirm` is not the number of deliveries that would be touched",
            next: "send the number that the answer names, or `dry_run` to look first",
        },
        Code {
            code: "http.older_than_inbox",
            kind: "409",
            cause: "some of what would be sent again is older than the inbox remembers",
            next: "narrow it with `from`, or send `allow_duplicates`: consumers may do their work twice",
        },
        Code {
            code: "http.key_reused",
            kind: "422",
            cause: "an Idempotency-Key came with another request before",
            next: "use a new key for every write",
        },
        Code {
            code: "http.key_busy",
            kind: "409",
            cause: "a request with the same Idempotency-Key is being answered",
            next: "ask again in a moment",
        },
        Code { code: "http.streams", kind: "503", cause: "as many live streams are open as may be", next: "close one" },
        Code {
            code: "http.too_slow",
            kind: "503",
            cause: "the database took longer than two seconds, or had nobody free to ask",
            next: "ask for less: `from`, `to`, `key`, a smaller `limit`; the commands may take longer",
        },
        Code {
            code: "http.store",
            kind: "503",
            cause: "the store cannot be reached, or refuses",
            next: "`postroom doctor` says why",
        },
    ],
};
