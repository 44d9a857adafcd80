//! Where the configuration comes from: a file, the command line, or the program itself. Reads it at the start
//! and at each reload.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zone_plan::WantedZones;

use crate::builtin;
use crate::outside;
use config::report::{ConfigTexts, Diagnostic};
use config::sections::merge::join_tokens;
use config::sections::{KeptSections, SectionState};
use config::upstreams::UpstreamServer;
use config::{AcceptedConfig, RejectedConfig, Settings};
use control::in_force::InForce;
use control::tokens::TokenTable;
use wording::reason;
use zone_manager::database::sections::NodeSections;
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
    /// Sections of the database in it, each with its use.
    pub sections: Vec<SectionState>,
}

impl ConfigSource {
    /// Reads and checks the configuration, and finds its zones. While the server runs, the list of added
    /// zones is read from the state folder of `running`, because the state folder changes only at a start,
    /// and `sections` are those of the database.
    ///
    /// # Errors
    /// All faults found in it.
    pub fn prepare(
        &self,
        running: Option<&Settings>,
        sections: Option<&KeptSections>,
    ) -> Result<Prepared, RejectedConfig> {
        match self {
            Self::File(path) => {
                if running.is_some() {
                    // A reload would block forever on a pipe.
                    zone::regular::open(path).map_err(|e| unreadable(path, &e))?;
                }
                let of_added = |read: &Settings| {
                    let folder = running.unwrap_or(read).server.storage.folder();
                    folder.map(|folder| folder.join(added::FILE))
                };
                finished(config::read_service(path, of_added, sections)?)
            }
            Self::Forward(servers) => without_zones("--forward", builtin::forwarder(servers)),
            Self::Resolve => without_zones("--resolve", builtin::resolver()),
            Self::BuiltIn => {
                let zones = WantedZones { specs: builtin::zones(), ..WantedZones::default() };
                let (files, sections) = (Vec::new(), Vec::new());
                Ok(Prepared { settings: Settings::default(), zones, files, sections })
            }
        }
    }

    /// Reads the configuration again, and puts into force the keys that may change while the server runs.
    /// Returns the zones it configures.
    ///
    /// # Errors
    /// All faults found in it, or why `accept` rejects its zones. Nothing has changed then.
    pub fn renew(
        &self,
        in_force: &InForce,
        database: Option<&DatabaseConfig>,
        accept: &AcceptZones<'_>,
    ) -> Result<WantedZones, ReloadFault> {
        let rejected = |rejected: RejectedConfig| ReloadFault::Configuration(rejected.to_string().into());
        let kept = database.map(|database| database.sections.kept());
        let prepared = self.prepare(Some(&in_force.settings()), kept.as_deref()).map_err(rejected);
        let accepted = prepared.and_then(|prepared| accept(&prepared.zones).map(|()| prepared));
        let Prepared { settings, zones, sections, .. } = accepted.inspect_err(|fault| {
            if let (Some(database), Some(kept)) = (database, &kept) {
                database.sections.failed(kept, fault.to_string().lines().next().unwrap_or_default());
            }
        })?;
        outside::warn_of(&settings, &zones);
        in_force.adopt(settings);
        if let (Some(database), Some(kept)) = (database, &kept) {
            database.sections.applied(kept, sections);
            // They may have changed meanwhile.
            database.apply_tokens(in_force);
        }
        Ok(zones)
    }

    /// Returns the folder that relative paths start from.
    pub fn base(&self) -> PathBuf {
        match self {
            Self::File(path) => path.parent().map(Path::to_owned).unwrap_or_default(),
            Self::BuiltIn | Self::Forward(_) | Self::Resolve => PathBuf::new(),
        }
    }
}

/// The configuration that the database has, beside that of the file.
pub struct DatabaseConfig {
    /// The sections.
    pub sections: Arc<NodeSections>,
    /// The tokens in force.
    pub tokens: Arc<TokenTable>,
    /// The folder that relative paths start from.
    pub base: PathBuf,
}

impl DatabaseConfig {
    /// Puts the tokens of the database into force.
    pub fn apply_tokens(&self, in_force: &InForce) {
        self.sections.apply_tokens(|kept| {
            let mut states = Vec::new();
            in_force.adopt_tokens(&self.tokens, |own| {
                let (tokens, used) = join_tokens(own, kept, &self.base);
                states = used;
                tokens
            });
            states
        });
    }
}

/// Reads what an accepted configuration names, and finds its zones.
fn finished(mut accepted: AcceptedConfig) -> Result<Prepared, RejectedConfig> {
    loop {
        let read = accepted.config.settings.read_named_files();
        let faults = match read.and_then(|()| resolve(&accepted.config)) {
            Ok(zones) => {
                let files = accepted.sources.paths().map(Path::to_owned).collect();
                let (settings, sections) = (accepted.config.settings, accepted.sections.states());
                return Ok(Prepared { settings, zones, files, sections });
            }
            Err(faults) => faults,
        };
        if let Err(faults) = accepted.mend(faults) {
            return Err(RejectedConfig { sources: accepted.sources, faults });
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
    let AcceptedConfig { mut config, sources, .. } = config::read_text(option, text, Path::new("."))?;
    if let Err(faults) = config.settings.read_named_files() {
        return Err(RejectedConfig { sources, faults });
    }
    let (files, sections) = (Vec::new(), Vec::new());
    Ok(Prepared { settings: config.settings, zones: WantedZones::default(), files, sections })
}
