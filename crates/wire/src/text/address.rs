//! IPv4 and IPv6 addresses, parsed as strictly as by `inet_pton`.

/// Parses four decimal numbers up to 255 separated by dots; no leading zeros, no short forms.
#[inline]
pub fn ipv4(text: &[u8]) -> Option<[u8; 4]> {
    let mut address = [0u8; 4];
    let (mut index, mut value, mut digits) = (0, 0u32, 0);
    for &byte in text {
        if byte == b'.' {
            if digits == 0 || index == 3 {
                return None;
            }
            address[index] = value as u8;
            (index, value, digits) = (index + 1, 0, 0);
            continue;
        }
        let digit = byte.wrapping_sub(b'0') as u32;
        let leading_zero = digits > 0 && value == 0;
        value = value * 10 + digit;
        if digit > 9 || leading_zero || value > 255 {
            return None;
        }
        digits += 1;
    }
    if index != 3 || digits == 0 {
        return None;
    }
    address[3] = value as u8;
    Some(address)
}

/// Parses an IPv6 address (RFC 4291 §2.2): groups of one to four hex digits, `::` once, an IPv4 tail.
#[inline]
pub fn ipv6(text: &[u8]) -> Option<[u8; 16]> {
    let mut address = [0u8; 16];
    let (mut filled, mut gap) = (0, None);
    let mut rest = text;
    if let Some(tail) = rest.strip_prefix(b"::") {
        (gap, rest) = (Some(0), tail);
    }
    // Each iteration reads one group; the character after it decides whether there is another.
    while !rest.is_empty() {
        let (mut value, mut len) = (0u16, 0);
        while let Some(digit) = rest.get(len).and_then(|&byte| hex_digit(byte)) {
            if len == 4 {
                return None;
            }
            value = value << 4 | digit as u16;
            len += 1;
        }
        if rest.get(len) == Some(&b'.') && filled <= 12 {
            address.get_mut(filled..filled + 4)?.copy_from_slice(&ipv4(rest)?);
            filled += 4;
            break;
        }
        if len == 0 {
            return None;
        }
        address.get_mut(filled..filled + 2)?.copy_from_slice(&value.to_be_bytes());
        filled += 2;
        rest = match &rest[len..] {
            [] => break,
            [b':', b':', tail @ ..] if gap.is_none() => {
                gap = Some(filled);
                tail
            }
            [b':', tail @ ..] if !tail.is_empty() => tail,
            _ => return None,
        };
    }
    match gap {
        None if filled == 16 => Some(address),
        // `::` means at least one group of zeros. The groups after it were written directly after those
        // before it: `1::2` as 1, 2, 0, 0, 0, 0, 0, 0. Rotating the part after the gap moves them to the end.
        Some(at) if filled <= 14 => {
            address[at..].rotate_right(16 - filled);
            Some(address)
        }
        _ => None,
    }
}

#[inline]
fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn v4_std(text: &str) -> Option<[u8; 4]> {
        text.parse().ok().map(|a: Ipv4Addr| a.octets())
    }

    fn v6_std(text: &str) -> Option<[u8; 16]> {
        text.parse().ok().map(|a: Ipv6Addr| a.octets())
    }

    #[test]
    fn strictness_is_that_of_the_peers() {
        assert_eq!(ipv4(b"192.0.2.1"), Some([192, 0, 2, 1]));
        for bad in
            ["01.2.3.4", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1..2.3", "1.2.3.", ".1.2.3", "", "1.2.3.4 "]
        {
            assert_eq!(ipv4(bad.as_bytes()), None, "{bad}");
        }
        let seeds = [
            "::",
            "::1",
            "1::",
            "2001:db8::1",
            "1:2:3:4:5:6:7:8",
            "1:2:3:4:5:6:7::",
            "::2:3:4:5:6:7:8",
            "::ffff:192.0.2.1",
            "1:2:3:4:5:6:192.0.2.1",
            "64:ff9b::192.0.2.33",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:6:7:8:9",
            "1::2::3",
            ":::",
            "1:",
            ":1",
            "12345::",
            "g::",
            "1:2:3:4:5:6:7:8::",
            "::1:2:3:4:5:6:7:8",
            "1:2:3:4:5:6:7:1.2.3.4",
            "::1.2.3",
            "::1.2.3.4:1",
            "1.2.3.4",
            "",
        ];
        for seed in seeds {
            assert_eq!(ipv6(seed.as_bytes()), v6_std(seed), "{seed}");
        }
    }

    proptest! {
        #[test]
        fn ipv4_agrees_with_std(address: [u8; 4], soup in "[0-9.]{0,16}", near in "([0-9]{1,3}\\.){3}[0-9]{1,3}") {
            prop_assert_eq!(ipv4(Ipv4Addr::from(address).to_string().as_bytes()), Some(address));
            prop_assert_eq!(ipv4(soup.as_bytes()), v4_std(&soup));
            prop_assert_eq!(ipv4(near.as_bytes()), v4_std(&near));
        }

        #[test]
        fn ipv6_agrees_with_std(
            groups: [u16; 8],
            zeros in 0u8..,
            soup in "[0-9a-fA-F:.]{0,20}",
            near in "(::)?([0-9a-f]{1,4}(::?)){3,8}([0-9.]{1,9}|[0-9a-f]{0,4})",
        ) {
            let mut groups = groups;
            for (i, group) in groups.iter_mut().enumerate() {
                if zeros >> i & 1 == 1 { *group = 0 }
            }
            let address = Ipv6Addr::from(groups);
            prop_assert_eq!(ipv6(address.to_string().as_bytes()), Some(address.octets()));
            prop_assert_eq!(ipv6(soup.as_bytes()), v6_std(&soup));
            prop_assert_eq!(ipv6(near.as_bytes()), v6_std(&near));
        }
    }
}
