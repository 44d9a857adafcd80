//! Which zones are served and what is known of each: from the configuration's zones, templates and folders
//! to a table of states. Reading files is in `load`, their compiled form in `images`, putting new versions into service in
//! `reload`, printing them in `dump`.

pub mod dump;
pub mod images;
pub mod load;
pub mod reload;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use wire::name::{Name, NameBuf};
use zone::{SourceFile, Stamp, Zone};

use crate::config::Config;
use crate::config::report::Diagnostic;
use crate::config::zones::ZoneNameFault;
use crate::words::reason;

/// The name of a zone: lower-case wire form. Shorter in memory than a [`NameBuf`].
pub type Apex = Box<[u8]>;

/// Where a zone's records come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A master file.
    File(PathBuf),
    /// Text that is part of the program.
    BuiltIn(&'static str),
}

/// One zone that is to be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneSpec {
    /// Its name.
    pub apex: Apex,
    /// Where its records are.
    pub origin: Origin,
}

impl ZoneSpec {
    /// The zone's name.
    pub fn name(&self) -> Name<'_> {
        Name::from_wire(&self.apex).unwrap_or(Name::ROOT)
    }
}

/// What distinguishes one version of a file from another without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStamp {
    path: PathBuf,
    /// None if the file could not be looked at.
    seen: Option<Stamp>,
}

impl FileStamp {
    /// Looks at a file.
    pub fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), seen: Stamp::of(path).ok() }
    }

    /// What a file was like when it was opened to be read.
    pub fn of_source(source: &SourceFile) -> Self {
        Self { path: source.path.clone(), seen: Some(source.stamp) }
    }

    /// Whether the file still looks the same. A file that cannot be looked at never does.
    pub fn is_current(&self) -> bool {
        self.seen.is_some() && Self::of(&self.path) == *self
    }
}

/// What is known of one zone.
#[derive(Debug, Clone)]
pub struct ZoneState {
    /// What was to be loaded.
    pub spec: ZoneSpec,
    /// The version served: the last good one. None: questions get SERVFAIL.
    pub zone: Option<Arc<Zone>>,
    /// The master file and all it included, as they were when last read.
    pub stamps: Vec<FileStamp>,
    /// When the version served was read.
    pub loaded: Option<SystemTime>,
    /// Why the newest version of the file is not the one served.
    pub fault: Option<Arc<str>>,
    /// Warnings about the version served.
    pub warnings: usize,
}

impl ZoneState {
    /// Whether the file has to be read again.
    pub fn is_stale(&self) -> bool {
        match self.spec.origin {
            Origin::BuiltIn(_) => self.zone.is_none(),
            Origin::File(_) => self.fault.is_some() || !self.stamps.iter().all(FileStamp::is_current),
        }
    }

    /// One word for listings.
    pub fn word(&self) -> &'static str {
        match (&self.zone, &self.fault) {
            (Some(_), None) => "ok",
            (Some(_), Some(_)) => "old",
            (None, _) => "failed",
        }
    }
}

/// Every zone by its name.
pub type ZoneTable = HashMap<Apex, Arc<ZoneState>>;

/// The zones a configuration asks for: its own, and those of its templates' folders. A zone that is named in the
/// configuration may also lie in a folder; the configuration's word counts.
pub fn resolve(config: &Config) -> Result<Vec<ZoneSpec>, Vec<Diagnostic>> {
    let mut faults = Vec::new();
    let mut specs = HashMap::new();
    for zone in &config.zones {
        let name = zone.name.value.as_name();
        let template = zone.template.value.as_ref().and_then(|t| config.templates.get(t));
        let pattern = template.and_then(|t| t.file.value.as_ref());
        let file = zone.file.value.clone().or_else(|| pattern.map(|p| p.path(name)));
        // A zone without any file was reported when the configuration was checked.
        if let Some(file) = file {
            let apex: Apex = name.as_wire().into();
            specs.insert(apex.clone(), ZoneSpec { apex, origin: Origin::File(file) });
        }
    }
    let mut from_folder: HashMap<Apex, PathBuf> = HashMap::new();
    for template in config.templates.values() {
        let Some(folder) = template.directory.value.as_deref() else { continue };
        let place = template.directory.place.as_ref();
        let found = match list_folder(folder, |file_name| template.pattern.zone_of(file_name)) {
            Ok(found) => found,
            Err(message) => {
                faults.push(Diagnostic::at(place, message));
                continue;
            }
        };
        for (path, name) in found {
            let name = match name {
                Ok(name) => name,
                Err(message) => {
                    faults.push(Diagnostic::at(place, format!("file {}: {message}", path.display())));
                    continue;
                }
            };
            let apex: Apex = name.as_name().as_wire().into();
            if let Some(other) = from_folder.get(&apex) {
                let [a, b] = [other, &path].map(|p| p.display());
                faults.push(Diagnostic::at(place, format!("two files hold zone {name}: {a} and {b}")));
                continue;
            }
            from_folder.insert(apex.clone(), path.clone());
            specs.entry(apex.clone()).or_insert(ZoneSpec { apex, origin: Origin::File(path) });
        }
    }
    if faults.is_empty() { Ok(specs.into_values().collect()) } else { Err(faults) }
}

type Found = Vec<(PathBuf, Result<NameBuf, ZoneNameFault>)>;

/// The files of a folder that are zones, in the order of their names.
fn list_folder(
    folder: &Path,
    zone_of: impl Fn(&str) -> Option<Result<NameBuf, ZoneNameFault>>,
) -> Result<Found, String> {
    let fault = |e: std::io::Error| format!("cannot read the folder {}: {}", folder.display(), reason(&e));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let Some(name) = entry.file_name().to_str().and_then(&zone_of) else { continue };
        if entry.path().is_file() {
            found.push((entry.path(), name));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}
