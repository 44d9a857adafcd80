//! The zones of a configuration: reads keys and certificates and lists the folders for [`zone_plan::plan`].
//!
//! A fault of one file in a folder affects the zone of its name, and no other.

use std::fs;
use std::path::Path;

use tracing::warn;
use wire::ZoneName;
use zone_plan::{FolderFile, WantedZones, ZoneOfFile};

use config::Configuration;
use config::interfaces::Interfaces;
use config::peer_tls::PeerTls;
use config::report::Diagnostic;
use config::transfers::load_keys;
use wording::reason;

/// Returns the zones of a configuration: those that it names, and those of its templates' folders. If a zone
/// is in both, the named one applies.
///
/// # Errors
/// Folders and files of keys and certificates that cannot be read, and missing keys.
pub fn resolve(config: &Configuration) -> Result<WantedZones, Vec<Diagnostic>> {
    let mut faults = Vec::new();
    let keys = load_keys(&config.settings.tsig_keys, &config.settings.transfers, &mut faults);
    let mut wanted = zone_plan::plan(config, keys, &mut PeerTls::default(), faults, &list_folder)?;
    if !config.settings.views.is_empty() {
        let interfaces = Interfaces::of_this_machine().unwrap_or_else(|e| {
            warn!("no view has clients by `interface` or \"attached\": the system does not list them: {e}");
            Interfaces::default()
        });
        let named = config.settings.views.iter().flat_map(|view| view.interface.value.iter().flatten());
        for name in named.filter(|name| interfaces.addresses_of(&name.value).next().is_none()) {
            warn!("[[view]]: there is no interface {}, or it has no address", name.value);
        }
        wanted.views = config.settings.view_rules(&interfaces);
    }
    Ok(wanted)
}

/// Returns the files of a folder that are zones, ordered by name. Includes files whose metadata cannot be
/// read, such as a broken link: their loads report why they cannot be read.
fn list_folder(folder: &Path, zone_of: &ZoneOfFile<'_>) -> Result<Vec<FolderFile>, String> {
    let fault = |e: std::io::Error| format!("cannot read the folder {}: {}", folder.display(), reason(&e));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let Some(name) = entry.file_name().to_str().and_then(zone_of) else { continue };
        let (path, zone) = (entry.path().into(), name.map(|name| ZoneName::from(name.as_name())));
        // For nearly all files the folder's entry has the type, so that no further system call is needed.
        let is_zone = entry.file_type().is_ok_and(|kind| kind.is_file())
            || match fs::metadata(&path) {
                Ok(about) => about.is_file(),
                // The file may have been removed in the meantime.
                Err(_) => fs::symlink_metadata(&path).is_ok(),
            };
        if is_zone {
            found.push(FolderFile { path, zone });
        }
    }
    // Ordered by bytes: comparing paths by component would take as long as everything else here.
    found.sort_unstable_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    Ok(found)
}
