//! `docs/config.md` lists the keys as they are. `cargo xtask docs` writes them anew.

#![allow(clippy::expect_used, reason = "helpers of tests")]

use std::path::PathBuf;

const BEGIN: &str = "<!-- begin: made by `cargo xtask docs` -->\n";
const END: &str = "<!-- end -->";

#[test]
fn the_page_of_the_configuration_lists_every_key_as_it_is() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let (before, rest) = page.split_once(BEGIN).expect("the page has a place for the keys");
    let (_, after) = rest.split_once(END).expect("that place ends");
    let fresh = format!("{before}{BEGIN}\n{}\n{END}{after}", postroom_server::config::reference());
    if std::env::var_os("POSTROOM_WRITE_DOCS").is_some() {
        std::fs::write(&path, fresh).expect("the page can be written");
    } else {
        assert!(page == fresh, "docs/config.md is stale; run `cargo xtask docs`");
    }
}
