//! The signatures of `clients/webhook-vectors.json`, which all packages check, are what the relay's own code says they are.

use jiff::Timestamp;
use postroom_client_packages::clients;
use postroom_webhook::signature::{Signed, VerifyError, VerifyingKey, verify};
use serde::Deserialize;

#[derive(Deserialize)]
struct Vector {
    name: String,
    keys: Vec<String>,
    id: String,
    timestamp: String,
    signature: String,
    body: String,
    now: i64,
    result: String,
}

#[test]
fn the_relay_agrees_with_every_vector_of_the_packages() {
    let vectors: Vec<Vector> =
        serde_json::from_slice(&std::fs::read(clients().join("webhook-vectors.json")).unwrap()).unwrap();
    assert!(vectors.len() > 20);
    for Vector { name, keys, id, timestamp, signature, body, now, result } in vectors {
        let keys: Vec<VerifyingKey> = keys.iter().map(|key| VerifyingKey::parse(key).unwrap()).collect();
        let signed = Signed { id: &id, timestamp: &timestamp, signature: &signature };
        let verified = match verify(&keys, signed, body.as_bytes(), Timestamp::from_second(now).unwrap()) {
            Ok(()) => "ok",
            Err(VerifyError::Missing(_)) => "missing",
            Err(VerifyError::Timestamp) => "timestamp",
            Err(VerifyError::TooOld(_)) => "too_old",
            Err(VerifyError::TooNew(_)) => "too_new",
            Err(VerifyError::NoSuchVersion) => "version",
            Err(VerifyError::Mismatch) => "mismatch",
            Err(other) => panic!("{name}: {other}"),
        };
        assert_eq!(verified, result, "{name}");
    }
}
