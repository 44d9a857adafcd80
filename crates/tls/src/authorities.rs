//! CA certificates that authenticate other servers: those of a file, or of the system.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{ClientConfig, RootCertStore};
use wording::reason;

/// Why there are no CA certificates.
#[derive(Debug)]
pub enum AuthoritiesFault {
    /// The file cannot be read.
    File(PathBuf, pem::Error),
    /// The file has none; without a file: the system has none.
    None(Option<PathBuf>),
}

impl fmt::Display for AuthoritiesFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, pem::Error::Io(error)) => {
                write!(f, "CA certificates cannot be read: {}: {}", path.display(), reason(error))
            }
            Self::File(path, error) => {
                write!(f, "CA certificates cannot be read: {}: {error}", path.display())
            }
            Self::None(Some(path)) => write!(f, "no CA certificate in {}", path.display()),
            Self::None(None) => f.write_str(
                "the system has no CA certificates: install its package ca-certificates, or set `ca-file`",
            ),
        }
    }
}
impl std::error::Error for AuthoritiesFault {}

/// Returns the CA certificates of a PEM file, or of the system without one.
///
/// # Errors
/// The file cannot be read, or there is no certificate.
pub fn authorities(file: Option<&Path>) -> Result<RootCertStore, AuthoritiesFault> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(path) => {
            let fault = |error| AuthoritiesFault::File(path.to_owned(), error);
            let certificates = CertificateDer::pem_file_iter(path).map_err(fault)?;
            roots.add_parsable_certificates(certificates.collect::<Result<Vec<_>, _>>().map_err(fault)?);
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err(AuthoritiesFault::None(file.map(Path::to_owned)));
    }
    Ok(roots)
}

/// Returns the settings of a client that verifies servers with the CA certificates of a PEM file, or of the
/// system without one, and presents no certificate.
///
/// # Errors
/// As for [`authorities`], as text.
pub fn verifying_client(file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let roots = authorities(file).map_err(|fault| fault.to_string())?;
    let builder =
        ClientConfig::builder_with_provider(crate::provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|fault| fault.to_string())?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}
