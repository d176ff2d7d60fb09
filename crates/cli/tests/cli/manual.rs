//! What a package takes from the program: manual pages, completions, the schema of the configuration.

use std::fs;
use std::process::Command;

use crate::world::World;

#[test]
fn every_command_has_a_manual_page_that_man_reads_without_a_warning() {
    let world = World::bare();
    let said = world.ok(&["man", "--dir", "pages"]);
    let pages = fs::read_dir(world.path("pages")).unwrap().count();
    assert_eq!(said, format!("wrote {pages} pages into pages\n"));
    for (command, purpose) in [
        ("postroom", "postroom \\- Deliver every committed event"),
        ("postroom-relay-run", "postroom\\-relay\\-run \\- Run a relay that delivers events"),
        ("postroom-store-migrate-up", "postroom\\-store\\-migrate\\-up"),
    ] {
        let page = fs::read_to_string(world.path(&format!("pages/{command}.1"))).unwrap();
        for part in [purpose, ".SH EXAMPLES\n  postroom ", ".SH \"EXIT STATUS\"\n0 "] {
            assert!(page.contains(part), "{command} has no {part}: {page}");
        }
    }
    assert_eq!(world.ok(&["man"]), fs::read_to_string(world.path("pages/postroom.1")).unwrap());
    let strict = "for page in pages/*.1; do groff -Kutf8 -man -Tutf8 -ww \"$page\" > /dev/null || exit 1; done";
    let output = Command::new("sh").args(["-c", strict]).current_dir(world.folder()).output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let world = World::bare();
    let said = world.run(&["man", "--dir", "postroom.toml/pages"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("cannot write into postroom.toml/pages"), "{}", said.stderr);
}

#[cfg(all(
    feature = "postgres",
    feature = "kafka",
    feature = "rabbitmq",
    feature = "nats",
    feature = "redis",
    feature = "webhook"
))]
#[test]
fn the_schema_that_is_printed_is_the_one_in_the_docs() {
    let printed: serde_json::Value = serde_json::from_str(&World::bare().ok(&["config", "schema"])).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&crate::docs::page("docs/config.schema.json")).unwrap();
    assert_eq!(printed, kept);
}
