//! `[policy]` and `[[policy.list]]`: names that lists block for clients of recursive service. Reads no list;
//! `recursive` of `serving` does that.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::PathBuf;

use policy::{ListFormat, ListReport};
use recursion::BlockAnswer;
use toml::Spanned;
use toml::de::DeValue;
use wire::Ttl;

use super::policy_groups::SelectionKeys;
use super::policy_zones::PolicyZoneOptions;
use super::report::Diagnostic;
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Seconds, Size, Value, Word, format_size, list as quoted, quote};
use wording::reason;

keys! {
    /// Policy for the names that clients of recursive service query.
    pub struct PolicySection in "[policy]" {
        /// TTL of the answers for blocked names, and how long clients cache that there is none.
        live "block-ttl" ttl: Seconds<0, 604_800> = Seconds(60), example "5m";
    } with {
        /// Response policy zones.
        zones: PolicyZoneOptions;
        /// What counts for clients in no group.
        others: SelectionKeys;
    }
}

keys! {
    /// A list of names that are blocked, or exempt from all lists. It applies to all clients that may use
    /// recursion, and to aliases in answers as well. Names of zones served here and local names are never
    /// blocked. A reload reads lists that have changed; a list that cannot be read keeps its last good
    /// version. [BLOCKING.md](BLOCKING.md) explains it.
    pub struct PolicyList in "[[policy.list]]" {
        /// Name of the list, in logs, metrics and commands.
        live "name" name: String, example "ads";
        /// Its file.
        live "file" file: PathBuf, example "lists/ads.txt";
        /// Syntax of the file: "hosts" (an address, then names), "domains" (one name per line), "adblock"
        /// (`||name^`), or "auto": each line as it looks.
        live "format" format: ListFormat = ListFormat::Auto, example "hosts";
        /// Whether names of the list are blocked, or exempt from all lists ("allow").
        live "kind" kind: ListKind = ListKind::Block, example "allow";
        /// What clients get for blocked names: "nxdomain" (no such name), "nodata" (no such records), "null"
        /// (the addresses 0.0.0.0 and ::, and no other records), or these addresses.
        live "answer" answer: BlockAnswer = BlockAnswer::NxDomain, example ["192.0.2.80", "2001:db8::80"];
        /// Largest size of the file. A larger file is refused.
        live "max-size" max_size: Size<1024, 4_294_967_296> = Size(268_435_456), example "64MiB";
    }
}

/// The effect of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// Its names are blocked.
    Block,
    /// Its names are exempt.
    Allow,
}

impl Word for ListKind {
    const WORDS: &'static [(&'static str, Self)] = &[("block", Self::Block), ("allow", Self::Allow)];
}

impl Word for ListFormat {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("hosts", Self::Hosts),
        ("domains", Self::Domains),
        ("adblock", Self::Adblock),
    ];
}

/// Returns the answer of a word.
type MakeAnswer = fn() -> BlockAnswer;

/// Words for answers to blocked queries.
const ANSWERS: [(&str, MakeAnswer); 3] =
    [("nxdomain", || BlockAnswer::NxDomain), ("nodata", || BlockAnswer::NoData), ("null", BlockAnswer::null)];

impl Value for BlockAnswer {
    fn kind() -> String {
        format!("{} or list of addresses", quoted(ANSWERS.iter().map(|(word, _)| *word)))
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let Some(array) = node.get_ref().as_array() else {
            return reader.word(node, &ANSWERS).map(|answer| answer());
        };
        if array.is_empty() {
            reader.bad_value(node, "the list is empty");
            return None;
        }
        let wanted = "an address such as \"192.0.2.80\"";
        let parse = |text: &str| text.parse::<IpAddr>().map_err(|_| format!("`{text}` is not an address"));
        let address = |member| reader.text(member, wanted, parse);
        let all: Vec<Option<IpAddr>> = array.iter().map(address).collect();
        all.into_iter().collect::<Option<_>>().map(BlockAnswer::Addresses)
    }
    fn render(&self) -> Option<String> {
        if let Some((word, _)) = ANSWERS.iter().find(|(_, answer)| answer() == *self) {
            return Some(quote(word));
        }
        let BlockAnswer::Addresses(addresses) = self else { return None };
        let addresses: Vec<String> = addresses.iter().map(|address| quote(&address.to_string())).collect();
        Some(format!("[{}]", addresses.join(", ")))
    }
}

/// The settings of one list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListConfig {
    /// Its name.
    pub name: String,
    /// Its file.
    pub file: PathBuf,
    /// Its syntax.
    pub format: ListFormat,
    /// Whether its names are exempt from all lists.
    pub exempts: bool,
    /// What clients get for names that it blocks.
    pub answer: BlockAnswer,
    /// Largest size of the file in bytes.
    pub max_size: usize,
}

impl ListConfig {
    /// Reads the text of the list.
    ///
    /// # Errors
    /// The file cannot be read, is no regular file, or is larger than `max_size`.
    pub fn text(&self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        // A file may grow while it is read.
        let most = self.max_size as u64 + 1;
        zone::regular::open(&self.file)?.take(most).read_to_end(&mut text)?;
        if text.len() > self.max_size {
            let why = format!("larger than `max-size` ({})", format_size(self.max_size as u64));
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        Ok(text)
    }

    /// Reads the list without compiling it.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn check(&self) -> Result<ListReport, String> {
        let text = self.text().map_err(|fault| reason(&fault))?;
        policy::check_list(&text, self.format).map_err(|fault| fault.to_string())
    }

    /// Returns the faults that a report has, each with its place.
    pub fn places<'r>(&'r self, report: &'r ListReport) -> impl Iterator<Item = String> + 'r {
        let file = self.file.display();
        report.first.iter().map(move |(line, fault)| format!("{file}:{line}: {fault}"))
    }
}

/// The settings of all lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListsConfig {
    /// The lists, in the order of the configuration.
    pub lists: Vec<ListConfig>,
    /// TTL of the answers for blocked names.
    pub ttl: Ttl,
}

impl PolicyList {
    fn config(&self) -> ListConfig {
        ListConfig {
            name: self.name.value.clone(),
            file: self.file.value.clone(),
            format: *self.format,
            exempts: *self.kind == ListKind::Allow,
            answer: self.answer.value.clone(),
            max_size: self.max_size.0,
        }
    }
}

/// Returns the settings of all lists.
pub(super) fn config(section: &PolicySection, lists: &[At<PolicyList>]) -> ListsConfig {
    let ttl = Ttl::from_secs(section.ttl.0);
    ListsConfig { lists: lists.iter().map(|list| list.config()).collect(), ttl }
}

/// Most lists.
const MAX_LISTS: usize = 256;

/// Reports lists with one name, keys without an effect, and more lists than are possible.
pub(super) fn check(lists: &[At<PolicyList>], is_recursive: bool, faults: &mut Vec<Diagnostic>) {
    if let Some(first) = lists.first().filter(|_| !is_recursive) {
        let message = "[[policy.list]] has no effect without [resolver]";
        faults.push(Diagnostic::at(first.place.as_ref(), message));
    }
    if let Some(more) = lists.get(MAX_LISTS) {
        let message = format!("{} lists, and there can be {MAX_LISTS}", lists.len());
        faults.push(Diagnostic::at(more.place.as_ref(), message));
    }
    let mut seen: HashMap<&str, &At<String>> = HashMap::new();
    for list in lists {
        let first = *seen.entry(&list.name.value).or_insert(&list.name);
        if !std::ptr::eq(first, &list.name) {
            let message = format!("list `{}` is defined twice", list.name.value);
            let fault = Diagnostic::at(list.name.place.as_ref(), message);
            faults.push(fault.also(first.place.as_ref(), "first here"));
        }
        if *list.kind == ListKind::Allow && list.answer.place.is_some() {
            let message = "`answer` has no effect: a list of `kind = \"allow\"` blocks nothing";
            faults.push(Diagnostic::at(list.answer.place.as_ref(), message));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::{AcceptedConfig, read_text};

    /// The settings of lists in this text, or all faults.
    fn lists(text: &str) -> Result<ListsConfig, String> {
        let read = read_text("t.toml", text.to_owned(), Path::new("/lists"));
        read.map(|AcceptedConfig { config, .. }| config.settings.lists()).map_err(|fault| fault.to_string())
    }

    const ADS: &str = "[resolver]\n[[policy.list]]\nname = \"ads\"\nfile = \"ads.txt\"\n";

    #[test]
    fn an_answer_is_a_word_or_addresses() {
        let answer = |key: &str| lists(&format!("{ADS}{key}\n")).map(|lists| lists.lists[0].answer.clone());
        assert_eq!(answer(""), Ok(BlockAnswer::NxDomain));
        assert_eq!(answer("answer = \"nodata\""), Ok(BlockAnswer::NoData));
        assert_eq!(answer("answer = \"null\""), Ok(BlockAnswer::null()));
        let own = BlockAnswer::Addresses(vec![[192, 0, 2, 1].into()]);
        assert_eq!(answer("answer = [\"192.0.2.1\"]"), Ok(own));
        for (key, words) in [
            ("answer = \"nxdomains\"", "did you mean \"nxdomain\"?"),
            ("answer = [\"192.0.2\"]", "`192.0.2` is not an address\n --> t.toml:5:11"),
            ("answer = []", "the list is empty"),
            ("answer = \"null\"\nkind = \"allow\"", "`answer` has no effect"),
        ] {
            let fault = answer(key).expect_err(key);
            assert!(fault.contains(words), "{key}: {fault}");
        }
    }

    #[test]
    fn lists_need_a_resolver_and_names_of_their_own() {
        assert_eq!(lists(ADS).expect("good").lists[0].file, Path::new("/lists/ads.txt"));
        let alone = lists(&ADS.replace("[resolver]\n", "")).expect_err("no resolver");
        assert!(alone.contains("has no effect without [resolver]"), "{alone}");
        let twice = lists(&format!("{ADS}{}", ADS.replace("[resolver]\n", ""))).expect_err("twice");
        assert!(twice.contains("list `ads` is defined twice") && twice.contains("first here"), "{twice}");
        let many = |n| (0..n).map(|n| format!("[[policy.list]]\nname = \"l{n}\"\nfile = \"l\"\n"));
        assert!(lists(&format!("[resolver]\n{}", many(256).collect::<String>())).is_ok());
        let more = lists(&format!("[resolver]\n{}", many(257).collect::<String>())).expect_err("too many");
        assert!(more.contains("257 lists, and there can be 256"), "{more}");
    }

    #[test]
    fn a_file_that_is_too_large_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let list = |max_size| ListConfig {
            name: "l".into(),
            file: folder.path().join("list"),
            format: ListFormat::Auto,
            exempts: false,
            answer: BlockAnswer::NxDomain,
            max_size,
        };
        assert_eq!(list(100).check(), Err("there is no such file".into()));
        fs::write(folder.path().join("list"), "a.example\nb.example\n").expect("written");
        assert_eq!(list(20).check().map(|report| report.rules), Ok(2));
        assert_eq!(list(19).check(), Err("larger than `max-size` (19)".into()));
    }
}
