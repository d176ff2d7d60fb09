//! `to = { nats = { … } }`.

use std::time::Duration;

use postroom_core::Secret;
use postroom_nats::{CreateStream, Login, NatsOptions};

use super::super::keys::{Key, Kind, SOME, key, optional, table};
use super::super::read::Read;
use super::super::tree::{Node, Table};
use super::super::typed::RouteConfig;
use super::Target;
use super::parts::TLS;

pub(super) static KEYS: &[Key] = &[
    optional(
        "url",
        Kind::Either(&Kind::Secret, &Kind::List(&Kind::Secret)),
        r#""nats://localhost:4222""#,
        "The server, or a list tried in this order; nats:// or tls://, a user and password may stand in it.",
    ),
    optional("url_file", Kind::Path, r#""/run/credentials/nats-url""#, "A file with the URL, instead of `url`."),
    table("tls", TLS, "Certificates; when given, a connection without TLS is refused."),
    optional("token", Kind::Password, r#""${NATS_TOKEN}""#, "A token to log in with."),
    optional(
        "token_file",
        Kind::Path,
        r#""/run/credentials/nats-token""#,
        "A file with the token, instead of `token`.",
    ),
    optional(
        "nkey_file",
        Kind::Path,
        r#""/run/credentials/relay.nk""#,
        "A file with the seed of a key to log in with.",
    ),
    optional("credentials_file", Kind::Path, r#""/run/credentials/relay.creds""#, "JWT and key, as nsc writes them."),
    optional("stream", Kind::Text, r#""ORDERS""#, "The stream that must take the events; any by default."),
    optional(
        "subject",
        Kind::Text,
        r#""orders.{type}""#,
        "The subject of each event; {type}, {tenant}, … are its parts.",
    ),
    table("create", CREATE, "How to make the stream when it is not there; one that is there is never changed."),
    key("timeout", SOME, r#""5s""#, "How long the server may take to acknowledge, and to be connected to."),
];

// Without defaults: a default would say that a stream is to be created.
static CREATE: &[Key] = &[
    optional("subjects", Kind::List(&Kind::Text), r#"["orders.>"]"#, "Subjects the new stream takes."),
    optional("replicas", Kind::Between(1, 5), "3", "On how many servers it is; by default 1."),
    optional("max_age", SOME, r#""30d""#, "How long it keeps an event; by default for ever."),
    optional("duplicate_window", SOME, r#""10m""#, "How long it remembers ids; by default 2m."),
];

/// Ways to log in beside the URL.
const LOGINS: [&str; 4] = ["token", "token_file", "nkey_file", "credentials_file"];

/// Where it goes, for people.
pub(super) fn describe(options: &NatsOptions) -> String {
    let server = options.urls.first().map_or_else(String::new, ToString::to_string);
    let stream = options.stream.as_ref().map(|stream| format!("{stream} ")).unwrap_or_default();
    format!("nats {stream}{} at {server}", options.subject.as_str())
}

/// Tells the routes that go into one stream of each other. By the stream's name alone: a server may be
/// written in many ways.
pub(in super::super) fn tell_of_each_other(routes: &mut [RouteConfig]) {
    let stream = |route: &RouteConfig| match &route.to {
        Target::Nats(options) => Some(options.stream.clone()),
        _ => None,
    };
    let streams: Vec<Option<String>> = routes.iter().filter_map(stream).collect();
    for route in routes {
        if let Target::Nats(options) = &mut route.to {
            // Without a name it may be the stream of any other route.
            let same =
                |other: &&Option<String>| other.is_none() || options.stream.is_none() || **other == options.stream;
            options.stream_is_shared = streams.iter().filter(same).count() > 1;
        }
    }
}

impl Read<'_> {
    pub(super) fn nats(&mut self, route: &str, nats: &Node) -> Option<NatsOptions> {
        let table = nats.table()?;
        let urls = self.broker_urls(route, nats, &["nats", "tls"], r#""nats://localhost:4222""#);
        let stream = table.get("stream").map(|node| self.stream_name(node));
        let subject = self.required(route, nats, "subject", r#""orders.{type}""#).and_then(|node| self.subject(node));
        let tls = table.get("tls").map(|_| self.tls(table));
        let login = self.nats_login(route, table);
        let create = match table.get("create") {
            Some(node) if stream.is_none() => {
                let message = format!("route `{route}` says how to create a stream, and names none");
                self.problems.at(&node.place, message, Some("add stream = \"ORDERS\"".to_owned()));
                return None;
            }
            Some(node) => Some(self.create_stream(route, node)?),
            None => None,
        };
        if urls.is_empty() {
            return None;
        }
        let timeout = table.duration("timeout");
        let stream = match stream {
            Some(name) => Some(name?.to_owned()),
            None => None,
        };
        Some(NatsOptions { tls, login: login?, stream, create, timeout, ..NatsOptions::new(urls, subject?) })
    }

    fn stream_name<'n>(&mut self, node: &'n Node) -> Option<&'n str> {
        let name = node.text().filter(|name| !name.is_empty())?;
        if name.contains(|c: char| c.is_whitespace() || matches!(c, '.' | '*' | '>' | '/' | '\\')) {
            let hint = "leave out white space and . * > / \\".to_owned();
            self.problems.at(&node.place, format!("{name:?} cannot be the name of a stream"), Some(hint));
            return None;
        }
        Some(name)
    }

    fn subject(&mut self, node: &Node) -> Option<postroom_core::Template> {
        let text = node.text()?;
        if text.contains(|c: char| c.is_whitespace() || matches!(c, '*' | '>')) {
            let hint = "events go to one subject each, for instance orders.{type}".to_owned();
            self.problems.at(&node.place, format!("the subject {text:?} has a wildcard or white space"), Some(hint));
            return None;
        }
        self.template(node, &[])
    }

    fn nats_login(&mut self, route: &str, table: &Table) -> Option<Login> {
        let mut given = LOGINS.iter().filter_map(|name| Some((*name, table.get(name)?)));
        let Some((name, node)) = given.next() else { return Some(Login::None) };
        if let Some((other, second)) = given.next() {
            let message = format!("route `{route}` has both `{name}` and `{other}`");
            self.problems.at(&second.place, message, Some("leave one of them out".to_owned()));
            return None;
        }
        match name {
            "credentials_file" => Some(Login::CredentialsFile(self.sources.cwd.join(node.text()?))),
            "nkey_file" => self.text_of_file(node, "the seed of a key").map(|seed| Login::NkeySeed(Secret::new(seed))),
            _ => self.secret(route, table, "token").map(Login::Token),
        }
    }

    fn create_stream(&mut self, route: &str, node: &Node) -> Option<CreateStream> {
        let table = node.table()?;
        let subjects = self.required(route, node, "subjects", r#"["orders.>"]"#)?;
        let some = |name: &str| Some(table.duration(name)).filter(|duration| *duration > Duration::ZERO);
        Some(CreateStream {
            subjects: subjects.list()?.iter().filter_map(|node| node.text().map(str::to_owned)).collect(),
            replicas: table.count("replicas"),
            max_age: some("max_age"),
            duplicate_window: some("duplicate_window"),
        })
    }
}
