//! Keys that were renamed: a configuration that still has the old name is told the new one.
//!
//! No old name is accepted. Names that are only mistyped are [`crate::problem::suggest`]'s.

use crate::definition::Definition;
use crate::path::resolve;
use crate::tree::Table;

/// Suggests the new name of a key, if the section has a key of that name.
pub(crate) fn key(definition: &Definition, old: &str, section: &[&str]) -> Option<String> {
    let new = renamed(definition, old)?;
    section.contains(&new).then(|| format!("did you mean `{new}`?"))
}

/// Finds the path that a variable or a flag with old names means.
///
/// Parts are replaced from the end on, until the path is one: a store may have the old name of a key.
pub(crate) fn path(definition: &Definition, tree: &Table, path: &str, separator: &str) -> Option<Vec<String>> {
    let mut parts: Vec<&str> = path.split(separator).collect();
    for at in (0..parts.len()).rev() {
        let Some(new) = renamed(definition, &parts[at].to_ascii_lowercase()) else { continue };
        parts[at] = new;
        if let Some((path, _)) = resolve(definition.root, tree, &parts.join(separator), separator) {
            return Some(path);
        }
    }
    None
}

fn renamed(definition: &Definition, old: &str) -> Option<&'static str> {
    definition.renamed.iter().find(|(name, _)| *name == old).map(|(_, new)| *new)
}
