//! The certificates and ticket keys of TLS listeners: those of the configuration, whose files are read again
//! when they change, or a self-signed certificate for a first try.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use config::Settings;
use config::certificates::validity_warning;
use net::{IdentifyClient, ListenerTls};
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
    files: Mutex<WatchedFiles>,
}

/// The files of certificates and of ticket keys, with the state that they were read in.
#[derive(Default)]
struct WatchedFiles {
    pairs: Vec<(PathBuf, PathBuf)>,
    tickets: Vec<PathBuf>,
    /// `None` until they are read for the first time here.
    read: Option<Vec<FileState>>,
}

/// What changes if a file is written or replaced; `None` if it cannot be examined.
type FileState = Option<(u64, u64, i64, i64)>;

impl Certificates {
    pub(super) fn new(settings: &Settings) -> io::Result<Self> {
        let tls = settings.has_tls().then(ServerTls::new).transpose().map_err(io::Error::other)?;
        let certificates = Certificates { tls, files: Mutex::default() };
        certificates.adopt(settings);
        Ok(certificates)
    }

    /// Returns the settings of TLS; `None` if no listener has it.
    pub(super) fn listener_tls(&self) -> Option<ListenerTls> {
        self.tls.as_ref().map(|tls| ListenerTls {
            dot: tls.dot(),
            https: tls.https(),
            quic: tls.quic(),
            identify: Some(Arc::new(tls.identify()) as IdentifyClient),
        })
    }

    /// Uses the certificates that were read with the configuration.
    pub(super) fn adopt(&self, settings: &Settings) {
        let Some(tls) = &self.tls else { return };
        if let Err(fault) = tls.set_clients(settings.server.client_certificates.settings()) {
            error!("the `client-ca-file` before stays in use: {fault}");
        }
        *lock(&self.files) = WatchedFiles {
            pairs: settings.certificate_files(),
            tickets: settings.ticket_key_files(),
            read: None,
        };
        tls.share_tickets(settings.ticket_keys());
        let configured = settings.certificates();
        if !configured.is_empty() {
            return tls.set(configured);
        }
        // Clients may have pinned the one before.
        if !tls.certificates().iter().any(|certificate| certificate.file.is_none()) {
            match ServerCertificate::self_signed(&own_names(settings)) {
                Ok(made) => {
                    let pin = made.pin().map(|pin| pin.to_string()).unwrap_or_default();
                    warn!(pin, "clients cannot verify the self-signed certificate: add [[certificate]]");
                    tls.set(vec![Arc::new(made)]);
                }
                Err(fault) => error!("{fault}"),
            }
        }
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
            // The self-signed one is in no file.
            Ok(read) if read.is_empty() || read == *tls.certificates() => {}
            Ok(read) => {
                info!(certificates = read.len(), "changed certificates are in use");
                tls.set(read);
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

fn state(path: &Path) -> FileState {
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
