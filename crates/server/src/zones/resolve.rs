//! Which zones a configuration asks for: its own, and those of its templates' folders.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use wire::NameBuf;

use super::{Apex, ZoneSpec, ZoneText};
use crate::config::Configuration;
use crate::config::report::Diagnostic;
use crate::config::zones::ZoneNameFault;
use crate::words::reason;

/// The zones a configuration asks for: its own, and those of its templates' folders. A zone that is named in the
/// configuration may also lie in a folder; the configuration's word counts.
pub fn resolve(config: &Configuration) -> Result<Vec<ZoneSpec>, Vec<Diagnostic>> {
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
            specs.insert(apex.clone(), ZoneSpec { apex, text: ZoneText::File(file) });
        }
    }
    let mut from_folder: HashMap<Apex, PathBuf> = HashMap::new();
    for template in config.templates.values() {
        let Some(folder) = template.directory.value.as_deref() else { continue };
        let place = template.directory.place.as_ref();
        let found = match list_folder(folder, |file_name| template.pattern.zone_of(file_name)) {
            Ok(found) => found,
            Err(message) => {
                faults.push(Diagnostic::at(place, message).outside());
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
            specs.entry(apex.clone()).or_insert(ZoneSpec { apex, text: ZoneText::File(path) });
        }
    }
    if faults.is_empty() { Ok(specs.into_values().collect()) } else { Err(faults) }
}

type FoundZones = Vec<(PathBuf, Result<NameBuf, ZoneNameFault>)>;

/// The files of a folder that are zones, in the order of their names.
fn list_folder(
    folder: &Path,
    zone_of: impl Fn(&str) -> Option<Result<NameBuf, ZoneNameFault>>,
) -> Result<FoundZones, String> {
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
