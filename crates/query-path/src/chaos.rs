//! Server identity in class CHAOS: `version.bind`, `version.server`, `id.server`, `hostname.bind` (RFC 4892).

use wire::message::{Builder, Offset, Owner, Section};
use wire::{Class, LowerName, Ttl, Type};

use crate::refusal::{Answered, Refusal};

/// The texts. A query for a text that is `None` is refused.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// For `version.bind` and `version.server`.
    pub version: Option<Box<[u8]>>,
    /// For `id.server` and `hostname.bind`.
    pub id: Option<Box<[u8]>>,
}

/// Answers a CHAOS query for `qname`.
#[cold]
pub(crate) fn answer(
    identity: &Identity,
    qname: LowerName<'_>,
    qtype: Type,
    b: &mut Builder<'_>,
) -> Answered {
    let text = match qname.as_wire() {
        b"\x07version\x04bind\0" | b"\x07version\x06server\0" => &identity.version,
        b"\x02id\x06server\0" | b"\x08hostname\x04bind\0" => &identity.id,
        _ => &None,
    };
    let text = text.as_ref().ok_or(Refusal::NOT_AUTHORITATIVE)?;
    b.flags(|h| h.set_authoritative(true));
    if matches!(qtype, Type::TXT | Type::ANY) && !txt(b, text) {
        b.flags(|h| h.set_truncated(true));
    }
    Ok(None)
}

/// Writes a TXT record with the question's name as owner and `text` in strings of at most 255 bytes. Returns
/// whether it fits.
fn txt(b: &mut Builder<'_>, text: &[u8]) -> bool {
    let mut rdata = Vec::with_capacity(text.len() + 2);
    for part in text.chunks(255) {
        rdata.push(part.len() as u8);
        rdata.extend_from_slice(part);
    }
    if text.is_empty() {
        rdata.push(0);
    }
    b.record(Section::Answer, Owner::At(Offset::QNAME), Type::TXT, Class::CH, Ttl::ZERO, &rdata).is_ok()
}
