//! Tokens as they are given out. What is kept of them is their hash.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// Random bytes of a token.
const BYTES: usize = 32;

/// A new one, which nobody can guess. `prt_` tells people and scanners what it is.
pub fn fresh() -> Result<String, getrandom::Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(format!("prt_{}", hex(&bytes)))
}

/// What is kept of one.
pub fn hash(token: &str) -> String {
    hex(&Sha256::digest(token.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_alike_and_the_hash_tells_nothing() {
        let (one, two) = (fresh().unwrap(), fresh().unwrap());
        assert!(one != two && one.starts_with("prt_") && one.len() == 68, "{one}");
        assert_eq!(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
