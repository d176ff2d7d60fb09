//! Three dashboards: all of it, one route, stores and relays.

use serde_json::{Value, json};

use super::Export;

/// One panel.
struct Panel {
    title: &'static str,
    /// What the lines are called.
    legend: &'static str,
    unit: &'static str,
    query: &'static str,
}

const fn panel(title: &'static str, unit: &'static str, legend: &'static str, query: &'static str) -> Panel {
    Panel { title, legend, unit, query }
}

const OVERVIEW: &[Panel] = &[
    panel("Oldest due delivery", "s", "{{store}} {{route}}", "max by (store, route) (postroom_oldest_due_age_seconds)"),
    panel(
        "Delivered per second",
        "ops",
        "{{store}} {{route}}",
        "sum by (store, route) (rate(postroom_deliveries_total{result=\"delivered\"}[5m]))",
    ),
    panel(
        "Due deliveries",
        "short",
        "{{store}} {{route}}",
        "max by (store, route) (postroom_deliveries_open{state=\"due\"})",
    ),
    panel("Dead letters", "short", "{{store}} {{route}}", "max by (store, route) (postroom_dead_letters)"),
    panel("Blocked keys", "short", "{{store}} {{route}}", "max by (store, route) (postroom_blocked_keys)"),
    panel(
        "Latency, 99th percentile",
        "s",
        "{{store}} {{route}}",
        "histogram_quantile(0.99, sum by (store, route, le) (rate(postroom_delivery_latency_seconds_bucket[5m])))",
    ),
    panel("Tries by outcome", "ops", "{{outcome}}", "sum by (outcome) (rate(postroom_attempts_total[5m]))"),
    panel(
        "Routes that are not running",
        "short",
        "{{store}} {{route}} {{state}}",
        "max by (store, route, state) (postroom_route_state{state!=\"running\"}) > 0 or vector(0)",
    ),
];

const ROUTE: &[Panel] = &[
    panel("State", "short", "{{state}}", "max by (state) (postroom_route_state{store=~\"$store\",route=~\"$route\"})"),
    panel(
        "Oldest due delivery",
        "s",
        "{{store}} {{route}}",
        "max by (store, route) (postroom_oldest_due_age_seconds{store=~\"$store\",route=~\"$route\"})",
    ),
    panel(
        "Open deliveries",
        "short",
        "{{state}}",
        "sum by (state) (postroom_deliveries_open{store=~\"$store\",route=~\"$route\"})",
    ),
    panel(
        "Latency",
        "s",
        "{{le}}",
        "sum by (le) (rate(postroom_delivery_latency_seconds_bucket{store=~\"$store\",route=~\"$route\"}[5m]))",
    ),
    panel(
        "One try, 99th percentile",
        "s",
        "{{outcome}}",
        "histogram_quantile(0.99, sum by (outcome, le) (rate(postroom_attempt_duration_seconds_bucket{store=~\"$store\",route=~\"$route\"}[5m])))",
    ),
    panel(
        "Tries by code",
        "ops",
        "{{outcome}} {{code}}",
        "sum by (outcome, code) (rate(postroom_attempts_total{store=~\"$store\",route=~\"$route\"}[5m]))",
    ),
    panel(
        "On their way",
        "short",
        "{{store}} {{route}}",
        "sum by (store, route) (postroom_in_flight_deliveries{store=~\"$store\",route=~\"$route\"})",
    ),
    panel(
        "Messages that consumers have not finished",
        "short",
        "{{destination}} {{consumer}}",
        "max by (destination, consumer) (postroom_consumer_lag_messages{store=~\"$store\",route=~\"$route\"}) or vector(0)",
    ),
    panel(
        "Members of consumers",
        "short",
        "{{destination}} {{consumer}}",
        "max by (destination, consumer) (postroom_consumer_members{store=~\"$store\",route=~\"$route\"}) or vector(0)",
    ),
    panel(
        "Answers of webhooks",
        "ops",
        "{{class}}",
        "sum by (class) (rate(postroom_webhook_responses_total{store=~\"$store\",route=~\"$route\"}[5m])) or vector(0)",
    ),
];

const STORES: &[Panel] = &[
    panel("Stores that answer", "short", "{{store}}", "min by (store) (postroom_store_up)"),
    panel("Relays", "short", "{{version}}", "count by (version) (postroom_build_info)"),
    panel(
        "Read, 99th percentile",
        "s",
        "{{store}}",
        "histogram_quantile(0.99, sum by (store, le) (rate(postroom_read_duration_seconds_bucket[5m])))",
    ),
    panel(
        "Settle, 99th percentile",
        "s",
        "{{store}}",
        "histogram_quantile(0.99, sum by (store, le) (rate(postroom_settle_duration_seconds_bucket[5m])))",
    ),
    panel("Horizon held back", "s", "{{store}}", "max by (store) (postroom_store_horizon_age_seconds) or vector(0)"),
    panel(
        "Oldest open writer",
        "s",
        "{{store}}",
        "max by (store) (postroom_store_oldest_writer_age_seconds) or vector(0)",
    ),
    panel(
        "Lanes taken over",
        "short",
        "{{store}}",
        "sum by (store) (increase(postroom_lease_takeovers_total[1h])) or vector(0)",
    ),
];

const ALL: [(&str, &str, &str, &[Panel]); 3] = [
    ("postroom-overview.json", "postroom-overview", "Postroom: overview", OVERVIEW),
    ("postroom-route.json", "postroom-route", "Postroom: one route", ROUTE),
    ("postroom-stores.json", "postroom-stores", "Postroom: stores and relays", STORES),
];

pub(super) fn dashboards() -> Vec<Export> {
    let made = |(file, uid, title, panels): &(&'static str, &str, &str, &[Panel])| {
        let dashboard = dashboard(uid, title, panels, *uid == "postroom-route");
        Export { file, text: format!("{dashboard:#}\n") }
    };
    ALL.iter().map(made).collect()
}

/// Queries with every route chosen.
pub(super) fn queries() -> Vec<String> {
    let panels = ALL.iter().flat_map(|(_, _, _, panels)| *panels);
    panels.map(|panel| panel.query.replace("$store", ".*").replace("$route", ".*")).collect()
}

fn dashboard(uid: &str, title: &str, panels: &[Panel], of_route: bool) -> Value {
    let variable = |name: &str| {
        json!({
            "name": name, "label": name, "type": "query", "multi": true, "includeAll": true, "allValue": ".*",
            "datasource": { "type": "prometheus", "uid": "${datasource}" },
            "query": format!("label_values(postroom_route_state, {name})"), "refresh": 2,
        })
    };
    let mut variables = vec![json!({ "name": "datasource", "type": "datasource", "query": "prometheus" })];
    if of_route {
        variables.extend(["store", "route"].map(variable));
    }
    json!({
        "uid": uid,
        "title": title,
        "tags": ["postroom"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": { "from": "now-6h", "to": "now" },
        "templating": { "list": variables },
        "panels": panels.iter().enumerate().map(|(n, panel)| drawn(n, panel)).collect::<Vec<_>>(),
    })
}

/// Two panels in a row.
fn drawn(n: usize, panel: &Panel) -> Value {
    let Panel { title, legend, unit, query } = panel;
    json!({
        "id": n + 1,
        "type": "timeseries",
        "title": title,
        "datasource": { "type": "prometheus", "uid": "${datasource}" },
        "gridPos": { "x": 12 * (n % 2), "y": 8 * (n / 2), "w": 12, "h": 8 },
        "fieldConfig": { "defaults": { "unit": unit, "min": 0 }, "overrides": [] },
        "targets": [{ "refId": "A", "expr": query, "legendFormat": legend }],
    })
}
