//! What the server says of itself in class CHAOS: `version.bind`, `version.server`, `id.server`,
//! `hostname.bind` (RFC 4892).

use wire::edns::ErrorInfo;
use wire::message::Builder;
use wire::{LowerName, Rcode, Type};

use crate::render;

/// The texts given out; `None` hides one, and asking for it is refused.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// For `version.bind` and `version.server`.
    pub version: Option<Box<[u8]>>,
    /// For `id.server` and `hostname.bind`.
    pub id: Option<Box<[u8]>>,
}

/// Answers a CHAOS question for `qname`.
#[cold]
pub(crate) fn answer(
    identity: &Identity,
    qname: LowerName<'_>,
    qtype: Type,
    b: &mut Builder<'_>,
) -> Result<(), (Rcode, Option<ErrorInfo>)> {
    let text = match qname.as_wire() {
        b"\x07version\x04bind\0" | b"\x07version\x06server\0" => &identity.version,
        b"\x02id\x06server\0" | b"\x08hostname\x04bind\0" => &identity.id,
        _ => &None,
    };
    let Some(text) = text else { return Err((Rcode::REFUSED, Some(ErrorInfo::NOT_AUTHORITATIVE))) };
    b.flags(|h| h.set_authoritative(true));
    if matches!(qtype, Type::TXT | Type::ANY) && !render::txt(b, text) {
        return Err((Rcode::SERVFAIL, None));
    }
    Ok(())
}
