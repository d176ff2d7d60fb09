//! Where a broker is and how to log in, from its URL.

use percent_encoding::percent_decode_str;
use postroom_core::{Secret, SecretUrl};
use url::Url;

use crate::wire::SHORT_BYTES_MAX;

/// Address of a broker, from `amqp://user:password@host:port/vhost`.
///
/// Without a user it is `guest`, without a path the virtual host is `/`. Other virtual hosts are percent-encoded
/// (`/a%2Fb`). `?auth_mechanism=external` logs in with the certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) vhost: String,
    pub(crate) login: Login,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Login {
    Password { user: String, password: Secret },
    Certificate,
}

/// Error of a URL that is not the address of a broker. Never shows the URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It is no URL.
    #[error(
        "the url cannot be read: {0}; write amqp://user:password@host:5672/vhost, with %40 for an @ in the password"
    )]
    Url(#[from] url::ParseError),
    /// It is for something else.
    #[error("the url does not begin with amqp:// or amqps://")]
    Scheme,
    /// It leads nowhere.
    #[error("the url names no host")]
    Host,
    /// A virtual host that none can be called.
    #[error("the virtual host in the url {0}")]
    Vhost(&'static str),
    /// Login by certificate, without a certificate.
    #[error("auth_mechanism=external logs in with a certificate, which needs amqps://")]
    External,
    /// Not one of the two ways to log in.
    #[error("auth_mechanism is neither plain nor external")]
    Mechanism,
    /// Something that is set elsewhere, or not at all.
    #[error("the url has a parameter `{0}`; only auth_mechanism may stand there")]
    Parameter(String),
}

impl Address {
    /// Reads a URL.
    pub fn parse(url: &SecretUrl) -> Result<Self, AddressError> {
        let url = Url::parse(url.expose())?;
        let tls = match url.scheme() {
            "amqp" => false,
            "amqps" => true,
            _ => return Err(AddressError::Scheme),
        };
        // An IPv6 address stands in brackets that are not part of it.
        let host = url.host_str().map(|host| host.trim_matches(['[', ']'])).filter(|host| !host.is_empty());
        let host = decoded(host.ok_or(AddressError::Host)?).ok_or(AddressError::Host)?;
        let login = login(&url, tls)?;
        let port = url.port().unwrap_or(if tls { 5671 } else { 5672 });
        Ok(Self { tls, host, port, vhost: vhost(url.path())?, login })
    }

    /// Reports whether the connection uses TLS.
    pub fn is_private(&self) -> bool {
        self.tls
    }

    /// Who logs in, for people.
    pub(crate) fn who(&self) -> &str {
        match &self.login {
            Login::Password { user, .. } => user,
            Login::Certificate => "its certificate",
        }
    }
}

fn login(url: &Url, tls: bool) -> Result<Login, AddressError> {
    let mut external = false;
    for (name, value) in url.query_pairs() {
        match (&*name, value.to_lowercase().as_str()) {
            ("auth_mechanism", "external") if tls => external = true,
            ("auth_mechanism", "external") => return Err(AddressError::External),
            ("auth_mechanism", "plain") => {}
            ("auth_mechanism", _) => return Err(AddressError::Mechanism),
            _ => return Err(AddressError::Parameter(name.into_owned())),
        }
    }
    if external {
        return Ok(Login::Certificate);
    }
    let part = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let user = if url.username().is_empty() { "guest".to_owned() } else { part(url.username()) };
    Ok(Login::Password { user, password: Secret::new(part(url.password().unwrap_or("guest"))) })
}

fn vhost(path: &str) -> Result<String, AddressError> {
    let name = path.strip_prefix('/').unwrap_or(path);
    if name.is_empty() {
        return Ok("/".to_owned());
    }
    if name.contains('/') {
        return Err(AddressError::Vhost("has a slash; write %2F"));
    }
    let name = decoded(name).ok_or(AddressError::Vhost("is not text"))?;
    if name.len() > SHORT_BYTES_MAX { Err(AddressError::Vhost("is longer than 255 bytes")) } else { Ok(name) }
}

fn decoded(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<Address, AddressError> {
        Address::parse(&SecretUrl::new(url))
    }

    fn password(user: &str, password: &str) -> Login {
        Login::Password { user: user.to_owned(), password: Secret::new(password) }
    }

    #[test]
    fn a_url_says_where_and_who() {
        for (url, tls, host, port, vhost, login) in [
            ("amqp://localhost", false, "localhost", 5672, "/", password("guest", "guest")),
            ("amqp://localhost/", false, "localhost", 5672, "/", password("guest", "guest")),
            ("amqp://u:p@h:1/%2f", false, "h", 1, "/", password("u", "p")),
            ("amqps://u:p%40s%2Fs@h/shop", true, "h", 5671, "shop", password("u", "p@s/s")),
            ("amqp://[::1]:5/a%2Fb", false, "::1", 5, "a/b", password("guest", "guest")),
            ("amqps://127.0.0.1/x?auth_mechanism=EXTERNAL", true, "127.0.0.1", 5671, "x", Login::Certificate),
        ] {
            let expected = Address { tls, host: host.to_owned(), port, vhost: vhost.to_owned(), login };
            assert_eq!(read(url), Ok(expected), "{url}");
        }
    }

    #[test]
    fn a_url_that_cannot_be_meant_is_refused_and_never_shown() {
        for (url, said) in [
            ("amqp://u:canary@h:port", "the url cannot be read: invalid port number"),
            ("http://u:canary@h", "the url does not begin with amqp://"),
            ("amqp:///x", "the url names no host"),
            ("amqp://u:canary@h/a/b", "the virtual host in the url has a slash"),
            ("amqp://u:canary@h/%ff", "the virtual host in the url is not text"),
            ("amqp://h?auth_mechanism=external", "auth_mechanism=external logs in with a certificate"),
            ("amqps://h?auth_mechanism=canary", "auth_mechanism is neither plain nor external"),
            ("amqp://h?heartbeat=canary", "the url has a parameter `heartbeat`"),
        ] {
            let error = read(url).unwrap_err().to_string();
            assert!(error.starts_with(said) && !error.contains("canary"), "{url}: {error}");
        }
        assert!(!format!("{:?}", read("amqp://u:canary@h").unwrap()).contains("canary"));
    }
}
