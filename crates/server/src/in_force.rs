//! The configuration in force: where it comes from, its values now, and which parts take over what a reload
//! changes.
//!
//! It is not always the one read last: some keys wait for a start.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use tracing::warn;

use crate::builtin;
use config::report::{ConfigTexts, Diagnostic};
use config::{Accepted, Adopt, PendingKey, Rejected, Settings};
use threads::sync::lock;
use wording::reason;
use zone_manager::zones::added;
use zone_manager::zones::manager::{AcceptZones, ReloadFault};
use zone_manager::zones::resolve::{WantedZones, resolve};

/// Where the configuration comes from.
#[derive(Debug, Clone)]
pub enum ConfigSource {
    /// A file.
    File(PathBuf),
    /// The example that is part of the program.
    BuiltIn,
    /// None but the servers that all questions are forwarded to, as the command line names them.
    Forward(Vec<SocketAddr>),
    /// None: all questions are resolved from the root servers down, as the command line says.
    Resolve,
}

impl ConfigSource {
    /// Whether there is no file, but what is built in: nothing is kept on disk then.
    pub fn is_built_in(&self) -> bool {
        !matches!(self, Self::File(_))
    }
}

/// A configuration made ready for use.
pub struct Prepared {
    /// Everything but the zones.
    pub settings: Settings,
    /// The zones to serve.
    pub zones: WantedZones,
}

impl ConfigSource {
    /// Reads and checks the configuration, and finds its zones. While the server runs, its settings say where
    /// the zones lie that were added: the state folder changes at the next start.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn prepare(&self, running: Option<&Settings>) -> Result<Prepared, Rejected> {
        match self {
            Self::File(path) => {
                if running.is_some() {
                    // A pipe would keep a reload waiting for ever.
                    zone::regular::open(path).map_err(|e| unreadable(path, &e))?;
                }
                let Accepted { mut config, sources } = config::read_service(path, |read| {
                    let folder = running.unwrap_or(read).server.storage.folder();
                    folder.map(|folder| folder.join(added::FILE))
                })?;
                match config.settings.read_resolver_files().and_then(|()| resolve(&config)) {
                    Ok(zones) => Ok(Prepared { settings: config.settings, zones }),
                    Err(faults) => Err(Rejected { sources, faults }),
                }
            }
            Self::Forward(servers) => without_zones("--forward", builtin::forwarder(servers)),
            Self::Resolve => without_zones("--resolve", builtin::resolver()),
            Self::BuiltIn => {
                let zones = WantedZones { specs: builtin::zones(), ..WantedZones::default() };
                Ok(Prepared { settings: Settings::default(), zones })
            }
        }
    }
}

/// The configuration's file cannot be read again.
fn unreadable(path: &Path, error: &std::io::Error) -> Rejected {
    let fault = Diagnostic::at(None, format!("cannot read {}: {}", path.display(), reason(error)));
    Rejected { sources: ConfigTexts::default(), faults: vec![fault.outside()] }
}

/// A configuration that is an option's text.
fn without_zones(option: &str, text: String) -> Result<Prepared, Rejected> {
    let Accepted { config, .. } = config::read_text(option, text, Path::new("."))?;
    Ok(Prepared { settings: config.settings, zones: WantedZones::default() })
}

/// The configuration in force.
pub struct InForce {
    /// Where it comes from.
    pub source: ConfigSource,
    /// Its values; of keys that wait for the next start, the values since the last one.
    settings: ArcSwap<Settings>,
    /// The keys that wait, as of the last configuration that was read.
    pending: Mutex<Vec<PendingKey>>,
    parts: Vec<Arc<dyn Adopt>>,
}

impl InForce {
    /// These settings, which `parts` were made with.
    pub fn new(source: ConfigSource, settings: Settings, parts: Vec<Arc<dyn Adopt>>) -> Self {
        InForce { source, settings: ArcSwap::from_pointee(settings), pending: Mutex::default(), parts }
    }

    /// What is in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// The keys that wait for the next start.
    pub fn pending(&self) -> Vec<PendingKey> {
        lock(&self.pending).clone()
    }

    /// Reads the configuration anew, has every part take over what can change while the server runs, and
    /// reports what cannot. Returns the zones it asks for.
    ///
    /// # Errors
    /// Everything that is wrong with it, or why `accept` does not accept its zones. Nothing has changed.
    pub fn renew(&self, accept: &AcceptZones<'_>) -> Result<WantedZones, ReloadFault> {
        let prepared = self.source.prepare(Some(&self.settings.load()));
        let rejected = |rejected: Rejected| ReloadFault::Configuration(rejected.to_string().into());
        let Prepared { settings: new, zones } = prepared.map_err(rejected)?;
        accept(&zones)?;
        let mut settings = Settings::clone(&self.settings.load());
        let pending = settings.adopt(new);
        for key in &pending {
            warn!("{key}");
        }
        self.parts.iter().for_each(|part| part.adopt(&settings));
        self.settings.store(Arc::new(settings));
        *lock(&self.pending) = pending;
        Ok(zones)
    }
}
