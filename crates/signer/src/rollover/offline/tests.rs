//! Texts and signatures beside those of `dnssec-ksr`, schedules, and responses that are refused.

use std::time::Duration;

use wire::NameBuf;
use wire::rdata::view::{Ds, SigAlgorithm};

use super::*;
use crate::key::text::{PrivateText, PublicText};
use crate::key::times::{KeyEvent, KeyTimes};
use crate::key::{KeyRole, ZoneKey, pair::PrivateKey};
use crate::policy::{DnssecPolicy, KeyLayout};
use crate::rollover::KeyId;
use wire::{Ttl, Type, UnixTime};

/// Made by `dnssec-ksr` of BIND 9.20.30 with a policy of Ed25519, a validity of 30 and a refresh of 20 days,
/// from 2027-01-01 to 2027-02-25.
const KSR: &str = include_str!("fixtures/example.ksr");
const SKR: &str = include_str!("fixtures/example.skr");
const KSK: &str = "Private-key-format: v1.3\nAlgorithm: 15 (ED25519)\n\
    PrivateKey: OFD9kxY/ZdFcyIy4DicnubpiwNQyTHPMj55bJj9woMk=\nCreated: 20261201000000\n\
    Publish: 20261201000000\nActivate: 20261201000000\n";
const KSK_PUBLIC: &str = "example. 3600 IN DNSKEY 257 3 15 qfa5xIiEuiBxbAmVJeeP3jKZ3xkjB/x9mSViBubhXyQ=\n";

fn zone() -> NameBuf {
    "example.".parse().expect("a name")
}

fn ksk() -> ZoneKey {
    let private = PrivateText::parse(KSK).expect("a key");
    let public = PublicText::parse(KSK_PUBLIC).expect("a key");
    ZoneKey::join(public, private.key, private.times).expect("a key")
}

fn at(text: &str) -> UnixTime {
    lines::read_time(text).expect("a time")
}

const fn days(days: u64) -> Duration {
    Duration::from_secs(days * 86_400)
}

fn how() -> SlotSigning {
    SlotSigning {
        validity: days(30),
        refresh: days(20),
        inception_offset: Duration::from_secs(3600),
        until: at("20270225000000"),
        digests: vec![Ds::SHA256],
    }
}

fn ksr() -> KeySigningRequest {
    KeySigningRequest::parse(KSR, zone().as_name()).expect("a request")
}

fn skr() -> SignedKeyResponse {
    SignedKeyResponse::parse(SKR, zone().as_name()).expect("a response")
}

/// The ZSKs of the request, as BIND has planned them.
fn offline() -> OfflineKeys {
    let schedule = |publish, activate, inactive, delete| KeySchedule {
        publish: at(publish),
        activate: at(activate),
        inactive: Some(at(inactive)),
        delete: Some(at(delete)),
    };
    let one = schedule("20261231215500", "20270101000000", "20270210000000", "20270221010500");
    let two = schedule("20270209215500", "20270210000000", "20270322000000", "20270402010500");
    let ids: Vec<KeyId> = ksr().slots[1].dnskeys.iter().filter_map(|rdata| KeyId::of_dnskey(rdata)).collect();
    OfflineKeys::new(SignedKeyResponse::default(), vec![(ids[0], one), (ids[1], two)], days(11))
}

fn check_with(
    response: &SignedKeyResponse,
    now: &str,
    trusted: &[KeyId],
    signing: &[KeyId],
    covered: Option<UnixTime>,
) -> Result<(), String> {
    let (zone, offline) = (zone(), offline());
    let terms = ResponseTerms {
        zone: zone.as_name(),
        now: at(now),
        offline: &offline,
        signing,
        trusted,
        covered,
        zone_delay: Duration::from_secs(300),
    };
    check::check(response, &terms).map_err(|fault| fault.to_string())
}

/// Without the lines of the text.
fn bare(mut response: SignedKeyResponse) -> SignedKeyResponse {
    for slot in &mut response.slots {
        slot.line = 0;
        for set in &mut slot.sets {
            set.line = 0;
            set.sigs.iter_mut().for_each(|(line, _)| *line = 0);
        }
        slot.sets.sort_by_key(|set| set.rtype);
    }
    response
}

#[test]
fn requests_of_bind_are_read_and_written() {
    let request = ksr();
    let starts: Vec<UnixTime> = request.slots.iter().map(|slot| slot.inception).collect();
    assert_eq!(starts, ["20270101000000", "20270209215500", "20270221010500"].map(at));
    let counts: Vec<usize> = request.slots.iter().map(|slot| slot.dnskeys.len()).collect();
    assert_eq!(counts, [1, 2, 1]);
    assert_eq!((request.slots[0].ttl, request.until), (Some(Ttl::from_secs(3600)), None));
    let with_end = KeySigningRequest { until: Some(at("20270225000000")), ..request };
    let text = with_end.write(zone().as_name(), at("20261201000000"));
    assert_eq!(KeySigningRequest::parse(&text, zone().as_name()), Ok(with_end));
    assert!(text.starts_with(
        ";; KeySigningRequest 1.0 20270101000000 (2027-01-01 00:00:00 UTC)\n\
        example.\t3600\tIN\tDNSKEY\t256 3 15 fZS0/ncDJBKmVZYL/6pPsUXlhoVmMxAj4xj9WDfPTQg=\n"
    ));
    assert!(text.ends_with("by nomen, until 20270225000000\n"));
}

#[test]
fn responses_of_bind_are_read_and_written() {
    let response = skr();
    assert_eq!(response.slots.len(), 8);
    let slot = &response.slots[4];
    assert_eq!((slot.inception, slot.dnskeys().len(), slot.sets.len()), (at("20270209215500"), 3, 3));
    assert_eq!(slot.signers(), [KeyId::of(&ksk())]);
    assert_eq!(slot.expiration(), at("20270311215500"));
    assert_eq!((response.slots[0].line, response.slots[0].sets[0].line), (1, 2));
    let text = response.write(zone().as_name(), at("20261201000000"));
    let again = SignedKeyResponse::parse(&text, zone().as_name()).expect("a response");
    assert_eq!(bare(again), bare(response));
}

/// Ed25519 signatures do not depend on a random number, so the bytes are the same.
#[test]
fn a_request_of_bind_is_signed_as_bind_signs_it() {
    let ours = sign_request(zone().as_name(), &ksr(), &[ksk()], &how()).expect("a response");
    let theirs = bare(skr());
    assert_eq!(bare(ours).slots, theirs.slots[..7]);
}

#[test]
fn slots_begin_where_keys_come_and_go() {
    let mut times = KeyTimes::default();
    times.set(KeyEvent::Publish, at("20270105000000"));
    times.set(KeyEvent::Activate, at("20270105000000"));
    times.set(KeyEvent::SyncPublish, at("20270113000000"));
    let private = PrivateKey::generate(SigAlgorithm::ED25519, 0).expect("a key");
    let new = ZoneKey::new(zone().as_name(), KeyRole::KeySigning, private, times);
    let how = SlotSigning { until: at("20270120000000"), ..how() };
    let response = sign_request(zone().as_name(), &ksr(), &[ksk(), new], &how).expect("a response");
    let rows: Vec<(UnixTime, [usize; 3])> = response
        .slots
        .iter()
        .map(|slot| {
            let cds = slot.set(Type::CDS).map_or(0, |set| set.rdatas.len());
            (slot.inception, [slot.dnskeys().len(), slot.signers().len(), cds])
        })
        .collect();
    assert_eq!(
        rows,
        [
            (at("20270101000000"), [2, 1, 1]),
            (at("20270105000000"), [3, 2, 1]),
            (at("20270113000000"), [3, 2, 2]),
        ]
    );
}

#[test]
fn what_cannot_be_signed_is_refused() {
    let sign = |keys: &[ZoneKey], how: &SlotSigning| {
        sign_request(zone().as_name(), &ksr(), keys, how).expect_err("a fault").to_string()
    };
    assert!(sign(&[], &how()).starts_with("no key-signing key signs at 2027-01-01 00:00:00 UTC"));
    let early = SlotSigning { until: at("20270101000000"), ..how() };
    assert!(sign(&[ksk()], &early).contains("which is not before the end"));
    let refresh = SlotSigning { refresh: days(30), ..how() };
    assert!(sign(&[ksk()], &refresh).starts_with("the validity is not longer"));
    let many = SlotSigning { validity: Duration::from_secs(61), refresh: Duration::from_secs(60), ..how() };
    assert!(sign(&[ksk()], &many).contains("more than 10000 slots"));
    let private = PrivateKey::generate(SigAlgorithm::ECDSAP256SHA256, 0).expect("a key");
    let other = ZoneKey::new(zone().as_name(), KeyRole::KeySigning, private, KeyTimes::default());
    assert!(sign(&[other], &how()).contains("has a DNSKEY of algorithm 15 (ED25519)"));
    let mut times = KeyTimes::default();
    times.set(KeyEvent::Revoke, at("20300101000000"));
    let private = PrivateKey::generate(SigAlgorithm::ED25519, 0).expect("a key");
    let revoked = ZoneKey::new(zone().as_name(), KeyRole::KeySigning, private, times);
    assert!(sign(&[revoked], &how()).contains("is to be revoked (RFC 5011)"));
}

#[test]
fn faults_of_texts_have_their_lines() {
    let of_request = |from: &str, to: &str| {
        KeySigningRequest::parse(&KSR.replacen(from, to, 1), zone().as_name())
            .expect_err("a fault")
            .to_string()
    };
    assert_eq!(
        of_request("KeySigningRequest", "SignedKeyResponse"),
        "1: expected `;; KeySigningRequest 1.0 YYYYMMDDHHmmSS`, with the time at which a slot begins"
    );
    assert!(of_request("1.0", "2.0").starts_with("1: expected `;; KeySigningRequest 1.0"));
    assert!(of_request("20270101000000", "20271301000000").starts_with("1: expected"));
    assert!(of_request("20270209215500", "20260209215500").starts_with("3: the slot does not begin after"));
    assert_eq!(
        of_request("example.", "example.net."),
        "2: the record is of example.net., which is not the zone"
    );
    assert_eq!(of_request("DNSKEY", "A"), "2: a record of the type A has no place here");
    assert!(of_request("256 3 15 ", "256 3 ").starts_with("2: not a record of the type DNSKEY"));
    let of_response = |from: &str, to: &str| {
        SignedKeyResponse::parse(&SKR.replacen(from, to, 1), zone().as_name())
            .expect_err("a fault")
            .to_string()
    };
    let header = SKR.lines().next().expect("a line");
    assert!(of_response(header, "").starts_with("2: expected `;; SignedKeyResponse 1.0"));
    assert_eq!(
        of_response("\t3600", "\t3601"),
        "3: the TTL is not that of the other DNSKEY records of the slot"
    );
    assert!(of_response("CDNSKEY 15 1", "NSEC 15 1").contains("RRSIG of NSEC, without such records"));
    let parse = |text| SignedKeyResponse::parse(text, zone().as_name()).expect_err("a fault").to_string();
    assert_eq!(parse(""), "1: there is no slot");
    assert_eq!(parse(";; SignedKeyResponse 1.0 20270101000000\n"), "1: the slot has no DNSKEY record");
}

#[test]
fn a_good_response_is_accepted() {
    for time in ["20261220000000", "20270101000000", "20270115000000", "20270310000000"] {
        assert_eq!(check_with(&skr(), time, &[], &[], None), Ok(()), "{time}");
    }
    let ksk = [KeyId::of(&ksk())];
    assert_eq!(check_with(&skr(), "20270115000000", &ksk, &[], None), Ok(()));
}

#[test]
fn responses_that_would_be_bogus_are_refused() {
    let changed = |from: &str, to: &str| {
        SignedKeyResponse::parse(&SKR.replacen(from, to, 1), zone().as_name()).expect("a response")
    };
    let now = "20270102000000";
    let refused = |response: &SignedKeyResponse, expected: &str| {
        let fault = check_with(response, now, &[], &[], None).expect_err(expected);
        assert!(fault.contains(expected), "{fault}");
        fault
    };
    // A signature is cut, or moved to another slot.
    let sig = SKR.lines().find(|line| line.contains("RRSIG\tDNSKEY")).expect("a signature");
    let first_words = sig.rsplit_once(' ').expect("two parts").0;
    let fault = refused(&changed(sig, &format!("{first_words} AAAA")), "does not verify");
    assert!(fault.starts_with("4: "), "{fault}");
    refused(&changed("256 3 15 f", "256 3 15 g"), "the slot has the DNSKEY record of key");
    refused(&changed(sig, ""), "and no key-signing key that signs");
    // The second key is missing in the slots in which it signs.
    let two = offline().zsks()[1].0;
    let response = sign_request(
        zone().as_name(),
        &KeySigningRequest { slots: ksr().slots.into_iter().take(1).collect(), until: None },
        &[ksk()],
        &how(),
    );
    let response = response.expect("a response");
    refused(&response, &format!("the slot lacks the DNSKEY record of key {two}"));
    // Slots are missing, so that signatures expire before the next slot.
    let mut gap = skr();
    gap.slots.drain(1..4);
    gap.slots.remove(1);
    gap.slots[1].inception = at("20270204000000");
    refused(&gap, "expire at 2027-01-31 00:00:00 UTC, before the next slot");
    // Over.
    let fault = check_with(&skr(), "20270401000000", &[], &[], None).expect_err("past");
    assert!(fault.contains("the response has ended at"), "{fault}");
    // Signatures in service expire before.
    let covered = Some(at("20261225000000"));
    let fault = check_with(&skr(), "20261220000000", &[], &[], covered).expect_err("a gap");
    assert!(fault.starts_with("1: the response begins at 2027-01-01"), "{fault}");
    // By another KSK than that of the DS record.
    let other = [KeyId { algorithm: SigAlgorithm::ED25519, tag: 1 }];
    let fault = check_with(&skr(), now, &other, &[], None).expect_err("untrusted");
    assert!(fault.starts_with("1: the slot is not signed by a key-signing key that the DS"), "{fault}");
    // A key that still signs is not in the slot.
    let signing = [two];
    let fault = check_with(&skr(), now, &[], &signing, None).expect_err("missing");
    assert!(fault.starts_with("1: the slot lacks the DNSKEY record"), "{fault}");
}

#[test]
fn zsks_are_generated_until_the_end_and_requested() {
    let policy =
        DnssecPolicy { layout: KeyLayout::Split, zsk_lifetime: Some(days(40)), ..DnssecPolicy::default() };
    let times = ScheduleTimes::of(&policy, Ttl::from_secs(86_400));
    // The TTL of DNSKEY, safety, delay; the time of renewal, the largest TTL, delay and safety.
    assert_eq!(times.lead, Duration::from_secs(3600 + 3600 + 300));
    assert_eq!(times.tail, days(9) + days(1) + Duration::from_secs(300 + 3600));
    let now = at("20270101000000");
    let none = OfflineKeys::default();
    let until = at("20270225000000");
    let missing = none.missing(&policy, times, None, now, until).expect("keys");
    let planned: Vec<(UnixTime, UnixTime)> = missing.iter().map(|key| (key.publish, key.activate)).collect();
    assert_eq!(planned, [(at("20261231215500"), now), (at("20270209215500"), at("20270210000000")),]);
    let theirs = offline();
    assert_eq!(theirs.missing(&policy, times, None, now, until), Ok(Vec::new()));
    let more = theirs.missing(&policy, times, None, now, at("20270401000000")).expect("keys");
    assert_eq!(more.iter().map(|key| key.activate).collect::<Vec<_>>(), [at("20270322000000")]);
    let unlimited = DnssecPolicy { zsk_lifetime: None, ..policy.clone() };
    let one = none.missing(&unlimited, times, None, now, until).expect("keys");
    assert_eq!(one.iter().map(|key| (key.activate, key.inactive)).collect::<Vec<_>>(), [(now, None)]);
    // A key that signs already, and whose file has no times, signs until its lifetime ends.
    let id = theirs.zsks()[0].0;
    let state = crate::rollover::KeyState::new(crate::rollover::KeyPurpose::Zsk, 256);
    let in_use = KeySchedule::of(&KeyTimes::default(), &state);
    let in_use = OfflineKeys::new(SignedKeyResponse::default(), vec![(id, in_use)], times.tail);
    let since = Some(at("20261212000000"));
    let next = in_use.missing(&policy, times, since, now, until).expect("keys");
    assert_eq!(next.iter().map(|key| key.activate).collect::<Vec<_>>(), [at("20270121000000")]);

    let keys: Vec<(KeyId, Vec<u8>)> = ksr().slots[1]
        .dnskeys
        .iter()
        .map(|rdata| (KeyId::of_dnskey(rdata).expect("a key"), rdata.clone()))
        .collect();
    let dnskey_of = |id| keys.iter().find(|(other, _)| *other == id).map(|(_, rdata)| rdata.clone());
    let request = theirs.request(now, until, Ttl::from_secs(3600), dnskey_of).expect("a request");
    assert_eq!(request.slots, ksr().slots);
    let fault = theirs.request(now, at("20270401000000"), Ttl::ZERO, dnskey_of).expect_err("too long");
    assert_eq!(fault, ScheduleFault::KeysEnd(at("20270322000000")));
    assert_eq!(none.request(now, until, Ttl::ZERO, dnskey_of), Err(ScheduleFault::NoKeys));
    assert_eq!(none.missing(&policy, times, None, now, now), Err(ScheduleFault::EndsFirst(now)));
}

#[test]
fn later_responses_replace_slots_and_old_ones_are_forgotten() {
    let (all, mut later) = (skr(), skr());
    later.slots.drain(..5);
    let joined = SignedKeyResponse { slots: all.slots[..6].to_vec() }.followed_by(&later);
    assert_eq!(joined, all);
    let mut kept = all.clone();
    kept.forget_past(at("20270201000000"));
    assert_eq!(kept.slots, all.slots[2..]);
    assert_eq!(kept.slot_at(at("20270201000000")), Some(1));
    assert_eq!((all.slot_at(at("20261231000000")), all.slot_at(at("20280101000000"))), (None, Some(7)));
}
