//! The configuration: reading the file and what it includes, section by section, into [`Config`]. Which keys
//! there are is in `schema`, how text becomes values in `raw` and `units`, what cannot be true together in
//! `check`, and the reference page in `reference`.

pub mod check;
pub mod pattern;
pub mod raw;
pub mod reference;
pub mod report;
pub mod schema;
pub mod units;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use raw::{At, Reader};
use report::{Diagnostic, Place, Severity, Sources, did_you_mean};
use schema::{Control, Listen, Log, Metrics, Server, Template, Zone};

/// Largest configuration text read, in bytes.
const MAX_TEXT: u64 = 256 << 20;
/// Most texts one configuration may be made of.
const MAX_TEXTS: usize = 10_000;
/// The sections and keys at the top of a file.
const TOP: [&str; 8] = ["include", "server", "listen", "zone", "template", "control", "metrics", "log"];

/// A configuration that was read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `[server]`.
    pub server: Server,
    /// Every `[[listen]]`; the built-in addresses if there was none.
    pub listens: Vec<Listen>,
    /// Every `[[zone]]`, each with the place of its block.
    pub zones: Vec<At<Zone>>,
    /// Every `[template.X]` by its name.
    pub templates: BTreeMap<String, At<Template>>,
    /// `[control]`.
    pub control: Control,
    /// `[metrics]`, if present.
    pub metrics: Option<Metrics>,
    /// `[log]`.
    pub log: Log,
}

/// A configuration together with its texts and the warnings about it.
#[derive(Debug)]
pub struct Loaded {
    /// What was read.
    pub config: Config,
    /// The texts, to show places in.
    pub sources: Sources,
    /// Warnings only.
    pub warnings: Vec<Diagnostic>,
}

/// Why a configuration cannot be used: at least one error, and every warning.
#[derive(Debug)]
pub struct Rejected {
    /// The texts, to show places in.
    pub sources: Sources,
    /// Errors and warnings in the order of their places.
    pub faults: Vec<Diagnostic>,
}

impl std::fmt::Display for Rejected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sources.render(&self.faults))
    }
}

impl std::error::Error for Rejected {}

/// Reads a configuration file, all it includes, and checks the whole.
pub fn load(path: &Path) -> Result<Loaded, Rejected> {
    let mut draft = Draft::default();
    draft.read_file(path, None);
    draft.finish()
}

/// Reads a configuration from text; relative paths and includes start from `base`.
pub fn load_text(name: &str, text: String, base: &Path) -> Result<Loaded, Rejected> {
    let mut draft = Draft::default();
    draft.read_text(PathBuf::from(name), text, base);
    draft.finish()
}

/// A configuration while its texts are read.
#[derive(Default)]
struct Draft {
    sources: Sources,
    faults: Vec<Diagnostic>,
    seen: HashSet<PathBuf>,
    server: Option<At<Server>>,
    listens: Vec<Listen>,
    zones: Vec<At<Zone>>,
    templates: BTreeMap<String, At<Template>>,
    control: Option<At<Control>>,
    metrics: Option<At<Metrics>>,
    log: Option<At<Log>>,
}

impl Draft {
    fn finish(mut self) -> Result<Loaded, Rejected> {
        let config = self.take_config();
        if let Some(config) = &config {
            check::check(config, &mut self.faults);
        }
        self.faults.sort_by_key(|f| f.place.as_ref().map_or((0, 0), |p| (p.source, p.span.start)));
        let good = self.faults.iter().all(|f| f.severity == Severity::Warning);
        match config {
            Some(config) if good => Ok(Loaded { config, sources: self.sources, warnings: self.faults }),
            _ => Err(Rejected { sources: self.sources, faults: self.faults }),
        }
    }

    fn take_config(&mut self) -> Option<Config> {
        if self.listens.is_empty() {
            self.listens.extend(Listen::unset());
        }
        Some(Config {
            server: self.server.take().map(|s| s.value).or_else(Server::unset)?,
            listens: std::mem::take(&mut self.listens),
            zones: std::mem::take(&mut self.zones),
            templates: std::mem::take(&mut self.templates),
            control: self.control.take().map(|s| s.value).or_else(Control::unset)?,
            metrics: self.metrics.take().map(|s| s.value),
            log: self.log.take().map(|s| s.value).or_else(Log::unset)?,
        })
    }

    fn read_file(&mut self, path: &Path, named_at: Option<Place>) {
        let fault = |message: String| match named_at.clone() {
            Some(place) => Diagnostic::error(place, message),
            None => Diagnostic::whole(message),
        };
        let shown = path.display();
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(e) => return self.faults.push(fault(format!("cannot open {shown}: {}", reason(&e)))),
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
        let text = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(e) => return self.faults.push(fault(format!("cannot read {shown}: {}", reason(&e)))),
        };
        match String::from_utf8(text) {
            Ok(text) => self.read_text(path.to_owned(), text, path.parent().unwrap_or(Path::new(""))),
            Err(e) => {
                let good =
                    String::from_utf8_lossy(&e.as_bytes()[..e.utf8_error().valid_up_to()]).into_owned();
                let span = good.len()..good.len();
                let source = self.sources.add(path, good);
                self.faults
                    .push(Diagnostic::error(Place { source, span }, "the text is not UTF-8 from here on"));
            }
        }
    }

    fn read_text(&mut self, path: PathBuf, text: String, base: &Path) {
        let (table, errors) = DeTable::parse_recoverable(&text);
        let source = self.sources.add(path, text.clone());
        let place = |span| Place { source, span };
        for error in &errors {
            let span = error.span().unwrap_or(0..0);
            self.faults.push(Diagnostic::error(place(span), error.message().replace('\n', ", ")));
        }
        // What recovery made of broken syntax would only cause faults that are none.
        if errors.is_empty() {
            self.read_top(table.get_ref(), source, base);
        }
    }

    fn read_top(&mut self, table: &DeTable<'_>, source: usize, base: &Path) {
        let mut found = Vec::new();
        let mut reader = Reader { source, base: base.to_owned(), faults: &mut found };
        for (key, node) in table {
            match key.get_ref().as_ref() {
                "server" => read_one(&mut self.server, node, &mut reader, "[server]", Server::read),
                "control" => read_one(&mut self.control, node, &mut reader, "[control]", Control::read),
                "metrics" => read_one(&mut self.metrics, node, &mut reader, "[metrics]", Metrics::read),
                "log" => read_one(&mut self.log, node, &mut reader, "[log]", Log::read),
                "listen" => {
                    let blocks = read_many(node, &mut reader, "[[listen]]", Listen::read);
                    self.listens.extend(blocks.into_iter().map(|b| b.value));
                }
                "zone" => self.zones.extend(read_many(node, &mut reader, "[[zone]]", Zone::read)),
                "template" => read_templates(&mut self.templates, node, &mut reader),
                "include" => {}
                name => {
                    let place = reader.place(key.span());
                    let mut fault = Diagnostic::error(place, format!("unknown section `{name}`"));
                    if let Some(near) = did_you_mean(name, TOP) {
                        fault = fault.hint(format!("did you mean `{near}`?"));
                    } else if Server::describe().keys.iter().any(|k| k.name == name) {
                        fault = fault.hint("this key belongs in [server]");
                    }
                    reader.faults.push(fault);
                }
            }
        }
        let includes = table.get("include").and_then(|node| read_include(node, &mut reader));
        self.faults.append(&mut found);
        for (pattern, place) in includes.unwrap_or_default() {
            match expand(&base.join(&pattern)) {
                Ok(paths) => paths.iter().for_each(|path| self.read_file(path, Some(place.clone()))),
                Err(message) => self.faults.push(Diagnostic::error(place, message)),
            }
        }
    }
}

type ReadSection<T> = fn(&DeTable<'_>, std::ops::Range<usize>, &mut Reader<'_>) -> Option<T>;

/// A section that may stand once in all texts together.
fn read_one<T>(
    slot: &mut Option<At<T>>,
    node: &Spanned<DeValue<'_>>,
    reader: &mut Reader<'_>,
    header: &'static str,
    read: ReadSection<T>,
) {
    let place = reader.place(node.span());
    let Some(table) = node.get_ref().as_table() else {
        let message = format!("`{}` is a section: write {header}", header.trim_matches(['[', ']']));
        return reader.faults.push(Diagnostic::error(place, message));
    };
    let value = read(table, node.span(), reader);
    if let Some(At { place: Some(first), .. }) = slot {
        let fault = Diagnostic::error(place, format!("{header} stands in more than one file"));
        return reader.faults.push(fault.also(first.clone(), "first here"));
    }
    *slot = value.map(|value| At { value, place: Some(place) });
}

/// A section that may stand any number of times.
fn read_many<T>(
    node: &Spanned<DeValue<'_>>,
    reader: &mut Reader<'_>,
    header: &'static str,
    read: ReadSection<T>,
) -> Vec<At<T>> {
    let Some(array) = node.get_ref().as_array() else {
        let place = reader.place(node.span());
        let message =
            format!("`{}` can stand several times: write {header}", header.trim_matches(['[', ']']));
        reader.faults.push(Diagnostic::error(place, message));
        return Vec::new();
    };
    let mut all = Vec::with_capacity(array.len());
    for member in array.iter() {
        let place = reader.place(member.span());
        match member.get_ref().as_table() {
            Some(table) => {
                let value = read(table, member.span(), reader);
                all.extend(value.map(|value| At { value, place: Some(place) }));
            }
            None => reader.faults.push(Diagnostic::error(place, format!("expected a {header} block"))),
        }
    }
    all
}

fn read_templates(
    templates: &mut BTreeMap<String, At<Template>>,
    node: &Spanned<DeValue<'_>>,
    reader: &mut Reader<'_>,
) {
    let Some(table) = node.get_ref().as_table() else {
        let place = reader.place(node.span());
        reader.faults.push(Diagnostic::error(place, "a template needs a name: write [template.X]"));
        return;
    };
    for (key, node) in table {
        let mut slot = None;
        read_one(&mut slot, node, reader, "[template.X]", Template::read);
        let Some(template) = slot else { continue };
        let name = key.get_ref().to_string();
        match templates.get(&name).and_then(|first| first.place.clone()) {
            Some(first) => {
                let fault =
                    Diagnostic::error(reader.place(key.span()), format!("template `{name}` exists already"));
                reader.faults.push(fault.also(first, "first here"));
            }
            None => {
                templates.insert(name, template);
            }
        }
    }
}

/// The patterns of `include`, each with its place.
fn read_include(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Vec<(String, Place)>> {
    let list = <Vec<At<String>> as raw::Value>::read(node, reader)?;
    Some(list.into_iter().filter_map(|p| p.place.map(|place| (p.value, place))).collect())
}

/// The files a pattern names, in the order of their names: `*` and `?` stand for parts of a file name.
fn expand(pattern: &Path) -> Result<Vec<PathBuf>, String> {
    let has_wildcard = |s: &str| s.contains(['*', '?']);
    let folder = pattern.parent().unwrap_or(Path::new(""));
    if folder.to_str().is_none_or(has_wildcard) {
        return Err("`*` and `?` may stand in the file name only, not in folders".into());
    }
    let Some(name) = pattern.file_name().and_then(|n| n.to_str()) else {
        return Err(format!("{} names no file", pattern.display()));
    };
    if !has_wildcard(name) {
        return Ok(vec![pattern.to_owned()]);
    }
    let entries =
        std::fs::read_dir(folder).map_err(|e| format!("cannot read {}: {}", folder.display(), reason(&e)))?;
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| format!("cannot read {}: {}", folder.display(), reason(&e)))?;
        let file_name = entry.file_name();
        let fits = file_name.to_str().is_some_and(|f| !f.starts_with('.') && wildcard_match(name, f));
        if fits && entry.path().is_file() {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// Whether a file name fits a pattern of `*` and `?`. Linear but for one step back per `*`.
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

/// An I/O error in words an operator knows, without the number.
pub fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".into(),
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => {
            let text = error.to_string();
            text.split(" (os error").next().unwrap_or(&text).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn faults(text: &str) -> Vec<String> {
        match load_text("t.toml", text.to_owned(), Path::new("/")) {
            Ok(_) => Vec::new(),
            Err(rejected) => rejected.faults.into_iter().map(|f| f.message).collect(),
        }
    }

    #[test]
    fn nothing_is_a_configuration() {
        let loaded = load_text("t.toml", String::new(), Path::new("/")).expect("accepted");
        assert_eq!(loaded.config.listens.len(), 1);
        assert_eq!(loaded.config.server.max_udp_size.0, 1232);
        assert!(loaded.config.metrics.is_none());
    }

    #[test]
    fn each_fault_has_its_words() {
        let cases = [
            ("[server]\nworkers = 0", "0 is out of range: 1 to 1024"),
            ("[server]\nworkers = \"all\"", "`all` is not one of \"auto\""),
            ("[server]\nmax-udp-size = 70000", "70000 is out of range: 512 to 4096"),
            ("[server]\nmax-udp-size = -1", "-1 is out of range: 512 to 4096"),
            ("[server]\nmax-udp-size = true", "expected an integer, found true or false"),
            ("[server]\ntcp-idle-timeout = \"1ms\"", "1ms is out of range: 200ms to 1h"),
            ("[server]\ngroup = \"x\"", "`group` has no effect without `user`"),
            (
                "[server]\ntcp-connections = 5",
                "one client may open 100 TCP connections, more than the 5 there are in all",
            ),
            ("server = 1", "`server` is a section: write [server]"),
            ("[listen]\naddr = [\"127.0.0.1@1\"]", "`listen` can stand several times: write [[listen]]"),
            ("[[listen]]\naddr = []", "the list is empty"),
            ("[[listen]]\nxdp-copy = \"copy\"", "`xdp-copy` has no effect without `xdp`"),
            (
                "[[listen]]\nxdp = \"e\"\nxdp-attach = \"native\"",
                "`native` is not one of \"auto\", \"driver\" or \"generic\"",
            ),
            (
                "[[listen]]\naddr = [\"[::1]@1\"]\nxdp = \"e\"\n[[listen]]\nxdp = \"e\"\nxdp-queues = 2",
                "`xdp-queues` differs from another [[listen]] with xdp = \"e\"",
            ),
            ("[[zone]]\nname = \"a\"", "zone a. has no `file` and no `template`"),
            ("[[zone]]\nfile = \"a\"", "[[zone]] needs the key `name`"),
            ("[[zone]]\nname = \"a\"\ntemplate = \"t\"", "there is no [template.t]"),
            ("[template.t]", "template `t` says nothing: it needs `file` or `directory`"),
            (
                "[template.t]\nfile = \"x{zone}\"\npattern = \"{zone}\"",
                "`pattern` has no effect without `directory`",
            ),
            (
                "[metrics]\nlisten = \"127.0.0.1@5300\"",
                "127.0.0.1@5300 overlaps with the DNS address 127.0.0.1@5300",
            ),
            ("[log]\nqueries = 2.0", "2.0 is not a share above 0 and up to 1"),
            ("[resolver]", "unknown section `resolver`"),
            ("workers = 2", "unknown section `workers`"),
            ("include = [\"nowhere.toml\"]", "cannot open /nowhere.toml: there is no such file"),
            ("include = [\"a*/b.toml\"]", "`*` and `?` may stand in the file name only, not in folders"),
        ];
        for (text, words) in cases {
            assert_eq!(faults(text), [words], "{text}");
        }
    }

    #[test]
    fn wildcard_addresses_cover_others_of_their_family() {
        let listen = |a: &str, b: &str| faults(&format!("[[listen]]\naddr = [\"{a}\", \"{b}\"]")).len();
        assert_eq!(listen("0.0.0.0@53", "127.0.0.1@53"), 2, "once for each transport");
        assert_eq!(listen("127.0.0.1@53", "127.0.0.1@53"), 2);
        assert_eq!(listen("0.0.0.0@53", "[::]@53"), 0);
        assert_eq!(listen("0.0.0.0@53", "127.0.0.1@5353"), 0);
    }

    #[test]
    fn includes_add_up_and_clash() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        std::fs::create_dir(folder.path().join("conf.d")).expect("made");
        write("nomen.toml", "include = [\"conf.d/*.toml\"]\n[server]\nnsid = \"x\"\n");
        write("conf.d/a.toml", "[[zone]]\nname = \"a\"\nfile = \"a.zone\"\n");
        write("conf.d/b.toml", "[[zone]]\nname = \"b\"\nfile = \"b.zone\"\n[log]\nlevel = \"warn\"\n");
        write("conf.d/ignored", "not toml");
        let loaded = load(&folder.path().join("nomen.toml")).expect("accepted");
        let files: Vec<_> = loaded.config.zones.iter().map(|z| z.file.value.clone()).collect();
        assert_eq!(files, ["a.zone", "b.zone"].map(|f| Some(folder.path().join("conf.d").join(f))));
        write("conf.d/c.toml", "[server]\nid = \"x\"\n");
        let rejected = load(&folder.path().join("nomen.toml")).expect_err("two [server]");
        assert_eq!(rejected.faults.len(), 1);
        assert!(rejected.to_string().contains("[server] stands in more than one file"), "{rejected}");
        write("conf.d/c.toml", "include = [\"../nomen.toml\"]\n");
        let rejected = load(&folder.path().join("nomen.toml")).expect_err("a circle");
        assert!(rejected.to_string().contains("is included more than once"), "{rejected}");
    }

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

    proptest! {
        #[test]
        fn any_text_is_accepted_or_rejected_with_a_place(text in "[\\[\\]a-z\"=@0-9.{}#\n -]{0,80}") {
            if let Err(rejected) = load_text("t.toml", text, Path::new("/nonexistent")) {
                prop_assert!(!rejected.faults.is_empty());
                prop_assert!(!rejected.to_string().is_empty());
            }
        }
    }
}
