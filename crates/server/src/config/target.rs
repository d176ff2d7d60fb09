//! Where a route goes: what its transport makes of `to`.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use postroom_core::envelope::Format;
use postroom_core::{Diagnostic, Transport};
use postroom_settings::{Node, Table};
use postroom_transport_kit::{Configured, Encoding, TargetReader, TransportKind};

use super::definition::DEFINITION;
use super::read::Read;
use super::typed::RouteConfig;
use crate::transports;

/// Destination of a route.
#[derive(Clone)]
pub struct Target {
    kind: &'static TransportKind,
    configured: Arc<dyn Configured>,
}

impl Target {
    /// The word in the configuration.
    pub fn name(&self) -> &'static str {
        self.kind.name
    }

    /// Whether delivered events are kept nowhere.
    pub(crate) fn discards(&self) -> bool {
        transports::discards(self.kind)
    }

    /// Whether the answer to an event is that of a handler that has done its work.
    pub(super) fn has_handlers(&self) -> bool {
        transports::has_handlers(self.kind)
    }

    /// Whether messages have headers there.
    pub(super) fn has_headers(&self) -> bool {
        self.kind.headers
    }

    /// Describes the destination for people, without passwords.
    pub fn describe(&self) -> String {
        self.configured.describe()
    }

    /// The topic, exchange, subject, stream or receiver it goes to, as it is configured; nothing where there is only one.
    #[cfg(feature = "otlp")]
    pub(crate) fn destination(&self) -> Option<String> {
        self.configured.destination()
    }

    /// Returns what is risky about these settings with envelopes of this format.
    pub(crate) fn warnings(&self, format: &Format) -> Vec<Diagnostic> {
        self.configured.warnings(format)
    }

    /// Builds the transport of a route.
    pub(crate) fn build(&self, route: &str, encoding: Encoding<'_>) -> Arc<dyn Transport> {
        self.configured.build(route, encoding)
    }

    /// The settings, if they are of this type: those of the transport's crate.
    pub fn options<T: Any>(&self) -> Option<&T> {
        (&*self.configured as &dyn Any).downcast_ref()
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.configured.fmt(f)
    }
}

impl Read<'_> {
    /// What `to` means; nothing when that has been reported.
    pub(super) fn target(&mut self, route: &str, to: &Node) -> Option<Target> {
        let entry = to.table()?.0.first()?;
        let kind = transports::kind(&entry.name)?;
        let (cwd, prefix) = (&self.sources.cwd, DEFINITION.prefix);
        let mut reader = TargetReader { route, cwd, prefix, problems: self.problems };
        let configured = (kind.read)(&mut reader, &entry.node)?;
        Some(Target { kind, configured: configured.into() })
    }

    /// Lets each kind of transport look at all its routes together.
    pub(super) fn together(&mut self, tree: &Table, routes: &mut [RouteConfig]) {
        for kind in transports::kinds() {
            let Some(together) = kind.together else { continue };
            let of_kind = routes.iter_mut().filter(|route| route.to.name() == kind.name);
            let mut configured: Vec<&mut dyn Configured> =
                of_kind.filter_map(|route| Arc::get_mut(&mut route.to.configured)).collect();
            together(tree, &mut configured, self.problems);
        }
    }
}
