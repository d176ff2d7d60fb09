//! The page and the programs are the same texts.

use std::fs;

use postroom_client_packages::clients;

/// Language of the block on the page, and the program.
const PROGRAMS: [(&str, &str); 8] = [
    ("python", "python/examples/shop.py"),
    ("python", "python/examples/worker.py"),
    ("js", "typescript/examples/shop.mjs"),
    ("js", "typescript/examples/worker.mjs"),
    ("go", "go/examples/shop/main.go"),
    ("go", "go/examples/worker/main.go"),
    ("java", "java/examples/Shop.java"),
    ("java", "java/examples/Books.java"),
];

#[test]
fn the_page_and_the_packages_show_every_program_as_it_is_run() {
    let page = fs::read_to_string(clients().join("../docs/clients.md")).unwrap();
    for (language, file) in PROGRAMS {
        let program = fs::read_to_string(clients().join(file)).unwrap();
        let package = clients().join(file.split('/').next().unwrap());
        let readme = fs::read_to_string(package.join("README.md")).unwrap();
        for (name, text) in [("docs/clients.md", &page), ("the README of the package", &readme)] {
            let shown = text.contains(&format!("\n```{language}\n{program}```\n"));
            assert!(shown, "{name} does not show clients/{file} as it is: copy the file into it");
        }
    }
}
