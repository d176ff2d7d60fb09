//! A statement over the adopted table that is put together for one question.

use postroom_admin::Selection;
use postroom_core::{DeliveryState, StoreError};
use serde_json::json;

use super::routes::Registered;
use crate::executor::{Rows, Statement};
use crate::mapping::{ColumnPath, Death, State};
use crate::sql::further::position;
use crate::sql::inside::or_beside;
use crate::sql::{Writer, key, literal};
use crate::store::{Inner, clock};

/// A statement on its way. The adopted table is `t`, its side table `s`; of a further route its entries are `s`, and there is no
/// other table.
pub(super) struct Query<'a> {
    pub(super) inner: &'a Inner,
    /// Whether it is about entries, and not about the table.
    entries: bool,
    /// Of which further route the entries stand beside the table in the place of the side table: its placeholder.
    beside: Option<String>,
    pub(super) writer: Writer<'a>,
    values: Vec<Option<String>>,
    conditions: Vec<String>,
}

impl<'a> Query<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        let values = vec![Some(inner.mapping_name.clone()), Some(clock())];
        let conditions = vec!["$2 is not null".to_owned()];
        Self { inner, entries: false, beside: None, writer: inner.writer(), values, conditions }
    }

    /// A statement over what a route knows of rows.
    pub(super) fn of(inner: &'a Inner, route: &Registered) -> Self {
        let mut query = Self::new(inner);
        if route.further {
            query.entries = true;
            let route = query.value(&route.name);
            query.and(format!("s.route = {route}"));
        }
        query
    }

    /// A statement over the rows as a route has settled them.
    pub(super) fn settled_by(inner: &'a Inner, route: &Registered) -> Self {
        let mut query = Self::new(inner);
        query.beside = route.further.then(|| query.value(&route.name));
        query
    }

    /// The placeholder of a value.
    pub(super) fn value(&mut self, value: impl Into<String>) -> String {
        self.values.push(Some(value.into()));
        format!("${}", self.values.len())
    }

    pub(super) fn and(&mut self, condition: impl Into<String>) {
        self.conditions.push(condition.into());
    }

    pub(super) fn now(&self) -> String {
        self.writer.now("$2")
    }

    /// What names a row, or an entry.
    pub(super) fn row(&self) -> String {
        if self.entries {
            return "cast(s.number as text)".to_owned();
        }
        self.writer.text(&ColumnPath::column(self.inner.mapping.row.clone()))
    }

    /// `from` and `where`, with what the side table knows.
    pub(super) fn from(&self) -> String {
        let inner = self.inner;
        if self.entries {
            let (entries, conditions) = (self.writer.own("adopted_delivery"), self.conditions.join(" and "));
            return format!("from {entries} s where s.mapping = $1 and {conditions}");
        }
        let beside = match &self.beside {
            Some(route) => format!(
                "{} s on s.mapping = $1 and s.route = {route} and s.event_id = coalesce({}, '')",
                self.writer.own("adopted_delivery"),
                self.event_id()
            ),
            None => format!("{} s on s.mapping = $1", self.writer.own("sidecar")),
        };
        let rows = match &inner.mapping.log {
            Some(log) => crate::sql::archive::both(&inner.mapping, &self.writer, log, &inner.log),
            None => inner.mapping.table.quoted(),
        };
        format!(
            "from {rows} t left join {beside} and s.row_id = {} where {}",
            self.row(),
            self.conditions.join(" and ")
        )
    }

    pub(super) fn statement(self, text: impl Into<String>) -> Statement {
        Statement { text: text.into().into(), values: self.values }
    }

    pub(super) async fn fetch(self, operation: &'static str, text: impl Into<String>) -> Result<Rows, StoreError> {
        let executor = std::sync::Arc::clone(&self.inner.executor);
        let found = executor.look(operation, vec![self.statement(text)]).await?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// The next rows behind one, in order: position and id. Where rows have no position of their own, in order of ids.
    pub(super) async fn page(
        mut self,
        after: Option<&(i64, String)>,
        at_most: usize,
    ) -> Result<Vec<(i64, String)>, StoreError> {
        let position = if self.has_positions() { self.position() } else { "cast(0 as bigint)".to_owned() };
        let row = self.row();
        if let Some((last, id)) = after {
            let (last, id) = (self.value(last.to_string()), self.value(id));
            self.and(format!("({position}, {row}) > (cast({last} as bigint), {id})"));
        }
        let statement = format!(
            "select cast({position} as text), {row} {} order by {position}, {row} limit {at_most}",
            self.from()
        );
        let rows = self.fetch("rows", statement).await?;
        Ok(rows.iter().filter_map(|row| Some((number(row, 0), text(row, 1)?))).collect())
    }

    /// When it happened, as the database's own.
    pub(super) fn occurred_at(&self) -> String {
        if self.entries {
            return "s.occurred_at".to_owned();
        }
        let paths = self.inner.mapping.occurred_at(&self.inner.columns);
        self.writer.first_moment(&paths).unwrap_or_else(|| self.now())
    }

    /// When the row was written, as far as the table tells; lists go by it.
    pub(super) fn appended_at(&self) -> String {
        if self.entries {
            return "s.occurred_at".to_owned();
        }
        match self.inner.mapping.appended_at(&self.inner.columns) {
            Some(path) => self.writer.moment(&path),
            None => self.now(),
        }
    }

    /// The event's id.
    pub(super) fn event_id(&self) -> String {
        if self.entries { "s.event_id".to_owned() } else { self.writer.text(&self.inner.mapping.event.id) }
    }

    /// What happened.
    pub(super) fn event_type(&self) -> String {
        if self.entries { "s.type".to_owned() } else { self.writer.text(&self.inner.mapping.event.event_type) }
    }

    /// The key, the kind of aggregate and the tenant; null where events have none.
    pub(super) fn key(&self) -> String {
        self.or_entry("s.key", key(&self.inner.mapping, &self.writer))
    }

    fn aggregate_type(&self) -> String {
        let path = self.inner.mapping.event.aggregate_type.as_ref();
        self.or_entry("s.aggregate_type", path.map(|path| self.writer.text(path)))
    }

    pub(super) fn tenant(&self) -> String {
        let path = self.inner.mapping.event.tenant.as_ref();
        self.or_entry("s.tenant", path.map(|path| self.writer.text(path)))
    }

    fn or_entry(&self, entry: &str, column: Option<String>) -> String {
        if self.entries { entry.to_owned() } else { column.unwrap_or_else(|| "cast(null as text)".to_owned()) }
    }

    /// Adds the conditions of a selection.
    pub(super) fn select(&mut self, which: &Selection) {
        if !which.ids.is_empty() {
            let ids = self.value(json!(which.ids).to_string());
            self.and(format!("{} in {}", self.event_id(), self.writer.listed(&ids)));
        }
        if let Some(pattern) = &which.event_type {
            let (text, column) = (pattern.to_string(), self.event_type());
            if let Some(prefix) = text.strip_suffix('*') {
                let prefix = self.value(prefix);
                self.and(format!("substr({column}, 1, length({prefix})) = {prefix}"));
            } else {
                let text = self.value(text);
                self.and(format!("{column} = {text}"));
            }
        }
        let equal =
            [(self.aggregate_type(), &which.aggregate_type), (self.key(), &which.key), (self.tenant(), &which.tenant)];
        for (column, wanted) in equal {
            let Some(wanted) = wanted else { continue };
            let wanted = self.value(wanted);
            self.and(format!("{column} = {wanted}"));
        }
        for (time, sign) in [(which.from, ">="), (which.to, "<")] {
            if let Some(time) = time {
                let value = self.value(time.as_microsecond().to_string());
                let moment = self.writer.at_micros(&value);
                self.and(format!("{} {sign} {moment}", self.occurred_at()));
            }
        }
        if let Some(code) = &which.code {
            let code = self.value(code);
            self.and(format!("s.code = {code}"));
        }
        if let Some(died_by) = which.died_by {
            // Of what others have given up nobody knows when.
            let value = self.value(died_by.as_microsecond().to_string());
            let moment = self.writer.at_micros(&value);
            self.and(format!("(s.since is null or s.since <= {moment})"));
        }
    }

    /// Whether a row is dead, and none of the same event has taken its place.
    pub(super) fn is_dead(&self) -> String {
        if self.entries {
            return "s.state = 'dead'".to_owned();
        }
        let dead = match (&self.inner.mapping.death, &self.inner.mapping.state) {
            (Death::Word(word), State::Words { path, .. }) => self.has_word(path, word),
            // Not when somebody made it pending again by hand.
            (Death::AsDone, _) => format!("s.state = 'dead' and not ({})", self.is_pending()),
            _ => "s.state = 'dead'".to_owned(),
        };
        format!("{dead}{}", self.is_newest())
    }

    /// Whether a row is delivered.
    pub(super) fn is_done(&self) -> String {
        if self.entries {
            return "s.state = 'delivered'".to_owned();
        }
        if self.beside.is_some() {
            let pending = crate::sql::open(&self.inner.mapping, &self.writer);
            return format!("(s.state = 'delivered' or s.number is null and not ({pending}))");
        }
        let done = match &self.inner.mapping.state {
            State::Words { path, done, .. } => self.has_word(path, done),
            State::Stamp(_) | State::Flag(_) | State::Presence => format!("not ({})", self.is_pending()),
        };
        format!("{done} and not coalesce({}, false)", self.is_dead())
    }

    /// Where replays are rows of their own: that there is no later one of the event.
    pub(super) fn is_newest(&self) -> String {
        let mapping = &self.inner.mapping;
        if self.entries || mapping.replay_suffix.is_none() {
            return String::new();
        }
        let other = self.writer.called("c");
        let place_in_order = |writer: &Writer<'_>| {
            let columns = mapping.order.iter().chain([&mapping.row]).map(|name| writer.of(name));
            columns.collect::<Vec<_>>().join(", ")
        };
        format!(
            " and not exists (select 1 from {} c where {} = {} and ({}) > ({}))",
            mapping.table.quoted(),
            other.text(&mapping.event.id),
            self.writer.text(&mapping.event.id),
            place_in_order(&other),
            place_in_order(&self.writer)
        )
    }

    fn has_word(&self, path: &ColumnPath, word: &str) -> String {
        let column = if path.path.is_empty() { self.writer.of(&path.column) } else { self.writer.text(path) };
        format!("{column} = {}", literal(word))
    }

    /// Whether a row is to be delivered, now or later.
    pub(super) fn is_pending(&self) -> String {
        if self.entries {
            return "s.due is not null".to_owned();
        }
        let pending = crate::sql::open(&self.inner.mapping, &self.writer);
        match self.inner.mapping.death {
            Death::Parked => format!("{pending} and (s.state is null or s.state <> 'dead')"),
            Death::AsDone => format!("{pending} and coalesce(s.held, 0) = 0"),
            Death::Word(_) => pending,
        }
    }

    /// When a row is tried next; null when nothing stands in its way.
    pub(super) fn next_attempt(&self) -> String {
        match self.inner.mapping.next_attempt.as_ref().filter(|_| !self.entries) {
            Some(path) => or_beside(&self.inner.mapping, &self.writer, path, self.writer.moment(path), "s.due"),
            None => "s.due".to_owned(),
        }
    }

    /// The state of a row, as a word: dead, delivered, retrying or due.
    pub(super) fn state(&self) -> String {
        format!(
            "case when {} then 'dead' when not ({}) then 'delivered' when {next} > {} then 'retrying' else 'due' end",
            self.is_dead(),
            self.is_pending(),
            self.now(),
            next = self.next_attempt()
        )
    }

    /// Whether a row is in one of these states; it is never blocked or delayed.
    pub(super) fn in_state(&self, states: &[DeliveryState]) -> String {
        if states == [DeliveryState::Dead] {
            return self.is_dead();
        }
        let words: Vec<String> = states.iter().map(|state| literal(state.as_str())).collect();
        let dead = if states.contains(&DeliveryState::Dead) { self.is_dead() } else { "false".to_owned() };
        format!("(({}) or ({dead})) and {} in ({})", self.is_pending(), self.state(), words.join(", "))
    }

    /// The last failure of a row, as text.
    pub(super) fn error(&self) -> String {
        let there = self.inner.mapping.error.as_ref().filter(|_| !self.entries);
        there.map_or_else(|| "s.error".to_owned(), |path| format!("coalesce(s.error, {})", self.writer.text(path)))
    }

    /// Since when a row is in its state, as far as it is known.
    pub(super) fn since(&self) -> String {
        format!("coalesce(s.since, {})", self.appended_at())
    }

    /// Failed tries.
    pub(super) fn attempts(&self) -> String {
        let counted = "cast(coalesce(s.attempts, 0) as text)";
        // Where rows are claimed in columns, their own column counts claims.
        let apart = self.entries || self.inner.mapping.claimed().is_some();
        match self.inner.mapping.attempts.as_ref().filter(|_| !apart) {
            Some(path) => {
                let there = format!("coalesce({}, '0')", self.writer.text(path));
                or_beside(&self.inner.mapping, &self.writer, path, there, counted)
            }
            None => counted.to_owned(),
        }
    }

    /// The number that lists go by: the row's own, or its time in microseconds.
    pub(super) fn position(&self) -> String {
        if self.entries {
            return "s.position".to_owned();
        }
        position(&self.inner.mapping, &self.writer, &self.now())
    }

    /// Whether the position of a row stays what it is: a row without a number and a time has that of the moment.
    pub(super) fn has_positions(&self) -> bool {
        self.entries || self.has_numbers() || self.inner.mapping.appended_at(&self.inner.columns).is_some()
    }

    fn has_numbers(&self) -> bool {
        let row = self.inner.columns.get(&self.inner.mapping.row);
        row.is_some_and(|column| column.holds == crate::sql::columns::Holds::Integer)
    }
}

/// A column of a row.
pub(super) fn text(row: &[Option<String>], n: usize) -> Option<String> {
    row.get(n).cloned().flatten()
}

/// A number in a column of a row.
pub(super) fn number<T: std::str::FromStr + Default>(row: &[Option<String>], n: usize) -> T {
    row.get(n).and_then(Option::as_deref).and_then(|text| text.parse().ok()).unwrap_or_default()
}
