//! Rules of resolvers: the names that have one, and the policy zones and lists that hold them. They are made
//! from a seed and stay in the work folder.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::failure::{Context, Result};
use crate::random::{label, mix};
use crate::servers::Kind;
use crate::workloads::Sizes;

/// The response policy zone, without its final dot.
pub(crate) const POLICY_ZONE: &str = "rpz.test";
/// Number of lists of [`Rules::Lists`].
pub(crate) const LISTS: u64 = 10;

/// Rules of a resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rules {
    /// None.
    None,
    /// A response policy zone of all names.
    Zone,
    /// A list of all names.
    List,
    /// A list of a fifth of the names.
    Exact,
    /// A list of the same fifth, each name with all names below it.
    Wild,
    /// Ten lists of all names.
    Lists,
}

impl Rules {
    /// Returns the name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Rules::None => "no rules",
            Rules::Zone => "RPZ",
            Rules::List => "list",
            Rules::Exact => "exact list",
            Rules::Wild => "wildcard list",
            Rules::Lists => "ten lists",
        }
    }

    /// Returns the name of its folder.
    pub(crate) fn key(self) -> String {
        self.name().replace(' ', "-").to_lowercase()
    }

    /// Whether a server can have such rules.
    pub(crate) fn suits(self, kind: Kind) -> bool {
        kind == Kind::Nomen || matches!(self, Rules::None | Rules::Zone)
    }

    /// Returns the number of names that have a rule.
    pub(crate) fn count(self, sizes: &Sizes) -> u64 {
        match self {
            Rules::None => 0,
            Rules::Exact | Rules::Wild => sizes.few_rules(),
            Rules::Zone | Rules::List | Rules::Lists => sizes.rules,
        }
    }
}

/// Where a resolver gets its rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum PolicySource {
    /// It has none.
    #[default]
    None,
    /// The file of the response policy zone.
    Zone(PathBuf),
    /// The files of lists.
    Lists(Vec<PathBuf>),
    /// The response policy zone from this primary, and the file of a list.
    Both {
        /// The primary.
        primary: SocketAddr,
        /// The list.
        list: PathBuf,
    },
}

impl PolicySource {
    /// Whether the server may store versions in a state folder.
    pub(crate) fn is_stored(&self) -> bool {
        match self {
            PolicySource::None | PolicySource::Zone(_) => false,
            PolicySource::Lists(lists) => lists.len() > 1,
            PolicySource::Both { .. } => true,
        }
    }
}

/// Returns the name with this index that has a rule: two to four labels, as on public lists of domains.
pub(crate) fn ruled_name(seed: u64, index: u64) -> String {
    const TOP: [&str; 20] = [
        "com", "com", "com", "com", "com", "com", "com", "com", "com", "com", "net", "net", "net", "org",
        "org", "ru", "de", "info", "xyz", "top",
    ];
    const SUB: [&str; 8] = ["ads.", "track.", "www.", "metrics.", "cdn.", "px.", "stats.", "api."];
    let hash = mix(seed ^ mix(index));
    let top = TOP[(hash % 20) as usize];
    // One name in ten has two labels more, four in ten have one more.
    let (far, sub) = match (hash >> 8) % 10 {
        0 => (label(seed, hash >> 40) + ".", SUB[(hash >> 16) as usize % 8]),
        1..=4 => (String::new(), SUB[(hash >> 16) as usize % 8]),
        _ => (String::new(), ""),
    };
    format!("{far}{sub}{}.{top}", label(seed, index))
}

/// The files of all rules of a run.
#[derive(Clone, Debug)]
pub(crate) struct RuleFiles {
    folder: PathBuf,
    seed: u64,
    /// Number of names that have a rule.
    count: u64,
}

impl RuleFiles {
    /// Makes the files, or finds them.
    pub(crate) fn make(work: &Path, sizes: &Sizes, seed: u64) -> Result<RuleFiles> {
        let folder = work.join("rules").join(format!("{}-s{seed}", sizes.rules));
        let files = RuleFiles { folder, seed, count: sizes.rules };
        let complete = files.folder.join("complete");
        if complete.is_file() {
            return Ok(files);
        }
        eprintln!("making rules about {} names", sizes.rules);
        fs::create_dir_all(&files.folder).context(|| format!("cannot make {}", files.folder.display()))?;
        files.write_zone(&files.folder.join("rpz.zone"), 0..sizes.rules)?;
        files.write_zone(&files.folder.join("half.zone"), 0..sizes.rules / 2)?;
        files.write("list.txt", "", 0..sizes.rules)?;
        files.write("exact-list.txt", "", 0..sizes.few_rules())?;
        files.write("wildcard-list.txt", "*.", 0..sizes.few_rules())?;
        fs::write(complete, "")?;
        Ok(files)
    }

    fn write(&self, name: &str, before: &str, indexes: std::ops::Range<u64>) -> Result<()> {
        let mut out = BufWriter::new(File::create(self.folder.join(name))?);
        for index in indexes {
            writeln!(out, "{before}{}", ruled_name(self.seed, index))?;
        }
        Ok(out.flush()?)
    }

    fn write_zone(&self, path: &Path, indexes: std::ops::Range<u64>) -> Result<()> {
        let mut out = BufWriter::new(File::create(path)?);
        writeln!(out, "$TTL 60\n@ SOA localhost. root.localhost. 1 3600 600 86400 60\n@ NS localhost.")?;
        for index in indexes {
            writeln!(out, "{} CNAME .", ruled_name(self.seed, index))?;
        }
        Ok(out.flush()?)
    }

    /// Returns the source of these rules; [`RuleFiles::write_lists`] writes that of ten lists.
    pub(crate) fn source(&self, rules: Rules) -> PolicySource {
        match rules {
            Rules::None => PolicySource::None,
            Rules::Zone => PolicySource::Zone(self.folder.join("rpz.zone")),
            Rules::List | Rules::Exact | Rules::Wild => {
                PolicySource::Lists(vec![self.folder.join(rules.key() + ".txt")])
            }
            Rules::Lists => PolicySource::Lists((0..LISTS).map(|number| self.list_of_ten(number)).collect()),
        }
    }

    /// Returns the file of the response policy zone with the first half of the names.
    pub(crate) fn half_zone(&self) -> PathBuf {
        self.folder.join("half.zone")
    }

    /// Returns the text of a list with the second half of the names.
    pub(crate) fn half_list(&self) -> String {
        (self.count / 2..self.count).map(|index| ruled_name(self.seed, index) + "\n").collect()
    }

    fn list_of_ten(&self, number: u64) -> PathBuf {
        self.folder.join(format!("list-{number}.txt"))
    }

    /// Writes ten lists of all names; in each stands also a name of this version alone.
    pub(crate) fn write_lists(&self, version: u64) -> Result<()> {
        for number in 0..LISTS {
            let mut out = BufWriter::new(File::create(self.list_of_ten(number))?);
            for index in number * self.count / LISTS..(number + 1) * self.count / LISTS {
                writeln!(out, "{}", ruled_name(self.seed, index))?;
            }
            writeln!(out, "{}", version_name(version, number))?;
            out.flush()?;
        }
        Ok(())
    }
}

/// Returns the name that this version of a list has and no other.
pub(crate) fn version_name(version: u64, list: u64) -> String {
    format!("v{version}.list{list}.example.org")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_with_rules_are_distinct_and_as_long_as_those_of_public_lists() {
        let names: HashSet<String> = (0..20_000).map(|index| ruled_name(1, index)).collect();
        assert_eq!(names.len(), 20_000);
        let mean = names.iter().map(String::len).sum::<usize>() / names.len();
        assert!((14..24).contains(&mean), "{mean}");
        assert!(names.iter().all(|name| (2..=4).contains(&name.split('.').count())));
    }

    #[test]
    fn ten_lists_have_each_name_once_and_a_name_of_their_version() {
        let work = tempfile::tempdir().unwrap();
        let sizes = Sizes { rules: 25, ..Sizes::default() };
        let files = RuleFiles::make(work.path(), &sizes, 1).unwrap();
        files.write_lists(7).unwrap();
        let PolicySource::Lists(lists) = files.source(Rules::Lists) else { panic!("no lists") };
        let texts: Vec<String> = lists.iter().map(|list| fs::read_to_string(list).unwrap()).collect();
        let lines: HashSet<String> = texts.iter().flat_map(|text| text.lines().map(String::from)).collect();
        assert_eq!((lists.len(), lines.len()), (10, 35));
        assert!(lines.contains("v7.list9.example.org"), "{lines:?}");
        let PolicySource::Lists(whole) = files.source(Rules::List) else { panic!("no list") };
        let whole = fs::read_to_string(&whole[0]).unwrap();
        assert!(whole.lines().all(|name| lines.contains(name)), "{whole}");
        assert_eq!(files.half_list().lines().count(), 13);
        let zone = fs::read_to_string(files.half_zone()).unwrap();
        assert_eq!(zone.lines().filter(|line| line.ends_with("CNAME .")).count(), 12);
    }
}
