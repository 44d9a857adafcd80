//! [`SignedKeyResponse`]: the signed DNSKEY, CDS and CDNSKEY RRsets, for each slot of time.

use wire::rdata::view::{Dnskey, Rrsig};
use wire::{Name, Ttl, Type, UnixTime};

use super::lines::{
    ExchangeFault, ExchangeFaultKind, ExchangeLine, read_lines, write_end, write_header, write_record,
};
use crate::rollover::state::KeyId;
use crate::rrset::PresignedSet;

const WORD: &str = "SignedKeyResponse";
/// The types of the sets, in the order of the text.
const SETS: [Type; 3] = [Type::DNSKEY, Type::CDNSKEY, Type::CDS];

/// The sets of one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseSlot {
    /// When it begins. It ends when the next one begins, the last one when its signatures expire.
    pub inception: UnixTime,
    /// The line of its header; 0 if it is not from a text.
    pub line: usize,
    /// The sets that are not empty: one of each type at most.
    pub sets: Vec<PresignedSet>,
}

/// A signed key response (SKR).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignedKeyResponse {
    /// The slots, by time.
    pub slots: Vec<ResponseSlot>,
}

impl ResponseSlot {
    /// Returns the set of a type, if it is not empty.
    pub fn set(&self, rtype: Type) -> Option<&PresignedSet> {
        self.sets.iter().find(|set| set.rtype == rtype)
    }

    /// Returns the RDATA of the DNSKEY records.
    pub fn dnskeys(&self) -> &[Vec<u8>] {
        self.set(Type::DNSKEY).map_or(&[], |set| &set.rdatas)
    }

    /// Returns the keys in the DNSKEY RRset.
    pub fn keys(&self) -> impl Iterator<Item = KeyId> {
        self.dnskeys().iter().filter_map(|rdata| KeyId::of_dnskey(rdata))
    }

    /// Returns the keys that sign the DNSKEY RRset.
    pub fn signers(&self) -> Vec<KeyId> {
        let sigs = self.set(Type::DNSKEY).into_iter().flat_map(|set| &set.sigs);
        sigs.filter_map(|(_, rdata)| signer_of(rdata)).collect()
    }

    /// When the first of its signatures expires. `inception` decides which 136 years that is in.
    pub fn expiration(&self) -> UnixTime {
        let sigs = self.sets.iter().flat_map(|set| &set.sigs);
        let ends = sigs.filter_map(|(_, rdata)| Rrsig::read(rdata).ok()).map(|sig| sig.expiration);
        ends.map(|end| self.inception.nearest(end)).min().unwrap_or(self.inception)
    }

    /// Returns the RDATA of the DNSKEY record of a key.
    pub fn dnskey(&self, id: KeyId) -> Option<&Vec<u8>> {
        self.dnskeys().iter().find(|rdata| KeyId::of_dnskey(rdata) == Some(id))
    }

    /// Returns the KSKs: keys with the SEP bit.
    pub fn ksks(&self) -> impl Iterator<Item = (KeyId, &Vec<u8>)> {
        let is_ksk = |rdata: &&Vec<u8>| Dnskey::read(rdata).is_ok_and(|key| key.is_sep());
        let keys = self.dnskeys().iter().filter(is_ksk);
        keys.filter_map(|rdata| Some((KeyId::of_dnskey(rdata)?, rdata)))
    }
}

/// Returns the key that has made a signature.
pub(super) fn signer_of(rrsig: &[u8]) -> Option<KeyId> {
    let sig = Rrsig::read(rrsig).ok()?;
    Some(KeyId { algorithm: sig.algorithm, tag: sig.key_tag })
}

impl SignedKeyResponse {
    /// Parses the text of a response for a zone. Nothing is verified.
    ///
    /// # Errors
    /// The first fault.
    pub fn parse(text: &str, zone: Name<'_>) -> Result<SignedKeyResponse, ExchangeFault> {
        let types = [Type::DNSKEY, Type::CDNSKEY, Type::CDS, Type::RRSIG];
        let mut slots: Vec<ResponseSlot> = Vec::new();
        let mut last = 1;
        for line in read_lines(text, zone, WORD, &types) {
            let (line, read) = line?;
            let at = |kind| ExchangeFault { line, kind };
            last = line;
            match read {
                ExchangeLine::Slot(inception) => {
                    check_last(&slots, Some(inception)).map_err(at)?;
                    slots.push(ResponseSlot { inception, line, sets: Vec::new() });
                }
                ExchangeLine::End(_) => {}
                ExchangeLine::Record(rtype, ttl, rdata) => {
                    let slot = slots.last_mut().ok_or_else(|| at(ExchangeFaultKind::NoHeader(WORD)))?;
                    add(slot, line, (rtype, ttl, rdata)).map_err(at)?;
                }
            }
        }
        check_last(&slots, None).map_err(|kind| ExchangeFault { line: last, kind })?;
        match slots.is_empty() {
            true => Err(ExchangeFault { line: last, kind: ExchangeFaultKind::NoSlots }),
            false => Ok(SignedKeyResponse { slots }),
        }
    }

    /// Returns the text of the response, made at `now`.
    pub fn write(&self, zone: Name<'_>, now: UnixTime) -> String {
        let mut out = String::new();
        for slot in &self.slots {
            write_header(&mut out, WORD, slot.inception);
            for set in SETS.iter().filter_map(|rtype| slot.set(*rtype)) {
                set.rdatas.iter().for_each(|rdata| write_record(&mut out, zone, set.rtype, set.ttl, rdata));
                for (_, rdata) in &set.sigs {
                    write_record(&mut out, zone, Type::RRSIG, set.ttl, rdata);
                }
            }
        }
        write_end(&mut out, WORD, now, "");
        out
    }

    /// Returns the index of the slot at a time: the last one that has begun.
    pub fn slot_at(&self, now: UnixTime) -> Option<usize> {
        self.slots.iter().rposition(|slot| slot.inception <= now)
    }

    /// When the last slot ends: its signatures expire.
    pub fn end(&self) -> Option<UnixTime> {
        self.slots.last().map(ResponseSlot::expiration)
    }

    /// Returns the slots of this response that begin before `later`, and all slots of `later`.
    pub fn followed_by(&self, later: &SignedKeyResponse) -> SignedKeyResponse {
        let Some(first) = later.slots.first() else { return self.clone() };
        let kept = self.slots.iter().filter(|slot| slot.inception < first.inception);
        SignedKeyResponse { slots: kept.chain(&later.slots).cloned().collect() }
    }

    /// Drops the slots that are over: all that begin before the one at `now`, but the one before it.
    pub fn forget_past(&mut self, now: UnixTime) {
        if let Some(current) = self.slot_at(now) {
            self.slots.drain(..current.saturating_sub(1));
        }
    }
}

/// Adds a record to a slot. Signatures come after the records that they cover.
fn add(
    slot: &mut ResponseSlot,
    line: usize,
    (rtype, ttl, rdata): (Type, Option<Ttl>, Vec<u8>),
) -> Result<(), ExchangeFaultKind> {
    let (of, is_sig) = match rtype {
        Type::RRSIG => {
            let covered = Rrsig::read(&rdata).map(|sig| sig.type_covered);
            let bad = |_| ExchangeFaultKind::BadData(rtype.to_string(), "malformed".into());
            let covered = covered.map_err(bad)?;
            (covered, true)
        }
        _ => (rtype, false),
    };
    let at = slot.sets.iter().position(|set| set.rtype == of);
    let set = match (at, is_sig) {
        (Some(at), _) => &mut slot.sets[at],
        (None, true) => {
            return Err(ExchangeFaultKind::OtherType(format!("RRSIG of {of}, without such records,")));
        }
        (None, false) => {
            let ttl = ttl.unwrap_or(Ttl::ZERO);
            slot.sets.push(PresignedSet { line, rtype: of, ttl, rdatas: Vec::new(), sigs: Vec::new() });
            let last = slot.sets.len() - 1;
            &mut slot.sets[last]
        }
    };
    if ttl.is_some_and(|ttl| ttl != set.ttl) {
        return Err(ExchangeFaultKind::OtherTtl(of.to_string()));
    }
    if is_sig {
        set.sigs.push((line, rdata));
    } else if let Err(place) = set.rdatas.binary_search(&rdata) {
        set.rdatas.insert(place, rdata);
    }
    Ok(())
}

/// Checks the last slot, and that the next one begins after it.
fn check_last(slots: &[ResponseSlot], next: Option<UnixTime>) -> Result<(), ExchangeFaultKind> {
    match slots.last() {
        Some(last) if last.dnskeys().is_empty() => Err(ExchangeFaultKind::NoKeys),
        Some(last) if next.is_some_and(|next| next <= last.inception) => Err(ExchangeFaultKind::Order),
        _ => Ok(()),
    }
}
