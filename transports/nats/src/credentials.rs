//! Who we are, answered to a server's challenge.
//!
//! The client asks for every connection it makes. After the first one the answer is no: a client that has lost its
//! connection would come back by itself and publish what it still holds, of which we have already said that it did not
//! get through.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_nats::{Auth, AuthError, ConnectOptions, ServerAddr};
use nkeys::KeyPair;
use percent_encoding::percent_decode_str;
use postroom_core::{Failure, Secret};

use crate::failures;
use crate::options::Login;

/// What a login has come to.
enum Credentials {
    None,
    UserPassword(String, Secret),
    Token(Secret),
    Key { pair: Box<KeyPair>, jwt: Option<Secret> },
}

/// A connection that is over does not come back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Once(Arc<AtomicBool>);

impl Once {
    /// The one connection is there.
    pub(crate) fn used(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Options that log in like this, and only while the one connection has not been made.
pub(crate) async fn options(login: &Login, address: &ServerAddr, once: &Once) -> Result<ConnectOptions, Failure> {
    let credentials = Credentials::of(login, address).await?;
    let once = once.clone();
    Ok(ConnectOptions::with_auth_callback(move |nonce| {
        let answer = if once.0.load(Ordering::Acquire) {
            Err(AuthError::new("this connection is over"))
        } else {
            credentials.answer(&nonce)
        };
        async move { answer }
    }))
}

impl Credentials {
    async fn of(login: &Login, address: &ServerAddr) -> Result<Self, Failure> {
        Ok(match login {
            Login::None => match (address.username().map(decoded), address.password().map(decoded)) {
                (Some(user), Some(password)) => Self::UserPassword(user, Secret::new(password)),
                (Some(token), None) => Self::Token(Secret::new(token)),
                (None, _) => Self::None,
            },
            Login::UserPassword(user, password) => Self::UserPassword(user.clone(), password.clone()),
            Login::Token(token) => Self::Token(token.clone()),
            Login::NkeySeed(seed) => Self::Key { pair: pair(seed.expose(), "the nkey")?, jwt: None },
            Login::CredentialsFile(path) => {
                let (what, file) = (path.display().to_string(), path.clone());
                let text = tokio::task::spawn_blocking(move || std::fs::read_to_string(file)).await;
                let text = text.unwrap_or_else(|ended| Err(io::Error::other(ended)));
                let text = text.map_err(|error| failures::credentials(&what, &error))?;
                let (Some(jwt), Some(seed)) = (block(&text, "NATS USER JWT"), block(&text, "USER NKEY SEED")) else {
                    let missing = "it has no block NATS USER JWT followed by USER NKEY SEED";
                    return Err(failures::credentials(&what, &missing));
                };
                Self::Key { pair: pair(seed, &what)?, jwt: Some(Secret::new(jwt)) }
            }
        })
    }

    fn answer(&self, nonce: &[u8]) -> Result<Auth, AuthError> {
        let mut auth = Auth::new();
        match self {
            Self::None => {}
            Self::UserPassword(user, password) => {
                (auth.username, auth.password) = (Some(user.clone()), Some(password.expose().to_owned()));
            }
            Self::Token(token) => auth.token = Some(token.expose().to_owned()),
            Self::Key { pair, jwt } => {
                auth.signature = Some(pair.sign(nonce).map_err(AuthError::new)?);
                match jwt {
                    Some(jwt) => auth.jwt = Some(jwt.expose().to_owned()),
                    None => auth.nkey = Some(pair.public_key()),
                }
            }
        }
        Ok(auth)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(***)")
    }
}

fn pair(seed: &str, what: &str) -> Result<Box<KeyPair>, Failure> {
    // The error may quote what it could not read.
    let pair = KeyPair::from_seed(seed.trim());
    pair.map(Box::new).map_err(|_| failures::credentials(what, &"that is no seed of an nkey"))
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The line between `-----BEGIN name-----` and `------END name------`.
fn block<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| line.starts_with("---") && line.contains(&format!("BEGIN {name}")))?;
    lines.next().filter(|line| !line.is_empty() && !line.starts_with("---"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_of_a_credentials_file_are_found() {
        let text = "-----BEGIN NATS USER JWT-----\r\neyJ0.x.y\r\n------END NATS USER JWT------\r\n\n*** IMPORTANT ***\n\
                    -----BEGIN USER NKEY SEED-----\nSUAB\n------END USER NKEY SEED------\n";
        assert_eq!(block(text, "NATS USER JWT"), Some("eyJ0.x.y"));
        assert_eq!(block(text, "USER NKEY SEED"), Some("SUAB"));
        assert_eq!(block("-----BEGIN USER NKEY SEED-----\n------END", "USER NKEY SEED"), None);
        assert_eq!(block("SUAB", "USER NKEY SEED"), None);
    }

    #[tokio::test]
    async fn a_login_in_the_url_is_read_as_it_was_meant() {
        let of =
            async |url: &str| Credentials::of(&Login::None, &url.parse().unwrap()).await.unwrap().answer(b"").unwrap();
        let auth = of("nats://relay:p%40ss%2Fword@localhost").await;
        assert_eq!((auth.username.as_deref(), auth.password.as_deref()), (Some("relay"), Some("p@ss/word")));
        assert_eq!(of("nats://t%20ken@localhost").await.token.as_deref(), Some("t ken"));
        assert_eq!(of("nats://localhost").await.username, None);
    }

    #[tokio::test]
    async fn a_seed_that_is_none_is_never_quoted() {
        let login = Login::NkeySeed(Secret::new("canary"));
        let failure = Credentials::of(&login, &"nats://h".parse().unwrap()).await.unwrap_err();
        assert_eq!(failure.code, "nats.login");
        assert!(!failure.error.contains("canary"), "{}", failure.error);
    }
}
