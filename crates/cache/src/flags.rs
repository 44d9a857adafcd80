//! The flag bits of an entry.

/// Flags of an entry's key and answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(pub(crate) u8);

impl Flags {
    const DNSSEC_OK: u8 = 1;
    const CHECKING_DISABLED: u8 = 2;
    const FAILURE: u8 = 4;
    const AUTHORITATIVE: u8 = 8;
    const AUTHENTIC: u8 = 16;
    const NEGATIVE: u8 = 32;

    /// The flags that belong to the key.
    pub(crate) const KEY: Flags = Flags(Self::DNSSEC_OK | Self::CHECKING_DISABLED | Self::FAILURE);

    fn of(bits: [(bool, u8); 3]) -> Flags {
        Flags(bits.into_iter().filter(|(on, _)| *on).fold(0, |flags, (_, bit)| flags | bit))
    }

    /// Returns the flags of a key.
    #[inline]
    pub(crate) fn key(dnssec_ok: bool, checking_disabled: bool, failure: bool) -> Flags {
        let bit = |on, bit| if on { bit } else { 0 };
        Flags(
            bit(dnssec_ok, Self::DNSSEC_OK)
                | bit(checking_disabled, Self::CHECKING_DISABLED)
                | bit(failure, Self::FAILURE),
        )
    }

    /// Returns the flags that do not belong to the key.
    pub(crate) fn answer(authoritative: bool, authentic: bool, negative: bool) -> Flags {
        Self::of([
            (authoritative, Self::AUTHORITATIVE),
            (authentic, Self::AUTHENTIC),
            (negative, Self::NEGATIVE),
        ])
    }

    /// Returns the flags of the key, the others clear.
    #[inline]
    pub(crate) fn of_key(self) -> Flags {
        Flags(self.0 & Self::KEY.0)
    }

    /// Returns the union of both.
    pub(crate) fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    pub(crate) fn dnssec_ok(self) -> bool {
        self.0 & Self::DNSSEC_OK != 0
    }

    pub(crate) fn checking_disabled(self) -> bool {
        self.0 & Self::CHECKING_DISABLED != 0
    }

    #[inline]
    pub(crate) fn is_failure(self) -> bool {
        self.0 & Self::FAILURE != 0
    }

    #[inline]
    pub(crate) fn authoritative(self) -> bool {
        self.0 & Self::AUTHORITATIVE != 0
    }

    #[inline]
    pub(crate) fn authentic(self) -> bool {
        self.0 & Self::AUTHENTIC != 0
    }

    pub(crate) fn is_negative(self) -> bool {
        self.0 & Self::NEGATIVE != 0
    }
}
