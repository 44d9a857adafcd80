//! `[odoh]`: the keys of Oblivious DoH at HTTP listeners. Reading the configuration stores the paths; the
//! files are read once the rest is valid, and again at each reload.

use std::path::PathBuf;
use std::time::Duration;

use tls::{ObliviousSeed, ObliviousSeeds};
use toml::Spanned;
use toml::de::DeValue;
use transport::Transport;

use super::listen::Listen;
use super::report::Diagnostic;
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Int, Time, Value};

keys! {
    /// Oblivious DNS over HTTPS (RFC 9230) at the listeners with `proto` "https", "h3" or "http": clients
    /// encrypt queries to a key of this server and send them through a proxy, so that the proxy does not see
    /// the queries, and this server does not see the addresses of the clients. The section's presence turns
    /// it on. [ENCRYPTED-DNS.md](ENCRYPTED-DNS.md#oblivious-doh) explains it.
    pub struct OdohSection in "[odoh]" {
        /// Age at which a new key replaces the one that clients get. The keys are in the file `odoh-keys` of
        /// `state-dir`; without that folder, each start makes new ones. No effect with `key-files`.
        live "rotate" rotate: Time<60_000, 31_536_000_000> = Time::secs(86_400), example "12h";
        /// Time for which queries to the key before are still answered after it was replaced, and for which
        /// clients may keep a key before they ask for it again. Not longer than `rotate`.
        live "overlap" overlap: Time<0, 31_536_000_000> = Time::secs(3600), example "30m";
        /// Files of keys, for servers that share clients. Each key has 32 random bytes, as `openssl rand -out
        /// FILE 32` makes them, and a file can have several. Clients get the public key of the first one;
        /// queries to all are answered. The files are read again at each reload, and when they have changed.
        /// With a key, recorded queries to it can be decrypted by those who have removed the encryption
        /// of HTTPS: replace it daily. Unset: random keys that nomen makes and replaces.
        live "key-files" files: Option<Vec<At<ObliviousKeyFile>>> = None,
            example ["/run/nomen/odoh/new.key", "/run/nomen/odoh/old.key"];
        /// Most messages of a client in a second that cannot be decrypted, each of which takes as long as a
        /// query; a client is an IPv4 address or an IPv6 /64, and for queries through a proxy the proxy.
        /// Beyond it none of its messages is decrypted, and all get the HTTP status 429. Messages for an
        /// unknown key do not count. 0: no limit.
        live "malformed-per-second" malformed: Int<u32, 0, 1_000_000> = Int(1000), example 100;
    }
}

/// A file of keys of Oblivious DoH, and what was read from it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ObliviousKeyFile {
    path: PathBuf,
    /// `None` until the file is read.
    read: Option<ObliviousSeeds>,
}

impl Value for ObliviousKeyFile {
    fn kind() -> String {
        "path".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        PathBuf::read(node, reader).map(|path| ObliviousKeyFile { path, read: None })
    }
    fn render(&self) -> Option<String> {
        self.path.render()
    }
}

/// What the section asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObliviousPlan {
    /// Age at which a key is replaced.
    pub rotate: Duration,
    /// Time for which the key before is kept.
    pub overlap: Duration,
    /// Most messages of a client in a second that cannot be decrypted; 0: any number.
    pub malformed: u32,
    /// The keys of files, with the files; `None`: random ones.
    pub shared: Option<(Vec<PathBuf>, Vec<ObliviousSeed>)>,
}

impl OdohSection {
    /// Returns what the section asks for.
    pub fn plan(&self) -> ObliviousPlan {
        let files = self.files.value.as_ref();
        let shared = files.filter(|files| !files.is_empty()).map(|files| {
            let seeds = files.iter().filter_map(|file| file.value.read.as_ref());
            (self.paths().collect(), seeds.flat_map(|read| read.seeds.clone()).collect())
        });
        ObliviousPlan { rotate: self.rotate.0, overlap: self.overlap.0, malformed: self.malformed.0, shared }
    }

    /// Reports keys that contradict each other.
    pub(super) fn check(&self, faults: &mut Vec<Diagnostic>) {
        if self.overlap.0 > self.rotate.0 {
            let place = self.overlap.place.as_ref().or(self.rotate.place.as_ref());
            let fault = Diagnostic::at(place, "`overlap` is longer than `rotate`");
            faults.push(fault.hint("a key is kept until the next one replaces its successor at most"));
        }
    }

    /// Reads the files. Returns the faults in them.
    pub(super) fn read_files(&mut self) -> Vec<Diagnostic> {
        let mut faults = Vec::new();
        for file in self.files.value.iter_mut().flatten() {
            match ObliviousSeeds::read(&file.value.path) {
                Ok(read) => file.value.read = Some(read),
                Err(fault) => faults.push(Diagnostic::at(file.place.as_ref(), fault.to_string()).outside()),
            }
        }
        faults
    }

    /// Returns the files.
    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.files.value.iter().flatten().map(|file| file.value.path.clone())
    }

    /// Returns warnings about the section.
    pub(super) fn warnings(section: &At<Self>, listens: &[At<Listen>]) -> Vec<Diagnostic> {
        let mut warnings = Vec::new();
        let has_http = |transport| matches!(transport, Transport::Https | Transport::H3 | Transport::Http);
        if !listens.iter().any(|listen| listen.proto.iter().any(|proto| has_http(proto.value))) {
            let warning = Diagnostic::at(section.place.as_ref(), "no listener serves Oblivious DoH");
            warnings.push(warning.hint("`proto = [\"https\"]` in [[listen]] opens one"));
        }
        for file in section.value.files.value.iter().flatten() {
            if file.value.read.as_ref().is_some_and(|read| read.is_public) {
                let path = file.value.path.display();
                let text = format!("every user may read the keys of Oblivious DoH in {path}");
                let warning = Diagnostic::at(file.place.as_ref(), text);
                warnings.push(warning.hint("run `chmod o-r` on it, and replace the keys"));
            }
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use crate::{Settings, read_text};

    fn settings(text: &str, folder: &std::path::Path) -> Result<Settings, String> {
        let read = read_text("test", text.to_owned(), folder).map_err(|rejected| rejected.to_string())?;
        let mut settings = read.config.settings;
        settings.read_named_files().map_err(|faults| faults[0].message.clone())?;
        Ok(settings)
    }

    const HTTPS: &str = "[[listen]]\naddr = [\"192.0.2.1@443\"]\nproto = [\"https\"]\n";

    #[test]
    fn keys_are_read_from_files_in_their_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        let text = format!("{HTTPS}[odoh]\nkey-files = [\"new\", \"old\"]\n");
        let fault = settings(&text, at).expect_err("no file");
        assert!(fault.contains("cannot read") && fault.contains("new"), "{fault}");
        for (name, first) in [("new", 1), ("old", 2)] {
            std::fs::write(at.join(name), (first..first + 32).collect::<Vec<u8>>()).expect("written");
        }
        let section = settings(&text, at).expect("good").odoh.expect("a section");
        let (files, seeds) = section.plan().shared.expect("files");
        assert_eq!(files, [at.join("new"), at.join("old")]);
        assert_eq!(seeds.iter().map(|seed| seed.secret_bytes()[0]).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn the_overlap_is_within_the_age_and_a_listener_is_needed() {
        let at = std::path::Path::new("/");
        let fault = settings(&format!("{HTTPS}[odoh]\nrotate = \"1h\"\noverlap = \"2h\"\n"), at);
        let fault = fault.expect_err("too long");
        assert!(fault.contains("`overlap` is longer than `rotate`") && fault.contains(":6:"), "{fault}");
        let texts = |text: &str| -> Vec<String> {
            let warnings =
                settings(text, at).expect("good").encryption_warnings(std::time::SystemTime::now());
            warnings.into_iter().map(|warning| warning.message).collect()
        };
        assert_eq!(texts("[odoh]\n"), ["no listener serves Oblivious DoH"]);
        assert!(texts(&format!("{HTTPS}[odoh]\n")).is_empty());
    }
}
