//! Lays one tree over another: a file over a preset, key by key.
//!
//! Tables and entries of lists that have names by these; other lists as a whole.

use crate::keys::{Key, Kind};
use crate::layer::twin;
use crate::tree::{Data, Entry, Node, Table};

/// Lays `upper` over `lower`.
pub(crate) fn over(keys: &'static [Key], lower: &mut Table, upper: Table) {
    table(keys, lower, upper);
}

fn table(keys: &'static [Key], lower: &mut Table, upper: Table) {
    for entry in upper.0 {
        let kind = keys.iter().find(|key| key.name == entry.name).map(|key| &key.kind);
        put(kind, lower, entry);
    }
}

fn put(kind: Option<&'static Kind>, lower: &mut Table, entry: Entry) {
    let Entry { name, place, node } = entry;
    // A secret by a file replaces one that is written out, and the other way round.
    lower.remove(&twin(&name));
    match (kind, lower.get_mut(&name).map(|node| &mut node.data), node.data) {
        (
            Some(
                Kind::Table(keys)
                | Kind::Section(keys)
                | Kind::Shared { keys, .. }
                | Kind::Either(_, Kind::Table(keys)),
            ),
            Some(Data::Table(below)),
            Data::Table(above),
        ) => table(keys, below, above),
        (Some(Kind::Choice(keys)), Some(Data::Table(below)), Data::Table(above)) => {
            below.0.retain(|entry| above.get(&entry.name).is_some());
            table(keys, below, above);
        }
        (Some(Kind::Named(keys) | Kind::Open(Kind::Table(keys))), Some(Data::Table(below)), Data::Table(above)) => {
            named(keys, below, above);
        }
        (Some(Kind::Listed(keys)), Some(Data::List(below)), Data::List(above)) => listed(keys, below, above),
        (_, _, data) => {
            lower.remove(&name);
            lower.0.push(Entry { name, place, node: Node { data, place: node.place } });
        }
    }
}

fn named(keys: &'static [Key], lower: &mut Table, upper: Table) {
    for Entry { name, place, node } in upper.0 {
        match (lower.get_mut(&name).map(|node| &mut node.data), node.data) {
            (Some(Data::Table(below)), Data::Table(above)) => table(keys, below, above),
            (_, data) => {
                lower.remove(&name);
                lower.0.push(Entry { name, place, node: Node { data, place: node.place } });
            }
        }
    }
}

fn listed(keys: &'static [Key], lower: &mut Vec<Node>, upper: Vec<Node>) {
    for node in upper {
        let name = node.table().and_then(|table| table.text("name")).map(str::to_owned);
        let below = lower.iter_mut().find(|node| {
            let other = node.table().and_then(|table| table.text("name"));
            name.is_some() && other == name.as_deref()
        });
        match (below.map(|node| &mut node.data), node.data) {
            (Some(Data::Table(below)), Data::Table(above)) => table(keys, below, above),
            (_, data) => lower.push(Node { data, place: node.place }),
        }
    }
}
