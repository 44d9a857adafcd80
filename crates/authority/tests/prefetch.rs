//! Checks line by line that the data that an answer reads was prefetched in an earlier pass; the table below
//! has the exceptions. A lost prefetch changes no answer, only the time with a large zone: here it fails a
//! test.

use std::collections::{BTreeSet, HashMap, HashSet};

use authority::{AnswerLocation, Ask, HashingLimit, PASSES, Scratch, answer};
use testkit::{Chain, ModelRecord, key, name, random, sign};
use wire::hash::HashedName;
use wire::message::{Builder, Compressor, Header};
use wire::{Class, Ttl, Type};
use zone::catalog::ZoneEntry;
use zone::prefetch::Part;
use zone::prefetch::record::{LineAccess, take};
use zone::{Catalog, Change};

/// Hosts and delegations of a zone: so many that nodes and index are in huge pages of their own, and the
/// place of a node within a cache line is the same in every run.
const EACH: usize = 12_000;
/// Queries of a row, where one zone is queried.
const ASKED: usize = 300;
/// Small zones.
const SMALL: usize = 300;

/// Parts of the zone that an answer may wait for.
const PARTS: [Part; 4] = [Part::Index, Part::Node, Part::RrSet, Part::Chain];

/// The columns of the table.
const HEAD: &str = "zone  qname       qtype code          passes  index   node  rrset  chain";

/// Cache lines that a hundred queries wait for: in the passes, and in the answer for each part. If a number
/// gets smaller, more is prefetched: update the table, so that it stays.
///
/// - index: the search of a full bucket continues in the next one.
/// - node, rrset: the first lines of a node are prefetched, of a host only the first; signatures follow them.
/// - chain: the passes search for one of an answer's proofs.
/// - Nothing is prefetched for the target of an alias.
const EXPECTED: &str = "\
plain h#          A     NOERROR             0      1      2      2      0
plain h#          TXT   NOERROR             0      1      2      0      0
plain www.d#      A     NOERROR             0     50    159    158      0
plain d#          A     NOERROR             0     24    159    158      0
plain d#          DS    NOERROR             0     24     36     46      0
plain x#          A     NXDOMAIN            0     33      0      0      0
plain x#.y#       A     NXDOMAIN            0     40      0      0      0
plain x.h#        A     NXDOMAIN            0     32      2      0      0
plain x#.w        A     NOERROR             0     22      0      0      0
plain c#          A     NOERROR             0    103     96     95      0
nsec  h#          A     NOERROR             0      7      4     44      0
nsec  h#          TXT   NOERROR             0      7      4    248      0
nsec  www.d#      A     NOERROR             0     36    107    295      0
nsec  d#          A     NOERROR             0      7    109    296      0
nsec  d#          DS    NOERROR             0      7      2    189      0
nsec  x#          A     NXDOMAIN            0     28      3      3      8
nsec  x#.y#       A     NXDOMAIN            0     50      4      4     10
nsec  x.h#        A     NXDOMAIN            0     31      1    247     24
nsec  x#.w        A     NOERROR             0     23      3      9      9
nsec  c#          A     NOERROR             0    116    161    335      0
nsec3 h#          A     NOERROR             0      7     14     49      0
nsec3 h#          TXT   NOERROR             0      7     15    113      2
nsec3 www.d#      A     NOERROR             0     30    125    309      0
nsec3 d#          A     NOERROR             0      8    125    309      0
nsec3 d#          DS    NOERROR             0      8     16    194      0
nsec3 x#          A     NXDOMAIN            0     23      7    122     18
nsec3 x#.y#       A     NXDOMAIN            0     45     11    122     27
nsec3 x.h#        A     NXDOMAIN            0     37    388    775   1010
nsec3 x#.w        A     NOERROR             0     25      6    118     17
nsec3 c#          A     NOERROR             0    113    155    336      0
small h           A     NOERROR             3      0      0      0      0
small x           A     NXDOMAIN            3      0      0      0      0
";

fn record(owner: &str, rtype: Type, rdata: &[u8]) -> ModelRecord {
    ModelRecord { owner: name(owner), rtype, ttl: Ttl::from_secs(3600), rdata: rdata.to_vec() }
}

fn to(owner: &str, rtype: Type, target: &str) -> ModelRecord {
    record(owner, rtype, name(target).as_name().as_wire())
}

/// `hN`, hosts; `cN`, aliases of those; `dN`, delegated to two hosts below it, half of them with DS; a
/// wildcard.
fn records(apex: &str) -> Vec<ModelRecord> {
    let mut all = vec![
        record(apex, Type::SOA, &random::soa(name(apex).as_name(), 1)),
        to(apex, Type::NS, &format!("h0.{apex}")),
        record(&format!("*.w.{apex}"), Type::A, &[192, 0, 2, 2]),
    ];
    for i in 0..EACH {
        let [host, alias, cut] = ["h", "c", "d"].map(|label| format!("{label}{i}.{apex}"));
        all.push(record(&host, Type::A, &[192, 0, 2, 1]));
        all.push(to(&alias, Type::CNAME, &host));
        for label in ["ns1", "ns2"] {
            let server = format!("{label}.{cut}");
            all.push(to(&cut, Type::NS, &server));
            all.push(record(&server, Type::A, &[192, 0, 2, 53]));
        }
        if i % 2 == 0 {
            all.push(record(&cut, Type::DS, &[&[0, 1, 13, 2][..], &[7; 32]].concat()));
        }
    }
    all
}

fn catalog() -> Catalog {
    let big = [("plain.", None), ("nsec.", Some(Chain::Nsec)), ("nsec3.", Some(Chain::NSEC3))];
    let big = big.into_iter().map(|(apex, chain)| {
        let records = records(apex);
        (apex.to_owned(), chain.map_or(records.clone(), |chain| sign(name(apex).as_name(), &records, &chain)))
    });
    // So many zones that they, too, are prefetched.
    let small = (0..SMALL).map(|i| {
        let apex = format!("small{i}.");
        let soa = record(&apex, Type::SOA, &random::soa(name(&apex).as_name(), 1));
        let host = record(&format!("h.{apex}"), Type::A, &[192, 0, 2, 1]);
        (apex, vec![soa, host])
    });
    let serve = |(apex, records): (String, Vec<ModelRecord>)| {
        Change::Serve(testkit::build(name(&apex).as_name(), &key(), &records).into())
    };
    Catalog::new(&key()).with(big.chain(small).map(serve)).expect("zones of one key")
}

/// Lines that were read before they were prefetched: the step, the part, and the line.
type Cold = BTreeSet<(&'static str, Part, usize)>;

/// Takes a query through the passes and answers it.
fn ask(catalog: &Catalog, qname: &str, qtype: Type, rcode: &str) -> Cold {
    const PASS: [&str; 5] = ["pass 0", "pass 1", "pass 2", "pass 3", "pass 4"];
    const { assert!(PASS.len() == PASSES) };
    let (asked, key) = (name(qname), key());
    let mut qname = HashedName::new();
    qname.set(&key, asked.as_name());
    let (mut cold, mut known) = (Cold::new(), HashSet::new());
    take();
    let mut after = |step: &'static str| {
        let done = take();
        // A line prefetched in the step that reads it is too late.
        cold.extend(done.iter().filter_map(|access| match access {
            LineAccess::Read(part, line) if !known.contains(line) => Some((step, *part, *line)),
            _ => None,
        }));
        known.extend(done.into_iter().map(|(LineAccess::Read(_, line) | LineAccess::Prefetch(line))| line));
    };
    catalog.prefetch(&qname);
    after("start");
    let mut location = AnswerLocation::find(catalog, &qname, qtype, true).expect("a zone");
    after("find");
    for (pass, step) in PASS.iter().enumerate() {
        let more = location.prefetch(catalog, pass, &qname);
        after(step);
        if !more {
            break;
        }
    }
    let (mut buf, mut names) = (vec![0; 65_535], Compressor::small());
    let mut b = Builder::new(&mut buf, 65_535, Header::query(1).reply(), &mut names);
    b.question(asked.as_name(), qtype, Class::IN).expect("the question fits");
    let name = asked.as_name();
    let (qname, key, hashing) = (&qname, &key, HashingLimit::at(std::time::Instant::now()));
    let (dnssec_ok, resolves, may_enter, max_chain) = (true, &|| false, &|_: &ZoneEntry| true, 16);
    let compact_ok = &|| false;
    let ask = Ask {
        name,
        qname,
        qtype,
        dnssec_ok,
        compact_ok,
        catalog,
        key,
        resolves,
        may_enter,
        max_chain,
        hashing,
    };
    answer(&ask, &location, &mut b, &mut Scratch::new()).expect("a snapshot");
    assert_eq!(b.rcode().to_string(), rcode, "{asked} {qtype}");
    after("answer");
    cold
}

/// Returns the queries of a row: each small zone is queried once, a large one for names from all over it.
fn questions(zone: &str, label: &str) -> Vec<String> {
    match zone {
        "small" => (0..SMALL).map(|i| format!("{label}.small{i}.")).collect(),
        _ => (0..ASKED)
            .map(|i| format!("{}.{zone}.", label.replace('#', &(i * EACH / ASKED).to_string())))
            .collect(),
    }
}

/// Returns the cache lines that a hundred of the queries wait for: before the answer, and in the answer for
/// each part.
fn waiting(all: &[Cold]) -> [usize; 1 + PARTS.len()] {
    let mut readers = HashMap::<usize, usize>::new();
    for cold in all {
        let lines: HashSet<usize> = cold.iter().map(|(.., line)| *line).collect();
        lines.into_iter().for_each(|line| *readers.entry(line).or_default() += 1);
    }
    // Lines that one query in ten reads are in the cache anyway: the apex, the only wildcard.
    let cold = all.iter().flatten().filter(|(.., line)| readers[line] <= all.len() / 10);
    let mut waiting = [0; 1 + PARTS.len()];
    cold.for_each(|(step, part, _)| {
        let column = PARTS.iter().position(|p| p == part && *step == "answer").map_or(0, |at| 1 + at);
        waiting[column] += 1;
    });
    waiting.map(|lines: usize| (100 * lines).div_ceil(all.len()))
}

#[test]
fn answers_wait_for_no_memory_but_what_is_written_down() {
    let (catalog, mut found, mut same) = (catalog(), String::new(), true);
    for line in EXPECTED.lines() {
        let mut words = line.split_whitespace();
        let (mut word, head) = (|| words.next().expect("a word"), &line[..line.len().min(38)]);
        let (zone, label) = (word(), word());
        let (qtype, rcode) = (word().parse::<Type>().expect("a type"), word());
        let expected: [usize; 1 + PARTS.len()] = std::array::from_fn(|_| word().parse().expect("a number"));
        let asked = questions(zone, label);
        let all: Vec<Cold> = asked.iter().map(|qname| ask(&catalog, qname, qtype, rcode)).collect();
        let waiting = waiting(&all);
        same &= waiting == expected;
        found += &waiting.iter().fold(head.to_owned(), |row, n| format!("{row}{n:>7}"));
        found += "\n";
    }
    assert!(same, "cache lines that a hundred questions wait for:\n{HEAD}\n{found}instead of\n{EXPECTED}");
}
