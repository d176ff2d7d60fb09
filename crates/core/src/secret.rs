//! Passwords, and URLs with passwords in them, that never show themselves.

use std::fmt;

use serde::{Serialize, Serializer};

/// A password, token or key. There is no way to print it by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret as it is, for the one who needs it and nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// The URL of a store or a broker. `Debug`, `Display` and serialisation replace passwords by `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(String);

impl SecretUrl {
    /// A URL, password included.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// The URL as it is, for opening a connection and nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What stands before the first `:`, for instance `sqlite`.
    pub fn scheme(&self) -> &str {
        self.0.split_once(':').map_or("", |(scheme, _)| scheme)
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
            let secret = ["pass", "secret", "token", "key"].iter().any(|word| name.to_lowercase().contains(word));
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
            ("https://hooks.example/services/canary?to=a", "https://hooks.example/***?to=a"),
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
    }
}
