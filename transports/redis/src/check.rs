//! What `config check --online` looks up: the server, the stream, the right to write, and what an answer is worth there.
//! Changes nothing. What the user may not look at is named.

use std::collections::HashMap;

use postroom_core::{Diagnostic, Failure};
use redis::Value;
use tokio::time::timeout;

use crate::connection::Connection;
use crate::failures;
use crate::options::RedisOptions;

pub(crate) async fn check(options: &RedisOptions) -> Vec<Diagnostic> {
    let connection = match Connection::open(&options.url, &options.tls, options.timeout).await {
        Ok(connection) => connection,
        Err(failure) => return vec![Diagnostic::from(failure)],
    };
    let server = connection.server.clone();
    let mut look = Look { connection, findings: Vec::new(), unseen: Vec::new() };
    match timeout(options.timeout, look.all(options)).await {
        Ok(Ok(())) => {}
        Ok(Err(failure)) => look.findings.push(Diagnostic::from(failure)),
        Err(_) => look.findings.push(Diagnostic::from(failures::unreachable(&server, &"no answer"))),
    }
    if !look.unseen.is_empty() {
        let what = format!("the user may not look at {}", look.unseen.join(", "));
        let next = "allow it for this check (+info +config|get +acl|dryrun +acl|whoami +type +xlen), or look yourself";
        look.findings.push(Diagnostic::warning("redis.unseen", what).hint(next.to_owned()));
    }
    look.findings
}

struct Look {
    connection: Connection,
    findings: Vec<Diagnostic>,
    unseen: Vec<&'static str>,
}

impl Look {
    async fn all(&mut self, options: &RedisOptions) -> Result<(), Failure> {
        match self.info().await? {
            Some(info) => self.server(options, &info),
            None => self.unseen.push("the server's state (INFO)"),
        }
        self.durability().await?;
        match options.stream.fixed() {
            Some(stream) => {
                self.stream(stream, options.maxlen).await?;
                self.right(stream).await
            }
            None => Ok(()),
        }
    }

    fn fine(&mut self, what: String) {
        self.findings.push(Diagnostic::fine(what));
    }

    fn warn(&mut self, code: &'static str, what: impl Into<String>, next: &str) {
        self.findings.push(Diagnostic::warning(code, what).hint(next.to_owned()));
    }

    /// `name: value` of every section of `INFO`.
    async fn info(&mut self) -> Result<Option<HashMap<String, String>>, Failure> {
        let text: Option<String> = redis::from_redis_value(self.connection.ask(&redis::cmd("INFO")).await?).ok();
        let pair = |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
        Ok(text.map(|text| text.lines().filter_map(pair).collect()))
    }

    fn server(&mut self, options: &RedisOptions, info: &HashMap<String, String>) {
        let of = |name: &str| info.get(name).map_or("", String::as_str);
        let replicas: u32 = of("connected_slaves").parse().unwrap_or(0);
        // Valkey says as which Redis it behaves, too.
        let program = match of("valkey_version") {
            "" => format!("Redis {}", of("redis_version")),
            version => format!("Valkey {version}"),
        };
        let server = self.connection.server.clone();
        if of("role") == "slave" {
            let why =
                format!("{server} is {program} and a replica, which takes no events; give the URL of the primary");
            self.findings.push(Diagnostic::from(Failure::unavailable("redis.read_only", why)));
        } else {
            self.fine(format!("{server} is {program} with {replicas} replicas"));
        }
        if of("cluster_enabled") == "1" {
            let next =
                "every stream must live on this node, or its events stop the route; cluster clients are not used";
            self.warn("redis.cluster", format!("{server} is a node of a cluster"), next);
        }
        if let Some(wanted) = options.wait_replicas.filter(|wanted| *wanted > replicas) {
            self.findings.push(Diagnostic::from(failures::replicas(wanted, replicas.into())));
        }
        let policy = of("maxmemory_policy");
        if policy != "noeviction" {
            let what = format!("the server may remove streams when its memory is full (maxmemory-policy {policy})");
            self.warn("redis.eviction", what, "set maxmemory-policy noeviction; then events wait here instead");
        }
    }

    /// What a crash of the server leaves of what it has answered.
    async fn durability(&mut self) -> Result<(), Failure> {
        let next = "set appendonly yes and appendfsync everysec or always, or wait_replicas here";
        let (appends, syncs) =
            (self.connection.setting("appendonly").await?, self.connection.setting("appendfsync").await?);
        match (appends.as_deref(), syncs.as_deref()) {
            (None, _) | (_, None) => self.unseen.push("how it writes to its disk (CONFIG GET appendonly, appendfsync)"),
            (Some("no"), _) => {
                self.warn(
                    "redis.not_durable",
                    "the server keeps no append-only file: a restart loses events it took",
                    next,
                );
            }
            (_, Some("no")) => {
                self.warn("redis.not_durable", "the server never waits for its disk (appendfsync no)", next);
            }
            (_, Some("always")) => self.fine("an answer means that it is on the server's disk".to_owned()),
            _ => self.fine("a crash of the server may lose the last second or two (appendfsync everysec)".to_owned()),
        }
        Ok(())
    }

    async fn stream(&mut self, stream: &str, maxlen: Option<u64>) -> Result<(), Failure> {
        let kind: Option<String> =
            redis::from_redis_value(self.connection.ask(redis::cmd("TYPE").arg(stream)).await?).ok();
        match kind.as_deref() {
            None => self.unseen.push("the stream (TYPE)"),
            Some("none") => self.fine(format!("stream {stream} does not exist; the first event creates it")),
            Some("stream") => {
                let length = self.connection.ask(redis::cmd("XLEN").arg(stream)).await?;
                match (redis::from_redis_value::<u64>(length).ok(), maxlen) {
                    (None, _) => self.unseen.push("the stream's length (XLEN)"),
                    (Some(length), Some(maxlen)) if length >= maxlen => {
                        let what = format!("stream {stream} has {length} entries and keeps about {maxlen}");
                        self.warn(
                            "redis.trimmed",
                            what,
                            "the oldest go, read or not: raise maxlen if consumers are behind",
                        );
                    }
                    (Some(length), Some(maxlen)) => {
                        self.fine(format!("stream {stream} has {length} entries and keeps about {maxlen}"));
                    }
                    (Some(length), None) => self.fine(format!("stream {stream} has {length} entries and keeps all")),
                }
            }
            Some(other) => {
                let why = format!("key {stream} is a {other}, not a stream; choose another name, or remove the key");
                self.findings.push(Diagnostic::from(Failure::unavailable("redis.wrong_type", why)));
            }
        }
        Ok(())
    }

    /// Whether the user may write there; since Redis 7 the server can be asked.
    async fn right(&mut self, stream: &str) -> Result<(), Failure> {
        let user = self.connection.ask(redis::cmd("ACL").arg("WHOAMI")).await?;
        let dry = match redis::from_redis_value::<String>(user) {
            Ok(user) => {
                let mut dry = redis::cmd("ACL");
                dry.arg("DRYRUN").arg(user).arg(&["XADD", stream, "*", "data", ""]);
                self.connection.ask(&dry).await?
            }
            Err(_) => Value::Nil,
        };
        match dry {
            Value::Okay => self.fine(format!("the user may write to {stream}")),
            Value::SimpleString(why) => self.refuse(stream, &why),
            Value::BulkString(why) => self.refuse(stream, &String::from_utf8_lossy(&why)),
            _ => self.unseen.push("its own rights (ACL DRYRUN)"),
        }
        Ok(())
    }

    fn refuse(&mut self, stream: &str, why: &str) {
        let failure =
            Failure::unavailable("redis.permission", format!("stream {stream}: {why}; allow the user +xadd there"));
        self.findings.push(Diagnostic::from(failure));
    }
}
