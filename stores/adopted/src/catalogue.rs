//! A table as the database's catalogue has it, for what applications open themselves: an inbox, a guarded state.

use postroom_core::{StoreError, StoreErrorKind};

use crate::mapping::{Name, NameError, TableName};
use crate::sql::columns::{Column, Columns};

/// What a store read about one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalogue {
    /// The table, with its schema where the database has schemas.
    pub table: TableName,
    /// Its columns.
    pub columns: Columns,
    /// Columns that every insert must give: not null, and nothing fills them.
    pub wanted: Vec<Name>,
    /// Columns of each unique constraint or index that holds for every row, at once and byte by byte.
    pub uniques: Vec<Vec<Name>>,
}

impl Catalogue {
    /// A column that is meant by `what`.
    pub(crate) fn column(&self, name: &Name, what: &str) -> Result<&Column, StoreError> {
        self.columns.get(name).ok_or_else(|| {
            let there: Vec<String> = self.columns.0.keys().map(ToString::to_string).collect();
            refused(format!("table {} has no column {name} for {what}", self.table))
                .hint(format!("it has {}; name the one that is meant", there.join(", ")))
        })
    }

    /// Whether exactly these columns are unique together.
    pub(crate) fn is_unique(&self, columns: &[&Name]) -> bool {
        self.uniques
            .iter()
            .any(|unique| unique.len() == columns.len() && unique.iter().all(|name| columns.contains(&name)))
    }
}

/// The error of a table that is not there.
pub fn missing_table(table: &TableName) -> StoreError {
    StoreError::new(StoreErrorKind::NotFound, "open", format!("there is no table {table}"))
        .hint("create it, or write its name with its schema")
}

/// The error of a table that does not do.
pub(crate) fn refused(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::UnexpectedSchema, "open", message)
}

impl From<NameError> for StoreError {
    fn from(error: NameError) -> Self {
        Self::new(StoreErrorKind::Invalid, "open", error.to_string()).hint("correct the name of the table or column")
    }
}

/// How a value that comes as text becomes a column's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As it is.
    Text,
    /// It must be a UUID.
    Uuid,
    /// It must be a whole number.
    Integer,
    /// A word of the database's own type.
    Other,
}

impl Kind {
    pub(crate) fn of(column: &Column) -> Self {
        let name = column.sql_type.to_ascii_lowercase();
        if name == "uuid" {
            Self::Uuid
        } else if ["text", "char", "clob", "citext"].iter().any(|word| name.contains(word)) || name.is_empty() {
            Self::Text
        } else if name.contains("int") {
            Self::Integer
        } else {
            Self::Other
        }
    }

    /// Says no to a value before the database does: its no would spoil the caller's transaction.
    pub(crate) fn check(
        self,
        what: &str,
        column: &Name,
        value: &str,
        operation: &'static str,
    ) -> Result<(), StoreError> {
        let (fits, wanted) = match self {
            Self::Uuid => (is_uuid(value), "a UUID"),
            Self::Integer => (value.parse::<i64>().is_ok(), "a whole number"),
            Self::Text | Self::Other => (!value.contains('\0'), "a text without zero bytes"),
        };
        if fits {
            return Ok(());
        }
        let message = format!("the {what} {value:?} is not {wanted}, which column {column} wants");
        Err(StoreError::new(StoreErrorKind::Invalid, operation, message)
            .hint("check that these events are meant for this table, or make the column text"))
    }
}

/// As databases and libraries write it: 32 hexadecimal digits, with hyphens at their places or without.
fn is_uuid(text: &str) -> bool {
    let hyphens = [8, 13, 18, 23];
    match text.len() {
        32 => text.bytes().all(|b| b.is_ascii_hexdigit()),
        36 => {
            text.bytes().enumerate().all(|(n, b)| if hyphens.contains(&n) { b == b'-' } else { b.is_ascii_hexdigit() })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_told_from_other_ids() {
        for good in ["0190f3c0-1111-7abc-8def-0123456789ab", "0190F3C011117ABC8DEF0123456789AB"] {
            assert!(is_uuid(good), "{good}");
        }
        for bad in [
            "",
            "01HYABCDEF1234567890QRST",
            "0190f3c0-1111-7abc-8def-0123456789a",
            "0190f3c0_1111_7abc_8def_0123456789ab",
        ] {
            assert!(!is_uuid(bad), "{bad}");
        }
    }
}
