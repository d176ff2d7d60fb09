//! `tls = { … }` of a destination, and of a server.

use std::path::{Path, PathBuf};

use postroom_settings::{Key, Kind, Problems, Table, optional};

use crate::{ServerTlsFiles, TlsError, TlsFiles};

/// The keys of `tls`.
pub static TLS: &[Key] = &[
    optional(
        "ca_file",
        Kind::Path,
        r#""/etc/ssl/broker-ca.pem""#,
        "PEM file of trusted certificate authorities, instead of those of the system.",
    ),
    optional(
        "cert_file",
        Kind::Path,
        r#""relay.pem""#,
        "PEM file of the client certificate, for servers that require one.",
    ),
    optional("key_file", Kind::Path, r#""relay.key""#, "PEM file of the client certificate's private key."),
];

/// The keys of a server's `tls`.
pub static SERVER_TLS: &[Key] = &[
    optional(
        "cert_file",
        Kind::Path,
        r#""tls/cert.pem""#,
        "PEM file of the server's certificate and its intermediates. It is read again when it changes.",
    ),
    optional(
        "key_file",
        Kind::Path,
        r#""tls/key.pem""#,
        "PEM file of the certificate's private key. It is read again when it changes.",
    ),
    optional(
        "client_ca_file",
        Kind::Path,
        r#""tls/clients.pem""#,
        "PEM file of certificate authorities: clients must present a certificate of one of them.",
    ),
];

/// Reads `tls = { … }` of a server; none when it is not given. Files that give no server are reported.
pub fn read_server_tls(table: &Table, cwd: &Path, problems: &mut Problems) -> Option<ServerTlsFiles> {
    let node = table.get("tls")?;
    let keys = node.table()?;
    let file = |name: &str| -> Option<PathBuf> { Some(cwd.join(keys.text(name)?)) };
    let (cert_file, key_file, client_ca_file) = (file("cert_file"), file("key_file"), file("client_ca_file"));
    let (cert_file, key_file) = match (cert_file, key_file) {
        (None, None) if client_ca_file.is_none() => return None,
        (Some(cert), Some(key)) => (cert, key),
        _ => {
            let hint = "a server needs both; `client_ca_file` alone is not enough".to_owned();
            problems.at(&node.place, "`cert_file` and `key_file` belong together", Some(hint));
            return None;
        }
    };
    let files = ServerTlsFiles { cert_file, key_file, client_ca_file };
    match files.server() {
        Ok(_) => Some(files),
        Err(error) => {
            problems.at(&node.place, relative(&error, cwd), None);
            None
        }
    }
}

/// What is wrong, with files by the names people gave them.
fn relative(error: &TlsError, cwd: &Path) -> String {
    error.to_string().replace(&format!("{}/", cwd.display()), "")
}

/// Reads `tls = { … }`; empty when it is not given. Files that give no client are reported.
pub fn read_tls(target: &Table, cwd: &Path, problems: &mut Problems) -> TlsFiles {
    let Some(node) = target.get("tls") else { return TlsFiles::default() };
    let Some(table) = node.table() else { return TlsFiles::default() };
    let file = |name: &str| -> Option<PathBuf> { Some(cwd.join(table.text(name)?)) };
    let files = TlsFiles { ca_file: file("ca_file"), cert_file: file("cert_file"), key_file: file("key_file") };
    if files.cert_file.is_some() != files.key_file.is_some() {
        let hint = "give both or neither".to_owned();
        problems.at(&node.place, "`cert_file` and `key_file` belong together", Some(hint));
    } else if let Err(error) = files.client() {
        problems.at(&node.place, relative(&error, cwd), None);
    }
    files
}
