//! Domain names in uncompressed wire form (RFC 1035 §3.1): borrowed [`Name`], owned [`NameBuf`], shared
//! [`ZoneName`].
//!
//! Names keep their letter case and are compared without regard to it (RFC 1035 §2.3.3, RFC 4343).
//! [`crate::message::Parser`] reads compressed names; hashing is in [`crate::hash`].

mod case;
mod lower;
pub(crate) mod text;
mod view;
mod zone;

use std::cmp::Ordering;
use std::fmt;

pub(crate) use lower::copy_lower;
pub use lower::{LowerName, LowerNameBuf};
pub use text::NameTextError;
pub use view::{BadViewName, MAX_VIEW_NAME, ViewName};
pub use zone::ZoneName;

/// Longest name in bytes, including length bytes and root (RFC 1035 §2.3.4).
pub const MAX_NAME: usize = 255;
/// Longest label in bytes, without its length byte (RFC 1035 §2.3.4).
pub const MAX_LABEL: usize = 63;
/// Most labels of a name, without the root.
pub const MAX_LABELS: usize = 127;

/// The bytes are not a name in uncompressed wire form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadName;

/// A domain name: borrowed, uncompressed wire form, ends with the root label, at most 255 bytes.
#[derive(Clone, Copy)]
pub struct Name<'a>(&'a [u8]);

impl<'a> Name<'a> {
    /// The root.
    pub const ROOT: Name<'static> = Name(&[0]);

    /// Parses the name at the front of `bytes`, which may continue after it.
    ///
    /// Compression pointers and the unassigned label kinds are [`BadName`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BadName> {
        let mut at = 0;
        loop {
            let len = *bytes.get(at).ok_or(BadName)? as usize;
            if len == 0 {
                return Ok(Name(&bytes[..=at]));
            }
            at += len + 1;
            if len > MAX_LABEL || at >= MAX_NAME {
                return Err(BadName);
            }
        }
    }

    /// Parses all of `bytes` as one name.
    pub fn from_wire(bytes: &'a [u8]) -> Result<Self, BadName> {
        let name = Self::parse(bytes)?;
        if name.0.len() == bytes.len() { Ok(name) } else { Err(BadName) }
    }

    /// Creates a name without checks from bytes that were [`as_wire`](Self::as_wire) of a name. Other bytes
    /// yield undefined results, but no memory unsafety.
    #[inline]
    pub fn of_checked(wire: &'a [u8]) -> Self {
        debug_assert!(Self::from_wire(wire).is_ok(), "not a name");
        Name(wire)
    }

    /// The wire form, root label included.
    #[inline]
    pub fn as_wire(self) -> &'a [u8] {
        self.0
    }

    /// Length in bytes on the wire, 1 to 255.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a name is never empty: the root has one byte")]
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether this is the root.
    #[inline]
    pub fn is_root(self) -> bool {
        self.0.len() == 1
    }

    /// Whether the leftmost label is `*` (RFC 4592 §2.1.1).
    #[inline]
    pub fn is_wildcard(self) -> bool {
        self.0.starts_with(b"\x01*")
    }

    /// Labels from left to right, without the root.
    #[inline]
    pub fn labels(self) -> Labels<'a> {
        Labels(self.0)
    }

    /// Number of labels, without the root.
    pub fn label_count(self) -> usize {
        self.labels().count()
    }

    /// The name without its leftmost label; `None` for the root.
    #[inline]
    pub fn parent(self) -> Option<Name<'a>> {
        let len = self.0[0] as usize;
        if len == 0 { None } else { Some(Name(&self.0[len + 1..])) }
    }

    /// The name and each of its ancestors, ending with the root.
    pub fn ancestors(self) -> impl Iterator<Item = Name<'a>> {
        std::iter::successors(Some(self), |n| n.parent())
    }

    /// The name without its `n` leftmost labels; the root if it has fewer.
    pub fn skip(self, n: usize) -> Name<'a> {
        self.ancestors().nth(n).unwrap_or(Name(&self.0[self.0.len() - 1..]))
    }

    /// Whether the name is at or below `ancestor`.
    #[inline]
    pub fn is_at_or_below(self, ancestor: Name<'_>) -> bool {
        let Some(cut) = self.0.len().checked_sub(ancestor.0.len()) else { return false };
        self.0[cut..].eq_ignore_ascii_case(ancestor.0) && self.has_label_at(cut)
    }

    /// Whether a label or the root starts at offset `cut`.
    #[inline]
    fn has_label_at(self, cut: usize) -> bool {
        let mut at = 0;
        while at < cut {
            at += self.0[at] as usize + 1;
        }
        at == cut
    }

    /// Writes the offset of each label, left to right, and returns their number.
    fn offsets(self, to: &mut [u8; MAX_LABELS + 1]) -> usize {
        let (mut at, mut n) = (0usize, 0usize);
        while self.0[at] != 0 {
            to[n] = at as u8;
            n += 1;
            at += self.0[at] as usize + 1;
        }
        n
    }

    /// Canonical order (RFC 4034 §6.1): labels from right to left, as lower-case bytes, short before long.
    pub fn canonical_cmp(self, other: Name<'_>) -> Ordering {
        let (mut a, mut b) = ([0u8; MAX_LABELS + 1], [0u8; MAX_LABELS + 1]);
        let (na, nb) = (self.offsets(&mut a), other.offsets(&mut b));
        for i in 1..=na.min(nb) {
            match cmp_label(label_at(self.0, a[na - i]), label_at(other.0, b[nb - i])) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
        }
        na.cmp(&nb)
    }

    /// An owned copy in lower case.
    #[inline]
    pub fn to_lower(self) -> LowerNameBuf {
        LowerNameBuf::of(self)
    }

    /// An owned copy.
    pub fn to_buf(self) -> NameBuf {
        let mut buf = NameBuf { len: self.0.len() as u8, bytes: [0; MAX_NAME] };
        buf.bytes[..self.0.len()].copy_from_slice(self.0);
        buf
    }
}

#[inline]
fn label_at(wire: &[u8], at: u8) -> &[u8] {
    let at = at as usize;
    &wire[at + 1..at + 1 + wire[at] as usize]
}

fn cmp_label(a: &[u8], b: &[u8]) -> Ordering {
    let lower = |l: &u8| l.to_ascii_lowercase();
    a.iter().map(lower).cmp(b.iter().map(lower))
}

impl PartialEq for Name<'_> {
    /// Compares without regard to ASCII letter case. Length bytes are below `A`, so whole names can be
    /// compared.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(other.0)
    }
}
impl Eq for Name<'_> {}
impl PartialOrd for Name<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Name<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.canonical_cmp(*other)
    }
}

impl fmt::Display for Name<'_> {
    /// Zone file text with the final dot, as [`crate::text::write_name`] writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write_name(*self, f)
    }
}
impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Iterates over the labels of a name, left to right, without the root.
#[derive(Clone)]
pub struct Labels<'a>(&'a [u8]);

impl<'a> Iterator for Labels<'a> {
    type Item = &'a [u8];
    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let len = self.0[0] as usize;
        if len == 0 {
            return None;
        }
        let label = &self.0[1..=len];
        self.0 = &self.0[len + 1..];
        Some(label)
    }
}

/// An owned domain name: 256 bytes inline, without allocation.
#[derive(Clone, Copy)]
pub struct NameBuf {
    len: u8,
    bytes: [u8; MAX_NAME],
}

impl NameBuf {
    /// The root.
    pub const ROOT: NameBuf = NameBuf { len: 1, bytes: [0; MAX_NAME] };

    /// Parses zone file text as [`crate::text::name`] does: escapes, `@` for the origin, relative names
    /// completed by the origin.
    pub fn from_text(text: &[u8], origin: Option<Name<'_>>) -> Result<Self, NameTextError> {
        let mut wire = Vec::with_capacity(MAX_NAME);
        text::name(text, origin, &mut wire)?;
        Name::from_wire(&wire).map(Name::to_buf).map_err(|_| NameTextError::NameTooLong)
    }

    /// Borrows the name.
    #[inline]
    pub fn as_name(&self) -> Name<'_> {
        Name(&self.bytes[..self.len as usize])
    }

    /// Prepends `label`; [`BadName`] if the label or the result is too long.
    pub fn prepend(label: &[u8], name: Name<'_>) -> Result<Self, BadName> {
        let len = label.len() + 1 + name.len();
        if label.is_empty() || label.len() > MAX_LABEL || len > MAX_NAME {
            return Err(BadName);
        }
        let mut buf = NameBuf { len: len as u8, bytes: [0; MAX_NAME] };
        buf.bytes[0] = label.len() as u8;
        buf.bytes[1..=label.len()].copy_from_slice(label);
        buf.bytes[label.len() + 1..len].copy_from_slice(name.as_wire());
        Ok(buf)
    }

    /// Replaces the last `drop` labels of `name` by `suffix`: DNAME substitution (RFC 6672 §2.2).
    ///
    /// [`BadName`] if the result is longer than 255 bytes.
    pub fn replace_suffix(name: Name<'_>, drop: usize, suffix: Name<'_>) -> Result<Self, BadName> {
        let keep = name.label_count().saturating_sub(drop);
        let prefix = name.len() - name.skip(keep).len();
        let len = prefix + suffix.len();
        if len > MAX_NAME {
            return Err(BadName);
        }
        let mut buf = NameBuf { len: len as u8, bytes: [0; MAX_NAME] };
        buf.bytes[..prefix].copy_from_slice(&name.as_wire()[..prefix]);
        buf.bytes[prefix..len].copy_from_slice(suffix.as_wire());
        Ok(buf)
    }

    /// The buffer into which the message parser writes labels with their length bytes.
    pub(crate) fn writer(&mut self) -> &mut [u8; MAX_NAME] {
        &mut self.bytes
    }

    /// Sets the name to the first `labels` bytes, which are whole labels and at most 254, followed by the
    /// root.
    pub(crate) fn end_after(&mut self, labels: usize) {
        self.bytes[labels] = 0;
        self.len = labels as u8 + 1;
    }
}

impl std::str::FromStr for NameBuf {
    type Err = NameTextError;
    /// Parses text without an origin; the final dot may be missing.
    fn from_str(text: &str) -> Result<Self, NameTextError> {
        NameBuf::from_text(text.as_bytes(), Some(Name::ROOT))
    }
}
impl PartialEq for NameBuf {
    fn eq(&self, other: &Self) -> bool {
        self.as_name() == other.as_name()
    }
}
impl Eq for NameBuf {}
impl PartialOrd for NameBuf {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for NameBuf {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_name().canonical_cmp(other.as_name())
    }
}
impl std::hash::Hash for NameBuf {
    /// Hashes the lower-case form, consistent with `Eq`.
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        for byte in self.as_name().as_wire() {
            state.write_u8(byte.to_ascii_lowercase());
        }
    }
}
impl fmt::Display for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_name(), f)
    }
}
impl fmt::Debug for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> NameBuf {
        text.parse().expect("a name")
    }

    #[test]
    fn text_and_wire_agree() {
        assert_eq!(name("www.Example.com.").as_name().as_wire(), b"\x03www\x07Example\x03com\0");
        assert_eq!(name(r"a\.b\001.c").as_name().as_wire(), b"\x04a.b\x01\x01c\0");
        assert_eq!(name(r"a\.b\001.c").to_string(), r"a\.b\001.c.");
        assert_eq!(name(".").to_string(), ".");
    }

    #[test]
    fn relative_names_take_the_origin() {
        let origin = name("example.com.");
        let with = |t: &[u8]| NameBuf::from_text(t, Some(origin.as_name()));
        assert_eq!(with(b"www"), Ok(name("www.example.com.")));
        assert_eq!(with(b"@"), Ok(origin));
        assert_eq!(with(b"www."), Ok(name("www.")));
        assert_eq!(NameBuf::from_text(b"www", None), Err(NameTextError::NoOrigin));
    }

    #[test]
    fn bad_text_is_named() {
        let err = |t: &str| t.parse::<NameBuf>().unwrap_err();
        assert_eq!(err(""), NameTextError::Empty);
        assert_eq!(err("a..b"), NameTextError::EmptyLabel);
        assert_eq!(err(".a"), NameTextError::EmptyLabel);
        assert_eq!(err(&"a".repeat(64)), NameTextError::LabelTooLong);
        assert!("a".repeat(63).parse::<NameBuf>().is_ok());
        assert_eq!(err(&"abc.".repeat(64)), NameTextError::NameTooLong);
        assert_eq!(err(r"a\"), NameTextError::BadEscape);
        assert_eq!(err(r"a\256"), NameTextError::BadEscape);
        assert_eq!(err(r"a\12"), NameTextError::BadEscape);
    }

    #[test]
    fn longest_name_has_255_bytes() {
        let text = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61)].join(".");
        assert_eq!(name(&text).as_name().len(), 255);
        assert_eq!(name(&(text.clone() + ".")).as_name().len(), 255);
        assert_eq!((text + "e").parse::<NameBuf>(), Err(NameTextError::NameTooLong));
        let deep = "a.".repeat(127);
        assert_eq!(name(&deep).as_name().label_count(), 127);
        assert!("a.".repeat(128).parse::<NameBuf>().is_err());
    }

    #[test]
    fn case_is_ignored_and_kept() {
        assert_eq!(name("WWW.example."), name("www.EXAMPLE."));
        assert_eq!(name("WWW.example.").to_string(), "WWW.example.");
    }

    #[test]
    fn below_means_at_a_label_boundary() {
        assert!(name("a.b.c").as_name().is_at_or_below(name("B.c").as_name()));
        assert!(!name("ab.c").as_name().is_at_or_below(name("b.c").as_name()));
        // The last bytes of `\001b` look like the label `b`, but no label starts there.
        assert!(!name(r"x\001b.c").as_name().is_at_or_below(name("b.c").as_name()));
        assert!(name("a").as_name().is_at_or_below(Name::ROOT));
    }

    #[test]
    fn order_is_that_of_rfc_4034_section_6_1() {
        let sorted = [
            "example.",
            "a.example.",
            "yljkjljk.a.example.",
            "Z.a.example.",
            "zABC.a.EXAMPLE.",
            "z.example.",
            r"\001.z.example.",
            "*.z.example.",
            r"\200.z.example.",
        ];
        for pair in sorted.windows(2) {
            assert!(name(pair[0]) < name(pair[1]), "{} < {}", pair[0], pair[1]);
        }
    }

    #[test]
    fn wire_names_reject_pointers_and_overruns() {
        assert!(Name::parse(b"\x03www\xc0\x0c").is_err());
        assert!(Name::parse(b"\x03ww").is_err());
        assert!(Name::parse(b"").is_err());
        assert_eq!(Name::parse(b"\x01a\0rest").map(Name::len), Ok(3));
        assert!(Name::from_wire(b"\x01a\0rest").is_err());
    }

    #[test]
    fn dname_substitution_replaces_the_suffix() {
        let replace =
            |n: &str, drop, s: &str| NameBuf::replace_suffix(name(n).as_name(), drop, name(s).as_name());
        assert_eq!(replace("a.b.example.com", 2, "x.net"), Ok(name("a.b.x.net")));
        let long = format!("{}.example", ["a"; 100].join("."));
        assert!(replace(&long, 1, &["b".repeat(60).as_str(); 2].join(".")).is_err());
    }
}
