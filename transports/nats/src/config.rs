//! `to = { nats = { … } }`.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::envelope::Binding;
use postroom_core::{Secret, Template, Transport};
use postroom_settings::{Key, Kind, Node, Problems, SOME, Table, key, optional, table};
use postroom_tls::config::{TLS, read_tls};
use postroom_transport_kit::{ALLOW_PLAIN_PASSWORD, Configured, Encoding, LAG_EVERY, TargetReader, TransportKind};

use crate::{CODES, CreateStream, Login, Nats, NatsOptions};

/// Kind of transport, for the configuration.
pub const KIND: TransportKind = TransportKind {
    name: "nats",
    doc: "NATS JetStream stream, or a subject of core NATS.",
    shared: Some("Defaults for routes to NATS."),
    keys: KEYS,
    codes: CODES,
    headers: true,
    signed_by: &[],
    read: |reader, node| Some(Box::new(options(reader, node)?)),
    together: Some(mark_shared_streams),
};

static KEYS: &[Key] = &[
    optional(
        "url",
        Kind::Either(&Kind::Secret, &Kind::List(&Kind::Secret)),
        r#""nats://localhost:4222""#,
        "URL of the server, nats:// or tls://, or a list of URLs tried in this order; may contain user and password.",
    ),
    optional("url_file", Kind::Path, r#""/run/credentials/nats-url""#, "File with the URL, instead of `url`."),
    table("tls", TLS, "TLS certificates; with this table, connections without TLS are refused."),
    ALLOW_PLAIN_PASSWORD,
    optional("token", Kind::Password, r#""${NATS_TOKEN}""#, "Login token."),
    optional(
        "token_file",
        Kind::Path,
        r#""/run/credentials/nats-token""#,
        "File with the login token, instead of `token`.",
    ),
    optional(
        "nkey_file",
        Kind::Path,
        r#""/run/credentials/relay.nk""#,
        "File with the seed of an NKey to log in with.",
    ),
    optional(
        "credentials_file",
        Kind::Path,
        r#""/run/credentials/relay.creds""#,
        "File with JWT and key, as written by nsc.",
    ),
    key(
        "jetstream",
        Kind::Flag,
        "true",
        "Whether a stream acknowledges each event; false publishes to core NATS, unacknowledged.",
    ),
    optional("stream", Kind::Text, r#""ORDERS""#, "Stream that must accept the events; any stream by default."),
    optional(
        "subject",
        Kind::Text,
        r#""orders.{type}""#,
        "Subject of each event; {type}, {tenant}, … are fields of the event.",
    ),
    table("create", CREATE, "Settings of the stream if it has to be created; an existing stream is never changed."),
    key("timeout", SOME, r#""5s""#, "Time-out of an acknowledgement, and of connecting."),
    table("consumers", CONSUMERS, "Lag of the consumers of `stream`."),
];

static CONSUMERS: &[Key] = &[
    LAG_EVERY,
    optional(
        "names",
        Kind::List(&Kind::Text),
        r#"["billing", "search"]"#,
        "Consumers; by default those that are durable.",
    ),
];

// Without defaults: a default would say that a stream is to be created.
static CREATE: &[Key] = &[
    optional("subjects", Kind::List(&Kind::Text), r#"["orders.>"]"#, "Subjects of the new stream."),
    optional("replicas", Kind::Between(1, 5), "3", "Number of replicas of the new stream; by default 1."),
    optional("max_age", SOME, r#""30d""#, "Retention of the new stream; by default for ever."),
    optional("duplicate_window", SOME, r#""10m""#, "Duplicate window of the new stream; by default 2m."),
];

/// Ways to log in beside the URL.
const LOGINS: [&str; 4] = ["token", "token_file", "nkey_file", "credentials_file"];

impl Configured for NatsOptions {
    fn describe(&self) -> String {
        let server = self.urls.first().map_or_else(String::new, ToString::to_string);
        let stream = match &self.stream {
            Some(stream) => format!("{stream} "),
            None if self.jetstream => String::new(),
            None => "core ".to_owned(),
        };
        format!("nats {stream}{} at {server}", self.subject.as_str())
    }

    fn destination(&self) -> Option<String> {
        Some(self.subject.as_str().to_owned())
    }

    fn build(&self, route: &str, encoding: Encoding<'_>) -> Arc<dyn Transport> {
        Arc::new(Nats::new(route, self.clone(), encoding.encoder(Binding::Nats)))
    }
}

/// Tells the routes that go into one stream of each other. By the stream's name alone: a server may be
/// written in many ways.
fn mark_shared_streams(_: &Table, routes: &mut [&mut dyn Configured], _: &mut Problems) {
    let mut options: Vec<&mut NatsOptions> =
        routes.iter_mut().filter_map(|route| (&mut **route as &mut dyn Any).downcast_mut()).collect();
    let streams: Vec<Option<String>> = options.iter().map(|options| options.stream.clone()).collect();
    for options in &mut options {
        // Without a name it may be the stream of any other route.
        let same = |other: &&Option<String>| other.is_none() || options.stream.is_none() || **other == options.stream;
        options.stream_is_shared = streams.iter().filter(same).count() > 1;
    }
}

fn options(reader: &mut TargetReader<'_>, nats: &Node) -> Option<NatsOptions> {
    let route = reader.route;
    let table = nats.table()?;
    let urls = reader.broker_urls(nats, &["nats", "tls"], r#""nats://localhost:4222""#);
    let stream = table.get("stream").map(|node| stream_name(reader, node));
    let subject = reader.required(nats, "subject", r#""orders.{type}""#).and_then(|node| subject(reader, node));
    let tls = table.get("tls").map(|_| read_tls(table, reader.cwd, reader.problems));
    let login = login(reader, table);
    let create = match table.get("create") {
        Some(node) if stream.is_none() => {
            let message = format!("route `{route}` says how to create a stream, and names none");
            reader.problems.at(&node.place, message, Some("add stream = \"ORDERS\"".to_owned()));
            return None;
        }
        Some(node) => Some(create_stream(reader, node)?),
        None => None,
    };
    let jetstream = table.flag("jetstream");
    if let Some(node) = table.get("stream").filter(|_| !jetstream) {
        let message = format!("route `{route}` names a stream, and `jetstream` is false");
        reader.problems.at(&node.place, message, Some("leave one of them out".to_owned()));
        return None;
    }
    if urls.is_empty() {
        return None;
    }
    let timeout = table.duration("timeout");
    let stream = match stream {
        Some(name) => Some(name?.to_owned()),
        None => None,
    };
    let consumers = reader.lag(table, "names");
    Some(NatsOptions {
        tls,
        login: login?,
        stream,
        jetstream,
        create,
        timeout,
        consumers,
        ..NatsOptions::new(urls, subject?)
    })
}

fn stream_name<'n>(reader: &mut TargetReader<'_>, node: &'n Node) -> Option<&'n str> {
    let name = node.text().filter(|name| !name.is_empty())?;
    if name.contains(|c: char| c.is_whitespace() || matches!(c, '.' | '*' | '>' | '/' | '\\')) {
        let hint = "leave out white space and . * > / \\".to_owned();
        reader.problems.at(&node.place, format!("{name:?} cannot be the name of a stream"), Some(hint));
        return None;
    }
    Some(name)
}

fn subject(reader: &mut TargetReader<'_>, node: &Node) -> Option<Template> {
    let text = node.text()?;
    if text.contains(|c: char| c.is_whitespace() || matches!(c, '*' | '>')) {
        let hint = "events go to one subject each, for instance orders.{type}".to_owned();
        reader.problems.at(&node.place, format!("the subject {text:?} has a wildcard or white space"), Some(hint));
        return None;
    }
    reader.template(node, &[])
}

fn login(reader: &mut TargetReader<'_>, table: &Table) -> Option<Login> {
    let mut given = LOGINS.iter().filter_map(|name| Some((*name, table.get(name)?)));
    let Some((name, node)) = given.next() else { return Some(Login::None) };
    if let Some((other, second)) = given.next() {
        reader.both(second, name, other);
        return None;
    }
    match name {
        "credentials_file" => Some(Login::CredentialsFile(reader.cwd.join(node.text()?))),
        "nkey_file" => reader.text_of_file(node, "the seed of a key").map(|seed| Login::NkeySeed(Secret::new(seed))),
        _ => reader.secret(table, "token").map(Login::Token),
    }
}

fn create_stream(reader: &mut TargetReader<'_>, node: &Node) -> Option<CreateStream> {
    let table = node.table()?;
    let subjects = reader.required(node, "subjects", r#"["orders.>"]"#)?;
    let some = |name: &str| Some(table.duration(name)).filter(|duration| *duration > Duration::ZERO);
    Some(CreateStream {
        subjects: subjects.list()?.iter().filter_map(|node| node.text().map(str::to_owned)).collect(),
        replicas: table.count("replicas"),
        max_age: some("max_age"),
        duplicate_window: some("duplicate_window"),
    })
}
