//! Configuration as data: a program lists its [`Key`]s in a [`Definition`]; everything else is made from the list.
//!
//! A program goes through the files of this crate in order: `parse` a file into a [`Table`], `merge` it over another one, `layer`
//! environment, flags and defaults around it, `check` it against the keys. What the values mean is the program's; it says what is wrong
//! with them through [`Problems`]. `show` tells what is in force; `schema`, `reference` and `init` write the pages for people and editors.
//!
//! What a value may be is [`Kind`]'s; a program adds kinds of text of its own with [`Custom`].

mod check;
mod definition;
mod init;
mod keys;
mod layer;
mod merge;
mod parse;
mod path;
mod problem;
mod reference;
mod renamed;
mod schema;
mod show;
mod tree;

pub use definition::{Definition, Init};
pub use keys::{ANY, Custom, Key, Kind, SOME, Wrong, absent, key, optional, table};
pub use parse::{default_value, file, preset};
pub use path::spelt;
pub use problem::{ConfigError, Problem, Problems, nearest, reason, suggest};
pub use show::Setting;
pub use tree::{Data, Entry, Node, Origin, Place, Table};
