//! Large actions in turns: each a transaction of its own, so that owners of the lanes it locks get theirs in between.
//!
//! Whoever calls this sees to it that what is done so far stands by itself: the rest may never come.

/// Rows changed per transaction.
pub(super) const ROWS_AT_ONCE: usize = 5_000;
