//! What events must look like beyond the limits that hold for all.

use std::fmt::Debug;

use crate::event::Event;
use crate::limits::EventError;

/// Contract that checks an event before it is appended. Stores call it where they check the limits, before any write.
pub trait Contract: Debug + Send + Sync {
    /// Checks an event. The error names type and path, never the value.
    fn check(&self, event: &Event) -> Result<(), EventError>;
}
