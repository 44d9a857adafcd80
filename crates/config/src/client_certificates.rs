//! Keys of `[server]` about certificates of clients (mutual TLS). Reading the configuration stores the path;
//! the file is read once the rest is valid, and again at each reload.

use std::path::PathBuf;

use tls::ClientCertificates;
use tls::client::Authorities;
use toml::Spanned;
use toml::de::DeValue;

use super::report::Diagnostic;
use super::table::keys;
use super::table::read::Reader;
use super::table::value::Value;

/// A file of CA certificates, and what was read from it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuthorityFile {
    path: PathBuf,
    /// `None` until the file is read.
    read: Option<Authorities>,
}

impl Value for AuthorityFile {
    fn kind() -> String {
        "path".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        PathBuf::read(node, reader).map(|path| AuthorityFile { path, read: None })
    }
    fn render(&self) -> Option<String> {
        self.path.render()
    }
}

keys! {
    /// Keys about certificates of clients.
    pub struct ClientCertificateKeys {
        /// PEM file of the CA certificates that verify the names in certificates of clients, for `cert:NAME`
        /// in access rules. It is read at the start and at each reload.
        live "client-ca-file" ca_file: Option<AuthorityFile> = None, example "/etc/nomen/tls/clients-ca.pem";
        /// Ask clients over TLS (`proto` "tls", not "https") for a certificate. Clients without one are
        /// served like any others. Unset: yes with `client-ca-file`; rules with `cert:sha256/PIN` alone need
        /// `true`.
        live "client-certificates" asks: Option<bool> = None, example true;
    }
}

impl ClientCertificateKeys {
    /// Whether clients are asked for certificates.
    pub fn asks(&self) -> bool {
        self.asks.value.unwrap_or(self.ca_file.is_some())
    }

    /// Whether names in certificates are verified.
    pub fn verifies_names(&self) -> bool {
        self.asks() && self.ca_file.is_some()
    }

    /// Returns the settings of listeners, once the file has been read.
    pub fn settings(&self) -> ClientCertificates {
        let authorities = self.ca_file.value.as_ref().and_then(|file| file.read.clone());
        ClientCertificates { wanted: self.asks(), authorities }
    }

    /// Returns the file of CA certificates.
    pub(super) fn file(&self) -> Option<PathBuf> {
        self.ca_file.value.as_ref().map(|file| file.path.clone())
    }

    /// Reads the file.
    pub(super) fn read_file(&mut self) -> Option<Diagnostic> {
        let file = self.ca_file.value.as_mut()?;
        match tls::authorities(Some(&file.path)) {
            Ok(roots) => {
                file.read = Some(Authorities::new(roots));
                None
            }
            Err(fault) => Some(Diagnostic::at(self.ca_file.place.as_ref(), fault.to_string()).outside()),
        }
    }
}
