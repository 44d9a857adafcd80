//! The configuration in force: its source, its current values, and the parts that a reload updates.
//!
//! It may differ from the configuration read last: some keys take effect only at a start.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use tracing::warn;

use crate::builtin;
use config::report::{ConfigTexts, Diagnostic};
use config::{AcceptedConfig, Adopt, PendingKey, RejectedConfig, Settings};
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
    /// The built-in example.
    BuiltIn,
    /// No file: all queries are forwarded to these servers, given on the command line.
    Forward(Vec<SocketAddr>),
    /// No file: all queries are resolved from the root servers down, as the command line says.
    Resolve,
}

impl ConfigSource {
    /// Returns whether there is no configuration file. Nothing is stored on disk then.
    pub fn is_built_in(&self) -> bool {
        !matches!(self, Self::File(_))
    }
}

/// A checked configuration with its zones.
pub struct Prepared {
    /// Everything except the zones.
    pub settings: Settings,
    /// The zones to serve.
    pub zones: WantedZones,
}

impl ConfigSource {
    /// Reads and checks the configuration, and finds its zones. While the server runs, the list of added
    /// zones is read from the state folder of `running`, because the state folder changes only at a start.
    ///
    /// # Errors
    /// All faults found in it.
    pub fn prepare(&self, running: Option<&Settings>) -> Result<Prepared, RejectedConfig> {
        match self {
            Self::File(path) => {
                if running.is_some() {
                    // A reload would block forever on a pipe.
                    zone::regular::open(path).map_err(|e| unreadable(path, &e))?;
                }
                let AcceptedConfig { mut config, sources } = config::read_service(path, |read| {
                    let folder = running.unwrap_or(read).server.storage.folder();
                    folder.map(|folder| folder.join(added::FILE))
                })?;
                match config.settings.read_resolver_files().and_then(|()| resolve(&config)) {
                    Ok(zones) => Ok(Prepared { settings: config.settings, zones }),
                    Err(faults) => Err(RejectedConfig { sources, faults }),
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

/// The error for a configuration file that cannot be read again.
fn unreadable(path: &Path, error: &std::io::Error) -> RejectedConfig {
    let fault = Diagnostic::at(None, format!("cannot read {}: {}", path.display(), reason(error)));
    RejectedConfig { sources: ConfigTexts::default(), faults: vec![fault.outside()] }
}

/// Parses a configuration given as the text of a command-line option.
fn without_zones(option: &str, text: String) -> Result<Prepared, RejectedConfig> {
    let AcceptedConfig { config, .. } = config::read_text(option, text, Path::new("."))?;
    Ok(Prepared { settings: config.settings, zones: WantedZones::default() })
}

/// The configuration in force.
pub struct InForce {
    /// Its source.
    pub source: ConfigSource,
    /// Its values; keys that wait for the next start have their values since the last start.
    settings: ArcSwap<Settings>,
    /// The keys that wait for the next start, from the last configuration that was read.
    pending: Mutex<Vec<PendingKey>>,
    parts: Vec<Arc<dyn Adopt>>,
}

impl InForce {
    /// Returns the configuration in force, with the parts that were made with `settings`.
    pub fn new(source: ConfigSource, settings: Settings, parts: Vec<Arc<dyn Adopt>>) -> Self {
        InForce { source, settings: ArcSwap::from_pointee(settings), pending: Mutex::default(), parts }
    }

    /// Returns the settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Returns the keys that wait for the next start.
    pub fn pending(&self) -> Vec<PendingKey> {
        lock(&self.pending).clone()
    }

    /// Reads the configuration again, updates every part with the keys that may change while the server runs,
    /// and reports the keys that may not. Returns the zones it configures.
    ///
    /// # Errors
    /// All faults found in it, or why `accept` rejects its zones. Nothing has changed then.
    pub fn renew(&self, accept: &AcceptZones<'_>) -> Result<WantedZones, ReloadFault> {
        let prepared = self.source.prepare(Some(&self.settings.load()));
        let rejected = |rejected: RejectedConfig| ReloadFault::Configuration(rejected.to_string().into());
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
