//! `to = { file = { … } }`.

use std::sync::Arc;

use postroom_core::Transport;
use postroom_core::envelope::Binding;
use postroom_settings::{Key, Kind, Node, SOME, key, optional};
use postroom_transport_kit::{Configured, Encoding, TargetReader, TransportKind};

use crate::{CODES, FileOptions, FileTransport, Fsync};

/// Kind of transport, for the configuration.
pub const KIND: TransportKind = TransportKind {
    name: "file",
    doc: "JSON lines in the files of a folder.",
    shared: Some("Defaults for routes to files."),
    keys: KEYS,
    codes: CODES,
    headers: false,
    signed_by: &[],
    read,
    together: None,
};

static KEYS: &[Key] = &[
    optional("folder", Kind::Path, r#""/var/lib/postroom/out""#, "Folder of the files, which must exist."),
    key("rotate_size", Kind::Size, r#""64MiB""#, "Size at which a new file is started."),
    key("rotate_every", SOME, r#""1h""#, "Age at which a file is completed."),
    key(
        "fsync",
        Kind::Word(&["batch", "complete", "never"]),
        r#""batch""#,
        "Time of the fsync: before lines count as delivered, before a file is complete, or never.",
    ),
];

impl Configured for FileOptions {
    fn describe(&self) -> String {
        format!("file {}", self.folder.display())
    }

    fn destination(&self) -> Option<String> {
        Some(self.folder.display().to_string())
    }

    fn build(&self, route: &str, encoding: Encoding<'_>) -> Arc<dyn Transport> {
        Arc::new(FileTransport::new(route, self.clone(), encoding.encoder(Binding::Http)))
    }
}

fn read(reader: &mut TargetReader<'_>, node: &Node) -> Option<Box<dyn Configured>> {
    let parts = node.table()?;
    let folder = reader.required(node, "folder", r#""out""#)?.text().filter(|folder| !folder.is_empty())?;
    Some(Box::new(FileOptions {
        folder: reader.cwd.join(folder),
        rotate_size: parts.size("rotate_size") as u64,
        rotate_every: parts.duration("rotate_every"),
        fsync: match parts.text("fsync") {
            Some("complete") => Fsync::Complete,
            Some("never") => Fsync::Never,
            _ => Fsync::Batch,
        },
    }))
}
