//! An adopted table as a store: what relays and commands open.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use postroom_core::{
    Desk, Limits, RelayIdentity, RouteDefinition, Schema, Source, Store, StoreError, StoreErrorKind, Upkeep, Wake,
};

use crate::desk::AdoptedDesk;
use crate::ground::{Dialect, Ground};
use crate::layout::{Claim, Layout, Name, Place, TableName};
use crate::source::AdoptedSource;
use crate::sql::columns::Columns;
use crate::sql::{Texts, Writer};
use crate::tables::{AdoptedSchema, rights, routes};

/// What to do when the tables beside the adopted one are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migrate {
    /// Make them.
    Auto,
    /// It is an error.
    Never,
}

/// What an adopted store is told.
#[derive(Debug, Clone)]
pub struct AdoptedOptions {
    /// Its name in the configuration.
    pub name: String,
    /// The table.
    pub layout: Layout,
    /// What an event may be at most.
    pub limits: Limits,
    /// What to do when the tables beside it are missing.
    pub migrate: Migrate,
}

/// An adopted table; cheap to clone.
#[derive(Clone)]
pub struct Adopted {
    pub(crate) inner: Arc<Inner>,
}

/// What every part of the store shares.
pub(crate) struct Inner {
    pub(crate) name: String,
    pub(crate) layout: Layout,
    /// The table with its schema: what the side table knows it by.
    pub(crate) layout_name: String,
    pub(crate) columns: Columns,
    /// Those of the table of dead letters, where there is one.
    pub(crate) dead_letters: Columns,
    /// The columns of the log, where rows move to one.
    pub(crate) log: Columns,
    pub(crate) limits: Limits,
    pub(crate) ground: Arc<dyn Ground>,
    pub(crate) texts: Texts,
    pub(crate) wake: Wake,
}

impl Inner {
    /// The columns of the table of rows that are done or dead.
    pub(crate) fn settled_columns(&self) -> &Columns {
        if self.layout.log.is_some() { &self.log } else { &self.columns }
    }

    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer { dialect: self.ground.dialect(), schema: self.ground.schema(), columns: &self.columns, alias: "t" }
    }
}

/// Our clock, for databases that have none of use: microseconds since 1970.
pub(crate) fn clock() -> String {
    Timestamp::now().as_microsecond().to_string()
}

impl Adopted {
    /// Opens a table that is there with the columns its layout names.
    pub async fn open(options: AdoptedOptions, ground: Arc<dyn Ground>) -> Result<Self, StoreError> {
        let AdoptedOptions { name, mut layout, limits, migrate } = options;
        let columns = checked(&name, &mut layout, ground.as_ref()).await?;
        AdoptedSchema::new(&name, &layout, Arc::clone(&ground)).ensure(migrate == Migrate::Auto).await?;
        let writer = Writer { dialect: ground.dialect(), schema: ground.schema(), columns: &columns, alias: "t" };
        let dead_letters = dead_letters(&name, &mut layout, &ground).await?;
        if let Some(archive) = &mut layout.archive {
            let (found, _) = ground.table(archive).await?.ok_or_else(|| no_table(&name, archive))?;
            *archive = found;
        }
        let log = log(&name, &mut layout, &ground).await?;
        if layout.claim == Claim::RowLocks && ground.dialect() != Dialect::Postgres {
            return Err(no_row_locks(&name));
        }
        let texts = Texts::new(&layout, &writer, &dead_letters, &log);
        let layout_name = layout.table.to_string();
        let wake = Wake::default();
        Ok(Self {
            inner: Arc::new(Inner {
                name,
                layout,
                layout_name,
                columns,
                dead_letters,
                log,
                limits,
                ground,
                texts,
                wake,
            }),
        })
    }

    /// The tables beside an adopted one, whether or not they are there.
    pub fn tables(name: &str, layout: &Layout, ground: Arc<dyn Ground>) -> Arc<dyn Schema> {
        Arc::new(AdoptedSchema::new(name, layout, ground))
    }
}

/// The columns of a table that is there with all that its layout names; the layout learns the table's schema.
pub(crate) async fn checked(store: &str, layout: &mut Layout, ground: &dyn Ground) -> Result<Columns, StoreError> {
    if let Some(problem) = layout.problems().into_iter().next() {
        let message = format!("layout of store {store:?}: {}", problem.message);
        return Err(StoreError::new(StoreErrorKind::Invalid, "open", message).hint(problem.hint));
    }
    let (table, columns) = ground.table(&layout.table).await?.ok_or_else(|| no_table(store, &layout.table))?;
    layout.table = table;
    match places(layout).into_iter().find(|(place, _)| columns.get(place).is_none()) {
        Some((place, key)) => Err(no_column(store, &layout.table, &columns, &place, key)),
        None => Ok(columns),
    }
}

/// The columns of the table of dead letters, where there is one.
async fn dead_letters(store: &str, layout: &mut Layout, ground: &Arc<dyn Ground>) -> Result<Columns, StoreError> {
    let Some(dead) = &mut layout.dead_letters else { return Ok(Columns::default()) };
    let (table, columns) = ground.table(&dead.table).await?.ok_or_else(|| no_table(store, &dead.table))?;
    dead.table = table;
    match dead.columns().into_iter().find(|(name, _)| columns.get(name).is_none()) {
        Some((name, key)) => Err(no_column(store, &dead.table, &columns, &name, key)),
        None => Ok(columns),
    }
}

/// The columns of the log, where there is one. It must have the row's name and the word.
async fn log(store: &str, layout: &mut Layout, ground: &Arc<dyn Ground>) -> Result<Columns, StoreError> {
    let Some(log) = &mut layout.log else { return Ok(Columns::default()) };
    let (table, found) = ground.table(&log.table).await?.ok_or_else(|| no_table(store, &log.table))?;
    log.table = table;
    let word = match &layout.state {
        crate::layout::State::Words { place, .. } => Some((place.column.clone(), "state.word")),
        _ => None,
    };
    let needed = log.columns().into_iter().chain([(layout.row.clone(), "row")]).chain(word);
    match needed.into_iter().find(|(name, _)| found.get(name).is_none()) {
        Some((name, key)) => Err(no_column(store, &log.table, &found, &name, key)),
        None => Ok(found),
    }
}

fn no_row_locks(store: &str) -> StoreError {
    let message = format!("the layout of store {store:?} locks rows one by one, which SQLite cannot");
    StoreError::new(StoreErrorKind::Invalid, "open", message).hint("leave `claim` out: one relay owns the table then")
}

/// Every column a layout names, with the key that names it.
fn places(layout: &Layout) -> Vec<(Name, &'static str)> {
    let event = &layout.event;
    let mut found = vec![(layout.row.clone(), "row")];
    found.extend(layout.order.iter().map(|name| (name.clone(), "order")));
    let required = [("event.id", &event.id), ("event.type", &event.event_type), ("event.payload", &event.payload)];
    let optional: [(&'static str, &Option<Place>); 12] = [
        ("event.key", &event.key),
        ("event.aggregate_type", &event.aggregate_type),
        ("event.aggregate_id", &event.aggregate_id),
        ("event.tenant", &event.tenant),
        ("event.occurred_at", &event.occurred_at),
        ("event.correlation_id", &event.correlation_id),
        ("event.causation_id", &event.causation_id),
        ("event.schema_version", &event.schema_version),
        ("event.headers", &event.headers),
        ("attempts", &layout.attempts),
        ("next_attempt", &layout.next_attempt),
        ("error", &layout.error),
    ];
    found.extend(required.map(|(key, place)| (place.column.clone(), key)));
    found.extend(optional.into_iter().filter_map(|(key, place)| Some((place.as_ref()?.column.clone(), key))));
    found.extend(event.attributes.iter().map(|(_, place)| (place.column.clone(), "event.attributes")));
    found.extend(layout.done_at.clone().map(|name| (name, "done_at")));
    found.extend(layout.claimed().map(|claimed| (claimed.since.clone(), "claimed.since")));
    match &layout.state {
        crate::layout::State::Words { place, .. } => found.push((place.column.clone(), "state.word")),
        crate::layout::State::Stamp(name) => found.push((name.clone(), "state.stamp")),
        crate::layout::State::Flag(name) => found.push((name.clone(), "state.flag")),
        crate::layout::State::Presence => {}
    }
    found
}

fn no_table(store: &str, table: &TableName) -> StoreError {
    let message = format!("store {store:?} has no table {table}");
    StoreError::new(StoreErrorKind::NotFound, "open", message)
        .hint("correct `table` in its layout, with the schema if it is not in the search path")
}

fn no_column(store: &str, table: &TableName, columns: &Columns, name: &Name, key: &str) -> StoreError {
    let known: Vec<&str> = columns.0.keys().map(Name::as_str).collect();
    let message = format!("table {table} of store {store:?} has no column {name}, which `{key}` of its layout names");
    StoreError::new(StoreErrorKind::NotFound, "open", message).hint(format!("it has {}", known.join(", ")))
}

#[async_trait]
impl Store for Adopted {
    fn name(&self) -> &str {
        &self.inner.name
    }

    async fn source(&self, relay: &RelayIdentity, route: &RouteDefinition) -> Result<Arc<dyn Source>, StoreError> {
        rights::check(&self.inner).await?;
        let source = AdoptedSource::new(Arc::clone(&self.inner), relay.clone(), route.clone());
        source.check().await?;
        routes::join(&self.inner, relay, route).await?;
        Ok(Arc::new(source))
    }

    fn desk(&self) -> Arc<dyn Desk> {
        Arc::new(AdoptedDesk(Arc::clone(&self.inner)))
    }

    fn schema(&self) -> Option<Arc<dyn Schema>> {
        Some(Self::tables(&self.inner.name, &self.inner.layout, Arc::clone(&self.inner.ground)))
    }

    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        None
    }
}

impl fmt::Debug for Adopted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adopted").field("name", &self.inner.name).field("table", &self.inner.layout_name).finish()
    }
}
