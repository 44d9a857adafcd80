//! Attacks on a validator's time, each with its allowed cost: KeyTrap (CVE-2023-50387) in all variants, NSEC3
//! hashes, and long chains of DS queries. A zone's owner can create as many keys, signatures and digests of
//! one tag as fit into a message.

use testkit::name;
use testkit::tree::{Ended, TreeReply};
use validator::{BogusReason, Need, Security, TrustTable, ValidationLimit, ValidationSettings, Validator};
use wire::rdata::view::Ds;
use wire::{Rcode, Type};

use crate::classes::{denied, line, nsec, signed};
use crate::support::{TREE, reply, validate};

fn limit(limit: ValidationLimit) -> Security {
    Security::Bogus(BogusReason::Limit(limit))
}

/// RDATA of this many made-up keys with one tag.
fn colliding(keys: usize, tag: u16) -> Vec<Vec<u8>> {
    let mut seed = 0u32;
    let mut colliding = Vec::new();
    while colliding.len() < keys {
        // Two bytes of a made-up key are chosen to yield the wanted tag.
        seed += 1;
        let mut rdata = [&256u16.to_be_bytes()[..], &[3, 15], &[7; 32]].concat();
        rdata[8..12].copy_from_slice(&seed.to_be_bytes());
        for low in 0..=u16::MAX {
            rdata[4..6].copy_from_slice(&low.to_be_bytes());
            if dnssec::key::tag(&wire::rdata::view::Dnskey::read(&rdata).expect("a key")) == tag {
                colliding.push(rdata);
                break;
            }
        }
    }
    colliding
}

/// A table with keys of one tag, and a reply with this many signatures.
fn key_trap(keys: usize, signatures: usize) -> (TrustTable, TreeReply) {
    let zone = name("nsec.test.");
    let colliding = colliding(keys, TREE.keys(zone)[1].tag());
    let table = TrustTable::new(100);
    let honest = reply("zz.nsec.test.", Type::A);
    let ended = TREE.run(
        Validator::answer(honest.response()),
        &ValidationSettings::default(),
        &TREE.anchors(),
        &table,
        &mut |need, mut reply| {
            if *need == Need::Dnskey(zone) {
                let own: Vec<Vec<u8>> = TREE.keys(zone).iter().map(|key| key.dnskey.clone()).collect();
                let all: Vec<&[u8]> = colliding.iter().chain(&own[..1]).map(Vec::as_slice).collect();
                reply.answer = signed("nsec.test.", "nsec.test.", Type::DNSKEY, &all);
            }
            Some(reply)
        },
    );
    assert!(keys == 0 || ended.budget.failures() <= 2, "{ended:?}");
    let mut trap = honest.clone();
    for number in 0..signatures {
        let mut sig = honest.answer.iter().find(|l| l.rtype == Type::RRSIG).expect("a signature").clone();
        let last = sig.rdata.len() - 2;
        sig.rdata[last..].copy_from_slice(&(number as u16 + 1).to_be_bytes());
        trap.answer.push(sig);
    }
    trap.answer.retain(|line| line.rtype != Type::RRSIG || !honest.answer.contains(line));
    (table, trap)
}

/// The cost of an answer with this many signatures, each possibly made by any of the keys.
fn spring(keys: usize, signatures: usize) -> Ended {
    let (table, trap) = key_trap(keys, signatures);
    let (settings, anchors) = (ValidationSettings::default(), TREE.anchors());
    TREE.run(Validator::answer(trap.response()), &settings, &anchors, &table, &mut |_, reply| Some(reply))
}

/// SigJam: many signatures over one RRset, all with one key's tag.
#[test]
fn sig_jam_costs_as_many_signatures_as_may_fail() {
    for signatures in [5, 100, 400] {
        let ended = spring(1, signatures);
        assert_eq!(ended.validated.security, limit(ValidationLimit::Failures), "{signatures}");
        assert_eq!((ended.budget.signatures(), ended.budget.failures()), (4, 4), "{signatures}");
    }
}

/// LockCram: one signature, and many keys with its tag.
#[test]
fn lock_cram_costs_as_many_signatures_as_keys_of_a_tag_are_tried() {
    for keys in [3, 100, 200] {
        let ended = spring(keys, 1);
        assert_eq!(ended.validated.security, limit(ValidationLimit::KeysPerTag), "{keys}");
        assert_eq!((ended.budget.signatures(), ended.budget.failures()), (2, 2), "{keys}");
    }
}

/// KeySigTrap: both.
#[test]
fn key_sig_trap_costs_as_many_signatures_as_may_fail() {
    for (keys, signatures) in [(5, 5), (100, 100), (20, 400)] {
        let ended = spring(keys, signatures);
        assert_eq!(ended.validated.security, limit(ValidationLimit::Failures), "{keys} {signatures}");
        assert_eq!((ended.budget.signatures(), ended.budget.failures()), (4, 4), "{keys} {signatures}");
    }
}

/// HashTrap: many DS, and many keys that may match each of them. One digest per type is computed for each key
/// considered, however many DS there are.
#[test]
fn hash_trap_costs_one_digest_of_each_key_that_is_looked_at() {
    let zone = name("nsec.test.");
    let own = &TREE.keys(zone)[0];
    let honest = validate(&reply("www.nsec.test.", Type::A)).budget.digests();
    let most = honest - 1 + 2 * 2;
    for (all_ds, keys) in [(1, 100), (100, 1), (8, 200), (200, 200)] {
        let ds = |number: usize| {
            // SHA-256 and SHA-384 in turn, all wrong.
            let mut ds = own.ds(zone.as_name());
            if number % 2 == 1 {
                ds[3] = Ds::SHA384;
                ds.extend([0; 16]);
            }
            let last = ds.len() - 2;
            ds[last..].copy_from_slice(&(number as u16).to_be_bytes());
            ds
        };
        let ds: Vec<Vec<u8>> = (0..all_ds).map(ds).collect();
        let ds: Vec<&[u8]> = ds.iter().map(Vec::as_slice).collect();
        let keys = colliding(keys, own.tag());
        let keys: Vec<&[u8]> = keys.iter().chain([&own.dnskey]).map(Vec::as_slice).collect();
        let settings = ValidationSettings::default();
        let asked = reply("www.nsec.test.", Type::A);
        let ended = TREE.validate_with(&asked, &settings, &mut |need, reply| {
            let answer = match need {
                Need::Ds(at) if *at == zone => signed("test.", "nsec.test.", Type::DS, &ds),
                Need::Dnskey(at) if *at == zone => signed("nsec.test.", "nsec.test.", Type::DNSKEY, &keys),
                _ => return Some(reply),
            };
            Some(TreeReply { answer, ..reply })
        });
        let of = format!("{all_ds} DS, {} keys", keys.len());
        assert!(matches!(ended.validated.security, Security::Bogus(_)), "{of}: {:?}", ended.validated);
        assert!(ended.budget.digests() <= most, "{of}: {} of {most}", ended.budget.digests());
        assert_eq!(ended.budget.failures(), 0, "{of}: no signature was looked at");
    }
}

/// DS with many tags: only a limited number is followed.
#[test]
fn hash_trap_with_many_tags_costs_as_many_digests_as_ds_are_followed() {
    let zone = name("nsec.test.");
    let own = &TREE.keys(zone)[0];
    let honest = validate(&reply("www.nsec.test.", Type::A)).budget.digests();
    let keys: Vec<Vec<u8>> = (0..100u16).flat_map(|number| colliding(2, 1000 + number)).collect();
    let ds = |key: &Vec<u8>| {
        let mut ds = own.ds(zone.as_name());
        let tag = dnssec::key::tag(&wire::rdata::view::Dnskey::read(key).expect("a key"));
        ds[..2].copy_from_slice(&tag.to_be_bytes());
        ds
    };
    let ds: Vec<Vec<u8>> = keys.iter().step_by(2).map(ds).collect();
    let (ds, keys): (Vec<&[u8]>, Vec<&[u8]>) =
        (ds.iter().map(Vec::as_slice).collect(), keys.iter().map(Vec::as_slice).collect());
    let settings = ValidationSettings::default();
    let ended = TREE.validate_with(&reply("www.nsec.test.", Type::A), &settings, &mut |need, reply| {
        let answer = match need {
            Need::Ds(at) if *at == zone => signed("test.", "nsec.test.", Type::DS, &ds),
            Need::Dnskey(at) if *at == zone => signed("nsec.test.", "nsec.test.", Type::DNSKEY, &keys),
            _ => return Some(reply),
        };
        Some(TreeReply { answer, ..reply })
    });
    assert_eq!(ended.validated.security, limit(ValidationLimit::DsPerZone));
    assert_eq!(ended.budget.digests(), honest - 1 + 8 * 2);
}

/// For data without a signature the chain is followed down from the anchor, name by name. That ends with the
/// budget, however many labels there are and whatever the zone's servers prove for each.
#[test]
fn a_chase_after_ds_ends_with_the_budget() {
    let deep = format!("{}nsec.test.", "a.".repeat(110));
    let answer = vec![line(&deep, Type::A, &[192, 0, 2, 1])];
    let bare = TreeReply { answer, ..denied(&deep, Type::A, Rcode::NOERROR, Vec::new()) };
    let settings = ValidationSettings::default();
    let ended = TREE.validate_with(&bare, &settings, &mut |need, reply| {
        let at = need.name().to_string();
        match need {
            // The name exists, and no zone begins there.
            Need::Ds(_) if at.ends_with(".nsec.test.") => {
                let authority = nsec("nsec.test.", &at, "zz.nsec.test.", &[Type::TXT]);
                Some(denied(&at, Type::DS, Rcode::NOERROR, authority))
            }
            _ => Some(reply),
        }
    });
    assert_eq!(ended.validated.security, limit(ValidationLimit::Signatures), "{:?}", ended.needs);
    assert!(ended.needs.len() <= 24 && ended.budget.signatures() <= 16, "{:?}", ended.needs);
}

/// NSEC3 hashes: CVE-2023-50868.
#[test]
fn hashes_of_a_deep_name_stay_within_the_budget() {
    let deep = format!("{}hash.test.", "a.".repeat(100));
    let ended = validate(&reply(&deep, Type::A));
    assert_eq!(ended.validated.security, Security::Secure, "found from the zone's name on");
    assert!(ended.budget.nsec3_hashes() <= 10, "{}", ended.budget.nsec3_hashes());
    // NSEC3 that match nothing make it hash every name, at a cost that grows with the iterations.
    let mut rdata = [&[1, 0, 0, 50, 4][..], b"salt", &[20], &[2; 20]].concat();
    rdata[8] = 0;
    let owner = format!("{}.hash.test.", "0".repeat(32));
    let authority = signed("hash.test.", &owner, Type::NSEC3, &[&rdata]);
    let ended = validate(&denied(&deep, Type::A, Rcode::NXDOMAIN, authority));
    assert_eq!(ended.validated.security, Security::Bogus(BogusReason::Limit(ValidationLimit::Nsec3Hashes)));
    assert!(ended.budget.nsec3_hashes() <= 450);
}
