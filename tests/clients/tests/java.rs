//! Java: `mvn package`, which compiles without warnings, runs the tests and makes the jar.

use std::fs;
use std::path::Path;
use std::process::Command;

use postroom_client_packages::{Shop, cached, clients, run};

fn mvn(command: &mut Command, repository: &Path) -> String {
    let repository = format!("-Dmaven.repo.local={}", repository.display());
    run(command.args(["--quiet", "--batch-mode", &repository, "package"]))
}

#[test]
fn the_java_package_passes_its_tests_and_its_programs_run() {
    let shop = Shop::open();
    let package = shop.package("java");
    let list = fs::read_to_string(clients().join("java/pom.xml")).unwrap();
    // Maven fetches what runs tests when it runs one.
    let repository = cached("maven", &list, |folder| {
        mvn(Command::new("mvn").arg("-Dtest=JsonTest").current_dir(&package), folder);
    });

    let url = shop.url().replace("postgres://postgres@", "jdbc:postgresql://") + "?user=postgres";
    mvn(shop.command("mvn").arg("--offline").env("DATABASE_URL", &url).current_dir(&package), &repository);
    let driver = repository.join("org/postgresql/postgresql/42.7.7/postgresql-42.7.7.jar");
    let classes = format!("target/postroom-0.1.0.jar:{}", driver.display());
    let program = |file: &str| {
        let mut java = shop.command("java");
        java.args(["-cp", &classes, file]).env("DATABASE_URL", &url).current_dir(&package);
        java
    };
    let (mut producer, worker) = (program("examples/Shop.java"), program("examples/Books.java"));
    // After SIGTERM a JVM ends with 128 + 15, however it ends.
    shop.check_ending(&mut producer, worker, 143);
}
