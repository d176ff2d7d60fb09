//! The page and the programs are the same texts.

use std::fs;

use crate::languages::folder;

fn text() -> String {
    fs::read_to_string(folder().with_extension("md")).unwrap()
}

#[test]
fn the_page_shows_every_program_as_it_is_run() {
    let page = text();
    for (language, file) in [
        ("sql", "psql.sql"),
        ("python", "snippet.py"),
        ("js", "snippet.js"),
        ("go", "go/snippet.go"),
        ("java", "Snippet.java"),
        ("sql", "forms.sql"),
    ] {
        let program = fs::read_to_string(folder().join(file)).unwrap();
        let shown = page.contains(&format!("\n```{language}\n{program}```\n"));
        assert!(shown, "docs/languages.md does not show docs/languages/{file} as it is: copy the file into the page");
    }
}

/// The rows of the page's table of errors: call, SQLSTATE, message.
pub(crate) fn refusals() -> Vec<[String; 3]> {
    let row = |line: &str| {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(|cell| cell.trim().replace('`', "")).collect();
        <[String; 3]>::try_from(cells).unwrap()
    };
    text().lines().filter(|line| line.starts_with("| `s")).map(row).collect()
}
