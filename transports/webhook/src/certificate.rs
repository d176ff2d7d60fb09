//! Until when a certificate is good: the one field people ask for, read out of its DER without a parser for the rest.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The end of its validity; `None` for what is no certificate.
pub(crate) fn not_after(der: &[u8]) -> Option<Timestamp> {
    let (certificate, _) = sequence(der)?;
    let (mut fields, _) = sequence(certificate)?;
    if fields.first() == Some(&VERSION) {
        fields = element(fields)?.2;
    }
    // Serial number, algorithm, issuer.
    for _ in 0..3 {
        fields = element(fields)?.2;
    }
    let (validity, _) = sequence(fields)?;
    let (_, _, after_the_beginning) = element(validity)?;
    let (tag, text, _) = element(after_the_beginning)?;
    let form = match tag {
        UTC_TIME => "%y%m%d%H%M%SZ",
        GENERALIZED_TIME => "%Y%m%d%H%M%SZ",
        _ => return None,
    };
    let time = DateTime::strptime(form, text).ok()?;
    time.to_zoned(TimeZone::UTC).ok().map(|time| time.timestamp())
}

fn sequence(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = element(der)?;
    (tag == SEQUENCE).then_some((content, rest))
}

/// Tag, content, and what follows.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, mut rest) = rest.split_first()?;
    let mut length = usize::from(*first);
    if length >= 0x80 {
        let (digits, after) = rest.split_at_checked(length & 0x7f)?;
        if digits.len() > 4 {
            return None;
        }
        length = digits.iter().fold(0, |n, digit| n << 8 | usize::from(*digit));
        rest = after;
    }
    let (content, after) = rest.split_at_checked(length)?;
    Some((*tag, content, after))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn the_end_of_a_certificate_is_read_in_both_forms() {
        for (year, expected) in [(2031, "2031-02-03T00:00:00Z"), (2100, "2100-02-03T00:00:00Z")] {
            let mut params = CertificateParams::new(["hooks.example".to_owned()]).unwrap();
            params.not_after = date_time_ymd(year, 2, 3);
            let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
            assert_eq!(not_after(&der).unwrap().to_string(), expected);
            for length in 0..der.len().min(200) {
                assert_eq!(not_after(&der[..length]), None, "cut at {length}");
            }
        }
        assert_eq!(not_after(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(not_after(&[0x30, 0x89]), None);
    }
}
