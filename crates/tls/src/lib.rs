//! Certificate files, read into a rustls client or server: one provider, passed explicitly, and no way to leave a check out.

#[cfg(feature = "config")]
pub mod config;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Whom to trust, and who we are. Empty trusts what the machine trusts and shows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates to trust instead of the machine's, PEM.
    pub ca_file: Option<PathBuf>,
    /// Our certificate and what leads from it to its authority, PEM; with `key_file`.
    pub cert_file: Option<PathBuf>,
    /// The private key of `cert_file`, PEM.
    pub key_file: Option<PathBuf>,
}

/// Files that give no client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{0} cannot be read: {1}")]
    Unreadable(PathBuf, io::Error),
    /// A file does not hold what it should.
    #[error("{0} holds no {1} in PEM form")]
    Nothing(PathBuf, &'static str),
    /// Certificate without key, or the other way round.
    #[error("`cert_file` and `key_file` belong together; give both or neither")]
    Half,
    /// The machine trusts nobody, or its list cannot be read.
    #[error("this machine has no trusted certificates; install ca-certificates, or give `ca_file`")]
    NoRoots,
    /// rustls does not take it.
    #[error("{0}")]
    Refused(#[from] rustls::Error),
    /// The authorities of clients cannot be used.
    #[error("{0}: {1}")]
    Authorities(PathBuf, rustls::server::VerifierBuilderError),
}

impl TlsFiles {
    /// A rustls client that trusts and shows these.
    pub fn client(&self) -> Result<ClientConfig, TlsError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(self.roots()?);
        Ok(match (&self.cert_file, &self.key_file) {
            (Some(cert), Some(key)) => builder.with_client_auth_cert(certificates(cert)?, private_key(key)?)?,
            (None, None) => builder.with_no_client_auth(),
            _ => return Err(TlsError::Half),
        })
    }

    /// What the files hold, as PEM, for clients that build their own; read and checked like [`TlsFiles::client`] does.
    pub fn pem(&self) -> Result<TlsPem, TlsError> {
        self.client()?;
        let read = |file: &Option<PathBuf>| file.as_deref().map(text).transpose();
        Ok(TlsPem { ca: read(&self.ca_file)?, cert: read(&self.cert_file)?, key: read(&self.key_file)? })
    }

    fn roots(&self) -> Result<RootCertStore, TlsError> {
        if let Some(file) = &self.ca_file {
            return authorities(file);
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() { Err(TlsError::NoRoots) } else { Ok(roots) }
    }
}

/// The contents of [`TlsFiles`].
#[derive(Clone, Default)]
pub struct TlsPem {
    /// Whom to trust.
    pub ca: Option<String>,
    /// Our certificate.
    pub cert: Option<String>,
    /// Its key.
    pub key: Option<String>,
}

impl std::fmt::Debug for TlsPem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsPem")
            .field("ca", &self.ca.is_some())
            .field("cert", &self.cert.is_some())
            .finish_non_exhaustive()
    }
}

/// The certificate that a server shows, and the authorities of the clients it asks for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTlsFiles {
    /// The certificate and what leads from it to its authority, PEM.
    pub cert_file: PathBuf,
    /// The private key of `cert_file`, PEM.
    pub key_file: PathBuf,
    /// Authorities of client certificates, PEM: where they are given, a client without such a certificate is refused.
    pub client_ca_file: Option<PathBuf>,
}

impl ServerTlsFiles {
    /// A rustls server with these, for HTTP/1.1.
    pub fn server(&self) -> Result<ServerConfig, TlsError> {
        let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let builder = match &self.client_ca_file {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(authorities(file)?.into(), provider());
                let verifier = verifier.build().map_err(|error| TlsError::Authorities(file.clone(), error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(certificates(&self.cert_file)?, private_key(&self.key_file)?)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    /// The files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        [&self.cert_file, &self.key_file].into_iter().chain(&self.client_ca_file).map(PathBuf::as_path)
    }
}

/// Makes our provider the one of the process, for clients that cannot be given one. May be called again.
pub fn install_provider() {
    // Somebody else's choice, if there is one, stands: then there is a provider, which is all that is needed.
    let _ = CryptoProvider::install_default(rustls::crypto::ring::default_provider());
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn authorities(file: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| refused(file, "certificate", error))?;
    if found.is_empty() { Err(TlsError::Nothing(file.to_owned(), "certificate")) } else { Ok(found) }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| refused(file, "private key", error))
}

fn refused(file: &Path, what: &'static str, error: pem::Error) -> TlsError {
    match error {
        pem::Error::Io(error) => TlsError::Unreadable(file.to_owned(), error),
        _ => TlsError::Nothing(file.to_owned(), what),
    }
}

fn text(file: &Path) -> Result<String, TlsError> {
    std::fs::read_to_string(file).map_err(|error| TlsError::Unreadable(file.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_that_are_missing_empty_or_something_else_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (missing, empty) = (folder.path().join("missing.pem"), folder.path().join("empty.pem"));
        fs::write(&empty, "nothing here\n").unwrap();
        let of = |ca: &Path| {
            TlsFiles { ca_file: Some(ca.to_owned()), ..TlsFiles::default() }.client().unwrap_err().to_string()
        };
        assert!(of(&missing).contains("missing.pem cannot be read: No such file"), "{}", of(&missing));
        assert!(of(&empty).ends_with("empty.pem holds no certificate in PEM form"), "{}", of(&empty));
    }

    #[test]
    fn a_certificate_without_its_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        fs::write(&cert, made.cert.pem()).unwrap();
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let mut files = TlsFiles { ca_file: Some(cert.clone()), cert_file: Some(cert), key_file: None };
        assert!(matches!(files.client(), Err(TlsError::Half)));
        files.key_file = Some(key);
        files.client().unwrap();
        let pem = files.pem().unwrap();
        assert!(pem.key.as_deref().is_some_and(|key| key.contains("PRIVATE KEY")));
        assert!(!format!("{pem:?}").contains("PRIVATE"));
    }
}
