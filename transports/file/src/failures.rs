//! What an error of the file system means for a delivery.

use std::io::{Error, ErrorKind};
use std::path::Path;

use postroom_core::Failure;

/// The failure that an error in this folder is; always an outage, never an event's fault.
pub(crate) fn failure(folder: &Path, error: &Error) -> Failure {
    let folder = folder.display();
    match error.kind() {
        ErrorKind::NotFound => Failure::unavailable("file.no_folder", format!("{folder} does not exist")),
        ErrorKind::NotADirectory => Failure::unavailable("file.no_folder", format!("{folder} is not a folder")),
        ErrorKind::PermissionDenied => Failure::unavailable("file.denied", format!("{folder} may not be written")),
        ErrorKind::ReadOnlyFilesystem => {
            Failure::unavailable("file.denied", format!("{folder} is on a read-only file system"))
        }
        ErrorKind::StorageFull => Failure::unavailable("file.no_space", format!("{folder} is on a disk that is full")),
        ErrorKind::QuotaExceeded => {
            Failure::unavailable("file.no_space", format!("{folder} is on a disk whose quota is used up"))
        }
        _ => Failure::unavailable("file.failed", format!("{folder} cannot be written: {error}")),
    }
}

/// The failure of what comes after the close.
pub(crate) fn closed() -> Failure {
    Failure::unavailable("file.closed", "the transport is closed")
}

#[cfg(test)]
mod tests {
    use postroom_core::FailureKind;

    use super::*;

    #[test]
    fn what_a_folder_can_suffer_from_is_an_outage_with_its_own_code() {
        for (errno, code) in [
            (nix::libc::ENOSPC, "file.no_space"),
            (nix::libc::EDQUOT, "file.no_space"),
            (nix::libc::EACCES, "file.denied"),
            (nix::libc::EROFS, "file.denied"),
            (nix::libc::ENOENT, "file.no_folder"),
            (nix::libc::ENOTDIR, "file.no_folder"),
            (nix::libc::EIO, "file.failed"),
        ] {
            let failure = failure(Path::new("/var/out"), &Error::from_raw_os_error(errno));
            assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, code), "{failure:?}");
        }
    }
}
