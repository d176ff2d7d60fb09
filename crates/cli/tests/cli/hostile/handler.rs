//! Handlers that look for what is not theirs.

#![allow(clippy::unwrap_used, reason = "what cannot be run fails the test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use nix::unistd::{Uid, chown};

use crate::world::World;

/// Writes its own environment and that of its parent, and says yes.
const SPY: &str = r#"
env > own
tr '\0' '\n' < /proc/$PPID/environ > parent || : > parent
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed 's/^{"id":"\([^"]*\)".*/\1/')
  printf '{"id":"%s","ok":true}\n' "$id"
done
"#;

/// Runs a command without what lets root read everything.
fn without_capabilities(command: &Command) -> Command {
    let mut plain = Command::new("setpriv");
    if Uid::effective().is_root() {
        plain.args(["--bounding-set=-all", "--inh-caps=-all"]);
    }
    plain.arg(command.get_program()).args(command.get_args()).env_clear();
    plain.current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        plain.env(name, value.unwrap());
    }
    plain.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    plain
}

#[test]
fn a_handler_sees_no_secret_of_the_relay() {
    let world = World::bare();
    let folder = world.folder().display();
    world.write("spy.sh", SPY);
    world.write(
        "postroom.toml",
        &format!(
            r#"store.main.url = "sqlite://{folder}/shop.db"
[[route]]
name = "spy"
[route.to.exec]
command = ["sh", "spy.sh"]
pass_env = ["SMTP_HOST"]
env = {{ SMTP_PASSWORD = "${{MAILER_PASSWORD}}" }}
"#
        ),
    );
    let with_secrets = |mut command: Command| {
        command.env("MAILER_PASSWORD", "canary-mail").env("SMTP_HOST", "smtp.example");
        for name in ["PGPASSWORD", "KAFKA_PASSWORD", "OTEL_EXPORTER_OTLP_HEADERS", "AWS_SECRET_ACCESS_KEY"] {
            command.env(name, "canary-relay");
        }
        command
    };
    let run = |args: &[&str]| {
        let output = without_capabilities(&with_secrets(world.command(args))).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["store", "migrate", "up"]);
    run(&["event", "append", "--type", "order.placed", "--id", "e-1"]);
    run(&["relay", "run", "--drain"]);
    let own = fs::read_to_string(world.path("own")).unwrap();
    assert!(own.contains("SMTP_HOST=smtp.example") && own.contains("SMTP_PASSWORD=canary-mail"), "{own}");
    assert!(own.contains("PATH=") && !own.contains("canary-relay") && !own.contains("MAILER_PASSWORD"), "{own}");
    assert_eq!(fs::read_to_string(world.path("parent")).unwrap(), "", "the relay's environment is readable");
    let shown = with_secrets(world.command(&["config", "show"])).output().unwrap();
    assert!(!String::from_utf8_lossy(&shown.stdout).contains("canary"));
}

#[test]
fn a_listener_of_another_user_gets_no_event() {
    const NOBODY: u32 = 65534;
    let world = World::bare();
    let folder = world.folder().display().to_string();
    let config = |more: &str| {
        let text = format!(
            "store.main.url = \"sqlite://{folder}/shop.db\"\n[[route]]\nname = \"mailer\"\n[route.to.exec]\nsocket = \"mailer.sock\"\n{more}"
        );
        world.write("postroom.toml", &text);
    };
    if !Uid::effective().is_root() {
        // Only root can be somebody else; as anybody else the listener must be our own.
        config("socket_user = \"nobody\"\n");
        world.ok(&["config", "check"]);
        return;
    }
    chown(world.folder(), Some(NOBODY.into()), None).unwrap();
    fs::set_permissions(world.folder(), fs::Permissions::from_mode(0o777)).unwrap();
    // A Python of one's own may stand where nobody else can read it.
    let listen = r#"$s = IO::Socket::UNIX->new(Local => "mailer.sock", Listen => 5) or die $!; $| = 1; print "ready\n"; <STDIN>;"#;
    let mut command = Command::new("setpriv");
    let user = ["--reuid", "65534", "--clear-groups", "/usr/bin/perl", "-MIO::Socket::UNIX", "-e", listen];
    command.args(user).current_dir(world.folder());
    let mut listener = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(listener.stdout.take().unwrap()), &mut ready).unwrap();
    config("");
    let said = world.run(&["config", "check", "--online"]);
    assert!(said.stdout.contains("exec.not_trusted"), "{}{}", said.stdout, said.stderr);
    config("socket_user = \"65534\"\n");
    let said = world.run(&["config", "check", "--online"]);
    assert!(!said.stdout.contains("exec.not_trusted"), "{}{}", said.stdout, said.stderr);
    drop(listener.stdin.take());
    listener.wait().unwrap();
}
