//! Times as people give and read them: RFC 3339, or a duration from now; UTC in every output.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use postroom_core::units::parse_duration;

/// A time in the past: RFC 3339, or how long ago (`1h`).
pub(crate) fn ago(text: &str) -> Result<Timestamp, String> {
    parse(text, Timestamp::checked_sub)
}

/// A time ahead: RFC 3339, or how long from now (`10m`).
pub(crate) fn ahead(text: &str) -> Result<Timestamp, String> {
    parse(text, Timestamp::checked_add)
}

fn parse(
    text: &str,
    shift: impl Fn(Timestamp, SignedDuration) -> Result<Timestamp, jiff::Error>,
) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let bad = || format!("{text:?} is not a time; write for instance 2026-11-15T09:30:00Z, or a duration such as 1h");
    let by = parse_duration(text).map_err(|_| bad())?;
    let by = SignedDuration::try_from(by).map_err(|_| bad())?;
    shift(Timestamp::now(), by).map_err(|_| bad())
}

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
    fn a_time_is_read_as_written_and_a_duration_from_now() {
        assert_eq!(ago("2026-01-02T03:04:05Z").unwrap().to_string(), "2026-01-02T03:04:05Z");
        assert_eq!(ago("2026-01-02T03:04:05+02:00").unwrap().to_string(), "2026-01-02T01:04:05Z");
        let now = Timestamp::now();
        assert!(now.duration_since(ago("1h").unwrap()).as_secs() >= 3590);
        assert!(ahead("10m").unwrap().duration_since(now).as_secs() >= 590);
    }

    #[test]
    fn what_is_no_time_is_named() {
        for bad in ["yesterday", "", "5", "2026-13-01T00:00:00Z", "99999999d"] {
            assert!(ago(bad).unwrap_err().contains(&format!("{bad:?}")), "{bad}");
        }
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
