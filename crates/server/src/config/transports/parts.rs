//! What the transports read alike: names, secrets, URLs and certificates.
//!
//! As in [`super::super::read`], what has been reported already counts as absent.

use std::path::PathBuf;

use postroom_core::{Secret, SecretUrl, Template};
use postroom_tls::TlsFiles;

use super::super::keys::{Key, Kind, optional};
use super::super::read::Read;
use super::super::tree::{Node, Table};

/// `tls = { … }`.
pub(super) static TLS: &[Key] = &[
    optional("ca_file", Kind::Path, r#""/etc/ssl/broker-ca.pem""#, "Whom to trust instead of the machine's list; PEM."),
    optional("cert_file", Kind::Path, r#""relay.pem""#, "Our certificate, for servers that ask for one; PEM."),
    optional("key_file", Kind::Path, r#""relay.key""#, "Its private key; PEM."),
];

impl Read<'_> {
    /// A key that must be there. `example` shows how.
    pub(super) fn required<'t>(
        &mut self,
        route: &str,
        target: &'t Node,
        name: &str,
        example: &str,
    ) -> Option<&'t Node> {
        let found = target.table()?.get(name);
        if found.is_none() {
            let message = format!("the destination of route `{route}` has no `{name}`");
            self.problems.at(&target.place, message, Some(format!("add for instance {name} = {example}")));
        }
        found
    }

    /// A name made from events. `constants` are names that the configuration fixes.
    pub(super) fn template(&mut self, node: &Node, constants: &[(&str, &str)]) -> Option<Template> {
        let text = node.text().filter(|text| !text.is_empty())?;
        match Template::parse(text, constants) {
            Ok(template) => Some(template),
            Err(error) => {
                self.problems.at(&node.place, error.to_string(), None);
                None
            }
        }
    }

    /// A secret, given as it is or in a file: `password` or `password_file`.
    pub(super) fn secret(&mut self, route: &str, table: &Table, name: &str) -> Option<Secret> {
        let file = format!("{name}_file");
        match (table.get(name), table.get(&file)) {
            (Some(_), Some(node)) => {
                let message = format!("route `{route}` has both `{name}` and `{file}`");
                self.problems.at(&node.place, message, Some("leave one of them out".to_owned()));
                None
            }
            (Some(node), None) => node.text().filter(|text| !text.is_empty()).map(Secret::new),
            (None, Some(node)) => self.text_of_file(node, "a secret").map(Secret::new),
            (None, None) => None,
        }
    }

    /// Where a broker is: `url`, text or list, or `url_file`. At least one, each of these schemes; else it was reported.
    pub(super) fn broker_urls(
        &mut self,
        route: &str,
        target: &Node,
        schemes: &[&str],
        example: &str,
    ) -> Vec<SecretUrl> {
        let Some(table) = target.table() else { return Vec::new() };
        let (given, urls): (&Node, Vec<String>) = match (table.get("url"), table.get("url_file")) {
            (Some(_), Some(file)) => {
                let message = format!("route `{route}` has both `url` and `url_file`");
                self.problems.at(&file.place, message, Some("leave one of them out".to_owned()));
                return Vec::new();
            }
            (Some(url), None) => {
                let nodes = url.list().unwrap_or(std::slice::from_ref(url));
                (url, nodes.iter().filter_map(|node| node.text().map(str::to_owned)).collect())
            }
            (None, Some(file)) => (file, self.text_of_file(file, "a URL").into_iter().collect()),
            (None, None) => {
                self.required(route, target, "url", example);
                return Vec::new();
            }
        };
        let urls: Vec<SecretUrl> = urls.into_iter().map(SecretUrl::new).collect();
        if urls.iter().any(|url| !schemes.contains(&url.scheme()) || !url.expose().contains("://")) {
            let message = format!("the url of route `{route}` does not begin with {}://", schemes.join(":// or "));
            self.problems.at(&given.place, message, Some(format!("write for instance {example}")));
            return Vec::new();
        }
        urls
    }

    /// `tls = { … }`; empty when it is not given.
    pub(super) fn tls(&mut self, target: &Table) -> TlsFiles {
        let Some(node) = target.get("tls") else { return TlsFiles::default() };
        let Some(table) = node.table() else { return TlsFiles::default() };
        let file = |name: &str| -> Option<PathBuf> { Some(self.sources.cwd.join(table.text(name)?)) };
        let files = TlsFiles { ca_file: file("ca_file"), cert_file: file("cert_file"), key_file: file("key_file") };
        if files.cert_file.is_some() != files.key_file.is_some() {
            let hint = "give both or neither".to_owned();
            self.problems.at(&node.place, "`cert_file` and `key_file` belong together", Some(hint));
        } else if let Err(error) = files.client() {
            // Files by the names people gave them.
            let here = format!("{}/", self.sources.cwd.display());
            self.problems.at(&node.place, error.to_string().replace(&here, ""), None);
        }
        files
    }
}
