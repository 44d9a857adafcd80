//! Random sequences of updates, compared with an interpreter of RFC 2136 on plain maps: same response code,
//! same records, same serial. The result equals a zone that was built as a whole.
//!
//! `PROPTEST_CASES=100000 cargo test -p update --test model` tries more cases.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use support::{Raw, apex, message, rdata_of, zone};
use testkit::choices::Choices;
use testkit::versions::assert_same;
use testkit::{build, key, name};
use update::{Requester, SerialPolicy, UpdateLimits, UpdatePolicy, UpdateRequest, Updater};
use wire::{Class, NameBuf, Rcode, Serial, Ttl, Type, UnixTime};
use zone::Zone;
use zone::store::diff;

const NOW: UnixTime = UnixTime::from_secs(1_795_327_230);

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(2000)
}

/// A zone: for each name in lower case and each type, RDATA in canonical form and its TTL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model(BTreeMap<(Vec<u8>, Type), BTreeMap<Vec<u8>, Ttl>>);

fn lower(name: &NameBuf) -> Vec<u8> {
    name.as_name().as_wire().to_ascii_lowercase()
}

fn canonical(rtype: Type, rdata: &[u8]) -> Vec<u8> {
    let mut rdata = rdata.to_vec();
    wire::rdata::canonical(rtype, &mut rdata);
    rdata
}

fn serial_in(soa: &[u8]) -> Serial {
    let at = soa.len() - 20;
    Serial(u32::from_be_bytes([soa[at], soa[at + 1], soa[at + 2], soa[at + 3]]))
}

impl Model {
    fn of(zone: &Zone) -> Model {
        let mut model = Model::default();
        for record in testkit::versions::records(zone) {
            let set = model.0.entry((lower(&record.owner), record.rtype)).or_default();
            set.insert(canonical(record.rtype, &record.rdata), record.ttl);
        }
        model
    }

    fn has_name(&self, owner: &[u8]) -> bool {
        self.0.keys().any(|(name, _)| name == owner)
    }

    fn has(&self, owner: &[u8], rtype: Type) -> bool {
        self.0.contains_key(&(owner.to_vec(), rtype))
    }

    fn serial(&self) -> Serial {
        serial_in(self.0[&(lower(&apex()), Type::SOA)].keys().next().expect("an SOA"))
    }

    /// RFC 2136 §3.1 to §3.4.1: the checks that do not use the zone.
    fn prescan(raw: &[Raw]) -> Rcode {
        for record in raw {
            let in_zone = record.owner.as_name().is_at_or_below(apex().as_name());
            if !in_zone {
                return Rcode::NOTZONE;
            }
            let any_or_none = record.class == Class::ANY || record.class == Class::NONE;
            let good_class = any_or_none || record.class == Class::IN;
            let good = match record.is_prerequisite {
                true => good_class && record.ttl == 0 && (!any_or_none || record.rdata.is_empty()),
                false => match record.class {
                    Class::IN => !record.rtype.is_meta(),
                    Class::ANY => {
                        record.ttl == 0
                            && record.rdata.is_empty()
                            && (record.rtype == Type::ANY || !record.rtype.is_meta())
                    }
                    Class::NONE => record.ttl == 0 && !record.rtype.is_meta(),
                    _ => false,
                },
            };
            let empty_data = any_or_none && (record.is_prerequisite || record.class == Class::ANY);
            if !good || !empty_data && wire::rdata::validate(record.rtype, &record.rdata).is_err() {
                return Rcode::FORMERR;
            }
        }
        Rcode::NOERROR
    }

    /// RFC 2136 §3.2.5.
    fn prerequisites(&self, raw: &[Raw]) -> Rcode {
        let mut temp: BTreeMap<(Vec<u8>, Type), BTreeSet<Vec<u8>>> = BTreeMap::new();
        for rr in raw.iter().filter(|rr| rr.is_prerequisite) {
            let owner = lower(&rr.owner);
            match (rr.class, rr.rtype) {
                (Class::ANY, Type::ANY) if !self.has_name(&owner) => return Rcode::NXDOMAIN,
                (Class::ANY, rtype) if rtype != Type::ANY && !self.has(&owner, rtype) => {
                    return Rcode::NXRRSET;
                }
                (Class::NONE, Type::ANY) if self.has_name(&owner) => return Rcode::YXDOMAIN,
                (Class::NONE, rtype) if rtype != Type::ANY && self.has(&owner, rtype) => {
                    return Rcode::YXRRSET;
                }
                (Class::IN, rtype) => {
                    temp.entry((owner, rtype)).or_default().insert(canonical(rtype, &rr.rdata));
                }
                _ => {}
            }
        }
        for (place, wanted) in temp {
            let there = self.0.get(&place).map(|set| set.keys().cloned().collect()).unwrap_or_default();
            if wanted != there {
                return Rcode::NXRRSET;
            }
        }
        Rcode::NOERROR
    }

    /// RFC 2136 §3.4.2.7, with what the text says and the pseudocode does not: an SOA must be greater, the
    /// last NS counts at the apex only, and DNAME is as in RFC 6672 §5.2.
    fn update(&mut self, rr: &Raw) {
        let owner = lower(&rr.owner);
        let at_apex = owner == lower(&apex());
        let place = (owner.clone(), rr.rtype);
        let data = canonical(rr.rtype, &rr.rdata);
        match rr.class {
            Class::IN => {
                let beside = [Type::NSEC, Type::NSEC3, Type::RRSIG, Type::KEY, Type::SIG, Type::NXT];
                let types: Vec<Type> =
                    self.0.keys().filter(|(name, _)| *name == owner).map(|(_, rtype)| *rtype).collect();
                if rr.rtype == Type::CNAME {
                    if types.iter().any(|rtype| *rtype != Type::CNAME && !beside.contains(rtype)) {
                        return;
                    }
                } else if types.contains(&Type::CNAME) && !beside.contains(&rr.rtype) {
                    return;
                }
                if rr.rtype == Type::DS && at_apex {
                    return;
                }
                if rr.rtype == Type::SOA {
                    let Some(old) = self.0.get(&place).and_then(|set| set.keys().next()) else { return };
                    if serial_in(&data).0.wrapping_sub(serial_in(old).0).wrapping_sub(1) >= 0x7fff_ffff {
                        return;
                    }
                }
                let set = self.0.entry(place).or_default();
                match rr.rtype {
                    Type::CNAME | Type::SOA | Type::DNAME => set.clear(),
                    Type::WKS => set.retain(|old, _| old[..5] != data[..5]),
                    _ => {}
                }
                let ttl = Ttl::from_secs(rr.ttl);
                set.insert(data, ttl);
                set.values_mut().for_each(|old| *old = ttl);
            }
            Class::ANY if rr.rtype == Type::ANY => self.0.retain(|(name, rtype), _| {
                *name != owner || at_apex && [Type::SOA, Type::NS].contains(rtype)
            }),
            Class::ANY if at_apex && [Type::SOA, Type::NS].contains(&rr.rtype) => {}
            Class::ANY => {
                self.0.remove(&place);
            }
            _ => {
                let Some(set) = self.0.get_mut(&place) else { return };
                if rr.rtype == Type::SOA || rr.rtype == Type::NS && at_apex && set.len() == 1 {
                    return;
                }
                set.remove(&data);
                if set.is_empty() {
                    self.0.remove(&place);
                }
            }
        }
    }

    /// Processes a whole request.
    fn request(&mut self, raw: &[Raw], policy: SerialPolicy) -> Rcode {
        let form = Model::prescan(raw);
        if form != Rcode::NOERROR {
            return form;
        }
        let updates = || raw.iter().filter(|rr| !rr.is_prerequisite);
        let signers = [Type::RRSIG, Type::NSEC, Type::NSEC3, Type::NSEC3PARAM];
        if updates().any(|rr| signers.contains(&rr.rtype)) {
            return Rcode::REFUSED;
        }
        let prerequisites = self.prerequisites(raw);
        if prerequisites != Rcode::NOERROR {
            return prerequisites;
        }
        let before = self.clone();
        updates().for_each(|rr| self.update(rr));
        if *self != before && self.serial() == before.serial() {
            let soa = self.0.get_mut(&(lower(&apex()), Type::SOA)).expect("an SOA");
            let (mut data, ttl) = soa.pop_first().expect("an SOA");
            let at = data.len() - 20;
            data[at..at + 4].copy_from_slice(&policy.next(before.serial(), NOW).0.to_be_bytes());
            soa.insert(data, ttl);
        }
        Rcode::NOERROR
    }
}

fn pick<T: Copy>(choices: &mut Choices<'_>, from: &[T]) -> T {
    from[choices.below(from.len())]
}

/// A record of a request, usually a plausible one.
fn raw(choices: &mut Choices<'_>, is_prerequisite: bool) -> Raw {
    const NAMES: [&str; 12] = [
        "example.",
        "A.example.",
        "a.example.",
        "b.example.",
        "*.a.example.",
        "x.y.b.example.",
        "y.b.example.",
        "sub.example.",
        "ns.sub.example.",
        "Example.",
        "c.example.",
        "other.",
    ];
    const TYPES: [Type; 20] = [
        Type::A,
        Type::A,
        Type::A,
        Type::NS,
        Type::NS,
        Type::CNAME,
        Type::CNAME,
        Type::SOA,
        Type::SOA,
        Type::MX,
        Type::TXT,
        Type::WKS,
        Type::DNAME,
        Type::DS,
        Type::KEY,
        Type(65_280),
        Type::ANY,
        Type::RRSIG,
        Type::NSEC3PARAM,
        Type::AXFR,
    ];
    let owner = name(match choices.below(40) {
        0 => NAMES[11],
        other => NAMES[other % 11],
    });
    let rtype = match choices.below(24) {
        16.. => TYPES[choices.below(TYPES.len())],
        plain => TYPES[plain],
    };
    let class = match choices.below(32) {
        0 => Class::CH,
        1..12 => Class::ANY,
        12..20 => Class::NONE,
        _ => Class::IN,
    };
    let rtype = match (class, choices.below(3)) {
        (Class::ANY, 0) => Type::ANY,
        (Class::NONE, 0) if is_prerequisite => Type::ANY,
        _ => rtype,
    };
    let has_data = class == Class::IN || class == Class::NONE && !is_prerequisite;
    let odd = choices.below(40) == 0;
    let rdata = match has_data != odd {
        true => rdata_of(rtype, choices.byte()),
        false => Vec::new(),
    };
    let adds = class == Class::IN && !is_prerequisite;
    let ttl = match adds != (choices.below(40) == 0) {
        true => pick(choices, &[60, 60, 3600, 0, u32::MAX]),
        false => 0,
    };
    Raw { is_prerequisite, owner, rtype, class, ttl, rdata }
}

/// Sends requests to both while the choices last. Returns the number of responses by response code.
fn run(choices: &mut Choices<'_>) -> BTreeMap<Rcode, usize> {
    let start = Arc::new(zone());
    let policy = UpdatePolicy::new(["grant any zone ANY".parse().expect("a rule")]);
    let permission =
        policy.permission(Requester { key: None, address: [127, 0, 0, 1].into(), certificate: None });
    let serials = pick(choices, &[SerialPolicy::Increment, SerialPolicy::UnixTime, SerialPolicy::Date]);
    let mut model = Model::of(&start);
    let (mut updater, mut stepwise, mut rcodes) = (Updater::new(&start), zone(), BTreeMap::new());
    while !choices.is_over() {
        let prerequisites = choices.below(6).saturating_sub(3);
        let mut raws: Vec<Raw> = (0..prerequisites).map(|_| raw(choices, true)).collect();
        raws.extend((0..choices.below(6)).map(|_| raw(choices, false)));
        let before = model.clone();
        let expected = model.request(&raws, serials);
        let result = UpdateRequest::read(&message(&raws), UpdateLimits::default())
            .and_then(|request| updater.apply(&request, &permission, serials, NOW));
        let rcode = result.as_ref().map_or_else(|fault| fault.rcode(), |_| Rcode::NOERROR);
        assert_eq!(rcode, expected, "{raws:#?} gave {result:?} on {before:#?}");
        if let Ok(Some(change)) = result {
            stepwise = stepwise.apply(&change).unwrap_or_else(|error| panic!("{error}: {change:?}"));
            assert_eq!(Model::of(&stepwise), model, "after {raws:#?} on {before:#?}");
        } else {
            assert_eq!(model, before, "{raws:#?}");
        }
        assert_eq!(updater.serial(), model.serial());
        *rcodes.entry(rcode).or_default() += 1;
    }
    match updater.finish().expect("a zone") {
        None => assert!(diff(&start, &stepwise).is_empty()),
        Some((version, change)) => {
            assert_eq!(Model::of(&version), model);
            assert_eq!((change.before, change.after), (start.serial(), version.serial()));
            let whole = build(apex().as_name(), &key(), &testkit::versions::records(&version));
            assert_same(&version, &whole);
        }
    }
    rcodes
}

/// The property below relies on this: every response code occurs.
#[test]
fn every_answer_is_met() {
    let (mut all, mut state) = (BTreeMap::new(), 1u64);
    for _ in 0..200 {
        let bytes: Vec<u8> = (0..400)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        for (rcode, times) in run(&mut Choices::new(&bytes)) {
            *all.entry(rcode).or_insert(0) += times;
        }
    }
    let expected = [
        (Rcode::NOERROR, 500),
        (Rcode::FORMERR, 100),
        (Rcode::NOTZONE, 50),
        (Rcode::REFUSED, 50),
        (Rcode::NXDOMAIN, 20),
        (Rcode::NXRRSET, 20),
        (Rcode::YXDOMAIN, 20),
        (Rcode::YXRRSET, 20),
    ];
    for (rcode, least) in expected {
        assert!(all.get(&rcode).is_some_and(|times| *times >= least), "{rcode}: {all:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]
    #[test]
    fn an_update_does_what_the_rfc_says(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        run(&mut Choices::new(&bytes));
    }
}
