//! Checks a response as a whole, before it is accepted.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use dnssec::verify::{SigFault, SignedSet, verify};
use wire::rdata::view::{Dnskey, Ds, Rrsig, SigAlgorithm};
use wire::{Malformed, Name, Type, UnixTime};
use wording::moment;

use super::response::{ResponseSlot, SignedKeyResponse, signer_of};
use super::schedule::OfflineKeys;
use crate::rollover::state::KeyId;
use crate::rrset::PresignedSet;

/// What a response must fit.
#[derive(Clone, Copy, Debug)]
pub struct ResponseTerms<'a> {
    /// The zone.
    pub zone: Name<'a>,
    /// The time.
    pub now: UnixTime,
    /// The ZSKs of the zone, and the slots that it has.
    pub offline: &'a OfflineKeys,
    /// ZSKs that sign the zone now, or whose signatures caches may have.
    pub signing: &'a [KeyId],
    /// KSKs that a DS record leads to, or may lead to. If there are none, any KSK is accepted.
    pub trusted: &'a [KeyId],
    /// Until when the DNSKEY RRset in service has valid signatures; `None`: there is none.
    pub covered: Option<UnixTime>,
    /// Longest time until all servers of the zone have a new version.
    pub zone_delay: Duration,
}

/// A fault of a response, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseFault {
    /// Counted from 1.
    pub line: usize,
    /// The kind of fault.
    pub kind: ResponseFaultKind,
}

impl fmt::Display for ResponseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.kind)
    }
}
impl std::error::Error for ResponseFault {}

/// Kinds of [`ResponseFault`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseFaultKind {
    /// The signature cannot be verified.
    BadSignature(SigFault),
    /// The set has no signature by a KSK of the slot.
    Unsigned(Type),
    /// The original TTL of the signature is not the TTL of the set.
    OtherTtl,
    /// No KSK that signs the slot is one that DS records lead to, or was in a slot before.
    Untrusted,
    /// The signatures of the slot begin to be valid after it.
    NotYetValid(UnixTime),
    /// The signatures of the slot expire before all servers have the next one, or before it begins.
    Expires(UnixTime),
    /// The last slot has ended.
    Past(UnixTime),
    /// The response begins at this time, and the signatures in service expire before.
    Gap(UnixTime, UnixTime),
    /// The slot has no DNSKEY record of this ZSK, which is to sign while it lasts.
    MissingKey(KeyId),
    /// The slot has a DNSKEY record of this key, which is no KSK and not a key of the zone.
    UnknownKey(KeyId),
    /// A DNSKEY record cannot be used: malformed, revoked, or no zone key.
    UnusableKey,
    /// A DNSKEY record has this algorithm, of which the slot has no KSK that signs or no ZSK.
    Algorithm(SigAlgorithm),
    /// A CDS or CDNSKEY record refers to a key that does not sign the slot.
    OtherSync(Type),
}

impl fmt::Display for ResponseFaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadSignature(fault) => write!(f, "{fault}"),
            Self::Unsigned(rtype) => {
                write!(f, "the {rtype} RRset has no signature by a key-signing key of the slot")
            }
            Self::OtherTtl => f.write_str("the original TTL of the signature is not the TTL of the records"),
            Self::Untrusted => f.write_str(
                "the slot is not signed by a key-signing key that the DS records lead to, or that an earlier \
                 slot has",
            ),
            Self::NotYetValid(at) => {
                write!(
                    f,
                    "the signatures of the slot are not valid before {}, when it has begun",
                    moment(*at)
                )
            }
            Self::Expires(at) => {
                write!(
                    f,
                    "the signatures of the slot expire at {}, before the next slot is on all servers",
                    moment(*at)
                )
            }
            Self::Past(at) => write!(f, "the response has ended at {}", moment(*at)),
            Self::Gap(starts, covered) => write!(
                f,
                "the response begins at {}, after the signatures in service expire, at {}",
                moment(*starts),
                moment(*covered)
            ),
            Self::MissingKey(key) => {
                write!(
                    f,
                    "the slot lacks the DNSKEY record of key {key}, which signs the zone while it lasts"
                )
            }
            Self::UnknownKey(key) => {
                write!(f, "the slot has the DNSKEY record of key {key}, which is no key of this zone here")
            }
            Self::UnusableKey => {
                f.write_str("the slot has a DNSKEY record that is malformed, revoked, or no zone key")
            }
            Self::Algorithm(algorithm) => write!(
                f,
                "the slot has a DNSKEY of algorithm {} ({algorithm}), and no key-signing key that signs, or no \
                 zone-signing key, of this algorithm (RFC 4035 §2.2)",
                algorithm.0
            ),
            Self::OtherSync(rtype) => {
                write!(f, "a {rtype} record refers to a key that does not sign the slot")
            }
        }
    }
}

/// Checks all slots of a response that are not over.
///
/// # Errors
/// The first fault.
pub fn check(response: &SignedKeyResponse, terms: &ResponseTerms<'_>) -> Result<(), ResponseFault> {
    let (Some(first), Some(last)) = (response.slots.first(), response.slots.last()) else { return Ok(()) };
    let fault = |slot: &ResponseSlot, kind| ResponseFault { line: slot.line, kind };
    if last.expiration() <= terms.now {
        return Err(fault(last, ResponseFaultKind::Past(last.expiration())));
    }
    let stored = &terms.offline.response;
    let before = stored.slots.iter().rev().find(|slot| slot.inception < first.inception);
    let covered = before.map(ResponseSlot::expiration).or(terms.covered);
    if let Some(covered) = covered.filter(|end| first.inception > terms.now && *end <= first.inception) {
        return Err(fault(first, ResponseFaultKind::Gap(first.inception, covered)));
    }
    let mut trusted: BTreeSet<KeyId> = terms.trusted.iter().copied().collect();
    let is_open = trusted.is_empty();
    for slot in stored.slots.iter().filter(|slot| slot.inception < first.inception) {
        extend_trust(slot, &mut trusted);
    }
    let current = response.slot_at(terms.now).unwrap_or(0);
    for (index, slot) in response.slots.iter().enumerate().skip(current) {
        if is_open && index == current {
            trusted.extend(slot.signers());
        }
        check_slot(slot, response.slots.get(index + 1), index == current, &trusted, terms)?;
        extend_trust(slot, &mut trusted);
    }
    Ok(())
}

/// The KSKs of a slot that is signed by a trusted key are trusted.
fn extend_trust(slot: &ResponseSlot, trusted: &mut BTreeSet<KeyId>) {
    if slot.signers().iter().any(|key| trusted.contains(key)) {
        trusted.extend(slot.ksks().map(|(id, _)| id));
    }
}

fn check_slot(
    slot: &ResponseSlot,
    next: Option<&ResponseSlot>,
    is_current: bool,
    trusted: &BTreeSet<KeyId>,
    terms: &ResponseTerms<'_>,
) -> Result<(), ResponseFault> {
    use ResponseFaultKind as Kind;
    let at = |kind| ResponseFault { line: slot.line, kind };
    check_keys(slot, next, is_current, terms).map_err(at)?;
    for set in &slot.sets {
        check_set(slot, set, terms)?;
    }
    if !slot.signers().iter().any(|key| trusted.contains(key)) {
        return Err(at(Kind::Untrusted));
    }
    let sigs = slot.sets.iter().flat_map(|set| &set.sigs);
    let inceptions =
        sigs.filter_map(|(_, sig)| Some(slot.inception.nearest(Rrsig::read(sig).ok()?.inception)));
    let needed = if is_current { slot.inception.max(terms.now) } else { slot.inception };
    if let Some(late) = inceptions.max().filter(|start| *start > needed) {
        return Err(at(Kind::NotYetValid(late)));
    }
    let end = slot.expiration();
    let needed = next.map(|next| next.inception.saturating_add(terms.zone_delay));
    if end <= slot.inception.max(if is_current { terms.now } else { slot.inception })
        || needed.is_some_and(|needed| end <= needed)
    {
        return Err(at(Kind::Expires(end)));
    }
    Ok(())
}

/// Checks which DNSKEY records a slot has.
fn check_keys(
    slot: &ResponseSlot,
    next: Option<&ResponseSlot>,
    is_current: bool,
    terms: &ResponseTerms<'_>,
) -> Result<(), ResponseFaultKind> {
    use ResponseFaultKind as Kind;
    let (mut ksks, mut zsks) = (BTreeSet::new(), BTreeSet::new());
    for rdata in slot.dnskeys() {
        let read =
            Dnskey::read(rdata).ok().filter(|key| key.is_zone_key() && key.flags & Dnskey::REVOKE == 0);
        let (Some(key), Some(id)) = (read, KeyId::of_dnskey(rdata)) else { return Err(Kind::UnusableKey) };
        if key.is_sep() {
            ksks.insert(id);
        } else if terms.offline.schedule(id).is_none() {
            return Err(Kind::UnknownKey(id));
        } else {
            zsks.insert(id);
        }
    }
    let start = if is_current { slot.inception.max(terms.now) } else { slot.inception };
    // After the last slot, until its signatures expire, no key that it lacks begins to sign.
    let end = next.map_or(start.saturating_add(Duration::from_secs(1)), |next| next.inception);
    let signing = terms.signing.iter().copied().filter(|_| is_current && slot.inception <= terms.now);
    let mut needed = terms.offline.in_use(start, end).chain(signing);
    if let Some(missing) = needed.find(|id| !zsks.contains(id)) {
        return Err(Kind::MissingKey(missing));
    }
    let signers = slot.signers();
    let of_signers: BTreeSet<SigAlgorithm> =
        ksks.iter().filter(|key| signers.contains(key)).map(|key| key.algorithm).collect();
    let of_zsks: BTreeSet<SigAlgorithm> = zsks.iter().map(|key| key.algorithm).collect();
    let mut all = ksks.iter().chain(&zsks).map(|key| key.algorithm);
    match all.find(|algorithm| !of_signers.contains(algorithm) || !of_zsks.contains(algorithm)) {
        Some(algorithm) => Err(Kind::Algorithm(algorithm)),
        None => Ok(()),
    }
}

/// Verifies the signatures of a set.
fn check_set(
    slot: &ResponseSlot,
    set: &PresignedSet,
    terms: &ResponseTerms<'_>,
) -> Result<(), ResponseFault> {
    use ResponseFaultKind as Kind;
    let at = |kind| ResponseFault { line: set.line, kind };
    let ksks: Vec<Dnskey<'_>> = slot.ksks().filter_map(|(_, rdata)| Dnskey::read(rdata).ok()).collect();
    let signed = SignedSet { owner: terms.zone, rtype: set.rtype, rdatas: &set.rdatas };
    for (line, rdata) in &set.sigs {
        let at = |kind| ResponseFault { line: *line, kind };
        let malformed = |fault: Malformed| at(Kind::BadSignature(fault.into()));
        let sig = Rrsig::read(rdata).map_err(malformed)?;
        // The times are checked against those of the slot.
        let verified = verify(&signed, &sig, terms.zone, &ksks, sig.inception);
        verified.map_err(|fault| at(Kind::BadSignature(fault)))?;
        if sig.original_ttl != set.ttl {
            return Err(at(Kind::OtherTtl));
        }
    }
    let signers: BTreeSet<KeyId> = set.sigs.iter().filter_map(|(_, sig)| signer_of(sig)).collect();
    let of_keys = slot.signers();
    let is_signed = of_keys.iter().any(|key| signers.contains(key));
    if !is_signed {
        return Err(at(Kind::Unsigned(set.rtype)));
    }
    let is_of_signer = |rdata: &Vec<u8>| {
        let mut keys = slot.ksks().filter(|(id, _)| of_keys.contains(id));
        keys.any(|(_, key)| match set.rtype {
            Type::CDNSKEY => key == rdata,
            _ => is_ds_of(terms.zone, key, rdata),
        })
    };
    match set.rtype != Type::DNSKEY && !set.rdatas.iter().all(is_of_signer) {
        true => Err(at(Kind::OtherSync(set.rtype))),
        false => Ok(()),
    }
}

/// Whether a CDS record refers to a key.
pub(in crate::rollover) fn is_ds_of(zone: Name<'_>, dnskey: &[u8], cds: &[u8]) -> bool {
    match (Dnskey::read(dnskey), Ds::read(cds)) {
        (Ok(key), Ok(ds)) => dnssec::key::fits(zone, &key, &ds),
        _ => false,
    }
}
