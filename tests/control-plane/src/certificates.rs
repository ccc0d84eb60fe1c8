//! Keys and certificates for loopback: an authority of our own and one serving certificate, made anew each time.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::error::Error;

/// A certificate for `127.0.0.1` and `localhost`, its key, and the authority that signed it.
pub(crate) struct Serving {
    /// What clients trust, as PEM.
    pub(crate) authority: String,
    authority_der: CertificateDer<'static>,
    /// The serving certificate as PEM.
    pub(crate) certificate: String,
    certificate_der: CertificateDer<'static>,
    key: KeyPair,
}

impl Serving {
    /// Makes a new authority and certificate; `name` is the authority's.
    pub(crate) fn new(name: &str) -> Result<Self, Error> {
        Self::make(name).map_err(Error::doing("cannot make a certificate"))
    }

    fn make(name: &str) -> Result<Self, rcgen::Error> {
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, name);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate()?;
        let authority_certificate = authority.self_signed(&authority_key)?;
        let issuer = Issuer::new(authority, authority_key);

        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned(), "kubernetes.default.svc".to_owned()];
        let mut serving = CertificateParams::new(names)?;
        serving.distinguished_name.push(DnType::CommonName, "loopback");
        let key = KeyPair::generate()?;
        let certificate = serving.signed_by(&key, &issuer)?;
        Ok(Self {
            authority: authority_certificate.pem(),
            authority_der: authority_certificate.der().clone(),
            certificate: certificate.pem(),
            certificate_der: certificate.der().clone(),
            key,
        })
    }

    /// The serving certificate's key as PEM.
    pub(crate) fn key(&self) -> String {
        self.key.serialize_pem()
    }

    /// For a client that trusts this authority alone.
    pub(crate) fn client(&self) -> Result<Arc<ClientConfig>, Error> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority_der.clone()).map_err(Error::doing("cannot trust our own certificate"))?;
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(Error::doing("cannot set up TLS"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::new(config))
    }

    /// For a server that shows this certificate.
    pub(crate) fn server(&self) -> Result<Arc<ServerConfig>, Error> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder.with_no_client_auth().with_single_cert(vec![self.certificate_der.clone()], key)
            })
            .map_err(Error::doing("cannot set up TLS"))?;
        Ok(Arc::new(config))
    }
}

/// The key pair that signs and checks ServiceAccount tokens, as PEM: private, public.
pub(crate) fn service_account_keys() -> Result<(String, String), Error> {
    let key = KeyPair::generate().map_err(Error::doing("cannot make the service account key"))?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}
