//! A kind of transport, as its crate brings it to a configuration.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use postroom_core::codes::Section;
use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{Diagnostic, Transport};
use postroom_settings::{Key, Node, Problems, Table, table};

use crate::reader::TargetReader;

/// Kind of transport: its keys and its codes.
#[derive(Debug, Clone, Copy)]
pub struct TransportKind {
    /// Name of the transport in `to = { … }`.
    pub name: &'static str,
    /// Summary of the transport.
    pub doc: &'static str,
    /// Summary of `[transport.NAME]`, if routes may share keys.
    pub shared: Option<&'static str>,
    /// Keys of the configuration.
    pub keys: &'static [Key],
    /// Codes of the transport.
    pub codes: &'static [Section],
    /// Whether a message has headers beside its body. Without them an envelope must say everything.
    pub headers: bool,
    /// Keys that sign messages. A signature covers the body alone, so with one of them the default envelope says everything there.
    pub signed_by: &'static [&'static str],
    /// Reads the destination of a route; nothing when what is wrong with it has been reported.
    pub read: fn(&mut TargetReader<'_>, &Node) -> Option<Box<dyn Configured>>,
    /// Looks at all destinations of this kind together, with the whole configuration at hand.
    pub together: Option<Together>,
}

type Together = fn(&Table, &mut [&mut dyn Configured], &mut Problems);

impl TransportKind {
    /// Returns the key in `to`.
    pub const fn key(&self) -> Key {
        table(self.name, self.keys, self.doc)
    }

    /// Returns the key in `[transport]`, if there is one.
    pub const fn shared_key(&self) -> Option<Key> {
        match self.shared {
            Some(doc) => Some(table(self.name, self.keys, doc)),
            None => None,
        }
    }
}

/// Configured destination.
pub trait Configured: Any + fmt::Debug + Send + Sync {
    /// Describes the destination for people, without passwords.
    fn describe(&self) -> String;

    /// Returns the configured topic, exchange, subject, stream or receiver; `None` if there is only one.
    fn destination(&self) -> Option<String> {
        None
    }

    /// Returns what is risky about these settings with envelopes of this format, although they can be used.
    fn warnings(&self, _format: &Format) -> Vec<Diagnostic> {
        Vec::new()
    }

    /// Builds the transport of a route.
    fn build(&self, route: &str, encoding: Encoding<'_>) -> Arc<dyn Transport>;
}

/// Encoding of the envelopes of a route.
#[derive(Debug, Clone, Copy)]
pub struct Encoding<'a> {
    /// Their format.
    pub format: &'a Format,
    /// Their `source`: that of the store.
    pub source: &'a str,
}

impl Encoding<'_> {
    /// Returns the encoder for messages of this protocol.
    pub fn encoder(&self, binding: Binding) -> Encoder {
        Encoder::new(self.format.clone(), binding, self.source)
    }
}
