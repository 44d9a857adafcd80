//! What fields there are, and the walk over wire bytes: how long each is, where names are.

use std::fmt;

use super::bitmap;
use super::fault::TextFaultKind;
use super::parse::Cursor;
use crate::malformed::Malformed;
use crate::name::Name;
use crate::rr::Type;

/// What may be done to a name inside RDATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// May be compressed when sent: the types of RFC 1035 (RFC 3597 §4). Lower case in canonical form.
    Compress,
    /// Sent uncompressed, decompressed on receipt (RFC 3597 §4), lower case in canonical form (RFC 4034
    /// §6.2).
    Lower,
    /// Never compressed, letter case kept.
    Plain,
}

/// A name inside RDATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddedName {
    /// Where it starts in the RDATA.
    pub start: usize,
    /// Its bytes, root label included.
    pub len: usize,
    /// What may be done to it.
    pub rule: NameRule,
}

/// One field of a type.
#[derive(Clone, Copy)]
pub struct Field {
    /// What the RFC calls it.
    pub name: &'static str,
    /// Its form.
    pub kind: Kind,
}

impl Field {
    /// A field of this name and form.
    pub const fn new(name: &'static str, kind: Kind) -> Self {
        Field { name, kind }
    }
}

/// The form of a field on the wire and in text.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A domain name.
    Name(NameRule),
    /// Domain names up to the end, perhaps none.
    Names(NameRule),
    /// One byte, decimal.
    U8,
    /// Two bytes, decimal.
    U16,
    /// Four bytes, decimal.
    U32,
    /// Eight bytes, decimal.
    U64,
    /// Four bytes: seconds, in text with units if one likes.
    Duration,
    /// Four bytes: seconds since 1970 as a serial number, in text a date (RFC 4034 §3.2).
    Time,
    /// Four bytes, dotted decimal.
    Ipv4,
    /// Sixteen bytes, colons and hex.
    Ipv6,
    /// A character-string: a length byte and as many bytes (RFC 1035 §3.3).
    String,
    /// Character-strings up to the end, one at least.
    Strings,
    /// A character-string that text may leave out together with its bytes.
    OptionalString,
    /// A character-string of one or more letters and digits, never quoted (RFC 8659 §4.1.1).
    Tag,
    /// One quoted string without a length byte, up to the end; the number is its least length.
    LongString(usize),
    /// Bytes up to the end, in base64; the number is the least there must be.
    Base64(usize),
    /// Bytes up to the end, in base64, `-` if there are none.
    Base64OrDash,
    /// A two-byte length and as many bytes; in text the length and, unless it is 0, one base64 token.
    SizedBase64,
    /// Bytes up to the end, in hex; the number is the least there must be.
    Hex(usize),
    /// A length byte and as many bytes; hex in one token, `-` for none (RFC 5155 §3.3).
    SizedHex,
    /// A length byte and as many bytes, one at least; base32hex in one token (RFC 5155 §3.3).
    SizedBase32,
    /// So many bytes, in text hex with this between groups of so many bytes.
    Grouped {
        /// Bytes in all.
        bytes: usize,
        /// Bytes in a group.
        group: usize,
        /// What stands between groups.
        separator: u8,
    },
    /// Two bytes: a record type by mnemonic.
    Type,
    /// The types present at a name, up to the end (RFC 4034 §4.1.2).
    TypeBitmap,
    /// One byte: a number, read from a mnemonic out of the list too.
    Mnemonic8(&'static [(u8, &'static str)]),
    /// One byte: a number, read from a mnemonic out of the list too and written as one.
    Mnemonic8Named(&'static [(u8, &'static str)]),
    /// Two bytes: a number, read from a mnemonic out of the list too and written as one.
    Mnemonic16(&'static [(u16, &'static str)]),
    /// Any bytes up to the end, without a text form (RFC 3597 §5 serves).
    Opaque,
    /// A form of its own.
    Special(&'static dyn Special),
}

/// A form that only one type has.
pub trait Special: Sync {
    /// Bytes that the field takes up at the front of `rest`, having checked them.
    fn wire_len(&self, rest: &[u8]) -> Result<usize, Malformed>;

    /// The name inside the field's bytes, if it holds one.
    fn name(&self, _bytes: &[u8]) -> Option<EmbeddedName> {
        None
    }

    /// Whether text can express these bytes, which have passed [`Special::wire_len`].
    fn has_text(&self, _bytes: &[u8]) -> bool {
        true
    }

    /// Reads the field's tokens and appends its wire form.
    fn parse(&self, cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind>;

    /// Writes the field's bytes as text, without white space in front or behind; nothing at all for a field
    /// that text leaves out.
    fn write(&self, bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result;
}

/// A rule on RDATA whose fields are well formed: its words if it is broken.
pub(super) type Check = fn(&[u8]) -> Result<(), &'static str>;

/// The description of a type.
pub struct Layout {
    /// The type.
    pub rtype: Type,
    /// Its fields in wire order, which is that of the text too.
    pub fields: &'static [Field],
    /// What the fields alone cannot say.
    pub(super) check: Option<Check>,
    /// Number of fields up to the last one that may hold a name.
    names_end: usize,
}

impl Layout {
    /// Describes a type.
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

    /// Whether a name in RDATA may come compressed (RFC 3597 §4).
    pub(super) fn may_be_compressed(&self) -> bool {
        self.fields.iter().any(|field| matches!(field.kind, Kind::Name(NameRule::Compress | NameRule::Lower)))
    }

    /// Copies RDATA out of a message, names read by `name`.
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

    /// The walk over the names of RDATA, at its start.
    pub(super) fn names(&self) -> NameWalk {
        NameWalk { fields: &self.fields[..self.names_end], at: 0 }
    }
}

/// A walk over the names of RDATA that does not hold on to it.
#[derive(Clone)]
pub(super) struct NameWalk {
    /// Fields still to be looked at, up to the last one that may hold a name.
    fields: &'static [Field],
    /// Where the first of them starts, or the next name of a list.
    at: usize,
}

impl NameWalk {
    /// The next name of `rdata`, which must be the same bytes each time but for letter case.
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

/// The names inside RDATA.
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
    /// Bytes that a field of this form takes up at the front of `rest`, having checked them.
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

/// The length of `rest` if items of the length that `item` returns fill it.
fn all(rest: &[u8], item: impl Fn(&[u8]) -> Result<usize, Malformed>) -> Result<usize, Malformed> {
    let mut at = 0;
    while at < rest.len() {
        at += item(&rest[at..])?;
    }
    if at == rest.len() { Ok(at) } else { Err(Malformed) }
}
