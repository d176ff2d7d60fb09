//! Events as JSON lines, the input of `event append -`. Payloads are kept byte for byte and never reach an error.

use std::io::{BufRead, Read};

use postroom_core::{Event, EventError, HEADER_BYTES_MAX, Limits};
use postroom_server::event_json::EventJson;

use crate::exit::{Exit, Failed};
use crate::output::count;
use crate::progress::Progress;

/// Events that were read.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The events.
    pub(crate) events: Vec<Event>,
    /// The ids that their lines gave them.
    pub(crate) named: Vec<String>,
}

/// Reads every line; the error names the number of the first bad line. Blank lines are skipped.
pub(crate) fn read(
    mut from: impl BufRead,
    limits: Limits,
    check: impl Fn(&Event) -> Result<(), EventError>,
) -> Result<Lines, Failed> {
    // Names, headers and their quoting on top of the largest payload; a longer line cannot be an event.
    let longest = (limits.payload_bytes_max + 8 * HEADER_BYTES_MAX) as u64;
    let mut lines = Lines::default();
    let mut line = Vec::new();
    let mut progress = Progress::begin();
    for number in 1u64.. {
        line.clear();
        let read = from.by_ref().take(longest + 1).read_until(b'\n', &mut line);
        match read {
            Err(e) => return Err(bad(number, &format!("cannot be read: {e}"), "")),
            Ok(0) => break,
            Ok(n) if n as u64 > longest => {
                let why =
                    format!("is longer than {longest} bytes; the payload's limit is {}", limits.payload_bytes_max);
                return Err(bad(number, &why, "raise `limits.payload`, or send a reference to the large part"));
            }
            Ok(_) => {}
        }
        let text = line.trim_ascii();
        if !text.is_empty() {
            let (event, is_named) = event(number, text, limits)?;
            check(&event).map_err(|e| bad(number, &e.to_string(), e.hint()))?;
            lines.named.extend(is_named.then(|| event.id.clone()));
            lines.events.push(event);
            progress.show(|| format!("{} read", count(lines.events.len() as u64, "event")));
        }
    }
    Ok(lines)
}

/// One event, and whether its line gave it an id.
fn event(number: u64, text: &[u8], limits: Limits) -> Result<(Event, bool), Failed> {
    let text = std::str::from_utf8(text).map_err(|_| bad(number, "is not UTF-8", SHAPE))?;
    // The parser counts lines too; its only one is ours with that number.
    let line =
        EventJson::parse(text).map_err(|why| bad(number, &why.replace(" at line 1 column ", " at column "), SHAPE))?;
    let is_named = line.is_named();
    let event = line.into_event();
    limits.check(&event).map_err(|e| bad(number, &e.to_string(), e.hint()))?;
    Ok((event, is_named))
}

const SHAPE: &str = r#"one event a line: {"type": "order.placed", "key": "order-7", "payload": {"total": 12}}"#;

fn bad(number: u64, why: &str, hint: &str) -> Failed {
    Failed::new(Exit::Usage, format!("line {number}: {why}; nothing was appended"), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str) -> Result<Vec<Event>, String> {
        let limits = Limits { payload_bytes_max: 1000 };
        let lines = read(input.as_bytes(), limits, |_| Ok(()));
        lines.map(|lines| lines.events).map_err(|f| f.problems[0].message.clone())
    }

    #[test]
    fn a_payload_is_kept_byte_for_byte() {
        let events = check("{\"type\":\"t\",\"payload\": {\"b\" : 1.10,  \"a\":\"\\u00e9\"} }\n").unwrap();
        assert_eq!(&events[0].payload[..], b"{\"b\" : 1.10,  \"a\":\"\\u00e9\"}");
    }

    #[test]
    fn every_documented_name_is_read() {
        let full = r#"{"type":"t","key":"k","payload":1,"id":"i","aggregate_type":"a","aggregate_id":"b","tenant":"n","headers":{"h":"1"},"attributes":{"x":2},"correlation_id":"c","causation_id":"d","schema_version":3,"occurred_at":"2026-01-02T03:04:05Z","available_at":"2026-01-03T03:04:05Z"}"#;
        let event = check(full).unwrap().remove(0);
        assert_eq!((event.id.as_str(), event.key.as_deref(), event.schema_version), ("i", Some("k"), 3));
        assert_eq!((event.tenant.as_deref(), event.headers["h"].as_str()), (Some("n"), "1"));
        assert_eq!((event.correlation_id.as_deref(), event.causation_id.as_deref()), (Some("c"), Some("d")));
        assert_eq!(event.occurred_at.to_string(), "2026-01-02T03:04:05Z");
        assert_eq!(event.available_at.unwrap().to_string(), "2026-01-03T03:04:05Z");
        assert_eq!(event.attributes["x"], 2);
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        let good = "{\"type\":\"t\"}\n\n";
        for (bad, why) in [
            ("nonsense", "is not a JSON object"),
            ("{\"type\":\"t\",", "is not an event"),
            ("{\"typ\":\"t\"}", "unknown field `typ`"),
            ("{\"key\":\"k\"}", "missing field `type`"),
            ("{\"type\":\"\"}", "event type is empty"),
            ("{\"type\":\"t\",\"available_at\":\"soon\"}", "is not an event"),
        ] {
            let error = check(&format!("{good}{bad}\n")).unwrap_err();
            assert!(error.starts_with("line 3: ") && error.contains(why), "{error}");
            assert!(error.ends_with("; nothing was appended"), "{error}");
        }
        let long = format!("{{\"type\":\"t\",\"payload\":\"{}\"}}", "x".repeat(1001));
        assert!(check(&long).unwrap_err().starts_with("line 1: event payload is 1003 bytes"));
    }

    #[test]
    fn a_line_without_end_is_refused_before_it_fills_the_memory() {
        let error = read(std::io::BufReader::new(std::io::repeat(b'x')), Limits { payload_bytes_max: 10 }, |_| Ok(()))
            .unwrap_err();
        assert!(error.problems[0].message.starts_with("line 1: is longer than"));
    }

    #[test]
    fn what_stands_in_a_payload_never_reaches_the_error() {
        for bad in
            ["\"canary\"", "{\"type\":\"t\",\"payload\":{\"card\":canary}}", "{\"type\":\"t\",\"payload\":\"canary"]
        {
            assert!(!check(bad).unwrap_err().contains("canary"), "{bad}");
        }
    }
}
