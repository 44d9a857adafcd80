//! Reads the operator's configuration, a file with all its includes, into one [`Configuration`] or a list of
//! all faults.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::report::{ConfigPlace, ConfigTexts, Diagnostic, RejectedConfig};
use super::sections::{KeptSections, MergedSections, SECTIONS_FILE};
use super::table::read::{At, Reader};
use super::table::slot::read_section;
use super::table::value::Value;
use super::views;
use super::zones::{self, ConfiguredZone, SharedKeys};
use super::{Configuration, Settings};
use wording::{bounded_list, did_you_mean, reason};

/// Largest configuration text read, in bytes.
const MAX_TEXT: u64 = 256 << 20;
/// Largest number of texts in one configuration.
const MAX_TEXTS: usize = 10_000;
/// The top-level key that names further files.
const INCLUDE: &str = "include";

/// A valid configuration with its texts.
#[derive(Debug)]
pub struct AcceptedConfig {
    /// The configuration.
    pub config: Configuration,
    /// The texts, for showing places in them.
    pub sources: ConfigTexts,
    /// The sections of the database in it.
    pub sections: MergedSections,
}

impl AcceptedConfig {
    /// Changes which sections of the database are used, so that the configuration does not have these faults,
    /// which were found in it later.
    ///
    /// # Errors
    /// Faults that it has without sections, too.
    pub fn mend(&mut self, faults: Vec<Diagnostic>) -> Result<(), Vec<Diagnostic>> {
        self.sections.mend(&mut self.config, &mut self.sources, faults)
    }
}

/// Reads a configuration file with all its includes, and checks the whole. With `[database]`, the sections of
/// the database that the state folder has are a part of it.
pub fn read_files(path: &Path) -> Result<AcceptedConfig, RejectedConfig> {
    read_with(path, None)
}

/// As [`read_files`], with these sections of the database, if they are given.
pub fn read_with(path: &Path, sections: Option<&KeptSections>) -> Result<AcceptedConfig, RejectedConfig> {
    let mut draft = Draft::default();
    draft.read_file(path, None);
    draft.finish_with(sections, path)
}

/// Reads a configuration from text; relative paths and includes start from `base`.
pub fn read_text(name: &str, text: String, base: &Path) -> Result<AcceptedConfig, RejectedConfig> {
    let mut draft = Draft::default();
    draft.read_text(PathBuf::from(name), text, base);
    draft.finish()
}

/// Reads a configuration file with all its includes, and the file of the zones that were added at run time,
/// which `added` locates from the settings. `sections` are those of the database; without them, those that
/// the state folder has. Checks the whole.
pub fn read_service(
    path: &Path,
    added: impl FnOnce(&Settings) -> Option<PathBuf>,
    sections: Option<&KeptSections>,
) -> Result<AcceptedConfig, RejectedConfig> {
    let mut draft = Draft::default();
    draft.read_file(path, None);
    let configured = draft.config.zones.len();
    let added = added(&draft.config.settings);
    // A file that cannot be examined is reported as a fault.
    if let Some(added) = added.filter(|added| !matches!(added.try_exists(), Ok(false))) {
        draft.read_file(&added, None);
    }
    draft.config.added = draft.config.zones.split_off(configured.min(draft.config.zones.len()));
    draft.finish_with(sections, path)
}

/// Parses a `[[zone]]` block to be added to a configuration with these templates and policies.
pub fn read_zone(name: &str, text: String, shared: SharedKeys<'_>) -> Result<ConfiguredZone, RejectedConfig> {
    let mut draft = Draft::default();
    draft.read_text(PathBuf::from(name), text, Path::new("/"));
    let mut zones = std::mem::take(&mut draft.config.zones);
    for zone in &zones {
        zones::check_zone(zone, shared, &mut draft.faults);
        draft.faults.extend(views::check_zone(zone, shared.templates));
    }
    let Draft { sources, mut faults, .. } = draft;
    match zones.pop() {
        Some(zone) if faults.is_empty() && zones.is_empty() => Ok(zone.value),
        _ if faults.is_empty() => {
            faults.push(Diagnostic::at(None, "the configuration has no zone"));
            Err(RejectedConfig { sources, faults })
        }
        _ => Err(RejectedConfig { sources, faults }),
    }
}

/// A configuration whose texts are being read.
#[derive(Default)]
struct Draft {
    sources: ConfigTexts,
    faults: Vec<Diagnostic>,
    seen: HashSet<PathBuf>,
    config: Configuration,
}

impl Draft {
    fn finish(self) -> Result<AcceptedConfig, RejectedConfig> {
        self.finish_as(MergedSections::default())
    }

    /// Adds the sections of the database, if there is one. `path` is that of the first file.
    fn finish_with(
        mut self,
        sections: Option<&KeptSections>,
        path: &Path,
    ) -> Result<AcceptedConfig, RejectedConfig> {
        let settings = &self.config.settings;
        let Some(place) = settings.database.as_ref().map(|database| database.place.clone()) else {
            return self.finish();
        };
        let read = match (sections, settings.server.storage.folder()) {
            (None, Some(folder)) => KeptSections::read(&folder).map_err(|fault| (folder, fault)),
            _ => Ok(KeptSections::default()),
        };
        let (of_folder, damage) = match read {
            Ok(sections) => (sections, None),
            // Who may not read it uses nothing of it either, such as the path of the control socket.
            Err((_, fault)) if fault.kind() == io::ErrorKind::PermissionDenied => Default::default(),
            Err((folder, fault)) => {
                let file = folder.join(SECTIONS_FILE);
                let message = format!("cannot read {}: {}", file.display(), reason(&fault));
                let hint = "the sections of the database are missing until it is reached";
                let found = Diagnostic::at(place.as_ref(), message).hint(hint).outside();
                (KeptSections::default(), Some(found))
            }
        };
        let base = path.parent().unwrap_or(Path::new(""));
        let is_first = sections.is_none();
        let sections = sections.unwrap_or(&of_folder);
        let merged = MergedSections::add(&mut self.config, &mut self.sources, sections, (base, is_first));
        self.finish_as(merged.with_damage(damage))
    }

    fn finish_as(self, mut sections: MergedSections) -> Result<AcceptedConfig, RejectedConfig> {
        let Draft { mut sources, mut faults, mut config, .. } = self;
        let is_read = faults.is_empty();
        config.check(&mut faults);
        if is_read {
            faults = sections.mend(&mut config, &mut sources, faults).err().unwrap_or_default();
        } else {
            // The file is to be mended first.
            faults.retain(|fault| fault.place.as_ref().is_none_or(|place| !place.is_shared()));
        }
        if faults.is_empty() {
            return Ok(AcceptedConfig { config, sources, sections });
        }
        // The file may name sections that are missing.
        faults.extend(sections.damage().cloned());
        faults.sort_by_key(|f| f.place.as_ref().map_or((0, 0), |p| (p.source, p.span.start)));
        Err(RejectedConfig { sources, faults })
    }

    fn read_file(&mut self, path: &Path, named_at: Option<ConfigPlace>) {
        let fault = |message: String| Diagnostic::at(named_at.as_ref(), message);
        let shown = path.display();
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(e) => {
                return self.faults.push(fault(format!("cannot open {shown}: {}", reason(&e))).outside());
            }
        };
        if !self.seen.insert(real) {
            return self.faults.push(fault(format!("{shown} is included more than once")));
        }
        if self.seen.len() > MAX_TEXTS {
            return self.faults.push(fault(format!("more than {MAX_TEXTS} files are included")));
        }
        let size = std::fs::metadata(path).map_or(0, |m| m.len());
        if size > MAX_TEXT {
            return self
                .faults
                .push(fault(format!("{shown} is too large to be a configuration ({size} bytes)")));
        }
        // The first file, from the command line, may be a pipe.
        let read = match self.seen.len() {
            1 => std::fs::read(path),
            _ => zone::regular::read(path, MAX_TEXT),
        };
        let text = match read {
            Ok(bytes) => bytes,
            Err(e) => {
                return self.faults.push(fault(format!("cannot read {shown}: {}", reason(&e))).outside());
            }
        };
        match String::from_utf8(text) {
            Ok(text) => self.read_text(path.to_owned(), text, path.parent().unwrap_or(Path::new(""))),
            Err(e) => {
                let good =
                    String::from_utf8_lossy(&e.as_bytes()[..e.utf8_error().valid_up_to()]).into_owned();
                let span = good.len()..good.len();
                let source = self.sources.add(path, good);
                self.faults.push(Diagnostic::error(
                    ConfigPlace { source, span },
                    "the text is not UTF-8 from here on",
                ));
            }
        }
    }

    fn read_text(&mut self, path: PathBuf, text: String, base: &Path) {
        let (table, errors) = DeTable::parse_recoverable(&text);
        let source = self.sources.add(path, text.clone());
        let place = |span| ConfigPlace { source, span };
        for error in &errors {
            let span = error.span().unwrap_or(0..0);
            self.faults.push(Diagnostic::error(place(span), error.message().replace('\n', ", ")));
        }
        // After a syntax error, the recovered table would only cause misleading faults.
        if errors.is_empty() {
            self.read_top(table.get_ref(), source, base);
        }
    }

    fn read_top(&mut self, table: &DeTable<'_>, source: usize, base: &Path) {
        let mut found = Vec::new();
        let mut reader = Reader { source, base: base.to_owned(), faults: &mut found, blocks: Vec::new() };
        for (key, node) in table.iter().filter(|(key, _)| key.get_ref() != INCLUDE) {
            let name = key.get_ref().as_ref();
            if !read_section(&mut self.config.slots(), name, node, &mut reader) {
                let place = reader.place(key.span());
                reader.faults.push(unknown_section(name, place));
            }
        }
        let includes = table.get(INCLUDE).and_then(|node| read_include(node, &mut reader));
        self.faults.append(&mut found);
        for (pattern, place) in includes.unwrap_or_default() {
            match expand(&base.join(&pattern)) {
                Ok(paths) => paths.iter().for_each(|path| self.read_file(path, Some(place.clone()))),
                Err(fault) => {
                    let found = Diagnostic::error(place, fault.to_string());
                    let outside = matches!(fault, IncludeFault::Folder(..));
                    self.faults.push(if outside { found.outside() } else { found });
                }
            }
        }
    }
}

fn unknown_section(name: &str, place: ConfigPlace) -> Diagnostic {
    let fault = Diagnostic::error(place, format!("unknown section `{name}`"));
    let mut known = Configuration::default();
    let known = known.slots();
    let names = || known.iter().map(|slot| slot.name());
    if let Some(near) = did_you_mean(name, [INCLUDE].into_iter().chain(names())) {
        return fault.hint(format!("did you mean `{near}`?"));
    }
    let inside = |full: &&str| full.rsplit_once('.').is_some_and(|(_, block)| block == name);
    if let Some(block) = names().find(inside) {
        return fault.hint(format!("did you mean `{block}`?"));
    }
    let sections = known.iter().map(|slot| slot.describe());
    match sections.into_iter().find(|section| section.keys.iter().any(|key| key.name == name)) {
        Some(section) => fault.hint(format!("this key belongs in {}", section.header)),
        None => fault.hint(format!("the sections are {}", bounded_list(&names().collect::<Vec<_>>()))),
    }
}

/// Reads the patterns of `include`, each with its place.
fn read_include(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Vec<(String, ConfigPlace)>> {
    let list = <Vec<At<String>>>::read(node, reader)?;
    Some(list.into_iter().filter_map(|p| p.place.map(|place| (p.value, place))).collect())
}

/// Why a pattern cannot be expanded.
#[derive(Debug)]
enum IncludeFault {
    /// A folder name contains a wildcard.
    WildcardInFolder,
    /// The pattern ends in a folder.
    NoFile(PathBuf),
    /// The folder cannot be read.
    Folder(PathBuf, io::Error),
}

impl fmt::Display for IncludeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WildcardInFolder => {
                f.write_str("`*` and `?` are allowed in the file name only, not in folders")
            }
            Self::NoFile(pattern) => write!(f, "{} matches no file", pattern.display()),
            Self::Folder(folder, e) => write!(f, "cannot read {}: {}", folder.display(), reason(e)),
        }
    }
}

/// Returns the files that match a pattern, sorted: `*` and `?` match parts of a file name.
fn expand(pattern: &Path) -> Result<Vec<PathBuf>, IncludeFault> {
    let has_wildcard = |s: &str| s.contains(['*', '?']);
    let folder = pattern.parent().unwrap_or(Path::new(""));
    if folder.to_str().is_none_or(has_wildcard) {
        return Err(IncludeFault::WildcardInFolder);
    }
    let Some(name) = pattern.file_name().and_then(|n| n.to_str()) else {
        return Err(IncludeFault::NoFile(pattern.to_owned()));
    };
    if !has_wildcard(name) {
        return Ok(vec![pattern.to_owned()]);
    }
    let unreadable = |e| IncludeFault::Folder(folder.to_owned(), e);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let file_name = entry.file_name();
        let fits = file_name.to_str().is_some_and(|f| !f.starts_with('.') && wildcard_match(name, f));
        if fits && entry.path().is_file() {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns whether a file name matches a pattern of `*` and `?`, with one step of backtracking per `*`.
fn wildcard_match(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                back = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match back {
                Some((star, taken)) => {
                    back = Some((star, taken + 1));
                    (p, n) = (star + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_as_in_a_shell() {
        for (pattern, name, fits) in [
            ("*.toml", "a.toml", true),
            ("*.toml", ".toml", true),
            ("*.toml", "a.tomlx", false),
            ("a?c*", "abc", true),
            ("a?c*", "ac", false),
            ("*a*b*c*", "xxaxxbxxcxx", true),
            ("*a*b*c*", "xxaxxcxxbxx", false),
        ] {
            assert_eq!(wildcard_match(pattern, name), fits, "{pattern} {name}");
        }
    }
}
