//! Durations, sizes, rates and times as people write them: `30s`, `1m30s`, `4MiB`. A bare number is an error: it has no unit.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Parses a duration such as `250ms`, `30s`, `1m30s`, `2h`, `7d`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let bad =
        |why: &str| Err(format!("{text:?} is not a duration: {why}; write for instance \"30s\", \"5m\" or \"1h30m\""));
    let mut rest = text.trim();
    if rest.is_empty() {
        return bad("it is empty");
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let letters = after.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(after.len());
        let (unit, next) = after.split_at(letters);
        let Ok(number) = number.parse::<f64>() else { return bad("a number is missing") };
        let seconds = match unit {
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            "" => return bad("the unit is missing"),
            _ => return bad("units are us, ms, s, m, h and d"),
        };
        match Duration::try_from_secs_f64(number * seconds).ok().and_then(|d| total.checked_add(d)) {
            Some(sum) => total = sum,
            None => return bad("it is too long"),
        }
        rest = next.trim_start();
    }
    Ok(total)
}

/// Formats a duration as the shortest text that parses to it.
pub fn format_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    if !duration.subsec_micros().is_multiple_of(1000) {
        return format!("{}us", duration.as_micros());
    }
    match millis {
        0 => "0s".to_owned(),
        m if m % 1000 != 0 => format!("{m}ms"),
        m if m % 86_400_000 == 0 => format!("{}d", m / 86_400_000),
        m if m % 3_600_000 == 0 => format!("{}h", m / 3_600_000),
        m if m % 60_000 == 0 => format!("{}m", m / 60_000),
        m => format!("{}s", m / 1000),
    }
}

/// Parses a size such as `512B`, `256KiB`, `4MiB`, `1GiB`, `1MB`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let bad = |why: &str| Err(format!("{text:?} is not a size: {why}; write for instance \"256KiB\" or \"4MiB\""));
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits);
    let Ok(number) = number.parse::<u64>() else { return bad("a number is missing") };
    let factor: u64 = match unit.trim() {
        "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "" => return bad("the unit is missing"),
        _ => return bad("units are B, KiB, MiB, GiB, kB, MB and GB"),
    };
    match number.checked_mul(factor) {
        Some(size) => Ok(size),
        None => bad("it is too large"),
    }
}

/// Parses a rate such as `50/s` or `600/m`, in events per second.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let bad = || format!("{text:?} is not a rate; write for instance \"50/s\" or \"600/m\"");
    let (number, unit) = text.split_once('/').ok_or_else(bad)?;
    let number: f64 = number.trim().parse().map_err(|_| bad())?;
    let seconds = match unit.trim() {
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(bad()),
    };
    if number.is_finite() && number > 0.0 { Ok(number / seconds) } else { Err(bad()) }
}

/// Parses a time in the past: RFC 3339, or how long ago (`1h`).
pub fn parse_ago(text: &str) -> Result<Timestamp, String> {
    parse_time(text, Timestamp::checked_sub)
}

/// Parses a time in the future: RFC 3339, or how long from now (`10m`).
pub fn parse_ahead(text: &str) -> Result<Timestamp, String> {
    parse_time(text, Timestamp::checked_add)
}

fn parse_time(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_back() {
        for text in ["30s", "250ms", "5m", "2h", "7d", "0s", "1500us"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
        assert_eq!(parse_duration("1m30s").unwrap().as_secs(), 90);
    }

    #[test]
    fn a_bare_number_or_an_unknown_unit_is_an_error_that_shows_the_value() {
        for bad in ["30", "", "s", "3x", "20 parsecs", "-1s", "1e400s"] {
            assert!(parse_duration(bad).unwrap_err().contains(&format!("{bad:?}")), "{bad}");
        }
        assert!(parse_duration("20 parsecs").unwrap_err().contains("units are"));
        assert!(parse_size("4").unwrap_err().contains("unit is missing"));
        assert!(parse_size("99999999999GiB").is_err());
        assert_eq!(parse_size("4MiB").unwrap(), 4 << 20);
        assert!(parse_rate("0/s").is_err() && parse_rate("fast").is_err());
        assert!((parse_rate("600/m").unwrap() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn a_time_is_read_as_written_and_a_duration_from_now() {
        assert_eq!(parse_ago("2026-01-02T03:04:05Z").unwrap().to_string(), "2026-01-02T03:04:05Z");
        assert_eq!(parse_ago("2026-01-02T03:04:05+02:00").unwrap().to_string(), "2026-01-02T01:04:05Z");
        let now = Timestamp::now();
        assert!(now.duration_since(parse_ago("1h").unwrap()).as_secs() >= 3590);
        assert!(parse_ahead("10m").unwrap().duration_since(now).as_secs() >= 590);
    }

    #[test]
    fn what_is_no_time_is_named() {
        for bad in ["yesterday", "", "5", "2026-13-01T00:00:00Z", "99999999d"] {
            assert!(parse_ago(bad).unwrap_err().contains(&format!("{bad:?}")), "{bad}");
        }
    }
}
