//! A row that a statement brought, whatever database it comes from.

use std::sync::Arc;

use jiff::Timestamp;
use postroom_core::{StoreError, StoreErrorKind};

use crate::timestamp;

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing.
    Null,
    /// Text, or JSON as text.
    Text(String),
    /// A whole number; a time as microseconds since 1970; a flag as 0 or 1.
    Int(i64),
    /// A number.
    Float(f64),
}

/// One row, read by the names of its columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    columns: Arc<[String]>,
    cells: Vec<Cell>,
}

impl Row {
    /// A row of these columns.
    pub fn new(columns: Arc<[String]>, cells: Vec<Cell>) -> Self {
        Self { columns, cells }
    }

    fn cell(&self, column: &str) -> Result<&Cell, StoreError> {
        let at = self.columns.iter().position(|name| name == column);
        at.and_then(|at| self.cells.get(at)).ok_or_else(|| odd(column, "is missing"))
    }

    /// A text.
    pub fn text(&self, column: &str) -> Result<String, StoreError> {
        self.maybe_text(column)?.ok_or_else(|| odd(column, "is null"))
    }

    /// A text that may be null.
    pub fn maybe_text(&self, column: &str) -> Result<Option<String>, StoreError> {
        match self.cell(column)? {
            Cell::Null => Ok(None),
            Cell::Text(text) => Ok(Some(text.clone())),
            Cell::Int(_) | Cell::Float(_) => Err(odd(column, "is no text")),
        }
    }

    /// A whole number.
    pub fn int(&self, column: &str) -> Result<i64, StoreError> {
        self.maybe_int(column)?.ok_or_else(|| odd(column, "is null"))
    }

    /// A whole number that may be null.
    pub fn maybe_int(&self, column: &str) -> Result<Option<i64>, StoreError> {
        match self.cell(column)? {
            Cell::Null => Ok(None),
            Cell::Int(number) => Ok(Some(*number)),
            Cell::Text(_) | Cell::Float(_) => Err(odd(column, "is no whole number")),
        }
    }

    /// A number of things.
    pub fn count(&self, column: &str) -> Result<u64, StoreError> {
        Ok(u64::try_from(self.int(column)?).unwrap_or(0))
    }

    /// A number that may be null.
    pub fn maybe_float(&self, column: &str) -> Result<Option<f64>, StoreError> {
        match self.cell(column)? {
            Cell::Null => Ok(None),
            Cell::Float(number) => Ok(Some(*number)),
            #[allow(clippy::cast_precision_loss, reason = "SQLite keeps 5.0 as 5")]
            Cell::Int(number) => Ok(Some(*number as f64)),
            Cell::Text(_) => Err(odd(column, "is no number")),
        }
    }

    /// A flag.
    pub fn flag(&self, column: &str) -> Result<bool, StoreError> {
        Ok(self.int(column)? != 0)
    }

    /// A time.
    pub fn time(&self, column: &str) -> Result<Timestamp, StoreError> {
        self.int(column).map(timestamp)
    }

    /// A time that may be null.
    pub fn maybe_time(&self, column: &str) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.maybe_int(column)?.map(timestamp))
    }
}

/// The error of a column that does not hold what it should.
pub(crate) fn odd(column: &str, what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::UnexpectedSchema, "read", format!("column {column:?} {what}"))
        .hint("undo what was changed in the tables by hand; `postroom store migrate status` shows their version")
}
