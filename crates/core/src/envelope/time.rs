//! The ways the adopted systems write a time.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Format of a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeForm {
    /// `2026-01-02T03:04:05Z`
    SecondsZ,
    /// `2026-01-02T03:04:05.000006Z`
    #[default]
    MicrosZ,
    /// `2026-01-02T03:04:05.000006+00:00`
    MicrosOffset,
    /// `2026-01-02T03:04:05Z`, `2026-01-02T03:04:05.000006Z`: as short as it is exact.
    Rfc3339,
}

impl TimeForm {
    /// Parses the name of a format in the configuration.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "seconds-z" => Some(Self::SecondsZ),
            "micros-z" => Some(Self::MicrosZ),
            "micros+00:00" => Some(Self::MicrosOffset),
            "rfc3339" => Some(Self::Rfc3339),
            _ => None,
        }
    }

    /// Formats the time in UTC.
    pub fn format(self, time: Timestamp) -> String {
        let utc = time.to_zoned(TimeZone::UTC);
        match self {
            Self::SecondsZ => utc.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            Self::MicrosZ => utc.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
            Self::MicrosOffset => utc.strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string(),
            Self::Rfc3339 => time.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_writes_the_time_its_own_way() {
        let time: Timestamp = "2026-01-02T03:04:05.000006Z".parse().unwrap();
        assert_eq!(TimeForm::SecondsZ.format(time), "2026-01-02T03:04:05Z");
        assert_eq!(TimeForm::MicrosZ.format(time), "2026-01-02T03:04:05.000006Z");
        assert_eq!(TimeForm::MicrosOffset.format(time), "2026-01-02T03:04:05.000006+00:00");
        let whole: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        assert_eq!(TimeForm::MicrosZ.format(whole), "2026-01-02T03:04:05.000000Z");
        assert_eq!(TimeForm::Rfc3339.format(whole), "2026-01-02T03:04:05Z");
        assert_eq!(TimeForm::Rfc3339.format(time), "2026-01-02T03:04:05.000006Z");
    }
}
