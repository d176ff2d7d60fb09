//! Passwords, and URLs with passwords in them, that never show themselves.

use std::fmt;

use serde::{Serialize, Serializer};

/// Password, token or key, which cannot be printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Creates a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// Returns the secret, for the code that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// URL of a store or a broker. `Debug`, `Display` and serialisation replace passwords by `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(String);

impl SecretUrl {
    /// Creates a URL, password included.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// Returns the URL with its password, for opening a connection.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the scheme, for instance `sqlite`.
    pub fn scheme(&self) -> &str {
        self.0.split_once(':').map_or("", |(scheme, _)| scheme)
    }

    /// Returns the host, without login and port.
    pub fn host(&self) -> &str {
        let (_, host) = self.authority();
        match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            None => host.split(':').next().unwrap_or_default(),
        }
    }

    /// Whether the URL logs in with a password or a token.
    pub fn has_login(&self) -> bool {
        !self.authority().0.is_empty()
    }

    /// Splits off the login, which may contain anything unescaped: all up to the last `@`.
    fn authority(&self) -> (&str, &str) {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        let (login, host) = rest.rsplit_once('@').unwrap_or(("", rest));
        (login, host.split(['/', '?', '#']).next().unwrap_or_default())
    }
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((scheme, rest)) = self.0.split_once("://") else { return f.write_str(&self.0) };
        write!(f, "{scheme}://")?;
        // A password may contain `@`, `/`, `?` and anything else unescaped: all up to the last `@` is doubtful.
        let after = match rest.rsplit_once('@') {
            Some((login, host)) => {
                let user = login.split(':').next().unwrap_or_default();
                let user = if user.contains(['/', '?']) { "***" } else { user };
                write!(f, "{user}{}@", if login.contains(':') { ":***" } else { "" })?;
                host
            }
            None => rest,
        };
        let (address, query) = match after.split_once('?') {
            Some((address, query)) => (address, Some(query)),
            None => (after, None),
        };
        match address.split_once('/') {
            // The path of a hook is often its only secret.
            Some((host, path)) if scheme.starts_with("http") && !path.is_empty() => write!(f, "{host}/***")?,
            _ => f.write_str(address)?,
        }
        let Some(query) = query else { return Ok(()) };
        for (n, pair) in query.split('&').enumerate() {
            let name = pair.split('=').next().unwrap_or_default();
            // Receivers authenticate by `sig`, `code` and whatever else their authors thought of.
            let secret = scheme.starts_with("http")
                || ["pass", "secret", "token", "key"].iter().any(|word| name.to_lowercase().contains(word));
            f.write_str(if n == 0 { "?" } else { "&" })?;
            if secret { write!(f, "{name}=***")? } else { f.write_str(pair)? }
        }
        Ok(())
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretUrl({self})")
    }
}

impl Serialize for SecretUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_shown_nowhere() {
        for (url, shown) in [
            ("sqlite://shop.db", "sqlite://shop.db"),
            ("postgres://shop@db/shop", "postgres://shop@db/shop"),
            ("postgres://shop:canary@db:5432/shop?sslmode=require", "postgres://shop:***@db:5432/shop?sslmode=require"),
            ("postgres://shop:canary/x@y:canary@db/shop", "postgres://shop:***@db/shop"),
            ("postgres://db/shop?user=a&password=canary", "postgres://db/shop?user=a&password=***"),
            ("postgres://shop:can?canary@db/shop", "postgres://shop:***@db/shop"),
            ("postgres://db/shop?password=canary@x", "postgres://***@x"),
            ("sqlite://shop.db?encryption_key=canary", "sqlite://shop.db?encryption_key=***"),
            ("https://hooks.example/services/canary?to=canary&sig=canary", "https://hooks.example/***?to=***&sig=***"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/"),
        ] {
            let url = SecretUrl::new(url);
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), format!("SecretUrl({shown})"));
            assert_eq!(serde_json::to_string(&url).unwrap(), format!("{shown:?}"));
        }
    }

    #[test]
    fn the_url_itself_is_there_for_who_opens_it() {
        assert_eq!(SecretUrl::new("postgres://u:p@h/d").expose(), "postgres://u:p@h/d");
        assert_eq!(SecretUrl::new("sqlite:shop.db").scheme(), "sqlite");
        for (url, host, login) in [
            ("amqp://guest:a@b@rabbit:5672/shop", "rabbit", true),
            ("redis://:password@[::1]:6379/0", "::1", true),
            ("nats://localhost", "localhost", false),
        ] {
            let url = SecretUrl::new(url);
            assert_eq!((url.host(), url.has_login()), (host, login));
        }
    }
}
