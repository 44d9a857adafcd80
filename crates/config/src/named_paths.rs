//! The files and folders that the configuration names, for the sandbox.

use std::path::PathBuf;

use super::Settings;
use super::log::LogTarget;
use super::table::read::At;
use super::zones::Templates;

/// Files and folders that the configuration names, other than zones.
#[derive(Debug, Default)]
pub struct NamedPaths {
    /// Files that are read.
    pub read_files: Vec<PathBuf>,
    /// Folders that are read.
    pub read: Vec<PathBuf>,
    /// Files that are replaced.
    pub written_files: Vec<PathBuf>,
    /// Folders in which files are made.
    pub written: Vec<PathBuf>,
    /// Files that are appended to.
    pub appended: Vec<PathBuf>,
}

impl Settings {
    /// Returns the files and folders that these settings name.
    pub fn named_paths(&self) -> NamedPaths {
        let Settings { server, resolver, forwards, stubs, transfers, lists, api_tokens, log, dnstap, .. } =
            self;
        let folders = |keys: &At<Option<Vec<At<PathBuf>>>>| -> Vec<PathBuf> {
            keys.value.iter().flatten().map(|path| path.value.clone()).collect()
        };
        let mut paths = NamedPaths {
            read: folders(&server.confinement.readable),
            written: folders(&server.confinement.writable),
            read_files: folders(&transfers.key_files),
            ..NamedPaths::default()
        };
        paths.written.extend(server.storage.folder());
        paths.written_files.extend(self.recursive().and_then(|recursive| recursive.cache_file()));
        paths.read_files.extend(resolver.iter().flat_map(|resolver| resolver.named_files()));
        let of_forwards = forwards.iter().filter_map(|rule| rule.ca_file.value.clone());
        let of_stubs = stubs.iter().filter_map(|rule| rule.ca_file.value.clone());
        paths.read_files.extend(of_forwards.chain(of_stubs));
        paths.read_files.extend(server.client_certificates.file());
        for list in lists {
            paths.read_files.extend(list.file.value.clone());
            paths.read_files.extend(list.ca_file.value.clone());
        }
        paths.read_files.extend(self.acme.iter().flat_map(|acme| acme.files()));
        paths.read_files.extend(super::api::hash_files(api_tokens));
        paths.read_files.extend(self.database.iter().flat_map(|database| database.files()));
        let certificates = self.certificate_files().into_iter().flat_map(|(chain, key)| [chain, key]);
        for path in certificates.chain(self.ticket_key_files()).chain(self.oblivious_key_files()) {
            // ACME clients replace links to files in another folder.
            paths.read_files.extend(path.canonicalize().ok());
            paths.read_files.push(path);
        }
        if let LogTarget::File(path) = &log.target.value {
            paths.appended.push(path.clone());
        }
        paths.appended.extend(log.audit_file.value.clone());
        paths.appended.extend(log.queries_file.value.clone());
        paths.appended.extend(dnstap.iter().filter_map(|dnstap| dnstap.file.value.clone()));
        paths
    }
}

/// Returns the folders in which zones of templates have their files: those that nomen only reads, and those
/// that it also writes. Zones of a template may be added while the server runs.
pub fn template_folders(templates: &Templates) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for template in templates.values() {
        let of_pattern = template.file.value.as_ref().map(|pattern| pattern.folder());
        let all = of_pattern.into_iter().chain(template.directory.value.clone());
        match template.updates.takes_any() || template.updates.takes_delegation_updates() {
            true => written.extend(all),
            false => read.extend(all),
        }
    }
    (read, written)
}
