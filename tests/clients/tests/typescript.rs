//! TypeScript: `node --test` against the packed package, as it is installed, and the compiler against its types.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use postroom_client_packages::{Shop, cached, clients, run};

/// Where the compiler and the drivers of the tests are.
fn modules() -> PathBuf {
    let list = clients().join("typescript/package.json");
    let text = fs::read_to_string(&list).unwrap();
    let folder = cached("typescript", &text, |folder| {
        fs::copy(&list, folder.join("package.json")).unwrap();
        let npm =
            ["install", "--silent", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--prefix"];
        run(Command::new("npm").args(npm).arg(folder));
    });
    folder.join("node_modules")
}

#[test]
fn the_typescript_package_passes_its_tests_and_its_programs_run() {
    let shop = Shop::open();
    let package = shop.package("typescript");
    symlink(modules(), package.join("node_modules")).unwrap();
    // `npm pack` compiles it first.
    run(Command::new("npm").args(["pack", "--silent"]).current_dir(&package));

    let user = package.join("user");
    let installed = user.join("node_modules/postroom");
    fs::create_dir_all(&installed).unwrap();
    fs::write(user.join("package.json"), "{}").unwrap();
    let tar = ["-xz", "--strip-components=1", "-f", "postroom-0.1.0.tgz", "-C"];
    run(Command::new("tar").args(tar).arg(&installed).current_dir(&package));
    for part in ["tests", "examples"] {
        fs::rename(package.join(part), user.join(part)).unwrap();
    }

    let node = |arguments: &[&str]| {
        let mut node = shop.command("node");
        node.args(arguments).current_dir(&user).env("WEBHOOK_VECTORS", package.join("../webhook-vectors.json"));
        node
    };
    let strict = [
        "--noEmit",
        "--strict",
        "--skipLibCheck",
        "--module",
        "node16",
        "--target",
        "es2022",
        "--types",
        "node",
        "tests/types.ts",
    ];
    run(&mut node(&[&["../node_modules/typescript/bin/tsc"][..], &strict].concat()));
    run(&mut node(&["--test", "tests/outbox.test.mjs", "tests/webhook.test.mjs", "tests/worker.test.mjs"]));
    let (mut producer, worker) = (node(&["examples/shop.mjs"]), node(&["examples/worker.mjs"]));
    shop.check(&mut producer, worker);
}
