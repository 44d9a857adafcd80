//! Names in lower case: for lookups, hashes and stored owners.
//!
//! Letter case has no meaning there (RFC 4343 §2), so names are lowered first. The type keeps an unlowered
//! name from being used by mistake.

use std::fmt;

use super::{BadName, MAX_NAME, Name, NameBuf};
use crate::bytes::same;

/// A domain name in lower case: borrowed, uncompressed wire form. Created by
/// [`HashedName`](crate::hash::HashedName), by [`Name::to_lower`], or from bytes of such a name.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct LowerName<'a>(Name<'a>);

impl<'a> LowerName<'a> {
    /// Wraps a name without upper-case letters; [`BadName`] if it has any.
    pub fn new(name: Name<'a>) -> Result<Self, BadName> {
        // Length bytes are below `A`, so the whole wire form can be checked.
        if name.as_wire().iter().any(u8::is_ascii_uppercase) { Err(BadName) } else { Ok(LowerName(name)) }
    }

    /// Creates a name without checks from bytes that were [`as_wire`](Self::as_wire) of a lower-case name.
    /// Other bytes yield undefined results, but no memory unsafety.
    #[inline]
    pub fn of_checked(wire: &'a [u8]) -> Self {
        debug_assert!(Name::from_wire(wire).and_then(LowerName::new).is_ok(), "not a name in lower case");
        LowerName(Name(wire))
    }

    /// The name as a [`Name`].
    #[inline]
    pub fn as_name(self) -> Name<'a> {
        self.0
    }

    /// The wire form, root label included.
    #[inline]
    pub fn as_wire(self) -> &'a [u8] {
        self.0.as_wire()
    }

    /// Length in bytes on the wire, 1 to 255.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a name is never empty: the root has one byte")]
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Labels from left to right, without the root.
    #[inline]
    pub fn labels(self) -> super::Labels<'a> {
        self.0.labels()
    }

    /// Number of labels, without the root.
    pub fn label_count(self) -> usize {
        self.0.label_count()
    }

    /// The name without its leftmost label; `None` for the root.
    #[inline]
    pub fn parent(self) -> Option<LowerName<'a>> {
        self.0.parent().map(LowerName)
    }

    /// Whether the name is at or below `ancestor`.
    #[inline]
    pub fn is_at_or_below(self, ancestor: LowerName<'_>) -> bool {
        let (name, end) = (self.as_wire(), ancestor.as_wire());
        name.len().checked_sub(end.len()).is_some_and(|cut| name[cut..] == *end && self.0.has_label_at(cut))
    }

    /// An owned copy.
    pub fn to_buf(self) -> LowerNameBuf {
        LowerNameBuf(self.0.to_buf())
    }

    /// The wildcard directly below the name, written to `buf`; [`BadName`] if that is too long.
    #[inline]
    pub fn wildcard(self, buf: &mut [u8; MAX_NAME]) -> Result<LowerName<'_>, BadName> {
        let (asterisk, rest) = buf.split_at_mut(2);
        asterisk.copy_from_slice(b"\x01*");
        rest.get_mut(..self.len()).ok_or(BadName)?.copy_from_slice(self.as_wire());
        Ok(LowerName(Name(&buf[..2 + self.len()])))
    }
}

impl PartialEq for LowerName<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        same(self.as_wire(), other.as_wire())
    }
}
impl Eq for LowerName<'_> {}

impl fmt::Display for LowerName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
impl fmt::Debug for LowerName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// An owned domain name in lower case: 256 bytes inline, without allocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LowerNameBuf(NameBuf);

impl LowerNameBuf {
    /// The root.
    pub const ROOT: LowerNameBuf = LowerNameBuf(NameBuf::ROOT);

    /// A copy of the name in lower case.
    #[inline]
    pub(super) fn of(name: Name<'_>) -> Self {
        let mut lower = NameBuf { len: name.len() as u8, bytes: [0; MAX_NAME] };
        copy_lower(name.as_wire(), &mut lower.bytes);
        LowerNameBuf(lower)
    }

    /// Sets this to a copy of the name in lower case.
    #[inline]
    pub fn set(&mut self, name: Name<'_>) {
        copy_lower(name.as_wire(), &mut self.0.bytes);
        self.0.len = name.len() as u8;
    }

    /// Borrows the name.
    #[inline]
    pub fn as_lower(&self) -> LowerName<'_> {
        LowerName(self.0.as_name())
    }

    /// Borrows the name as a [`Name`].
    #[inline]
    pub fn as_name(&self) -> Name<'_> {
        self.0.as_name()
    }
}

impl From<LowerNameBuf> for NameBuf {
    fn from(name: LowerNameBuf) -> NameBuf {
        name.0
    }
}
impl fmt::Display for LowerNameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
impl fmt::Debug for LowerNameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Copies a name in lower case to the front of `to`, eight bytes at a time; the last eight overlap the
/// previous ones if the length is not a multiple of eight.
///
/// Length bytes are at most 63, and so never in `A` (65) to `Z` (90): a whole wire name can be lowered
/// without looking for its labels.
#[inline]
pub(crate) fn copy_lower<const N: usize>(wire: &[u8], to: &mut [u8; N]) {
    let lower = |word: &[u8; 8]| lower_word(u64::from_le_bytes(*word)).to_le_bytes();
    let (Some(first), Some(last)) = (wire.first_chunk(), wire.last_chunk()) else {
        to.iter_mut().zip(wire).for_each(|(to, byte)| *to = byte.to_ascii_lowercase());
        return;
    };
    match wire.len() {
        // Most names queried have no word between these two.
        ..=16 => to[..8].copy_from_slice(&lower(first)),
        _ => {
            let words = wire.as_chunks().0;
            to.as_chunks_mut().0.iter_mut().zip(words).for_each(|(to, word)| *to = lower(word));
        }
    }
    to[wire.len() - 8..wire.len()].copy_from_slice(&lower(last));
}

/// Lowers eight bytes at once, one in each lane of a word, without branches.
///
/// Setting bit 5 (0x20) makes an upper-case letter lower-case. So bit 7 of each lane is computed to state
/// whether its byte is in `A..=Z`, and shifted down by two. Bit 7 states whether an addition exceeded 0x7f;
/// the byte's own bit 7 is cleared first, so that no lane carries into the next:
///
/// ```text
///                               '@' 0x40   'A' 0x41   'Z' 0x5a   '[' 0x5b   0xc1
/// low7                              0x40       0x41       0x5a       0x5b   0x41
/// from_a   = low7 + 0x3f            0x7f       0x80       0x99       0x9a   0x80   bit 7: 'A' or above
/// above_z  = low7 + 0x25            0x65       0x66       0x7f       0x80   0x66   bit 7: above 'Z'
/// xor, bit 7                           0          1          1          0      1
/// and not bit 7 of the byte            0          1          1          0      0   0xc1 is no letter
/// moved down by two: or with        0x00       0x20       0x20       0x00   0x00
/// ```
#[inline]
fn lower_word(w: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let low7 = w & (0x7f * ONES);
    let above_z = low7 + (0x7f - b'Z' as u64) * ONES;
    let from_a = low7 + (0x80 - b'A' as u64) * ONES;
    let upper = (above_z ^ from_a) & !w & (0x80 * ONES);
    w | upper >> 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> NameBuf {
        text.parse().expect("a name")
    }

    #[test]
    fn upper_case_letters_are_refused_wherever_they_stand() {
        for (text, lower) in
            [(".", true), ("www.example.", true), ("wwW.example.", false), ("www.Example.", false)]
        {
            assert_eq!(LowerName::new(name(text).as_name()).is_ok(), lower, "{text}");
        }
        // Bytes beyond ASCII have no letter case.
        assert!(LowerName::new(name(r"\192\223.").as_name()).is_ok());
    }

    #[test]
    fn wildcards_are_made_as_long_as_they_are_names() {
        let mut buf = [0; MAX_NAME];
        let wildcard = |text: &str, buf: &mut [u8; MAX_NAME]| {
            name(text).as_name().to_lower().as_lower().wildcard(buf).map(|n| n.as_name().to_buf())
        };
        assert_eq!(wildcard(".", &mut buf), Ok(name("*.")));
        assert_eq!(wildcard("Example.COM.", &mut buf), Ok(name("*.example.com.")));
        let longest = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(59)].join(".");
        assert_eq!(wildcard(&longest, &mut buf).map(|n| n.as_name().len()), Ok(255));
        assert_eq!(wildcard(&(longest + "e"), &mut buf), Err(BadName));
    }

    #[test]
    fn below_means_at_a_label_boundary() {
        let below = |a: &str, b: &str| {
            let (a, b) = (name(a).as_name().to_lower(), name(b).as_name().to_lower());
            a.as_lower().is_at_or_below(b.as_lower())
        };
        assert!(below("a.b.c.", "B.c.") && below("a.", "a.") && below("a.", "."));
        assert!(!below("ab.c.", "b.c.") && !below(r"x\001b.c.", "b.c.") && !below("c.", "b.c."));
    }

    proptest! {
        #[test]
        fn words_are_lowered_as_bytes_are(w: u64) {
            let mut bytes = w.to_le_bytes();
            bytes.make_ascii_lowercase();
            prop_assert_eq!(lower_word(w).to_le_bytes(), bytes);
        }

        #[test]
        fn lowering_changes_letters_only(bytes in prop::collection::vec(any::<u8>(), 1..64)) {
            let mixed = NameBuf::prepend(&bytes, Name::ROOT).expect("a label");
            let lower = mixed.as_name().to_lower();
            prop_assert_eq!(lower.as_name(), mixed.as_name());
            prop_assert!(LowerName::new(lower.as_name()).is_ok());
            prop_assert_eq!(lower.as_name().as_wire(), mixed.as_name().as_wire().to_ascii_lowercase());
        }
    }
}
