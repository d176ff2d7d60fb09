//! What viewers are not shown: values of headers, and the words of receivers and handlers, which may quote a payload.

use axum::body::{Body, to_bytes};
use axum::http::header;
use axum::response::Response;
use serde_json::Value;

/// What stands in the place of a hidden text.
const HIDDEN: &str = "[hidden]";

/// Hides it in a response of JSON; others are left as they are.
pub(super) async fn hide_in(response: Response) -> Response {
    let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if !is_json {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // Our own answer, which is in memory already.
    let Ok(bytes) = to_bytes(body, usize::MAX).await else { return Response::from_parts(parts, Body::empty()) };
    let Ok(mut value) = serde_json::from_slice::<Value>(&bytes) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    hide(&mut value);
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(value.to_string()))
}

/// Hides it in an object, or in all objects of a list.
pub(super) fn hide(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(hide),
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), &mut *value) {
                    ("error", Value::String(text)) => HIDDEN.clone_into(text),
                    ("message", Value::String(text)) => *text = code_of(text).to_owned(),
                    ("headers", Value::Object(headers)) => {
                        headers.values_mut().for_each(|value| *value = Value::from(HIDDEN));
                    }
                    _ => hide(value),
                }
            }
        }
        _ => {}
    }
}

/// The code that a message begins with, if it has one; a message without a code is ours and quotes nobody.
fn code_of(message: &str) -> &str {
    let Some((code, _)) = message.split_once(": ") else { return message };
    let is_code = code.contains('.') && code.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '.' | '_'));
    if is_code { code } else { message }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_of_others_and_values_of_headers_are_hidden_and_the_rest_stays() {
        let mut value = json!([{
            "code": "exec.error", "error": "card 4111", "headers": {"authorization": "Bearer x"},
            "attempts": [{"error": "4111", "took_ms": 3}],
            "message": "webhook.status: 500 4111", "none": null,
        }, {"message": "paused by ann: asked for"}]);
        hide(&mut value);
        assert_eq!(
            value,
            json!([{
                "code": "exec.error", "error": "[hidden]", "headers": {"authorization": "[hidden]"},
                "attempts": [{"error": "[hidden]", "took_ms": 3}],
                "message": "webhook.status", "none": null,
            }, {"message": "paused by ann: asked for"}])
        );
    }
}
