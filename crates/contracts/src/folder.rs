//! Schemas in a folder: `TYPE.json`, or `TYPE@2.json` for one version.

use std::fs;
use std::io;
use std::path::Path;

/// Returns the file name of a schema; `None` if the type cannot be part of a file name.
pub fn file_name(event_type: &str, version: Option<i32>) -> Option<String> {
    let odd = |c: char| c.is_control() || matches!(c, '/' | '\\' | '@');
    if event_type.is_empty() || event_type.starts_with('.') || event_type.contains(odd) {
        return None;
    }
    Some(version.map_or_else(|| format!("{event_type}.json"), |version| format!("{event_type}@{version}.json")))
}

/// Parses the name of a schema: `TYPE` or `TYPE@2`.
pub fn read_name(text: &str) -> Option<(String, Option<i32>)> {
    match text.rsplit_once('@') {
        Some((name, version)) => Some((name.to_owned(), Some(version.parse().ok().filter(|n| *n >= 1)?))),
        None => Some((text.to_owned(), None)),
    }
    .filter(|(name, _)| !name.is_empty())
}

/// File with a schema.
#[derive(Debug)]
pub struct SchemaFile {
    /// Name of the file.
    pub name: String,
    /// Type and version of the schema; `None` if the name has none.
    pub means: Option<(String, Option<i32>)>,
    /// Text of the file.
    pub text: io::Result<String>,
}

/// Reads the schemas of a folder, in order of their names. Files that do not end in `.json` are ignored.
pub fn read_folder(folder: &Path) -> io::Result<Vec<SchemaFile>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(stem) = name.strip_suffix(".json").filter(|stem| !stem.starts_with('.')) {
            let (means, text) = (read_name(stem), fs::read_to_string(entry.path()));
            found.push(SchemaFile { name, means, text });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_type_and_version() {
        assert_eq!(read_name("order.placed"), Some(("order.placed".to_owned(), None)));
        assert_eq!(read_name("order.placed@2"), Some(("order.placed".to_owned(), Some(2))));
        for bad in ["", "@2", "a@", "a@0", "a@x", "a@-1"] {
            assert_eq!(read_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_type_that_leads_elsewhere_has_no_file() {
        assert_eq!(file_name("order.placed", Some(2)).as_deref(), Some("order.placed@2.json"));
        for bad in ["", "../x", "a/b", "a\\b", ".hidden", "a@2", "a\nb"] {
            assert_eq!(file_name(bad, None), None, "{bad:?}");
        }
    }
}
