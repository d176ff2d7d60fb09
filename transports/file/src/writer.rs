//! Writes lines into one file after the other. Blocks: it runs where that hurts nobody.

use std::io;
use std::time::Instant;

use postroom_core::{Failure, Outcome, Receipt};

use crate::failures::failure;
use crate::options::{FileOptions, Fsync};
use crate::part::{Part, sync_folder};
use crate::recover::recover;

/// The files of one route, as one writer sees them.
#[derive(Debug)]
pub(crate) struct Writer {
    route: String,
    options: FileOptions,
    part: Option<(Part, Instant)>,
}

impl Writer {
    /// A writer without a file yet.
    pub(crate) fn new(route: &str, options: FileOptions) -> Self {
        Self { route: route.to_owned(), options, part: None }
    }

    /// When the file being written must be complete.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.part.as_ref().map(|(_, since)| *since + self.options.rotate_every)
    }

    /// Writes lines; all of them are delivered, or none. The file may have been moved away: then they go into another one.
    pub(crate) fn write(&mut self, lines: &[u8]) -> Outcome {
        let mut written = self.append(lines);
        if let Ok(false) = written {
            written = self.append(lines);
        }
        match written {
            Ok(true) => {}
            Ok(false) => return Err(self.failure(&io::ErrorKind::NotFound.into())),
            Err(error) => {
                let failure = self.failure(&error);
                // What it holds was delivered before; what comes next goes into a new file.
                if let Err(error) = self.complete() {
                    tracing::warn!(route = self.route, error = %error, "file not completed; it will be completed later");
                }
                return Err(failure);
            }
        }
        let receipt = self.part.as_ref().and_then(|(part, _)| part.path().file_name());
        let receipt = receipt.map_or_else(Receipt::default, |name| Receipt::at(name.to_string_lossy()));
        if self.part.as_ref().is_some_and(|(part, _)| part.bytes() >= self.options.rotate_size) {
            self.rotate();
        }
        Ok(receipt)
    }

    /// Completes the file being written, if there is one and its time has come.
    pub(crate) fn rotate_if_due(&mut self) {
        if self.deadline().is_some_and(|deadline| deadline <= Instant::now()) {
            self.rotate();
        }
    }

    /// Completes the file being written, if there is one. One that cannot be completed is left to the next writer.
    pub(crate) fn rotate(&mut self) {
        if let Err(error) = self.complete() {
            tracing::warn!(route = self.route, error = %error, "file not completed; it will be completed later");
        }
    }

    /// Appends to the file being written, which is made if there is none. No when it is not where it was made any more.
    fn append(&mut self, lines: &[u8]) -> io::Result<bool> {
        let sync = self.options.fsync == Fsync::Batch;
        let (part, _) = match &mut self.part {
            Some(part) => part,
            none => {
                recover(&self.options.folder, &self.route, self.options.fsync != Fsync::Never)?;
                let part = Part::create(&self.options.folder, &self.route)?;
                if sync {
                    sync_folder(part.path())?;
                }
                none.insert((part, Instant::now()))
            }
        };
        part.append(lines, sync)?;
        let there = part.is_there()?;
        if !there {
            self.part = None;
        }
        Ok(there)
    }

    fn complete(&mut self) -> io::Result<()> {
        match self.part.take() {
            Some((part, _)) => part.complete(self.options.fsync != Fsync::Never),
            None => Ok(()),
        }
    }

    fn failure(&self, error: &io::Error) -> Failure {
        failure(&self.options.folder, error)
    }
}
