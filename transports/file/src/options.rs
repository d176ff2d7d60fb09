//! What a file transport is told.

use std::path::PathBuf;
use std::time::Duration;

/// Options of a file transport.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileOptions {
    /// Folder of the files, which must exist.
    pub folder: PathBuf,
    /// Size at which a new file is started; one event may be larger.
    ///
    /// Too small and the folder fills with files; too large and readers wait long for one.
    ///
    /// Defaults to 64 MiB.
    pub rotate_size: u64,
    /// Age at which a file is completed, also without further events.
    ///
    /// Too short and the folder fills with files; too long and readers wait long for one.
    ///
    /// Defaults to one hour.
    pub rotate_every: Duration,
    /// Time at which lines are forced to disk.
    ///
    /// Defaults to [`Fsync::Batch`].
    pub fsync: Fsync,
}

/// Time at which lines are forced to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fsync {
    /// Before they are reported as delivered: nothing delivered is lost when the machine loses power.
    Batch,
    /// Before a file is complete: a loss of power may cost what the file being written holds.
    Complete,
    /// When the system likes to: a loss of power may cost complete files, too.
    Never,
}

impl FileOptions {
    /// Creates options with the defaults.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            rotate_size: 64 * 1024 * 1024,
            rotate_every: Duration::from_hours(1),
            fsync: Fsync::Batch,
        }
    }
}
