//! The words between owner and record data: mnemonics of types and classes, TTLs.

use wire::rr::{Class, TYPES, Type};

/// A word that is a type or a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TypeOrClass {
    Type(Type),
    Class(Class),
}

/// Slots of the table: a power of two, several times the number of mnemonics.
const SLOTS: usize = 512;
/// Longest text of a key in bytes.
const MAX_KEY_BYTES: usize = 15;
/// Spreads the keys over the table. Any odd number works; with this one no mnemonic is more than three slots
/// after the first slot of its search.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A slot of the table. The key is the text in upper case, its first byte the lowest, and the length as the
/// highest byte: `MX` is 0x02 00…00 58 4d. It is 0 in a free slot.
#[derive(Clone, Copy)]
struct TableSlot {
    key: u128,
    word: TypeOrClass,
}

/// Mnemonics by their text, with linear probing; most lookups take one or two comparisons.
static TABLE: [TableSlot; SLOTS] = {
    let mut table = [TableSlot { key: 0, word: TypeOrClass::Type(Type(0)) }; SLOTS];
    let classes = [("IN", Class::IN), ("CH", Class::CH), ("HS", Class::HS)];
    let mut i = 0;
    while i < TYPES.len() + classes.len() {
        let (text, word) = if i < TYPES.len() {
            (TYPES[i].1.as_bytes(), TypeOrClass::Type(TYPES[i].0))
        } else {
            let (text, class) = classes[i - TYPES.len()];
            (text.as_bytes(), TypeOrClass::Class(class))
        };
        assert!(text.len() <= MAX_KEY_BYTES, "the key holds fifteen bytes");
        let mut key = 0;
        let mut at = text.len();
        while at > 0 {
            at -= 1;
            key = key << 8 | text[at] as u128;
        }
        key |= (text.len() as u128) << 120;
        let mut slot = home(key);
        while table[slot].key != 0 {
            slot = (slot + 1) % SLOTS;
        }
        table[slot] = TableSlot { key, word };
        i += 1;
    }
    table
};

/// Returns the slot where the search for a key begins.
const fn home(key: u128) -> usize {
    let folded = (key as u64) ^ (key >> 64) as u64;
    (folded.wrapping_mul(SPREAD) >> (64 - SLOTS.trailing_zeros())) as usize
}

/// Parses a type or class, in any letter case: a mnemonic, `TYPEn` or `CLASSn` (RFC 3597 §5).
#[inline]
pub(super) fn word(text: &[u8]) -> Option<TypeOrClass> {
    let key = key(text)?;
    let mut slot = home(key);
    loop {
        let found = TABLE.get(slot)?;
        if found.key == key {
            return Some(found.word);
        }
        if found.key == 0 {
            return numbered(text);
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// Returns the key of a text of 1 to 15 bytes.
#[inline]
fn key(text: &[u8]) -> Option<u128> {
    let key = match text {
        [a] => u128::from(*a),
        [a, b] => u128::from(u16::from_le_bytes([*a, *b])),
        [a, b, c] => u128::from(u32::from_le_bytes([*a, *b, *c, 0])),
        [a, b, c, d] => u128::from(u32::from_le_bytes([*a, *b, *c, *d])),
        [] => return None,
        _ => {
            let mut bytes = [0; 16];
            bytes.get_mut(..text.len()).filter(|_| text.len() <= MAX_KEY_BYTES)?.copy_from_slice(text);
            u128::from_le_bytes(bytes)
        }
    };
    Some(upper(key) | (text.len() as u128) << 120)
}

/// Turns `a` to `z` to upper case in each byte.
///
/// All sixteen bytes at once, by sums that set a byte's highest bit if its other seven bits reach a limit,
/// and never carry into the next byte. For `q`, `{` and 0xe1:
///
/// ```text
/// bytes                      71 7b e1
/// low      highest bit off   71 7b 61
/// from_a   low + 0x1f        90 9a 80    highest bit set: `a` or above
/// past_z   low + 0x05        76 80 66    highest bit set: above `z`
/// letters                    80 00 00    from `a`, not past `z`, and the byte itself below 0x80
/// result                     51 7b e1    0x80 >> 2 is 0x20, the bit of letter case: `Q`
/// ```
#[inline]
fn upper(bytes: u128) -> u128 {
    const ONES: u128 = u128::MAX / 0xff;
    let low = bytes & (ONES * 0x7f);
    let from_a = low + ONES * (0x80 - b'a' as u128);
    let past_z = low + ONES * (0x7f - b'z' as u128);
    let letters = (from_a & !past_z & !bytes) & (ONES * 0x80);
    bytes ^ (letters >> 2)
}

/// Parses `TYPEn` and `CLASSn`.
#[cold]
fn numbered(text: &[u8]) -> Option<TypeOrClass> {
    if text.first().is_some_and(|c| c.eq_ignore_ascii_case(&b'T')) {
        return Type::from_text(text).ok().map(TypeOrClass::Type);
    }
    Class::from_text(text).ok().map(TypeOrClass::Class)
}

/// Parses a TTL in seconds: a number, or numbers with the units `w d h m s`, in any letter case and order.
///
/// `None` if it is malformed, or 2^32 or more.
#[inline]
pub(super) fn ttl(text: &[u8]) -> Option<u32> {
    let mut plain = 0u64;
    for &c in text {
        let digit = c.wrapping_sub(b'0');
        if digit > 9 || plain > u64::from(u32::MAX) {
            return ttl_with_units(text);
        }
        plain = plain * 10 + u64::from(digit);
    }
    if text.is_empty() { None } else { u32::try_from(plain).ok() }
}

fn ttl_with_units(text: &[u8]) -> Option<u32> {
    let (mut total, mut number) = (0u64, None::<u64>);
    for &c in text {
        if c.is_ascii_digit() {
            number = Some(number.unwrap_or(0) * 10 + u64::from(c - b'0'));
        } else {
            let unit = match c.to_ascii_lowercase() {
                b'w' => 7 * 86_400,
                b'd' => 86_400,
                b'h' => 3_600,
                b'm' => 60,
                b's' => 1,
                _ => return None,
            };
            total += number.take()? * unit;
        }
        if total.max(number.unwrap_or(0)) > u64::from(u32::MAX) {
            return None;
        }
    }
    // A bare number after units would be ambiguous.
    if number.is_some() { None } else { u32::try_from(total).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_mnemonic_in_any_case() {
        for &(t, text) in TYPES {
            assert_eq!(word(text.as_bytes()), Some(TypeOrClass::Type(t)), "{text}");
            assert_eq!(word(text.to_ascii_lowercase().as_bytes()), Some(TypeOrClass::Type(t)), "{text}");
        }
        for (text, want) in [("in", Class::IN), ("CH", Class::CH), ("Hs", Class::HS), ("class7", Class(7))] {
            assert_eq!(word(text.as_bytes()), Some(TypeOrClass::Class(want)), "{text}");
        }
        assert_eq!(word(b"type65280"), Some(TypeOrClass::Type(Type(65280))));
        // Neither names nor numbers, and words that differ from a mnemonic in the bit of letter case.
        for bad in [
            "",
            "x",
            "AA",
            "TYPE",
            "TYPE65536",
            "CLASS-1",
            "NSEC3PARAMETER",
            "A\0",
            "0x21",
            "\x01",
            "NSAP\rPTR",
        ] {
            assert_eq!(word(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn lookups_are_short() {
        let steps = |slot: &TableSlot| {
            let at = TABLE.iter().position(|s| s.key == slot.key).unwrap_or(0);
            (at + SLOTS - home(slot.key)) % SLOTS
        };
        let used: Vec<_> = TABLE.iter().filter(|s| s.key != 0).map(steps).collect();
        assert!(used.iter().max() <= Some(&3), "{used:?}");
    }

    #[test]
    fn ttls() {
        for (text, want) in [
            ("0", 0),
            ("3600", 3600),
            ("1h30m", 5400),
            ("1W2D3h4m5s", 604_800 + 172_800 + 10_800 + 245),
            ("1h1h", 7200),
            ("4294967295", u32::MAX),
            ("4294967295s", u32::MAX),
            ("00000000000000000060", 60),
        ] {
            assert_eq!(ttl(text.as_bytes()), Some(want), "{text}");
        }
        for bad in [
            "",
            "h",
            "1x",
            "5s3",
            "4294967296",
            "4294967296s",
            "99999w",
            "99999999999999999999",
            "1 h",
            "0x10",
            "-1",
        ] {
            assert_eq!(ttl(bad.as_bytes()), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn upper_is_that_of_ascii(bytes in any::<[u8; 16]>()) {
            let want = u128::from_le_bytes(bytes.map(|o| o.to_ascii_uppercase()));
            prop_assert_eq!(upper(u128::from_le_bytes(bytes)), want);
        }

        #[test]
        fn same_as_the_slow_lookup(text in "[A-Za-z0-9-]{1,12}") {
            let want = Type::from_text(text.as_bytes()).ok().map(TypeOrClass::Type);
            let class = Class::from_text(text.as_bytes()).ok().filter(|c| c.0 < 254).map(TypeOrClass::Class);
            prop_assume!(!matches!(text.to_ascii_uppercase().as_str(), "ANY" | "NONE"));
            prop_assert_eq!(word(text.as_bytes()), want.or(class));
        }
    }
}
