//! Formats times for people: ages in lists on a terminal, UTC in every other output but log lines on a terminal.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::screen::{Screen, Times};

/// Formats a time of a list: `3m ago` or `in 8s` on a terminal, `2026-11-15T09:30:00Z` elsewhere and with `--time utc`.
pub(crate) fn listed(time: Timestamp) -> String {
    match Screen::get().times {
        Times::Age => relative(time, Timestamp::now()),
        Times::Utc => seconds(time),
    }
}

/// Formats a time as its distance from now.
fn relative(time: Timestamp, now: Timestamp) -> String {
    let distance = time.duration_since(now);
    let whole = distance.unsigned_abs().as_secs();
    let short = match whole {
        0..60 => format!("{whole}s"),
        60..3600 => format!("{}m", whole / 60),
        3600..172_800 => format!("{}h", whole / 3600),
        _ => format!("{}d", whole / 86_400),
    };
    match distance.is_positive() {
        _ if whole == 0 => "now".to_owned(),
        true => format!("in {short}"),
        false => format!("{short} ago"),
    }
}

/// Formats a time for sentences: `2026-11-15T09:30:00Z`.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Formats a time for timelines: `09:30:00.120`.
pub(crate) fn clock(time: Timestamp) -> String {
    time.to_zoned(TimeZone::UTC).strftime("%H:%M:%S.%3f").to_string()
}

/// Formats the time that a clock on the wall shows now: `10:30:00`.
pub(crate) fn on_the_wall() -> String {
    Timestamp::now().to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}

/// Formats a duration with two figures: `0.2s`, `12s`, `4m12s`, `3h05m`, `2d04h`.
pub(crate) fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_a_list_is_its_distance_from_now() {
        let now: Timestamp = "2026-11-15T09:30:00Z".parse().unwrap();
        let at = |seconds: i64| relative(now + jiff::SignedDuration::from_secs(seconds), now);
        assert_eq!(
            [at(0), at(-8), at(8), at(-200), at(3600), at(-90_000), at(-172_800), at(1_000_000)],
            ["now", "8s ago", "in 8s", "3m ago", "in 1h", "25h ago", "2d ago", "in 11d"]
        );
    }

    #[test]
    fn ages_are_short() {
        let of = |seconds: f64| age(Duration::from_secs_f64(seconds));
        assert_eq!(
            [of(0.0), of(0.21), of(12.9), of(252.0), of(11_100.0), of(187_300.0)],
            ["0.0s", "0.2s", "12s", "4m12s", "3h05m", "2d04h"]
        );
    }
}
