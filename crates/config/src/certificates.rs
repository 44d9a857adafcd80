//! `[[certificate]]`: the certificates of TLS listeners. Reading the configuration stores the paths; the
//! files are read once the rest is valid, and again at each reload.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tls::ServerCertificate;
use toml::Spanned;
use toml::de::DeValue;

use super::report::Diagnostic;
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::Value;

/// Time before the end of a certificate from which on its expiry is warned of.
const SOON: Duration = Duration::from_secs(7 * 24 * 3600);

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
    /// A certificate of listeners with TLS (`proto` "tls" or "https"), in any number of blocks. A client gets
    /// the first one for the server name that it sends, or else the first of all. The files are read again
    /// at each reload, and when they have changed; if they are not valid then, the certificates before stay
    /// in use. Without a block, nomen makes a self-signed certificate at each start, which clients cannot
    /// verify. [ENCRYPTED-DNS.md](ENCRYPTED-DNS.md) explains it.
    pub struct CertificateBlock in "[[certificate]]" {
        /// PEM file of the certificate, followed by the certificates that issued it, such as `fullchain.pem`.
        live "chain" chain: ChainFile, example "/etc/nomen/tls/fullchain.pem";
        /// PEM file of its private key, without a passphrase. nomen reads it again with the rights of `user`.
        live "key" key: PathBuf, example "/etc/nomen/tls/privkey.pem";
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
        let hint = "`proto = [\"tls\"]` or `[\"https\"]` in [[listen]] opens one";
        warnings.push(Diagnostic::at(first.place.as_ref(), text).hint(hint));
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
