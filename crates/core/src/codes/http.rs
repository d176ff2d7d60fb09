//! Codes: HTTP.

use super::{Code, Section};

pub(super) const SECTION: Section = Section {
    title: "HTTP",
    about: "The field `code` of an answer that is no success; the status says the rest.",
    codes: &[
        Code {
            code: "http.unauthorized",
            kind: "401",
            cause: "no token came with the request, or none that is known",
            next: "send `Authorization: Bearer TOKEN`; `http.metrics_token` is the one that reads metrics",
        },
        Code {
            code: "http.not_found",
            kind: "404",
            cause: "there is nothing at this path",
            next: "see [the paths there are](operating.md)",
        },
        Code {
            code: "http.method",
            kind: "405",
            cause: "the path is there and does not answer this method",
            next: "see [the paths there are](operating.md)",
        },
    ],
};
