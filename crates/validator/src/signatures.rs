//! Checks the signatures of an RRset within the budget (RFC 4035 §5.3).

use dnssec::algorithm;
use dnssec::key::tag;
use dnssec::verify::{SigFault, SignedSet};
use wire::rdata::view::{Dnskey, Rrsig};
use wire::{Name, Ttl, UnixTime};

use crate::budget::{ValidationBudget, ValidationLimit};
use crate::outcome::BogusReason;
use crate::response::{ReceivedSet, ReceivedSignature};
use crate::settings::ValidationSettings;

/// The content of a valid signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    /// Number of signed labels of the owner; fewer than the owner has if expanded from a wildcard (RFC 4035
    /// §5.3.4).
    pub(crate) labels: usize,
    /// The longest time for which the set may be cached (RFC 4035 §5.3.3).
    pub(crate) ttl: Ttl,
    /// The original TTL in the zone (RFC 4034 §3.1.4).
    pub(crate) original_ttl: Ttl,
    /// The remaining validity of the signature.
    pub(crate) left: Ttl,
}

/// The context for checking signatures.
pub(crate) struct Checker<'a> {
    pub(crate) settings: &'a ValidationSettings,
    pub(crate) now: UnixTime,
    /// The required signer.
    pub(crate) zone: Name<'a>,
    /// RDATA of its keys.
    pub(crate) keys: &'a [Vec<u8>],
}

impl Checker<'_> {
    /// Finds a valid signature of the zone over `set`.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn check(
        &self,
        set: &ReceivedSet,
        budget: &mut ValidationBudget,
    ) -> Result<Checked, BogusReason> {
        if set.rdatas.len() > budget.limits().records_per_set {
            return Err(ValidationLimit::RecordsPerSet.into());
        }
        let signed = SignedSet { owner: set.owner.as_name(), rtype: set.rtype, rdatas: &set.rdatas };
        let (mut reason, mut tried) = (BogusReason::Unsigned, 0);
        for signature in &set.signatures {
            let sig = match self.admissible(&signed, signature) {
                Ok(sig) => sig,
                Err(fault) => {
                    reason = reason.or_closer(BogusReason::Signature(fault));
                    continue;
                }
            };
            tried += 1;
            if tried > budget.limits().signatures_per_set {
                return Err(ValidationLimit::SignaturesPerSet.into());
            }
            match self.verify(&signed, &sig, budget)? {
                Ok(()) => return Ok(self.checked(set, signature, &sig)),
                Err(why) => reason = reason.or_closer(why),
            }
        }
        Err(reason)
    }

    /// Parses the signature and checks everything that needs no key.
    fn admissible<'s>(
        &self,
        signed: &SignedSet<'_>,
        signature: &'s ReceivedSignature,
    ) -> Result<Rrsig<'s>, SigFault> {
        let sig = Rrsig::read(&signature.rdata)?;
        signed.check(&sig, self.zone, self.now.to_serial(), self.settings.skew)?;
        if self.settings.takes_algorithm(sig.algorithm) {
            Ok(sig)
        } else {
            Err(SigFault::UnsupportedAlgorithm)
        }
    }

    /// Verifies one signature with the keys that match its tag. The outer error means that the budget is used
    /// up.
    fn verify(
        &self,
        signed: &SignedSet<'_>,
        sig: &Rrsig<'_>,
        budget: &mut ValidationBudget,
    ) -> Result<Result<(), BogusReason>, ValidationLimit> {
        let keys = self.keys.iter().filter_map(|rdata| Dnskey::read(rdata).ok());
        let mut fitting =
            keys.filter(|k| k.algorithm == sig.algorithm && k.is_zone_key() && tag(k) == sig.key_tag);
        let bytes = match signed.signed_bytes(sig) {
            Ok(bytes) => bytes,
            Err(fault) => return Ok(Err(BogusReason::Signature(fault))),
        };
        let mut fault = SigFault::NoKey;
        for key in fitting.by_ref().take(budget.limits().keys_per_tag) {
            budget.take_signature()?;
            if algorithm::verify(&key, &bytes, sig.signature) {
                return Ok(Ok(()));
            }
            budget.note_failure();
            fault = SigFault::BadSignature;
        }
        match fitting.next() {
            Some(_) => Ok(Err(ValidationLimit::KeysPerTag.into())),
            None => Ok(Err(BogusReason::Signature(fault))),
        }
    }

    fn checked(&self, set: &ReceivedSet, signature: &ReceivedSignature, sig: &Rrsig<'_>) -> Checked {
        let left = sig.expiration.0.wrapping_add(self.settings.skew).wrapping_sub(self.now.to_serial().0);
        let (original_ttl, left) = (sig.original_ttl, Ttl::from_secs(left));
        let ttl = set.ttl.min(signature.ttl).min(original_ttl).min(left);
        Checked { labels: sig.labels as usize, ttl, original_ttl, left }
    }
}
