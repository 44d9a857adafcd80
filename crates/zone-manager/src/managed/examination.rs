//! Findings about a version in service: flaws of the zone as a whole, and how long its signatures are valid.

use std::fmt;
use std::time::Duration;

use wire::UnixTime;

/// Signatures expire soon if they end within this time, or within a quarter of their lifetime if that is
/// less. Three days leave a weekend to renew them.
const SIGNATURE_EXPIRY_NOTICE: Duration = Duration::from_secs(3 * 86_400);

/// Result of examining one version of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Examination {
    /// Flaws of the zone as a whole; only the first ones are stored.
    pub findings: Vec<FlawText>,
    /// Number of further flaws.
    pub more: usize,
    /// The signature that expires first; `None` if the zone has no signatures.
    pub signatures: Option<FirstExpiry>,
}

/// A flaw of a zone in one line of text. A [`Flaw`](zone::check::Flaw) itself takes ten times the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlawText {
    /// Whether the flaw is an error, not a warning.
    pub error: bool,
    /// The description.
    pub message: String,
}

/// Expiration time and lifetime of the signature that expires first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstExpiry {
    /// Expiration time.
    pub at: UnixTime,
    /// The time from inception to expiration.
    pub lifetime: Duration,
}

/// How close the signatures of a zone are to their expiration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SignatureAge {
    /// No signature expires soon.
    #[default]
    Valid,
    /// A signature expires soon.
    Expiring,
    /// A signature has expired: validating resolvers treat answers with it as bogus.
    Expired,
}

impl SignatureAge {
    /// One-word form for listings.
    pub fn word(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Expiring => "expiring",
            Self::Expired => "expired",
        }
    }
}

impl fmt::Display for SignatureAge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The expiration time in the presentation format of RRSIG: `YYYYMMDDHHmmSS`, UTC (RFC 4034 §3.2).
impl fmt::Display for FirstExpiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        wire::text::write_time(self.at.to_serial().0, f)
    }
}

impl FirstExpiry {
    /// State of the signature at `now`.
    pub fn age(&self, now: UnixTime) -> SignatureAge {
        match self.at.saturating_duration_since(now) {
            Duration::ZERO => SignatureAge::Expired,
            left if left < SIGNATURE_EXPIRY_NOTICE.min(self.lifetime / 4) => SignatureAge::Expiring,
            _ => SignatureAge::Valid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_soon_depends_on_the_lifetime() {
        let (at, days) = (UnixTime::from_secs(1_700_000_000), |days: u64| Duration::from_secs(days * 86_400));
        let [month, day] = [30, 1].map(|lifetime| FirstExpiry { at, lifetime: days(lifetime) });
        let before = |time| at.saturating_sub(time);
        let (second, within) = (Duration::from_secs(1), SIGNATURE_EXPIRY_NOTICE - Duration::from_secs(1));
        assert_eq!(month.age(before(SIGNATURE_EXPIRY_NOTICE)), SignatureAge::Valid);
        assert_eq!(month.age(before(within)), SignatureAge::Expiring);
        assert_eq!(day.age(before(within)), SignatureAge::Valid);
        assert_eq!(day.age(before(second)), SignatureAge::Expiring);
        assert_eq!(day.age(at), SignatureAge::Expired);
        assert_eq!(month.to_string(), "20231114221320");
    }
}
