//! `[policy]` and `[[policy.list]]`: names that lists block for clients of recursive service. Reads no list;
//! `recursive` of `serving` does that.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

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
use super::table::value::{Int, Seconds, Size, Value, Word, format_size, list as quoted, quote};
pub use source::{ListFetching, ListSource, ListUrl};
use wording::reason;

mod source;

/// Default size of the tables of what is blocked most.
const DEFAULT_TOP: usize = 500;

keys! {
    /// Policy for the names that clients of recursive service query.
    pub struct PolicySection in "[policy]" {
        /// TTL of the answers for blocked names, and how long clients cache that there is none.
        live "block-ttl" ttl: Seconds<0, 604_800> = Seconds(60), example "5m";
        /// Size of the tables for `nomen ctl policy top`: of the most blocked names, of clients, and of zones
        /// and lists. Counts are too high by at most the number of counted queries divided by this size. A
        /// change empties the tables; 0 turns them off.
        live "top" top: Int<usize, 0, 100_000> = Int(DEFAULT_TOP), example 2000;
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
        /// Its file. A list has a file or a URL.
        live "file" file: Option<PathBuf> = None, example "lists/ads.txt";
        /// Its URL, of the scheme `https` or `http`. The last good version is stored in `state-dir` of
        /// `[server]`, and a start uses it at once.
        live "url" url: Option<ListUrl> = None, example "https://lists.example.org/ads.txt";
        /// Time between two fetches of the URL. After a failure, the next attempt is due after a minute, then
        /// two, four and so on, up to an hour.
        live "refresh" refresh: Seconds<60, 31_536_000> = Seconds(86_400), example "6h";
        /// Longest time that one fetch may take.
        live "timeout" timeout: Seconds<1, 3600> = Seconds(30), example "2m";
        /// PEM file of the CA certificates to trust for this URL, in place of those of the system.
        live "ca-file" ca_file: Option<PathBuf> = None, example "/etc/ssl/company-ca.pem";
        /// Syntax of the list: "hosts" (an address, then names), "domains" (one name per line), "adblock"
        /// (`||name^`), "rpz" (a response policy zone), or "auto": a text that begins like a zone as one, of
        /// others each line as it looks.
        live "format" format: ListFormat = ListFormat::Auto, example "hosts";
        /// Whether names of the list are blocked, or exempt from all lists ("allow").
        live "kind" kind: ListKind = ListKind::Block, example "allow";
        /// What clients get for blocked names: "nxdomain" (no such name), "nodata" (no such records), "null"
        /// (the addresses 0.0.0.0 and ::, and no other records), or these addresses.
        live "answer" answer: BlockAnswer = BlockAnswer::NxDomain, example ["192.0.2.80", "2001:db8::80"];
        /// Largest size of the file, or of what is fetched, compressed and decompressed. A larger one is
        /// refused.
        live "max-size" max_size: Size<1024, 4_294_967_296> = Size(268_435_456), example "64MiB";
        /// Most lines of the list. A longer one is refused, before any rule of it is compiled: it would take
        /// memory and CPU time for each line.
        live "max-lines" max_lines: Int<usize, 1, 1_000_000_000> = Int(5_000_000), example 500_000;
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
        ("rpz", Self::Rpz),
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
    /// Where its text is from.
    pub source: ListSource,
    /// Its syntax.
    pub format: ListFormat,
    /// Whether its names are exempt from all lists.
    pub exempts: bool,
    /// What clients get for names that it blocks.
    pub answer: BlockAnswer,
    /// Largest size of the text in bytes.
    pub max_size: usize,
    /// Most lines of the text.
    pub max_lines: usize,
}

impl ListConfig {
    /// Reads the file of the list.
    ///
    /// # Errors
    /// The file cannot be read, is no regular file, or is larger than `max_size`.
    pub fn file_text(&self, file: &Path) -> io::Result<Vec<u8>> {
        zone::regular::read(file, self.max_size as u64).map_err(|fault| match fault.kind() {
            io::ErrorKind::FileTooLarge => {
                let why = format!("larger than `max-size` ({})", format_size(self.max_size as u64));
                io::Error::new(io::ErrorKind::FileTooLarge, why)
            }
            _ => fault,
        })
    }

    /// Reads a text of the list without compiling it.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn check(&self, text: io::Result<Vec<u8>>) -> Result<ListReport, String> {
        let text = text.map_err(|fault| reason(&fault))?;
        self.check_lines(&text)?;
        policy::check_list(&text, self.format).map_err(|fault| fault.to_string())
    }

    /// Checks that a text has no more lines than it may have, which takes little of the time of reading it.
    ///
    /// # Errors
    /// It has more.
    pub fn check_lines(&self, text: &[u8]) -> Result<(), String> {
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        if lines > self.max_lines {
            return Err(format!("{lines} lines, more than `max-lines` ({})", self.max_lines));
        }
        Ok(())
    }

    /// Returns the faults that a report has, each with its place.
    pub fn places<'r>(&'r self, report: &'r ListReport) -> impl Iterator<Item = String> + 'r {
        let source = &self.source;
        report.first.iter().map(move |(line, fault)| format!("{source}:{line}: {fault}"))
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
    fn config(&self) -> Option<ListConfig> {
        Some(ListConfig {
            name: self.name.value.clone(),
            source: self.source()?,
            format: *self.format,
            exempts: *self.kind == ListKind::Allow,
            answer: self.answer.value.clone(),
            max_size: self.max_size.0,
            max_lines: self.max_lines.0,
        })
    }
}

/// Returns the settings of all lists.
pub(super) fn config(section: &PolicySection, lists: &[At<PolicyList>]) -> ListsConfig {
    let ttl = Ttl::from_secs(section.ttl.0);
    ListsConfig { lists: lists.iter().filter_map(|list| list.config()).collect(), ttl }
}

/// The folder of lists with a URL, in the state folder.
pub const LISTS_FOLDER: &str = "lists";
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
        list.check_source(list, faults);
        if *list.kind == ListKind::Allow && list.answer.place.is_some() {
            let message = "`answer` has no effect: a list of `kind = \"allow\"` blocks nothing";
            faults.push(Diagnostic::at(list.answer.place.as_ref(), message));
        }
    }
}

/// Returns warnings about lists that are fetched.
pub(super) fn warnings(lists: &[At<PolicyList>], has_state: bool) -> Vec<Diagnostic> {
    lists.iter().flat_map(|list| list.warnings(has_state)).collect()
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
        assert_eq!(lists(ADS).expect("good").lists[0].source, ListSource::File("/lists/ads.txt".into()));
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
    fn a_list_has_a_file_or_a_url() {
        let of = |keys: &str| lists(&format!("[resolver]\n[[policy.list]]\nname = \"ads\"\n{keys}\n"));
        let url = "url = \"https://Lists.example/a%20b?c#d\"";
        let fetching = |keys: &str| match &of(&format!("{url}\n{keys}")).expect(keys).lists[0].source {
            ListSource::Url(fetching) => fetching.clone(),
            ListSource::File(file) => panic!("{}", file.display()),
        };
        let plain = fetching("");
        assert_eq!(plain.url.as_str(), "https://lists.example/a%20b?c");
        assert_eq!((plain.refresh.as_secs(), plain.timeout.as_secs(), plain.ca_file), (86_400, 30, None));
        let own = fetching("refresh = \"1m\"\ntimeout = \"5s\"\nca-file = \"ca.pem\"");
        assert_eq!((own.refresh.as_secs(), own.timeout.as_secs()), (60, 5));
        assert_eq!(own.ca_file.as_deref(), Some(Path::new("/lists/ca.pem")));
        for (keys, words) in [
            ("", "the list `ads` has neither `file` nor `url`"),
            ("file = \"a\"\nurl = \"https://a/\"", "a list has a `file` or a `url`, not both"),
            ("file = \"a\"\nrefresh = \"1h\"", "`refresh` has no effect: the list has no `url`"),
            ("file = \"a\"\ntimeout = \"1m\"", "`timeout` has no effect"),
            ("file = \"a\"\nca-file = \"a\"", "`ca-file` has no effect"),
            ("url = \"lists/ads.txt\"", "`lists/ads.txt` is not a URL: it does not begin with https://"),
            ("url = \"https://\"", "`https://` is not a URL: empty host"),
            ("url = \"ftp://a.example/\"", "`ftp` is not a scheme that lists can have"),
            ("url = \"https://me:secret@a.example/\"", "a user name or password in the URL"),
            ("url = \"https://a/\"\nrefresh = \"59s\"", "59s is out of range"),
        ] {
            let fault = of(keys).expect_err(keys);
            assert!(fault.contains(words), "{keys}: {fault}");
            assert_eq!(fault.contains("neither `file` nor `url`"), keys.is_empty(), "{keys}: {fault}");
        }
    }

    #[test]
    fn a_url_without_tls_or_a_state_folder_is_a_warning() {
        let warnings = |url: &str, server: &str| {
            let list = format!("[[policy.list]]\nname = \"ads\"\nurl = \"{url}\"\n");
            let text = format!("{server}[resolver]\n{list}");
            let read = read_text("t.toml", text, Path::new("/lists")).expect("good");
            let warnings = read.config.settings.warnings(false);
            warnings.into_iter().map(|warning| warning.message).collect::<Vec<_>>()
        };
        let state = "[server]\nstate-dir = \"/state\"\n";
        assert_eq!(warnings("https://a.example/", state), [""; 0]);
        let [plain] = &warnings("http://a.example/", state)[..] else { panic!("one warning") };
        assert!(plain.contains("fetched without TLS"), "{plain}");
        let [volatile] = &warnings("https://a.example/", "")[..] else { panic!("one warning") };
        assert!(volatile.contains("not stored on disk"), "{volatile}");
    }

    #[test]
    fn a_file_that_is_too_large_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("list");
        let list = |max_size| ListConfig {
            name: "l".into(),
            source: ListSource::File(file.clone()),
            format: ListFormat::Auto,
            exempts: false,
            answer: BlockAnswer::NxDomain,
            max_size,
            max_lines: 2,
        };
        let check = |max_size| list(max_size).check(list(max_size).file_text(&file));
        assert_eq!(check(100), Err("there is no such file".into()));
        fs::write(folder.path().join("list"), "a.example\nb.example\n").expect("written");
        assert_eq!(check(20).map(|report| report.rules), Ok(2));
        assert_eq!(check(19), Err("larger than `max-size` (19)".into()));
        fs::write(folder.path().join("list"), "a.example\nb.example\nc.example\n").expect("written");
        assert_eq!(check(100), Err("3 lines, more than `max-lines` (2)".into()));
    }
}
