//! Another user of the machine who looks at files.

#![allow(clippy::unwrap_used, reason = "what cannot be run fails the test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::world::World;

#[test]
fn files_with_secrets_are_their_owners_alone() {
    let world = World::bare();
    let run = |line: &str| {
        let output = world.command(&[]).get_program().to_owned();
        let line = format!("umask 022; {} {line}", output.display());
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &line]).current_dir(world.folder()).env_clear();
        let done = shell.output().unwrap();
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    run("store migrate up");
    run("event append --type order.placed");
    run("config init --config new.toml");
    assert_eq!(run("webhook key --file whsec"), "wrote whsec\n");
    let pair = run("webhook key --ed25519 --file whsk");
    assert!(pair.starts_with("wrote whsk\nwhpk_"), "{pair}");
    for name in ["shop.db", "new.toml", "whsec", "whsk"] {
        let mode = fs::metadata(world.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    for name in ["shop.db-wal", "shop.db-shm"] {
        let mode = fs::metadata(world.path(name)).map_or(0o600, |file| file.permissions().mode());
        assert_eq!(mode & 0o077, 0, "{name}");
    }
    assert!(!world.run(&["doctor"]).stdout.contains("doctor.readable_file"));
    fs::set_permissions(world.path("shop.db"), fs::Permissions::from_mode(0o644)).unwrap();
    let said = world.run(&["doctor"]).stdout;
    assert!(
        said.contains("doctor.readable_file: every user of this machine can read ") && said.contains("shop.db"),
        "{said}"
    );
}
