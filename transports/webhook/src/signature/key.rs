//! The keys: `whsec_` for a secret both sides have, `whsk_` and `whpk_` for a pair. No key shows itself.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ed25519_dalek::{SECRET_KEY_LENGTH, Signature, Signer as _};
use hmac::{Hmac, KeyInit as _, Mac as _};
use postroom_core::Secret;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

const SECRET: &str = "whsec_";
const PRIVATE: &str = "whsk_";
const PUBLIC: &str = "whpk_";

/// How long a shared secret may be, in bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// How long ours are.
const NEW_SECRET_BYTES: usize = 32;

/// Error of a text that is not a key. Never shows the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// It begins like none.
    #[error("a signing key begins with `whsec_` or `whsk_`")]
    NoSigningKey,
    /// It begins like none.
    #[error("a key to verify with begins with `whsec_`, `whpk_` or `whsk_`")]
    NoVerifyingKey,
    /// What follows is not base64.
    #[error("what follows `{0}` is not base64")]
    NotBase64(&'static str),
    /// It has the wrong length.
    #[error("a `{0}` key has {1} bytes, this one has {2}")]
    Length(&'static str, &'static str, usize),
    /// It has the right length and is none.
    #[error("what follows `{0}` is not an ed25519 key")]
    NotAKey(&'static str),
    /// The machine gives no random bytes.
    #[error("no random bytes from the system")]
    NoRandom,
}

/// Signing key of a sender. Two keys are equal if they were parsed from the same text.
#[derive(Clone)]
pub struct SigningKey {
    text: Secret,
    ready: Signing,
}

#[derive(Clone)]
enum Signing {
    // Keyed once: a signature begins with a copy of it.
    Secret(Hmac<Sha256>),
    Pair(Box<ed25519_dalek::SigningKey>),
}

impl SigningKey {
    /// Parses `whsec_…`, or the private key of a pair, `whsk_…`.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let ready = if text.starts_with(SECRET) {
            Signing::Secret(shared(text)?)
        } else if text.starts_with(PRIVATE) {
            Signing::Pair(Box::new(private(text)?))
        } else {
            return Err(KeyError::NoSigningKey);
        };
        Ok(Self { text: Secret::new(text), ready })
    }

    pub(super) fn version(&self) -> &'static str {
        match self.ready {
            Signing::Secret(_) => "v1",
            Signing::Pair(_) => "v1a",
        }
    }

    pub(super) fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> Vec<u8> {
        match &self.ready {
            Signing::Secret(mac) => over(mac, id, timestamp, body).finalize().into_bytes().to_vec(),
            Signing::Pair(key) => key.sign(&content(id, timestamp, body)).to_bytes().to_vec(),
        }
    }
}

impl PartialEq for SigningKey {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({} ***)", self.version())
    }
}

/// Verifying key of a receiver.
#[derive(Clone)]
pub struct VerifyingKey(Verifying);

#[derive(Clone)]
enum Verifying {
    Secret(Hmac<Sha256>),
    Pair(Box<ed25519_dalek::VerifyingKey>),
}

impl VerifyingKey {
    /// Parses `whsec_…`, or a key of a pair: the public one, `whpk_…`, or the private one, which holds it too.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let pair = |key| Self(Verifying::Pair(Box::new(key)));
        if text.starts_with(SECRET) {
            shared(text).map(|mac| Self(Verifying::Secret(mac)))
        } else if text.starts_with(PUBLIC) {
            public(text).map(pair)
        } else if text.starts_with(PRIVATE) {
            private(text).map(|key| pair(key.verifying_key()))
        } else {
            Err(KeyError::NoVerifyingKey)
        }
    }

    pub(super) fn version(&self) -> &'static str {
        match self.0 {
            Verifying::Secret(_) => "v1",
            Verifying::Pair(_) => "v1a",
        }
    }

    pub(super) fn fits(&self, given: &[u8], id: &str, timestamp: i64, body: &[u8]) -> bool {
        match &self.0 {
            Verifying::Secret(mac) => over(mac, id, timestamp, body).finalize().into_bytes().ct_eq(given).into(),
            Verifying::Pair(key) => Signature::from_slice(given)
                .is_ok_and(|given| key.verify_strict(&content(id, timestamp, body), &given).is_ok()),
        }
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyingKey({} ***)", self.version())
    }
}

/// Fresh key pair, as texts.
#[derive(Debug)]
pub struct KeyPair {
    /// Private key of the sender: `whsk_…`.
    pub private: Secret,
    /// Public key for receivers: `whpk_…`.
    pub public: String,
}

/// Generates a secret, `whsec_…`, from the system's random bytes.
pub fn new_secret() -> Result<Secret, KeyError> {
    let bytes: [u8; NEW_SECRET_BYTES] = random()?;
    Ok(Secret::new(format!("{SECRET}{}", BASE64.encode(bytes))))
}

/// Generates a key pair, `whsk_…` and `whpk_…`, from the system's random bytes.
pub fn new_key_pair() -> Result<KeyPair, KeyError> {
    let key = ed25519_dalek::SigningKey::from_bytes(&random()?);
    Ok(KeyPair {
        private: Secret::new(format!("{PRIVATE}{}", BASE64.encode(key.to_keypair_bytes()))),
        public: format!("{PUBLIC}{}", BASE64.encode(key.verifying_key().as_bytes())),
    })
}

fn random<const N: usize>() -> Result<[u8; N], KeyError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| KeyError::NoRandom)?;
    Ok(bytes)
}

fn over(mac: &Hmac<Sha256>, id: &str, timestamp: i64, body: &[u8]) -> Hmac<Sha256> {
    let mut mac = mac.clone();
    mac.update(id.as_bytes());
    mac.update(format!(".{timestamp}.").as_bytes());
    mac.update(body);
    mac
}

fn content(id: &str, timestamp: i64, body: &[u8]) -> Vec<u8> {
    let mut content = format!("{id}.{timestamp}.").into_bytes();
    content.extend_from_slice(body);
    content
}

fn shared(text: &str) -> Result<Hmac<Sha256>, KeyError> {
    let bytes = decoded(text, SECRET)?;
    let length = KeyError::Length(SECRET, "24 to 64", bytes.len());
    if !SECRET_BYTES.contains(&bytes.len()) {
        return Err(length);
    }
    Hmac::new_from_slice(&bytes).map_err(|_| length)
}

/// The private key alone, or with the public one behind it, as other libraries write it.
fn private(text: &str) -> Result<ed25519_dalek::SigningKey, KeyError> {
    let bytes = decoded(text, PRIVATE)?;
    if let Ok(pair) = <&[u8; 2 * SECRET_KEY_LENGTH]>::try_from(bytes.as_slice()) {
        return ed25519_dalek::SigningKey::from_keypair_bytes(pair).map_err(|_| KeyError::NotAKey(PRIVATE));
    }
    let seed = <&[u8; SECRET_KEY_LENGTH]>::try_from(bytes.as_slice());
    let seed = seed.map_err(|_| KeyError::Length(PRIVATE, "32 or 64", bytes.len()))?;
    Ok(ed25519_dalek::SigningKey::from_bytes(seed))
}

fn public(text: &str) -> Result<ed25519_dalek::VerifyingKey, KeyError> {
    let bytes = decoded(text, PUBLIC)?;
    let bytes = <&[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| KeyError::Length(PUBLIC, "32", bytes.len()))?;
    ed25519_dalek::VerifyingKey::from_bytes(bytes).map_err(|_| KeyError::NotAKey(PUBLIC))
}

fn decoded(text: &str, prefix: &'static str) -> Result<Vec<u8>, KeyError> {
    BASE64.decode(text.strip_prefix(prefix).unwrap_or(text)).map_err(|_| KeyError::NotBase64(prefix))
}

#[cfg(test)]
mod tests {
    use super::super::{Signed, sign, verify};
    use super::*;

    #[test]
    fn what_is_no_key_is_refused_without_being_quoted() {
        let short = format!("whsec_{}", BASE64.encode([7; 23]));
        let long = format!("whsec_{}", BASE64.encode([7; 65]));
        let odd = format!("whsk_{}", BASE64.encode([7; 33]));
        let torn = format!("whsk_{}", BASE64.encode([7; 64]));
        for (text, expected) in [
            ("", "a signing key begins with `whsec_` or `whsk_`"),
            ("canary", "a signing key begins with `whsec_` or `whsk_`"),
            ("whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=", "a signing key begins with `whsec_` or `whsk_`"),
            ("whsec_canary!", "what follows `whsec_` is not base64"),
            (&short, "a `whsec_` key has 24 to 64 bytes, this one has 23"),
            (&long, "a `whsec_` key has 24 to 64 bytes, this one has 65"),
            (&odd, "a `whsk_` key has 32 or 64 bytes, this one has 33"),
            (&torn, "what follows `whsk_` is not an ed25519 key"),
        ] {
            assert_eq!(SigningKey::parse(text).unwrap_err().to_string(), expected);
        }
        assert_eq!(VerifyingKey::parse("whpk_AAAA").unwrap_err(), KeyError::Length(PUBLIC, "32", 3));
        assert_eq!(VerifyingKey::parse("canary").unwrap_err(), KeyError::NoVerifyingKey);
    }

    #[test]
    fn new_keys_work_differ_and_never_show_themselves() {
        let (secret, other, pair) = (new_secret().unwrap(), new_secret().unwrap(), new_key_pair().unwrap());
        assert_ne!(secret.expose(), other.expose());
        let now = jiff::Timestamp::now();
        let at = now.as_second().to_string();
        for (private, public) in [(&secret, secret.expose()), (&pair.private, pair.public.as_str())] {
            let signing = SigningKey::parse(private.expose()).unwrap();
            let verifying = VerifyingKey::parse(public).unwrap();
            let signature = sign(std::slice::from_ref(&signing), "e-1", now.as_second(), b"{}");
            let signed = Signed { id: "e-1", timestamp: &at, signature: &signature };
            verify(std::slice::from_ref(&verifying), signed, b"{}", now).unwrap();
            let shown = format!("{private:?} {signing:?} {verifying:?} {pair:?}");
            assert!(!shown.contains(&private.expose()[6..]), "{shown}");
        }
    }
}
