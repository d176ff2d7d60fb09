//! Python: pytest against the wheel, as it is installed.

use std::fs;
use std::path::Path;
use std::process::Command;

use postroom_client_packages::{Shop, cached, clients, run};

fn pip(arguments: &[&str], target: &Path) -> Command {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--root-user-action=ignore", "--target"]).arg(target).args(arguments);
    pip
}

/// Where the drivers and tools of the tests are.
fn drivers() -> std::path::PathBuf {
    let list = clients().join("python/requirements-test.txt");
    // What is fetched fits one version of Python.
    let text = fs::read_to_string(&list).unwrap() + &run(Command::new("python3").arg("--version"));
    cached("python", &text, |folder| {
        run(pip(&["--requirement"], folder).arg(&list));
    })
}

#[test]
fn the_python_package_passes_its_tests_and_its_programs_run() {
    let shop = Shop::open();
    let (drivers, package) = (drivers(), shop.package("python"));
    let python = |arguments: &[&str], path: &str| {
        let mut python = shop.command("python3");
        python.args(arguments).current_dir(&package).env("PYTHONPATH", path);
        python
    };
    let tools = drivers.display().to_string();
    run(&mut python(
        &["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "dist", "."],
        &tools,
    ));
    let wheel = package.join("dist/postroom-0.1.0-py3-none-any.whl");
    let installed = package.join("installed");
    run(pip(&["--no-deps"], &installed).arg(wheel));

    let path = format!("{}:{tools}", installed.display());
    run(&mut python(&["-m", "mypy", "--strict", "installed/postroom"], &path));
    run(&mut python(&["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"], &path));
    let (mut producer, worker) = (python(&["examples/shop.py"], &path), python(&["examples/worker.py"], &path));
    shop.check(&mut producer, worker);
}
