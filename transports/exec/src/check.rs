//! What `config check --online` looks for: is there a program to start, is there somebody behind the socket?

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use postroom_core::{Diagnostic, Failure};
use tokio::net::UnixStream;

use crate::connection::trusted;
use crate::options::{ExecOptions, Target};

/// Looks without starting anything.
pub(crate) async fn check(options: &ExecOptions) -> Vec<Diagnostic> {
    let target = &options.target;
    let finding = match target {
        Target::Command(command) => {
            if let Some(path) = find(command.first().map_or("", String::as_str)) {
                Diagnostic::fine(format!("{} is there and may be run", path.display()))
            } else {
                let error = format!("{target} is not found or may not be run");
                Diagnostic::from(Failure::unavailable("exec.not_found", error))
            }
        }
        Target::Socket(path) => match UnixStream::connect(path).await {
            Ok(stream) => match trusted(&stream, options) {
                Ok(()) => Diagnostic::fine(format!("{} answers", path.display())),
                Err(failure) => Diagnostic::from(failure),
            },
            Err(error) => {
                let error = format!("{target} is not reachable: {error}");
                Diagnostic::from(Failure::unavailable("exec.unreachable", error))
            }
        },
    };
    vec![finding]
}

/// The program as the system would find it.
fn find(program: &str) -> Option<PathBuf> {
    let runs = |path: &Path| path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| runs(path));
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| runs(path))
}

#[cfg(test)]
mod tests {
    use postroom_core::Level;

    use postroom_core::envelope::{Binding, Encoder, Format};

    use super::*;

    fn options(target: Target) -> ExecOptions {
        ExecOptions::new("mailer", target, Encoder::new(Format::CloudEventsStructured, Binding::Http, "/test"))
    }

    #[tokio::test]
    async fn a_program_and_a_socket_are_there_or_named() {
        for (program, there) in [("sh", true), ("/bin/sh", true), ("no-such-program", false), ("/etc/passwd", false)] {
            let found =
                check(&options(Target::Command(vec![program.to_owned(), "--password=canary".to_owned()]))).await;
            assert_eq!(found[0].level == Level::Fine, there, "{found:?}");
            assert!(!format!("{found:?}").contains("canary"));
        }
        let found = check(&options(Target::Socket("/no/such.sock".into()))).await;
        assert!(found[0].code.as_deref() == Some("exec.unreachable"), "{found:?}");
    }
}
