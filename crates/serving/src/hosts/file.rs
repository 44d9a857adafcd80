//! The system's file of hosts (hosts(5)): names of servers that DNS does not have.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use threads::sync::lock;

/// Most bytes of the file.
const MAX_FILE: u64 = 1 << 20;

/// The file, and what was read last: a file that was replaced cannot be read from inside the sandbox.
pub(super) struct HostsFile {
    path: PathBuf,
    last: Mutex<String>,
}

impl Default for HostsFile {
    fn default() -> Self {
        Self::new(Path::new("/etc/hosts"))
    }
}

impl HostsFile {
    pub(super) fn new(path: &Path) -> Self {
        HostsFile { path: path.to_owned(), last: Mutex::default() }
    }

    /// Returns the addresses of a host in the file, in its order.
    pub(super) fn addresses(&self, host: &str) -> Vec<IpAddr> {
        let mut last = lock(&self.last);
        if let Ok(text) = zone::regular::read_to_string(&self.path, MAX_FILE) {
            *last = text;
        }
        let host = host.trim_end_matches('.');
        let of_line = |line: &str| {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let address = words.next()?.parse().ok()?;
            words.any(|name| name.trim_end_matches('.').eq_ignore_ascii_case(host)).then_some(address)
        };
        last.lines().filter_map(of_line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_addresses_of_their_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hosts");
        let text = "127.0.0.1 localhost\n# 192.0.2.9 db\n192.0.2.1\tdb.example  DB # 192.0.2.8 other\n\
                    2001:db8::1 db\nbad db\n";
        std::fs::write(&path, text).expect("written");
        let file = HostsFile::new(&path);
        let addresses =
            |host: &str| -> Vec<String> { file.addresses(host).iter().map(ToString::to_string).collect() };
        assert_eq!(addresses("db"), ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(addresses("Db.Example."), ["192.0.2.1"]);
        assert!(addresses("other").is_empty());
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(addresses("db.example"), ["192.0.2.1"], "what was read last");
    }
}
