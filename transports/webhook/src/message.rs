//! An event as a request: body and content type are the envelope's, then our headers, then those of the event that may be.

use std::borrow::Cow;
use std::fmt::Write as _;

use jiff::Timestamp;
use postroom_core::envelope::{Encoder, Envelope};
use postroom_core::{Event, Failure, Outbound};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request};
use url::Url;

use crate::options::WebhookOptions;
use crate::signature::{self, SigningKey};

/// What an event may not set, by the beginning of the name: ours, what describes the body, and what is between us
/// and a proxy.
const RESERVED_PREFIXES: [&str; 5] = ["ce-", "webhook-", "postroom-", "content-", "proxy-"];

/// And by the whole name: what rules the connection, and who we are. An event's author is not to choose credentials.
const RESERVED: [&str; 13] = [
    "host",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    "http2-settings",
    "accept-encoding",
    "user-agent",
    "authorization",
    "cookie",
];

/// What an event's author may always set: it says which trace the event belongs to.
const TRACING: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// Makes the requests of one route.
#[derive(Debug)]
pub(crate) struct Requests {
    url: Url,
    keys: Vec<SigningKey>,
    event_headers: Vec<String>,
    encoder: Encoder,
}

impl Requests {
    pub(crate) fn new(options: &WebhookOptions, encoder: Encoder) -> Self {
        let event_headers = options.event_headers.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { url: options.url.clone(), keys: options.keys.clone(), event_headers, encoder }
    }

    /// Whether the author of an event may set the header.
    fn passes(&self, name: &str) -> bool {
        let allowed = TRACING.contains(&name) || self.event_headers.iter().any(|allowed| allowed == name);
        allowed && !is_reserved(name)
    }

    /// The request of a try that is made now.
    pub(crate) fn of(&self, outbound: &Outbound, now: Timestamp) -> Result<Request, Failure> {
        let event = &*outbound.event;
        let envelope = self.encoder.encode(event, outbound.stage())?;
        let mut request = Request::new(Method::POST, self.url.clone());
        *request.headers_mut() = self.headers(event, &envelope, now.as_second())?;
        *request.body_mut() = Some(envelope.body.into());
        Ok(request)
    }

    fn headers(&self, event: &Event, envelope: &Envelope<'_>, timestamp: i64) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::with_capacity(envelope.headers.len() + 8);
        headers.insert(CONTENT_TYPE, value("content-type", &envelope.content_type)?);
        let id = id(&event.id);
        headers.insert(HeaderName::from_static(signature::ID), value(signature::ID, &id)?);
        headers.insert(HeaderName::from_static(signature::TIMESTAMP), HeaderValue::from(timestamp));
        if !self.keys.is_empty() {
            let signed = signature::sign(&self.keys, &id, timestamp, &envelope.body);
            headers.insert(HeaderName::from_static(signature::SIGNATURE), value(signature::SIGNATURE, &signed)?);
        }
        let ours = envelope.headers.len() - events_own(envelope, event);
        for (n, (name, text)) in envelope.headers.iter().enumerate() {
            if n < ours || self.passes(&name.to_ascii_lowercase()) {
                let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unsendable(name, "name"))?;
                let value = value(name, text)?;
                // The first of a name counts, and ours come first.
                headers.entry(header).or_insert(value);
            }
        }
        Ok(headers)
    }
}

/// How many of the envelope's headers are the event's own: the encoder puts them last, or leaves them all out.
fn events_own(envelope: &Envelope<'_>, event: &Event) -> usize {
    let count = event.headers.len();
    let last = envelope.headers.len().checked_sub(count).map(|n| &envelope.headers[n..]).unwrap_or_default();
    let own = event.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    if last.iter().map(|(name, value)| (&**name, &**value)).eq(own) { count } else { 0 }
}

fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn value(name: &str, text: &str) -> Result<HeaderValue, Failure> {
    HeaderValue::from_str(text)
        .or_else(|_| HeaderValue::from_bytes(text.as_bytes()))
        .map_err(|_| unsendable(name, "value"))
}

fn unsendable(name: &str, part: &str) -> Failure {
    let text = format!("the {part} of header {name:?} has characters that HTTP cannot carry, such as a line break");
    Failure::permanent("webhook.header", text)
}

/// The event's id as `webhook-id` has it. A dot would make `id.timestamp.body` ambiguous, and not everything can stand
/// in a header; what is neither visible ASCII nor unambiguous is percent-encoded. Usual ids stay as they are.
fn id(id: &str) -> Cow<'_, str> {
    let plain = |b: u8| b.is_ascii_graphic() && b != b'.' && b != b'%';
    if id.bytes().all(plain) {
        return Cow::Borrowed(id);
    }
    let mut encoded = String::with_capacity(id.len() + 16);
    for byte in id.bytes() {
        if plain(byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    Cow::Owned(encoded)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postroom_core::JSON;
    use postroom_core::envelope::{Binding, Format};
    use tokio::sync::mpsc;

    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn request(event: Event, format: Format, keys: &[&str]) -> Result<Request, Failure> {
        let keys = keys.iter().map(|key| SigningKey::parse(key).unwrap()).collect();
        let encoder = Encoder::new(format, Binding::Http, "/postroom/test");
        let mut options = WebhookOptions::new(Url::parse("https://hooks.example/x?y=z").unwrap());
        let listed = ["X-Shop", "x-other", "x shop", "x\r\n", "authorization", "ce-id", "webhook-signature"];
        (options.keys, options.event_headers) = (keys, listed.map(str::to_owned).to_vec());
        let requests = Requests::new(&options, encoder);
        let (report, _outcomes) = mpsc::unbounded_channel();
        let outbound = Outbound::new(1, 1, Arc::new(event), Some(42), report);
        requests.of(&outbound, Timestamp::from_second(1_614_265_330).unwrap())
    }

    fn event() -> Event {
        Event::new("order.placed").id("msg_p5jXN8AQM9LWM0D4loKWxJek").bytes(JSON, r#"{"test": 2432232314}"#)
    }

    #[test]
    fn a_request_has_the_envelope_and_is_signed_over_its_bytes() {
        let request =
            request(event().header("traceparent", "00-a-b-01"), Format::CloudEventsBinary, &[SECRET]).unwrap();
        assert_eq!((request.method(), request.url().as_str()), (&Method::POST, "https://hooks.example/x?y=z"));
        assert_eq!(request.body().unwrap().as_bytes().unwrap(), br#"{"test": 2432232314}"#);
        for (name, expected) in [
            ("content-type", JSON),
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
            ("ce-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("ce-type", "order.placed"),
            ("ce-sequence", "00000000000000000042"),
            ("postroom-position", "42"),
            ("traceparent", "00-a-b-01"),
        ] {
            assert_eq!(request.headers()[name], expected, "{name}");
        }
    }

    #[test]
    fn two_keys_give_two_signatures_and_none_gives_none() {
        let two =
            request(event(), Format::Raw, &[SECRET, "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbc="]).unwrap();
        assert_eq!(two.headers()["webhook-signature"].to_str().unwrap().split(' ').count(), 2);
        let none = request(event(), Format::Raw, &[]).unwrap();
        assert!(!none.headers().contains_key("webhook-signature"));
        assert!(none.headers().contains_key("webhook-id") && none.headers().contains_key("webhook-timestamp"));
    }

    #[test]
    fn an_event_sets_its_own_headers_and_none_of_ours() {
        let mut event = event().header("x-shop", "Grüße").header("X-Other", "1");
        for name in RESERVED.into_iter().chain([
            "ce-id",
            "CE-Subject",
            "ce-anything",
            "Webhook-Id",
            "webhook-signature",
            "content-type",
            "Content-Length",
            "content-encoding",
            "postroom-position",
            "postroom-x",
            "Proxy-Authorization",
            "forwarded",
            "X-Forwarded-For",
            "x-api-key",
            "x-http-method-override",
            "x-original-url",
            "svix-signature",
        ]) {
            event = event.header(name, "pretended");
        }
        for format in [Format::CloudEventsBinary, Format::Raw] {
            let request = request(event.clone(), format, &[SECRET]).unwrap();
            let headers = request.headers();
            assert_eq!(
                (headers["x-shop"].as_bytes(), &headers["x-other"]),
                ("Grüße".as_bytes(), &HeaderValue::from(1))
            );
            for (name, value) in headers {
                assert_ne!(value, "pretended", "{name}");
            }
        }
    }

    #[test]
    fn a_header_that_http_cannot_carry_is_named_and_its_value_is_not() {
        for (name, value) in
            [("x-shop", "canary\r\nx-evil: 1"), ("x-shop", "canary\n"), ("x shop", "1"), ("x\r\n", "1")]
        {
            let failure = request(event().header(name, value), Format::Raw, &[]).unwrap_err();
            assert_eq!((failure.kind, &*failure.code), (postroom_core::FailureKind::Permanent, "webhook.header"));
            assert!(failure.error.contains(&format!("{name:?}")) && !failure.error.contains("canary"), "{failure:?}");
        }
        let failure = request(event().bytes("text/plain\r\nx: y", "x"), Format::Raw, &[]).unwrap_err();
        assert!(failure.error.contains("\"content-type\""), "{failure:?}");
    }

    #[test]
    fn any_id_can_stand_in_the_header_without_a_dot() {
        for (given, sent) in [
            ("0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11", "0199a3f2-7c1e-7d3a-9b58-6f2f0f6f1c11"),
            ("order.7", "order%2E7"),
            ("100%", "100%25"),
            ("ä\r\n", "%C3%A4%0D%0A"),
        ] {
            assert_eq!(id(given), sent);
        }
    }
}
