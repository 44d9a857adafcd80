//! The certificates and ticket keys of TLS listeners: those of the configuration, whose files are read again
//! when they change, that of a CA which this server orders itself, or a self-signed certificate for a first
//! try.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use acme::AcmeStore;
use config::Settings;
use config::certificates::validity_warning;
use net::{IdentifyClient, ListenerTls, TlsChallenges};
use telemetry::repeated::log_repeated;
use threads::sync::lock;
use tls::{ServerCertificate, ServerTls, TicketKeys};
use tracing::{error, info, warn};

/// Interval of the check whether files of certificates have changed.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Longest name in a certificate, in bytes.
const MAX_NAME: usize = 253;

/// The certificates of TLS listeners.
pub struct Certificates {
    /// `None` if no listener has TLS.
    tls: Option<ServerTls>,
    challenges: TlsChallenges,
    files: Mutex<WatchedFiles>,
}

/// The files of certificates and of ticket keys, with the state that they were read in.
#[derive(Default)]
struct WatchedFiles {
    pairs: Vec<(PathBuf, PathBuf)>,
    tickets: Vec<PathBuf>,
    /// The certificates in the files.
    configured: Vec<Arc<ServerCertificate>>,
    /// The certificate of a CA that this server has ordered, used after those of files.
    issued: Option<Arc<ServerCertificate>>,
    /// `None` until they are read for the first time here.
    read: Option<Vec<FileState>>,
}

/// What changes if a file is written or replaced; `None` if it cannot be examined.
pub(super) type FileState = Option<(u64, u64, i64, i64)>;

impl WatchedFiles {
    /// Returns the certificates to use.
    fn all(&self) -> Vec<Arc<ServerCertificate>> {
        self.configured.iter().chain(&self.issued).cloned().collect()
    }
}

impl Certificates {
    pub(super) fn new(settings: &Settings) -> io::Result<Self> {
        let tls = settings.has_tls().then(ServerTls::new).transpose().map_err(io::Error::other)?;
        let certificates =
            Certificates { tls, challenges: TlsChallenges::default(), files: Mutex::default() };
        certificates.adopt(settings);
        Ok(certificates)
    }

    /// Returns the settings of TLS; `None` if no listener has it.
    pub(super) fn listener_tls(&self) -> Option<ListenerTls> {
        self.tls.as_ref().map(|tls| ListenerTls {
            dot: tls.dot(),
            https: tls.https(),
            quic: tls.quic(),
            challenges: self.challenges.clone(),
            identify: Some(Arc::new(tls.identify()) as IdentifyClient),
        })
    }

    /// Returns the settings of TLS of the HTTP API; `None` if no listener has TLS.
    pub fn api_tls(&self) -> Option<Arc<tls::ServerConfig>> {
        self.tls.as_ref().map(ServerTls::api)
    }

    /// Uses the certificates that were read with the configuration.
    pub(super) fn adopt(&self, settings: &Settings) {
        let Some(tls) = &self.tls else { return };
        if let Err(fault) = tls.set_clients(settings.server.client_certificates.settings()) {
            error!("the `client-ca-file` before stays in use: {fault}");
        }
        tls.share_tickets(settings.ticket_keys());
        let mut files = lock(&self.files);
        let before = files.issued.take();
        let issued = settings.acme.as_ref().and_then(|_| before.or_else(|| stored(settings)));
        *files = WatchedFiles {
            pairs: settings.certificate_files(),
            tickets: settings.ticket_key_files(),
            configured: settings.certificates(),
            issued,
            read: None,
        };
        let all = files.all();
        if !all.is_empty() {
            return tls.set(all);
        }
        // Clients may have pinned the one before.
        if !tls.certificates().iter().any(|certificate| certificate.file.is_none()) {
            match ServerCertificate::self_signed(&own_names(settings)) {
                Ok(made) => {
                    let pin = made.pin().map(|pin| pin.to_string()).unwrap_or_default();
                    match settings.acme {
                        Some(_) => info!(pin, "a self-signed certificate is in use until the CA issues one"),
                        None => {
                            warn!(
                                pin,
                                "clients cannot verify the self-signed certificate: add [[certificate]]"
                            );
                        }
                    }
                    tls.set(vec![Arc::new(made)]);
                }
                Err(fault) => error!("{fault}"),
            }
        }
    }

    /// Returns whether a listener has TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the settings of handshakes with a CA.
    pub(crate) fn challenges(&self) -> &TlsChallenges {
        &self.challenges
    }

    /// Returns the certificate of a CA that this server has ordered, if there is one.
    pub(crate) fn issued(&self) -> Option<Arc<ServerCertificate>> {
        lock(&self.files).issued.clone()
    }

    /// Uses a certificate of a CA from now on, in place of the one before.
    pub(crate) fn issue(&self, certificate: ServerCertificate) {
        let Some(tls) = &self.tls else { return };
        let mut files = lock(&self.files);
        files.issued = Some(Arc::new(certificate));
        tls.set(files.all());
    }

    /// Reads the files again if any has changed. If one is not valid, the certificates, or the keys of
    /// session tickets, stay in use.
    fn refresh(&self) {
        let (Some(tls), mut files) = (&self.tls, lock(&self.files)) else { return };
        let of_certificates = files.pairs.iter().flat_map(|(chain, key)| [chain, key]);
        let state: Vec<FileState> = of_certificates.chain(&files.tickets).map(|path| state(path)).collect();
        if state.is_empty() || files.read.as_ref() == Some(&state) {
            return;
        }
        files.read = Some(state);
        let read = files.pairs.iter().map(|(chain, key)| ServerCertificate::read(chain, key).map(Arc::new));
        match read.collect::<Result<Vec<_>, _>>() {
            Ok(read) if read == files.configured => {}
            Ok(read) => {
                info!(certificates = read.len(), "changed certificates are in use");
                files.configured = read;
                tls.set(files.all());
            }
            Err(fault) => error!("the certificates before stay in use: {fault}"),
        }
        let read = files.tickets.iter().map(|path| TicketKeys::read(path).map(Arc::new));
        match read.collect::<Result<Vec<_>, _>>() {
            Ok(read) if read == *tls.ticket_keys() => {}
            Ok(read) => {
                info!(files = read.len(), "changed keys of session tickets are in use");
                tls.share_tickets(read);
            }
            Err(fault) => error!("the keys of session tickets before stay in use: {fault}"),
        }
    }

    /// Returns the certificates in use.
    pub fn in_use(&self) -> Vec<Arc<ServerCertificate>> {
        self.tls.as_ref().map(|tls| tls.certificates().to_vec()).unwrap_or_default()
    }

    /// Logs which certificates in use have expired, or soon will.
    fn warn_of_expiry(&self) {
        for certificate in self.in_use() {
            let file = certificate.file.as_deref().unwrap_or(Path::new("(self-signed)"));
            if let Some(text) = validity_warning(&certificate, SystemTime::now()) {
                let about = ("certificate", &*file.to_string_lossy());
                log_repeated!(warn, WARN, about, "the certificate in {} {text}", file.display());
            }
        }
    }
}

/// Watches the files of certificates, and when they expire, for as long as the server runs.
pub async fn watch(certificates: Arc<Certificates>) {
    let mut ticks = tokio::time::interval(CHECK_INTERVAL);
    loop {
        ticks.tick().await;
        let certificates = Arc::clone(&certificates);
        // Files may be on a slow disk. A panic is reported by the hook.
        let checked = tokio::task::spawn_blocking(move || {
            certificates.refresh();
            certificates.warn_of_expiry();
        });
        let _ = checked.await;
    }
}

/// Returns the certificate of a CA that is stored, if there is one.
fn stored(settings: &Settings) -> Option<Arc<ServerCertificate>> {
    let read = AcmeStore::new(&settings.server.storage.folder()?).certificate().unwrap_or_else(|fault| {
        error!("the stored certificate of the CA is not used, a new one is ordered: {fault}");
        None
    });
    read.map(Arc::new)
}

/// Returns the state of a file now.
pub(super) fn state(path: &Path) -> FileState {
    let about = std::fs::metadata(path).ok()?;
    Some((about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
}

/// Returns names for a self-signed certificate: that of the host, and the addresses of TLS listeners.
fn own_names(settings: &Settings) -> Vec<String> {
    let listens = settings.listens.iter().filter(|listen| listen.has_tls());
    let addresses = listens.flat_map(|listen| listen.addr.iter().map(|addr| addr.value.0.ip()));
    let addresses = addresses.filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_string());
    Some(config::machine::host_name(MAX_NAME)).into_iter().chain(addresses).collect()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn write(folder: &Path, name: &str) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("signed");
        std::fs::write(folder.join("chain.pem"), testkit::pem("CERTIFICATE", certificate.der()))
            .expect("written");
        std::fs::write(folder.join("key.pem"), testkit::pem("PRIVATE KEY", &key.serialize_der()))
            .expect("written");
    }

    fn settings(folder: &Path, more: &str) -> Settings {
        let text = format!("[[listen]]\naddr = [\"192.0.2.1@853\"]\nproto = [\"tls\"]\n{more}");
        let read = config::read_text("test", text, folder).expect("good");
        let mut settings = read.config.settings;
        settings.read_named_files().expect("good");
        settings
    }

    fn names(certificates: &Certificates) -> Vec<String> {
        certificates.in_use().iter().flat_map(|certificate| certificate.names.clone()).collect()
    }

    #[test]
    fn changed_files_are_read_and_bad_ones_replace_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        write(at, "one.example");
        let block = "[[certificate]]\nchain = \"chain.pem\"\nkey = \"key.pem\"\n";
        let certificates = Certificates::new(&settings(at, block)).expect("made");
        assert_eq!(names(&certificates), ["one.example"]);
        // A change between the reading of the configuration and the first check.
        write(at, "two.example");
        certificates.refresh();
        assert_eq!(names(&certificates), ["two.example"]);
        certificates.refresh();
        assert_eq!(names(&certificates), ["two.example"]);
        std::fs::write(at.join("key.pem"), "half").expect("written");
        certificates.refresh();
        assert_eq!(names(&certificates), ["two.example"]);
        std::fs::remove_file(at.join("key.pem")).expect("removed");
        certificates.refresh();
        assert_eq!(names(&certificates), ["two.example"]);
        write(at, "three.example");
        certificates.refresh();
        assert_eq!(names(&certificates), ["three.example"]);
    }

    #[test]
    fn changed_ticket_keys_are_used_and_bad_ones_replace_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tickets.key");
        let keys = |first: u8| (first..).take(80).collect::<Vec<u8>>();
        std::fs::write(&path, keys(1)).expect("written");
        let settings = settings(folder.path(), "[server]\ntls-ticket-keys = [\"tickets.key\"]\n");
        let certificates = Certificates::new(&settings).expect("made");
        let tls = certificates.tls.as_ref().expect("a listener has TLS");
        let (first, pin) = (tls.ticket_keys(), certificates.in_use()[0].pin());
        assert_eq!(first.len(), 1);
        std::fs::write(&path, keys(2)).expect("written");
        certificates.refresh();
        let second = tls.ticket_keys();
        assert!(second.len() == 1 && second != first);
        std::fs::write(&path, "half").expect("written");
        certificates.refresh();
        assert_eq!(tls.ticket_keys(), second);
        certificates.adopt(&self::settings(folder.path(), ""));
        assert!(tls.ticket_keys().is_empty(), "the keys are random again");
        assert_eq!(certificates.in_use()[0].pin(), pin, "the self-signed certificate stays");
    }

    #[test]
    fn the_certificate_of_a_ca_is_used_after_those_of_files_and_stays_when_they_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        let acme = "[server]\nstate-dir = \"state\"\n[acme]\naccept-terms = true\nnames = [\"ca.example\"]\n";
        let both = format!("[[certificate]]\nchain = \"chain.pem\"\nkey = \"key.pem\"\n{acme}");
        let certificates = Certificates::new(&settings(at, acme)).expect("made");
        assert!(certificates.issued().is_none() && certificates.in_use()[0].file.is_none(), "self-signed");
        write(at, "ca.example");
        let read = |name: &str| ServerCertificate::read(&at.join("chain.pem"), &at.join(name)).expect("good");
        certificates.issue(read("key.pem"));
        assert_eq!(names(&certificates), ["ca.example"]);
        write(at, "one.example");
        certificates.adopt(&settings(at, &both));
        assert_eq!(names(&certificates), ["one.example", "ca.example"]);
        write(at, "two.example");
        certificates.refresh();
        assert_eq!(names(&certificates), ["two.example", "ca.example"]);
        write(at, "new.example");
        certificates.issue(read("key.pem"));
        assert_eq!(names(&certificates), ["two.example", "new.example"]);
        certificates.adopt(&settings(at, acme));
        assert_eq!(names(&certificates), ["new.example"]);
        certificates.adopt(&settings(at, ""));
        assert!(certificates.issued().is_none() && certificates.in_use()[0].file.is_none(), "self-signed");
    }

    #[test]
    fn a_self_signed_certificate_stays_until_there_is_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        let certificates = Certificates::new(&settings(at, "")).expect("made");
        let pin = |certificates: &Certificates| certificates.in_use()[0].pin();
        let first = pin(&certificates);
        certificates.adopt(&settings(at, ""));
        certificates.refresh();
        assert!(first.is_some() && pin(&certificates) == first);
        write(at, "one.example");
        certificates.adopt(&settings(at, "[[certificate]]\nchain = \"chain.pem\"\nkey = \"key.pem\"\n"));
        assert_eq!(names(&certificates), ["one.example"]);
        assert!(
            Certificates::new(&Settings::default()).expect("made").listener_tls().is_none(),
            "no listener has TLS"
        );
    }
}
