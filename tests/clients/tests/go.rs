//! Go: `gofmt`, `go vet` and `go test`. Go keeps what it has fetched and built, for all runs side by side.

use std::process::Command;

use postroom_client_packages::{Shop, run};

#[test]
fn the_go_package_passes_its_tests_and_its_programs_run() {
    let shop = Shop::open();
    let package = shop.package("go");
    let go = |arguments: &[&str]| {
        let mut go = shop.command("go");
        go.args(arguments).current_dir(&package);
        go
    };
    assert_eq!(run(Command::new("gofmt").args(["-l", "."]).current_dir(&package)), "");
    run(&mut go(&["vet", "./..."]));
    run(&mut go(&["test", "-count=1", "./..."]));
    run(&mut go(&["build", "-o", "bin/", "./examples/..."]));
    let program = |name: &str| shop.command(package.join("bin").join(name).to_str().unwrap());
    let (mut producer, worker) = (program("shop"), program("worker"));
    shop.check(&mut producer, worker);
}
