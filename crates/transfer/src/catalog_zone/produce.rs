//! [`member_records`]: the records of a catalog zone that this server makes of the zones it serves.

use aws_lc_rs::digest;
use wire::name::BadName;
use wire::{Name, NameBuf, Ttl, Type};
use zone::store::ChangedRecords;

use super::{GROUP, SCHEMA, VERSION, ZONES};

/// Bytes of the digest that make a member's label: two zones share one once in 2^64.
const ID_BYTES: usize = 16;
/// Longest text of a group: one string of a TXT record.
const MAX_GROUP: usize = 255;
/// TTL of all records: nobody asks for them (RFC 9432 §4.1).
const TTL: Ttl = Ttl::ZERO;

/// A zone that is listed.
#[derive(Clone, Copy, Debug)]
pub struct ProducedMember<'a> {
    /// Its name.
    pub zone: Name<'a>,
    /// Its group.
    pub group: Option<&'a [u8]>,
}

/// The label of a member: 32 digits of base 16 that depend on its name alone, so that it stays whatever else changes.
pub fn member_id(zone: Name<'_>) -> [u8; 2 * ID_BYTES] {
    let digest = digest::digest(&digest::SHA256, zone.to_lower().as_lower().as_wire());
    let mut id = [0; 2 * ID_BYTES];
    for (digits, byte) in id.chunks_exact_mut(2).zip(digest.as_ref()) {
        for (digit, value) in digits.iter_mut().zip([byte >> 4, byte & 15]) {
            *digit = b"0123456789abcdef"[value as usize];
        }
    }
    id
}

/// All records but SOA and NS of the catalog zone `apex` with these members.
///
/// # Errors
/// [`BadName`] if `apex` is so long that no label goes in front of it. The bytes of a group beyond 255 are left out.
pub fn member_records<'a>(
    apex: Name<'_>,
    members: impl IntoIterator<Item = ProducedMember<'a>>,
) -> Result<ChangedRecords, BadName> {
    let mut records = ChangedRecords::default();
    let version = NameBuf::prepend(VERSION, apex)?;
    records.push(version.as_name(), Type::TXT, TTL, &string(SCHEMA));
    let zones = NameBuf::prepend(ZONES, apex)?;
    for ProducedMember { zone, group } in members {
        let owner = NameBuf::prepend(&member_id(zone), zones.as_name())?;
        records.push(owner.as_name(), Type::PTR, TTL, zone.as_wire());
        if let Some(group) = group {
            let property = NameBuf::prepend(GROUP, owner.as_name())?;
            records.push(property.as_name(), Type::TXT, TTL, &string(group));
        }
    }
    Ok(records)
}

/// A character-string (RFC 1035 §3.3).
fn string(text: &[u8]) -> Vec<u8> {
    let text = &text[..text.len().min(MAX_GROUP)];
    let mut string = Vec::with_capacity(1 + text.len());
    string.push(text.len() as u8);
    string.extend_from_slice(text);
    string
}
