//! Filters of lists and of operator actions.

use clap::Args;
use jiff::Timestamp;
use postroom_admin::Selection;
use postroom_core::units::parse_ago;
use postroom_core::{DeliveryState, Pattern, PatternError};
use postroom_server::codes;

use crate::app::Opened;
use crate::commands::event::find;
use crate::exit::{Exit, Failed};
use crate::output::note;
use crate::{ids, suggest};

/// Maximum number of groups of deliveries whose codes are known.
const GROUPS_MAX: usize = 1_000;

/// Filter of events.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub(crate) struct WhichEvents {
    /// Only events of this type; a `*` at the end matches any suffix
    #[arg(long = "type", value_name = "PATTERN", value_parser = pattern)]
    event_type: Option<Pattern>,
    /// Only events with this ordering key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Only events of this aggregate type
    #[arg(long, value_name = "NAME")]
    aggregate_type: Option<String>,
    /// Only events of this tenant
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Only events that occurred at or after this time: RFC 3339, or how long ago (1h)
    #[arg(long, value_name = "TIME", value_parser = parse_ago)]
    from: Option<Timestamp>,
    /// Only events that occurred before this time: RFC 3339, or how long ago (10m)
    #[arg(long, value_name = "TIME", value_parser = parse_ago)]
    to: Option<Timestamp>,
}

impl WhichEvents {
    /// Converts the options to a selection for [`postroom_admin::Admin`].
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

/// Filter of deliveries.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub(crate) struct WhichDeliveries {
    /// Ids of events, or prefixes of at least 8 characters that no other id has; `-` reads them from stdin, one per line
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Only deliveries of this route
    #[arg(long, value_name = "ROUTE")]
    route: Option<String>,
    #[command(flatten)]
    events: WhichEvents,
}

impl WhichDeliveries {
    /// Returns the selection with whole ids. Fails if the route or an id does not exist: an empty result would hide a typing
    /// mistake.
    pub(crate) async fn resolve(&self, opened: &Opened) -> Result<Selection, Failed> {
        opened.check_route(self.route.as_deref()).await?;
        let mut ids = Vec::new();
        for typed in &self.ids {
            let typed = if typed == "-" { ids::from_stdin()? } else { vec![typed.clone()] };
            for typed in typed {
                let id = find(&*opened.admin(), &typed, None).await?.event.id;
                if id != typed {
                    note(&format!("{typed} is event {id}"))?;
                }
                ids.push(id);
            }
        }
        Ok(Selection { ids, ..self.selection() })
    }

    /// Returns the selection as it was typed.
    pub(crate) fn selection(&self) -> Selection {
        Selection { ids: self.ids.clone(), route: self.route.clone(), ..self.events.selection() }
    }
}

/// Filter of deliveries that failed.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WhichFailed {
    #[command(flatten)]
    pub(crate) deliveries: WhichDeliveries,
    /// Only deliveries whose last failure has this code, for instance exec.timeout
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
}

impl WhichFailed {
    /// Returns the selection with whole ids. Fails if the route, the code or an id does not exist.
    pub(crate) async fn resolve(&self, opened: &Opened) -> Result<Selection, Failed> {
        let which = Selection { code: self.code.clone(), ..self.deliveries.resolve(opened).await? };
        if let Some(code) = &self.code {
            check_code(opened, code).await?;
        }
        Ok(which)
    }

    /// Returns the selection as it was typed.
    pub(crate) fn selection(&self) -> Selection {
        Selection { code: self.code.clone(), ..self.deliveries.selection() }
    }
}

/// Extent of a command that changes deliveries.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub(crate) struct Extent {
    /// Select every delivery; needed if neither ids nor filters are given
    #[arg(long)]
    all: bool,
    /// Number of affected deliveries, as --dry-run reports it; needed above 1,000 without a terminal
    #[arg(long, value_name = "N")]
    pub(crate) confirm: Option<u64>,
}

impl Extent {
    /// Fails if nothing is selected: an empty variable in a script must not mean everything.
    pub(crate) fn check(&self, which: &Selection) -> Result<(), Failed> {
        if self.all || *which != Selection::default() {
            return Ok(());
        }
        let message = "no deliveries are selected; nothing was changed";
        Err(Failed::new(Exit::Usage, message, "name ids, add a filter such as --route, or --all for every one of them"))
    }
}

/// Fails if nothing has this code, neither a delivery nor a page of `explain`: no result would look like good news.
async fn check_code(opened: &Opened, code: &str) -> Result<(), Failed> {
    if codes::find(code).is_some() {
        return Ok(());
    }
    let failed = [DeliveryState::Dead, DeliveryState::Retrying];
    let groups = opened.admin().delivery_groups(&failed, &Selection::default(), GROUPS_MAX).await?;
    let mut known: Vec<String> = groups.into_iter().filter_map(|group| group.code).collect();
    if known.iter().any(|known| known == code) {
        return Ok(());
    }
    known.extend(codes::all().map(|known| known.code.to_owned()));
    let otherwise = "list the codes of failures: `postroom delivery groups`; list all codes: `postroom explain`";
    Err(suggest::unknown("code", code, &known, otherwise))
}

fn pattern(text: &str) -> Result<Pattern, PatternError> {
    Pattern::parse(text)
}
