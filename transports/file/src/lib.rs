//! Delivers to JSON lines in the files of a folder: one envelope per line, for archives, batch jobs and log shippers.
//!
//! Promises:
//! - an event is delivered when its line is in the file, and on disk as [`Fsync`] says;
//! - a file that is being written is called `….jsonl.part`. It is renamed to `….jsonl` when it is complete, and never changes again;
//! - no two writers have the same file: names are unique, and a writer holds a lock on its file;
//! - file of a stopped writer completed by the next writer of the route: a half-written last line, which was never reported
//!   as delivered, is cut off;
//! - an error leaves no half line in a complete file: what was written of the batch is taken back.
//!
//! A full disk and a folder that is not there or cannot be written are outages ([`CODES`]). The folder is not created: a disk that
//! is not mounted would otherwise fill the one below it.

mod check;
mod codes;
#[cfg(feature = "config")]
mod config;
mod deliver;
mod failures;
mod options;
mod part;
mod recover;
mod writer;

pub use codes::CODES;
#[cfg(feature = "config")]
pub use config::KIND;
pub use deliver::FileTransport;
pub use options::{FileOptions, Fsync};
