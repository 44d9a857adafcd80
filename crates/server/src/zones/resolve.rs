//! Which zones a configuration asks for: its own, and those of its templates' folders.
//!
//! What is odd about one file of a folder harms the zone that its name stands for, and no other.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use wire::{Name, NameBuf};

use super::{Apex, ZoneSpec, ZoneText};
use crate::changes::{UpdateMaker, UpdateRules};
use crate::config::Configuration;
use crate::config::report::Diagnostic;
use crate::config::zones::ZoneNameFault;
use crate::secondaries::{PeerMaker, PeerRules};
use crate::transfers::{RuleMaker, TransferRules};
use crate::words::reason;

/// What a configuration asks for.
#[derive(Debug, Clone, Default)]
pub struct WantedZones {
    /// The zones, in no particular order.
    pub specs: Vec<ZoneSpec>,
    /// The folders that were searched for zones.
    pub folders: Vec<ZoneFolder>,
    /// Files in them whose names are no zone names.
    pub refused: Vec<RefusedFile>,
    /// Who may have which zone transferred.
    pub transfers: TransferRules,
    /// The other servers of each zone.
    pub peers: PeerRules,
    /// Who may change which zone.
    pub updates: UpdateRules,
}

/// A folder whose files are zones.
#[derive(Debug, Clone, PartialEq)]
pub struct ZoneFolder {
    /// The folder.
    pub path: PathBuf,
    /// The largest share of its zones, from 0 to 1, that one reload may remove.
    pub max_removed: f64,
}

/// A file in a folder of zones whose name fits the folder's pattern, but has no zone name in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedFile {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with its name.
    pub fault: ZoneNameFault,
}

impl fmt::Display for RefusedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not served: {}", self.path.display(), self.fault)
    }
}

/// Why the name of a file is probably not meant as the name of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameDoubt {
    /// It has one label only.
    SingleLabel,
    /// Its last label is a number; no top-level domain is one (RFC 3696 §2).
    Number,
}

impl fmt::Display for NameDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SingleLabel => "its name has a single label",
            Self::Number => "its name ends in a number",
        })
    }
}

impl NameDoubt {
    /// What is doubtful about a name.
    pub fn of(name: Name<'_>) -> Option<NameDoubt> {
        let last = name.labels().last()?;
        if last.iter().all(u8::is_ascii_digit) {
            return Some(Self::Number);
        }
        name.parent().is_some_and(Name::is_root).then_some(Self::SingleLabel)
    }
}

impl WantedZones {
    /// The zones of folders whose names are doubtful.
    pub fn doubtful(&self) -> impl Iterator<Item = (&ZoneSpec, NameDoubt)> {
        self.specs.iter().filter_map(|spec| {
            let doubt = NameDoubt::of(spec.name())?;
            self.folder_of(spec).map(|_| (spec, doubt))
        })
    }

    /// The folder that a zone's file lies in.
    pub fn folder_of(&self, spec: &ZoneSpec) -> Option<&ZoneFolder> {
        let folder = spec.text.file()?.parent()?;
        self.folders.iter().find(|known| known.path == folder)
    }
}

/// The zones a configuration asks for: its own, and those of its templates' folders. A zone that is named in the
/// configuration may also lie in a folder; the configuration's word counts.
///
/// # Errors
/// The folders and key files that cannot be read, and keys that are missing.
pub fn resolve(config: &Configuration) -> Result<WantedZones, Vec<Diagnostic>> {
    let mut faults = Vec::new();
    let mut specs = HashMap::new();
    let mut rules = RuleMaker::new(config, &mut faults);
    let mut peers = PeerMaker::new(rules.keys());
    let mut updates = UpdateMaker::default();
    for zone in &config.zones {
        let name = zone.name.value.as_name();
        let template = zone.template.value.as_ref().and_then(|t| config.templates.get(t));
        let pattern = template.and_then(|t| t.file.value.as_ref());
        let of_template = pattern.filter(|_| zone.peers.primaries.is_none()).map(|p| p.path(name));
        let text = match zone.file.value.clone().or(of_template) {
            Some(file) => ZoneText::File(file),
            // That it has one or the other was looked at when the configuration was checked.
            None => ZoneText::Primaries,
        };
        let apex: Apex = name.as_wire().into();
        let of_template = template.and_then(|t| t.allow_transfer.value.as_ref());
        rules.allow(&apex, zone.allow_transfer.value.as_ref().or(of_template));
        let taken = text == ZoneText::Primaries;
        peers.add(&apex, Some(&zone.peers), template.map(|t| &t.peers), taken);
        if !taken {
            updates.add(&apex, Some(&zone.updates), template.map(|t| &t.updates));
        }
        specs.insert(apex.clone(), ZoneSpec { apex, text });
    }
    let mut wanted = WantedZones::default();
    let mut from_folders: HashMap<Apex, ZoneText> = HashMap::new();
    let mut shared = Vec::new();
    for template in config.templates.values() {
        let Some(folder) = template.directory.value.as_deref() else { continue };
        wanted
            .folders
            .push(ZoneFolder { path: folder.to_owned(), max_removed: template.max_removed.value.0 });
        match list_folder(folder, |file_name| template.pattern.zone_of(file_name)) {
            Ok(found) => {
                let (transfer, notify) = (&template.allow_transfer, &template.peers.notify);
                if transfer.is_some() || notify.is_some() || template.updates.takes_any() {
                    let names = found.iter().filter_map(|(_, name)| name.as_ref().ok());
                    shared.extend(names.map(|name| (Apex::from(name.as_name().as_wire()), template)));
                }
                found.into_iter().for_each(|found| sort_in(found, &mut from_folders, &mut wanted));
            }
            Err(message) => {
                faults.push(Diagnostic::at(template.directory.place.as_ref(), message).outside());
            }
        }
    }
    shared.retain(|(apex, _)| !specs.contains_key(apex));
    for (apex, template) in &shared {
        rules.allow(apex, template.allow_transfer.value.as_ref());
        peers.add(apex, None, Some(&template.peers), false);
        updates.add(apex, None, Some(&template.updates));
    }
    wanted.transfers = rules.made();
    wanted.peers = peers.made();
    wanted.updates = updates.made();
    for (apex, text) in from_folders {
        specs.entry(apex.clone()).or_insert(ZoneSpec { apex, text });
    }
    wanted.specs = specs.into_values().collect();
    if faults.is_empty() { Ok(wanted) } else { Err(faults) }
}

/// A file that fits a pattern, and the zone that its name stands for.
type FoundZone = (PathBuf, Result<NameBuf, ZoneNameFault>);

/// Puts a file with the zone that its name stands for, or with the refused ones.
fn sort_in((path, name): FoundZone, zones: &mut HashMap<Apex, ZoneText>, wanted: &mut WantedZones) {
    let name = match name {
        Ok(name) => name,
        Err(fault) => return wanted.refused.push(RefusedFile { path, fault }),
    };
    match zones.entry(name.as_name().as_wire().into()) {
        Entry::Vacant(zone) => drop(zone.insert(ZoneText::File(path))),
        Entry::Occupied(mut zone) => {
            let others = match zone.get() {
                ZoneText::File(other) => vec![other.clone()],
                ZoneText::Disputed(others) => others.to_vec(),
                ZoneText::BuiltIn(_) | ZoneText::Primaries => Vec::new(),
            };
            // Two templates may have the same folder.
            if !others.contains(&path) {
                let all = others.into_iter().chain([path]).collect();
                zone.insert(ZoneText::Disputed(all));
            }
        }
    }
}

/// The files of a folder that are zones, in the order of their names. What cannot be looked at, such as a link that leads
/// nowhere, is among them: whoever reads it will report why it cannot be read.
fn list_folder(
    folder: &Path,
    zone_of: impl Fn(&str) -> Option<Result<NameBuf, ZoneNameFault>>,
) -> Result<Vec<FoundZone>, String> {
    let fault = |e: std::io::Error| format!("cannot read the folder {}: {}", folder.display(), reason(&e));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let Some(name) = entry.file_name().to_str().and_then(&zone_of) else { continue };
        let path = entry.path();
        // The folder itself says so of nearly all files, which then need not be looked at one by one.
        let is_zone = entry.file_type().is_ok_and(|kind| kind.is_file())
            || match fs::metadata(&path) {
                Ok(about) => about.is_file(),
                // Unless it has gone in the meantime.
                Err(_) => fs::symlink_metadata(&path).is_ok(),
            };
        if is_zone {
            found.push((path, name));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubtful_names() {
        let doubt = |text: &str| NameDoubt::of(text.parse::<NameBuf>().expect("a name").as_name());
        for (name, expected) in [
            ("com.", Some(NameDoubt::SingleLabel)),
            ("example.com.2024.", Some(NameDoubt::Number)),
            ("20240101.", Some(NameDoubt::Number)),
            ("example.com.", None),
            ("2.0.192.in-addr.arpa.", None),
            ("a.a.", None),
            (".", None),
        ] {
            assert_eq!(doubt(name), expected, "{name}");
        }
    }
}
