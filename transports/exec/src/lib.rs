//! Delivers to a child process that speaks JSON lines.
