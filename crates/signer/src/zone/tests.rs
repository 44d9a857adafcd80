//! Random zones, signed here and by the signer of `testkit`, which shares no code with this one: the records
//! must be the same, signatures included. And the audit of signed zones finds nothing.

use std::collections::BTreeSet;

use authority::audit::{FindingKind, audit};
use proptest::prelude::*;
use testkit::keys::{SigningKey, Validity};
use testkit::sign::sign_by;
use testkit::{Chain, ModelRecord};
use wire::UnixTime;
use wire::rdata::view::SigAlgorithm;
use wire::text::write_base64;
use zone::store::diff;

use super::*;
use crate::key::pair::PrivateKey;
use crate::key::text::PrivateText;
use crate::key::times::{KeyEvent, KeyTimes};
use crate::key::{KeyRole, ZoneKey};
use crate::keyset::KeySetFault;
use crate::rrset::PeriodFault;

const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);
const PERIOD: SignaturePeriod = SignaturePeriod {
    inception: UnixTime::from_secs(1_799_996_400),
    expiration: UnixTime::from_secs(1_802_592_000),
    jitter: 0,
};
const HOUR: Ttl = Ttl::from_secs(3600);
const KSK: u16 = 7;
const ZSK: u16 = 8;

/// The key that `testkit` makes of this seed.
fn key(seed: u16, role: KeyRole, apex: Name<'_>) -> ZoneKey {
    let mut bytes = [0x5e; 32];
    bytes[..2].copy_from_slice(&seed.to_be_bytes());
    let mut text = "Private-key-format: v1.3\nAlgorithm: 15 (ED25519)\nPrivateKey: ".to_owned();
    write_base64(&bytes, &mut text).expect("written");
    let private = PrivateText::parse(&text).expect("a key");
    ZoneKey::new(apex, role, private.key, private.times)
}

fn keys(apex: Name<'_>) -> ZoneKeys {
    let keys = vec![key(KSK, KeyRole::KeySigning, apex), key(ZSK, KeyRole::ZoneSigning, apex)];
    ZoneKeys::by_times(apex, keys, Vec::new(), NOW).expect("keys")
}

fn policy(chain: &Chain) -> SigningPolicy {
    let denial = match chain.clone() {
        Chain::Nsec => DenialMethod::Nsec,
        Chain::Nsec3 { opt_out, iterations, salt } => {
            DenialMethod::Nsec3(Nsec3Settings { opt_out, iterations, salt })
        }
    };
    SigningPolicy {
        period: PERIOD,
        denial,
        serial: None,
        dnskey_ttl: Some(HOUR),
        sync: false,
        zonemd: Vec::new(),
    }
}

fn zone_of(apex: Name<'_>, records: &[ModelRecord]) -> Zone {
    let mut builder = ZoneBuilder::new(apex, &HashKey::new([1, 2, 3]));
    for ModelRecord { owner, rtype, ttl, rdata } in records {
        builder.add(owner.as_name(), *rtype, *ttl, rdata).expect("it fits");
    }
    builder.finish().expect("a zone")
}

/// All records of a zone: owner in lower case, type, TTL and RDATA in canonical form.
fn records(zone: &Zone) -> BTreeSet<(String, Type, Ttl, Vec<u8>)> {
    let mut all = BTreeSet::new();
    for node in zone.iter() {
        for set in node.rrsets() {
            let plain = set.rdatas().map(|record| (set.rtype(), record));
            for (rtype, record) in plain.chain(set.sig_rdatas().map(|record| (Type::RRSIG, record))) {
                let mut rdata = Vec::new();
                record.copy_to(&mut rdata);
                canonical(rtype, &mut rdata);
                all.insert((node.owner().as_name().to_string(), rtype, record.ttl(), rdata));
            }
        }
    }
    all
}

/// The records as `testkit` signs them.
fn expected(apex: Name<'_>, plain: &[ModelRecord], chain: &Chain) -> Zone {
    let [ksk, zsk] = [SigningKey::new(KSK, SigningKey::KSK), SigningKey::new(ZSK, SigningKey::ZSK)];
    let dnskey = |key: &SigningKey| ModelRecord {
        owner: apex.to_buf(),
        rtype: Type::DNSKEY,
        ttl: HOUR,
        rdata: key.dnskey.clone(),
    };
    let mut all = plain.to_vec();
    all.extend([dnskey(&ksk), dnskey(&zsk)]);
    let [inception, expiration] = [PERIOD.inception, PERIOD.expiration].map(|time| time.to_serial().0);
    let sign = |owner: NameBuf, rtype, ttl, rdatas: &[Vec<u8>]| {
        let key = if rtype == Type::DNSKEY && owner.as_name() == apex { &ksk } else { &zsk };
        vec![key.sign(apex, owner, rtype, ttl, rdatas, Validity { inception, expiration })]
    };
    zone_of(apex, &sign_by(apex, &all, chain, &sign))
}

/// Removes what no zone of an operator has: records outside of the zone and conflicting TTLs.
fn usable(apex: Name<'_>, records: Vec<ModelRecord>) -> Vec<ModelRecord> {
    let mut usable: Vec<ModelRecord> = Vec::new();
    for mut record in records {
        record.owner = record.owner.as_name().to_lower().into();
        let is_same = |other: &&ModelRecord| other.owner == record.owner && other.rtype == record.rtype;
        if let Some(other) = usable.iter().find(is_same) {
            record.ttl = other.ttl;
        }
        if record.owner.as_name().is_at_or_below(apex) {
            usable.push(record);
        }
    }
    usable
}

fn chains() -> impl Strategy<Value = Chain> {
    prop_oneof![
        2 => Just(Chain::Nsec),
        1 => Just(Chain::NSEC3),
        2 => (any::<bool>(), 0..3u16, prop::sample::select(vec![vec![], vec![0xab, 0xcd]]))
            .prop_map(|(opt_out, iterations, salt)| Chain::Nsec3 { opt_out, iterations, salt }),
    ]
}

/// Errors of the audit, as text.
fn findings(zone: &Zone) -> Vec<String> {
    let mut found = Vec::new();
    audit(zone, NOW.to_serial(), &mut |finding| found.push(finding.to_string()));
    found
}

fn check(apex: NameBuf, records_of_zone: Vec<ModelRecord>, chain: &Chain) -> Result<(), TestCaseError> {
    let apex = apex.as_name();
    let plain = usable(apex, records_of_zone);
    let zone = zone_of(apex, &plain);
    let signed = sign_zone(&zone, &keys(apex), &policy(chain), 2).expect("signed");
    let (ours, theirs) = (records(&signed.zone), records(&expected(apex, &plain, chain)));
    let shown = |set: BTreeSet<&(String, Type, Ttl, Vec<u8>)>| {
        let line = |(owner, t, ttl, rdata): &(String, Type, Ttl, Vec<u8>)| {
            let mut text = format!("{owner} {ttl} {t} ");
            let _ = wire::rdata::write_text(*t, rdata, &mut text);
            text
        };
        set.into_iter().map(line).collect::<Vec<_>>()
    };
    prop_assert_eq!(shown(ours.difference(&theirs).collect()), Vec::<String>::new(), "only ours");
    prop_assert_eq!(shown(theirs.difference(&ours).collect()), Vec::<String>::new(), "only theirs");
    prop_assert_eq!(findings(&signed.zone), Vec::<String>::new());
    // Signing again drops what was made, and makes the same.
    let again = sign_zone(&signed.zone, &keys(apex), &policy(chain), 1).expect("signed");
    prop_assert!(diff(&signed.zone, &again.zone).is_empty());
    prop_assert_eq!(
        again.counts.dropped,
        again.counts.signatures + again.counts.denials + u64::from(*chain != Chain::Nsec)
    );
    Ok(())
}

proptest! {
    #[test]
    fn random_zones_are_signed_as_testkit_signs_them(
        (apex, records) in testkit::random::zone(), chain in chains()
    ) {
        check(apex, records, &chain)?;
    }

    #[test]
    fn zones_that_are_served_together_too(zones in testkit::random::zones(), chain in chains()) {
        for (apex, records) in zones {
            check(apex, records, &chain)?;
        }
    }

    /// In any letter case, what was there before is there unchanged.
    #[test]
    fn other_records_stay_as_they_are((apex, records_of_zone) in testkit::random::zone(), chain in chains()) {
        let zone = zone_of(apex.as_name(), &records_of_zone);
        let signed = sign_zone(&zone, &keys(apex.as_name()), &policy(&chain), 2).expect("signed").zone;
        prop_assert_eq!(findings(&signed), Vec::<String>::new());
        let plain = |zone: &Zone| {
            let mut all = Vec::new();
            for node in zone.iter() {
                for set in node.rrsets().filter(|set| !is_made(set.rtype()) && set.rtype() != Type::DNSKEY) {
                    for record in set.rdatas() {
                        let mut rdata = Vec::new();
                        record.copy_to(&mut rdata);
                        let owner = node.written_owner().as_name().as_wire().to_vec();
                        all.push((owner, set.rtype(), record.ttl(), rdata));
                    }
                }
            }
            all.sort();
            all
        };
        let before: Vec<_> = plain(&zone).into_iter().filter(|(_, t, ..)| !is_made(*t)).collect();
        // An owner takes the letter case of its first record, which may have been a dropped one.
        let folded = |all: Vec<(Vec<u8>, Type, Ttl, Vec<u8>)>| -> BTreeSet<_> {
            all.into_iter().map(|(owner, t, ttl, rdata)| (owner.to_ascii_lowercase(), t, ttl, rdata)).collect()
        };
        prop_assert_eq!(folded(before), folded(plain(&signed)));
    }
}

/// Secure and insecure delegations, alone and below empty non-terminals, which random zones seldom have.
#[test]
fn delegations_of_every_kind_are_in_their_chain() {
    let apex: NameBuf = "example.".parse().expect("a name");
    let record = |owner: &str, rtype, rdata: &[u8]| ModelRecord {
        owner: format!("{owner}example.").parse().expect("a name"),
        rtype,
        ttl: HOUR,
        rdata: rdata.to_vec(),
    };
    let mut records = vec![record("", Type::SOA, &testkit::random::soa(apex.as_name(), 5))];
    for cut in ["secure.", "insecure.", "secure.x.y.", "insecure.x.", "insecure.z.", "*.", "secure.*."] {
        records.push(record(cut, Type::NS, b"\x02ns\x00"));
        records.push(record(&format!("a.{cut}"), Type::A, &[192, 0, 2, 1]));
        if cut.starts_with("secure") {
            records.push(record(cut, Type::DS, &[&[0, 1, 13, 2][..], &[7; 32]].concat()));
        }
    }
    let nsec3 = |opt_out| Chain::Nsec3 { opt_out, iterations: 1, salt: vec![1] };
    for (chain, proofs) in [(Chain::Nsec, 7), (nsec3(false), 11), (nsec3(true), 5)] {
        check(apex, records.clone(), &chain).expect("as testkit");
        let zone = zone_of(apex.as_name(), &records);
        let counts = sign_zone(&zone, &keys(apex.as_name()), &policy(&chain), 1).expect("signed").counts;
        assert_eq!(counts.denials, proofs, "{chain:?}");
    }
}

fn small() -> (NameBuf, Zone) {
    let apex: NameBuf = "example.".parse().expect("a name");
    let record = |owner: &str, rtype, rdata: &[u8]| ModelRecord {
        owner: owner.parse().expect("a name"),
        rtype,
        ttl: HOUR,
        rdata: rdata.to_vec(),
    };
    let records = [
        record("example.", Type::SOA, &testkit::random::soa(apex.as_name(), 5)),
        record("example.", Type::NS, b"\x02ns\x07example\x00"),
        record("ns.example.", Type::A, &[192, 0, 2, 1]),
    ];
    (apex, zone_of(apex.as_name(), &records))
}

fn generated(algorithm: SigAlgorithm, role: KeyRole) -> ZoneKey {
    let (apex, _) = small();
    let private = PrivateKey::generate(algorithm, 2048).expect("a key");
    ZoneKey::new(apex.as_name(), role, private, KeyTimes::default())
}

/// Returns the tags of the signatures over an RRset of the apex.
fn tags(zone: &Zone, rtype: Type) -> Vec<u16> {
    let set = zone.apex_node().rrset(rtype).expect("an RRset");
    let tag = |rdata: zone::store::Rdata<'_>| {
        wire::rdata::view::Rrsig::read(rdata.compiled()).expect("an RRSIG").key_tag
    };
    let mut tags: Vec<u16> = set.sig_rdatas().map(tag).collect();
    tags.sort_unstable();
    tags
}

#[test]
fn every_algorithm_signs_by_its_roles() {
    let (apex, zone) = small();
    let algorithms = [8, 10, 13, 14, 15].map(SigAlgorithm);
    let mut all = Vec::new();
    for algorithm in algorithms {
        all.extend([generated(algorithm, KeyRole::KeySigning), generated(algorithm, KeyRole::ZoneSigning)]);
    }
    let tags_of = |role| {
        let mut tags: Vec<u16> = all.iter().filter(|key| key.role() == role).map(ZoneKey::tag).collect();
        tags.sort_unstable();
        tags
    };
    let (ksks, zsks) = (tags_of(KeyRole::KeySigning), tags_of(KeyRole::ZoneSigning));
    let keys = ZoneKeys::by_times(apex.as_name(), all, Vec::new(), NOW).expect("keys");
    let policy = SigningPolicy { sync: true, zonemd: ZonemdHash::ALL.to_vec(), ..policy(&Chain::Nsec) };
    let signed = sign_zone(&zone, &keys, &policy, 2).expect("signed").zone;
    assert_eq!(findings(&signed), Vec::<String>::new());
    for rtype in [Type::DNSKEY, Type::CDS, Type::CDNSKEY] {
        assert_eq!(tags(&signed, rtype), ksks, "{rtype}");
    }
    for rtype in [Type::SOA, Type::NS, Type::NSEC, Type::ZONEMD] {
        assert_eq!(tags(&signed, rtype), zsks, "{rtype}");
    }
    assert_eq!(zonemd::verify(&signed), Ok(ZonemdHash::Sha384));
    let count = |rtype| signed.apex_node().rrset(rtype).map(|set| set.count());
    assert_eq!((count(Type::DNSKEY), count(Type::CDS), count(Type::ZONEMD)), (Some(10), Some(5), Some(2)));
}

#[test]
fn one_key_signs_everything_and_a_revoked_one_dnskey_alone() {
    let (apex, zone) = small();
    for role in [KeyRole::KeySigning, KeyRole::ZoneSigning] {
        let only = generated(SigAlgorithm::ED25519, role);
        let tag = only.tag();
        let revoked = generated(SigAlgorithm::ED25519, KeyRole::KeySigning).revoked();
        let mut both = [tag, revoked.tag()];
        both.sort_unstable();
        let keys = ZoneKeys::by_times(apex.as_name(), vec![only, revoked], Vec::new(), NOW).expect("keys");
        let policy = SigningPolicy { sync: true, ..policy(&Chain::NSEC3) };
        let signed = sign_zone(&zone, &keys, &policy, 1).expect("signed").zone;
        assert_eq!((tags(&signed, Type::SOA), tags(&signed, Type::DNSKEY)), (vec![tag], both.to_vec()));
        let sync = signed.apex_node().rrset(Type::CDS).map(|set| set.count());
        assert_eq!(sync, (role == KeyRole::KeySigning).then_some(1));
        let seps: Vec<String> = findings(&signed);
        let fault = format!("example. DNSKEY: {}", FindingKind::NoSepSignature);
        assert_eq!(seps, if role == KeyRole::KeySigning { vec![] } else { vec![fault] });
    }
}

#[test]
fn keys_that_would_break_the_zone_are_refused() {
    let (apex, _) = small();
    let refused = |keys, present| {
        ZoneKeys::by_times(apex.as_name(), keys, present, NOW).map(|_| ()).expect_err("refused")
    };
    let at = |event, seconds, algorithm, role| {
        let mut times = KeyTimes::default();
        times.set(KeyEvent::Publish, UnixTime::from_secs(1));
        times.set(event, UnixTime::from_secs(seconds));
        ZoneKey::new(apex.as_name(), role, PrivateKey::generate(algorithm, 2048).expect("a key"), times)
    };
    let (far, ksk) = (NOW.as_secs() + 9, KeyRole::KeySigning);
    assert_eq!(refused(vec![], vec![]), KeySetFault::NoActiveKey);
    let later = at(KeyEvent::Activate, far, SigAlgorithm::ED25519, ksk);
    assert_eq!(refused(vec![later], vec![]), KeySetFault::NoActiveKey);
    let ended = at(KeyEvent::Inactive, 5, SigAlgorithm::ED25519, ksk);
    assert_eq!(refused(vec![ended], vec![]), KeySetFault::NoActiveKey);
    // Published, but signing later: validators want signatures of its algorithm already.
    let later = at(KeyEvent::Activate, far, SigAlgorithm::ECDSAP256SHA256, ksk);
    let tag = later.tag();
    let incomplete = KeySetFault::Incomplete(SigAlgorithm::ECDSAP256SHA256, tag);
    assert_eq!(refused(vec![generated(SigAlgorithm::ED25519, ksk), later], vec![]), incomplete);
    // The same of a key of another signer; of our algorithm it stays.
    let other = generated(SigAlgorithm::ECDSAP256SHA256, ksk);
    let incomplete = KeySetFault::Incomplete(SigAlgorithm::ECDSAP256SHA256, other.tag());
    let own = || vec![generated(SigAlgorithm::ED25519, ksk)];
    assert_eq!(refused(own(), vec![other.dnskey().to_vec()]), incomplete);
    let other = generated(SigAlgorithm::ED25519, ksk).dnskey().to_vec();
    let keys = ZoneKeys::by_times(apex.as_name(), own(), vec![other.clone()], NOW).expect("keys");
    assert!(keys.foreign() == [other.clone()] && keys.dnskeys().contains(&other));
    // A key of another zone.
    let elsewhere: NameBuf = "b.example.".parse().expect("a name");
    let stranger = key(KSK, ksk, elsewhere.as_name());
    let fault = KeySetFault::OtherZone(stranger.tag(), Box::new(elsewhere));
    assert_eq!(refused(vec![stranger], vec![]), fault);
}

#[test]
fn periods_without_valid_signatures_are_refused() {
    let with = |inception, expiration, jitter| {
        let at = |seconds: i64| UnixTime::from_secs(NOW.as_secs().saturating_add_signed(seconds));
        SignaturePeriod { inception: at(inception), expiration: at(expiration), jitter }.check(NOW)
    };
    assert_eq!(with(0, 1, 0), Ok(()));
    assert_eq!(with(-9, 0, 0), Err(PeriodFault::Expired));
    assert_eq!(with(1, 9, 0), Err(PeriodFault::NotYetValid));
    assert_eq!(with(5, 5, 0), Err(PeriodFault::ExpiresFirst));
    assert_eq!(with(-9, 9, 8), Ok(()));
    assert_eq!(with(-9, 9, 9), Err(PeriodFault::Jitter));
    assert_eq!(with(-9, i64::from(i32::MAX), 0), Err(PeriodFault::TooLong));
}

#[test]
fn jitter_spreads_expirations_the_same_each_time() {
    let period = SignaturePeriod { jitter: 3600, ..PERIOD };
    let ends: Vec<u64> = (0..200)
        .map(|i| {
            let owner: NameBuf = format!("n{i}.example.").parse().expect("a name");
            let owner = owner.as_name().to_lower();
            let end = period.expiration_of(owner.as_lower(), Type::A);
            assert_eq!(end, period.expiration_of(owner.as_lower(), Type::A));
            period.expiration.as_secs() - u64::from(end.0)
        })
        .collect();
    assert!(ends.iter().all(|early| *early <= 3600));
    assert!(ends.iter().any(|early| *early < 600) && ends.iter().any(|early| *early > 3000));
}

#[test]
fn serial_and_ttls_follow_the_policy() {
    let (apex, zone) = small();
    let policy = SigningPolicy { serial: Some(Serial(77)), dnskey_ttl: None, ..policy(&Chain::NSEC3) };
    let signed = sign_zone(&zone, &keys(apex.as_name()), &policy, 1).expect("signed").zone;
    let ttl = |rtype| signed.apex_node().rrset(rtype).map(|set| set.ttl());
    assert_eq!(
        (signed.serial(), ttl(Type::DNSKEY), ttl(Type::NSEC3PARAM)),
        (Serial(77), Some(HOUR), Some(Ttl::ZERO))
    );
    let nsec3 = signed.nsec3().expect("a chain");
    assert_eq!((nsec3.iterations(), nsec3.salt()), (0, &[][..]));
}

#[test]
fn settings_that_no_record_can_have_are_refused() {
    let (apex, zone) = small();
    let nsec3 = |salt| Chain::Nsec3 { opt_out: false, iterations: 0, salt };
    let refused = sign_zone(&zone, &keys(apex.as_name()), &policy(&nsec3(vec![0; 256])), 1);
    assert_eq!(refused.expect_err("too long"), SignFault::Salt(LongSalt));
    assert!(sign_zone(&zone, &keys(apex.as_name()), &policy(&nsec3(vec![0; 255])), 1).is_ok());
    let long: NameBuf = format!("{0}.{0}.{0}.{1}.", "a".repeat(63), "b".repeat(30)).parse().expect("a name");
    let soa = testkit::random::soa(long.as_name(), 1);
    let soa = ModelRecord { owner: long, rtype: Type::SOA, ttl: HOUR, rdata: soa };
    let zone = zone_of(long.as_name(), &[soa]);
    let refused = sign_zone(&zone, &keys(long.as_name()), &policy(&Chain::NSEC3), 1);
    assert_eq!(refused.expect_err("too long"), SignFault::LongApex);
    assert!(sign_zone(&zone, &keys(long.as_name()), &policy(&Chain::Nsec), 1).is_ok());
}
