//! Wire to text: the fields of a type separated by spaces, or the generic form of RFC 3597.

use std::fmt;

use super::bitmap;
use super::field::{Kind, Layout};
use super::layout;
use super::mnemonic;
use crate::malformed::Malformed;
use crate::name::Name;
use crate::rr::Type;
use crate::text;

/// Writes RDATA in its type's form, if the type has one that can express it.
pub(super) fn record_data(t: Type, rdata: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
    match layout(t) {
        Some(layout) if layout.validate(rdata).is_ok() && has_text(layout, rdata) => {
            fields(layout, rdata, to)
        }
        _ => generic(rdata, to),
    }
}

/// Whether each field of valid RDATA can be expressed in the type's form.
fn has_text(layout: &Layout, rdata: &[u8]) -> bool {
    let mut at = 0;
    for field in layout.fields {
        let Ok(bytes) = bytes_of(&field.kind, rdata, at) else { return false };
        let expressible = match field.kind {
            Kind::Special(special) => special.has_text(bytes),
            Kind::Opaque => false,
            _ => true,
        };
        if !expressible {
            return false;
        }
        at += bytes.len();
    }
    true
}

fn bytes_of<'r>(kind: &Kind, rdata: &'r [u8], at: usize) -> Result<&'r [u8], Malformed> {
    let rest = rdata.get(at..).ok_or(Malformed)?;
    rest.get(..kind.wire_len(rest)?).ok_or(Malformed)
}

/// `\# length hex` (RFC 3597 §5).
fn generic(rdata: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
    to.write_str("\\# ")?;
    text::write_decimal(rdata.len() as u64, to)?;
    if !rdata.is_empty() {
        to.write_str(" ")?;
        text::write_hex(rdata, to)?;
    }
    Ok(())
}

fn fields(layout: &Layout, rdata: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
    let (mut at, mut to) = (0, Spaced { to, pending: false });
    for field in layout.fields {
        let bytes = bytes_of(&field.kind, rdata, at).map_err(|_| fmt::Error)?;
        to.pending = at > 0;
        write_field(&field.kind, bytes, &mut to)?;
        at += bytes.len();
    }
    Ok(())
}

/// Writes a space before the next output; a field that writes nothing leaves no space.
struct Spaced<'w> {
    to: &'w mut dyn fmt::Write,
    pending: bool,
}

impl fmt::Write for Spaced<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.pending) {
            self.to.write_str(" ")?;
        }
        self.to.write_str(text)
    }
}

/// An unsigned number of up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, &byte| value << 8 | byte as u64)
}

fn write_field(kind: &Kind, bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
    match *kind {
        Kind::Name(_) => text::write_name(Name::from_wire(bytes).map_err(|_| fmt::Error)?, to),
        Kind::Names(_) => each(bytes, &Kind::Name(super::NameRule::Plain), to),
        Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64 | Kind::Duration | Kind::Mnemonic8(_) => {
            text::write_decimal(number(bytes), to)
        }
        Kind::Mnemonic8Named(list) => mnemonic::write(number(bytes), list, to),
        Kind::Mnemonic16(list) => mnemonic::write(number(bytes), list, to),
        Kind::Time => text::write_time(number(bytes) as u32, to),
        Kind::Ipv4 => {
            let address: [u8; 4] = bytes.try_into().map_err(|_| fmt::Error)?;
            write!(to, "{}", std::net::Ipv4Addr::from(address))
        }
        Kind::Ipv6 => {
            let address: [u8; 16] = bytes.try_into().map_err(|_| fmt::Error)?;
            write!(to, "{}", std::net::Ipv6Addr::from(address))
        }
        Kind::String => text::write_quoted(bytes.get(1..).unwrap_or_default(), to),
        Kind::OptionalString if bytes.is_empty() => Ok(()),
        Kind::OptionalString => text::write_quoted(&bytes[1..], to),
        Kind::Strings => each(bytes, &Kind::String, to),
        Kind::Tag => text::write_ascii(bytes.get(1..).unwrap_or_default(), to),
        Kind::LongString(_) => text::write_quoted(bytes, to),
        Kind::Base64OrDash if bytes.is_empty() => to.write_str("-"),
        Kind::Base64(_) | Kind::Base64OrDash => text::write_base64(bytes, to),
        Kind::SizedBase64 => {
            let (_, data) = bytes.split_at_checked(2).ok_or(fmt::Error)?;
            text::write_decimal(data.len() as u64, to)?;
            if data.is_empty() {
                return Ok(());
            }
            to.write_str(" ")?;
            text::write_base64(data, to)
        }
        Kind::SizedHex if bytes.len() == 1 => to.write_str("-"),
        Kind::SizedHex => text::write_hex(bytes.get(1..).unwrap_or_default(), to),
        Kind::SizedBase32 => text::write_base32hex(bytes.get(1..).unwrap_or_default(), to),
        Kind::Hex(_) => text::write_hex(bytes, to),
        Kind::Grouped { group, separator, .. } => {
            for (i, part) in bytes.chunks(group).enumerate() {
                if i > 0 {
                    text::write_ascii(&[separator], to)?;
                }
                text::write_hex(part, to)?;
            }
            Ok(())
        }
        Kind::Type => write!(to, "{}", Type(number(bytes) as u16)),
        Kind::TypeBitmap => bitmap::write(bytes, to),
        Kind::Special(special) => special.write(bytes, to),
        Kind::Opaque => Err(fmt::Error),
    }
}

/// Writes a sequence of items of one kind.
fn each(bytes: &[u8], kind: &Kind, to: &mut dyn fmt::Write) -> fmt::Result {
    let mut at = 0;
    while at < bytes.len() {
        let item = bytes_of(kind, bytes, at).map_err(|_| fmt::Error)?;
        if at > 0 {
            to.write_str(" ")?;
        }
        write_field(kind, item, to)?;
        at += item.len();
    }
    Ok(())
}
