//! The lines, in both directions. Pure: bytes in, bytes out.

use postroom_core::envelope::Encoder;
use postroom_core::{Failure, Outbound, Outcome};
use postroom_transport_kit::worker::{self, NotAnAnswer, WorkerRequest};
use serde_json::Value;

/// Longest line a child may answer with, in bytes; a longer one ends the child.
pub const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// The line for one delivery, line break included.
pub(crate) fn request(encoder: &Encoder, route: &str, outbound: &Outbound) -> Result<Vec<u8>, Failure> {
    let event = &outbound.event;
    let envelope = &*worker::envelope(encoder, outbound, "exec.not_json")?;
    let attempt = outbound.attempt;
    let told = WorkerRequest { lease: None, id: &event.id, event_type: &event.event_type, attempt, route, envelope };
    let mut line = serde_json::to_vec(&told).map_err(|e| Failure::permanent("exec.not_json", e.to_string()))?;
    // A line break in valid JSON can only stand between tokens, where a space means the same.
    for byte in &mut line {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    line.push(b'\n');
    Ok(line)
}

/// What a child says of one event.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) id: String,
    pub(crate) outcome: Outcome,
}

/// Reads one line.
pub(crate) fn answer(line: &[u8]) -> Result<Answer, NotAnAnswer> {
    let Value::Object(mut fields) = serde_json::from_slice(line).map_err(|_| NotAnAnswer::NotJson)? else {
        return Err(NotAnAnswer::NotAnObject);
    };
    let id = match fields.remove("id").filter(|id| !id.is_null()) {
        Some(Value::String(id)) => id,
        Some(_) => return Err(NotAnAnswer::WrongType("id")),
        None => return Err(NotAnAnswer::Missing("id")),
    };
    Ok(Answer { id, outcome: worker::outcome(&mut fields, "exec.error")? })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use postroom_core::envelope::{Binding, Format};
    use postroom_core::{ERROR_BYTES_MAX, Event, FailureKind, JSON, RETRY_AFTER_MAX, Receipt};
    use proptest::prelude::*;
    use tokio::sync::mpsc;

    use super::*;

    fn line(format: Format, event: Event) -> Result<String, Failure> {
        let (report, _) = mpsc::unbounded_channel();
        let outbound = Outbound::new(1, 3, Arc::new(event), Some(7), report);
        request(&Encoder::new(format, Binding::Http, "/s"), "mailer", &outbound)
            .map(|line| String::from_utf8(line).unwrap())
    }

    fn failure(line: &str) -> Failure {
        answer(line.as_bytes()).unwrap().outcome.unwrap_err()
    }

    #[test]
    fn a_line_carries_id_type_attempt_route_and_the_envelope_as_it_was_encoded() {
        let event = Event::new("t").id("e-1").bytes(JSON, r#"{"big": 123456789012345678901234567890}"#);
        let text = line(Format::CloudEventsStructured, event).unwrap();
        assert!(
            text.starts_with(r#"{"id":"e-1","type":"t","attempt":3,"route":"mailer","envelope":{"specversion":"1.0","#),
            "{text}"
        );
        assert!(text.ends_with("\"data\":{\"big\": 123456789012345678901234567890}}}\n"), "{text}");
    }

    #[test]
    fn a_payload_with_line_breaks_is_still_one_line_that_means_the_same() {
        let event = Event::new("t").bytes(JSON, "{\r\n  \"a\": \"x\\ny\"\n}");
        let text = line(Format::Raw, event).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["envelope"]["a"], "x\ny");
    }

    #[test]
    fn an_envelope_that_is_not_json_is_refused_for_good_without_quoting_it() {
        let failure = line(Format::Raw, Event::new("t").id("e-9").bytes("text/plain", "canary")).unwrap_err();
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Permanent, "exec.not_json"));
        assert!(failure.error.contains("e-9") && !failure.error.contains("canary"), "{}", failure.error);
    }

    #[test]
    fn the_three_forms_of_an_answer_are_read() {
        let ok = answer(br#"{"id":"1","ok":true,"error":null}"#).unwrap();
        assert_eq!(ok, Answer { id: "1".into(), outcome: Ok(Receipt::default()) });
        let soft = failure(r#"{"id":"1","error":"full","permanent":false,"retry_after":"5s"}"#);
        assert_eq!((soft.kind, soft.error.as_str()), (FailureKind::Transient, "full"));
        assert_eq!(soft.retry_after, Some(Duration::from_secs(5)));
        let hard = failure(
            r#"{"id":"1","errors":[{"handler":"a","error":"x"},{"handler":"b","error":"y"}],"permanent":true}"#,
        );
        assert_eq!((hard.kind, hard.error.as_str(), hard.handlers.len()), (FailureKind::Permanent, "a: x; b: y", 2));
    }

    #[test]
    fn contradictions_and_unreadable_wishes_still_mean_a_failure() {
        assert_eq!(failure(r#"{"id":"1","ok":true,"error":"but"}"#).error, "but");
        assert_eq!(failure(r#"{"id":"1","ok":false}"#).kind, FailureKind::Transient);
        assert_eq!(failure(r#"{"id":"1","error":"x","retry_after":5}"#).retry_after, None);
        assert_eq!(failure(r#"{"id":"1","error":"x","retry_after":"soon"}"#).retry_after, None);
        assert_eq!(failure(r#"{"id":"1","error":"x","retry_after":"365d"}"#).retry_after, Some(RETRY_AFTER_MAX));
    }

    #[test]
    fn what_is_not_an_answer_is_described_and_never_quoted() {
        for (line, why) in [
            ("", "it is not JSON"),
            ("canary", "it is not JSON"),
            (r#"{"id":"1","ok":true} canary"#, "it is not JSON"),
            (r#"["canary"]"#, "it is not a JSON object"),
            (r#"{"ok":true}"#, "it has no `id`"),
            (r#"{"id":7,"ok":true}"#, "its `id` has the wrong type"),
            (r#"{"id":"1"}"#, "it has neither `ok` nor `error`"),
            (r#"{"id":"1","errors":[]}"#, "it has neither `ok` nor `error`"),
            (r#"{"id":"1","permanent":true}"#, "it has neither `ok` nor `error`"),
            (r#"{"id":"1","ok":"canary"}"#, "its `ok` has the wrong type"),
            (r#"{"id":"1","error":{"canary":1}}"#, "its `error` has the wrong type"),
            (r#"{"id":"1","errors":["canary"]}"#, "its `errors` has the wrong type"),
        ] {
            assert_eq!(answer(line.as_bytes()).unwrap_err().to_string(), why, "{line}");
        }
    }

    #[test]
    fn what_a_child_says_is_kept_within_limits() {
        let errors: Vec<Value> =
            (0..500).map(|n| serde_json::json!({"handler": format!("h{n}"), "error": "x\n".repeat(4000)})).collect();
        let failure = failure(&serde_json::json!({"id": "1", "errors": errors}).to_string());
        assert_eq!(failure.handlers.len(), 64);
        let longest = ERROR_BYTES_MAX + '…'.len_utf8();
        assert!(failure.error.len() <= longest);
        assert!(failure.handlers.iter().all(|h| h.error.len() <= longest && !h.error.contains('\n')));
    }

    proptest! {
        #[test]
        fn rubbish_is_never_taken_for_an_answer_and_never_breaks_the_reader(bytes: Vec<u8>) {
            if let Ok(found) = answer(&bytes) {
                let value: Value = serde_json::from_slice(&bytes).unwrap();
                prop_assert_eq!(value["id"].as_str(), Some(found.id.as_str()));
            }
        }

        #[test]
        fn a_success_is_only_ever_read_from_ok_true(
            id: String,
            ok in prop_oneof![Just("true"), Just("false"), Just("null"), Just("1"), Just("\"true\"")],
            error in prop_oneof![Just("null"), Just("\"x\""), Just("[]"), Just("{}")],
            errors in prop_oneof![Just("null"), Just("[]"), Just("[{\"handler\":\"h\",\"error\":\"e\"}]"), Just("7")],
            cut in 0_usize..200,
        ) {
            let id = Value::String(id).to_string();
            let whole = format!(r#"{{"id":{id},"ok":{ok},"error":{error},"errors":{errors}}}"#);
            let delivered = |line: &[u8]| matches!(answer(line), Ok(Answer { outcome: Ok(_), .. }));
            let expected = ok == "true" && error == "null" && matches!(errors, "null" | "[]");
            prop_assert_eq!(delivered(whole.as_bytes()), expected);
            if cut < whole.len() {
                prop_assert!(!delivered(&whole.as_bytes()[..cut]), "a line cut off by a death is no answer");
            }
        }
    }
}
