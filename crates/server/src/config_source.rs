//! Where the configuration comes from: a file, the command line, or the program itself. Reads it at the start
//! and at each reload.

use std::fmt;
use std::path::{Path, PathBuf};

use zone_plan::WantedZones;

use crate::builtin;
use crate::outside;
use config::report::{ConfigTexts, Diagnostic};
use config::upstreams::UpstreamServer;
use config::{AcceptedConfig, RejectedConfig, Settings};
use control::in_force::InForce;
use wording::reason;
use zone_manager::zones::added;
use zone_manager::zones::manager::{AcceptZones, ReloadFault};
use zone_manager::zones::resolve::resolve;

/// Where the configuration comes from.
#[derive(Debug, Clone)]
pub enum ConfigSource {
    /// A file.
    File(PathBuf),
    /// The built-in example.
    BuiltIn,
    /// No file: all queries are forwarded to these servers, given on the command line.
    Forward(Vec<UpstreamServer>),
    /// No file: all queries are resolved from the root servers down, as the command line says.
    Resolve,
}

impl ConfigSource {
    /// Returns whether there is no configuration file. Nothing is stored on disk then.
    pub fn is_built_in(&self) -> bool {
        !matches!(self, Self::File(_))
    }
}

impl fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::BuiltIn => f.write_str("built in"),
            Self::Forward(_) | Self::Resolve => f.write_str("command line"),
        }
    }
}

/// A checked configuration with its zones.
pub struct Prepared {
    /// Everything except the zones.
    pub settings: Settings,
    /// The zones to serve.
    pub zones: WantedZones,
    /// The files of the configuration.
    pub files: Vec<PathBuf>,
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
                match config.settings.read_named_files().and_then(|()| resolve(&config)) {
                    Ok(zones) => {
                        let files = sources.paths().map(Path::to_owned).collect();
                        Ok(Prepared { settings: config.settings, zones, files })
                    }
                    Err(faults) => Err(RejectedConfig { sources, faults }),
                }
            }
            Self::Forward(servers) => without_zones("--forward", builtin::forwarder(servers)),
            Self::Resolve => without_zones("--resolve", builtin::resolver()),
            Self::BuiltIn => {
                let zones = WantedZones { specs: builtin::zones(), ..WantedZones::default() };
                Ok(Prepared { settings: Settings::default(), zones, files: Vec::new() })
            }
        }
    }

    /// Reads the configuration again, and puts into force the keys that may change while the server runs.
    /// Returns the zones it configures.
    ///
    /// # Errors
    /// All faults found in it, or why `accept` rejects its zones. Nothing has changed then.
    pub fn renew(&self, in_force: &InForce, accept: &AcceptZones<'_>) -> Result<WantedZones, ReloadFault> {
        let rejected = |rejected: RejectedConfig| ReloadFault::Configuration(rejected.to_string().into());
        let Prepared { settings, zones, .. } = self.prepare(Some(&in_force.settings())).map_err(rejected)?;
        accept(&zones)?;
        outside::warn_of(&settings, &zones);
        in_force.adopt(settings);
        Ok(zones)
    }
}

/// The error for a configuration file that cannot be read again.
fn unreadable(path: &Path, error: &std::io::Error) -> RejectedConfig {
    let fault = Diagnostic::at(None, format!("cannot read {}: {}", path.display(), reason(error)));
    RejectedConfig { sources: ConfigTexts::default(), faults: vec![fault.outside()] }
}

/// Parses a configuration given as the text of a command-line option.
fn without_zones(option: &str, text: String) -> Result<Prepared, RejectedConfig> {
    let AcceptedConfig { mut config, sources } = config::read_text(option, text, Path::new("."))?;
    if let Err(faults) = config.settings.read_named_files() {
        return Err(RejectedConfig { sources, faults });
    }
    Ok(Prepared { settings: config.settings, zones: WantedZones::default(), files: Vec::new() })
}
