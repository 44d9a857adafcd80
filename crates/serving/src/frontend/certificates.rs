//! The certificates of TLS listeners: those of the configuration, whose files are read again when they
//! change, or a self-signed one for a first try.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use config::Settings;
use config::certificates::validity_warning;
use telemetry::repeated::log_repeated;
use threads::sync::lock;
use tls::{ServerCertificate, ServerConfig, ServerTls};
use tracing::{error, info, warn};
use transport::Transport;

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

/// The files of the certificates, with the state that they were read in.
#[derive(Default)]
struct WatchedFiles {
    pairs: Vec<(PathBuf, PathBuf)>,
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

    /// Returns the settings of DNS over TLS; `None` if no listener has it.
    pub(super) fn dot(&self) -> Option<Arc<ServerConfig>> {
        self.tls.as_ref().map(ServerTls::dot)
    }

    /// Uses the certificates that were read with the configuration.
    pub(super) fn adopt(&self, settings: &Settings) {
        let Some(tls) = &self.tls else { return };
        *lock(&self.files) = WatchedFiles { pairs: settings.certificate_files(), read: None };
        let configured = settings.certificates();
        if !configured.is_empty() {
            return tls.set(configured);
        }
        // Clients may have pinned the one before.
        if !tls.certificates().iter().any(|certificate| certificate.file.is_none()) {
            match ServerCertificate::self_signed(&own_names(settings)) {
                Ok(made) => {
                    let pin = made.pin().map(|pin| wording::base64(&pin)).unwrap_or_default();
                    warn!(pin, "clients cannot verify the self-signed certificate: add [[certificate]]");
                    tls.set(vec![Arc::new(made)]);
                }
                Err(fault) => error!("{fault}"),
            }
        }
    }

    /// Reads the files again if any has changed. If one is not valid, the certificates stay in use.
    fn refresh(&self) {
        let (Some(tls), mut files) = (&self.tls, lock(&self.files)) else { return };
        let state: Vec<FileState> =
            files.pairs.iter().flat_map(|(chain, key)| [chain, key]).map(|path| state(path)).collect();
        if files.pairs.is_empty() || files.read.as_ref() == Some(&state) {
            return;
        }
        files.read = Some(state);
        let read = files.pairs.iter().map(|(chain, key)| ServerCertificate::read(chain, key).map(Arc::new));
        match read.collect::<Result<Vec<_>, _>>() {
            Ok(read) if read == *tls.certificates() => {}
            Ok(read) => {
                info!(certificates = read.len(), "changed certificates are in use");
                tls.set(read);
            }
            Err(fault) => error!("the certificates before stay in use: {fault}"),
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
    let has_tls = |listen: &&config::table::read::At<config::listen::Listen>| {
        listen.proto.iter().any(|proto| proto.value == Transport::Tls)
    };
    let listens = settings.listens.iter().filter(has_tls);
    let addresses = listens.flat_map(|listen| listen.addr.iter().map(|addr| addr.value.0.ip()));
    let addresses = addresses.filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_string());
    Some(config::machine::host_name(MAX_NAME)).into_iter().chain(addresses).collect()
}
