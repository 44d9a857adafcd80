//! Record data: one file per type, each a description of its fields that serves every use.
//!
//! A type's file declares a [`Layout`], the list of its fields in wire order. One engine interprets the list:
//! `field` walks it over wire bytes (validation, names inside, canonical form), `parse` reads text with it
//! and `write` writes text. [`view`] has the types whose fields are looked into elsewhere. The few types
//! whose text is not a row of fields bring a `field::Special`. What does not live here: which types go with
//! which, or what a record means.

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

/// The longest RDATA: its length is a 16-bit field (RFC 1035 §3.2.1).
pub const MAX_RDATA: usize = u16::MAX as usize;

/// The fields of a type; `None` if it is unknown or has no form of its own.
#[inline]
pub fn layout(t: Type) -> Option<&'static Layout> {
    types::find(t)
}

/// The names inside uncompressed RDATA, in wire order.
///
/// Costs one table look-up for types without names and for unknown types. Stops where `rdata` is malformed.
#[inline]
pub fn embedded_names(t: Type, rdata: &[u8]) -> EmbeddedNames<'_> {
    EmbeddedNames::new(layout(t), rdata)
}

/// Checks that uncompressed RDATA has the form of its type, with nothing missing and nothing left over.
///
/// Data of unknown types is always well formed (RFC 3597 §3), up to 65,535 bytes.
#[inline]
pub fn validate(t: Type, rdata: &[u8]) -> Result<(), Malformed> {
    if rdata.len() > MAX_RDATA {
        return Err(Malformed);
    }
    layout(t).map_or(Ok(()), |layout| layout.validate(rdata))
}

/// Appends RDATA found in a message to `out`, its names decompressed where the type allows compression on
/// receipt (RFC 3597 §4).
///
/// `name` is asked to read the possibly compressed name that starts at an offset of `region`: it appends the
/// name's uncompressed form and returns the bytes it took up in `region`. What was expanded is validated;
/// data of other types is copied as it is. On an error `out` is as before.
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

/// Whether the names in data of type `t` may come compressed, so that [`expand`] validates it.
#[inline]
pub fn is_expanded(t: Type) -> bool {
    layout(t).is_some_and(|layout| layout.may_be_compressed())
}

/// Lower-cases the names in RDATA that the canonical form wants in lower case (RFC 4034 §6.2, RFC 6840 §5.1).
pub fn canonical(t: Type, rdata: &mut [u8]) {
    let Some(layout) = layout(t) else { return };
    let mut names = layout.names();
    while let Some(name) = names.next(rdata) {
        if name.rule != NameRule::Plain {
            rdata[name.start..name.start + name.len].make_ascii_lowercase();
        }
    }
}

/// Whether the uncompressed RDATA of two records of type `t` is the same in [canonical] form: the letter case
/// of most names does not count (RFC 4034 §6.2).
pub fn is_same(t: Type, a: &[u8], b: &[u8]) -> bool {
    let canonical = |rdata: &[u8]| {
        let mut rdata = rdata.to_vec();
        canonical(t, &mut rdata);
        rdata
    };
    a == b || a.eq_ignore_ascii_case(b) && canonical(a) == canonical(b)
}

/// Reads the text of a record's data and appends its uncompressed wire form to `out`.
///
/// Takes the form of the type or, for every type, the generic one of RFC 3597 §5 (`\# length hex`). Relative
/// names are completed by `origin`. On an error `out` is as before.
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

/// Writes RDATA as one line that any master-file reader turns into the same bytes.
///
/// Unknown types, malformed data and data that the type's own form cannot express are written as RFC 3597 §5
/// has it.
pub fn write_text(t: Type, rdata: &[u8], to: &mut impl fmt::Write) -> fmt::Result {
    write::record_data(t, rdata, to)
}

#[cfg(test)]
pub(crate) mod testing;
