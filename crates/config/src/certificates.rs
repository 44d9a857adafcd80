//! `[[certificate]]`: the certificates of TLS listeners, and the keys of session tickets in `[server]`.
//! Reading the configuration stores the paths; the files are read once the rest is valid, and again at each
//! reload.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tls::{ServerCertificate, TicketKeys};
use toml::Spanned;
use toml::de::DeValue;

use super::report::Diagnostic;
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::Value;

/// Time before the end of a certificate from which on its expiry is warned of.
const SOON: Duration = Duration::from_secs(7 * 24 * 3600);
/// What to do about files that no listener uses.
const NO_TLS_HINT: &str = "`proto = [\"tls\"]` or `[\"https\"]` in [[listen]] opens one";

/// A file of a certificate and its chain, and what was read from it and from the file of its key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChainFile {
    path: PathBuf,
    /// `None` until the file is read.
    read: Option<Arc<ServerCertificate>>,
}

impl Value for ChainFile {
    fn kind() -> String {
        "path".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        PathBuf::read(node, reader).map(|path| ChainFile { path, read: None })
    }
    fn render(&self) -> Option<String> {
        self.path.render()
    }
}

keys! {
    /// A certificate of listeners with TLS (`proto` "tls", "https" or "quic"), in any number of blocks. A
    /// client gets the first one for the server name that it sends, or else the first of all. The files are
    /// read again at each reload, and when they have changed; if they are not valid then, the certificates
    /// before stay in use. Without a block, nomen makes a self-signed certificate at each start, which
    /// clients cannot verify. [CERTIFICATES.md](CERTIFICATES.md) explains it.
    pub struct CertificateBlock in "[[certificate]]" {
        /// PEM file of the certificate, followed by the certificates that issued it, such as `fullchain.pem`.
        live "chain" chain: ChainFile, example "/etc/nomen/tls/fullchain.pem";
        /// PEM file of its private key, without a passphrase. nomen reads it again with the rights of `user`.
        live "key" key: PathBuf, example "/etc/nomen/tls/privkey.pem";
    }
}

keys! {
    /// Keys about the sessions of TLS.
    pub struct Tickets {
        /// Files of the keys of session tickets, for servers that share clients: a client then resumes at one
        /// of them the session that it began at another, which costs less than a new one. Each key has 80
        /// random bytes, as those of nginx, Unbound and dnsdist, and a file can have several. The first key
        /// makes tickets; tickets of all are accepted. The files are read again at each reload, and when they
        /// have changed. With a key, recorded sessions of TLS 1.2 that used it can be decrypted: replace it
        /// daily. Unset: random keys of this process, which it replaces every six hours.
        live "tls-ticket-keys" files: Option<Vec<At<TicketFile>>> = None,
            example ["/run/nomen/tickets/new.key", "/run/nomen/tickets/old.key"];
    }
}

/// A file of keys of session tickets, and what was read from it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TicketFile {
    path: PathBuf,
    /// `None` until the file is read.
    read: Option<Arc<TicketKeys>>,
}

impl Value for TicketFile {
    fn kind() -> String {
        "path".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        PathBuf::read(node, reader).map(|path| TicketFile { path, read: None })
    }
    fn render(&self) -> Option<String> {
        self.path.render()
    }
}

impl Tickets {
    /// Reads the files. Returns the faults in them.
    pub(super) fn read_files(&mut self) -> Vec<Diagnostic> {
        let mut faults = Vec::new();
        for file in self.files.value.iter_mut().flatten() {
            match TicketKeys::read(&file.value.path) {
                Ok(read) => file.value.read = Some(Arc::new(read)),
                Err(fault) => {
                    faults.push(Diagnostic::at(file.place.as_ref(), fault.to_string()).outside());
                }
            }
        }
        faults
    }

    /// Returns the keys that were read.
    pub(super) fn keys(&self) -> Vec<Arc<TicketKeys>> {
        self.files.value.iter().flatten().filter_map(|file| file.value.read.clone()).collect()
    }

    /// Returns the files.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.files.value.iter().flatten().map(|file| file.value.path.clone()).collect()
    }

    /// Returns warnings about the files. `has_tls`: a listener has TLS.
    pub(super) fn warnings(&self, has_tls: bool) -> Vec<Diagnostic> {
        let files = self.files.value.as_deref().unwrap_or_default();
        let mut warnings = Vec::new();
        if let (Some(first), false) = (files.first(), has_tls) {
            let text = "no listener uses the keys of session tickets";
            warnings.push(Diagnostic::at(first.place.as_ref(), text).hint(NO_TLS_HINT));
        }
        for file in files {
            if file.value.read.as_ref().is_some_and(|read| read.is_public) {
                let text = format!(
                    "every user may read the keys of session tickets in {}",
                    file.value.path.display()
                );
                let hint = "run `chmod o-r` on it, and replace the keys";
                warnings.push(Diagnostic::at(file.place.as_ref(), text).hint(hint));
            }
        }
        warnings
    }
}

/// Reads the files of all certificates. Returns the faults in them.
pub(super) fn read_files(blocks: &mut [At<CertificateBlock>]) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    for block in blocks {
        let CertificateBlock { chain, key } = &mut block.value;
        match ServerCertificate::read(&chain.value.path, &key.value) {
            Ok(read) => chain.value.read = Some(Arc::new(read)),
            Err(fault) => {
                let place = if fault.is_of_key() { &key.place } else { &chain.place };
                faults.push(Diagnostic::at(place.as_ref(), fault.to_string()).outside());
            }
        }
    }
    faults
}

/// Returns the certificates that were read.
pub(super) fn of(blocks: &[At<CertificateBlock>]) -> Vec<Arc<ServerCertificate>> {
    blocks.iter().filter_map(|block| block.chain.value.read.clone()).collect()
}

/// Returns the files of certificates and keys, in pairs.
pub(super) fn files(blocks: &[At<CertificateBlock>]) -> Vec<(PathBuf, PathBuf)> {
    let files = |block: &At<CertificateBlock>| (block.chain.value.path.clone(), block.key.value.clone());
    blocks.iter().map(files).collect()
}

/// Returns warnings about certificates. `has_tls`: a listener has TLS.
pub(super) fn warnings(blocks: &[At<CertificateBlock>], has_tls: bool, now: SystemTime) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    if let (Some(first), false) = (blocks.first(), has_tls) {
        let text = "no listener uses the certificates";
        warnings.push(Diagnostic::at(first.place.as_ref(), text).hint(NO_TLS_HINT));
    }
    for block in blocks {
        let Some(certificate) = &block.chain.value.read else { continue };
        let chain = block.chain.value.path.display();
        if let Some(text) = validity_warning(certificate, now) {
            let text = format!("the certificate in {chain} {text}");
            warnings.push(Diagnostic::at(block.chain.place.as_ref(), text));
        }
        if certificate.is_ca {
            let text = format!("the certificate in {chain} is one of a CA: strict clients refuse it");
            let hint = "with `openssl req -x509`, add `-addext basicConstraints=critical,CA:FALSE`";
            warnings.push(Diagnostic::at(block.chain.place.as_ref(), text).hint(hint));
        }
        if certificate.key_is_public {
            let text = format!("every user may read the key in {}", block.key.value.display());
            let hint =
                "run `chmod o-r` on it, and replace the key if other users of this machine may have it";
            warnings.push(Diagnostic::at(block.key.place.as_ref(), text).hint(hint));
        }
    }
    warnings
}

/// Returns the warning about the validity of a certificate, if there is one.
pub fn validity_warning(certificate: &ServerCertificate, now: SystemTime) -> Option<String> {
    let ServerCertificate { not_before, not_after, .. } = *certificate;
    let moment = |time: SystemTime| wording::moment(wire::UnixTime::from(time));
    if now > not_after {
        return Some(format!("expired on {}: clients refuse it", moment(not_after)));
    }
    if now < not_before {
        return Some(format!("is not valid before {}: clients refuse it", moment(not_before)));
    }
    (not_after <= now + SOON).then(|| format!("expires on {}", moment(not_after)))
}
