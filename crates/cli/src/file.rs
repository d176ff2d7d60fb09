//! Output files of commands: written as a whole or not at all, never over an existing file, readable only by their owner.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::exit::{Exit, Failed};

/// File that is being written. [`finish`](Self::finish) gives it its name.
pub(crate) struct NewFile {
    path: PathBuf,
    half: NamedTempFile,
    overwrite: bool,
}

impl NewFile {
    /// Starts a file. Fails if the path exists, unless `overwrite` is set.
    pub(crate) fn begin(path: &Path, overwrite: bool) -> Result<Self, Failed> {
        if !overwrite && path.symlink_metadata().is_ok() {
            return Err(taken(path));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let half = NamedTempFile::new_in(folder).map_err(|error| cannot(path, &error))?;
        Ok(Self { path: path.to_owned(), half, overwrite })
    }

    /// Gives the file its name.
    pub(crate) fn finish(self) -> Result<(), Failed> {
        self.half.as_file().sync_all().map_err(|error| cannot(&self.path, &error))?;
        let named =
            if self.overwrite { self.half.persist(&self.path) } else { self.half.persist_noclobber(&self.path) };
        match named {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(taken(&self.path)),
            Err(error) => Err(cannot(&self.path, &error.error)),
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.half.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.half.flush()
    }
}

fn taken(path: &Path) -> Failed {
    let message = format!("{} already exists; the file was not changed", path.display());
    Failed::new(Exit::Refused, message, "name another file, or add --overwrite")
}

fn cannot(path: &Path, error: &io::Error) -> Failed {
    Failed::new(Exit::Usage, format!("cannot write {}: {error}", path.display()), "name a file you may write")
}
