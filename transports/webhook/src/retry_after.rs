//! When a receiver wants to be asked again: `Retry-After`, in seconds or as a date. Pure.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use postroom_core::RETRY_AFTER_MAX;

/// The three forms of a date in HTTP; the first is the one in use.
const DATES: [&str; 3] = ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// How long to wait, at most [`RETRY_AFTER_MAX`]: whoever writes a year by mistake must not stop a route for one.
/// `None` for what is neither a number nor a date.
pub(crate) fn parse(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // More digits than fit are more seconds than we wait.
        let seconds = text.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
    }
    let date = DATES.iter().find_map(|form| DateTime::strptime(form, text).ok())?;
    // What is no time any more lies beyond the end of all times, not before their beginning.
    let Ok(at) = date.to_zoned(TimeZone::UTC) else { return Some(RETRY_AFTER_MAX) };
    // A date in the past is a wait that is over.
    let wait = Duration::try_from(at.timestamp().duration_since(now)).unwrap_or_default();
    Some(wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_understood_and_absurd_ones_are_cut() {
        let now = "1994-11-06T08:49:00Z".parse().unwrap();
        for (text, seconds) in [
            ("0", Some(0)),
            ("5", Some(5)),
            (" 120 ", Some(120)),
            ("3600", Some(3600)),
            ("3601", Some(3600)),
            ("99999999999999999999999999", Some(3600)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(37)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(37)),
            ("Sun Nov  6 08:49:37 1994", Some(37)),
            ("Sun, 06 Nov 1994 08:48:00 GMT", Some(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(3600)),
            ("", None),
            ("-5", None),
            ("1.5", None),
            ("5s", None),
            ("soon", None),
            ("Sun, 99 Nov 1994 08:49:37 GMT", None),
        ] {
            assert_eq!(parse(text, now), seconds.map(Duration::from_secs), "{text:?}");
        }
    }
}
