//! Reads what the destinations of several kinds have alike: names, secrets and URLs.
//!
//! A value of the wrong kind has been reported when it is read; here it counts as absent, so that the rest is read all the same.

use std::path::Path;

use postroom_core::{Secret, SecretUrl, Template, is_loopback};
use postroom_settings::{Key, Kind, Node, Problems, Table, optional, spelt};

/// Key of a destination that lets passwords travel without TLS.
pub const ALLOW_PLAIN_PASSWORD: Key = optional(
    "allow_plain_password",
    Kind::Flag,
    "false",
    "Whether the password may be sent without TLS to another machine.",
);

/// Reads the destination of one route, with the problems at hand.
#[derive(Debug)]
pub struct TargetReader<'a> {
    /// Name of the route.
    pub route: &'a str,
    /// The working folder: relative paths start here.
    pub cwd: &'a Path,
    /// What environment variables begin with.
    pub prefix: &'a str,
    /// Where problems go.
    pub problems: &'a mut Problems,
}

impl TargetReader<'_> {
    /// Finds a key that must be there. `example` shows how.
    pub fn required<'t>(&mut self, target: &'t Node, name: &str, example: &str) -> Option<&'t Node> {
        let found = target.table()?.get(name);
        if found.is_none() {
            let message = format!("the destination of route `{}` has no `{name}`", self.route);
            self.problems.at(&target.place, message, Some(format!("add for instance {name} = {example}")));
        }
        found
    }

    /// Reads a name made from events. `constants` are names that the configuration fixes.
    pub fn template(&mut self, node: &Node, constants: &[(&str, &str)]) -> Option<Template> {
        let text = node.text().filter(|text| !text.is_empty())?;
        match Template::parse(text, constants) {
            Ok(template) => Some(template),
            Err(error) => {
                self.problems.at(&node.place, error.to_string(), None);
                None
            }
        }
    }

    /// Reads a secret, given as it is or in a file: `password` or `password_file`.
    pub fn secret(&mut self, table: &Table, name: &str) -> Option<Secret> {
        let file = format!("{name}_file");
        match (table.get(name), table.get(&file)) {
            (Some(_), Some(node)) => {
                self.both(node, name, &file);
                None
            }
            (Some(node), None) => node.text().filter(|text| !text.is_empty()).map(Secret::new),
            (None, Some(node)) => self.text_of_file(node, "a secret").map(Secret::new),
            (None, None) => None,
        }
    }

    /// Reads where a broker is: `url`, text or list, or `url_file`. At least one, each of these schemes; else it was reported.
    pub fn broker_urls(&mut self, target: &Node, schemes: &[&str], example: &str) -> Vec<SecretUrl> {
        let Some(table) = target.table() else { return Vec::new() };
        let (given, urls): (&Node, Vec<String>) = match (table.get("url"), table.get("url_file")) {
            (Some(_), Some(file)) => {
                self.both(file, "url", "url_file");
                return Vec::new();
            }
            (Some(url), None) => {
                let nodes = url.list().unwrap_or(std::slice::from_ref(url));
                (url, nodes.iter().filter_map(|node| node.text().map(str::to_owned)).collect())
            }
            (None, Some(file)) => (file, self.text_of_file(file, "a URL").into_iter().collect()),
            (None, None) => {
                self.required(target, "url", example);
                return Vec::new();
            }
        };
        let urls: Vec<SecretUrl> = urls.into_iter().map(SecretUrl::new).collect();
        if urls.iter().any(|url| !schemes.contains(&url.scheme()) || !url.expose().contains("://")) {
            let schemes = schemes.join(":// or ");
            let message = format!("the url of route `{}` does not begin with {schemes}://", self.route);
            self.problems.at(&given.place, message, Some(format!("write for instance {example}")));
            return Vec::new();
        }
        let encrypted = table.get("tls").is_some_and(|tls| !tls.is_default());
        let token = table.get("token").is_some() || table.get("token_file").is_some();
        // Of each pair of schemes the first is the one without TLS.
        let clear = |url: &&SecretUrl| Some(&url.scheme()) == schemes.first() && (url.has_login() || token);
        if !encrypted && let Some(url) = urls.iter().filter(clear).find(|url| !is_loopback(url.host())) {
            self.password_in_clear(table, given, url.host(), &format!("begin the url with {}://", schemes[1]));
        }
        urls
    }

    /// Refuses to send a password over a network without TLS, unless the destination allows it in words.
    pub fn password_in_clear(&mut self, table: &Table, at: &Node, host: &str, encrypt: &str) {
        if table.flag(ALLOW_PLAIN_PASSWORD.name) {
            return;
        }
        let route = self.route;
        let message =
            format!("route `{route}` would send its password to {host} without TLS: the network could read it");
        let hint = format!("{encrypt}, or say that the network is trusted with {} = true", ALLOW_PLAIN_PASSWORD.name);
        self.problems.at(&at.place, message, Some(hint));
    }

    /// Reads what a file that a key names holds; nothing when that has been reported.
    pub fn text_of_file(&mut self, file: &Node, what: &str) -> Option<String> {
        self.problems.text_of_file(self.cwd, file, what)
    }

    /// Says that two keys are given of which one may be.
    pub fn both(&mut self, second: &Node, name: &str, other: &str) {
        let message = format!("route `{}` has both `{name}` and `{other}`", self.route);
        self.problems.at(&second.place, message, Some("leave one of them out".to_owned()));
    }

    /// The environment variable of a key of this destination: `exec.command`.
    pub fn variable(&self, path: &str) -> String {
        let path: Vec<String> = path.split('.').map(spelt).collect();
        format!("{}ROUTE__{}__TO__{}", self.prefix, spelt(self.route), path.join("__"))
    }
}
