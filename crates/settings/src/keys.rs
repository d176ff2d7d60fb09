//! What a program can be told, as data.
//!
//! Validation, defaults, names of environment variables and every page are made from these keys.

use std::time::Duration;

/// Key of the settings.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Name of the key.
    pub name: &'static str,
    /// Kind of value.
    pub kind: Kind,
    /// Default as TOML; empty if there is none.
    pub default: &'static str,
    /// Description of one line.
    pub doc: &'static str,
    /// Example as TOML for a commented file; empty shows the default.
    pub example: &'static str,
}

/// Kind of value of a key.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Any text that is not empty.
    Text,
    /// Any text.
    AnyText,
    /// Text that is never shown with its password.
    Secret,
    /// Text that is never shown.
    Password,
    /// `true` or `false`.
    Flag,
    /// A path; relative to the working folder.
    Path,
    /// Text of a kind that only this program knows.
    Custom(&'static Custom),
    /// `"30s"`, not shorter than this.
    Duration(Duration),
    /// `"7d"` or `"never"`.
    DurationOrNever,
    /// A whole number from 1, or `never`.
    CountOrNever,
    /// `"4MiB"`, at least one byte.
    Size,
    /// `"50/s"`.
    Rate,
    /// A whole number from 1.
    Count,
    /// A whole number between these two, both included.
    Between(u32, u32),
    /// A number from 0 to 1.
    Share,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list with at least one entry.
    List(&'static Kind),
    /// A list that may be empty.
    Listing(&'static Kind),
    /// A table with these keys; always there.
    Table(&'static [Key]),
    /// A table with these keys that is there only when somebody writes it.
    Section(&'static [Key]),
    /// Tables whose keys stand in for those that entries of a list leave out; nothing in them has a default of its own.
    Shared {
        /// The tables.
        keys: &'static [Key],
        /// Name of the list, of the kind [`Kind::Listed`].
        list: &'static str,
        /// Key of its entries, of the kind [`Kind::Choice`], that has such tables.
        choice: &'static str,
    },
    /// A table with exactly one of these keys.
    Choice(&'static [Key]),
    /// Tables by a name of the user's: `[server.NAME]`.
    Named(&'static [Key]),
    /// A list of tables, each with a `name`: `[[job]]`.
    Listed(&'static [Key]),
    /// Any names in the order written, each with such a value.
    Open(&'static Kind),
    /// A value of the first kind, or of the second.
    Either(&'static Kind, &'static Kind),
    /// Something that another build of the program knows: it is listed nowhere, and whoever writes it is told.
    Absent {
        /// What it is: ``part `x` ``.
        what: &'static str,
        /// The feature that brings it.
        feature: &'static str,
    },
}

/// Kind of text that only one program knows.
#[derive(Debug)]
pub struct Custom {
    /// Name of the kind in the JSON Schema.
    pub name: &'static str,
    /// Name of the kind in a problem: `a time`.
    pub what: &'static str,
    /// Name of the kind in the reference.
    pub reference: &'static str,
    /// Regular expression of valid texts.
    pub shape: &'static str,
    /// What to do about an empty list of them.
    pub empty: Option<&'static str>,
    /// Says what is wrong with a text.
    pub check: fn(&str) -> Result<(), Wrong>,
}

/// Error of a text.
#[derive(Debug)]
pub struct Wrong {
    /// Message that follows the key.
    pub message: String,
    /// Next step.
    pub hint: Option<String>,
}

impl Kind {
    /// Whether this build has it.
    pub fn is_here(&self) -> bool {
        !matches!(self, Self::Absent { .. })
    }

    /// Whether other keys stand below it, rather than a value.
    pub fn is_structure(&self) -> bool {
        matches!(
            self,
            Self::Table(_)
                | Self::Section(_)
                | Self::Shared { .. }
                | Self::Choice(_)
                | Self::Named(_)
                | Self::Listed(_)
                | Self::Absent { .. }
        )
    }
}

/// The keys that this build has.
pub(crate) fn here(keys: &'static [Key]) -> impl Iterator<Item = &'static Key> {
    keys.iter().filter(|key| key.kind.is_here())
}

/// Defines a key with a default.
pub const fn key(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key { name, kind, default, doc, example: "" }
}

/// Defines a key without a default, with an example.
pub const fn optional(name: &'static str, kind: Kind, example: &'static str, doc: &'static str) -> Key {
    Key { name, kind, default: "", doc, example }
}

/// Defines a table of keys.
pub const fn table(name: &'static str, keys: &'static [Key], doc: &'static str) -> Key {
    Key { name, kind: Kind::Table(keys), default: "", doc, example: "" }
}

/// Defines a key that another build has, with the feature that adds it.
pub const fn absent(name: &'static str, what: &'static str, feature: &'static str) -> Key {
    Key { name, kind: Kind::Absent { what, feature }, default: "", doc: "", example: "" }
}

/// Any duration.
pub const ANY: Kind = Kind::Duration(Duration::ZERO);
/// A duration that is not zero.
pub const SOME: Kind = Kind::Duration(Duration::from_millis(1));
