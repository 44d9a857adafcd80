//! Findings about a version in service: flaws of the zone as a whole, and how long its signatures are valid.

use std::fmt;
use std::sync::Arc;

use zone::Zone;

/// Signatures that end within this many seconds end soon, and so do those that have a quarter of their time
/// left if that is less: a weekend is enough to renew them.
const SOON: i64 = 3 * 86_400;

/// What was found out about one version of a zone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Examination {
    /// What is wrong with the zone as a whole, as far as kept.
    pub findings: Vec<FlawText>,
    /// Findings beyond those.
    pub more: usize,
    /// The signature that ends first; none if the zone has none.
    pub signatures: Option<FirstExpiry>,
}

/// What is wrong with a zone, in a line. A [`Flaw`] itself would take ten times the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlawText {
    /// Whether it is more than a warning.
    pub error: bool,
    /// What it is.
    pub message: String,
}

/// The signature of a zone that ends first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstExpiry {
    /// When it ends, in seconds since 1970.
    pub at: i64,
    /// How long it holds from its beginning to its end, in seconds.
    pub lifetime: i64,
}

/// How far the signatures of a zone are from their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SignatureAge {
    /// All of them hold for long enough.
    #[default]
    Valid,
    /// One ends soon.
    Expiring,
    /// One has ended: validating resolvers take the answer with it for forged.
    Expired,
}

impl SignatureAge {
    /// One word for listings.
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

/// When it ends, as signatures are written in zones: `YYYYMMDDHHmmSS`, UTC (RFC 4034 §3.2).
impl fmt::Display for FirstExpiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        wire::text::write_time(self.at as u32, f)
    }
}

impl FirstExpiry {
    /// How far the end is at a time, in seconds since 1970.
    pub fn age(&self, now: i64) -> SignatureAge {
        match self.at - now {
            ..=0 => SignatureAge::Expired,
            left if left < SOON.min(self.lifetime / 4) => SignatureAge::Expiring,
            _ => SignatureAge::Valid,
        }
    }
}

/// A version that is to be examined.
#[derive(Debug, Clone)]
pub struct ExamineOrder {
    /// The version.
    pub zone: Arc<Zone>,
    /// Whether it is folded if that pays.
    pub fold: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_soon_depends_on_the_lifetime() {
        let month = FirstExpiry { at: 0, lifetime: 30 * 86_400 };
        let day = FirstExpiry { at: 0, lifetime: 86_400 };
        assert_eq!(month.age(-SOON), SignatureAge::Valid);
        assert_eq!(month.age(1 - SOON), SignatureAge::Expiring);
        assert_eq!(day.age(1 - SOON), SignatureAge::Valid);
        assert_eq!(day.age(-1), SignatureAge::Expiring);
        assert_eq!(day.age(0), SignatureAge::Expired);
        assert_eq!(FirstExpiry { at: 1_700_000_000, lifetime: 1 }.to_string(), "20231114221320");
    }
}
