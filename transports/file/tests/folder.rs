//! A folder of its own for each test, and what stands in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use postroom_conformance::transports::Post;
use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{Event, Transport};
use postroom_file::{FileOptions, FileTransport};
use serde_json::value::RawValue;
use tempfile::TempDir;

/// A folder that is removed with the test.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    /// Where files go: a folder that tests may move away.
    pub(crate) fn path(&self) -> PathBuf {
        let path = self.0.path().join("out");
        if !self.away().exists() {
            fs::create_dir_all(&path).expect("a folder");
        }
        path
    }

    /// Where it is when it is moved away.
    pub(crate) fn away(&self) -> PathBuf {
        self.0.path().join("away")
    }

    /// Options with the defaults.
    pub(crate) fn options(&self) -> FileOptions {
        FileOptions::new(self.path())
    }

    /// Names in it, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path())
            .expect("the folder is there")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Ids of the events in a file.
    pub(crate) fn ids(&self, name: &str) -> Vec<String> {
        lines(&self.path().join(name)).iter().map(|line| text(line, "id")).collect()
    }

    /// Ids of the events in complete files, in order.
    pub(crate) fn complete(&self) -> Vec<String> {
        self.names().iter().filter(|name| !is_part(name)).flat_map(|name| self.ids(name)).collect()
    }
}

/// Whether a file is being written.
pub(crate) fn is_part(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "part")
}

/// A transport of the route `orders`.
pub(crate) fn transport(options: FileOptions) -> Arc<dyn Transport> {
    let encoder = Encoder::new(Format::CloudEventsStructured, Binding::Http, "/postroom/main");
    Arc::new(FileTransport::new("orders", options, encoder))
}

/// What delivers through it.
pub(crate) fn post(options: FileOptions) -> Post {
    Post::new(transport(options))
}

pub(crate) fn event(id: &str) -> Event {
    Event::new("order.placed").id(id).key("one").bytes(postroom_core::JSON, format!(r#"{{"order":"{id}"}}"#))
}

/// The lines of a file; each is one JSON object.
pub(crate) fn lines(path: &Path) -> Vec<Box<RawValue>> {
    let text = fs::read_to_string(path).expect("the file is text");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

/// A text in an envelope.
pub(crate) fn text(line: &RawValue, name: &str) -> String {
    serde_json::from_str(part(line, name).get()).expect("it is a text")
}

/// A part of an envelope, byte for byte.
pub(crate) fn part(line: &RawValue, name: &str) -> Box<RawValue> {
    let mut object: BTreeMap<String, Box<RawValue>> = serde_json::from_str(line.get()).expect("a line is an object");
    object.remove(name).expect("an envelope has it")
}
