//! Times as people read them: UTC in every output.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// `2026-11-15T09:30:00Z`, for lists.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `09:30:00.120`, for timelines.
pub(crate) fn clock(time: Timestamp) -> String {
    time.to_zoned(TimeZone::UTC).strftime("%H:%M:%S.%3f").to_string()
}

/// `0.2s`, `12s`, `4m12s`, `3h05m`, `2d04h`: two figures are enough to see whether it moves.
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
    fn ages_are_short() {
        let of = |seconds: f64| age(Duration::from_secs_f64(seconds));
        assert_eq!(
            [of(0.0), of(0.21), of(12.9), of(252.0), of(11_100.0), of(187_300.0)],
            ["0.0s", "0.2s", "12s", "4m12s", "3h05m", "2d04h"]
        );
    }
}
