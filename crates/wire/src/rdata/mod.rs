//! RDATA: one file per type, each with a description of its fields that serves all uses.
//!
//! A type's file declares a [`Layout`], the list of its fields in wire order. One engine interprets the list:
//! `field` walks it over wire bytes (validation, embedded names, canonical form), `parse` parses text and
//! `write` writes text. [`view`] has the types whose fields other modules use. The few types whose text is
//! not a sequence of fields implement `field::Special`. The meaning of records is not covered here.

mod bitmap;
mod fault;
mod field;
mod mnemonic;
mod parse;
mod types;
pub mod view;
mod write;

use std::fmt;

use crate::malformed::Malformed;
use crate::name::Name;
use crate::rr::Type;
use crate::text::Token;

pub use fault::{TextFault, TextFaultKind};
pub use field::{EmbeddedName, EmbeddedNames, Field, Kind, Layout, NameRule, Special};
pub use parse::Cursor;

/// Most bytes of RDATA: its length is a 16-bit field (RFC 1035 §3.2.1).
pub const MAX_RDATA: usize = u16::MAX as usize;

/// The layout of a type; `None` if the type is unknown.
#[inline]
pub fn layout(t: Type) -> Option<&'static Layout> {
    types::find(t)
}

/// The names inside uncompressed RDATA, in wire order.
///
/// Costs one table lookup for types without names and for unknown types. Stops where `rdata` is malformed.
#[inline]
pub fn embedded_names(t: Type, rdata: &[u8]) -> EmbeddedNames<'_> {
    EmbeddedNames::new(layout(t), rdata)
}

/// Checks that uncompressed RDATA has its type's format, with nothing missing and nothing left over.
///
/// RDATA of unknown types is always well formed (RFC 3597 §3), up to 65,535 bytes.
#[inline]
pub fn validate(t: Type, rdata: &[u8]) -> Result<(), Malformed> {
    if rdata.len() > MAX_RDATA {
        return Err(Malformed);
    }
    layout(t).map_or(Ok(()), |layout| layout.validate(rdata))
}

/// Appends RDATA from a message to `out`, with its names decompressed if the type allows compression on
/// receipt (RFC 3597 §4).
///
/// `name` reads the possibly compressed name at an offset of `region`: it appends the name's uncompressed
/// form and returns the length of its compressed form in `region`. Expanded RDATA is validated; RDATA of
/// other types is copied unchanged. On an error `out` is unchanged.
pub fn expand(
    t: Type,
    region: &[u8],
    out: &mut Vec<u8>,
    name: impl FnMut(usize, &mut Vec<u8>) -> Option<usize>,
) -> Result<(), Malformed> {
    let Some(layout) = layout(t).filter(|layout| layout.may_be_compressed()) else {
        out.extend_from_slice(region);
        return Ok(());
    };
    let start = out.len();
    let done = layout.expand(region, out, name).and_then(|()| validate(t, &out[start..]));
    if done.is_err() {
        out.truncate(start);
    }
    done
}

/// Whether RDATA of type `t` may contain compressed names, so that [`expand`] validates it.
#[inline]
pub fn is_expanded(t: Type) -> bool {
    layout(t).is_some_and(|layout| layout.may_be_compressed())
}

/// Lowers the names in RDATA that are in lower case in canonical form (RFC 4034 §6.2, RFC 6840 §5.1).
pub fn canonical(t: Type, rdata: &mut [u8]) {
    let Some(layout) = layout(t) else { return };
    let mut names = layout.names();
    while let Some(name) = names.next(rdata) {
        if name.rule != NameRule::Plain {
            rdata[name.start..name.start + name.len].make_ascii_lowercase();
        }
    }
}

/// Whether the uncompressed RDATA of two records of type `t` is equal in [canonical] form, which ignores the
/// letter case of most names (RFC 4034 §6.2).
pub fn is_same(t: Type, a: &[u8], b: &[u8]) -> bool {
    let canonical = |rdata: &[u8]| {
        let mut rdata = rdata.to_vec();
        canonical(t, &mut rdata);
        rdata
    };
    a == b || a.eq_ignore_ascii_case(b) && canonical(a) == canonical(b)
}

/// Parses the text of a record's RDATA and appends its uncompressed wire form to `out`.
///
/// Accepts the form of the type or, for every type, the generic one of RFC 3597 §5 (`\# length hex`).
/// Relative names are completed by `origin`. On an error `out` is unchanged.
#[inline]
pub fn parse_text(
    t: Type,
    tokens: &[Token<'_>],
    origin: Option<Name<'_>>,
    out: &mut Vec<u8>,
) -> Result<(), TextFault> {
    let start = out.len();
    let done = parse::record_data(t, tokens, origin, out);
    if done.is_err() {
        out.truncate(start);
    }
    done
}

/// Writes RDATA as one line that any zone file reader turns into the same bytes.
///
/// Unknown types, malformed RDATA and RDATA that the type's own form cannot express are written in the
/// generic form of RFC 3597 §5.
pub fn write_text(t: Type, rdata: &[u8], to: &mut impl fmt::Write) -> fmt::Result {
    write::record_data(t, rdata, to)
}

#[cfg(test)]
pub(crate) mod testing;
