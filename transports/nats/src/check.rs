//! What `config check --online` looks up: the server, the stream, whether the subject is one of its, and how much an
//! acknowledgement is worth there. Changes nothing.

use async_nats::jetstream::stream::{Info, StorageType};
use postroom_core::{Diagnostic, DuplicateWindow, Template};

use crate::connection::Connection;
use crate::failures;
use crate::options::NatsOptions;

pub(crate) async fn check(options: &NatsOptions, name: &str) -> Vec<Diagnostic> {
    let mut connection = match Connection::open(options, name).await {
        Ok(connection) => connection,
        Err(failure) => return vec![Diagnostic::from(failure)],
    };
    let info = connection.info();
    let largest = connection.payload_bytes_max();
    let server = format!("{} is NATS {}; it takes messages up to {largest} bytes", connection.server, info.version);
    let mut findings = vec![Diagnostic::fine(server)];
    if !options.jetstream {
        let what = "core NATS: delivered means that the server took the bytes, and only who listens then gets them";
        let next = "leave out `jetstream = false` and give the subject a stream, unless a lost event does no harm";
        findings.push(Diagnostic::warning("nats.core", what.to_owned()).hint(next.to_owned()));
        return findings;
    }
    let Some(name) = &options.stream else {
        let any = format!("whichever stream takes {} will do; name one to have it looked up", options.subject.as_str());
        findings.push(Diagnostic::fine(any));
        return findings;
    };
    match (connection.stream(name, None).await, &options.create) {
        (Ok(stream), _) => findings.extend(stream_findings(name, &stream, options)),
        (Err(failure), Some(_)) if failure.code == "nats.no_stream" => {
            let later = format!("stream {name} does not exist; it is created at the first delivery");
            findings.push(Diagnostic::fine(later));
        }
        (Err(failure), _) => findings.push(Diagnostic::from(failure)),
    }
    findings
}

fn stream_findings(name: &str, stream: &Info, options: &NatsOptions) -> Vec<Diagnostic> {
    let config = &stream.config;
    let warning =
        |code, what: &str, next: &str| Diagnostic::warning(code, format!("stream {name} {what}")).hint(next.to_owned());
    let mut findings = Vec::new();
    if config.no_ack {
        findings.push(Diagnostic::from(failures::never_acks(name)));
    }
    let (subject, subjects) = (options.subject.as_str(), config.subjects.join(", "));
    findings.push(match coverage(&options.subject, &config.subjects) {
        Coverage::Always => Diagnostic::fine(format!("stream {name} takes {subject}")),
        Coverage::Sometimes => warning(
            "nats.subjects",
            &format!("takes {subjects}; not every subject that {subject} can make is one of them"),
            "an event with another subject stops the route; widen the stream's subjects if there can be one",
        ),
        Coverage::Never => {
            let why = format!("it takes {subjects}, and never {subject}; correct `subject`, or the stream's subjects");
            Diagnostic::from(failures::no_stream(name, &why))
        }
    });
    findings.push(Diagnostic::recognises(DuplicateWindow {
        code: "nats.duplicate_window",
        what: format!("stream {name}"),
        lasts: config.duplicate_window,
        fix: format!("nats stream edit {name} --dupe-window="),
    }));
    if config.storage == StorageType::Memory {
        let next = "what it acknowledged is gone when its servers stop; use file storage";
        findings.push(warning("nats.memory", "is kept in memory", next));
    } else if config.num_replicas <= 1 {
        let next = "it acknowledges before its disk has the event, so a power cut loses some; use three replicas, \
                    or sync_interval = always in the server's jetstream settings";
        findings.push(warning("nats.one_replica", "is on one server", next));
    } else {
        findings.push(Diagnostic::fine(format!("stream {name} is on {} servers", config.num_replicas)));
    }
    findings
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Coverage {
    Never,
    Sometimes,
    Always,
}

/// Whether the subjects this template makes are among those a stream takes.
fn coverage(template: &Template, subjects: &[String]) -> Coverage {
    subjects.iter().map(|subject| covers(subject, template)).max().unwrap_or(Coverage::Never)
}

fn covers(subject: &str, template: &Template) -> Coverage {
    let fixed = template.fixed().is_some();
    let mut made: Vec<&str> = template.start().split('.').collect();
    if !fixed {
        // The last part goes on with something of the event.
        made.pop();
    }
    let mut taken = subject.split('.');
    for part in made {
        match taken.next() {
            Some(">") => return Coverage::Always,
            Some(token) if token == "*" || token == part => {}
            _ => return Coverage::Never,
        }
    }
    match (taken.next(), fixed) {
        (None, true) | (Some(">"), false) => Coverage::Always,
        (Some(_), true) | (None, false) => Coverage::Never,
        (Some(_), false) => Coverage::Sometimes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_matched_as_the_server_does_it() {
        use Coverage::{Always, Never, Sometimes};
        for (template, subjects, expected) in [
            ("orders.placed", &["orders.placed"][..], Always),
            ("orders.placed", &["orders.*"], Always),
            ("orders.placed", &["orders.>"], Always),
            ("orders.placed", &[">"], Always),
            ("orders.placed", &["*.placed"], Always),
            ("orders.placed", &["*"], Never),
            ("orders.placed", &["orders"], Never),
            ("orders.placed", &["orders.placed.>"], Never),
            ("orders.placed", &["bills.>", "orders.*"], Always),
            ("orders.placed", &[], Never),
            ("orders.{type}", &["orders.>"], Always),
            ("orders.{type}", &["orders.*"], Sometimes),
            ("orders.{type}", &["orders.placed"], Sometimes),
            ("orders.{type}", &["orders"], Never),
            ("orders.{type}", &["bills.>"], Never),
            ("orders-{type}", &["bills.>"], Sometimes),
            ("{type}", &[">"], Always),
            ("{type}", &["orders.>"], Sometimes),
            ("eu.{tenant}.orders", &["*.>"], Always),
        ] {
            let subjects: Vec<String> = subjects.iter().map(|&s| s.to_owned()).collect();
            assert_eq!(
                coverage(&Template::parse(template, &[]).unwrap(), &subjects),
                expected,
                "{template} {subjects:?}"
            );
        }
    }
}
