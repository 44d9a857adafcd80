//! Signatures of an RRset at one server of the child.

use wire::rdata::view::{Dnskey, Rrsig};
use wire::{Name, Serial, Type, UnixTime};

use super::answers::ChildRrset;
use super::refusal::{ChildRefusal, RefusalReason};
use crate::budget::{ValidationBudget, ValidationLimits};
use crate::delegation::check_keys;
use crate::denial::{self, Claim, Denied, KnownHashes};
use crate::outcome::BogusReason;
use crate::response::ReceivedSet;
use crate::settings::ValidationSettings;
use crate::signatures::Checker;
use dnssec::verify::SigFault;

/// Limits for what one server has. All servers of a child that have the same are judged once.
const LIMITS: ValidationLimits = ValidationLimits {
    signatures: 64,
    failures: 16,
    signatures_per_set: 8,
    keys_per_tag: 2,
    ds_per_zone: 16,
    denial_sets: 8,
    nsec3_hashes: 1024,
    records_per_set: 256,
    fetches: 0,
};

/// Signatures that are verified for each further RRset: those of up to three records of its denial.
const SIGNATURES_PER_SET: u32 = 4;

/// The zone of a child at one server, as a validator sees it.
pub(super) struct Proof<'a> {
    pub(super) child: Name<'a>,
    /// The server, for texts.
    pub(super) server: &'a str,
    pub(super) settings: &'a ValidationSettings,
    pub(super) now: UnixTime,
    budget: ValidationBudget,
}

impl<'a> Proof<'a> {
    pub(super) fn new(
        child: Name<'a>,
        server: &'a str,
        settings: &'a ValidationSettings,
        now: UnixTime,
    ) -> Proof<'a> {
        Proof { child, server, settings, now, budget: ValidationBudget::new(LIMITS) }
    }

    /// Returns the same with room for this many RRsets besides the usual ones.
    pub(super) fn for_sets(self, sets: usize) -> Proof<'a> {
        let more = u32::try_from(sets).unwrap_or(u32::MAX).saturating_mul(SIGNATURES_PER_SET);
        let signatures = LIMITS.signatures.saturating_add(more);
        Proof { budget: ValidationBudget::new(ValidationLimits { signatures, ..LIMITS }), ..self }
    }

    /// Returns the inception of the newest valid signature over an RRset by one of these keys.
    ///
    /// # Errors
    /// There is no such RRset, or no such signature.
    pub(super) fn newest_inception(
        &mut self,
        rrset: &ChildRrset,
        rtype: Type,
        keys: &[Vec<u8>],
    ) -> Result<Serial, ChildRefusal> {
        let Some(set) = &rrset.set else { return Err(self.missing(rtype)) };
        self.newest(set, keys).map_err(|reason| self.refusal(rtype, reason))
    }

    fn newest(&mut self, set: &ReceivedSet, keys: &[Vec<u8>]) -> Result<Serial, BogusReason> {
        let checker = Checker { settings: self.settings, now: self.now, zone: self.child, keys };
        let (mut newest, mut reason): (Option<Serial>, _) = (None, BogusReason::Unsigned);
        for signature in &set.signatures {
            let one = ReceivedSet { signatures: vec![signature.clone()], ..set.clone() };
            match checker.check(&one, &mut self.budget) {
                Ok(checked) if checked.labels != set.owner.as_name().label_count() => {
                    reason = reason.or_closer(BogusReason::Wildcard);
                }
                Ok(_) => {
                    let Ok(inception) = Rrsig::read(&signature.rdata).map(|sig| sig.inception) else {
                        continue;
                    };
                    newest = Some(newest.map_or(inception, |newest| later(newest, inception)));
                }
                Err(limit @ BogusReason::Limit(_)) => return Err(limit),
                Err(why) => reason = reason.or_closer(why),
            }
        }
        newest.ok_or(reason)
    }

    /// Checks that the DNSKEY RRset is signed by a key that one of these DS has (RFC 4035 §5.2).
    pub(super) fn check_keys(&mut self, dnskey: &ChildRrset, ds: &[Vec<u8>]) -> Result<(), BogusReason> {
        let Some(set) = &dnskey.set else { return Err(BogusReason::NoDnskey) };
        check_keys(set, self.child, ds, self.settings, self.now, &mut self.budget).map(drop)
    }

    /// Checks that an RRset has a valid signature by one of these keys, and is not from a wildcard.
    pub(super) fn check(&mut self, rrset: &ChildRrset, keys: &[Vec<u8>]) -> Result<(), BogusReason> {
        let Some(set) = &rrset.set else { return Err(BogusReason::DenialMissing) };
        self.newest(set, keys).map(drop)
    }

    /// Checks that an RRset has a valid signature by one of these keys; if there is none, that keys of the
    /// zone have signed that it does not exist.
    ///
    /// # Errors
    /// Neither is proven.
    pub(super) fn check_set(
        &mut self,
        rrset: &ChildRrset,
        (owner, rtype): (Name<'_>, Type),
        keys: &[Vec<u8>],
    ) -> Result<(), ChildRefusal> {
        let proven = match rrset.set {
            Some(_) => self.check(rrset, keys),
            None => self.check_absent(rrset, (owner, rtype), keys),
        };
        proven.map_err(|reason| self.refusal(rtype, reason))
    }

    fn check_absent(
        &mut self,
        rrset: &ChildRrset,
        (owner, rtype): (Name<'_>, Type),
        keys: &[Vec<u8>],
    ) -> Result<(), BogusReason> {
        if rrset.denial.is_empty() {
            return Err(BogusReason::DenialMissing);
        }
        let mut sets = Vec::new();
        for set in rrset.denial.iter().take(LIMITS.denial_sets) {
            self.newest(set, keys)?;
            sets.push(set);
        }
        let claim = if rrset.has_no_name { Claim::Name } else { Claim::Data(rtype) };
        let known = &mut KnownHashes::default();
        match denial::prove(self.child, &sets, owner, claim, self.settings, &mut self.budget, known)? {
            Denied::Proven => Ok(()),
            Denied::Delegation | Denied::OptOut | Denied::Iterations => Err(BogusReason::DenialWrong),
        }
    }

    fn missing(&self, rtype: Type) -> ChildRefusal {
        let text = format!("name server {}: it has no {rtype} records", self.server);
        ChildRefusal::new(RefusalReason::ServersDisagree, text)
    }

    /// Returns the refusal for an RRset that is not proven.
    pub(super) fn refusal(&self, rtype: Type, reason: BogusReason) -> ChildRefusal {
        let kind = match reason {
            BogusReason::Unsigned => RefusalReason::Unsigned,
            BogusReason::NoDnskey
            | BogusReason::NoZoneKey
            | BogusReason::Signature(SigFault::NoKey | SigFault::WrongSigner) => RefusalReason::WrongSigner,
            _ => RefusalReason::BadSignature,
        };
        let text = format!("name server {}: the {rtype} records: {reason}", self.server);
        ChildRefusal::new(kind, text)
    }

    /// Returns the refusal for a DS set with which the child would not be valid.
    pub(super) fn breaks(&self, why: &str) -> ChildRefusal {
        let text = format!("name server {}: with this DS set the zone would be bogus: {why}", self.server);
        ChildRefusal::new(RefusalReason::Breaks, text)
    }
}

/// Returns the later of two times.
pub(super) fn later(a: Serial, b: Serial) -> Serial {
    if is_later(b, a) { b } else { a }
}

/// Returns the earlier of two times.
pub(super) fn earlier(a: Serial, b: Serial) -> Serial {
    if is_later(a, b) { b } else { a }
}

/// Whether a time is later than another, in serial arithmetic (RFC 4034 §3.1.5).
pub(super) fn is_later(a: Serial, b: Serial) -> bool {
    a.compare(b) == Some(std::cmp::Ordering::Greater)
}

/// Returns those keys of a DNSKEY RRset that have an algorithm.
pub(super) fn keys_of(dnskey: &ChildRrset, is_wanted: impl Fn(&Dnskey<'_>) -> bool) -> Vec<Vec<u8>> {
    let fits = |rdata: &&Vec<u8>| Dnskey::read(rdata).is_ok_and(|key| key.is_zone_key() && is_wanted(&key));
    dnskey.rdatas().iter().filter(fits).cloned().collect()
}
