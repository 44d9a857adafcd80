//! A certificate of this server with its chain and its private key: read from files and checked, or made for
//! a first try.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, DnType, KeyPair, SanType};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use webpki::{EndEntityCert, KeyUsage};
use wording::reason;

use crate::files::{SecretFile, read_secret};
use crate::pin::KeyPin;
use crate::provider;

/// How long a certificate that was made for a first try is valid.
const SELF_SIGNED_VALID: Duration = Duration::from_secs(90 * 24 * 3600);

/// Why a certificate cannot be used.
#[derive(Debug)]
pub enum CertificateFault {
    /// The file cannot be read.
    Read(PathBuf, io::Error),
    /// The file is not PEM.
    Pem(PathBuf, pem::Error),
    /// The file of the chain has no certificate.
    NoCertificate(PathBuf),
    /// The file of the key has no private key that is not encrypted.
    NoKey(PathBuf),
    /// The number of a certificate in the file, from 1 on, and what is wrong with it.
    Malformed(PathBuf, usize, String),
    /// A certificate of the file was not issued by the one behind it: the number of the first of them.
    Order(PathBuf, usize),
    /// The key is of a kind that TLS has no use for.
    Key(PathBuf, String),
    /// The key is not the one of the certificate.
    Mismatch(PathBuf, PathBuf),
    /// A certificate for a first try cannot be made.
    SelfSigned(String),
}

impl fmt::Display for CertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) | Self::Pem(path, pem::Error::Io(error)) => {
                write!(f, "cannot read {}: {}", path.display(), reason(error))
            }
            Self::Pem(path, error) => write!(f, "{} is no valid PEM: {error}", path.display()),
            Self::NoCertificate(path) => {
                write!(f, "there is no certificate in {} (BEGIN CERTIFICATE)", path.display())
            }
            Self::NoKey(path) => {
                write!(
                    f,
                    "there is no private key without a passphrase in {} (BEGIN PRIVATE KEY)",
                    path.display()
                )
            }
            Self::Malformed(path, number, why) => {
                write!(f, "certificate {number} in {} is malformed: {why}", path.display())
            }
            Self::Order(path, number) => write!(
                f,
                "certificate {number} in {} was not issued by certificate {}: the server's own comes first, then \
                 the one that issued it, and so on",
                path.display(),
                number + 1
            ),
            Self::Key(path, why) => write!(f, "the key in {} cannot be used: {why}", path.display()),
            Self::Mismatch(key, chain) => {
                write!(
                    f,
                    "the key in {} is not the one of the certificate in {}",
                    key.display(),
                    chain.display()
                )
            }
            Self::SelfSigned(why) => write!(f, "no self-signed certificate: {why}"),
        }
    }
}
impl std::error::Error for CertificateFault {}

impl CertificateFault {
    /// Whether the fault is one of the key or of its file.
    pub fn is_of_key(&self) -> bool {
        matches!(self, Self::NoKey(_) | Self::Key(..) | Self::Mismatch(..))
    }
}

/// A certificate of this server.
#[derive(Debug)]
pub struct ServerCertificate {
    /// The file of its chain; `None` if it was made for a first try.
    pub file: Option<PathBuf>,
    /// The names that it is for, wildcards included; without IP addresses.
    pub names: Vec<String>,
    /// When it becomes valid.
    pub not_before: SystemTime,
    /// When it expires.
    pub not_after: SystemTime,
    /// Whether it is one of a CA, which strict clients do not accept as a server's own (RFC 5280 §4.2.1.9).
    pub is_ca: bool,
    /// Whether users other than the owner and the group of the key's file may read it.
    pub key_is_public: bool,
    pub(crate) certified: Arc<CertifiedKey>,
}

impl PartialEq for ServerCertificate {
    fn eq(&self, other: &Self) -> bool {
        self.certified.cert == other.certified.cert
    }
}

impl ServerCertificate {
    /// Reads a chain and its key from PEM files, and checks that they fit.
    ///
    /// # Errors
    /// What is wrong, with the file. A certificate that has expired is no error.
    pub fn read(chain_file: &Path, key_file: &Path) -> Result<Self, CertificateFault> {
        let chain = read_chain(chain_file)?;
        let (key, key_is_public) = read_key(key_file)?;
        let provider = provider();
        let of_key = |why: rustls::Error| CertificateFault::Key(key_file.to_owned(), why.to_string());
        let signing = provider.key_provider.load_private_key(key).map_err(of_key)?;
        let certified = CertifiedKey::new(chain, signing);
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(_) => return Err(CertificateFault::Mismatch(key_file.to_owned(), chain_file.to_owned())),
        }
        let malformed = |why| CertificateFault::Malformed(chain_file.to_owned(), 1, why);
        Self::new(Some(chain_file.to_owned()), certified, key_is_public).map_err(malformed)
    }

    /// Makes a certificate for these names that no authority has signed, with a new key, in memory.
    ///
    /// # Errors
    /// If a name is none that certificates have.
    pub fn self_signed(names: &[String]) -> Result<Self, CertificateFault> {
        let fault = |why: rcgen::Error| CertificateFault::SelfSigned(why.to_string());
        let key = KeyPair::generate().map_err(fault)?;
        let mut params = CertificateParams::new(names.to_vec()).map_err(fault)?;
        let now = SystemTime::now();
        // A clock that is a little slow must not make a new certificate invalid.
        params.not_before = (now - Duration::from_secs(24 * 3600)).into();
        params.not_after = (now + SELF_SIGNED_VALID).into();
        params.distinguished_name.push(DnType::CommonName, "nomen, self-signed");
        params.subject_alt_names.dedup_by(|a: &mut SanType, b| a == b);
        let certificate = params.self_signed(&key).map_err(fault)?;
        let chain = vec![certificate.der().clone()];
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let certified = CertifiedKey::from_der(chain, key, &provider());
        let certified = certified.map_err(|why| CertificateFault::SelfSigned(why.to_string()))?;
        Self::new(None, certified, false).map_err(CertificateFault::SelfSigned)
    }

    fn new(
        file: Option<PathBuf>,
        certified: CertifiedKey,
        key_is_public: bool,
    ) -> Result<ServerCertificate, String> {
        let parsed = EndEntityCert::try_from(&certified.cert[0]).map_err(|why| why.to_string())?;
        let (not_before, not_after) = validity(&parsed)?;
        let since = not_before.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let is_ca = fault_at(&parsed, since.as_secs()) == Some(webpki::Error::CaUsedAsEndEntity);
        let names = parsed.valid_dns_names().map(str::to_ascii_lowercase).collect();
        Ok(ServerCertificate {
            file,
            names,
            not_before,
            not_after,
            is_ca,
            key_is_public,
            certified: Arc::new(certified),
        })
    }

    /// Returns the certificate itself and those that issued it.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    /// Returns the pin of its key, for clients (RFC 7858 §4.2).
    pub fn pin(&self) -> Option<KeyPin> {
        KeyPin::of(self.certified.cert.first()?).ok()
    }

    /// Whether the certificate has this IP address, so that clients that know the server by it can verify it.
    pub fn is_for_address(&self, address: IpAddr) -> bool {
        let own = self.certified.cert.first().and_then(|own| EndEntityCert::try_from(own).ok());
        let name = ServerName::IpAddress(address.into());
        own.is_some_and(|own| own.verify_is_valid_for_subject_name(&name).is_ok())
    }

    /// Whether a server name (SNI) is one of its names.
    pub(crate) fn is_for(&self, name: &str) -> bool {
        self.names.iter().any(|own| match own.strip_prefix("*.") {
            Some(parent) => name
                .split_once('.')
                .is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(parent)),
            None => own.eq_ignore_ascii_case(name),
        })
    }
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateFault> {
    let text = read(path)?.bytes;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|error| CertificateFault::Pem(path.to_owned(), error))?;
    if chain.is_empty() {
        return Err(CertificateFault::NoCertificate(path.to_owned()));
    }
    let mut parsed = Vec::new();
    for (number, certificate) in (1..).zip(&chain) {
        let fault =
            |why: webpki::Error| CertificateFault::Malformed(path.to_owned(), number, why.to_string());
        parsed.push(EndEntityCert::try_from(certificate).map_err(fault)?);
    }
    match parsed.windows(2).position(|pair| pair[0].issuer() != pair[1].subject()) {
        Some(at) => Err(CertificateFault::Order(path.to_owned(), at + 1)),
        None => Ok(chain),
    }
}

/// Returns the key, and whether every user may read it.
fn read_key(path: &Path) -> Result<(PrivateKeyDer<'static>, bool), CertificateFault> {
    let SecretFile { bytes, is_public } = read(path)?;
    match PrivateKeyDer::from_pem_slice(&bytes) {
        Ok(key) => Ok((key, is_public)),
        Err(pem::Error::NoItemsFound) => Err(CertificateFault::NoKey(path.to_owned())),
        Err(error) => Err(CertificateFault::Pem(path.to_owned(), error)),
    }
}

fn read(path: &Path) -> Result<SecretFile, CertificateFault> {
    read_secret(path).map_err(|error| CertificateFault::Read(path.to_owned(), error))
}

/// Returns what a verifier without CA certificates finds wrong with a certificate at this time.
fn fault_at(certificate: &EndEntityCert<'_>, seconds: u64) -> Option<webpki::Error> {
    let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    certificate.verify_for_usage(&[], &[], &[], time, KeyUsage::server_auth(), None, None).err()
}

/// Returns when a certificate is valid. `webpki` names both times in the errors of a check outside of them,
/// and nowhere else.
fn validity(certificate: &EndEntityCert<'_>) -> Result<(SystemTime, SystemTime), String> {
    let at = |seconds| fault_at(certificate, seconds);
    let time = |time: UnixTime| SystemTime::UNIX_EPOCH + Duration::from_secs(time.as_secs());
    let not_before = match at(0) {
        Some(webpki::Error::CertNotValidYet { not_before, .. }) => time(not_before),
        Some(error @ webpki::Error::InvalidCertValidity) => return Err(error.to_string()),
        _ => SystemTime::UNIX_EPOCH,
    };
    match at(u64::MAX >> 1) {
        Some(webpki::Error::CertExpired { not_after, .. }) => Ok((not_before, time(not_after))),
        Some(error) => Err(error.to_string()),
        None => Err("it never expires".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rcgen::{BasicConstraints, CertifiedIssuer, IsCa};
    use testkit::pem;

    use super::*;

    /// A CA, a certificate that it issued, and the key of that, as PEM.
    struct Issued {
        authority: String,
        certificate: String,
        key: String,
    }

    fn issued(names: &[&str]) -> Issued {
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.distinguished_name.push(DnType::CommonName, "a test's CA");
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().expect("a key")).expect("a CA");
        let key = KeyPair::generate().expect("a key");
        let mut params =
            CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
                .expect("names");
        params.not_before = rcgen::date_time_ymd(2020, 1, 2);
        params.not_after = rcgen::date_time_ymd(2040, 3, 4);
        let certificate = params.signed_by(&key, &ca).expect("signed");
        Issued {
            authority: pem("CERTIFICATE", ca.der()),
            certificate: pem("CERTIFICATE", certificate.der()),
            key: pem("PRIVATE KEY", &key.serialize_der()),
        }
    }

    /// What is read from files with these contents.
    fn read(chain: &str, key: &str) -> Result<ServerCertificate, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let (chain_file, key_file) = (folder.path().join("chain.pem"), folder.path().join("key.pem"));
        std::fs::write(&chain_file, chain).expect("written");
        std::fs::write(&key_file, key).expect("written");
        let fault =
            |fault: CertificateFault| fault.to_string().replace(&format!("{}/", folder.path().display()), "");
        ServerCertificate::read(&chain_file, &key_file).map_err(fault)
    }

    #[test]
    fn names_and_times_are_those_of_the_first_certificate() {
        let Issued { authority, certificate, key } = issued(&["dns.example", "*.dns.example"]);
        let read = read(&(certificate + &authority), &key).expect("good");
        let seconds =
            |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).expect("later").as_secs();
        // 2020-01-02 and 2040-03-04, by date(1).
        assert_eq!((seconds(read.not_before), seconds(read.not_after)), (1_577_923_200, 2_214_432_000));
        assert_eq!(
            (&read.names[..], read.chain().len()),
            (&["dns.example".into(), "*.dns.example".into()][..], 2)
        );
        for (name, expected) in [
            ("dns.example", true),
            ("DNS.Example", true),
            ("a.dns.example", true),
            ("A.DNS.example", true),
            ("a.b.dns.example", false),
            ("example", false),
            ("xdns.example", false),
            (".dns.example", false),
        ] {
            assert_eq!(read.is_for(name), expected, "{name}");
        }
    }

    #[test]
    fn what_is_wrong_with_files_is_reported() {
        let (one, other) = (issued(&["a.example"]), issued(&["b.example"]));
        let broken = one.certificate.replace("MII", "MIJ");
        let locked = one.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        for (chain, key, expected) in [
            (
                one.certificate.clone(),
                other.key.clone(),
                "the key in key.pem is not the one of the certificate in chain.pem",
            ),
            (String::new(), one.key.clone(), "there is no certificate in chain.pem (BEGIN CERTIFICATE)"),
            (one.key.clone(), one.key.clone(), "there is no certificate in chain.pem (BEGIN CERTIFICATE)"),
            (
                one.certificate.clone(),
                one.certificate.clone(),
                "there is no private key without a passphrase in key.pem (BEGIN PRIVATE KEY)",
            ),
            (
                one.certificate.clone(),
                locked,
                "there is no private key without a passphrase in key.pem (BEGIN PRIVATE KEY)",
            ),
            (broken, one.key.clone(), "certificate 1 in chain.pem is malformed: "),
            (
                one.authority.clone() + &one.certificate,
                one.key.clone(),
                "certificate 1 in chain.pem was not issued by certificate 2: the server's own comes first, then \
                 the one that issued it, and so on",
            ),
            (
                "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n".to_owned(),
                one.key.clone(),
                "chain.pem is no valid PEM: base64 decode error: InvalidCharacter(33)",
            ),
            (one.certificate.clone(), pem("PRIVATE KEY", &[1, 2, 3]), "the key in key.pem cannot be used: "),
        ] {
            let fault = read(&chain, &key).expect_err(expected);
            assert!(fault.starts_with(expected), "{fault}");
        }
        let missing = ServerCertificate::read(Path::new("/no/chain.pem"), Path::new("/no/key.pem"));
        let fault = missing.expect_err("no file").to_string();
        assert_eq!(fault, "cannot read /no/chain.pem: there is no such file");
        let folder =
            ServerCertificate::read(Path::new("/"), Path::new("/")).expect_err("a folder").to_string();
        assert_eq!(folder, "cannot read /: it is no regular file of at most 1 MiB");
    }

    #[test]
    fn a_certificate_of_a_ca_is_noticed() {
        let Issued { authority, certificate, key } = issued(&["a.example"]);
        assert!(!read(&(certificate + &authority), &key).expect("good").is_ca);
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).expect("a name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let made = params.self_signed(&key).expect("signed");
        let read = read(&pem("CERTIFICATE", made.der()), &pem("PRIVATE KEY", &key.serialize_der()));
        assert!(read.expect("good").is_ca);
    }

    #[test]
    fn a_key_that_every_user_may_read_is_noticed() {
        let Issued { certificate, key, .. } = issued(&["a.example"]);
        let folder = tempfile::tempdir().expect("a folder");
        let (chain_file, key_file) = (folder.path().join("chain.pem"), folder.path().join("key.pem"));
        std::fs::write(&chain_file, certificate).expect("written");
        std::fs::write(&key_file, key).expect("written");
        for (mode, expected) in [(0o600, false), (0o640, false), (0o644, true), (0o604, true)] {
            std::fs::set_permissions(&key_file, std::fs::Permissions::from_mode(mode)).expect("changed");
            let read = ServerCertificate::read(&chain_file, &key_file).expect("good");
            assert_eq!(read.key_is_public, expected, "{mode:o}");
        }
    }

    #[test]
    fn a_self_signed_certificate_is_for_its_names_and_valid_now() {
        let made = ServerCertificate::self_signed(&["a.example".into(), "192.0.2.1".into()]).expect("made");
        let now = SystemTime::now();
        assert!(made.not_before < now && made.not_after > now + Duration::from_secs(80 * 24 * 3600));
        assert_eq!((made.names.as_slice(), made.file.as_ref()), (&["a.example".to_owned()][..], None));
        let addresses = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().expect("an address"));
        assert_eq!(addresses.map(|address| made.is_for_address(address)), [true, false]);
        let other = ServerCertificate::self_signed(&["a.example".into()]).expect("made");
        assert_ne!(made.pin(), other.pin(), "each has a key of its own");
    }
}
