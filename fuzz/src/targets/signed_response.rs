//! Signed key responses: any text is a response of the zone, or has a fault with a line of the text. A
//! response comes back from the text that is written of it.
//!
//! RFC 4034 §3.1.8.1: a signature covers the RRSIG RDATA but the signature, and each RR of the set with the
//! original TTL. Only this target's text has signatures of its KSK, so that each set of a slot that is
//! accepted has the records, the TTL and the signatures of a set of that text, whatever the input changes: as
//! text, or in a response that was read.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use signer::rollover::KeyId;
use signer::rollover::offline::{
    KeySchedule, OfflineKeys, ResponseFault, ResponseTerms, SignedKeyResponse, check,
};
use signer::rrset::PresignedSet;
use wire::{Name, Ttl, Type, UnixTime};

/// The zone of the corpus.
pub(super) const ZONE: &[u8] = b"\x07example\0";
/// 2027-01-02: in the first slot of the response.
pub(super) const NOW: UnixTime = UnixTime::from_secs(1_798_848_000);
/// Before the first slot, and in later ones.
const TIMES: [UnixTime; 4] =
    [NOW, NOW.saturating_sub(days(10)), NOW.saturating_add(days(14)), NOW.saturating_add(days(66))];
/// From the publication of the second ZSK to its first use.
const PUBLISHED_BEFORE: Duration = Duration::from_secs(7_500);
/// Made by `dnssec-ksr` of BIND, as the text that the tests of `signer` have.
const TEXT: &str = include_str!("../../corpus/signed_response/whole");

const fn days(days: u64) -> Duration {
    Duration::from_secs(days * 86_400)
}

fn zone() -> Name<'static> {
    Name::from_wire(ZONE).expect("a name")
}

/// The response of the text, its ZSKs, and its KSK.
struct Genuine {
    response: SignedKeyResponse,
    offline: OfflineKeys,
    ksk: KeyId,
    sets: BTreeSet<Content>,
    sigs: BTreeSet<(Content, Vec<u8>)>,
}

/// What signatures cover of a set.
type Content = (Type, Ttl, BTreeSet<Vec<u8>>);

static GENUINE: LazyLock<Genuine> = LazyLock::new(|| {
    let response = SignedKeyResponse::parse(TEXT, zone()).expect("a response");
    let ksk = response.slots[0].signers()[0];
    let zsks_of = |slot: usize| response.slots[slot].keys().filter(move |id| *id != ksk);
    let one = zsks_of(0).next().expect("a ZSK");
    let two = zsks_of(response.slots.len() - 1).next().expect("a ZSK");
    let both = response.slots.iter().position(|slot| slot.keys().count() == 3).expect("a slot of both");
    let change = response.slots[both].inception.saturating_add(PUBLISHED_BEFORE);
    let from = |activate| KeySchedule { publish: activate, activate, inactive: None, delete: None };
    let zsks = vec![(one, from(UnixTime::EPOCH)), (two, from(change))];
    let offline = OfflineKeys::new(SignedKeyResponse::default(), zsks, Duration::ZERO);
    let (mut sets, mut sigs) = (BTreeSet::new(), BTreeSet::new());
    for set in response.slots.iter().flat_map(|slot| &slot.sets) {
        sets.insert(content(set));
        sigs.extend(set.sigs.iter().map(|(_, sig)| (content(set), canonical(sig))));
    }
    let genuine = Genuine { response, offline, ksk, sets, sigs };
    for time in TIMES {
        assert_eq!(checked(&genuine, &genuine.response, time), Ok(()), "{time:?}");
    }
    genuine
});

pub(crate) fn run(data: &[u8]) {
    let now = TIMES[data.len() % TIMES.len()];
    changed(data, now);
    let Ok(text) = std::str::from_utf8(data) else { return };
    let response = match SignedKeyResponse::parse(text, zone()) {
        Ok(response) => response,
        Err(fault) => {
            assert!((1..=text.lines().count().max(1)).contains(&fault.line), "{fault}");
            return;
        }
    };
    assert!(response.slots.is_sorted_by(|one, next| one.inception < next.inception));
    let written = response.write(zone(), NOW);
    let again = SignedKeyResponse::parse(&written, zone()).expect("our own text");
    assert_eq!(bare(again), bare(response.clone()), "{written}");
    accepts_what_is_signed(&response, now);
}

/// Returns a response without the lines of its text.
pub(super) fn bare(mut response: SignedKeyResponse) -> SignedKeyResponse {
    for slot in &mut response.slots {
        slot.line = 0;
        slot.sets.sort_by_key(|set| set.rtype);
        for set in &mut slot.sets {
            set.line = 0;
            set.sigs.iter_mut().for_each(|(line, _)| *line = 0);
        }
    }
    response
}

fn checked(genuine: &Genuine, response: &SignedKeyResponse, now: UnixTime) -> Result<(), ResponseFault> {
    let terms = ResponseTerms {
        zone: zone(),
        now,
        offline: &genuine.offline,
        signing: &[],
        trusted: &[genuine.ksk],
        covered: None,
        zone_delay: Duration::from_secs(300),
    };
    check::check(response, &terms)
}

fn content(set: &PresignedSet) -> Content {
    (set.rtype, set.ttl, set.rdatas.iter().cloned().collect())
}

/// Returns the RDATA of a signature as it is signed: the name in it in lower case.
fn canonical(sig: &[u8]) -> Vec<u8> {
    let mut sig = sig.to_vec();
    wire::rdata::canonical(Type::RRSIG, &mut sig);
    sig
}

fn accepts_what_is_signed(response: &SignedKeyResponse, now: UnixTime) {
    if let Err(fault) = checked(&GENUINE, response, now) {
        assert!(!fault.to_string().is_empty());
        return;
    }
    let current = response.slot_at(now).unwrap_or(0);
    for set in response.slots.iter().skip(current).flat_map(|slot| &slot.sets) {
        let content = content(set);
        assert!(GENUINE.sets.contains(&content), "a set that was never signed: {content:?}");
        assert!(!set.sigs.is_empty());
        for (_, sig) in &set.sigs {
            let sig = (content.clone(), canonical(sig));
            assert!(GENUINE.sigs.contains(&sig), "a signature that was never made: {sig:?}");
        }
    }
}

/// Makes changes to the response of the text: each five bytes of the input are one.
fn changed(data: &[u8], now: UnixTime) {
    let mut response = GENUINE.response.clone();
    for change in data.chunks_exact(5).take(4) {
        let &[kind, slot, set, at, how] = change else { return };
        change_one(&mut response, kind, (slot, set), (at, how));
    }
    accepts_what_is_signed(&response, now);
}

fn change_one(response: &mut SignedKeyResponse, kind: u8, (slot, set): (u8, u8), (at, how): (u8, u8)) {
    let other = response.clone();
    let pick = |byte: u8, len: usize| usize::from(byte) % len.max(1);
    let place = pick(slot, response.slots.len());
    let Some(slot) = response.slots.get_mut(place) else { return };
    let Some(other) = other.slots.get(pick(how, other.slots.len())) else { return };
    let sets = slot.sets.len();
    let Some(set) = slot.sets.get_mut(pick(set, sets)) else { return };
    match kind % 11 {
        0 => flip(set.sigs.first_mut().map(|(_, sig)| sig), at, how),
        1 => {
            let len = set.rdatas.len();
            flip(set.rdatas.get_mut(pick(how, len)), at, how);
        }
        2 => set.ttl = Ttl::from_secs(u32::from(at) * 256 + u32::from(how)),
        3 => drop(set.rdatas.pop()),
        4 => drop(set.sigs.pop()),
        // A record, or a signature, of another slot, beside or in place of its own.
        5 => set.rdatas.extend(other.set(set.rtype).into_iter().flat_map(|set| set.rdatas.clone())),
        6 => set.sigs.extend(other.set(set.rtype).into_iter().flat_map(|set| set.sigs.clone())),
        7 => {
            if let Some(other) = other.set(set.rtype) {
                set.sigs.clone_from(&other.sigs);
            }
        }
        // The signature of another type.
        8 => set.sigs.clone_from(&other.sets[pick(at, other.sets.len())].sigs),
        // The slot begins at another time, or its sets are those of another slot.
        9 => {
            let later = slot.inception.saturating_add(days(u64::from(at)));
            slot.inception = later.saturating_sub(days(u64::from(how)));
        }
        _ => slot.sets.clone_from(&other.sets),
    }
    response.slots.sort_by_key(|slot| slot.inception);
    response.slots.dedup_by_key(|slot| slot.inception);
}

/// Flips one bit.
fn flip(bytes: Option<&mut Vec<u8>>, at: u8, how: u8) {
    let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else { return };
    let place = usize::from(at) % bytes.len();
    bytes[place] ^= 1 << (how % 8);
}
