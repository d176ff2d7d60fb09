//! Codes of the program behind `exec`.

use postroom_core::codes;
use postroom_core::codes::Section;

/// Codes of the `exec` transport.
pub const CODES: &[Section] = &[Section {
    title: "The `exec` transport",
    about: "`exec.died` and `exec.timeout` of a single event mean that [it ended the program](exec.md#the-life-of-the-program): an attempt is counted, up to `retry.crashes`.",
    codes: codes! {
        "exec.error" | "the handler decides" | "the program answered `error`" | "the text is the program's; fix the handler, then run `postroom dead replay --code exec.error`"
        "exec.not_found" | "unavailable" | "no such command, or not executable" | "check `command`, the relay's `PATH` and working folder, `chmod +x`"
        "exec.not_started" | "unavailable" | "the system refused to start the program" | "the text has the system's reason: limits on processes or memory"
        "exec.died" | "unavailable" | "the program exited, closed its output, or answered with a line over 1 MiB" | "its stderr is in the relay's log; [which event caused it](exec.md#the-life-of-the-program)"
        "exec.timeout" | "unavailable" | "one event had no answer in time, so the program was killed" | "raise `timeout` or lower `in_flight`; flush your answers"
        "exec.unreachable" | "unavailable" | "no program listens on the socket" | "start the program; check the path and permissions of the socket"
        "exec.not_trusted" | "unavailable" | "the socket's listener runs as a user who is neither root nor the relay's user" | "check who made the socket; if it is the handler's own user, name it in `socket_user`"
        "exec.not_json" | "permanent" | "the envelope is not JSON, and a line can carry only JSON" | "`envelope = \"cloudevents-structured\"`, then replay"
        "exec.closed" | "unavailable" | "the relay stopped first" | "none: the event is sent again"
    },
}];
