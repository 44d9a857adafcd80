//! Chains of CNAME and DNAME whose names point at each other: readers follow a limited number of pointers.
//!
//! The checks are in `support`, which reads every name of every answer.

use proptest::prelude::*;
use testkit::{Chain, ModelRecord, key, name, random, sign};
use wire::message::MAX_POINTERS;
use wire::{Name, NameBuf, Ttl, Type};

use crate::support::{Query, Server};

const MINUTE: Ttl = Ttl::from_secs(60);

fn record(owner: NameBuf, rtype: Type, rdata: &[u8]) -> ModelRecord {
    ModelRecord { owner, rtype, ttl: MINUTE, rdata: rdata.to_vec() }
}

fn to(owner: &str, rtype: Type, target: &str) -> ModelRecord {
    record(name(owner), rtype, name(target).as_name().as_wire())
}

fn serve(records: &[ModelRecord]) -> Server {
    let apex = name("example.");
    let mut all = vec![record(apex, Type::SOA, &random::soa(apex.as_name(), 1))];
    all.extend_from_slice(records);
    Server::of([testkit::build(apex.as_name(), &key(), &all)])
}

/// A DNAME whose target is below itself yields each name of the chain from the one before by one more label,
/// so that each could point at it.
#[test]
fn names_that_a_dname_makes_do_not_point_through_all_those_before() {
    let server = serve(&[to("d.example.", Type::DNAME, "a.d.example.")]);
    for max_chain in [1, MAX_POINTERS as u8 - 1, MAX_POINTERS as u8, 16, 60] {
        let query = Query { max_chain, ..Query::new(name("x.d.example."), Type::A) };
        let answer = server.ask(&query).expect("a zone");
        let made = 1 + max_chain as usize; // one for the question, and one for each link followed
        assert_eq!(answer.sections[0].len(), 1 + made, "the DNAME and the CNAMEs");
        let longest = format!("x.{}d.example.", "a.".repeat(made));
        let last = answer.sections[0].last().map(|line| line.rdata.clone());
        assert_eq!(last.as_deref(), Some(name(&longest).as_name().as_wire()));
    }
}

/// The hosts of an RRset, each below the one before: addresses point at deeply nested names.
#[test]
fn hosts_below_each_other_are_readable_with_their_addresses() {
    let (mut records, mut host) = (Vec::new(), "mail.example.".to_owned());
    for i in 0..30 {
        host = format!("h{i}.{host}");
        let rdata = [&[0, i], name(&host).as_name().as_wire()].concat();
        for owner in ["mx.example.", "*.wild.example."] {
            records.push(record(name(owner), Type::MX, &rdata));
        }
        records.push(record(name(&host), Type::A, &[192, 0, 2, i]));
    }
    records.push(to("c.example.", Type::CNAME, "mx.example."));
    let server = serve(&records);
    for qname in ["mx.example.", "x.wild.example.", "c.example."] {
        let answer = server.ask(&Query::new(name(qname), Type::MX)).expect("a zone");
        assert_eq!(answer.sections[2].len(), 30, "{qname}");
    }
}

/// Labels from a set so small that names share many.
fn label() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "c", "dd"])
}

/// A name with up to `most` labels below the apex.
fn below(most: usize) -> impl Strategy<Value = NameBuf> {
    prop::collection::vec(label(), 0..=most).prop_map(|labels| {
        let apex = name("example.");
        labels.iter().fold(apex, |name, label| {
            NameBuf::prepend(label.as_bytes(), name.as_name()).expect("a short name")
        })
    })
}

/// Aliases of every kind, and hosts at their ends.
fn alias() -> impl Strategy<Value = ModelRecord> {
    (below(3), below(5), 0..8u8).prop_map(|(owner, target, kind)| {
        let wire = target.as_name().as_wire();
        let wild = NameBuf::prepend(b"*", owner.as_name()).expect("a short name");
        match kind {
            0..3 => record(owner, Type::CNAME, wire),
            3..5 => record(owner, Type::DNAME, wire),
            5 => record(wild, Type::CNAME, wire),
            6 => record(owner, Type::MX, &[&[0, 1], wire].concat()),
            _ => record(owner, Type::A, &[192, 0, 2, 1]),
        }
    })
}

fn settle(apex: Name<'_>, records: &[ModelRecord], signed: bool) -> Vec<ModelRecord> {
    match signed {
        true => sign(apex, records, &Chain::Nsec),
        false => records.to_vec(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
    #[test]
    fn every_name_of_every_chain_is_readable_by_everybody(
        aliases in prop::collection::vec(alias(), 1..25),
        names in prop::collection::vec(below(6), 1..20),
        qtype in prop::sample::select(vec![Type::A, Type::MX, Type::ANY, Type::RRSIG]),
        dnssec_ok: bool,
        signed: bool,
    ) {
        let apex = name("example.");
        let mut records = vec![record(apex, Type::SOA, &random::soa(apex.as_name(), 1))];
        records.extend(aliases);
        let server = Server::of([testkit::build(apex.as_name(), &key(), &settle(apex.as_name(), &records, signed))]);
        for qname in names {
            let query = Query { dnssec_ok, max_chain: 60, ..Query::new(qname, qtype) };
            // The test is that it can be read.
            prop_assert!(server.ask(&query).is_some());
        }
    }
}
