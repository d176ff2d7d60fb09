//! Codes: The program behind exec.

use super::{Code, Section};

pub(super) const SECTION: Section = Section {
    title: "The program behind `exec`",
    about: "An *unavailable* code on a dead letter means: this event was in flight each time the program went down, so it was blamed itself.",
    codes: &[
        Code {
            code: "exec.not_found",
            kind: "unavailable",
            cause: "no such command, or not executable",
            next: "check `command`, the relay's `PATH` and working folder, `chmod +x`",
        },
        Code {
            code: "exec.not_started",
            kind: "unavailable",
            cause: "the system refused to start it",
            next: "the text has the system's reason: limits on processes or memory",
        },
        Code {
            code: "exec.died",
            kind: "unavailable",
            cause: "it ended, closed its output, or answered with a line over 1 MiB",
            next: "its stderr is in the relay's log; [which event did it](exec.md#the-life-of-the-program)",
        },
        Code {
            code: "exec.timeout",
            kind: "unavailable",
            cause: "one event had no answer in time, so the program was killed",
            next: "raise `timeout` or lower `in_flight`; flush your answers",
        },
        Code {
            code: "exec.unreachable",
            kind: "unavailable",
            cause: "nobody listens on the socket",
            next: "start the program behind it; check the path and its permissions",
        },
        Code {
            code: "exec.not_json",
            kind: "permanent",
            cause: "the envelope is not JSON, which is all a line can carry",
            next: "`envelope = \"cloudevents-structured\"`, then replay",
        },
        Code {
            code: "exec.closed",
            kind: "unavailable",
            cause: "the relay stopped first",
            next: "none: it is sent again",
        },
    ],
};
