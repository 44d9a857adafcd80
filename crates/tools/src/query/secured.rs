//! Queries over TLS (RFC 7858): how the server is authenticated.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tls::ServerCertificate;
use tls::client::{Authorities, ClientSettings, HostName, KeyPin, ServerIdentity};
use transport::{Encryption, EncryptionFault};

/// How the server of a query is authenticated. By default it is not (RFC 8310 §5).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TlsWanted {
    /// Verify the certificate, for `name`.
    pub by_name: bool,
    /// The name of the server; `None`: its address.
    pub name: Option<HostName>,
    /// File of CA certificates; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
    /// Keys of which the server must have one.
    pub pins: Vec<KeyPin>,
    /// File of the certificate for a server that asks for one, with those that issued it.
    pub certificate: Option<PathBuf>,
    /// File of its private key.
    pub key: Option<PathBuf>,
}

impl TlsWanted {
    /// Returns how this server is authenticated.
    pub(super) fn identity(&self, server: SocketAddr) -> Result<ServerIdentity, String> {
        let name = match (self.by_name, &self.name) {
            (false, _) => None,
            (true, Some(name)) => Some(name.clone()),
            (true, None) => server.ip().to_string().parse().ok(),
        };
        let name = match name {
            None => None,
            Some(name) => {
                let roots = tls::authorities(self.ca_file.as_deref()).map_err(|fault| fault.to_string())?;
                Some((name, Authorities::new(roots)))
            }
        };
        Ok(match name.is_none() && self.pins.is_empty() {
            true => ServerIdentity::Opportunistic,
            false => ServerIdentity::Authenticated { name, pins: self.pins.clone() },
        })
    }

    /// Returns the encryption of connections to this server.
    ///
    /// # Errors
    /// Certificates and keys that cannot be read.
    pub fn encryption(&self, server: SocketAddr) -> Result<Encryption, String> {
        let certificate = match (&self.certificate, &self.key) {
            (Some(chain), Some(key)) => {
                let read = ServerCertificate::read(chain, key).map_err(|fault| fault.to_string())?;
                Some(Arc::new(read))
            }
            (None, None) => None,
            (Some(_), None) => return Err("+tls-certfile needs +tls-keyfile beside it".into()),
            (None, Some(_)) => return Err("+tls-keyfile needs +tls-certfile beside it".into()),
        };
        let settings = ClientSettings { certificate, ..ClientSettings::default() };
        tls::client::encryption(&self.identity(server)?, &settings).map_err(|fault| fault.to_string())
    }
}

/// Returns a fault in words that do not name TLS, which the message around them does.
pub fn said(fault: EncryptionFault) -> &'static str {
    fault.text().trim_start_matches("TLS: ")
}
