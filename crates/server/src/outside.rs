//! What a reload names that is outside the sandbox.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use config::Settings;
use config::named_paths::NamedPaths;
use tracing::warn;
use zone_plan::WantedZones;

/// Warns of what a reload names that the sandbox does not let the server read. It was made at the start, and
/// cannot grow.
pub(crate) fn warn_of(settings: &Settings, zones: &WantedZones) {
    if sandbox::current().is_none() {
        return;
    }
    let NamedPaths { read_files, read, .. } = settings.named_paths();
    let of_zones = zones.specs.iter().filter_map(|spec| spec.text.file());
    let mut seen: BTreeSet<&Path> = BTreeSet::new();
    let folder = |path: &Path| path.parent().map(Path::to_owned).unwrap_or_default();
    let files: Vec<PathBuf> =
        read_files.iter().chain(&zones.tls_files).map(|path| folder(path)).chain(read).collect();
    let folders = zones.folders.iter().map(|folder| folder.path.as_path());
    let all = files.iter().map(PathBuf::as_path).chain(folders).chain(of_zones.filter_map(Path::parent));
    for path in all.filter(|path| !path.as_os_str().is_empty()) {
        if seen.insert(path) && sandbox::is_outside(path) {
            warn!("{} is outside the sandbox, and cannot be read before a restart", path.display());
        }
    }
}
