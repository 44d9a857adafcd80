//! Field kinds of RDATA, and the walk over wire bytes: field lengths and names.

use std::fmt;

use super::bitmap;
use super::fault::TextFaultKind;
use super::parse::Cursor;
use crate::malformed::Malformed;
use crate::name::Name;
use crate::rr::Type;

/// Compression and letter case of a name inside RDATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// May be compressed when sent: the types of RFC 1035 (RFC 3597 §4). Lower case in canonical form.
    Compress,
    /// Sent uncompressed, decompressed on receipt (RFC 3597 §4), lower case in canonical form (RFC 4034
    /// §6.2).
    Lower,
    /// Never compressed; letter case kept.
    Plain,
}

/// A name inside RDATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddedName {
    /// Its offset in the RDATA.
    pub start: usize,
    /// Its length in bytes, including the root label.
    pub len: usize,
    /// Its compression and letter case.
    pub rule: NameRule,
}

/// One field of a type.
#[derive(Clone, Copy)]
pub struct Field {
    /// Its name in the RFC.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
}

impl Field {
    /// Creates a field with this name and kind.
    pub const fn new(name: &'static str, kind: Kind) -> Self {
        Field { name, kind }
    }
}

/// The kind of a field, in wire form and text.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A domain name.
    Name(NameRule),
    /// Domain names up to the end, possibly none.
    Names(NameRule),
    /// One byte, decimal.
    U8,
    /// Two bytes, decimal.
    U16,
    /// Four bytes, decimal.
    U32,
    /// Eight bytes, decimal.
    U64,
    /// Four bytes: seconds, in text optionally with units.
    Duration,
    /// Four bytes: seconds since 1970 as a serial number, in text a date (RFC 4034 §3.2).
    Time,
    /// Four bytes, dotted decimal.
    Ipv4,
    /// Sixteen bytes, colons and hex.
    Ipv6,
    /// A character-string: a length byte and as many bytes (RFC 1035 §3.3).
    String,
    /// Character-strings up to the end, at least one.
    Strings,
    /// A character-string that may be absent, in text and on the wire.
    OptionalString,
    /// A character-string of one or more letters and digits, never quoted (RFC 8659 §4.1.1).
    Tag,
    /// One quoted string without a length byte, up to the end; the number is its minimum length.
    LongString(usize),
    /// Bytes up to the end, in base64; the number is the minimum length.
    Base64(usize),
    /// Bytes up to the end, in base64, `-` if there are none.
    Base64OrDash,
    /// A two-byte length and as many bytes; in text the length and, unless it is 0, one base64 token.
    SizedBase64,
    /// Bytes up to the end, in hex; the number is the minimum length.
    Hex(usize),
    /// A length byte and that many bytes; hex in one token, `-` for none (RFC 5155 §3.3).
    SizedHex,
    /// A length byte and that many bytes, at least one; base32hex in one token (RFC 5155 §3.3).
    SizedBase32,
    /// A fixed number of bytes, in text groups of hex digits with a separator.
    Grouped {
        /// Total number of bytes.
        bytes: usize,
        /// Bytes per group.
        group: usize,
        /// The separator between groups.
        separator: u8,
    },
    /// Two bytes: a record type by mnemonic.
    Type,
    /// The types present at a name, up to the end (RFC 4034 §4.1.2).
    TypeBitmap,
    /// One byte: a number; text may also have a mnemonic from the list.
    Mnemonic8(&'static [(u8, &'static str)]),
    /// One byte: a number; text may also have a mnemonic from the list, and is written with it.
    Mnemonic8Named(&'static [(u8, &'static str)]),
    /// Two bytes: a number; text may also have a mnemonic from the list, and is written with it.
    Mnemonic16(&'static [(u16, &'static str)]),
    /// Any bytes up to the end, with only the generic text form (RFC 3597 §5).
    Opaque,
    /// A special kind.
    Special(&'static dyn Special),
}

/// A field kind that only one type, or few types, have.
pub trait Special: Sync {
    /// Checks the field at the front of `rest` and returns its length in bytes.
    fn wire_len(&self, rest: &[u8]) -> Result<usize, Malformed>;

    /// The name inside the field's bytes, if any.
    fn name(&self, _bytes: &[u8]) -> Option<EmbeddedName> {
        None
    }

    /// Whether text can express these bytes, which [`Special::wire_len`] has accepted.
    fn has_text(&self, _bytes: &[u8]) -> bool {
        true
    }

    /// Parses the field's tokens and appends its wire form.
    fn parse(&self, cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind>;

    /// Writes the field's bytes as text, without surrounding white space; nothing for a field that text
    /// omits.
    fn write(&self, bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result;
}

/// A rule on RDATA with well-formed fields; returns its description if it is violated.
pub(super) type Check = fn(&[u8]) -> Result<(), &'static str>;

/// The description of a type.
pub struct Layout {
    /// The type.
    pub rtype: Type,
    /// Its fields in wire order, which is also the order of the text.
    pub fields: &'static [Field],
    /// A rule beyond the single fields.
    pub(super) check: Option<Check>,
    /// Number of fields up to the last one that may contain a name.
    names_end: usize,
}

impl Layout {
    /// Creates a description.
    pub(super) const fn new(rtype: Type, fields: &'static [Field]) -> Self {
        let (mut i, mut names_end) = (0, 0);
        while i < fields.len() {
            if matches!(fields[i].kind, Kind::Name(_) | Kind::Names(_) | Kind::Special(_)) {
                names_end = i + 1;
            }
            i += 1;
        }
        Layout { rtype, fields, check: None, names_end }
    }

    /// Adds a rule.
    pub(super) const fn with_check(self, check: Check) -> Self {
        Layout { check: Some(check), ..self }
    }

    /// Checks uncompressed RDATA.
    pub(super) fn validate(&self, rdata: &[u8]) -> Result<(), Malformed> {
        let mut at = 0;
        for field in self.fields {
            at += field.kind.wire_len(rdata.get(at..).ok_or(Malformed)?)?;
        }
        if at != rdata.len() {
            return Err(Malformed);
        }
        self.check.map_or(Ok(()), |check| check(rdata).map_err(|_| Malformed))
    }

    /// Whether RDATA may contain compressed names (RFC 3597 §4).
    pub(super) fn may_be_compressed(&self) -> bool {
        self.fields.iter().any(|field| matches!(field.kind, Kind::Name(NameRule::Compress | NameRule::Lower)))
    }

    /// Copies RDATA from a message; `name` reads its names.
    pub(super) fn expand(
        &self,
        region: &[u8],
        out: &mut Vec<u8>,
        mut name: impl FnMut(usize, &mut Vec<u8>) -> Option<usize>,
    ) -> Result<(), Malformed> {
        let mut at = 0;
        for field in self.fields {
            let rest = region.get(at..).ok_or(Malformed)?;
            if let Kind::Name(NameRule::Compress | NameRule::Lower) = field.kind {
                at += name(at, out).ok_or(Malformed)?;
            } else {
                let len = field.kind.wire_len(rest)?;
                out.extend_from_slice(rest.get(..len).ok_or(Malformed)?);
                at += len;
            }
        }
        if at == region.len() { Ok(()) } else { Err(Malformed) }
    }

    /// A walk over the names of RDATA.
    pub(super) fn names(&self) -> NameWalk {
        NameWalk { fields: &self.fields[..self.names_end], at: 0 }
    }
}

/// A walk over the names of RDATA that does not borrow it.
#[derive(Clone)]
pub(super) struct NameWalk {
    /// Remaining fields, up to the last one that may contain a name.
    fields: &'static [Field],
    /// Offset of the first of them, or of the next name of a list.
    at: usize,
}

impl NameWalk {
    /// The next name of `rdata`, which must be the same bytes on each call except for letter case.
    #[inline]
    pub(super) fn next(&mut self, rdata: &[u8]) -> Option<EmbeddedName> {
        loop {
            let (field, later) = self.fields.split_first()?;
            let rest = rdata.get(self.at..)?;
            let start = self.at;
            if let Kind::Name(rule) | Kind::Names(rule) = field.kind {
                if !matches!(field.kind, Kind::Names(_)) {
                    self.fields = later;
                }
                let len = Name::parse(rest).ok()?.len();
                self.at += len;
                return Some(EmbeddedName { start, len, rule });
            }
            self.fields = later;
            let len = field.kind.wire_len(rest).ok()?;
            self.at += len;
            if let Kind::Special(special) = field.kind
                && let Some(name) = special.name(rest.get(..len)?)
            {
                return Some(EmbeddedName { start: start + name.start, ..name });
            }
        }
    }
}

/// Iterates over the names inside RDATA.
#[derive(Clone)]
pub struct EmbeddedNames<'r> {
    walk: NameWalk,
    rdata: &'r [u8],
}

impl<'r> EmbeddedNames<'r> {
    #[inline]
    pub(super) fn new(layout: Option<&'static Layout>, rdata: &'r [u8]) -> Self {
        EmbeddedNames { walk: layout.map_or(NameWalk { fields: &[], at: 0 }, Layout::names), rdata }
    }
}

impl Iterator for EmbeddedNames<'_> {
    type Item = EmbeddedName;

    #[inline]
    fn next(&mut self) -> Option<EmbeddedName> {
        self.walk.next(self.rdata)
    }
}

impl Kind {
    /// Checks a field of this kind at the front of `rest` and returns its length in bytes.
    #[inline]
    pub fn wire_len(&self, rest: &[u8]) -> Result<usize, Malformed> {
        let fixed = |len| if len <= rest.len() { Ok(len) } else { Err(Malformed) };
        let sized = |least: usize| match rest.first() {
            Some(&len) if len as usize >= least => fixed(1 + len as usize),
            _ => Err(Malformed),
        };
        let at_least = |least| if rest.len() >= least { Ok(rest.len()) } else { Err(Malformed) };
        match *self {
            Kind::Name(_) => Name::parse(rest).map(Name::len).map_err(|_| Malformed),
            Kind::Names(_) => all(rest, |rest| Name::parse(rest).map(Name::len).map_err(|_| Malformed)),
            Kind::U8 | Kind::Mnemonic8(_) | Kind::Mnemonic8Named(_) => fixed(1),
            Kind::U16 | Kind::Type | Kind::Mnemonic16(_) => fixed(2),
            Kind::U32 | Kind::Duration | Kind::Time | Kind::Ipv4 => fixed(4),
            Kind::U64 => fixed(8),
            Kind::Ipv6 => fixed(16),
            Kind::Grouped { bytes, .. } => fixed(bytes),
            Kind::String | Kind::SizedHex => sized(0),
            Kind::SizedBase32 => sized(1),
            Kind::OptionalString if rest.is_empty() => Ok(0),
            Kind::OptionalString => sized(0),
            Kind::Strings if rest.is_empty() => Err(Malformed),
            Kind::Strings => all(rest, |rest| Kind::String.wire_len(rest)),
            Kind::Tag => {
                let len = sized(1)?;
                if rest[1..len].iter().all(u8::is_ascii_alphanumeric) { Ok(len) } else { Err(Malformed) }
            }
            Kind::SizedBase64 => {
                let size = rest.first_chunk::<2>().ok_or(Malformed)?;
                fixed(2 + u16::from_be_bytes(*size) as usize)
            }
            Kind::LongString(least) | Kind::Base64(least) | Kind::Hex(least) => at_least(least),
            Kind::Base64OrDash | Kind::Opaque => Ok(rest.len()),
            Kind::TypeBitmap => bitmap::validate(rest).map(|()| rest.len()),
            Kind::Special(special) => special.wire_len(rest),
        }
    }
}

/// The length of `rest` if items with the lengths that `item` returns fill it.
fn all(rest: &[u8], item: impl Fn(&[u8]) -> Result<usize, Malformed>) -> Result<usize, Malformed> {
    let mut at = 0;
    while at < rest.len() {
        at += item(&rest[at..])?;
    }
    if at == rest.len() { Ok(at) } else { Err(Malformed) }
}
