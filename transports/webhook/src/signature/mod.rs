//! Signatures as Standard Webhooks 1.0 describes them: what a sender puts into three headers and a receiver looks up there.
//!
//! ```text
//! webhook-id:        msg_p5jXN8AQM9LWM0D4loKWxJek
//! webhook-timestamp: 1614265330
//! webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v1a,hnO3f9T8…
//! ```
//!
//! Signed is `id.timestamp.body`. One signature per key, so that receivers can go over from one key to the next.

mod key;

use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;

pub use key::{KeyError, KeyPair, SigningKey, VerifyingKey, new_key_pair, new_secret};

/// Name of the header with the id, which is the same on every attempt, so that receivers recognise repeats.
pub const ID: &str = "webhook-id";
/// Name of the header with the time of the attempt, in seconds since 1970.
pub const TIMESTAMP: &str = "webhook-timestamp";
/// Name of the header with the signatures, separated by spaces.
pub const SIGNATURE: &str = "webhook-signature";

/// Largest difference between the time of an attempt and the receiver's clock, both ways.
pub const TOLERANCE: Duration = Duration::from_mins(5);

/// Returns the value of [`SIGNATURE`]: one signature per key, in the order of the keys.
pub fn sign(keys: &[SigningKey], id: &str, timestamp: i64, body: &[u8]) -> String {
    let mut header = String::with_capacity(keys.len() * 96);
    for key in keys {
        if !header.is_empty() {
            header.push(' ');
        }
        let _ = write!(header, "{},", key.version());
        BASE64.encode_string(key.sign(id, timestamp, body), &mut header);
    }
    header
}

/// Signature headers of a request; a missing header is empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Signed<'a> {
    /// Value of [`ID`].
    pub id: &'a str,
    /// Value of [`TIMESTAMP`].
    pub timestamp: &'a str,
    /// Value of [`SIGNATURE`].
    pub signature: &'a str,
}

/// Reason why a signature is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A header is not there.
    #[error("there is no {0} header")]
    Missing(&'static str),
    /// The time is no number.
    #[error("webhook-timestamp is not a number of seconds")]
    Timestamp,
    /// It was signed too long ago, and may be a replay.
    #[error("signed {0} seconds ago; at most {limit} are allowed", limit = TOLERANCE.as_secs())]
    TooOld(u64),
    /// It was signed too far in the future.
    #[error("signed {0} seconds ahead of this clock; at most {limit} are allowed", limit = TOLERANCE.as_secs())]
    TooNew(u64),
    /// No signature is of a kind that one of the keys could have made.
    #[error("no signature is of the keys' kind")]
    NoSuchVersion,
    /// None of the signatures was made for this with one of the keys.
    #[error("no signature fits: another secret, or id, time or body were changed on the way")]
    Mismatch,
}

/// Verifies that one of the signatures was made with one of the keys, for this body, within [`TOLERANCE`] of `now`.
///
/// Compares in constant time; looks at the signatures before the time, so that the time can be believed.
pub fn verify(keys: &[VerifyingKey], signed: Signed<'_>, body: &[u8], now: Timestamp) -> Result<(), VerifyError> {
    for (name, value) in [(ID, signed.id), (TIMESTAMP, signed.timestamp), (SIGNATURE, signed.signature)] {
        if value.is_empty() {
            return Err(VerifyError::Missing(name));
        }
    }
    let timestamp: i64 = signed.timestamp.parse().map_err(|_| VerifyError::Timestamp)?;
    // One text for one time: `+1` and `01` would be other signatures of the same request.
    if timestamp.to_string() != signed.timestamp {
        return Err(VerifyError::Timestamp);
    }
    let mut tried = false;
    let mut fits = false;
    for (version, signature) in signed.signature.split(' ').filter_map(|s| s.split_once(',')) {
        for key in keys.iter().filter(|key| key.version() == version) {
            tried = true;
            fits |= BASE64.decode(signature).is_ok_and(|given| key.fits(&given, signed.id, timestamp, body));
        }
    }
    match (tried, fits) {
        (false, _) => return Err(VerifyError::NoSuchVersion),
        (true, false) => return Err(VerifyError::Mismatch),
        (true, true) => {}
    }
    let (now, limit) = (now.as_second(), TOLERANCE.as_secs());
    match now.abs_diff(timestamp) {
        off if off <= limit => Ok(()),
        off if timestamp < now => Err(VerifyError::TooOld(off)),
        off => Err(VerifyError::TooNew(off)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The vectors of the reference libraries, the second one from the server that the specification came from.
    const HMAC: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const PRIVATE: &str =
        "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==";
    const SEED: &str = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbc=";
    const PUBLIC: &str = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=";
    const WHEN: i64 = 1_614_265_330;
    const MESSAGE: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const V1: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    const V1A: &str = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==";

    fn signing(text: &str) -> SigningKey {
        SigningKey::parse(text).unwrap()
    }

    fn verifying(text: &str) -> VerifyingKey {
        VerifyingKey::parse(text).unwrap()
    }

    fn check(keys: &[&str], id: &str, timestamp: &str, signature: &str, body: &[u8]) -> Result<(), VerifyError> {
        let keys: Vec<VerifyingKey> = keys.iter().map(|text| verifying(text)).collect();
        verify(&keys, Signed { id, timestamp, signature }, body, Timestamp::from_second(WHEN).unwrap())
    }

    #[test]
    fn the_vectors_of_the_reference_libraries_come_out() {
        for (key, signature) in [(HMAC, V1), (PRIVATE, V1A), (SEED, V1A)] {
            assert_eq!(sign(&[signing(key)], MESSAGE, WHEN, BODY), signature);
        }
        for (key, signature) in [(HMAC, V1), (PUBLIC, V1A), (PRIVATE, V1A), (SEED, V1A)] {
            assert_eq!(check(&[key], MESSAGE, "1614265330", signature, BODY), Ok(()));
        }
    }

    #[test]
    fn two_keys_make_two_signatures_and_either_of_them_is_enough() {
        let both = sign(&[signing(HMAC), signing(SEED)], MESSAGE, WHEN, BODY);
        assert_eq!(both, format!("{V1} {V1A}"));
        let other = new_secret().unwrap();
        for keys in [&[HMAC][..], &[PUBLIC], &[other.expose(), HMAC], &[other.expose(), PUBLIC]] {
            assert_eq!(check(keys, MESSAGE, "1614265330", &both, BODY), Ok(()));
        }
        assert_eq!(check(&[other.expose()], MESSAGE, "1614265330", &both, BODY), Err(VerifyError::Mismatch));
    }

    #[test]
    fn whatever_is_changed_on_the_way_is_found_out() {
        let now = "1614265330";
        for (id, timestamp, signature, body, expected) in [
            ("msg_x", now, V1, BODY, VerifyError::Mismatch),
            (MESSAGE, "1614265331", V1, BODY, VerifyError::Mismatch),
            (MESSAGE, now, V1, b"{}".as_slice(), VerifyError::Mismatch),
            (MESSAGE, now, "v1,g0hM9SsE", BODY, VerifyError::Mismatch),
            (MESSAGE, now, "v1,", BODY, VerifyError::Mismatch),
            (MESSAGE, now, "v1,%%%", BODY, VerifyError::Mismatch),
            (MESSAGE, now, "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", BODY, VerifyError::NoSuchVersion),
            (MESSAGE, now, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", BODY, VerifyError::NoSuchVersion),
            (MESSAGE, now, V1A, BODY, VerifyError::NoSuchVersion),
            ("", now, V1, BODY, VerifyError::Missing(ID)),
            (MESSAGE, "", V1, BODY, VerifyError::Missing(TIMESTAMP)),
            (MESSAGE, now, "", BODY, VerifyError::Missing(SIGNATURE)),
            (MESSAGE, "+1614265330", V1, BODY, VerifyError::Timestamp),
            (MESSAGE, "01614265330", V1, BODY, VerifyError::Timestamp),
            (MESSAGE, "yesterday", V1, BODY, VerifyError::Timestamp),
            (MESSAGE, "99999999999999999999", V1, BODY, VerifyError::Timestamp),
        ] {
            assert_eq!(check(&[HMAC], id, timestamp, signature, body), Err(expected.clone()), "{id} {timestamp}");
        }
    }

    #[test]
    fn five_minutes_are_tolerated_both_ways() {
        for (off, expected) in [
            (-300, Ok(())),
            (300, Ok(())),
            (-301, Err(VerifyError::TooOld(301))),
            (301, Err(VerifyError::TooNew(301))),
            (i64::MAX - WHEN, Err(VerifyError::TooNew(i64::MAX.abs_diff(WHEN)))),
        ] {
            let signature = sign(&[signing(HMAC)], MESSAGE, WHEN + off, BODY);
            assert_eq!(check(&[HMAC], MESSAGE, &(WHEN + off).to_string(), &signature, BODY), expected, "{off}");
        }
    }
}
