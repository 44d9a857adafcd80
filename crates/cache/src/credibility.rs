//! Credibility of data.

/// The source of an answer, least credible first (RFC 2181 §5.4.1). While an entry is fresh, an answer of
/// lower credibility does not replace it.
///
/// The RFC's list begins with zone files and transfers. Such data are answered before the cache, and glue of
/// such zones is never cached, so they have no rank here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Credibility {
    /// From the additional section of an answer, or from the authority section of one that is not
    /// authoritative.
    Additional = 0,
    /// From the answer section of an answer that is not authoritative, as forwarders return it; also records
    /// behind a CNAME in an authoritative answer, whose names are in another zone.
    Answer = 1,
    /// From the authority section of an authoritative answer.
    Authority = 2,
    /// From the answer section of an authoritative answer, or an authoritative denial.
    Authoritative = 3,
    /// Validated, from any source (RFC 4035 §5.5).
    Validated = 4,
}

impl Credibility {
    /// All ranks, lowest first.
    pub const ALL: [Credibility; 5] = [
        Credibility::Additional,
        Credibility::Answer,
        Credibility::Authority,
        Credibility::Authoritative,
        Credibility::Validated,
    ];

    /// Returns the rank with this number; the lowest if there is none.
    #[inline]
    pub(crate) fn of(number: u8) -> Credibility {
        Self::ALL.get(number as usize).copied().unwrap_or(Credibility::Additional)
    }
}
