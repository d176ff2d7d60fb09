//! Lag of the groups of a stream: entries that they have not been given, and entries that they have not acknowledged.
//!
//! Each read opens a connection of its own. A server before version 7 does not count the entries ahead of a group, and one of
//! whose stream entries were deleted cannot; then only what follows from the ids is known.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use postroom_core::{ConsumerLag, ConsumerLags, Failure, LagOptions, LagReader};
use redis::{Value, from_redis_value};
use tokio::time::timeout;

use crate::connection::Connection;
use crate::failures;
use crate::options::RedisOptions;

/// Reader of the lag of a stream's groups.
#[derive(Debug)]
pub(crate) struct GroupLag {
    options: RedisOptions,
    stream: String,
    lag: LagOptions,
}

impl GroupLag {
    /// Nothing when the name of the stream is made from events.
    pub(crate) fn new(options: &RedisOptions, lag: &LagOptions) -> Option<Self> {
        let stream = options.stream.fixed()?.to_owned();
        Some(Self { options: options.clone(), stream, lag: lag.clone() })
    }

    async fn groups(&self, connection: &mut Connection) -> Result<ConsumerLags, Failure> {
        let answer = connection.ask(redis::cmd("XINFO").arg("GROUPS").arg(&self.stream)).await?;
        let groups: Vec<Fields> = match answer {
            // Without the stream there are no groups; the first event makes it.
            Value::ServerError(error) if error.details().is_some_and(|said| said.contains("no such key")) => Vec::new(),
            Value::ServerError(error) => return Err(self.refused(&error)),
            answer => from_redis_value(answer).map_err(|_| self.unreadable("XINFO GROUPS"))?,
        };
        let named = |fields: &Fields| text(fields, "name");
        let wanted = |name: &String| self.lag.names.is_empty() || self.lag.names.contains(name);
        let (mut consumers, mut ends) = (Vec::new(), None);
        for group in groups.iter().filter(|group| named(group).is_some_and(|name| wanted(&name))) {
            let mut ahead = number(group, "lag");
            if ahead.is_none() {
                let ends = match &ends {
                    Some(ends) => ends,
                    None => ends.insert(self.ends(connection).await?),
                };
                ahead = text(group, "last-delivered-id").and_then(|id| ends.ahead_of(&id));
            }
            let messages = ahead.zip(number(group, "pending")).map(|(ahead, pending)| ahead + pending);
            let name = named(group).unwrap_or_default();
            consumers.push(ConsumerLag::new(&self.stream, name, messages, number(group, "consumers")));
        }
        let mut problems: Vec<String> = consumers
            .iter()
            .filter(|lag| lag.messages.is_none())
            .map(|lag| format!("the server cannot tell how many entries group {} has not been given", lag.consumer))
            .collect();
        for name in &self.lag.names {
            if !consumers.iter().any(|lag| lag.consumer == *name) {
                problems.push(format!("stream {} has no group {name}", self.stream));
                consumers.push(ConsumerLag::new(&self.stream, name, None, None));
            }
        }
        Ok(ConsumerLags::new(consumers, problems.join("; ")))
    }

    async fn ends(&self, connection: &mut Connection) -> Result<Ends, Failure> {
        let stream: Fields = match connection.ask(redis::cmd("XINFO").arg("STREAM").arg(&self.stream)).await? {
            Value::ServerError(error) => return Err(self.refused(&error)),
            answer => from_redis_value(answer).map_err(|_| self.unreadable("XINFO STREAM"))?,
        };
        // An entry is its id and its fields.
        let first = stream.get("first-entry").and_then(|entry| entry.as_sequence()?.first());
        Ok(Ends {
            length: number(&stream, "length"),
            first: first.and_then(|id| from_redis_value::<String>(id.clone()).ok()).and_then(|id| parsed(&id)),
            last: text(&stream, "last-generated-id").and_then(|id| parsed(&id)),
        })
    }

    fn refused(&self, error: &redis::ServerError) -> Failure {
        failures::refused_at(error, &format!("stream {}", self.stream), "+xinfo on the stream's key")
    }

    fn unreadable(&self, command: &str) -> Failure {
        Failure::unavailable("redis.refused", format!("stream {}: {command} was not answered as expected", self.stream))
    }
}

#[async_trait]
impl LagReader for GroupLag {
    fn every(&self) -> Duration {
        self.lag.every
    }

    async fn read(&mut self) -> Result<ConsumerLags, Failure> {
        let RedisOptions { url, tls, timeout: within, .. } = &self.options;
        let mut connection = Connection::open(url, tls, *within).await?;
        let server = connection.server.clone();
        let read = timeout(*within, self.groups(&mut connection)).await;
        read.unwrap_or_else(|_| Err(failures::unreachable(&server, &"no answer")))
    }
}

/// Names with their values, as the server answers.
type Fields = HashMap<String, Value>;

fn text(fields: &Fields, name: &str) -> Option<String> {
    from_redis_value(fields.get(name)?.clone()).ok()
}

fn number(fields: &Fields, name: &str) -> Option<u64> {
    from_redis_value(fields.get(name)?.clone()).ok()
}

/// Milliseconds and a number.
type Id = (u64, u64);

fn parsed(id: &str) -> Option<Id> {
    let (time, number) = id.split_once('-')?;
    Some((time.parse().ok()?, number.parse().ok()?))
}

/// The ends of a stream.
#[derive(Debug)]
struct Ends {
    length: Option<u64>,
    first: Option<Id>,
    last: Option<Id>,
}

impl Ends {
    /// How many entries follow this one, where its place tells: at the end none do, before the beginning all.
    fn ahead_of(&self, id: &str) -> Option<u64> {
        let id = parsed(id)?;
        match (self.length?, self.first) {
            (0, _) => Some(0),
            _ if self.last.is_some_and(|last| id >= last) => Some(0),
            (length, Some(first)) if id < first => Some(length),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_server_does_not_count_only_what_the_ids_tell_is_known() {
        let ends = Ends { length: Some(5), first: Some((10, 0)), last: Some((20, 1)) };
        for (id, ahead) in [("0-0", Some(5)), ("9-7", Some(5)), ("10-0", None), ("20-0", None), ("20-1", Some(0))] {
            assert_eq!(ends.ahead_of(id), ahead, "{id}");
        }
        let empty = Ends { length: Some(0), first: None, last: Some((20, 1)) };
        assert_eq!((empty.ahead_of("3-0"), empty.ahead_of("nonsense")), (Some(0), None));
    }
}
