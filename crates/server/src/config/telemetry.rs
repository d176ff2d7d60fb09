//! `[telemetry]`: where traces go, and how many.

use std::collections::BTreeMap;

use postroom_core::{Secret, SecretUrl};
use postroom_settings::{Data, Key, Kind, Node, Origin, Place, Table, key, optional};
use url::Url;

use super::read::Read;
use super::typed::TelemetryConfig;

pub(super) static TELEMETRY: &[Key] = &[
    optional(
        "otlp",
        Kind::Secret,
        r#""http://127.0.0.1:4318""#,
        "URL of a trace collector over OTLP/HTTP; none by default, or OTEL_EXPORTER_OTLP_ENDPOINT.",
    ),
    key(
        "sample",
        Kind::Share,
        "0.01",
        "Share of events that are traced; a `traceparent` of an event decides for itself. Defaults to OTEL_TRACES_SAMPLER_ARG.",
    ),
];

/// Where the specification has collectors listen, under the URL that people write.
const PATH: &str = "v1/traces";

/// Variables of OpenTelemetry that stand in for keys nobody has set: many platforms set them.
pub(super) fn environment(tree: &mut Table, env: &BTreeMap<String, String>) {
    let set = |variable: &str| env.get(variable).filter(|text| !text.is_empty());
    let (collector, share) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_SAMPLER_ARG");
    let known = [
        ("otlp", collector, set(collector).cloned().map(Data::Text)),
        // Other samplers have arguments that are no shares.
        ("sample", share, set(share).and_then(|text| text.trim().parse().ok()).map(Data::Float)),
    ];
    for (key, variable, data) in known {
        let Some(data) = data else { continue };
        let place = Place::of(Origin::Environment { variable: variable.to_owned() });
        if let Some(table) = tree.table_or_new("telemetry", &place).filter(|table| table.get(key).is_none()) {
            table.set(key, Node { data, place });
        }
    }
}

impl Read<'_> {
    pub(super) fn telemetry(&mut self, table: &Table, name: &str) -> TelemetryConfig {
        let of = |variable: &str| self.sources.env.get(variable).filter(|text| !text.is_empty());
        let service = of("OTEL_SERVICE_NAME").map_or(name, String::as_str).to_owned();
        let headers = of("OTEL_EXPORTER_OTLP_HEADERS").map(|text| headers(text)).unwrap_or_default();
        TelemetryConfig {
            traces: self.collector(table),
            sample: table.get("sample").and_then(Node::share).unwrap_or_default(),
            service,
            headers,
        }
    }

    fn collector(&mut self, table: &Table) -> Option<SecretUrl> {
        let node = table.get("otlp")?;
        let text = node.text().filter(|text| !text.is_empty())?;
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let Some(mut url) = url else {
            let message = format!("{:?} is not the URL of a collector", SecretUrl::new(text).to_string());
            self.problems.at(&node.place, message, Some("write it as http://127.0.0.1:4318".to_owned()));
            return None;
        };
        let path = url.path().trim_end_matches('/').to_owned();
        if !path.ends_with(PATH) {
            url.set_path(&format!("{path}/{PATH}"));
        }
        Some(SecretUrl::new(url))
    }
}

/// `name=value,name=value`; a collector that wants to know who we are is told so.
fn headers(text: &str) -> Vec<(String, Secret)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), Secret::new(value.trim()))).collect()
}
