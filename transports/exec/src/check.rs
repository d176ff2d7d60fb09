//! What `config check --online` looks for: is there a program to start, is there somebody behind the socket?

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use postroom_core::{Failure, Finding};
use tokio::net::UnixStream;

use crate::options::Target;

/// Looks without starting anything.
pub(crate) async fn check(target: &Target) -> Vec<Finding> {
    let finding = match target {
        Target::Command(command) => {
            if let Some(path) = find(command.first().map_or("", String::as_str)) {
                Finding::Fine(format!("{} is there and may be run", path.display()))
            } else {
                let error = format!("{target} is not found or may not be run");
                Finding::Problem(Failure::unavailable("exec.not_found", error))
            }
        }
        Target::Socket(path) => match UnixStream::connect(path).await {
            Ok(_) => Finding::Fine(format!("{} answers", path.display())),
            Err(error) => {
                let error = format!("{target} is not reachable: {error}");
                Finding::Problem(Failure::unavailable("exec.unreachable", error))
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
    use super::*;

    #[tokio::test]
    async fn a_program_and_a_socket_are_there_or_named() {
        for (program, there) in [("sh", true), ("/bin/sh", true), ("no-such-program", false), ("/etc/passwd", false)] {
            let found = check(&Target::Command(vec![program.to_owned(), "--password=canary".to_owned()])).await;
            assert_eq!(matches!(found[0], Finding::Fine(_)), there, "{found:?}");
            assert!(!format!("{found:?}").contains("canary"));
        }
        let found = check(&Target::Socket("/no/such.sock".into())).await;
        assert!(matches!(&found[0], Finding::Problem(f) if f.code == "exec.unreachable"), "{found:?}");
    }
}
