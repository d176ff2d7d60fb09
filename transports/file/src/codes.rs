//! Codes of the folder behind `file`.

use postroom_core::codes;
use postroom_core::codes::Section;

/// Codes of the `file` transport.
pub const CODES: &[Section] = &[Section {
    title: "The `file` transport",
    about: "",
    codes: codes! {
        "file.no_folder" | "unavailable" | "the folder does not exist, or is not a folder" | "create the folder, or mount its disk; `folder` is relative to the working folder"
        "file.denied" | "unavailable" | "the relay may not write to the folder, or the file system is read-only" | "grant the relay's user access to the folder; under systemd add it to `ReadWritePaths`"
        "file.no_space" | "unavailable" | "the disk is full, or the quota is used up" | "free space: complete files (`.jsonl`) may be moved away at any time"
        "file.failed" | "unavailable" | "the folder or a file in it cannot be read or written for another reason" | "the text has the system's reason"
        "file.not_json" | "permanent" | "the envelope is not JSON and may not fit on one line" | "`envelope = \"cloudevents-structured\"`, then replay"
        "file.closed" | "unavailable" | "the relay stopped first" | "none: the event is sent again"
        "file.not_synced" | "warning" | "`fsync` is not `batch`: a power failure may lose delivered events" | "`fsync = \"batch\"`, unless these events may be lost"
    },
}];
