//! Certificates for servers that want to be talked to in private, and the wrong ones that nobody may accept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
};

/// What stands as common name in [`Certificates::client`]: who logs in with it.
pub const CLIENT_NAME: &str = "relay-client";

/// Files in PEM form. The servers' certificate is for `localhost` only: whoever connects to 127.0.0.1 has reached
/// another name.
#[derive(Debug, Clone)]
pub struct Certificates {
    folder: PathBuf,
}

/// A certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate's file.
    pub cert: PathBuf,
    /// The key's file.
    pub key: PathBuf,
}

impl Certificates {
    /// Those in this folder.
    pub fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Makes them.
    pub fn make(&self) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let trusted = authority("Postroom test authority")?;
        let other = authority("Somebody else's authority")?;
        fs::write(self.ca(), trusted.0.pem())?;
        fs::write(self.other_ca(), other.0.pem())?;
        let valid = (2020, 2100);
        self.write("server", &trusted.1, "localhost", valid)?;
        self.write("expired", &trusted.1, "localhost", (2020, 2021))?;
        self.write("client", &trusted.1, CLIENT_NAME, valid)?;
        self.write("stranger", &other.1, CLIENT_NAME, valid)
    }

    /// Whom to trust.
    pub fn ca(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Whoever trusts only this one trusts none of our servers.
    pub fn other_ca(&self) -> PathBuf {
        self.folder.join("other-ca.pem")
    }

    /// What the servers show.
    pub fn server(&self) -> Identity {
        self.identity("server")
    }

    /// Key and certificate of the servers in one file.
    pub fn server_bundle(&self) -> PathBuf {
        self.folder.join("server-bundle.pem")
    }

    /// For `localhost`, by the right authority, until 2021.
    pub fn expired(&self) -> Identity {
        self.identity("expired")
    }

    /// Of a client the servers know.
    pub fn client(&self) -> Identity {
        self.identity("client")
    }

    /// Of a client by an authority the servers do not know.
    pub fn stranger(&self) -> Identity {
        self.identity("stranger")
    }

    fn identity(&self, name: &str) -> Identity {
        Identity { cert: self.folder.join(format!("{name}.pem")), key: self.folder.join(format!("{name}.key")) }
    }

    fn write(&self, name: &str, issuer: &Issuer<'_, KeyPair>, common: &str, years: (i32, i32)) -> io::Result<()> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = CertificateParams::new([common.to_owned()]).map_err(io::Error::other)?;
        params.distinguished_name.push(DnType::CommonName, common);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        (params.not_before, params.not_after) = (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
        let cert = params.signed_by(&key, issuer).map_err(io::Error::other)?.pem();
        let files = self.identity(name);
        fs::write(self.folder.join(format!("{name}-bundle.pem")), format!("{}{cert}", key.serialize_pem()))?;
        fs::write(files.cert, cert)?;
        fs::write(files.key, key.serialize_pem())
    }
}

fn authority(name: &str) -> io::Result<(rcgen::Certificate, Issuer<'static, KeyPair>)> {
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let cert = params.self_signed(&key).map_err(io::Error::other)?;
    Ok((cert, Issuer::new(params, key)))
}

/// The folder of the certificates among the servers' folders.
pub(super) fn folder(servers: &Path) -> PathBuf {
    servers.join("certificates")
}
