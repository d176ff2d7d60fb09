//! Looks whether files could be written, without writing one.

use std::fs;
use std::io::{Error, ErrorKind};

use nix::unistd::{AccessFlags, access};
use postroom_core::Diagnostic;

use crate::failures::failure;
use crate::options::{FileOptions, Fsync};

/// What there is to say of the folder.
pub(crate) fn check(options: &FileOptions) -> Vec<Diagnostic> {
    let folder = &options.folder;
    let usable = fs::metadata(folder).and_then(|found| {
        if !found.is_dir() {
            return Err(Error::from(ErrorKind::NotADirectory));
        }
        access(folder, AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK).map_err(Error::from)
    });
    let mut found = match usable {
        Ok(()) => vec![Diagnostic::fine(format!("folder {} can be written", folder.display()))],
        Err(error) => vec![Diagnostic::from(failure(folder, &error))],
    };
    if options.fsync != Fsync::Batch {
        let message = "a loss of power may cost events that were delivered";
        found.push(Diagnostic::warning("file.not_synced", message).hint("set fsync = \"batch\""));
    }
    found
}
