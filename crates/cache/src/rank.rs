//! How far data is to be trusted.

/// Where an answer came from, the less trustworthy below (RFC 2181 §5.4.1). While an entry is fresh, an
/// answer of lower rank does not replace it.
///
/// The RFC's list begins with zone files and transfers. Those are answered from before the cache is asked,
/// and glue of such zones never gets here, so they have no rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Credibility {
    /// From the additional section of an answer, or from the authority section of one that is not
    /// authoritative.
    Additional = 0,
    /// From the answer section of an answer that is not authoritative, as forwarders return it; also what an
    /// authoritative answer says of names that are not its own, as behind a CNAME.
    Answer = 1,
    /// From the authority section of an authoritative answer.
    Authority = 2,
    /// From the answer section of an authoritative answer, or its denial.
    Authoritative = 3,
    /// Validated, wherever it came from (RFC 4035 §5.5).
    Validated = 4,
}

impl Credibility {
    /// All ranks, the lowest first.
    pub const ALL: [Credibility; 5] = [
        Credibility::Additional,
        Credibility::Answer,
        Credibility::Authority,
        Credibility::Authoritative,
        Credibility::Validated,
    ];

    /// The rank of this number; the lowest if there is none.
    #[inline]
    pub(crate) fn of(number: u8) -> Credibility {
        Self::ALL.get(number as usize).copied().unwrap_or(Credibility::Additional)
    }
}
