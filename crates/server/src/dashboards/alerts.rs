//! The alerts: few, by what users notice.

use std::fmt::Write as _;

/// Severity of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Somebody, now.
    Page,
    /// Ticket, to be handled the next day.
    Ticket,
}

impl Severity {
    /// The value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Ticket => "ticket",
        }
    }

    /// What the alert does.
    fn action(self) -> &'static str {
        match self {
            Self::Page => "Pages",
            Self::Ticket => "Opens a ticket",
        }
    }
}

/// Alert rule.
#[derive(Debug, Clone, Copy)]
pub struct Alert {
    /// Name of the alert.
    pub name: &'static str,
    /// When it fires.
    pub expr: &'static str,
    /// Time that the condition must hold.
    pub holds: &'static str,
    /// Severity of the alert.
    pub severity: Severity,
    /// Summary of one line.
    pub summary: &'static str,
    /// Impact on the receivers of events.
    pub impact: &'static str,
    /// First commands to run.
    pub commands: &'static [&'static str],
}

/// All of them.
pub const ALERTS: &[Alert] = &[
    Alert {
        name: "OutboxNotMoving",
        expr: "max by (store, route) (postroom_oldest_due_age_seconds) > 300 and sum by (store, route) (rate(postroom_deliveries_total{result=\"delivered\"}[5m])) == 0",
        holds: "5m",
        severity: Severity::Page,
        summary: "Route {{ $labels.route }} of store {{ $labels.store }} delivers nothing, and events are due.",
        impact: "The destination receives no events of this route.",
        commands: &["postroom status", "postroom doctor", "postroom route show {{ $labels.route }}"],
    },
    Alert {
        name: "OutboxDeliveryLate",
        expr: "max by (store, route) (postroom_oldest_due_age_seconds) > 120 unless on (store, route) max by (store, route) (postroom_route_state{state=\"paused\"}) == 1",
        holds: "10m",
        severity: Severity::Page,
        summary: "Deliveries on route {{ $labels.route }} of store {{ $labels.store }} are running {{ $value | humanizeDuration }} late.",
        impact: "Events arrive, but late.",
        commands: &["postroom status", "postroom key ls --blocked", "postroom doctor"],
    },
    Alert {
        name: "OutboxLatencySloBurn",
        expr: "(1 - sum by (store, route) (rate(postroom_delivery_latency_seconds_bucket{le=\"5\"}[1h])) / sum by (store, route) (rate(postroom_delivery_latency_seconds_count[1h]))) > 0.144 and (1 - sum by (store, route) (rate(postroom_delivery_latency_seconds_bucket{le=\"5\"}[5m])) / sum by (store, route) (rate(postroom_delivery_latency_seconds_count[5m]))) > 0.144",
        holds: "2m",
        severity: Severity::Page,
        summary: "{{ $value | humanizePercentage }} of the events of route {{ $labels.route }} take longer than 5 s.",
        impact: "The monthly budget of 1 % late events is used up in two days.",
        commands: &["postroom status", "postroom route show {{ $labels.route }}", "postroom doctor"],
    },
    Alert {
        name: "OutboxDeadLetters",
        expr: "sum by (store, route) (increase(postroom_deliveries_total{result=\"dead\"}[15m])) > 0",
        holds: "0m",
        severity: Severity::Ticket,
        summary: "Route {{ $labels.route }} of store {{ $labels.store }} has new dead letters.",
        impact: "These events were not delivered, and will not be until an operator replays or discards them.",
        commands: &["postroom dead ls --route {{ $labels.route }}", "postroom explain CODE"],
    },
    Alert {
        name: "OutboxRouteBreakerOpen",
        expr: "max by (store, route) (postroom_route_state{state=~\"breaker_open|half_open|slowed\"}) == 1",
        holds: "10m",
        severity: Severity::Ticket,
        summary: "The destination of route {{ $labels.route }} has been down, or has refused every event, for ten minutes.",
        impact: "While the destination is down, events wait in order. While it refuses every event, they are retried slowly and become dead letters when their attempts are used up.",
        commands: &[
            "postroom route show {{ $labels.route }}",
            "postroom config check --online",
            "postroom explain CODE",
        ],
    },
    Alert {
        name: "OutboxRouteMisconfigured",
        expr: "max by (store, route) (postroom_route_state{state=~\"misconfigured|disabled|halted|counts_differ\"}) == 1",
        holds: "1m",
        severity: Severity::Ticket,
        summary: "Route {{ $labels.route }} of store {{ $labels.store }} is misconfigured and cannot deliver.",
        impact: "Events of the route wait until its configuration is fixed.",
        commands: &["postroom route show {{ $labels.route }}", "postroom doctor", "postroom config check --online"],
    },
    Alert {
        name: "OutboxRoutePausedLong",
        expr: "max by (store, route) (postroom_route_state{state=\"paused\"}) == 1",
        holds: "4h",
        severity: Severity::Ticket,
        summary: "Route {{ $labels.route }} of store {{ $labels.store }} has been paused for four hours.",
        impact: "Events of the route wait; an operator may have forgotten to resume it.",
        commands: &["postroom route show {{ $labels.route }}", "postroom route resume {{ $labels.route }}"],
    },
    Alert {
        name: "OutboxRetryStorm",
        expr: "sum by (store, route) (rate(postroom_attempts_total{outcome=\"transient\"}[10m])) > 5 * sum by (store, route) (rate(postroom_deliveries_total{result=\"delivered\"}[10m]))",
        holds: "15m",
        severity: Severity::Ticket,
        summary: "Route {{ $labels.route }} of store {{ $labels.store }} mostly retries.",
        impact: "Few deliveries succeed, and the destination is overloaded.",
        commands: &[
            "postroom status",
            "postroom route show {{ $labels.route }}",
            "postroom route pause {{ $labels.route }}",
        ],
    },
    Alert {
        name: "OutboxConsumerLag",
        expr: "max by (store, route, destination, consumer) (postroom_consumer_lag_messages) > 1000",
        holds: "15m",
        severity: Severity::Ticket,
        summary: "Consumer {{ $labels.consumer }} of {{ $labels.destination }} has been more than 1000 messages behind for 15 minutes: now {{ $value }}.",
        impact: "Events are delivered, and their consumer works on them late.",
        commands: &["postroom route show {{ $labels.route }}"],
    },
    Alert {
        name: "OutboxConsumerGone",
        expr: "max by (store, route, destination, consumer) (postroom_consumer_lag_messages) > 0 and max by (store, route, destination, consumer) (postroom_consumer_members) == 0",
        holds: "10m",
        severity: Severity::Ticket,
        summary: "Consumer {{ $labels.consumer }} of {{ $labels.destination }} has no member, and messages wait for it.",
        impact: "Events are delivered, and nobody works on them.",
        commands: &["postroom route show {{ $labels.route }}"],
    },
    Alert {
        name: "OutboxNoRelay",
        expr: "absent(postroom_build_info)",
        holds: "3m",
        severity: Severity::Page,
        summary: "No relay can be scraped.",
        impact: "If no relay runs, no event is delivered. Appends still work, and no event is lost.",
        commands: &["postroom status", "systemctl status postroom", "journalctl -u postroom -n 50"],
    },
    Alert {
        name: "OutboxTakeoversHigh",
        expr: "sum by (store) (increase(postroom_lease_takeovers_total[1h])) > 20",
        holds: "0m",
        severity: Severity::Ticket,
        summary: "Relays of store {{ $labels.store }} keep losing their leases.",
        impact: "After each loss, deliveries in flight are repeated.",
        commands: &["postroom status", "postroom doctor"],
    },
];

/// The rules as Prometheus reads them.
pub(super) fn rules() -> String {
    let mut text = "groups:\n  - name: postroom\n    rules:\n".to_owned();
    for alert in ALERTS {
        let Alert { name, expr, holds, severity, summary, impact, commands } = alert;
        let commands = commands.join(" ; ");
        let _ = write!(
            text,
            "      - alert: {name}\n        expr: {}\n        for: {holds}\n        labels:\n          severity: {}\n        annotations:\n          summary: {}\n          description: {}\n          commands: {}\n          runbook_url: {}\n",
            quoted(expr),
            severity.as_str(),
            quoted(summary),
            quoted(impact),
            quoted(&commands),
            quoted(&format!("{}/blob/main/docs/alerts.md#{}", env!("CARGO_PKG_REPOSITORY"), name.to_lowercase())),
        );
    }
    text
}

/// When an alert fires whose condition holds for so many minutes or hours.
fn after(holds: &str) -> String {
    match (holds, holds.strip_suffix('m'), holds.strip_suffix('h')) {
        ("0m", ..) => "at once if".to_owned(),
        ("1m", ..) => "after 1 minute of".to_owned(),
        (_, Some(minutes), _) => format!("after {minutes} minutes of"),
        (_, _, Some(hours)) => format!("after {hours} hours of"),
        _ => format!("after {holds} of"),
    }
}

/// A text in YAML: single quotes, in which only they mean something.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

pub(super) fn page() -> String {
    let mut page = String::new();
    for Alert { name, expr, holds, severity, summary, impact, commands } in ALERTS {
        let said = |text: &str| {
            ["route", "store", "destination", "consumer"].iter().fold(text.to_owned(), |text, label| {
                text.replace(&format!("{{{{ $labels.{label} }}}}"), &label.to_uppercase())
            })
        };
        let value = |text: String| {
            text.replace("{{ $value | humanizeDuration }}", "N minutes")
                .replace("{{ $value | humanizePercentage }}", "N %")
                .replace("{{ $value }}", "N")
        };
        let _ = write!(page, "## {name}\n\n{} {impact}\n\n", value(said(summary)));
        let _ = write!(
            page,
            "{} {}:\n\n```promql\n{expr}\n```\n\nRun first:\n\n```text\n",
            severity.action(),
            after(holds)
        );
        for command in *commands {
            let _ = writeln!(page, "{}", said(command));
        }
        page.push_str("```\n\n");
    }
    page.trim_end().to_owned()
}
