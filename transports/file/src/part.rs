//! A file that is being written: `NAME.jsonl.part`, under a lock, until it is complete and called `NAME.jsonl`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use uuid::Uuid;

/// How a file is called while it is written.
pub(crate) const PART: &str = ".jsonl.part";
/// How it is called when it is complete.
const COMPLETE: &str = ".jsonl";

/// A file that only we write.
#[derive(Debug)]
pub(crate) struct Part {
    file: File,
    path: PathBuf,
    // Up to here it holds whole lines that were reported, or are about to be.
    bytes: u64,
}

impl Part {
    /// Creates a file of its own. Names sort by time; what is random in them keeps writers apart.
    pub(crate) fn create(folder: &Path, route: &str) -> io::Result<Self> {
        loop {
            let time = Timestamp::now().strftime("%Y%m%dT%H%M%S%6fZ");
            let random = Uuid::new_v4().simple().to_string();
            let path = folder.join(format!("{route}-{time}-{}{PART}", &random[..8]));
            let file = match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                opened => opened?,
            };
            // Somebody who looked for dead writers was faster than the lock, and removes the empty file.
            if !locked(&file)? {
                continue;
            }
            return Ok(Self { file, path, bytes: 0 });
        }
    }

    /// Takes over a file that a dead writer left; nothing when its writer is alive, or somebody else took it over.
    pub(crate) fn take_over(path: PathBuf) -> io::Result<Option<Self>> {
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let part = Self { bytes: file.metadata()?.len(), file, path };
        Ok((locked(&part.file)? && part.is_there()?).then_some(part))
    }

    /// How many bytes of whole lines it holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file, for reading what a dead writer left.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends whole lines. After an error the file holds what it held before.
    pub(crate) fn append(&mut self, lines: &[u8], sync: bool) -> io::Result<()> {
        let written = (&self.file).write_all(lines).and_then(|()| if sync { self.file.sync_data() } else { Ok(()) });
        match written {
            Ok(()) => {
                self.bytes += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.cut(self.bytes)?;
                Err(error)
            }
        }
    }

    /// Cuts off what stands behind so many bytes.
    pub(crate) fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)?;
        io::Seek::seek(&mut self.file, io::SeekFrom::Start(bytes))?;
        self.bytes = bytes;
        Ok(())
    }

    /// Whether the file is still where it was made. One that was moved or removed takes lines that nobody finds.
    pub(crate) fn is_there(&self) -> io::Result<bool> {
        let ours = self.file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Gives it the name of a complete file; one that holds nothing is removed. One that cannot be brought to whole lines keeps its name.
    pub(crate) fn complete(self, sync: bool) -> io::Result<()> {
        if self.bytes == 0 {
            return fs::remove_file(&self.path);
        }
        if self.file.metadata()?.len() != self.bytes {
            self.file.set_len(self.bytes)?;
        }
        if sync {
            self.file.sync_all()?;
        }
        let name = self.path.to_string_lossy();
        let complete = PathBuf::from(format!("{}{COMPLETE}", name.strip_suffix(PART).unwrap_or(&name)));
        fs::rename(&self.path, complete)?;
        if sync { sync_folder(&self.path) } else { Ok(()) }
    }
}

/// Forces the names in the folder of a file to disk.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Whether we have the lock now. The system takes it back when the process ends, however that happens.
fn locked(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
