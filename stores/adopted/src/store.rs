//! An adopted table as a store: what relays and commands open.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use postroom_admin::{Admin, ManagedStore};
use postroom_core::{
    Limits, Maintenance, Notifier, RelayIdentity, Retain, RouteSpec, Schema, Source, Store, StoreError, StoreErrorKind,
};

use crate::admin::AdoptedAdmin;
use crate::executor::{Dialect, SqlExecutor};
use crate::mapping::{Claim, ColumnPath, Mapping, Name, TableName};
use crate::source::{AdoptedSource, Consumer};
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
#[non_exhaustive]
pub struct AdoptedOptions {
    /// Its name in the configuration.
    pub name: String,
    /// The table.
    pub mapping: Mapping,
    /// What an event may be at most.
    pub limits: Limits,
    /// What to do when the tables beside it are missing.
    pub migrate: Migrate,
}

impl AdoptedOptions {
    /// The table `mapping` as the store `name`: its tables are made when they are missing.
    pub fn new(name: impl Into<String>, mapping: Mapping) -> Self {
        Self { name: name.into(), mapping, limits: Limits::default(), migrate: Migrate::Auto }
    }
}

/// An adopted table; cheap to clone.
#[derive(Clone)]
pub struct Adopted {
    pub(crate) inner: Arc<Inner>,
}

/// What every part of the store shares.
pub(crate) struct Inner {
    pub(crate) name: String,
    pub(crate) mapping: Mapping,
    /// The table with its schema: what the side table knows it by.
    pub(crate) mapping_name: String,
    pub(crate) columns: Columns,
    /// Those of the table of dead letters, where there is one.
    pub(crate) dead_letters: Columns,
    /// The columns of the log, where rows move to one.
    pub(crate) log: Columns,
    pub(crate) limits: Limits,
    pub(crate) executor: Arc<dyn SqlExecutor>,
    pub(crate) texts: Texts,
    pub(crate) wake: Notifier,
}

impl Inner {
    /// The columns of the table of rows that are done or dead.
    pub(crate) fn settled_columns(&self) -> &Columns {
        if self.mapping.log.is_some() { &self.log } else { &self.columns }
    }

    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer { dialect: self.executor.dialect(), schema: self.executor.schema(), columns: &self.columns, alias: "t" }
    }
}

/// Our clock, for databases that have none of use: microseconds since 1970.
pub(crate) fn clock() -> String {
    Timestamp::now().as_microsecond().to_string()
}

impl Adopted {
    /// Opens a table that is there with the columns its mapping names.
    pub async fn open(options: AdoptedOptions, executor: Arc<dyn SqlExecutor>) -> Result<Self, StoreError> {
        let AdoptedOptions { name, mut mapping, limits, migrate } = options;
        let columns = checked(&name, &mut mapping, executor.as_ref()).await?;
        AdoptedSchema::new(&name, &mapping, Arc::clone(&executor)).ensure(migrate == Migrate::Auto).await?;
        let writer = Writer { dialect: executor.dialect(), schema: executor.schema(), columns: &columns, alias: "t" };
        let dead_letters = dead_letters(&name, &mut mapping, &executor).await?;
        if let Some(archive) = &mut mapping.archive {
            let (found, _) = executor.table(archive).await?.ok_or_else(|| no_table(&name, archive))?;
            *archive = found;
        }
        let log = log(&name, &mut mapping, &executor).await?;
        if mapping.claim == Claim::RowLocks && executor.dialect() != Dialect::Postgres {
            return Err(no_row_locks(&name));
        }
        let texts = Texts::new(&mapping, &writer, limits, &dead_letters, &log);
        let mapping_name = mapping.table.to_string();
        let wake = Notifier::default();
        Ok(Self {
            inner: Arc::new(Inner {
                name,
                mapping,
                mapping_name,
                columns,
                dead_letters,
                log,
                limits,
                executor,
                texts,
                wake,
            }),
        })
    }

    /// The tables beside an adopted one, whether or not they are there.
    pub fn tables(name: &str, mapping: &Mapping, executor: Arc<dyn SqlExecutor>) -> Arc<dyn Schema> {
        Arc::new(AdoptedSchema::new(name, mapping, executor))
    }
}

/// The columns of a table that is there with all that its mapping names; the mapping learns the table's schema.
pub(crate) async fn checked(
    store: &str,
    mapping: &mut Mapping,
    executor: &dyn SqlExecutor,
) -> Result<Columns, StoreError> {
    if let Some(problem) = mapping.problems().into_iter().next() {
        let message = format!("mapping of store {store:?}: {}", problem.message);
        return Err(StoreError::new(StoreErrorKind::Invalid, "open", message).hint(problem.hint));
    }
    let (table, columns) = executor.table(&mapping.table).await?.ok_or_else(|| no_table(store, &mapping.table))?;
    mapping.table = table;
    match paths(mapping).into_iter().find(|(path, _)| columns.get(path).is_none()) {
        Some((path, key)) => Err(no_column(store, &mapping.table, &columns, &path, key)),
        None => Ok(columns),
    }
}

/// The columns of the table of dead letters, where there is one.
async fn dead_letters(
    store: &str,
    mapping: &mut Mapping,
    executor: &Arc<dyn SqlExecutor>,
) -> Result<Columns, StoreError> {
    let Some(dead) = &mut mapping.dead_letters else { return Ok(Columns::default()) };
    let (table, columns) = executor.table(&dead.table).await?.ok_or_else(|| no_table(store, &dead.table))?;
    dead.table = table;
    match dead.columns().into_iter().find(|(name, _)| columns.get(name).is_none()) {
        Some((name, key)) => Err(no_column(store, &dead.table, &columns, &name, key)),
        None => Ok(columns),
    }
}

/// The columns of the log, where there is one. It must have the row's name and the word.
async fn log(store: &str, mapping: &mut Mapping, executor: &Arc<dyn SqlExecutor>) -> Result<Columns, StoreError> {
    let Some(log) = &mut mapping.log else { return Ok(Columns::default()) };
    let (table, found) = executor.table(&log.table).await?.ok_or_else(|| no_table(store, &log.table))?;
    log.table = table;
    let word = match &mapping.state {
        crate::mapping::State::Words { path, .. } => Some((path.column.clone(), "state.word")),
        _ => None,
    };
    let needed = log.columns().into_iter().chain([(mapping.row.clone(), "row")]).chain(word);
    match needed.into_iter().find(|(name, _)| found.get(name).is_none()) {
        Some((name, key)) => Err(no_column(store, &log.table, &found, &name, key)),
        None => Ok(found),
    }
}

fn no_row_locks(store: &str) -> StoreError {
    let message = format!("the mapping of store {store:?} locks rows one by one, which SQLite cannot");
    StoreError::new(StoreErrorKind::Invalid, "open", message).hint("leave `claim` out: one relay owns the table then")
}

/// Every column a mapping names, with the key that names it.
fn paths(mapping: &Mapping) -> Vec<(Name, &'static str)> {
    let event = &mapping.event;
    let mut found = vec![(mapping.row.clone(), "row")];
    found.extend(mapping.order.iter().map(|name| (name.clone(), "order")));
    let required = [("event.id", &event.id), ("event.type", &event.event_type), ("event.payload", &event.payload)];
    let optional: [(&'static str, &Option<ColumnPath>); 11] = [
        ("event.key", &event.key),
        ("event.aggregate_type", &event.aggregate_type),
        ("event.aggregate_id", &event.aggregate_id),
        ("event.tenant", &event.tenant),
        ("event.correlation_id", &event.correlation_id),
        ("event.causation_id", &event.causation_id),
        ("event.schema_version", &event.schema_version),
        ("event.headers", &event.headers),
        ("attempts", &mapping.attempts),
        ("next_attempt", &mapping.next_attempt),
        ("error", &mapping.error),
    ];
    found.extend(required.map(|(key, path)| (path.column.clone(), key)));
    found.extend(optional.into_iter().filter_map(|(key, path)| Some((path.as_ref()?.column.clone(), key))));
    found.extend(event.occurred_at.iter().map(|path| (path.column.clone(), "event.occurred_at")));
    found.extend(event.attributes.iter().map(|(_, path)| (path.column.clone(), "event.attributes")));
    found.extend(mapping.done_at.clone().map(|name| (name, "done_at")));
    found.extend(mapping.claimed().map(|claimed| (claimed.since.clone(), "claimed.since")));
    match &mapping.state {
        crate::mapping::State::Words { path, .. } => found.push((path.column.clone(), "state.word")),
        crate::mapping::State::Stamp(name) => found.push((name.clone(), "state.stamp")),
        crate::mapping::State::Flag(name) => found.push((name.clone(), "state.flag")),
        crate::mapping::State::Presence => {}
    }
    found
}

fn no_table(store: &str, table: &TableName) -> StoreError {
    let message = format!("store {store:?} has no table {table}");
    StoreError::new(StoreErrorKind::NotFound, "open", message)
        .hint("correct `table` in its mapping, with the schema if it is not in the search path")
}

fn no_column(store: &str, table: &TableName, columns: &Columns, name: &Name, key: &str) -> StoreError {
    let known: Vec<&str> = columns.0.keys().map(Name::as_str).collect();
    let message = format!("table {table} of store {store:?} has no column {name}, which `{key}` of its mapping names");
    StoreError::new(StoreErrorKind::NotFound, "open", message).hint(format!("it has {}", known.join(", ")))
}

#[async_trait]
impl Store for Adopted {
    fn name(&self) -> &str {
        &self.inner.name
    }

    async fn source(&self, relay: &RelayIdentity, route: &RouteSpec) -> Result<Arc<dyn Source>, StoreError> {
        let consumer = Consumer::open(&self.inner, route).await?;
        rights::check(&self.inner, consumer.is_some()).await?;
        let source = AdoptedSource::new(Arc::clone(&self.inner), relay.clone(), route.clone(), consumer);
        source.check().await?;
        routes::join(&self.inner, relay, route).await?;
        Ok(Arc::new(source))
    }

    fn retain(&self) -> Arc<dyn Retain> {
        Arc::new(AdoptedAdmin(Arc::clone(&self.inner)))
    }

    fn schema(&self) -> Option<Arc<dyn Schema>> {
        Some(Self::tables(&self.inner.name, &self.inner.mapping, Arc::clone(&self.inner.executor)))
    }

    fn maintenance(&self) -> Option<Arc<dyn Maintenance>> {
        None
    }
}

impl ManagedStore for Adopted {
    fn admin(&self) -> Arc<dyn Admin> {
        Arc::new(AdoptedAdmin(Arc::clone(&self.inner)))
    }
}

impl fmt::Debug for Adopted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adopted").field("name", &self.inner.name).field("table", &self.inner.mapping_name).finish()
    }
}
