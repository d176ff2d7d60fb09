//! Traces: what a collector gets, what it never gets, and that nobody waits for it. H-42

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what is not as documented fails the test")]

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use postroom_testbed::{Collector, Posted};
use prost::Message as _;

use crate::http::{free, until};
use crate::world::{Running, World};

/// The spans of one program, which has ended.
fn spans(collector: &Collector) -> Vec<Span> {
    collector.taken().into_iter().flat_map(spans_of).collect()
}

/// The spans of one request; nothing of it has what must not be told.
fn spans_of(Posted { head, body }: Posted) -> Vec<Span> {
    let is_otlp = head.starts_with("post /v1/traces ") && head.contains("content-type: application/x-protobuf\r\n");
    assert!(is_otlp, "{head}");
    assert!(!String::from_utf8_lossy(&body).contains("canary"), "a payload or a key was told");
    let of_resources = ExportTraceServiceRequest::decode(&*body).unwrap().resource_spans;
    let of_scopes = of_resources.into_iter().flat_map(|of_resource| {
        let service = &of_resource.resource.unwrap().attributes[0];
        assert_eq!((service.key.as_str(), &*text(service.value.clone())), ("service.name", "test"));
        of_resource.scope_spans
    });
    of_scopes.flat_map(|of_scope| of_scope.spans).collect()
}

fn text(value: Option<opentelemetry_proto::tonic::common::v1::AnyValue>) -> String {
    match value.unwrap().value.unwrap() {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}

fn attributes(span: &Span) -> BTreeMap<String, String> {
    span.attributes.iter().map(|attribute| (attribute.key.clone(), text(attribute.value.clone()))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Where its traces go, and how many.
fn telemetry(world: &World, address: &str, sample: &str) {
    let config = std::fs::read_to_string(world.path("postroom.toml")).unwrap();
    let telemetry = format!("[telemetry]\notlp = \"http://{address}\"\nsample = {sample}\n\n");
    world.write("postroom.toml", &config.replacen("[[route]]", &format!("{telemetry}[[route]]"), 1));
}

#[test]
fn an_append_begins_a_trace_and_every_try_is_a_span_linked_to_it() {
    let (world, collector) = (World::new(), Collector::start());
    telemetry(&world, &collector.address, "1.0");
    let append = |id: &str, kind: &str| {
        let args = ["event", "append", "--id", id, "--type", kind, "--key", "canary-key"];
        world.ok(&[&args[..], &["--payload", "{\"card\":\"canary\"}"]].concat());
        let begun = spans(&collector);
        assert_eq!(begun.len(), 1, "{begun:?}");
        begun.into_iter().next().unwrap()
    };
    let (good, bad) = (append("good", "order.placed"), append("bad", "order.bad"));
    for (span, id) in [(&good, "good"), (&bad, "bad")] {
        assert_eq!((span.name.as_str(), span.kind), ("create main", SpanKind::Producer.into()));
        assert_eq!(attributes(span)["messaging.message.id"], id);
        assert!(span.parent_span_id.is_empty() && span.status.is_none());
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano && span.start_time_unix_nano > 0);
        let header = format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id));
        assert_eq!(world.json(&["event", "show", id])["headers"]["traceparent"], header);
    }
    assert_eq!(world.run(&["relay", "run", "--drain"]).code, 0);
    let sent = spans(&collector);
    assert_eq!(sent.len(), 2, "{sent:?}");
    for (begun, id, outcome, code) in
        [(&good, "good", "delivered", None), (&bad, "bad", "permanent", Some("exec.error"))]
    {
        let span = sent.iter().find(|span| attributes(span)["messaging.message.id"] == id).expect(id);
        assert_eq!((span.name.as_str(), span.kind), ("send mailer", SpanKind::Producer.into()));
        let [link] = span.links.as_slice() else { unreachable!("one link: {span:?}") };
        assert_eq!((&link.trace_id, &link.span_id), (&begun.trace_id, &begun.span_id));
        assert!(span.parent_span_id.is_empty() && span.trace_id != begun.trace_id, "linked, and no child");
        let told = attributes(span);
        for (name, value) in [
            ("messaging.system", "exec"),
            ("messaging.destination.name", "mailer"),
            ("messaging.operation.type", "send"),
            ("cloudevents.event_type", if id == "good" { "order.placed" } else { "order.bad" }),
            ("postroom.store", "main"),
            ("postroom.route", "mailer"),
            ("postroom.attempt", "1"),
            ("postroom.outcome", outcome),
        ] {
            assert_eq!(told.get(name).map(String::as_str), Some(value), "{name} of {id}");
        }
        assert_eq!(told.get("postroom.code").map(String::as_str), code);
        assert_eq!(span.status.as_ref().map(|status| status.message.as_str()), code);
    }
}

#[test]
fn who_began_the_trace_says_whether_it_is_kept_and_the_share_is_for_the_rest() {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";
    for (sample, kept) in [("1.0", vec!["none", "wanted"]), ("0.0", vec!["wanted"])] {
        let (world, collector) = (World::new(), Collector::start());
        for (id, flags) in [("wanted", Some("01")), ("unwanted", Some("00")), ("none", None)] {
            let header = flags.map(|flags| format!("traceparent={trace}-{flags}"));
            let headers: Vec<&str> = header.iter().flat_map(|header| ["--header", header]).collect();
            world.ok(&[&["event", "append", "--id", id, "--type", "order.placed"], &headers[..]].concat());
        }
        telemetry(&world, &collector.address, sample);
        assert_eq!(world.run(&["relay", "run", "--drain"]).code, 0);
        let mut sent: Vec<_> =
            spans(&collector).iter().map(|span| attributes(span)["messaging.message.id"].clone()).collect();
        sent.sort();
        assert_eq!(sent, kept, "sample = {sample}");
    }
}

#[test]
fn the_variables_of_opentelemetry_stand_in_for_keys() {
    let (world, collector) = (World::new(), Collector::start());
    let mut command = world.command(&["event", "append", "--type", "order.placed"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}/", collector.address));
    command
        .env("OTEL_TRACES_SAMPLER_ARG", "1")
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=acme,authorization=Bearer 7");
    command.env("OTEL_SERVICE_NAME", "billing-relay");
    assert!(command.output().unwrap().status.success());
    let taken = collector.taken();
    let [Posted { head, body }] = taken.as_slice() else { unreachable!("{taken:?}") };
    assert!(head.contains("\r\nx-tenant: acme\r\n") && head.contains("\r\nauthorization: bearer 7\r\n"), "{head}");
    assert!(String::from_utf8_lossy(body).contains("billing-relay"));
}

#[test]
fn the_demo_tells_its_whole_story_to_a_collector() {
    let (world, collector) = (World::bare(), Collector::start());
    let mut command = world.command(&["dev", "--rate", "50/s", "--for", "300ms"]);
    command.env("POSTROOM_TELEMETRY__OTLP", format!("http://{}", collector.address));
    command.env("POSTROOM_TELEMETRY__SAMPLE", "1").env("OTEL_SERVICE_NAME", "test");
    assert!(command.output().unwrap().status.success());
    let spans = spans(&collector);
    let (created, sent): (Vec<&Span>, Vec<&Span>) = spans.iter().partition(|span| span.name == "create main");
    assert!(!created.is_empty() && sent.iter().all(|span| span.name == "send mailer"), "{spans:?}");
    for begun in created {
        assert!(sent.iter().any(|span| span.links[0].span_id == begun.span_id), "not sent: {begun:?}");
    }
}

/// More than can wait for a collector.
const MANY: usize = 4000;

fn delivers_all_the_same(address: &str) {
    let world = World::bare();
    world.write(
        "postroom.toml",
        "name = \"test\"\n[store.main]\nurl = \"sqlite://shop.db\"\n[[route]]\nname = \"out\"\nto = { noop = {} }\n",
    );
    world.ok(&["store", "migrate", "up"]);
    let lines: String = (0..MANY).map(|n| format!("{{\"type\":\"order.placed\",\"key\":\"o-{n}\"}}\n")).collect();
    assert_eq!(world.feed(&["event", "append", "-"], &lines).code, 0);
    telemetry(&world, address, "1.0");
    let answers = free();
    let mut command = world.command(&["relay", "run", "--listen", &answers]);
    command.stderr(Stdio::null());
    let relay = Running::start(command);
    let delivered = format!("result=\"delivered\"}} {MANY}\n");
    let told = until(&answers, "/metrics", "delivering", |answer| answer.body.contains(&delivered));
    let dropped = told.body.lines().find_map(|line| line.strip_prefix("postroom_spans_dropped_total ")).unwrap();
    assert!(dropped.parse::<usize>().unwrap() > 0, "nothing was dropped");
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
}

#[test]
fn a_collector_that_never_answers_costs_spans_and_no_delivery() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let (held, over) = mpsc::channel();
    let holding = std::thread::spawn(move || {
        let connection = silent.accept();
        held.send(connection.is_ok()).unwrap();
        connection
    });
    delivers_all_the_same(&address);
    assert!(over.recv_timeout(Duration::from_mins(1)).unwrap(), "it was never asked");
    drop(holding.join());
}

#[test]
fn a_collector_that_is_not_there_costs_spans_and_no_delivery() {
    delivers_all_the_same(&free());
}

#[test]
fn what_waits_for_a_collector_is_sent_when_it_comes_back() {
    let (world, address, answers) = (World::new(), free(), free());
    telemetry(&world, &address, "1.0");
    // An append does not need one.
    world.append("e-1", "order.placed", "order-7");
    let mut command = world.command(&["relay", "run", "--listen", &answers]);
    command.stderr(Stdio::piped());
    let mut relay = Running::start(command);
    while !relay.note().contains("trace collector rejects spans") {}
    let spans = spans_of(Collector::at(&address).next());
    assert_eq!(spans.iter().map(|span| span.name.as_str()).collect::<Vec<_>>(), ["send mailer"]);
    relay.signal(Signal::SIGTERM);
    assert_eq!(relay.end().0, Some(0));
}
