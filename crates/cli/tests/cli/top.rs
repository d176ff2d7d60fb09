//! `top` at a real terminal.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::world::World;

#[test]
fn without_a_terminal_it_says_what_to_use() {
    let said = World::new().run(&["top"]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert!(said.stderr.contains("`postroom status --watch`"), "{}", said.stderr);
}

#[test]
fn at_a_terminal_it_shows_the_routes_and_leaves_it_as_it_was() {
    let world = World::new();
    let program = env!("CARGO_BIN_EXE_postroom");
    let typed = format!("stty rows 24 cols 80; stty -g > before; '{program}' top; echo code $?; stty -g > after");
    // `script` gives it a terminal.
    let mut script = Command::new("script")
        .args(["--quiet", "--flush", "--command", &typed, "/dev/null"])
        .current_dir(world.folder())
        .env("TERM", "xterm-256color")
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut keys, mut screen) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
    let mut seen = String::new();
    let mut until = |what: &str, seen: &mut String| {
        let mut bytes = [0; 4096];
        while !seen.contains(what) {
            let read = screen.read(&mut bytes).unwrap();
            assert!(read > 0, "ended without {what:?}: {seen:?}");
            seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    };
    until("mailer", &mut seen);
    keys.write_all(b"\r").unwrap();
    until("of store main", &mut seen);
    keys.write_all(b"q").unwrap();
    until("code 0", &mut seen);
    let (entered, left) = (seen.find("\x1b[?1049h"), seen.find("\x1b[?1049l"));
    assert!(entered.is_some() && entered < left, "{seen:?}");
    assert!(seen.rfind("\x1b[?25h") > seen.rfind("\x1b[?25l"), "the cursor is there again: {seen:?}");
    assert!(script.wait().unwrap().success());
    let settings = |file: &str| std::fs::read_to_string(world.path(file)).unwrap();
    assert_eq!(settings("before"), settings("after"));
}
