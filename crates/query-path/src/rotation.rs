//! Rotation of a name's addresses from query to query, which spreads clients that use the first one over all.

use wire::Type;
use wire::message::HEADER_LEN;

/// Bytes of a record before its data, where the owner name is a compression pointer.
const RECORD_HEAD: usize = 12;

/// Rotates the addresses in the answer section of a message by a number that depends on the query's ID. The
/// question, of type A or AAAA, ends at `question_end`; the section has `records` records. Moves only
/// consecutive records whose owner is the same pointer: no pointer targets them, so no offset changes.
pub(crate) fn rotate(message: &mut [u8], question_end: usize, records: u16, qtype: Type) {
    let id = message.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
    let Some(section) = message.get_mut(question_end.max(HEADER_LEN)..) else { return };
    match qtype {
        Type::A => rotate_records::<16>(section, records, id, qtype),
        _ => rotate_records::<28>(section, records, id, qtype),
    }
}

/// Rotates records of `LEN` bytes each, whose owner is a pointer.
#[inline]
fn rotate_records<const LEN: usize>(section: &mut [u8], records: u16, id: u16, qtype: Type) {
    let Some(start) = first(section, records, qtype) else { return };
    let Some((addresses, _)) = section.get_mut(start..).map(|section| section.as_chunks_mut::<LEN>()) else {
        return;
    };
    let Some((high, low)) = addresses.first().map(|record| (record[0], record[1])) else { return };
    let [type_high, type_low] = qtype.0.to_be_bytes();
    let wanted = u64::from_le_bytes([high, low, type_high, type_low, 0, 1, 0, (LEN - RECORD_HEAD) as u8]);
    if let (2, [first, second, ..]) = (records, &mut *addresses) {
        if id % 2 == 1 && high >= 0xc0 && head(first) == wanted && head(second) == wanted {
            std::mem::swap(first, second);
        }
        return;
    }
    let alike = addresses.iter().take(usize::from(records)).take_while(|record| head(record) == wanted);
    let count = if high < 0xc0 { 0 } else { alike.count() };
    if count > 1 {
        addresses[..count].rotate_left(usize::from(id) % count);
    }
}

/// Returns owner, type and class of a record with a pointer as owner, and its RDLENGTH, packed into one
/// number.
#[inline]
fn head<const LEN: usize>(record: &[u8; LEN]) -> u64 {
    let first = record.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
    let data_len = u16::from_le_bytes([record[10], record[11]]);
    first & 0xffff_ffff_ffff | u64::from(data_len) << 48
}

/// Returns the offset of the section's first record of this type, behind the aliases before it.
#[inline]
fn first(section: &[u8], records: u16, qtype: Type) -> Option<usize> {
    let [high, low] = qtype.0.to_be_bytes();
    match section {
        [owner, _, a, b, ..] if *owner >= 0xc0 && (*a, *b) == (high, low) => Some(0),
        _ => first_behind_aliases(section, records, qtype),
    }
}

#[cold]
fn first_behind_aliases(section: &[u8], records: u16, qtype: Type) -> Option<usize> {
    let mut at = 0;
    for _ in 0..records {
        let begin = at;
        loop {
            match *section.get(at)? {
                0 => break at += 1,
                pointer if pointer >= 0xc0 => break at += 2,
                label => at += 1 + usize::from(label),
            }
        }
        let head = section.get(at..at + 10)?;
        if head[..2] == qtype.0.to_be_bytes() {
            return Some(begin);
        }
        at += 10 + usize::from(u16::from_be_bytes([head[8], head[9]]));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &[u8] = b"\x01a\0\0\x01\0\x01";

    fn address(owner: u8, last: u8) -> Vec<u8> {
        vec![0xc0, owner, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, last]
    }

    /// The last bytes of the addresses in order, after a rotation for this ID.
    fn rotated(id: u16, records: &[Vec<u8>], count: u16) -> Vec<u8> {
        let mut message = [&id.to_be_bytes()[..], &[0; 10], QUESTION, &records.concat()].concat();
        let end = HEADER_LEN + QUESTION.len();
        rotate(&mut message, end, count, Type::A);
        assert_eq!(message[..end], [&id.to_be_bytes()[..], &[0; 10], QUESTION].concat());
        let mut at = end;
        let lasts = records.iter().map(|record| {
            at += record.len();
            message[at - 1]
        });
        lasts.collect()
    }

    #[test]
    fn each_address_comes_first_for_some_ids() {
        let records: Vec<_> = (1..=3).map(|last| address(12, last)).collect();
        let all: Vec<_> = (0..4).map(|id| rotated(id, &records, 3)).collect();
        assert_eq!(all, [vec![1, 2, 3], vec![2, 3, 1], vec![3, 1, 2], vec![1, 2, 3]]);
    }

    #[test]
    fn only_addresses_of_one_owner_in_the_answer_move() {
        let alias = b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x04\x01b\xc0\x0c".to_vec();
        let signature = b"\xc0\x1f\0\x2e\0\x01\0\0\0\x3c\0\x01\x09".to_vec();
        let all = [alias, address(31, 1), address(31, 2), signature.clone(), address(12, 3), address(12, 4)];
        assert_eq!(rotated(1, &all, 4), [12, 2, 1, 9, 3, 4], "the rest is in other sections");
        assert_eq!(rotated(1, &[address(12, 1), address(31, 2)], 2), [1, 2], "two owners");
        assert_eq!(rotated(1, &[signature], 2), [9], "there is none");
    }

    #[test]
    fn a_message_that_breaks_off_is_left_as_it_is() {
        for cut in 0..16 {
            let mut broken = [&1u16.to_be_bytes()[..], &[0; 10], QUESTION, &address(12, 1)[..cut]].concat();
            let before = broken.clone();
            rotate(&mut broken, HEADER_LEN + QUESTION.len(), 2, Type::A);
            assert_eq!(broken, before);
        }
    }
}
