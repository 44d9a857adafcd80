//! Files that keys of `[resolver]` name, in the format of zone files: root hints, and trust anchors. Reading
//! the configuration stores their paths; the files are read once the rest is valid, and again at each reload.

use std::net::IpAddr;
use std::path::PathBuf;

use resolver::StartServer;
use toml::Spanned;
use toml::de::DeValue;
use wire::{Name, NameBuf, Ttl, Type};
use zone::scan::{self, Limits, Record, Rejection, ScanConfig, Severity, Sink, TextSource};
use zone::scan::{Fault, FaultKind};

use super::ResolverSection;
use super::validating::Anchor;
use crate::report::{ConfigPlace, Diagnostic};
use crate::table::read::{At, Reader};
use crate::table::value::Value;

/// A file of records, and the data read from it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordFile<T> {
    path: PathBuf,
    /// The data; the default until the file is read.
    pub read: T,
}

/// A file of root hints.
pub type HintsFile = RecordFile<Vec<StartServer>>;
/// A file of trust anchors.
pub type AnchorFile = RecordFile<Vec<Anchor>>;

impl<T: Default> Value for RecordFile<T> {
    fn kind() -> String {
        "path".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        PathBuf::read(node, reader).map(|path| RecordFile { path, read: T::default() })
    }
    fn render(&self) -> Option<String> {
        self.path.render()
    }
    // For trust anchors; root hints are one file.
    const MAY_BE_NONE: bool = true;
}

impl ResolverSection {
    /// Reads the files that its keys name.
    ///
    /// # Errors
    /// All faults in them, with file, line and column.
    pub(crate) fn read_files(&mut self) -> Result<(), Vec<Diagnostic>> {
        let mut faults = Vec::new();
        let hints = &mut self.iterating.hints;
        if let Some(file) = &mut hints.value {
            file.fill(hints.place.as_ref(), Hints::default(), Hints::servers, &mut faults);
        }
        for At { value: file, place } in self.validating.anchor_files.value.iter_mut().flatten() {
            let sink = Anchors { path: file.path.display().to_string(), ..Anchors::default() };
            file.fill(place.as_ref(), sink, Anchors::all, &mut faults);
        }
        if faults.is_empty() {
            faults.extend(self.validating.zones_without_anchor());
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }
}

impl ResolverSection {
    /// Returns the files that its keys name.
    pub(crate) fn named_files(&self) -> impl Iterator<Item = PathBuf> {
        let hints = self.iterating.hints.value.iter().map(|file| &file.path);
        let anchors = self.validating.anchor_files.value.iter().flatten().map(|file| &file.value.path);
        hints.chain(anchors).chain(&self.root_copy.file.value).cloned()
    }
}

impl<T> RecordFile<T> {
    /// Reads the file into `sink`, and stores the result of `made`.
    fn fill<S: Sink>(
        &mut self,
        place: Option<&ConfigPlace>,
        mut sink: S,
        made: fn(S) -> Result<T, &'static str>,
        faults: &mut Vec<Diagnostic>,
    ) {
        // The default TTL for records without one; it is not used.
        let limits = Limits { include_depth: 0, generated: 0, ..Limits::default() };
        let config =
            ScanConfig { default_ttl: Some(Ttl::from_secs(3600)), limits, ..ScanConfig::new(Name::ROOT) };
        let report = scan::read(TextSource::file(&self.path), &config, &mut sink);
        if !report.is_clean() {
            let errors = report.faults.iter().filter(|fault| fault.severity == Severity::Error);
            return faults.extend(errors.map(|fault| shown(place, fault)));
        }
        match made(sink) {
            Ok(read) => self.read = read,
            Err(fault) => faults.push(Diagnostic::at(place, format!("{}: {fault}", self.path.display()))),
        }
    }
}

/// Converts a fault in such a file into a diagnostic at the key that names the file.
fn shown(place: Option<&ConfigPlace>, fault: &Fault) -> Diagnostic {
    let Fault { kind, file, line, column, message, .. } = fault;
    let at = match (line, column) {
        (0, _) => file.to_string(),
        (_, 0) => format!("{file}:{line}"),
        (..) => format!("{file}:{line}:{column}"),
    };
    let found = Diagnostic::at(place, format!("{at}: {message}"));
    if *kind == FaultKind::CannotRead { found.outside() } else { found }
}

/// Root hints: the names and addresses of the root servers.
#[derive(Default)]
struct Hints {
    servers: Vec<StartServer>,
    addresses: Vec<(NameBuf, IpAddr)>,
}

impl Sink for Hints {
    fn record(&mut self, record: &Record<'_>) -> Result<(), Rejection> {
        match record.rtype {
            Type::NS if record.owner.is_root() => {
                let name = Name::from_wire(record.rdata).map(Name::to_buf);
                let name = Some(name.map_err(|_| Rejection::error("not the name of a server"))?);
                if self.servers.iter().all(|server| server.name != name) {
                    self.servers.push(StartServer { name, addresses: Vec::new() });
                }
            }
            Type::A | Type::AAAA => {
                let v4 = || <[u8; 4]>::try_from(record.rdata).map(IpAddr::from);
                let v6 = || <[u8; 16]>::try_from(record.rdata).map(IpAddr::from);
                let address = v4().or_else(|_| v6()).map_err(|_| Rejection::error("not an address"))?;
                self.addresses.push((record.owner.to_buf(), address));
            }
            Type::NS => {
                return Err(Rejection::error("root hints may have NS records of the root only"));
            }
            rtype => {
                return Err(Rejection::error(format!(
                    "root hints may have NS, A and AAAA records, not {rtype}"
                )));
            }
        }
        Ok(())
    }
}

impl Hints {
    fn servers(mut self) -> Result<Vec<StartServer>, &'static str> {
        for (name, address) in self.addresses {
            let of_name = self.servers.iter_mut().find(|server| server.name == Some(name));
            of_name.into_iter().for_each(|server| server.addresses.push((address, 53).into()));
        }
        match self.servers.iter().any(|server| !server.addresses.is_empty()) {
            true => Ok(self.servers),
            false => Err("no NS record of the root has an address"),
        }
    }
}

/// Trust anchors.
#[derive(Default)]
struct Anchors {
    path: String,
    all: Vec<Anchor>,
}

impl Sink for Anchors {
    fn record(&mut self, record: &Record<'_>) -> Result<(), Rejection> {
        let at = format!("{}:{}:1", self.path, record.place.line);
        let anchor = Anchor::of_record(record.owner, record.rtype, record.rdata, at);
        self.all.push(anchor.map_err(|fault| Rejection::error(fault.to_string()))?);
        Ok(())
    }
}

impl Anchors {
    fn all(self) -> Result<Vec<Anchor>, &'static str> {
        if self.all.is_empty() { Err("there is no DS or DNSKEY record") } else { Ok(self.all) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::interfaces::Interfaces;
    use crate::{AcceptedConfig, Settings, read_text};

    const HINTS: &str = "; as IANA has them\n$TTL 3600000\n. NS A.ROOT.\n. NS b.root.\nA.ROOT. A 192.0.2.1\n\
                         A.ROOT. AAAA 2001:db8::1\nb.root. A 192.0.2.2\n";
    const DS: &str = ". DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D\n";

    /// The settings of a `[resolver]` with these keys, in a folder with this file, or all faults.
    fn settings(file: &str, keys: &str) -> Result<Settings, String> {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("file"), file).expect("written");
        let AcceptedConfig { mut config, sources, .. } =
            read_text("t.toml", format!("[resolver]\n{keys}\n"), folder.path())
                .expect("good but for its files");
        let read = config.settings.read_named_files().map(|()| config.settings);
        let folder = format!("{}/", folder.path().display());
        read.map_err(|faults| sources.render(&faults).replace(&folder, ""))
    }

    #[test]
    fn root_hints_are_where_it_begins_and_are_primed() {
        let hinted = settings(HINTS, "root-hints = \"file\"").expect("good");
        let rules = hinted.recursive().expect("on").forward_config().iterate.rules;
        assert!(rules[0].prime);
        let servers: Vec<String> =
            rules[0].servers.iter().map(|server| format!("{:?}", server.addresses)).collect();
        assert_eq!(servers, ["[192.0.2.1:53, [2001:db8::1]:53]", "[192.0.2.2:53]"]);
        let own = settings(HINTS, "root-hints = \"file\"\nroot-servers = [\"192.0.2.9\"]").expect("good");
        let rules = own.recursive().expect("on").forward_config().iterate.rules;
        assert_eq!((rules[0].servers.len(), rules[0].prime), (1, false), "what is named counts");
    }

    #[test]
    fn anchors_of_files_and_of_the_configuration_add_up() {
        let ds_of_com = DS.replacen('.', "com.", 1);
        for (keys, zones) in [
            ("trust-anchor-files = [\"file\"]".to_owned(), 1),
            (format!("trust-anchor-files = [\"file\"]\ntrust-anchors = [\"{}\"]", ds_of_com.trim_end()), 2),
        ] {
            let named = settings(DS, &keys).expect("good");
            let recursive = named.recursive().expect("on");
            let anchors = recursive.policy_config(&Interfaces::default()).validation.anchors;
            assert_eq!(anchors.positive().count(), zones, "{keys}");
            assert_eq!(recursive.followed().len(), 0, "they are the operator's");
            let keys = format!("{keys}\ntrust-anchor-rollover = \"all\"");
            assert_eq!(settings(DS, &keys).expect("good").recursive().expect("on").followed().len(), zones);
        }
        let built_in = settings("", "").expect("good");
        assert_eq!(built_in.recursive().expect("on").followed().len(), 1);
        let off = settings("", "validate = false").expect("good");
        assert_eq!(off.recursive().expect("on").followed().len(), 0);
    }

    #[test]
    fn an_anchor_of_a_file_that_cannot_be_used_needs_another_of_its_zone() {
        let unsupported = DS.replace(" 8 2 ", " 16 2 ");
        let named = settings(&format!("{unsupported}{DS}"), "trust-anchor-files = [\"file\"]").expect("good");
        let notes = named.recursive().expect("on").anchor_notes();
        assert!(notes.len() == 1 && notes[0].contains("file:1:1: the algorithm"), "{notes:?}");
        let other = unsupported.replacen('.', "com.", 1);
        let fault = settings(&format!("{DS}{other}"), "trust-anchor-files = [\"file\"]").expect_err("alone");
        assert!(fault.contains("file:2:1: the algorithm or digest type is not supported"), "{fault}");
        assert!(settings("", "trust-anchor-files = []").is_ok());
    }

    #[test]
    fn faults_have_the_place_in_the_file() {
        let hints = "root-hints = \"file\"";
        let anchors = "trust-anchor-files = [\"file\"]";
        for (file, keys, words) in [
            (HINTS.replace("192.0.2.2", "192.0.2"), hints, "file:7:11: "),
            (
                HINTS.replace(". NS b", "com. NS b"),
                hints,
                "file:4:1: root hints may have NS records of the root only",
            ),
            (
                HINTS.replace(" A 192.0.2.2", " TXT x"),
                hints,
                "file:7:1: root hints may have NS, A and AAAA records, not TXT",
            ),
            (". NS a.root.\n".into(), hints, "file: no NS record of the root has an address"),
            (format!("{DS}. A 192.0.2.1\n"), anchors, "file:2:1: A is no trust anchor"),
            (
                DS.replace(" 8 2 ", " 8 9 "),
                anchors,
                "file:1:1: the algorithm or digest type is not supported",
            ),
            ("; nothing\n".into(), anchors, "file: there is no DS or DNSKEY record"),
        ] {
            let fault = settings(&file, keys).expect_err(words);
            assert!(fault.contains(words) && fault.contains("t.toml:2:"), "{words}\n{fault}");
        }
        let none = settings("", "root-hints = \"nosuch\"").expect_err("no file");
        assert!(none.contains("nosuch") && none.contains("No such file"), "{none}");
    }
}
