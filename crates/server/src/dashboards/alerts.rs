//! The alerts: few, by what users notice.

use std::fmt::Write as _;

/// Who is to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Somebody, now.
    Page,
    /// Nobody; tomorrow is early enough.
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
}

/// One alert.
#[derive(Debug, Clone, Copy)]
pub struct Alert {
    /// Its name.
    pub name: &'static str,
    /// When it fires.
    pub expr: &'static str,
    /// How long that must be so.
    pub holds: &'static str,
    /// Who is to be woken.
    pub severity: Severity,
    /// What is wrong, in one line.
    pub summary: &'static str,
    /// What it means for those who wait for events.
    pub impact: &'static str,
    /// What to type first.
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
        impact: "Whoever waits for these events waits for all of them.",
        commands: &["postroom status", "postroom doctor", "postroom route show {{ $labels.route }}"],
    },
    Alert {
        name: "OutboxDeliveryLate",
        expr: "max by (store, route) (postroom_oldest_due_age_seconds) > 120 unless on (store, route) max by (store, route) (postroom_route_state{state=\"paused\"}) == 1",
        holds: "10m",
        severity: Severity::Page,
        summary: "Route {{ $labels.route }} of store {{ $labels.store }} is {{ $value | humanizeDuration }} late.",
        impact: "Events arrive, but late.",
        commands: &["postroom status", "postroom key ls --blocked", "postroom doctor"],
    },
    Alert {
        name: "OutboxLatencySloBurn",
        expr: "(1 - sum by (store, route) (rate(postroom_delivery_latency_seconds_bucket{le=\"5\"}[1h])) / sum by (store, route) (rate(postroom_delivery_latency_seconds_count[1h]))) > 0.144 and (1 - sum by (store, route) (rate(postroom_delivery_latency_seconds_bucket{le=\"5\"}[5m])) / sum by (store, route) (rate(postroom_delivery_latency_seconds_count[5m]))) > 0.144",
        holds: "2m",
        severity: Severity::Page,
        summary: "{{ $value | humanizePercentage }} of the events of route {{ $labels.route }} take longer than 5 s.",
        impact: "A month's budget of 1 % late events is gone in two days.",
        commands: &["postroom status", "postroom route show {{ $labels.route }}", "postroom doctor"],
    },
    Alert {
        name: "OutboxDeadLetters",
        expr: "sum by (store, route) (increase(postroom_deliveries_total{result=\"dead\"}[15m])) > 0",
        holds: "0m",
        severity: Severity::Ticket,
        summary: "Route {{ $labels.route }} of store {{ $labels.store }} has new dead letters.",
        impact: "These events were not delivered, and will not be until somebody decides.",
        commands: &["postroom dead ls --route {{ $labels.route }}", "postroom explain CODE"],
    },
    Alert {
        name: "OutboxRouteBreakerOpen",
        expr: "max by (store, route) (postroom_route_state{state=~\"breaker_open|slowed\"}) == 1",
        holds: "10m",
        severity: Severity::Ticket,
        summary: "The destination of route {{ $labels.route }} has been down, or has refused everything, for ten minutes.",
        impact: "While it is down its events wait, in order. While it refuses everything they are tried slowly, and die when their attempts are used up.",
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
        summary: "Route {{ $labels.route }} of store {{ $labels.store }} cannot work as it is.",
        impact: "Its events wait until somebody mends it.",
        commands: &["postroom route show {{ $labels.route }}", "postroom doctor", "postroom config check --online"],
    },
    Alert {
        name: "OutboxRoutePausedLong",
        expr: "max by (store, route) (postroom_route_state{state=\"paused\"}) == 1",
        holds: "4h",
        severity: Severity::Ticket,
        summary: "Route {{ $labels.route }} of store {{ $labels.store }} has been paused for four hours.",
        impact: "Its events wait; perhaps somebody forgot to resume it.",
        commands: &["postroom route show {{ $labels.route }}", "postroom route resume {{ $labels.route }}"],
    },
    Alert {
        name: "OutboxRetryStorm",
        expr: "sum by (store, route) (rate(postroom_attempts_total{outcome=\"transient\"}[10m])) > 5 * sum by (store, route) (rate(postroom_deliveries_total{result=\"delivered\"}[10m]))",
        holds: "15m",
        severity: Severity::Ticket,
        summary: "Route {{ $labels.route }} of store {{ $labels.store }} mostly tries again.",
        impact: "Few events get through, and the destination has more work than it can do.",
        commands: &[
            "postroom status",
            "postroom route show {{ $labels.route }}",
            "postroom route pause {{ $labels.route }}",
        ],
    },
    Alert {
        name: "OutboxNoRelay",
        expr: "absent(postroom_build_info)",
        holds: "3m",
        severity: Severity::Page,
        summary: "No relay can be asked for its metrics.",
        impact: "If none runs, nothing is delivered. Appending goes on, and nothing is lost.",
        commands: &["postroom status", "systemctl status postroom", "journalctl -u postroom -n 50"],
    },
    Alert {
        name: "OutboxTakeoversHigh",
        expr: "sum by (store) (increase(postroom_lease_takeovers_total[1h])) > 20",
        holds: "0m",
        severity: Severity::Ticket,
        summary: "Relays of store {{ $labels.store }} keep losing their leases.",
        impact: "Each time, what was on its way is delivered twice.",
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
            "      - alert: {name}\n        expr: {}\n        for: {holds}\n        labels:\n          severity: {}\n        annotations:\n          summary: {}\n          description: {}\n          commands: {}\n          runbook: {}\n",
            quoted(expr),
            severity.as_str(),
            quoted(summary),
            quoted(impact),
            quoted(&commands),
            quoted(&format!("docs/alerts.md#{}", name.to_lowercase())),
        );
    }
    text
}

/// A text in YAML: single quotes, in which only they mean something.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

pub(super) fn page() -> String {
    let mut page = String::new();
    for Alert { name, expr, holds, severity, summary, impact, commands } in ALERTS {
        let said = |text: &str| text.replace("{{ $labels.route }}", "ROUTE").replace("{{ $labels.store }}", "STORE");
        let value = |text: String| {
            text.replace("{{ $value | humanizeDuration }}", "so much")
                .replace("{{ $value | humanizePercentage }}", "So much")
        };
        let _ = write!(page, "## {name}\n\n{} {impact}\n\n", value(said(summary)));
        let _ = write!(
            page,
            "Severity {}, when for {holds}:\n\n```promql\n{expr}\n```\n\nFirst:\n\n```text\n",
            severity.as_str()
        );
        for command in *commands {
            let _ = writeln!(page, "{}", said(command));
        }
        page.push_str("```\n\n");
    }
    page.trim_end().to_owned()
}
