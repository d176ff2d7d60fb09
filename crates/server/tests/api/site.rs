//! A listener on a store of its own, and a client for it.

use std::sync::Arc;
use std::time::Duration;

use postroom_admin::{Admin, NewToken, Role, Scope};
use postroom_core::{Actor, Event, JSON, RouteSpec, StartFrom, Timestamp};
use postroom_server::config::{self, Config, Sources};
use postroom_server::http::Server;
use postroom_server::monitor::Monitor;
use postroom_server::stores::{self, IfMissing};
use postroom_server::token;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// A site with three tokens that are good and one that is over.
pub(crate) struct Site {
    pub(crate) address: String,
    pub(crate) admin: Arc<dyn Admin>,
    pub(crate) tokens: Vec<(&'static str, Option<String>)>,
    stop: CancellationToken,
    folder: TempDir,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn code(&self) -> String {
        assert!(self.head.contains("application/problem+json"), "{self:?}");
        self.json()["code"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn operator() -> Actor {
    Actor { name: "ann".to_owned(), reason: None }
}

impl Site {
    /// With one route, three events, and no tokens; `more` goes into the configuration.
    pub(crate) async fn open(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("postroom.toml");
        let url = folder.path().join("shop.db");
        let text = format!(
            "[store.main]\nurl = \"sqlite://{}\"\n[[route]]\nname = \"orders\"\nmatch = [\"order.*\"]\nstart = \"beginning\"\nto = {{ noop = {{}} }}\n\
             [http]\nlisten = \"127.0.0.1:0\"\n{more}\n",
            url.display()
        );
        std::fs::write(&file, text).unwrap();
        let sources = Sources { file: Some(file), ..Sources::default() };
        let config: Config = config::load(&sources).unwrap_or_else(|error| panic!("{error}"));
        let store = config.store(None).unwrap();
        stores::open_schema(store, config.limits, IfMissing::Create).await.unwrap().up().await.unwrap();
        let admin = stores::open(store, config.limits).await.unwrap().admin();
        admin.register(&[RouteSpec { start: StartFrom::Beginning, ..RouteSpec::new("orders") }]).await.unwrap();
        let events = ["e-1", "e-2", "e-3"].map(|id| {
            Event::new("order.placed").id(id).key("k").tenant("acme").bytes(JSON, r#"{"card":"canary-4111","n":1}"#)
        });
        admin.append(&events).await.unwrap();
        let monitor = Arc::new(Monitor::new(&config));
        let server = Server::bind(&config, monitor).await.unwrap().unwrap();
        let (address, stop) = (server.address().unwrap().to_string(), CancellationToken::new());
        tokio::spawn(server.run(stop.clone().cancelled_owned()));
        Self { address, admin, tokens: vec![("nobody", None)], stop, folder }
    }

    /// The same with a token for each role, one that is over, and one that nobody made.
    pub(crate) async fn guarded(more: &str) -> Self {
        let mut site = Self::open(more).await;
        for (name, role, ends) in [
            ("worker", Role::Worker, None),
            ("viewer", Role::Viewer, None),
            ("operator", Role::Operator, None),
            ("admin", Role::Admin, Some(Timestamp::now() + Duration::from_hours(1))),
            ("over", Role::Admin, Some(Timestamp::now() - Duration::from_secs(1))),
        ] {
            let token = token::fresh().unwrap();
            let routes = if role == Role::Worker { vec!["orders".to_owned()] } else { Vec::new() };
            let scope = Scope { routes, tenant: None };
            let new = NewToken { name: name.into(), role, expires_at: ends, scope, hash: token::hash(&token) };
            site.admin.add_token(&new, &operator()).await.unwrap();
            site.tokens.push((name, Some(token)));
        }
        site.tokens.push(("wrong", Some(token::fresh().unwrap())));
        site
    }

    pub(crate) fn token(&self, of: &str) -> Option<&str> {
        self.tokens.iter().find(|(name, _)| *name == of).unwrap().1.as_deref()
    }

    /// Asks with the token of `who`.
    pub(crate) async fn ask(&self, who: &str, method: &str, path: &str, body: Option<&str>) -> Answer {
        let bearer = self.token(who).map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        let kind = if body.is_some() { "content-type: application/json\r\n" } else { "" };
        self.send(method, path, &format!("{bearer}{kind}"), body.unwrap_or_default().as_bytes()).await
    }

    pub(crate) async fn get(&self, who: &str, path: &str) -> Answer {
        self.ask(who, "GET", path, None).await
    }

    /// Asks with these headers, each with its line break.
    pub(crate) async fn send(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        let mut stream = self.begin(method, path, headers, body).await;
        let mut text = Vec::new();
        // A server that refuses a large body may close while we still send.
        let _ = stream.read_to_end(&mut text).await;
        parse(&text)
    }

    /// A request whose answer is read by the caller.
    pub(crate) async fn begin(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> TcpStream {
        let host = if headers.contains("host: ") { String::new() } else { format!("host: {}\r\n", self.address) };
        let length = body.len();
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let head =
            format!("{method} {path} HTTP/1.1\r\n{host}connection: close\r\n{headers}content-length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let _ = stream.write_all(body).await;
        stream
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }
}

fn parse(bytes: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Every operation of the description: method, path with its places, the operation.
pub(crate) async fn operations(site: &Site) -> (Value, Vec<(String, String, Value)>) {
    let described = site.get("nobody", "/api/v1/openapi.json").await.json();
    let mut all = Vec::new();
    for (path, verbs) in described["paths"].as_object().unwrap() {
        for (verb, operation) in verbs.as_object().unwrap() {
            all.push((verb.to_uppercase(), path.clone(), operation.clone()));
        }
    }
    assert!(all.len() > 20, "only {}", all.len());
    (described, all)
}
