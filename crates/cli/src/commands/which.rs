//! The filters of lists and of what an operator acts on.

use clap::Args;
use jiff::Timestamp;
use postroom_core::units::parse_ago;
use postroom_core::{Pattern, PatternError, Selection};

use crate::app::Opened;
use crate::commands::event::find;
use crate::exit::Failed;

/// Which events.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub(crate) struct WhichEvents {
    /// Event type; `*` at the end stands for any rest
    #[arg(long = "type", value_name = "PATTERN", value_parser = pattern)]
    event_type: Option<Pattern>,
    /// Ordering key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Aggregate type
    #[arg(long, value_name = "NAME")]
    aggregate_type: Option<String>,
    /// Tenant
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Occurred then or later: RFC 3339, or how long ago (1h)
    #[arg(long, value_name = "TIME", value_parser = parse_ago)]
    from: Option<Timestamp>,
    /// Occurred before: RFC 3339, or how long ago (10m)
    #[arg(long, value_name = "TIME", value_parser = parse_ago)]
    to: Option<Timestamp>,
}

impl WhichEvents {
    /// As the desk takes it.
    pub(crate) fn selection(&self) -> Selection {
        Selection {
            event_type: self.event_type.clone(),
            key: self.key.clone(),
            aggregate_type: self.aggregate_type.clone(),
            tenant: self.tenant.clone(),
            from: self.from,
            to: self.to,
            ..Selection::default()
        }
    }
}

/// Which deliveries.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub(crate) struct WhichDeliveries {
    /// Event ids; none is any
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Route
    #[arg(long, value_name = "ROUTE")]
    route: Option<String>,
    #[command(flatten)]
    events: WhichEvents,
}

impl WhichDeliveries {
    /// Refuses a route or an id that is not there: "nothing fits" would hide a typing mistake.
    pub(crate) async fn check(&self, opened: &Opened) -> Result<(), Failed> {
        opened.check_route(self.route.as_deref()).await?;
        for id in &self.ids {
            find(&*opened.desk(), id, false).await?;
        }
        Ok(())
    }

    /// As the desk takes it.
    pub(crate) fn selection(&self) -> Selection {
        Selection { ids: self.ids.clone(), route: self.route.clone(), ..self.events.selection() }
    }
}

/// Which dead letters.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WhichDead {
    #[command(flatten)]
    pub(crate) deliveries: WhichDeliveries,
    /// Code of the last failure, for instance exec.timeout
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
}

impl WhichDead {
    /// As the desk takes it.
    pub(crate) fn selection(&self) -> Selection {
        Selection { code: self.code.clone(), ..self.deliveries.selection() }
    }
}

fn pattern(text: &str) -> Result<Pattern, PatternError> {
    Pattern::parse(text)
}
