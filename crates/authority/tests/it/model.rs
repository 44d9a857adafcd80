//! Random zones and queries against the reference of [`testkit::answers`].

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::Index;
use testkit::answers::{Line, ModelZones};
use testkit::model::ModelZone;
use testkit::{ModelRecord, key, random};
use wire::{Name, NameBuf, Rcode, Type};

use authority::explain::{Step, StepKind};
use testkit::decode::Decoded;

use crate::support::{Query, Server};

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

/// One query; its name is chosen when the zones are known.
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

/// The denial records in the steps.
fn proofs_told(steps: &[Step]) -> BTreeSet<NameBuf> {
    let owner = |step: &Step| match &step.kind {
        StepKind::Proof(proof) => Some(proof.owner),
        _ => None,
    };
    steps.iter().filter_map(owner).collect()
}

/// The denial records in the authority section.
fn proofs_sent(answer: &Decoded) -> BTreeSet<NameBuf> {
    let denial = |record: &&Line| matches!(record.rtype, Type::NSEC | Type::NSEC3);
    answer.sections[1].iter().filter(denial).map(|record| record.owner).collect()
}

fn check(zones: &[(NameBuf, Vec<ModelRecord>)], choices: &[Choice]) -> Result<(), TestCaseError> {
    let built = zones.iter().map(|(apex, records)| testkit::build(apex.as_name(), &key(), records));
    let server = Server::of(built);
    let models = zones.iter().map(|(apex, records)| ModelZone::new(apex.as_name(), records)).collect();
    let served = ModelZones { zones: models, unloaded: Vec::new(), max_chain: 16 };
    let universe = universe(&served.zones);
    for choice in choices {
        let query = definite(choice, &universe);
        let expected = served.answer(query.name.as_name(), query.qtype, query.dnssec_ok);
        let (Ok(expected), Some(got)) = (expected, server.ask(&query)) else {
            return Err(TestCaseError::fail(format!("{query:?}: no zone")));
        };
        prop_assert!(!got.header.truncated(), "{query:?}");
        prop_assert_eq!(
            (got.rcode, got.header.authoritative()),
            (expected.rcode, expected.authoritative),
            "{:?}",
            query
        );
        let steps = server.explain(&query);
        let says = |found: fn(&StepKind) -> bool| steps.iter().any(|step| found(&step.kind));
        let nxdomain = says(|kind| matches!(kind, StepKind::NxDomain(_)));
        prop_assert_eq!(nxdomain, got.rcode == Rcode::NXDOMAIN, "{:?}: {:?}", query, steps);
        let yxdomain = says(|kind| matches!(kind, StepKind::TooLong));
        prop_assert_eq!(yxdomain, got.rcode == Rcode::YXDOMAIN, "{:?}: {:?}", query, steps);
        if query.dnssec_ok {
            prop_assert_eq!(proofs_told(&steps), proofs_sent(&got), "{:?}: {:?}", query, steps);
        }
        prop_assert_eq!(expected.compare(&got.sections), Ok(()), "{:?}", query);
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
        zones in random::zones(),
        choices in prop::collection::vec(choice(), 1..60),
    ) {
        check(&zones, &choices)?;
    }
}
