//! Random zones and questions against the reference of [`testkit::answers`].

use proptest::prelude::*;
use proptest::sample::Index;
use testkit::answers::{self, Line, Served};
use testkit::model::ModelZone;
use testkit::{Record, random};
use wire::{Name, NameBuf, Rcode, Ttl, Type};

use crate::sign::{self, Chain, sign};
use crate::support::{Query, Server, canonical_line, key, name};

const TYPES: [Type; 16] = [
    Type::A,
    Type::A,
    Type::AAAA,
    Type::NS,
    Type::MX,
    Type::SRV,
    Type::SVCB,
    Type::CNAME,
    Type::DNAME,
    Type::SOA,
    Type::DS,
    Type::ANY,
    Type::RRSIG,
    Type::NSEC,
    Type::NSEC3,
    Type::TXT,
];

/// One question, made definite when the zones are known.
#[derive(Clone, Debug)]
struct Choice {
    name: Index,
    child: Option<&'static str>,
    deeper: Option<&'static str>,
    qtype: Type,
    dnssec_ok: bool,
    upper: bool,
}

fn choice() -> impl Strategy<Value = Choice> {
    let label = || prop::option::weighted(0.4, prop::sample::select(vec!["a", "b", "*", "ns", "zz"]));
    let qtype = prop::sample::select(TYPES.to_vec());
    (any::<Index>(), label(), label(), qtype, any::<bool>(), any::<bool>()).prop_map(
        |(name, child, deeper, qtype, dnssec_ok, upper)| Choice {
            name,
            child,
            deeper,
            qtype,
            dnssec_ok,
            upper,
        },
    )
}

/// A zone of up to `most` records with one SOA and NS at the apex; no DNSSEC records if it is to be signed.
fn zone_at(apex: NameBuf, most: usize) -> impl Strategy<Value = (NameBuf, Vec<Record>)> {
    let ds = (random::name_below(apex), 0..3u8).prop_map(|(owner, n)| {
        let rdata = [&[0, n, 13, 2][..], &[n; 32]].concat();
        Record { owner, rtype: Type::DS, ttl: Ttl::from_secs(300), rdata }
    });
    let record = prop_oneof![12 => random::record(apex), 1 => ds];
    prop::collection::vec(record, 0..most).prop_map(move |mut records| {
        let rdata = random::soa(apex.as_name(), 1);
        records.push(Record { owner: apex, rtype: Type::SOA, ttl: Ttl::from_secs(3600), rdata });
        (apex, records)
    })
}

/// One to three zones, some below others, with cuts between them if chance made them.
fn zones() -> impl Strategy<Value = Vec<(NameBuf, Vec<Record>)>> {
    let apexes = vec![
        vec!["."],
        vec!["Com."],
        vec!["eXample.com.", "a.example.com."],
        vec!["example.com.", "com."],
        vec!["a.b.com.", "com.", "host.elsewhere.net."],
        vec![".", "a.", "b.a."],
    ];
    prop::sample::select(apexes).prop_flat_map(|apexes| {
        let most = 60 / apexes.len();
        apexes.into_iter().map(|apex| zone_at(name(apex), most)).collect::<Vec<_>>()
    })
}

fn chain() -> impl Strategy<Value = Option<Chain>> {
    let nsec3 = |opt_out, salt: &[u8]| Some(Chain::Nsec3 { opt_out, iterations: 1, salt: salt.to_vec() });
    prop::sample::select(vec![
        None,
        Some(Chain::Nsec),
        Some(Chain::Nsec),
        nsec3(false, b""),
        nsec3(true, b"\xab\xcd"),
    ])
}

/// Unsigned zones keep whatever DNSSEC records chance gave them, but for what would make them signed.
fn settle(apex: Name<'_>, records: &[Record], chain: Option<&Chain>) -> Vec<Record> {
    match chain {
        // Records beside CNAME or DNAME have no place in a signed zone's chain.
        Some(chain) => sign(apex, records, chain),
        None => {
            let signs_soa = |r: &&Record| r.rtype == Type::RRSIG && r.rdata[..2] == Type::SOA.0.to_be_bytes();
            records.iter().filter(|r| !signs_soa(r)).cloned().collect()
        }
    }
}

/// Owners of all zones and their ancestors.
fn universe(zones: &[ModelZone]) -> Vec<NameBuf> {
    zones.iter().flat_map(ModelZone::all).collect()
}

fn definite(choice: &Choice, universe: &[NameBuf]) -> Query {
    let mut name = universe[choice.name.index(universe.len())];
    for label in choice.child.iter().chain(&choice.deeper) {
        name = NameBuf::prepend(label.as_bytes(), name.as_name()).unwrap_or(name);
    }
    if choice.upper {
        let upper = name.as_name().as_wire().to_ascii_uppercase();
        name = Name::from_wire(&upper).expect("a name still").to_buf();
    }
    Query { dnssec_ok: choice.dnssec_ok, ..Query::new(name, choice.qtype) }
}

/// Sorted lines. Signatures that cover nothing have TTLs that the model does not keep.
fn comparable(lines: &[Line], masked: bool) -> Vec<Line> {
    let mut lines: Vec<Line> = lines.iter().map(canonical_line).collect();
    for line in lines.iter_mut().filter(|line| masked && line.rtype == Type::RRSIG) {
        line.ttl = Ttl::ZERO;
    }
    lines.sort();
    lines
}

fn check(
    zones: &[(NameBuf, Vec<Record>)],
    chains: &[Option<Chain>],
    choices: &[Choice],
) -> Result<(), TestCaseError> {
    let settled: Vec<(NameBuf, Vec<Record>)> = zones
        .iter()
        .zip(chains)
        .map(|((apex, records), chain)| (*apex, settle(apex.as_name(), records, chain.as_ref())))
        .collect();
    let built = settled.iter().map(|(apex, records)| testkit::build(apex.as_name(), &key(), records));
    let server = Server::of(built);
    let models: Vec<ModelZone> =
        settled.iter().map(|(apex, records)| ModelZone::new(apex.as_name(), records)).collect();
    let served = Served { zones: &models, hash: sign::hash, max_chain: 16 };
    let universe = universe(&models);
    for choice in choices {
        let query = definite(choice, &universe);
        let expected = answers::answer(&served, query.name.as_name(), query.qtype, query.dnssec_ok);
        let got = server.ask(&query);
        let (Some(expected), Some(got)) = (expected, got) else {
            return Err(TestCaseError::fail(format!("{query:?}: no zone")));
        };
        let masked = chains.contains(&None);
        prop_assert!(!got.truncated, "{query:?}");
        prop_assert_eq!(
            (got.rcode, got.authoritative),
            (expected.rcode, expected.authoritative),
            "{:?}",
            query
        );
        let told = server.explain(&query);
        prop_assert_eq!(told.starts_with("NXDOMAIN"), got.rcode == Rcode::NXDOMAIN, "{:?}: {}", query, told);
        prop_assert_eq!(told.contains("YXDOMAIN"), got.rcode == Rcode::YXDOMAIN, "{:?}: {}", query, told);
        let answer = comparable(&got.sections[0], masked);
        let alternatives: Vec<Vec<Line>> = match &expected.one_of[..] {
            [] => vec![comparable(&expected.answer, masked)],
            sets => {
                sets.iter().map(|set| comparable(&[&expected.answer[..], set].concat(), masked)).collect()
            }
        };
        prop_assert!(
            alternatives.contains(&answer),
            "{:?}: answer {:#?}, expected {:#?}",
            query,
            answer,
            alternatives
        );
        prop_assert_eq!(
            comparable(&got.sections[1], masked),
            comparable(&expected.authority, masked),
            "{:?}: authority",
            query
        );
        prop_assert_eq!(
            comparable(&got.sections[2], masked),
            comparable(&expected.additional, masked),
            "{:?}: additional",
            query
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(150))
    })]
    #[test]
    fn random_zones_are_answered_as_the_reference_does(
        zones in zones(),
        chains in prop::collection::vec(chain(), 3),
        choices in prop::collection::vec(choice(), 1..60),
    ) {
        check(&zones, &chains, &choices)?;
    }
}
