//! What is signed verifies, is cached until it is due, and is made again for other keys or other records.

use std::cell::Cell;

use dnssec::verify::{SignedSet, verify};
use wire::rdata::view::{Dnskey, Rrsig};
use wire::{NameBuf, Ttl, Type};

use super::*;
use crate::key::KeyRole;
use crate::key::pair::PrivateKey;
use crate::key::times::KeyTimes;
use crate::keyset::KeyUse;

thread_local! {
    /// The time of a test.
    static NOW: Cell<u64> = const { Cell::new(1_800_000_000) };
}

fn now() -> UnixTime {
    UnixTime::from_secs(NOW.get())
}

fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

fn key(role: KeyRole) -> ZoneKey {
    let private = PrivateKey::generate(SigAlgorithm::ECDSAP256SHA256, 0).expect("a key");
    ZoneKey::new(name("example.").as_name(), role, private, KeyTimes::default())
}

/// A KSK, and ZSKs.
fn keys(zsks: usize) -> ZoneKeys {
    let ksk = (key(KeyRole::KeySigning), KeyUse { publish: true, sign_keys: true, ..KeyUse::default() });
    let zsk = |_| (key(KeyRole::ZoneSigning), KeyUse { publish: true, sign_zone: true, ..KeyUse::default() });
    let uses = [ksk].into_iter().chain((0..zsks).map(zsk)).collect();
    ZoneKeys::new(name("example.").as_name(), uses, Vec::new()).expect("keys")
}

fn policy() -> DnssecPolicy {
    DnssecPolicy { denial: DenialMethod::Online(OnlineDenial::Minimal), ..DnssecPolicy::default() }
}

fn signer() -> OnlineSigner {
    OnlineSigner::new(name("example.").as_name().to_lower().as_lower(), now)
}

/// Signs an A record of a name.
fn sign(signer: &OnlineSigner, owner: &str, last: u8) -> Result<AnswerSignatures, AnswerUnsigned> {
    let (owner, rdatas) = (name(owner).as_name().to_lower(), [vec![192, 0, 2, last]]);
    let (rtype, ttl) = (Type::A, Ttl::from_secs(300));
    let set = AnswerSet { owner: owner.as_lower(), rtype, ttl, rdatas: &rdatas, is_of_zone: true };
    signer.sign(&set, Instant::now())
}

fn counts(signer: &OnlineSigner) -> [u64; 4] {
    let OnlineCounts { hits, made, evicted, refused } = signer.counts();
    [hits, made, evicted, refused].map(|count| count.load(Relaxed))
}

#[test]
fn signatures_verify_and_are_cached() {
    let (signer, keys) = (signer(), keys(1));
    assert_eq!(sign(&signer, "a.example.", 1).err(), Some(AnswerUnsigned::NoKeys));
    signer.set(&keys, &policy());
    assert_eq!(signer.denial(), OnlineDenial::Minimal);
    let made = sign(&signer, "a.example.", 1).expect("signed");
    let owner = name("a.example.");
    let set = SignedSet { owner: owner.as_name(), rtype: Type::A, rdatas: &[vec![192, 0, 2, 1]] };
    let (dnskeys, apex) = (keys.dnskeys(), name("example."));
    let read: Vec<Dnskey<'_>> = dnskeys.iter().map(|rdata| Dnskey::read(rdata).expect("a key")).collect();
    let sig = Rrsig::read(&made[0]).expect("RRSIG");
    verify(&set, &sig, apex.as_name(), &read, now().to_serial()).expect("it verifies");
    assert_eq!(made.len(), 1, "the KSK does not sign it");
    let again = sign(&signer, "a.example.", 1).expect("signed");
    assert!(Arc::ptr_eq(&made, &again));
    assert_eq!(counts(&signer), [1, 1, 0, 0]);
    let other = sign(&signer, "a.example.", 2).expect("signed");
    assert_ne!(other, made, "other records have another signature");
    assert!(signer.cached_bytes() > 0);
}

#[test]
fn a_signature_is_made_anew_before_it_expires() {
    let signer = signer();
    signer.set(&keys(1), &policy());
    let made = sign(&signer, "a.example.", 1).expect("signed");
    let expiration = now().nearest(Rrsig::read(&made[0]).expect("RRSIG").expiration);
    let due = expiration.saturating_sub(policy().signature_refresh);
    NOW.set(due.as_secs() - 1);
    assert!(Arc::ptr_eq(&made, &sign(&signer, "a.example.", 1).expect("signed")));
    NOW.set(due.as_secs());
    let again = sign(&signer, "a.example.", 1).expect("signed");
    let renewed = now().nearest(Rrsig::read(&again[0]).expect("RRSIG").expiration);
    assert!(renewed > expiration);
    // Jitter: not all expire together.
    let other = sign(&signer, "b.example.", 1).expect("signed");
    assert_ne!(
        Rrsig::read(&other[0]).expect("RRSIG").expiration,
        Rrsig::read(&again[0]).expect("RRSIG").expiration
    );
}

#[test]
fn other_keys_make_all_signatures_anew() {
    let (signer, first) = (signer(), keys(1));
    signer.set(&first, &policy());
    let made = sign(&signer, "a.example.", 1).expect("signed");
    signer.set(&first, &policy());
    assert!(Arc::ptr_eq(&made, &sign(&signer, "a.example.", 1).expect("signed")), "nothing has changed");
    signer.set(&keys(2), &policy());
    assert_eq!(counts(&signer)[2], 1, "the cache is empty");
    assert_eq!(sign(&signer, "a.example.", 1).expect("signed").len(), 2, "each key signs");
    // The version in service may need it still.
    signer.set(&first, &DnssecPolicy::default());
    assert_eq!(
        (signer.denial(), sign(&signer, "a.example.", 1).expect("signed").len()),
        (OnlineDenial::Minimal, 1)
    );
    signer.clear();
    assert_eq!(sign(&signer, "a.example.", 1).err(), Some(AnswerUnsigned::NoKeys));
    assert_eq!(signer.cached_bytes(), 0);
}

#[test]
fn beyond_the_limit_nothing_is_signed() {
    let signer = signer();
    signer.set(&keys(1), &DnssecPolicy { online_rate: 3, ..policy() });
    let at = Instant::now();
    let ask = |number: usize, is_of_zone| {
        let owner = name(&format!("n{number}.example."));
        let owner = owner.as_name().to_lower();
        let (rtype, ttl, rdatas) = (Type::NSEC, Ttl::from_secs(1), &[vec![0]]);
        signer.sign(&AnswerSet { owner: owner.as_lower(), rtype, ttl, rdatas, is_of_zone }, at)
    };
    assert!(ask(0, false).is_ok() && ask(1, false).is_ok());
    assert_eq!(ask(2, false).err(), Some(AnswerUnsigned::Limit));
    assert!(ask(3, true).is_ok() && ask(0, false).is_ok());
    assert_eq!(ask(4, true).err(), Some(AnswerUnsigned::Limit));
    assert_eq!(counts(&signer), [1, 3, 0, 2]);
}
