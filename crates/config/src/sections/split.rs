//! Splits a text with several sections into one text for each, and checks their keys and values.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::SharedSection;
use super::kind::SectionKind;
use crate::Configuration;
use crate::report::{ConfigPlace, ConfigTexts, Diagnostic, RejectedConfig};
use crate::table::read::Reader;
use crate::table::slot::read_section;
use wording::bounded_list;

/// Largest text of a section, in bytes, as the database has it.
pub const MAX_SECTION: usize = 65_536;

/// Splits a text into its sections. `name` is that of the text, for messages.
///
/// # Errors
/// All faults of the text by itself, with line and column: tables that cannot be shared, unknown keys, bad
/// values.
pub fn split(name: &str, text: &str) -> Result<Vec<SharedSection>, RejectedConfig> {
    let mut sources = ConfigTexts::default();
    let source = sources.add(PathBuf::from(name), text.to_owned());
    let mut faults = Vec::new();
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let place = ConfigPlace { source, span: error.span().unwrap_or(0..0) };
        faults.push(Diagnostic::error(place, error.message().replace('\n', ", ")));
    }
    let mut sections = Vec::new();
    if errors.is_empty() {
        let mut splitter = Splitter { text, source, faults: &mut faults, blocks: Vec::new() };
        splitter.find(table.get_ref());
        sections = splitter.sections();
        read_values(table.get_ref(), source, &mut faults);
    }
    if faults.is_empty() {
        return Ok(sections);
    }
    faults.sort_by_key(|fault| fault.place.as_ref().map_or(0, |place| place.span.start));
    Err(RejectedConfig { sources, faults })
}

/// Reads the values of shared tables, for their faults.
fn read_values(table: &DeTable<'_>, source: usize, faults: &mut Vec<Diagnostic>) {
    let mut reader = Reader { source, base: PathBuf::new(), faults, blocks: Vec::new() };
    let mut config = Configuration::default();
    for (key, node) in table {
        let name = key.get_ref().as_ref();
        if SectionKind::ALL.iter().any(|kind| kind.keys().0 == name) {
            read_section(&mut config.slots(), name, node, &mut reader);
        }
    }
}

/// A block in the text.
struct Block {
    kind: SectionKind,
    name: String,
    /// Where its header begins, and where the name is.
    start: usize,
    place: ConfigPlace,
}

struct Splitter<'t> {
    text: &'t str,
    source: usize,
    faults: &'t mut Vec<Diagnostic>,
    blocks: Vec<Block>,
}

impl Splitter<'_> {
    fn fault(&mut self, span: std::ops::Range<usize>, message: String, hint: &str) {
        let fault = Diagnostic::error(ConfigPlace { source: self.source, span }, message);
        self.faults.push(if hint.is_empty() { fault } else { fault.hint(hint) });
    }

    /// Finds the blocks of all kinds; reports whatever else there is.
    fn find(&mut self, table: &DeTable<'_>) {
        let headers: Vec<String> = SectionKind::ALL.iter().map(|kind| kind.header()).collect();
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let shared = format!("nodes share {}", bounded_list(&headers));
        for (key, node) in table {
            let name = key.get_ref().as_ref();
            let kinds = || SectionKind::ALL.into_iter().filter(|kind| kind.keys().0 == name);
            if kinds().next().is_none() {
                self.fault(key.span(), format!("`{name}` is no section that nodes share"), &shared);
                continue;
            }
            if let Some(kind) = kinds().find(|kind| kind.keys().1.is_none()) {
                self.blocks_of(kind, node);
                continue;
            }
            let Some(inner) = node.get_ref().as_table() else {
                self.fault(node.span(), format!("`{name}` is no section that nodes share"), &shared);
                continue;
            };
            for (key, node) in inner {
                let word = key.get_ref().as_ref();
                match kinds().find(|kind| kind.keys().1 == Some(word)) {
                    Some(kind) => self.blocks_of(kind, node),
                    None => {
                        let message = format!("`{word}` of [{name}] is no section that nodes share");
                        self.fault(key.span(), message, &shared);
                    }
                }
            }
        }
    }

    /// Adds the blocks of a kind.
    fn blocks_of(&mut self, kind: SectionKind, node: &Spanned<DeValue<'_>>) {
        let Some(key) = kind.name_key() else {
            // A wrong type is reported with the values.
            for (key, node) in node.get_ref().as_table().into_iter().flatten() {
                self.add(kind, key.get_ref(), node.span().start, key.span());
            }
            return;
        };
        for block in node.get_ref().as_array().into_iter().flat_map(|array| array.iter()) {
            let name = block.get_ref().as_table().and_then(|table| table.get(key));
            if let Some((name, text)) = name.and_then(|name| Some((name, name.get_ref().as_str()?))) {
                self.add(kind, text, block.span().start, name.span());
            }
        }
    }

    fn add(&mut self, kind: SectionKind, name: &str, start: usize, place: std::ops::Range<usize>) {
        let begins = self.text.get(start..).unwrap_or_default();
        let opening = if kind.name_key().is_some() { "[[" } else { "[" };
        let line = self.text.get(..start).unwrap_or_default().rsplit('\n').next().unwrap_or_default();
        if !begins.starts_with(opening) || !line.trim().is_empty() {
            let message = format!("a section begins with a line {}", kind.header());
            return self.fault(place, message, "");
        }
        let (name, place) = (kind.canonical(name), ConfigPlace { source: self.source, span: place });
        let same = self.blocks.iter().find(|block| block.kind == kind && block.name == name);
        if let Some(first) = same.filter(|_| !kind.has_several_blocks()) {
            let fault = Diagnostic::error(place, format!("{} \"{name}\" is defined twice", kind.word()));
            return self.faults.push(fault.also(Some(&first.place), "first here"));
        }
        self.blocks.push(Block { kind, name, start, place });
    }

    /// Returns the sections in the order of the text.
    fn sections(mut self) -> Vec<SharedSection> {
        self.blocks.sort_by_key(|block| block.start);
        let starts: Vec<usize> = self.blocks.iter().map(|block| self.with_comments(block.start)).collect();
        let ends = starts.iter().skip(1).copied().chain([self.text.len()]);
        let mut sections: Vec<SharedSection> = Vec::new();
        for ((block, start), end) in self.blocks.iter().zip(&starts).zip(ends) {
            let text = format!("{}\n", self.text.get(*start..end).unwrap_or_default().trim_end());
            let section = SharedSection { kind: block.kind.word().into(), name: block.name.clone(), text };
            match sections.iter_mut().find(|other| other.is(&section)) {
                Some(first) => first.text += &format!("\n{}", section.text),
                None => sections.push(section),
            }
        }
        for block in &self.blocks {
            let section = sections.iter().find(|one| one.kind == block.kind.word() && one.name == block.name);
            if section.is_some_and(|one| one.text.len() > MAX_SECTION) {
                let message = format!("a section has at most {MAX_SECTION} bytes");
                self.faults.push(Diagnostic::error(block.place.clone(), message));
            }
        }
        sections
    }

    /// Returns where the comment begins that is right above a header.
    fn with_comments(&self, start: usize) -> usize {
        let mut begin = self.text.get(..start).unwrap_or_default().rfind('\n').map_or(0, |end| end + 1);
        while let Some(above) = self.text.get(..begin.saturating_sub(1)).filter(|_| begin > 0) {
            let line = above.rfind('\n').map_or(0, |end| end + 1);
            if !above.get(line..).is_some_and(|text| text.trim_start().starts_with('#')) {
                break;
            }
            begin = line;
        }
        begin
    }
}

/// Reads a section into a configuration of its own; relative paths start from `base`.
pub(super) fn read_alone(
    section: &SharedSection,
    source: usize,
    base: &Path,
) -> Result<Configuration, Vec<Diagnostic>> {
    let mut faults = Vec::new();
    let mut config = Configuration::default();
    let whole = |message: String| vec![Diagnostic::error(ConfigPlace { source, span: 0..0 }, message)];
    let Some(kind) = section.known_kind() else {
        return Err(whole(format!("this version does not know sections of the kind {}", section.kind)));
    };
    let (table, errors) = DeTable::parse_recoverable(&section.text);
    for error in &errors {
        let place = ConfigPlace { source, span: error.span().unwrap_or(0..0) };
        faults.push(Diagnostic::error(place, error.message().replace('\n', ", ")));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut reader = Reader { source, base: base.to_owned(), faults: &mut faults, blocks: Vec::new() };
    for (key, node) in table.get_ref() {
        let name = key.get_ref().as_ref();
        let is_known = name == kind.keys().0 && read_section(&mut config.slots(), name, node, &mut reader);
        if !is_known {
            let place = reader.place(key.span());
            reader
                .faults
                .push(Diagnostic::error(place, format!("`{name}` is not a part of {}", kind.word())));
        }
    }
    let names = super::kind::names(&config);
    if faults.is_empty() && (names.is_empty() || names.iter().any(|(k, n)| (*k, n) != (kind, &section.name)))
    {
        return Err(whole(format!("its text is not that of {}", section.title())));
    }
    if faults.is_empty() { Ok(config) } else { Err(faults) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# All of them.\n\n# Advertising.\n[[policy.list]]\nname = \"ads\" # short\nurl = \"https://l.example/a\"\n\n\
        [[policy.schedule]]\ngroup = \"kids\"\nstart = \"20:00\"\nend = \"07:00\"\n\
        [[tsig-key]]\nname = \"K.Example\"\nsecret = \"c2VjcmV0\"\n\
        [[policy.schedule]]\ngroup = \"kids\"\nstart = \"12:00\"\nend = \"13:00\"\n\
        [[api.token]]\nname = \"t\"\nhash-file = \"h\"\n[[api.token.rights]]\nright = \"all\"\n\
        [template.x]\nallow-transfer = [\"any\"]\n";

    fn faults(text: &str) -> String {
        split("in", text).map(|sections| format!("{sections:?}")).expect_err("faults").to_string()
    }

    #[test]
    fn a_text_is_split_with_its_comments() {
        let sections = split("in", TEXT).expect("good");
        let titles: Vec<String> = sections.iter().map(SharedSection::title).collect();
        let expected = [
            "policy.list \"ads\"",
            "policy.schedule \"kids\"",
            "tsig-key \"k.example.\"",
            "api.token \"t\"",
            "template \"x\"",
        ];
        assert_eq!(titles, expected);
        assert_eq!(
            sections[0].text,
            "# Advertising.\n[[policy.list]]\nname = \"ads\" # short\nurl = \"https://l.example/a\"\n"
        );
        assert_eq!(sections[1].text.matches("[[policy.schedule]]").count(), 2);
        assert!(sections[3].text.ends_with("[[api.token.rights]]\nright = \"all\"\n"));
        for section in &sections {
            read_alone(section, 0, Path::new("/")).unwrap_or_else(|faults| panic!("{section:?}: {faults:?}"));
            assert_eq!(split("again", &section.text).expect("good"), std::slice::from_ref(section));
        }
    }

    #[test]
    fn what_cannot_be_shared_is_shown_with_its_place() {
        for (text, place, words) in [
            ("[server]\nuser = \"x\"\n", "in:1:2", "`server` is no section that nodes share"),
            (
                "\n[policy]\nblock-ttl = 5\n",
                "in:3:1",
                "`block-ttl` of [policy] is no section that nodes share",
            ),
            ("[[policy.list]]\nname = \"a\"\nurk = 1\n", "in:3:1", "unknown key `urk` in [[policy.list]]"),
            ("[[policy.list]]\nfile = \"a\"\n", "in:1:1", "[[policy.list]] needs the key `name`"),
            ("[[api.token]]\nname = \"a\"\nrights = [{ right = \"al\" }]\n", "in:3:21", "`al` is not one of"),
            ("[[policy.list]\n", "in:1:15", "array"),
            (
                "policy.list = [{ name = \"a\", file = \"f\" }]\n",
                "in:1:25",
                "begins with a line [[policy.list]]",
            ),
            (
                "[[tsig-key]]\nname = \"a\"\nsecret = \"AA==\"\n[[tsig-key]]\nname = \"A.\"\nsecret = \"AA==\"\n",
                "in:5:8",
                "tsig-key \"a.\" is defined twice",
            ),
        ] {
            let shown = faults(text);
            assert!(shown.contains(&format!("--> {place}\n")) && shown.contains(words), "{text}: {shown}");
        }
        let long = format!("[[policy.list]]\nname = \"a\"\nfile = \"f\"\n# {}\n", "x".repeat(MAX_SECTION));
        assert!(faults(&long).contains("at most 65536 bytes"));
    }
}
