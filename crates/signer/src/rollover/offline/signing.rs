//! [`sign_request`]: makes the response to a request with the KSKs, on the machine that has them.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use wire::rdata::view::{Dnskey, SigAlgorithm};
use wire::{Name, Ttl, Type, UnixTime};
use wording::moment;

use super::request::{KeySigningRequest, RequestSlot};
use super::response::{ResponseSlot, SignedKeyResponse};
use crate::key::pair::NoSignature;
use crate::key::times::KeyEvent;
use crate::key::{KeyRole, ZoneKey};
use crate::rrset::{PresignedSet, SignaturePeriod, UnsignedSet, sign_rrset};

/// TTL of the sets if neither the request nor a key has one.
const DEFAULT_TTL: Ttl = Ttl::from_secs(3_600);
/// Most slots of a response, against times that were mistyped.
const MAX_SLOTS: usize = 10_000;

/// How a request is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotSigning {
    /// How long signatures are valid.
    pub validity: Duration,
    /// How long before its expiration a signature is replaced by that of the next slot.
    pub refresh: Duration,
    /// How long before its slot a signature begins to be valid.
    pub inception_offset: Duration,
    /// The end of the last slot.
    pub until: UnixTime,
    /// Digests of the CDS records; with none of them, there are no CDS and CDNSKEY records.
    pub digests: Vec<u8>,
}

/// Why a request is not signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// The validity is not longer than the refresh.
    Refresh,
    /// The first slot begins at this time, which is not before the end.
    EndsFirst(UnixTime),
    /// More than 10,000 slots.
    TooMany,
    /// The key with this tag is to be revoked (RFC 5011), which a response has no place for.
    Revoked(u16),
    /// No KSK signs at this time: there is none, or none by the times of their files.
    NoKsk(UnixTime),
    /// In the slot at this time, a DNSKEY record has this algorithm, of which no KSK signs.
    NoKskOf(SigAlgorithm, UnixTime),
    /// In the slot at this time, a KSK has this algorithm, of which the request has no key.
    NoZskOf(SigAlgorithm, UnixTime),
    /// The cryptography library failed.
    NoSignature,
}

impl fmt::Display for RequestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refresh => f.write_str("the validity is not longer than the time of refreshing"),
            Self::EndsFirst(at) => {
                write!(f, "the request begins at {}, which is not before the end", moment(*at))
            }
            Self::TooMany => write!(f, "the response would have more than {MAX_SLOTS} slots"),
            Self::Revoked(tag) => {
                write!(f, "key {tag} is to be revoked (RFC 5011), which is not supported here")
            }
            Self::NoKsk(at) => write!(
                f,
                "no key-signing key signs at {}: there is none, or their times do not allow it",
                moment(*at)
            ),
            Self::NoKskOf(algorithm, at) => write!(
                f,
                "the slot at {} has a DNSKEY of algorithm {} ({algorithm}), and no key-signing key of this \
                 algorithm signs (RFC 4035 §2.2)",
                moment(*at),
                algorithm.0
            ),
            Self::NoZskOf(algorithm, at) => write!(
                f,
                "the slot at {} has no zone-signing key of algorithm {} ({algorithm}), which a key-signing key \
                 has (RFC 4035 §2.2)",
                moment(*at),
                algorithm.0
            ),
            Self::NoSignature => f.write_str("the cryptography library made no signature"),
        }
    }
}
impl std::error::Error for RequestFault {}

impl From<NoSignature> for RequestFault {
    fn from(_: NoSignature) -> Self {
        Self::NoSignature
    }
}

/// Returns the response to a request of a zone. Of `keys`, those with the SEP bit sign, as the times in their
/// files say. Each slot is divided where signatures are to be replaced, and where a key comes or goes.
///
/// # Errors
/// [`RequestFault`].
pub fn sign_request(
    zone: Name<'_>,
    request: &KeySigningRequest,
    keys: &[ZoneKey],
    how: &SlotSigning,
) -> Result<SignedKeyResponse, RequestFault> {
    let ksks: Vec<&ZoneKey> = keys.iter().filter(|key| key.role() == KeyRole::KeySigning).collect();
    let is_revoked = |key: &&&ZoneKey| key.is_revoked() || key.times().get(KeyEvent::Revoke).is_some();
    if let Some(key) = ksks.iter().find(is_revoked) {
        return Err(RequestFault::Revoked(key.tag()));
    }
    let step = how.validity.checked_sub(how.refresh).filter(|step| step.as_secs() > 0);
    let step = step.ok_or(RequestFault::Refresh)?;
    let mut response = SignedKeyResponse::default();
    for (index, slot) in request.slots.iter().enumerate() {
        let next = request.slots.get(index + 1).map_or(how.until, |next| next.inception.min(how.until));
        let mut at = slot.inception;
        if index == 0 && at >= next {
            return Err(RequestFault::EndsFirst(at));
        }
        while at < next {
            if response.slots.len() == MAX_SLOTS {
                return Err(RequestFault::TooMany);
            }
            response.slots.push(signed_slot(zone, slot, at, &ksks, how)?);
            let events = ksks.iter().flat_map(|key| KeyEvent::ALL.map(|event| key.times().get(event)));
            let change = events.flatten().filter(|time| *time > at).min();
            let renewal = at.saturating_add(step);
            at = change.map_or(renewal, |change| change.min(renewal));
        }
    }
    Ok(response)
}

fn signed_slot(
    zone: Name<'_>,
    slot: &RequestSlot,
    at: UnixTime,
    ksks: &[&ZoneKey],
    how: &SlotSigning,
) -> Result<ResponseSlot, RequestFault> {
    let published: Vec<&ZoneKey> = ksks.iter().copied().filter(|key| key.times().is_published(at)).collect();
    let signers: Vec<&ZoneKey> = published.iter().copied().filter(|key| key.times().is_active(at)).collect();
    let synced: Vec<&ZoneKey> = signers.iter().copied().filter(|key| key.times().is_synced(at)).collect();
    if signers.is_empty() {
        return Err(RequestFault::NoKsk(at));
    }
    let of_request = slot.dnskeys.iter().filter_map(|rdata| Some(Dnskey::read(rdata).ok()?.algorithm));
    let of_request: BTreeSet<SigAlgorithm> = of_request.collect();
    let of_ksks: BTreeSet<SigAlgorithm> = published.iter().map(|key| key.algorithm()).collect();
    let signed: BTreeSet<SigAlgorithm> = signers.iter().map(|key| key.algorithm()).collect();
    if let Some(algorithm) = of_request.union(&of_ksks).find(|algorithm| !signed.contains(algorithm)) {
        return Err(RequestFault::NoKskOf(*algorithm, at));
    }
    if let Some(algorithm) = of_ksks.difference(&of_request).next() {
        return Err(RequestFault::NoZskOf(*algorithm, at));
    }
    let own = || published.iter().map(|key| key.dnskey().to_vec());
    let of_file = || published.iter().find_map(|key| key.ttl());
    let ttl = slot.ttl.or_else(of_file).unwrap_or(DEFAULT_TTL);
    let dnskeys = slot.dnskeys.iter().cloned().chain(own()).collect();
    let (mut cds, mut cdnskeys) = (Vec::new(), Vec::new());
    if !how.digests.is_empty() {
        cdnskeys.extend(synced.iter().map(|key| key.dnskey().to_vec()));
        cds.extend(synced.iter().flat_map(|key| how.digests.iter().filter_map(|digest| key.ds(*digest))));
    }
    let period = SignaturePeriod {
        inception: at.saturating_sub(how.inception_offset),
        expiration: at.saturating_add(how.validity),
        jitter: 0,
    };
    let mut sets = Vec::new();
    for (rtype, mut rdatas) in [(Type::DNSKEY, dnskeys), (Type::CDNSKEY, cdnskeys), (Type::CDS, cds)] {
        if rdatas.is_empty() {
            continue;
        }
        let rdatas: &mut Vec<Vec<u8>> = &mut rdatas;
        rdatas.sort_unstable();
        rdatas.dedup();
        let owner = zone.to_lower();
        let set = UnsignedSet { owner: owner.as_lower(), rtype, ttl, rdatas };
        let sign = |key: &&ZoneKey| Ok((0, sign_rrset(owner.as_lower(), &set, key, &period)?));
        let sigs = signers.iter().map(sign).collect::<Result<Vec<_>, NoSignature>>()?;
        sets.push(PresignedSet { line: 0, rtype, ttl, rdatas: rdatas.clone(), sigs });
    }
    Ok(ResponseSlot { inception: at, line: 0, sets })
}
