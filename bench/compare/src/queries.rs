//! The queries: one function per mix. Each mix is written once to a pair of files (length-prefixed messages
//! for dnsperf and our own client, text for kxdpgun) and kept beside the zones.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use wire::Type;

use crate::failure::{Context, Failure, Result};
use crate::message::{Edns, write_query};
use crate::random::{LABELS, Random, label};
use crate::rules::ruled_name;
use crate::zones::{SIGNED, small_zone_name};

/// Number of parts of a query set: a warm-up and a measurement at each of four numbers of clients.
const PARTS: u64 = 8;

/// Prefix of names that do not exist at the upstream.
pub(crate) const MISSING: &str = "nx-";
/// Second label of names that are queried once.
pub(crate) const WILD: &str = "wild";

/// A mix of queries on disk.
#[derive(Clone, Debug)]
pub(crate) struct QuerySet {
    /// Messages with ID 0, each preceded by its length in two bytes.
    pub(crate) wire: PathBuf,
    /// The same queries cut into parts of equal length, in order, so that consecutive measurements use
    /// different queries.
    pub(crate) parts: Vec<PathBuf>,
    /// One `name type flags` per line.
    pub(crate) text: PathBuf,
    /// Number of queries.
    pub(crate) count: u64,
}

/// Questions that are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Questions that the benchmark's upstream answers.
    Plain,
    /// Questions that the signed zone answers, with DO.
    Signed,
}

impl Known {
    /// Returns the question with this number: six kinds in turn, each name once.
    fn question(self, seed: u64, number: u64) -> (String, Type, Edns) {
        match self {
            Known::Plain => known(seed, number),
            Known::Signed => validated(seed, number),
        }
    }
}

/// A mix of queries, with the properties of the zones that it needs.
#[derive(Clone, Debug)]
pub(crate) enum Mix {
    /// Always `www.example.com A`.
    OneName,
    /// Names at the delegations of `test`, which are answered with referrals, and names that do not exist.
    Delegations {
        /// Delegations in the zone.
        count: u64,
        /// Percentage of names that do not exist.
        nxdomain: u64,
    },
    /// Names in many small zones, one in ten of them non-existent.
    Many {
        /// Zones.
        count: u64,
    },
    /// A signed zone with DO: 60 % positive, 25 % NXDOMAIN, 10 % NODATA, the rest referrals.
    Signed {
        /// Names below the apex.
        count: u64,
    },
    /// Typical queries to a root server: 65 % NXDOMAIN, 70 % with DO and 15 % with EDNS only.
    Root {
        /// Delegated names.
        names: Vec<String>,
    },
    /// All repeated questions once, in order.
    Each(Known),
    /// Repeated questions, all equally often.
    Even {
        /// Questions.
        count: u64,
        /// The kind of questions.
        known: Known,
    },
    /// Repeated questions as resolvers receive them: the nth most popular one n times as rarely as the first
    /// (Zipf).
    Popular(Zipf, Known),
    /// Names below the wildcard, each once.
    Unique,
    /// Names that have a rule, all equally often.
    Ruled {
        /// Number of these names.
        count: u64,
        /// Whether names below them are queried instead.
        below: bool,
    },
}

impl Mix {
    fn next(&self, number: u64, seed: u64, random: &mut Random) -> (String, Type, Edns) {
        match self {
            Mix::Each(known) => known.question(seed, number),
            Mix::Even { count, known } => known.question(seed, random.below(*count)),
            Mix::Popular(zipf, known) => known.question(seed, zipf.pick(random)),
            Mix::Unique => unique(seed, number),
            Mix::Ruled { count, below } => {
                let name = ruled_name(seed, random.below(*count));
                (if *below { format!("www.{name}") } else { name }, Type::A, Edns::None)
            }
            Mix::OneName => ("www.example.com".to_string(), Type::A, Edns::None),
            Mix::Delegations { count, nxdomain } => delegation(seed, random, *count, *nxdomain),
            Mix::Many { count } => many(seed, random, *count),
            Mix::Signed { count } => signed(seed, random, *count),
            Mix::Root { names } => root(random, names),
        }
    }

    /// Whether queries have RD.
    fn recurses(&self) -> bool {
        matches!(self, Mix::Each(_) | Mix::Even { .. } | Mix::Popular(..) | Mix::Unique | Mix::Ruled { .. })
    }
}

/// Zipf's distribution with exponent 1 over a number of ranks.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    /// Sums of the weights up to each rank.
    sums: Vec<f64>,
}

impl Zipf {
    /// Creates a distribution over this many ranks, at least one.
    pub(crate) fn new(ranks: u64) -> Zipf {
        let add = |sum: &mut f64, rank: u64| {
            *sum += 1.0 / rank as f64;
            Some(*sum)
        };
        Zipf { sums: (1..=ranks.max(1)).scan(0.0, add).collect() }
    }

    /// Returns a random rank, from 0.
    pub(crate) fn pick(&self, random: &mut Random) -> u64 {
        let last = self.sums.len() - 1;
        let share = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        let at = share * self.sums[last];
        self.sums.partition_point(|sum| *sum <= at).min(last) as u64
    }
}

/// Returns the repeated question with this number: six kinds in turn, each name once.
fn known(seed: u64, number: u64) -> (String, Type, Edns) {
    const TYPES: [Type; 6] = [Type::A, Type::AAAA, Type::MX, Type::NS, Type::TXT, Type::A];
    let at = (number % 6) as usize;
    let prefix = if at == 5 { MISSING } else { "" };
    (format!("{prefix}{}.example.net", label(seed, number)), TYPES[at], Edns::None)
}

/// Returns the same for the signed zone, without NS, which would be a delegation.
pub(crate) fn validated(seed: u64, number: u64) -> (String, Type, Edns) {
    const TYPES: [Type; 6] = [Type::A, Type::AAAA, Type::MX, Type::TXT, Type::A, Type::A];
    let at = (number % 6) as usize;
    let prefix = if at == 5 { MISSING } else { "" };
    (format!("{prefix}{}.{SIGNED}", label(seed, number)), TYPES[at], Edns::Do)
}

/// Returns the question with this number that is not repeated.
fn unique(seed: u64, number: u64) -> (String, Type, Edns) {
    (format!("{}.{WILD}.example.net", label(seed, number)), Type::A, Edns::None)
}

/// Appends a query for the repeated question with this number, with RD.
pub(crate) fn write_known(out: &mut Vec<u8>, seed: u64, number: u64) {
    write_recursive(out, &known(seed, number));
}

/// Appends a query for the unrepeated question with this number, with RD.
pub(crate) fn write_unique(out: &mut Vec<u8>, seed: u64, number: u64) {
    write_recursive(out, &unique(seed, number));
}

fn write_recursive(out: &mut Vec<u8>, (name, qtype, edns): &(String, Type, Edns)) {
    let start = out.len();
    write_query(out, name, *qtype, *edns);
    out[start + 2] |= 1;
}

/// Returns an index that no delegation or name has.
fn absent(random: &mut Random, count: u64) -> u64 {
    count + random.below(LABELS - count)
}

fn address_type(random: &mut Random) -> Type {
    if random.percent(65) { Type::A } else { Type::AAAA }
}

fn delegation(seed: u64, random: &mut Random, count: u64, nxdomain: u64) -> (String, Type, Edns) {
    let index = if random.percent(nxdomain) { absent(random, count) } else { random.below(count) };
    let prefix = random.pick(&["www.", "www.", "", "mail.", "_dmarc."]);
    let qtype = match prefix {
        "_dmarc." => Type::TXT,
        "" if random.percent(30) => Type::MX,
        _ => address_type(random),
    };
    (format!("{prefix}{}.test", label(seed, index)), qtype, Edns::None)
}

fn many(seed: u64, random: &mut Random, count: u64) -> (String, Type, Edns) {
    let zone = small_zone_name(seed, random.below(count));
    let (prefix, qtype) = match random.below(100) {
        0..50 => ("www.".to_string(), address_type(random)),
        50..70 => (String::new(), Type::A),
        70..80 => (String::new(), Type::MX),
        80..85 => (String::new(), Type::NS),
        85..90 => ("ns1.".to_string(), Type::A),
        _ => (random.letters(8) + ".", Type::A),
    };
    (format!("{prefix}{zone}"), qtype, Edns::None)
}

fn signed(seed: u64, random: &mut Random, count: u64) -> (String, Type, Edns) {
    // Of ten names one is a delegation (the last), and only even ones have an AAAA record.
    let ten = random.below((count / 10).max(1)) * 10;
    let (index, qtype) = match random.below(100) {
        0..45 => (ten + random.below(9), Type::A),
        45..60 => (ten + random.below(4) * 2, Type::AAAA),
        60..85 => (absent(random, count), Type::A),
        85..95 => (ten + random.below(4) * 2 + 1, Type::AAAA),
        _ => (ten + 9, Type::A),
    };
    (format!("{}.signed.test", label(seed, index)), qtype, Edns::Do)
}

fn root(random: &mut Random, names: &[String]) -> (String, Type, Edns) {
    let edns = match random.below(100) {
        0..70 => Edns::Do,
        70..85 => Edns::Plain,
        _ => Edns::None,
    };
    let (name, qtype) = match random.below(1000) {
        // Browsers that probe for wildcards, then names that leak from home and company networks.
        0..350 => {
            let length = 7 + random.below(9) as usize;
            (random.letters(length), address_type(random))
        }
        350..650 => {
            let leaf = random.pick(&["", "wpad.", "router.", "printer.", "_ldap._tcp.dc._msdcs."]);
            let top = random.pick(&[
                "local",
                "home",
                "lan",
                "corp",
                "internal",
                "belkin",
                "localdomain",
                "invalid",
            ]);
            (format!("{leaf}{top}"), address_type(random))
        }
        650..850 => {
            let popular = random.pick(&["com", "com", "com", "net", "org", "arpa", "de", "uk", "cn"]);
            (format!("www.{}.{popular}", random.letters(9)), address_type(random))
        }
        850..980 => {
            let top = &names[random.below(names.len() as u64) as usize];
            (format!("{}.{top}", random.letters(8)), address_type(random))
        }
        980..990 => (names[random.below(names.len() as u64) as usize].clone(), Type::DS),
        990..995 => (".".to_string(), Type::NS),
        995..998 => (".".to_string(), Type::DNSKEY),
        _ => (".".to_string(), Type::SOA),
    };
    (name, qtype, edns)
}

/// Writes `count` queries of a mix to `folder/KEY.{wire,text}`, unless they exist.
pub(crate) fn make(folder: &Path, key: &str, mix: &Mix, seed: u64, count: u64) -> Result<QuerySet> {
    let stem = format!("{key}-q{count}-s{seed}");
    let part = |number: u64| folder.join(format!("{stem}.part{number}.wire"));
    let set = QuerySet {
        wire: folder.join(format!("{stem}.wire")),
        parts: (0..PARTS).map(part).collect(),
        text: folder.join(format!("{stem}.text")),
        count,
    };
    if [&set.wire, &set.text].into_iter().chain(&set.parts).all(|file| file.is_file()) {
        return Ok(set);
    }
    fs::create_dir_all(folder)?;
    let (mut wire, mut text) = (Whole::create(&set.wire)?, Whole::create(&set.text)?);
    let mut parts = set.parts.iter().map(|part| Whole::create(part)).collect::<Result<Vec<_>>>()?;
    // Another seed than the zone's, or queries would follow the zone's sequence.
    let mut random = Random::new(seed ^ 0x7175_6572_7900);
    let mut message = Vec::with_capacity(128);
    for number in 0..count {
        let (name, qtype, edns) = mix.next(number, seed, &mut random);
        message.clear();
        write_query(&mut message, &name, qtype, edns);
        message[2] |= u8::from(mix.recurses());
        let at = (number / (count / PARTS).max(1)).min(PARTS - 1) as usize;
        for out in [Some(&mut wire), parts.get_mut(at)].into_iter().flatten() {
            out.out.write_all(&(message.len() as u16).to_be_bytes())?;
            out.out.write_all(&message)?;
        }
        let flags = match edns {
            Edns::None => "",
            Edns::Plain => " E",
            Edns::Do => " D",
        };
        let root = if name.ends_with('.') { "" } else { "." };
        writeln!(text.out, "{name}{root} {}{flags}", qtype)?;
    }
    for file in parts.into_iter().chain([wire, text]) {
        file.finish()?;
    }
    Ok(set)
}

/// A file that gets its name once it is complete.
struct Whole {
    out: BufWriter<File>,
    unfinished: PathBuf,
    path: PathBuf,
}

impl Whole {
    fn create(path: &Path) -> Result<Whole> {
        let unfinished = path.with_added_extension("unfinished");
        Ok(Whole { out: BufWriter::new(File::create(&unfinished)?), unfinished, path: path.to_path_buf() })
    }

    fn finish(mut self) -> Result<()> {
        self.out.flush()?;
        fs::rename(self.unfinished, self.path)?;
        Ok(())
    }
}

/// Reads queries from a wire file: every `step`th, at most `limit`.
pub(crate) fn read(path: &Path, limit: usize, step: usize) -> Result<Vec<Vec<u8>>> {
    let mut file =
        std::io::BufReader::new(File::open(path).context(|| format!("cannot read {}", path.display()))?);
    let mut queries = Vec::with_capacity(limit.min(1 << 20));
    let mut position = 0;
    while queries.len() < limit {
        let mut length = [0; 2];
        if file.read_exact(&mut length).is_err() {
            break;
        }
        let length = usize::from(u16::from_be_bytes(length));
        if position % step.max(1) == 0 {
            let mut message = vec![0; length];
            file.read_exact(&mut message).context(|| "query file cut off".to_string())?;
            queries.push(message);
        } else {
            file.seek_relative(length as i64).context(|| "query file cut off".to_string())?;
        }
        position += 1;
    }
    if queries.is_empty() {
        return Err(Failure::new(format!("no queries in {}", path.display())));
    }
    Ok(queries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_hold_the_same_queries_and_are_repeatable() {
        let folder = tempfile::tempdir().unwrap();
        let mix = Mix::Delegations { count: 100, nxdomain: 15 };
        let set = make(folder.path(), "d", &mix, 9, 500).unwrap();
        let queries = read(&set.wire, 1000, 1).unwrap();
        let text = fs::read_to_string(&set.text).unwrap();
        assert_eq!((queries.len(), text.lines().count()), (500, 500));
        let first = fs::read(&set.wire).unwrap();
        fs::remove_file(&set.wire).unwrap();
        make(folder.path(), "d", &mix, 9, 500).unwrap();
        assert_eq!(fs::read(&set.wire).unwrap(), first);
        assert_eq!(read(&set.wire, 1000, 10).unwrap().len(), 50);
        assert_eq!(read(&set.wire, 20, 10).unwrap()[1], queries[10]);
        let parts: Vec<u8> = set.parts.iter().flat_map(|part| fs::read(part).unwrap()).collect();
        assert_eq!(parts, first, "parts that are not the whole");
        assert!(set.parts.iter().all(|part| read(part, 1000, 1).unwrap().len() >= 500 / 8));
    }

    #[test]
    fn the_most_popular_question_is_asked_as_often_as_zipf_says() {
        let zipf = Zipf::new(100);
        let mut random = Random::new(4);
        let mut counts = [0u32; 100];
        for _ in 0..100_000 {
            counts[zipf.pick(&mut random) as usize] += 1;
        }
        // The harmonic number of 100 is 5.187.
        assert!((18_700..19_900).contains(&counts[0]), "{}", counts[0]);
        assert!((9_200..10_100).contains(&counts[1]), "{}", counts[1]);
        assert!(counts[99] > 100, "{}", counts[99]);
        assert_eq!(Zipf::new(0).pick(&mut random), 0);
    }

    #[test]
    fn what_resolvers_are_asked_wants_recursion_and_repeats_only_where_it_should() {
        let folder = tempfile::tempdir().unwrap();
        let all = |mix: &Mix, key: &str| {
            read(&make(folder.path(), key, mix, 9, 600).unwrap().wire, 1000, 1).unwrap()
        };
        let (each, unique) = (all(&Mix::Each(Known::Plain), "each"), all(&Mix::Unique, "unique"));
        let popular = all(&Mix::Popular(Zipf::new(50), Known::Plain), "popular");
        for queries in [&each, &unique, &popular] {
            assert!(queries.iter().all(|query| query[2] == 1), "RD");
        }
        let distinct = |queries: &[Vec<u8>]| queries.iter().collect::<std::collections::HashSet<_>>().len();
        assert_eq!((distinct(&each), distinct(&unique)), (600, 600));
        assert!(popular.iter().all(|query| each[..50].contains(query)));
        let mut written = Vec::new();
        write_known(&mut written, 9, 17);
        assert_eq!(written, each[17]);
        written.clear();
        write_unique(&mut written, 9, 17);
        assert_eq!(written, unique[17]);
    }

    #[test]
    fn signed_mix_asks_for_what_the_zone_has() {
        let mut random = Random::new(4);
        let (mut delegated, mut aaaa) = (0, 0);
        let names: Vec<String> = (0..100).map(|index| format!("{}.signed.test", label(1, index))).collect();
        for _ in 0..2000 {
            let (name, qtype, edns) = signed(1, &mut random, 100);
            assert_eq!(edns, Edns::Do);
            let Some(index) = names.iter().position(|known| *known == name) else { continue };
            delegated += usize::from(index % 10 == 9);
            aaaa += usize::from(qtype == Type::AAAA && index % 2 == 0);
        }
        assert!(delegated > 50 && aaaa > 200, "{delegated} {aaaa}");
    }

    #[test]
    fn root_mix_is_mostly_do_and_mostly_missing() {
        let mut random = Random::new(4);
        let names = vec!["com".to_string(), "net".to_string()];
        let queries: Vec<_> = (0..10_000).map(|_| root(&mut random, &names)).collect();
        let with_do = queries.iter().filter(|query| query.2 == Edns::Do).count();
        let single = queries.iter().filter(|query| !query.0.contains('.')).count();
        assert!((6_800..7_200).contains(&with_do), "{with_do}");
        assert!(single > 3_000, "{single}");
    }
}
