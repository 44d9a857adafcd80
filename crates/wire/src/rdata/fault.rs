//! Faults in the text of RDATA.

use std::fmt;

use super::MAX_RDATA;
use crate::name::NameTextError;
use crate::text::{BadEncoding, BadEscape};

/// A fault in a record's text, with its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextFault {
    /// Index of the offending token; the number of tokens if one is missing.
    pub token: usize,
    /// Name of the field being read; empty if the fault is not in one.
    pub field: &'static str,
    /// What is wrong.
    pub kind: TextFaultKind,
}

impl fmt::Display for TextFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        self.kind.fmt(f)
    }
}
impl std::error::Error for TextFault {}

/// The kind of a [`TextFault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFaultKind {
    /// The record ends before this field.
    Missing,
    /// More tokens than the type has fields.
    Extra,
    /// A quoted string where none is allowed.
    Quoted,
    /// A quotation mark inside a string that did not start with one.
    StrayQuote,
    /// Not a decimal number.
    NotANumber,
    /// A number outside the field's range.
    OutOfRange {
        /// The least allowed.
        min: u64,
        /// The greatest allowed.
        max: u64,
    },
    /// Not a domain name.
    Name(NameTextError),
    /// Not four decimal bytes.
    BadIpv4,
    /// Not an IPv6 address.
    BadIpv6,
    /// Not a time span: seconds, or numbers with the units w, d, h, m, s.
    BadDuration,
    /// Neither a date as YYYYMMDDHHmmSS nor seconds since 1970.
    BadTime,
    /// Not base64, or incomplete.
    BadBase64,
    /// Not base32hex.
    BadBase32,
    /// Not hex, or an odd number of digits.
    BadHex,
    /// `\` at the end, or `\DDD` that is not a number up to 255.
    BadEscape,
    /// A character-string of more than 255 bytes (RFC 1035 §3.3).
    StringTooLong,
    /// Not a record type's mnemonic, nor `TYPEn`.
    BadType,
    /// Neither a number nor a mnemonic of the field.
    BadMnemonic,
    /// Not in the format of the field, which the text describes.
    BadForm(&'static str),
    /// The fields are well formed but violate a rule of the type, which the text describes.
    Rule(&'static str),
    /// A service parameter key that is neither registered nor `keyN` (RFC 9460 §2.1).
    UnknownSvcKey,
    /// A service parameter key occurs twice (RFC 9460 §2.1).
    DuplicateSvcKey,
    /// A service parameter lacks its required value.
    MissingSvcValue,
    /// A service parameter that takes no value has one.
    UnexpectedSvcValue,
    /// More than 65,535 bytes.
    TooLong,
    /// The type has only the generic text form (RFC 3597 §5).
    OnlyGeneric,
    /// The bytes after `\# length` do not match the length.
    GenericLength {
        /// The length.
        declared: u64,
        /// The number of bytes found.
        found: usize,
    },
    /// The bytes in generic form are not valid RDATA of this type.
    GenericMalformed,
}

impl fmt::Display for TextFaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "missing",
            Self::Extra => "unexpected text after the last field",
            Self::Quoted => "quotation marks are not allowed here",
            Self::StrayQuote => {
                "a quotation mark amid the string (a blank keeps strings apart, \\\" is the mark)"
            }
            Self::NotANumber => "not a decimal number",
            Self::OutOfRange { min, max } => return write!(f, "number out of range ({min} to {max})"),
            Self::Name(error) => return error.fmt(f),
            Self::BadIpv4 => "not an IPv4 address",
            Self::BadIpv6 => "not an IPv6 address",
            Self::BadDuration => "not a number of seconds (units w, d, h, m, s are allowed)",
            Self::BadTime => "not a time (YYYYMMDDHHmmSS, or seconds since 1970)",
            Self::BadBase64 => "bad base64",
            Self::BadBase32 => "bad base32hex",
            Self::BadHex => "bad hex (wrong digit, or an odd number of them)",
            Self::BadEscape => "bad escape (\\ needs a character or three digits up to 255)",
            Self::StringTooLong => "string longer than 255 bytes",
            Self::BadType => "unknown record type",
            Self::BadMnemonic => "neither a number nor a known mnemonic",
            Self::BadForm(form) => return write!(f, "not {form}"),
            Self::Rule(rule) => rule,
            Self::UnknownSvcKey => "unknown service parameter key",
            Self::DuplicateSvcKey => "the same service parameter key twice",
            Self::MissingSvcValue => "service parameter needs a value",
            Self::UnexpectedSvcValue => "service parameter takes no value",
            Self::TooLong => return write!(f, "record data longer than {MAX_RDATA} bytes"),
            Self::OnlyGeneric => "this type has no text form but \\# (RFC 3597)",
            Self::GenericLength { declared, found } => {
                return write!(f, "\\# announces {declared} bytes, but {found} follow");
            }
            Self::GenericMalformed => "the bytes after \\# are not data of this type",
        })
    }
}

impl From<NameTextError> for TextFaultKind {
    fn from(error: NameTextError) -> Self {
        Self::Name(error)
    }
}
impl From<BadEscape> for TextFaultKind {
    fn from(_: BadEscape) -> Self {
        Self::BadEscape
    }
}

/// For hex, the most frequent encoding; others are mapped where they are parsed.
impl From<BadEncoding> for TextFaultKind {
    fn from(_: BadEncoding) -> Self {
        Self::BadHex
    }
}
