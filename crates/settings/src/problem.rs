//! What is wrong with a configuration: every problem with its place, its line and the next step.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use postroom_core::units::format_duration;

use crate::tree::{Node, Origin, Place, Table};

/// Problem of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Message of one line. Names the variable if the value comes from the environment.
    pub message: String,
    /// File of the problem.
    pub file: Option<PathBuf>,
    /// Line, from 1.
    pub line: Option<usize>,
    /// Column, from 1, in characters.
    pub column: Option<usize>,
    /// The line itself with a caret under the place, over two lines. Absent where a password may stand.
    pub snippet: Option<String>,
    /// The next step.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem without a place.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), file: None, line: None, column: None, snippet: None, hint: None }
    }

    /// Adds the next step.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(file), Some(line), Some(column)) = (&self.file, self.line, self.column) {
            write!(f, "{}:{line}:{column}: ", file.display())?;
        }
        f.write_str(&self.message)?;
        if let Some(snippet) = &self.snippet {
            write!(f, "\n{snippet}")?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}

/// Everything that is wrong, at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// At least one, in the order of the file; then environment and command line.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.problems.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }
}

/// Collects problems while a configuration is read.
#[derive(Debug, Default)]
pub struct Problems {
    lines: Vec<String>,
    list: Vec<Problem>,
}

impl Problems {
    /// Remembers the file's text, to show lines of it.
    pub fn show_lines_of(&mut self, text: &str) {
        self.lines = text.lines().map(str::to_owned).collect();
    }

    /// Something is wrong at this place.
    pub fn at(&mut self, place: &Place, message: impl Into<String>, hint: Option<String>) {
        let message = message.into();
        let problem = match &place.origin {
            Origin::File { path, line } => Problem {
                message,
                file: Some(path.clone()),
                line: Some(*line),
                column: Some(place.column),
                snippet: self.snippet(*line, place),
                hint,
            },
            Origin::Preset { name, .. } => Problem { hint, ..Problem::new(format!("preset {name}: {message}")) },
            Origin::Environment { variable } => Problem { hint, ..Problem::new(format!("{variable}: {message}")) },
            Origin::Flag => Problem { hint, ..Problem::new(format!("on the command line: {message}")) },
            Origin::Default => Problem { hint, ..Problem::new(message) },
        };
        if !self.list.contains(&problem) {
            self.list.push(problem);
        }
    }

    /// What a file that a key names holds, without the white space around it; nothing when that has been reported.
    pub fn text_of_file(&mut self, cwd: &Path, file: &Node, what: &str) -> Option<String> {
        let path = file.text().filter(|p| !p.is_empty())?;
        let read = std::fs::read_to_string(cwd.join(path));
        match read.map(|text| text.trim().to_owned()) {
            Ok(text) if text.is_empty() => {
                self.at(&file.place, format!("the file {path} is empty; it must hold {what}"), None);
                None
            }
            Ok(text) => Some(text),
            Err(error) => {
                self.at(&file.place, format!("cannot read {path}: {}", reason(&error)), None);
                None
            }
        }
    }

    /// Says when the lower of two bounds is above the higher one, at whichever of them somebody set.
    pub fn in_order(&mut self, table: &Table, low: (&str, Duration), high: (&str, Duration)) {
        let set = |name| table.get(name).filter(|n| !n.is_default());
        if low.1 > high.1
            && let Some(node) = set(low.0).or_else(|| set(high.0))
        {
            let (low, high) = ((low.0, format_duration(low.1)), (high.0, format_duration(high.1)));
            let message = format!("`{}` = {} is longer than `{}` = {}", low.0, low.1, high.0, high.1);
            self.at(&node.place, message, None);
        }
    }

    /// Something is wrong that has no place.
    pub fn push(&mut self, problem: Problem) {
        self.list.push(problem);
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The error, in the order of the file.
    pub fn into_error(mut self) -> ConfigError {
        self.list.sort_by_key(|p| (p.line.is_none(), p.line, p.column));
        ConfigError { problems: self.list }
    }

    fn snippet(&self, line: usize, place: &Place) -> Option<String> {
        let text = self.lines.get(line.checked_sub(1)?)?;
        // Such a line may hold a password, whatever the problem on it is.
        let lower = text.to_lowercase();
        let doubtful = ["://", "pass", "secret", "token", "credential", "_key", "apikey"];
        if doubtful.iter().any(|word| lower.contains(word)) || text.trim().is_empty() {
            return None;
        }
        let start = place.column.saturating_sub(1);
        let before: String = text.chars().take(start).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let carets = "^".repeat(place.width.min(text.chars().count().saturating_sub(start)).max(1));
        Some(format!("{line:4} | {text}\n     | {before}{carets}"))
    }
}

/// Why a file cannot be read, for people.
pub fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "it does not exist".to_owned(),
        std::io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// The known word nearest to a mistyped one, if it is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = (word.chars().count() / 3).clamp(1, 4);
    let distance = |candidate: &str| strsim::damerau_levenshtein(&word.to_lowercase(), &candidate.to_lowercase());
    known.into_iter().map(|c| (distance(c), c)).filter(|(d, _)| *d <= near).min_by_key(|(d, _)| *d).map(|(_, c)| c)
}

/// `did you mean …?` if something known is near, else what there is to choose from.
pub fn suggest(word: &str, known: &[&str]) -> Option<String> {
    match nearest(word, known.iter().copied()) {
        Some(near) => Some(format!("did you mean `{near}`?")),
        None if known.is_empty() => None,
        None => Some(format!("known: {}", known.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_word_is_suggested_and_a_far_one_is_not() {
        assert_eq!(nearest("leese", ["lease", "take"]), Some("lease"));
        assert_eq!(nearest("LEASE", ["lease", "take"]), Some("lease"));
        assert_eq!(nearest("banana", ["lease", "take"]), None);
        assert_eq!(suggest("banana", &["lease", "take"]).unwrap(), "known: lease, take");
    }

    #[test]
    fn a_line_with_a_url_is_never_shown() {
        let mut problems = Problems::default();
        problems.show_lines_of("url = \"postgres://u:canary@h/d\"\nok = 1");
        let origin = |line| Origin::File { path: "f".into(), line };
        problems.at(&Place { origin: origin(1), column: 1, width: 3 }, "bad", None);
        problems.at(&Place { origin: origin(2), column: 6, width: 1 }, "worse", None);
        let text = problems.into_error().to_string();
        assert_eq!(text, "f:1:1: bad\nf:2:6: worse\n   2 | ok = 1\n     |      ^");
    }
}
