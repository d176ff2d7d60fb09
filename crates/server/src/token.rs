//! Tokens as they are given out. What is kept of them is their hash.

use std::fmt::Write as _;
use std::time::Duration;

use postroom_admin::{Role, Scope};
use postroom_core::valid_name;
use sha2::{Digest as _, Sha256};

/// Random bytes of a token.
const BYTES: usize = 32;
/// Validity of a token where nobody says how long.
pub const EXPIRES_AFTER: Duration = Duration::from_hours(90 * 24);
/// How long the previous secret of a rotated token stays valid where nobody says how long.
pub const KEPT_AFTER_ROTATION: Duration = Duration::from_hours(24);

/// Checks the name, role and scope of a token to be created; the error says what is wrong, and the next step.
pub fn check(name: &str, role: Role, scope: &Scope) -> Result<(), (&'static str, &'static str)> {
    if !valid_name(name) {
        let hint = "use lower-case letters, digits, `-`, `_` and `.`, at most 63, not beginning with a sign";
        return Err(("the name of the token is not valid", hint));
    }
    if name == ANONYMOUS {
        return Err(("the name `anonymous` stands for requests without a token", "choose another name"));
    }
    match role {
        Role::Worker if scope.routes.is_empty() => {
            Err(("a worker's token is limited to routes, and none is named", "name the pull routes that it works on"))
        }
        Role::Worker if scope.tenant.is_some() => {
            Err(("a worker's token cannot be limited to a tenant", "limit it to a route that matches the tenant"))
        }
        Role::Admin if !scope.is_everything() => {
            Err(("an admin's token cannot be limited: it may create others", "use the role operator"))
        }
        _ => Ok(()),
    }
}

/// What the audit log calls a caller without a token; no token has this name.
pub const ANONYMOUS: &str = "anonymous";

/// A new one, which nobody can guess. `prt_` tells people and scanners what it is.
pub fn fresh() -> Result<String, getrandom::Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(format!("prt_{}", hex(&bytes)))
}

/// Returns the hash of a token, which is stored.
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
