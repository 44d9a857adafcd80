//! Answers of random zones that are signed while answering: each validates, and says what the same zone says
//! to a client without DNSSEC.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use authority::{AnswerLocation, Ask, HashingLimit, PASSES, Scratch, Unanswered, answer};
use proptest::prelude::*;
use signer::denial::DenialMethod;
use signer::incremental::{Signing, refresh};
use signer::key::pair::PrivateKey;
use signer::key::times::KeyTimes;
use signer::key::{KeyRole, ZoneKey};
use signer::keyset::{KeyUse, ZoneKeys};
use signer::online::OnlineSigner;
use signer::policy::DnssecPolicy;
use signer::rrset::SignaturePeriod;
use signer::zone::SigningPolicy;
use testkit::choices::Choices;
use testkit::{ModelRecord, key, name};
use validator::{
    BogusReason, Progress, ReceivedSet, Response, Security, TrustAnchors, TrustTable, Validation,
    ValidationBudget, ValidationLimits, ValidationSettings, Validator,
};
use wire::hash::HashedName;
use wire::message::{Builder, Compressor, Header, Section};
use wire::rdata::view::{Dnskey, Nsec, SigAlgorithm};
use wire::{Class, Name, NameBuf, Rcode, Serial, Ttl, Type, UnixTime};
use zone::catalog::{AnswerSigner, OnlineDenial};
use zone::{Catalog, Change, Zone, ZoneBuilder};

const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);
/// The types that are asked for at each name.
const TYPES: [Type; 9] =
    [Type::A, Type::TXT, Type::MX, Type::CNAME, Type::NS, Type::SOA, Type::DNSKEY, Type::DS, Type::NSEC];

/// A zone that is signed while answering.
struct World {
    catalog: Catalog,
    apex: NameBuf,
    anchors: TrustAnchors,
    signer: Arc<OnlineSigner>,
    /// The time of all queries, so that the limit does not grow.
    received: Instant,
}

/// A response and its response code.
type Reply = (Vec<u8>, Rcode);

fn zone_key(apex: Name<'_>, role: KeyRole) -> ZoneKey {
    let private = PrivateKey::generate(SigAlgorithm::ED25519, 0).expect("a key");
    ZoneKey::new(apex, role, private, KeyTimes::default())
}

fn keys(apex: Name<'_>) -> ZoneKeys {
    let (ksk, zsk) = (zone_key(apex, KeyRole::KeySigning), zone_key(apex, KeyRole::ZoneSigning));
    let uses = vec![
        (ksk, KeyUse { publish: true, sign_keys: true, ..KeyUse::default() }),
        (zsk, KeyUse { publish: true, sign_zone: true, ..KeyUse::default() }),
    ];
    ZoneKeys::new(apex, uses, Vec::new()).expect("keys")
}

/// The records that a zone of an operator may have.
fn usable(apex: Name<'_>, records: Vec<ModelRecord>) -> Vec<ModelRecord> {
    let made = [Type::RRSIG, Type::NSEC, Type::NSEC3, Type::NSEC3PARAM, Type::DNSKEY, Type::ZONEMD];
    let mut usable: Vec<ModelRecord> = Vec::new();
    for mut record in records {
        record.owner = record.owner.as_name().to_lower().into();
        let owner = record.owner.as_name();
        let is_same = |other: &&ModelRecord| other.owner == record.owner && other.rtype == record.rtype;
        if let Some(other) = usable.iter().find(is_same) {
            record.ttl = other.ttl;
        }
        // A delegation of all names that a wildcard matches has no meaning (RFC 4592 §4.2).
        let is_odd = owner.is_wildcard() && matches!(record.rtype, Type::NS | Type::DS | Type::DNAME);
        if owner.is_at_or_below(apex) && !made.contains(&record.rtype) && !is_odd {
            usable.push(record);
        }
    }
    let rdata = name("ns.elsewhere.").as_name().as_wire().to_vec();
    let of_apex = usable.iter().find(|record| record.owner.as_name() == apex && record.rtype == Type::NS);
    let ttl = of_apex.map_or(Ttl::from_secs(3600), |record| record.ttl);
    usable.push(ModelRecord { owner: apex.to_buf(), rtype: Type::NS, ttl, rdata });
    let all = usable.clone();
    let mut singles = BTreeSet::new();
    usable.retain(|record| {
        let has = |rtype| all.iter().any(|other| other.owner == record.owner && other.rtype == rtype);
        let is_apex = record.owner.as_name() == apex;
        let is_alone = || all.iter().all(|other| other.owner != record.owner || other.rtype == Type::CNAME);
        match record.rtype {
            Type::SOA => is_apex && singles.insert((record.owner, record.rtype)),
            Type::CNAME => is_alone() && singles.insert((record.owner, record.rtype)),
            // One that leads below itself never ends.
            Type::DNAME => {
                let target = Name::from_wire(&record.rdata).expect("a name");
                let is_below = target.is_at_or_below(record.owner.as_name());
                !is_below && singles.insert((record.owner, record.rtype))
            }
            Type::DS | Type::CDS | Type::CDNSKEY => !is_apex && has(Type::NS),
            _ => true,
        }
    });
    usable
}

fn zone_of(apex: Name<'_>, records: &[ModelRecord]) -> Zone {
    let mut builder = ZoneBuilder::new(apex, &key());
    for ModelRecord { owner, rtype, ttl, rdata } in records {
        builder.add(owner.as_name(), *rtype, *ttl, rdata).expect("it fits");
    }
    builder.finish().expect("a zone")
}

impl World {
    /// Returns the zone with these records, signed as the policy says.
    fn new(zone: &Zone, policy: &DnssecPolicy) -> World {
        let apex = zone.apex().as_name();
        let keys = keys(apex);
        let period = SignaturePeriod {
            inception: NOW.saturating_sub(Duration::from_secs(3600)),
            expiration: NOW.saturating_add(Duration::from_secs(86_400)),
            jitter: 0,
        };
        let signing_policy = SigningPolicy {
            period,
            denial: policy.denial.clone(),
            serial: None,
            dnskey_ttl: Some(Ttl::from_secs(3600)),
            sync: false,
            zonemd: Vec::new(),
        };
        let signing = Signing { keys: &keys, policy: &signing_policy, threads: 1 };
        let after = Serial(zone.serial().0.wrapping_add(1));
        let signed =
            refresh(zone, &signing, after, NOW, None, 1000).expect("signed").step.expect("a version");
        assert!(signed.zone.is_chainless() && !signed.zone.is_signed());
        let again = refresh(&signed.zone, &signing, Serial(after.0 + 1), NOW, None, 1000).expect("looked at");
        assert!(again.step.is_none() && again.earliest.is_some(), "nothing is left to sign");
        let mut anchors = TrustAnchors::none();
        for rdata in keys.dnskeys().iter().filter(|rdata| Dnskey::read(rdata).is_ok_and(|key| key.is_sep())) {
            anchors.add_dnskey(apex, rdata).expect("an anchor");
        }
        let signer = Arc::new(OnlineSigner::new(zone.apex(), || NOW));
        signer.set(&keys, policy);
        let served = Change::Serve(Arc::new(signed.zone));
        let catalog = Catalog::new(&key()).with([served]).expect("a zone of the key");
        let shared: Arc<dyn AnswerSigner> = signer.clone();
        catalog.get(apex).expect("the zone").set_signer(shared);
        World { catalog, apex: apex.to_buf(), anchors, signer, received: Instant::now() }
    }

    fn ask(
        &self,
        asked: Name<'_>,
        qtype: Type,
        dnssec_ok: bool,
        compact_ok: bool,
    ) -> Result<Reply, Unanswered> {
        let (key, mut qname) = (key(), HashedName::new());
        qname.set(&key, asked);
        let mut location =
            AnswerLocation::find(&self.catalog, &qname, qtype, dnssec_ok).expect("a zone has the name");
        let _ = (0..PASSES).all(|pass| location.prefetch(&self.catalog, pass, &qname));
        let (mut buf, mut names) = (vec![0; 65_535], Compressor::small());
        let mut b = Builder::new(&mut buf, 65_535, Header::query(1).reply(), &mut names);
        b.question(asked, qtype, Class::IN).expect("it fits");
        let ask = Ask {
            name: asked,
            qname: &qname,
            qtype,
            dnssec_ok,
            compact_ok: &|| compact_ok,
            catalog: &self.catalog,
            key: &key,
            resolves: &|| false,
            may_enter: &|_| true,
            max_chain: 8,
            hashing: HashingLimit::at(self.received),
        };
        answer(&ask, &location, &mut b, &mut Scratch::new())?;
        assert!(!b.header().truncated(), "{asked} {qtype}");
        let rcode = b.rcode();
        let len = b.finish();
        buf.truncate(len);
        Ok((buf, rcode))
    }

    fn response(&self, asked: Name<'_>, qtype: Type, dnssec_ok: bool, compact_ok: bool) -> Response {
        let (message, rcode) = self.ask(asked, qtype, dnssec_ok, compact_ok).expect("an answer");
        Response::read(&message, rcode).expect("a response")
    }

    /// Returns what a validator says of a response.
    fn validated(&self, response: Response) -> Security {
        let (settings, table) = (ValidationSettings::default(), TrustTable::new(100));
        let by = Validation { settings: &settings, anchors: &self.anchors, now: NOW };
        let mut budget = ValidationBudget::new(ValidationLimits::default());
        let mut validator = Validator::answer(response);
        loop {
            match validator.step(&by, &table, &mut budget) {
                Progress::Done(validated) => return validated.security,
                Progress::Again(_) => validator.give_up(&by, &table),
                Progress::Need(need) => {
                    let response = self.response(need.name(), need.rtype(), true, false);
                    validator.receive(response, &by, &table);
                }
            }
        }
    }

    /// Asserts that the answers to a question are right.
    fn check(&self, asked: Name<'_>, qtype: Type, denial: OnlineDenial) {
        let at_apex = asked == self.apex.as_name();
        let plain = self.response(asked, qtype, false, false);
        // DS at the apex is the parent's, and another code is that of a name that would be too long.
        if qtype == Type::DS && at_apex || !matches!(plain.rcode, Rcode::NOERROR | Rcode::NXDOMAIN) {
            return;
        }
        let signed = self.response(asked, qtype, true, false);
        let known = self.response(asked, qtype, true, true);
        let is_referral = is_referral(&plain);
        // The version has no NSEC records to compare with.
        if qtype == Type::NSEC && !is_referral {
            return [signed, known].into_iter().for_each(|response| self.check_secure(response));
        }
        if !is_referral {
            assert_eq!(answers(&signed), answers(&plain), "{asked} {qtype}");
        }
        let no_name = signed.sets.iter().any(|set| lists(set, Type::NXNAME));
        let is_compact = denial == OnlineDenial::Compact;
        let exists = plain.rcode == Rcode::NOERROR;
        assert_eq!(no_name, is_compact && !exists, "{asked} {qtype}");
        let expected = if is_compact { Rcode::NOERROR } else { plain.rcode };
        assert_eq!(signed.rcode, expected, "{asked} {qtype}");
        assert_eq!(known.rcode, plain.rcode, "{asked} {qtype} with CO");
        if is_referral {
            return self.check_referral(&signed);
        }
        [signed, known].into_iter().for_each(|response| self.check_secure(response));
    }

    fn check_secure(&self, response: Response) {
        let text = format!("{response:#?}");
        let has_alias = response.sets.iter().any(|set| matches!(set.rtype, Type::CNAME | Type::DNAME));
        let is_ds = response.qtype == Type::DS;
        match self.validated(response) {
            // Random aliases lead back to themselves.
            Security::Bogus(BogusReason::Chain) if has_alias => {}
            // DS at the apex, to which an alias leads, is the parent's.
            Security::Indeterminate if has_alias && is_ds => {}
            security => assert_eq!(security, Security::Secure, "{text}"),
        }
    }

    /// Asserts that DS, or the proof that there is none, is signed; queries for DS show that it validates.
    fn check_referral(&self, response: &Response) {
        let proof = response.sets.iter().find(|set| matches!(set.rtype, Type::DS | Type::NSEC));
        let proof = proof.unwrap_or_else(|| panic!("no proof: {response:#?}"));
        assert_eq!(proof.signatures.len(), 1);
        let ns = response.sets.iter().find(|set| set.rtype == Type::NS).expect("NS");
        assert!(ns.signatures.is_empty() && ns.owner == proof.owner, "{response:#?}");
        let of_ds = self.response(proof.owner.as_name(), Type::DS, true, false);
        assert_eq!(self.validated(of_ds), Security::Secure);
    }
}

fn is_referral(response: &Response) -> bool {
    let has = |rtype| response.sets.iter().any(|set| set.rtype == rtype && set.section == Section::Authority);
    has(Type::NS) && !has(Type::SOA)
}

/// The records of the answer section, without signatures.
fn answers(response: &Response) -> Vec<(NameBuf, Type, Vec<Vec<u8>>)> {
    let sets = response.sets.iter().filter(|set| set.section == Section::Answer);
    sets.map(|set| (set.owner, set.rtype, set.rdatas.clone())).collect()
}

fn lists(set: &ReceivedSet, rtype: Type) -> bool {
    set.rtype == Type::NSEC
        && set.rdatas.iter().any(|rdata| Nsec::read(rdata).is_ok_and(|nsec| nsec.types.contains(rtype)))
}

/// Names at and around those of a zone.
fn names(apex: Name<'_>, records: &[ModelRecord]) -> Vec<NameBuf> {
    let mut names = vec![apex.to_buf()];
    for record in records {
        let owner = record.owner.as_name();
        names.push(owner.to_buf());
        for above in owner.ancestors().filter(|above| above.is_at_or_below(apex)) {
            let labels: [&[u8]; 6] = [b"x", b"*", b"\0", b"nothing", &[255; 63], b"A"];
            names.extend(labels.iter().filter_map(|label| NameBuf::prepend(label, above).ok()));
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

fn policy(denial: OnlineDenial) -> DnssecPolicy {
    let online_rate = 1_000_000;
    DnssecPolicy { denial: DenialMethod::Online(denial), online_rate, ..DnssecPolicy::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn every_answer_validates(bytes in prop::collection::vec(any::<u8>(), 0..160), is_compact in any::<bool>()) {
        let (apex, records) = testkit::zones::zones(&mut Choices::new(&bytes)).swap_remove(0);
        let records = usable(apex.as_name(), records);
        let denial = if is_compact { OnlineDenial::Compact } else { OnlineDenial::Minimal };
        let world = World::new(&zone_of(apex.as_name(), &records), &policy(denial));
        for asked in names(apex.as_name(), &records) {
            for qtype in TYPES {
                world.check(asked.as_name(), qtype, denial);
            }
        }
    }
}

/// A zone with every case.
fn cases() -> Vec<ModelRecord> {
    let record = |owner: &str, rtype, rdata: &[u8]| ModelRecord {
        owner: name(owner),
        rtype,
        ttl: Ttl::from_secs(300),
        rdata: rdata.to_vec(),
    };
    let target = |text: &str| name(text).as_name().as_wire().to_vec();
    let soa = [&[0, 0][..], &[0, 0, 0, 1], &[0; 12], &[0, 0, 0, 60]].concat();
    vec![
        record("example.", Type::SOA, &soa),
        record("example.", Type::NS, &target("ns.elsewhere.")),
        record("example.", Type::MX, &[&[0, 1][..], &target("www.example.")].concat()),
        record("www.example.", Type::A, &[192, 0, 2, 1]),
        record("www.example.", Type::A, &[192, 0, 2, 2]),
        record("*.wild.example.", Type::TXT, b"\x01w"),
        record("here.wild.example.", Type::A, &[192, 0, 2, 3]),
        record("a.b.c.example.", Type::TXT, b"\x01e"),
        record("sec.example.", Type::NS, &target("ns.elsewhere.")),
        record("sec.example.", Type::DS, &[&[0, 1, 13, 2][..], &[7; 32]].concat()),
        record("insec.example.", Type::NS, &target("ns.insec.example.")),
        record("ns.insec.example.", Type::A, &[192, 0, 2, 4]),
        record("alias.example.", Type::CNAME, &target("www.example.")),
        record("gone.example.", Type::CNAME, &target("nothing.example.")),
        record("*.aliases.example.", Type::CNAME, &target("www.example.")),
        record("moved.example.", Type::DNAME, &target("wild.example.")),
    ]
}

fn world(denial: OnlineDenial) -> World {
    let apex = name("example.");
    World::new(&zone_of(apex.as_name(), &cases()), &policy(denial))
}

#[test]
fn every_case_validates() {
    let apex = name("example.");
    for denial in [OnlineDenial::Compact, OnlineDenial::Minimal] {
        let world = world(denial);
        for asked in names(apex.as_name(), &cases()) {
            for qtype in TYPES {
                world.check(asked.as_name(), qtype, denial);
            }
        }
    }
}

/// The NSEC records of a response: owner, next name, types.
fn nsecs(response: &Response) -> Vec<(String, String, String)> {
    let sets = response.sets.iter().filter(|set| set.rtype == Type::NSEC);
    let words = |nsec: &Nsec<'_>| nsec.types.iter().map(|t| t.to_string()).collect::<Vec<_>>().join(" ");
    let text = |set: &ReceivedSet| {
        let nsec = Nsec::read(&set.rdatas[0]).expect("NSEC");
        (set.owner.to_string(), nsec.next.to_string(), words(&nsec))
    };
    sets.map(text).collect()
}

fn expect(response: &Response, expected: &[(&str, &str, &str)]) {
    let own = |(a, b, c): &(&str, &str, &str)| ((*a).to_owned(), (*b).to_owned(), (*c).to_owned());
    assert_eq!(nsecs(response), expected.iter().map(own).collect::<Vec<_>>(), "{response:#?}");
}

#[test]
fn compact_denials_are_those_of_rfc_9824() {
    let world = world(OnlineDenial::Compact);
    let asked = |text: &str, qtype| world.response(name(text).as_name(), qtype, true, false);
    let nothing = asked("nothing.example.", Type::A);
    expect(&nothing, &[("nothing.example.", "\\000.nothing.example.", "RRSIG NSEC NXNAME")]);
    assert_eq!(nothing.rcode, Rcode::NOERROR);
    expect(&asked("www.example.", Type::MX), &[("www.example.", "\\000.www.example.", "A RRSIG NSEC")]);
    expect(&asked("b.c.example.", Type::A), &[("b.c.example.", "\\000.b.c.example.", "RRSIG NSEC")]);
    expect(
        &asked("x.insec.example.", Type::A),
        &[("insec.example.", "\\000.insec.example.", "NS RRSIG NSEC")],
    );
    expect(
        &asked("x.wild.example.", Type::A),
        &[("x.wild.example.", "\\000.x.wild.example.", "TXT RRSIG NSEC")],
    );
    expect(&asked("x.wild.example.", Type::TXT), &[]);
    expect(
        &asked("nothing.example.", Type::NSEC),
        &[("nothing.example.", "\\000.nothing.example.", "RRSIG NSEC NXNAME")],
    );
}

#[test]
fn minimal_denials_cover_one_name() {
    let world = world(OnlineDenial::Minimal);
    let response = world.response(name("x.y.nothing.example.").as_name(), Type::A, true, false);
    assert_eq!(response.rcode, Rcode::NXDOMAIN);
    let all = nsecs(&response);
    let [(owner, next, types), (of_wild, next_of_wild, _)] = &all[..] else { panic!("{all:?}") };
    assert!(owner.ends_with(".example.") && owner.contains("nothinf\\255"), "{owner}");
    assert_eq!((&**next, &**types), ("nothing\\000.example.", "RRSIG NSEC"));
    assert!(of_wild.contains(")\\255") && next_of_wild == "*\\000.example.", "{all:?}");
}

#[test]
fn a_query_for_the_type_of_names_that_do_not_exist_is_malformed() {
    let world = world(OnlineDenial::Compact);
    for dnssec_ok in [false, true] {
        let refused = world.ask(name("www.example.").as_name(), Type::NXNAME, dnssec_ok, false);
        assert_eq!(refused.err(), Some(Unanswered::MetaType));
    }
}

#[test]
fn signatures_are_those_of_one_rrset() {
    let world = world(OnlineDenial::Compact);
    for (asked, answered) in
        [("www.example.", 1), ("b.c.example.", 1), ("nothing.example.", 1), ("x.wild.example.", 1)]
    {
        let (message, _) = world.ask(name(asked).as_name(), Type::RRSIG, true, false).expect("an answer");
        let header = Header::of(&message).expect("a header");
        assert_eq!(header.counts()[1], answered, "{asked}");
    }
}

#[test]
fn without_keys_or_beyond_the_limit_there_is_no_answer() {
    let world = world(OnlineDenial::Compact);
    let asked = |text: &str| world.ask(name(text).as_name(), Type::A, true, false);
    let slow = DnssecPolicy { online_rate: 4, ..policy(OnlineDenial::Compact) };
    world.signer.set(&keys(world.apex.as_name()), &slow);
    let refused = (0..4).map(|number| asked(&format!("n{number}.example."))).filter(Result::is_err).count();
    assert_eq!(refused, 1, "three quarters of the limit are for such names");
    assert_eq!(asked("n9.example.").err(), Some(Unanswered::SigningLimit));
    assert!(asked("www.example.").is_ok(), "the rest is for names of the zone");
    assert!(asked("www.example.").is_ok() && asked("n0.example.").is_ok(), "they are cached");
    let plain = world.ask(name("n9.example.").as_name(), Type::A, false, false).expect("an answer");
    assert_eq!(plain.1, Rcode::NXDOMAIN);
    world.signer.clear();
    assert_eq!(asked("www.example.").err(), Some(Unanswered::NoSignature));
    // The apex has its signatures.
    assert!(world.ask(world.apex.as_name(), Type::SOA, true, false).is_ok());
}
