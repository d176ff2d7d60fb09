//! Ids of 26 characters that sort by time: a UUID of version 7 has the parts of a ULID, in the same order.

use uuid::Uuid;

/// Crockford's alphabet.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// A new one.
pub(crate) fn new() -> String {
    let id = Uuid::now_v7().as_u128();
    let digit = |place: u32| char::from(ALPHABET[(id >> (5 * place) & 31) as usize]);
    (0..26).rev().map(digit).collect()
}
