//! [`ValidationBudget`]: bounds the validation work for one client query, across restarts.
//!
//! Each query has one [`ValidationBudget`], which all validation for this query shares and which is never
//! refilled. A few records that cause much work have stalled validators for hours (CVE-2023-50387,
//! CVE-2023-50868).

use std::fmt;

/// Limits of validation work. The defaults leave ample room for well-behaved zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidationLimits {
    /// Signatures verified per query.
    pub signatures: u32,
    /// Failed verifications per query.
    pub failures: u32,
    /// Signatures checked per RRset.
    pub signatures_per_set: usize,
    /// Keys with the same tag and algorithm tried per signature, or compared per DS.
    pub keys_per_tag: usize,
    /// DS records followed per zone.
    pub ds_per_zone: usize,
    /// NSEC or NSEC3 RRsets checked per response; a proof has at most three (RFC 5155 §7.2).
    pub denial_sets: usize,
    /// SHA-1 blocks of 64 bytes hashed for NSEC3 per query. Eight names at 50 iterations take some 410.
    pub nsec3_hashes: u32,
    /// Records per RRset.
    pub records_per_set: usize,
    /// DS and DNSKEY responses requested per query.
    pub fetches: u32,
}

impl Default for ValidationLimits {
    fn default() -> Self {
        ValidationLimits {
            signatures: 16,
            failures: 4,
            signatures_per_set: 8,
            keys_per_tag: 2,
            ds_per_zone: 8,
            denial_sets: 8,
            nsec3_hashes: 450,
            records_per_set: 256,
            fetches: 64,
        }
    }
}

/// The exceeded limit, named after its field of [`ValidationLimits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is named after its field")]
pub enum ValidationLimit {
    Signatures,
    Failures,
    SignaturesPerSet,
    KeysPerTag,
    DsPerZone,
    DenialSets,
    Nsec3Hashes,
    RecordsPerSet,
    Fetches,
}

impl ValidationLimit {
    /// Whether the limit counts the work of a whole query. Records are not bogus because a query exceeds it.
    pub fn is_of_query(self) -> bool {
        matches!(self, Self::Signatures | Self::Failures | Self::Nsec3Hashes | Self::Fetches)
    }
}

impl fmt::Display for ValidationLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Signatures => "signatures verified for one query",
            Self::Failures => "signatures of one query that are not good",
            Self::SignaturesPerSet => "signatures of one RRset",
            Self::KeysPerTag => "keys with one tag",
            Self::DsPerZone => "DS records of one zone",
            Self::DenialSets => "NSEC or NSEC3 in one response",
            Self::Nsec3Hashes => "hashes for NSEC3 in one query",
            Self::RecordsPerSet => "records of one RRset",
            Self::Fetches => "DS and DNSKEY asked for in one query",
        })
    }
}

/// The work done so far for one query, and its limits.
#[derive(Clone, Debug)]
pub struct ValidationBudget {
    limits: ValidationLimits,
    signatures: u32,
    failures: u32,
    nsec3_hashes: u32,
    fetches: u32,
    digests: u32,
}

impl ValidationBudget {
    /// Creates a full budget for a new query.
    pub fn new(limits: ValidationLimits) -> Self {
        ValidationBudget { limits, signatures: 0, failures: 0, nsec3_hashes: 0, fetches: 0, digests: 0 }
    }

    /// The limits.
    pub fn limits(&self) -> &ValidationLimits {
        &self.limits
    }

    /// Signatures verified so far.
    pub fn signatures(&self) -> u32 {
        self.signatures
    }

    /// Failed verifications so far.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// SHA-1 blocks hashed for NSEC3 so far.
    pub fn nsec3_hashes(&self) -> u32 {
        self.nsec3_hashes
    }

    /// DS and DNSKEY responses requested so far.
    pub fn fetches(&self) -> u32 {
        self.fetches
    }

    /// Key digests computed so far, for comparison with DS. They need no limit of their own: there is at most
    /// one of each type for each DNSKEY received, and the bytes of received responses are limited.
    pub fn digests(&self) -> u32 {
        self.digests
    }

    /// Counts a computed key digest.
    pub(crate) fn note_digest(&mut self) {
        self.digests = self.digests.saturating_add(1);
    }

    /// Reserves one signature verification. Fails once too many have failed.
    pub(crate) fn take_signature(&mut self) -> Result<(), ValidationLimit> {
        if self.failures >= self.limits.failures {
            return Err(ValidationLimit::Failures);
        }
        take(&mut self.signatures, 1, self.limits.signatures).ok_or(ValidationLimit::Signatures)
    }

    /// Counts a failed verification.
    pub(crate) fn note_failure(&mut self) {
        self.failures += 1;
    }

    /// Reserves this many hashed blocks.
    pub(crate) fn take_hashes(&mut self, blocks: u32) -> Result<(), ValidationLimit> {
        take(&mut self.nsec3_hashes, blocks, self.limits.nsec3_hashes).ok_or(ValidationLimit::Nsec3Hashes)
    }

    /// Reserves one DS or DNSKEY request.
    pub(crate) fn take_fetch(&mut self) -> Result<(), ValidationLimit> {
        take(&mut self.fetches, 1, self.limits.fetches).ok_or(ValidationLimit::Fetches)
    }
}

/// Adds to `spent`, unless the result would exceed `limit`.
fn take(spent: &mut u32, amount: u32, limit: u32) -> Option<()> {
    let after = spent.checked_add(amount).filter(|after| *after <= limit)?;
    *spent = after;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_beyond_the_limit() {
        let limits = ValidationLimits { nsec3_hashes: 10, signatures: 1, ..ValidationLimits::default() };
        let mut budget = ValidationBudget::new(limits);
        assert_eq!(budget.take_hashes(8), Ok(()));
        assert_eq!(budget.take_hashes(3), Err(ValidationLimit::Nsec3Hashes));
        assert_eq!(budget.take_hashes(2), Ok(()));
        assert_eq!(budget.nsec3_hashes(), 10);
        assert_eq!(budget.take_signature(), Ok(()));
        assert_eq!(budget.take_signature(), Err(ValidationLimit::Signatures));
    }

    #[test]
    fn after_the_failures_allowed_nothing_more_is_verified() {
        let mut budget =
            ValidationBudget::new(ValidationLimits { failures: 1, ..ValidationLimits::default() });
        assert_eq!(budget.take_signature(), Ok(()));
        budget.note_failure();
        assert_eq!(budget.take_signature(), Err(ValidationLimit::Failures));
        assert_eq!((budget.signatures(), budget.failures()), (1, 1));
    }
}
