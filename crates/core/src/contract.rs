//! What events must look like beyond the limits that hold for all.

use std::fmt::Debug;

use crate::event::Event;
use crate::limits::EventError;

/// Says yes or no to an event before it is appended. Stores ask it where they check the limits; nothing has been written then.
pub trait Contract: Debug + Send + Sync {
    /// An error names type and path, never what stands there.
    fn check(&self, event: &Event) -> Result<(), EventError>;
}
