//! Builds messages from cache entries.

use wire::{Class, Header, LowerName, Rcode, Type};

/// Builds a response with ID 0: the question, then `body` as copied by a lookup. The header has the lower
/// four bits of the response code.
pub fn message(
    rcode: Rcode,
    name: LowerName<'_>,
    qtype: Type,
    qclass: Class,
    counts: [u16; 3],
    body: &[u8],
) -> Vec<u8> {
    let mut header = Header::query(0).reply();
    header.set_rcode(rcode);
    let [answer, authority, additional] = counts;
    header.set_counts([1, answer, authority, additional]);
    let (qtype, qclass) = (qtype.0.to_be_bytes(), qclass.0.to_be_bytes());
    [header.as_bytes().as_slice(), name.as_wire(), &qtype, &qclass, body].concat()
}
