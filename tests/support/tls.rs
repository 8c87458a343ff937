//! Certificates for servers on loopback: a throw-away authority and one certificate that it signed.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// PEM files, in the folder of the server that uses them.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
    /// What a client has to trust.
    pub(crate) authority: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificates {
    /// For `localhost` and `127.0.0.1`.
    pub(crate) fn create(folder: &Path) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "redfence test authority");
        let authority_key = KeyPair::generate().expect("a key");
        let authority = params.self_signed(&authority_key).expect("a self-signed certificate");
        let issuer = Issuer::new(params, authority_key);

        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let key = KeyPair::generate().expect("a key");
        let signed = CertificateParams::new(names)
            .and_then(|params| params.signed_by(&key, &issuer))
            .expect("a certificate");

        let file = |name: &str, pem: String| {
            let path = folder.join(name);
            std::fs::write(&path, pem).expect("a certificate can be written");
            path
        };
        Self {
            authority: file("authority.pem", authority.pem()),
            certificate: file("certificate.pem", signed.pem()),
            key: file("key.pem", key.serialize_pem()),
        }
    }

    /// For `redis::Client::build_with_tls`.
    pub(crate) fn for_client(&self) -> redis::TlsCertificates {
        let root = std::fs::read(&self.authority).expect("the authority can be read");
        redis::TlsCertificates { client_tls: None, root_cert: Some(root) }
    }
}
