//! TLS to other servers of zones (RFC 9103): reads the files that authenticate both ends, each once, and
//! makes the encryption of their connections.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tls::ServerCertificate;
use tls::client::{Authorities, ClientSettings};
use transport::Encryption;

use super::peers::{Peer, PeerKeys};
use super::report::Diagnostic;
use super::table::read::At;

/// The files that the keys of a zone and of its template name for TLS.
#[derive(Debug, Clone, Copy)]
pub struct PeerFiles<'k> {
    ca_file: &'k At<Option<PathBuf>>,
    chain: &'k At<Option<PathBuf>>,
    key: &'k At<Option<PathBuf>>,
}

impl<'k> PeerFiles<'k> {
    /// Returns the files of a zone with these keys and this template.
    pub fn of(own: &'k PeerKeys, template: &'k PeerKeys) -> Self {
        let has_own = own.client_chain.is_some() || own.client_key.is_some();
        let pair = if has_own { own } else { template };
        let ca_file = if own.ca_file.is_some() { &own.ca_file } else { &template.ca_file };
        PeerFiles { ca_file, chain: &pair.client_chain, key: &pair.client_key }
    }
}

/// The encryptions of the servers of zones. Servers that are authenticated in the same way share one.
#[derive(Debug, Default)]
pub struct PeerTls {
    /// The CA certificates of each file, and of the system; `None` if they cannot be read.
    authorities: HashMap<Option<PathBuf>, Option<Authorities>>,
    /// Certificates of this server by the files of chain and key; `None` if they cannot be used.
    certificates: HashMap<(PathBuf, PathBuf), Option<Arc<ServerCertificate>>>,
    encryptions: HashSet<Encryption>,
    faults: Vec<Diagnostic>,
}

impl PeerTls {
    /// Returns the encryption of connections to a server, with certificates from these files; `None` if it is
    /// asked in the clear. After a fault of a file the encryption accepts no server.
    pub fn encryption(&mut self, peer: &At<Peer>, files: PeerFiles<'_>) -> Option<Encryption> {
        let mut server = peer.value.server.clone();
        if !server.is_encrypted() {
            return None;
        }
        if server.is_named() {
            let place =
                if files.ca_file.is_some() { files.ca_file.place.as_ref() } else { peer.place.as_ref() };
            let (file, faults) = (files.ca_file.value.as_ref(), &mut self.faults);
            let read = || {
                let roots = tls::authorities(file.map(PathBuf::as_path));
                let fault = |fault: tls::AuthoritiesFault| {
                    faults.push(Diagnostic::at(place, fault.to_string()).outside());
                };
                roots.map_err(fault).ok().map(Authorities::new)
            };
            let authorities = self.authorities.entry(file.cloned()).or_insert_with(read);
            authorities.iter().for_each(|authorities| server.set_authorities(authorities));
        }
        let settings = ClientSettings {
            newest_only: true,
            certificate: self.certificate(files),
            ..ClientSettings::default()
        };
        let made = server.encryption(&settings)?;
        Some(match self.encryptions.get(&made) {
            Some(shared) => shared.clone(),
            None => {
                self.encryptions.insert(made.clone());
                made
            }
        })
    }

    /// Returns this server's certificate for servers that ask for one.
    fn certificate(&mut self, files: PeerFiles<'_>) -> Option<Arc<ServerCertificate>> {
        let (chain, key) = (files.chain.value.as_deref()?, files.key.value.as_deref()?);
        let faults = &mut self.faults;
        let read = || {
            let fault = |fault: tls::CertificateFault| {
                let place = if fault.is_of_key() { &files.key.place } else { &files.chain.place };
                faults.push(Diagnostic::at(place.as_ref(), fault.to_string()).outside());
            };
            ServerCertificate::read(chain, key).map_err(fault).ok().map(Arc::new)
        };
        let pair = |path: &Path| path.to_owned();
        self.certificates.entry((pair(chain), pair(key))).or_insert_with(read).clone()
    }

    /// Returns the faults of the files read so far, once.
    pub fn take_faults(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.faults)
    }
}
