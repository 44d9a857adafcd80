//! The records of a catalog zone that this server produces: [`base_records`] and [`record_change`].

use wire::name::BadName;
use wire::{Name, NameBuf, Serial, Ttl, Type};
use zone::store::{ChangeSet, ChangedRecords};

use super::{GROUP, Member, NEW_OWNER, SCHEMA, VERSION, ZONES};

/// Longest group text in bytes: one character-string of a TXT record.
const MAX_GROUP: usize = 255;
/// TTL of all records: no client queries them (RFC 9432 §4.1).
const TTL: Ttl = Ttl::ZERO;
/// The only name server: a catalog zone is not reached by following delegations (RFC 9432 §4.1).
const INVALID: &[u8] = b"\x07invalid\0";
/// The fields of the SOA record after the serial: refresh, retry, expire and minimum, as in RFC 9432 appendix
/// A.
const TIMES: [u32; 4] = [3600, 600, 2_147_483_646, 0];

/// The label of a new member: 128 random bits as 32 hexadecimal digits.
pub fn member_label(random: [u8; 16]) -> Box<[u8]> {
    let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
    random.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The records of the catalog zone `apex` without members: SOA, NS, and the version of the schema.
///
/// # Errors
/// [`BadName`] if `apex` is so long that the names of members and their properties do not fit.
pub fn base_records(apex: Name<'_>, serial: Serial) -> Result<ChangedRecords, BadName> {
    // If the longest name fits, all names fit.
    property(apex, &member_label([0; 16]), GROUP)?;
    let mut records = ChangedRecords::default();
    records.push(apex, Type::SOA, TTL, &soa(serial));
    records.push(apex, Type::NS, TTL, INVALID);
    records.push(NameBuf::prepend(VERSION, apex)?.as_name(), Type::TXT, TTL, &string(SCHEMA));
    Ok(records)
}

/// A change between two versions that so far contains only the new serial.
pub fn version_step(apex: Name<'_>, before: Serial, after: Serial) -> ChangeSet {
    let mut step = ChangeSet { before, after, ..ChangeSet::default() };
    step.removed.push(apex, Type::SOA, TTL, &soa(before));
    step.added.push(apex, Type::SOA, TTL, &soa(after));
    step
}

/// Adds the difference between a zone's old and new entry to a change. Records that both have stay.
///
/// # Errors
/// [`BadName`] as for [`base_records`]. Bytes of a group beyond 255 are cut off.
pub fn record_change(
    apex: Name<'_>,
    zone: Name<'_>,
    before: Option<&Member>,
    after: Option<&Member>,
    step: &mut ChangeSet,
) -> Result<(), BadName> {
    let [old, new] = [records(apex, zone, before)?, records(apex, zone, after)?];
    for (from, other, to) in [(&old, &new, &mut step.removed), (&new, &old, &mut step.added)] {
        for record in from.iter().filter(|record| other.iter().all(|other| other != *record)) {
            to.push(record.owner, record.rtype, record.ttl, record.rdata);
        }
    }
    Ok(())
}

/// The records of an entry.
fn records(apex: Name<'_>, zone: Name<'_>, member: Option<&Member>) -> Result<ChangedRecords, BadName> {
    let mut records = ChangedRecords::default();
    let Some(Member { id, groups, new_owner }) = member else { return Ok(records) };
    records.push(entry(apex, id)?.as_name(), Type::PTR, TTL, zone.as_wire());
    for group in groups {
        records.push(property(apex, id, GROUP)?.as_name(), Type::TXT, TTL, &string(group));
    }
    if let Some(new_owner) = new_owner {
        records.push(property(apex, id, NEW_OWNER)?.as_name(), Type::PTR, TTL, new_owner.as_wire());
    }
    Ok(records)
}

fn entry(apex: Name<'_>, id: &[u8]) -> Result<NameBuf, BadName> {
    NameBuf::prepend(id, NameBuf::prepend(ZONES, apex)?.as_name())
}

fn property(apex: Name<'_>, id: &[u8], property: &[u8]) -> Result<NameBuf, BadName> {
    NameBuf::prepend(property, entry(apex, id)?.as_name())
}

fn soa(serial: Serial) -> Vec<u8> {
    let numbers = [serial.0, TIMES[0], TIMES[1], TIMES[2], TIMES[3]];
    [INVALID, INVALID].concat().into_iter().chain(numbers.into_iter().flat_map(u32::to_be_bytes)).collect()
}

/// A character-string (RFC 1035 §3.3).
fn string(text: &[u8]) -> Vec<u8> {
    let text = &text[..text.len().min(MAX_GROUP)];
    let mut string = Vec::with_capacity(1 + text.len());
    string.push(text.len() as u8);
    string.extend_from_slice(text);
    string
}
