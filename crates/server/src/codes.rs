//! List of all codes: of the transports in this build, of the server, and shared ones.

use std::fmt::Write as _;

use postroom_core::codes::{CODES as SHARED, Code, Section};

use crate::transports::kinds;

/// Finds the entry that explains a code.
pub fn find(code: &str) -> Option<&'static Code> {
    all().find(|known| known.explains(code))
}

/// Returns every code, section by section.
pub fn all() -> impl Iterator<Item = &'static Code> {
    groups().into_iter().flatten().flat_map(|section| section.codes)
}

/// Renders every code as a section of `docs/failures.md`.
pub fn page() -> String {
    let mut page = String::new();
    for group in groups() {
        let title = group.first().map_or("", |section| section.title);
        let about: String = group.iter().map(|section| section.about).filter(|text| !text.is_empty()).collect();
        let about = if about.is_empty() { about } else { format!("{about}\n\n") };
        let _ = write!(page, "### {title}\n\n{about}| code | kind | cause | next step |\n| --- | --- | --- | --- |\n");
        for known in group.iter().flat_map(|section| section.codes) {
            let Code { code, kind, cause, next } = known;
            let several = if known.is_numbered() { " and so on" } else { "" };
            let _ = writeln!(page, "| `{code}`{several} | {kind} | {cause} | {next} |");
        }
        page.push('\n');
    }
    page.trim_end().to_owned()
}

/// Groups sections by title, each group at the place of its last section.
fn groups() -> Vec<Vec<&'static Section>> {
    let mut groups: Vec<Vec<&'static Section>> = Vec::new();
    for section in sections() {
        let same = groups.iter().position(|group| group.first().is_some_and(|first| first.title == section.title));
        let mut group = same.map(|at| groups.remove(at)).unwrap_or_default();
        group.push(section);
        groups.push(group);
    }
    groups
}

fn sections() -> impl Iterator<Item = &'static Section> {
    let of_kinds = kinds().map(|kind| kind.codes);
    BEFORE.iter().copied().chain(of_kinds).chain(AFTER.iter().copied()).flatten()
}

static BEFORE: &[&[Section]] = &[
    postroom_relay::CODES,
    #[cfg(feature = "contracts")]
    postroom_contracts::CODES,
];

static AFTER: &[&[Section]] = &[
    postroom_consumer::CODES,
    #[cfg(feature = "http")]
    crate::http::CODES,
    crate::doctor::CODES,
    #[cfg(feature = "adopted")]
    postroom_adopted::CODES,
    SHARED,
];
