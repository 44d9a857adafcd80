//! Decoding of the Huffman code of HTTP (RFC 7541 §5.2 and Appendix B), which RFC 9204 §4.1.2 uses as well.
//!
//! The code is canonical: codes of one length are consecutive numbers in the order of their symbols, and
//! each length goes on where the one before ended. So the lengths are all that has to be known.

/// The length of the code of each symbol, in bits: the bytes, and the symbol of the end (EOS).
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7,
    8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7,
    15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24,
    23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23,
    23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26,
    26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20,
    21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27,
    27, 27, 26, 30,
];
/// Number of symbols.
const SYMBOLS: usize = 257;
/// The symbol of the end, which no text has.
const EOS: u16 = 256;
/// Length of the longest code.
const LONGEST: usize = 30;

/// The code, sorted by length.
struct Code {
    /// The symbols in the order of their codes.
    symbols: [u16; SYMBOLS],
    /// Of each length: the first code behind those of this length, at the left of 32 bits.
    ends: [u64; LONGEST + 1],
    /// Of each length: what has to be added to the code for the place of its symbol, modulo 2^32.
    offsets: [u32; LONGEST + 1],
}

static CODE: Code = code();

const fn code() -> Code {
    let mut code = Code { symbols: [0; SYMBOLS], ends: [0; LONGEST + 1], offsets: [0; LONGEST + 1] };
    let (mut next, mut place, mut length) = (0_u32, 0, 1);
    while length <= LONGEST {
        next <<= 1;
        code.offsets[length] = (place as u32).wrapping_sub(next);
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                code.symbols[place] = symbol as u16;
                place += 1;
                next += 1;
            }
            symbol += 1;
        }
        code.ends[length] = (next as u64) << (32 - length);
        length += 1;
    }
    code
}

/// Adds the text that `coded` is the code of to `text`, up to `most` bytes of it.
///
/// Returns `None` if it is no code of a text, or if the text is longer.
pub(crate) fn decode(coded: &[u8], most: usize, text: &mut Vec<u8>) -> Option<()> {
    let start = text.len();
    // The next bits, at the left, and how many they are.
    let (mut bits, mut count) = (0_u64, 0);
    let mut rest = coded.iter();
    loop {
        while count <= 56 {
            let Some(&byte) = rest.next() else { break };
            bits |= u64::from(byte) << (56 - count);
            count += 8;
        }
        let head = bits >> 32;
        let Some(length) = (5..=LONGEST).find(|&length| head < CODE.ends[length]) else {
            // More ones than any code begins with are the end.
            return is_padding(bits, count).then_some(());
        };
        if length > count {
            return is_padding(bits, count).then_some(());
        }
        let place = ((head >> (32 - length)) as u32).wrapping_add(CODE.offsets[length]);
        let symbol = *CODE.symbols.get(place as usize)?;
        if symbol == EOS || text.len() - start == most {
            return None;
        }
        text.push(symbol as u8);
        bits <<= length;
        count -= length;
    }
}

/// Whether these bits are the end of a text: fewer than 8, all ones (RFC 7541 §5.2).
fn is_padding(bits: u64, count: usize) -> bool {
    count == 0 || (count < 8 && bits >> (64 - count) == (1 << count) - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the code of a text, bit by bit.
    fn encode(text: &[u8]) -> Vec<u8> {
        let mut bits = Vec::new();
        for &byte in text {
            let length = usize::from(LENGTHS[usize::from(byte)]);
            let place = CODE.symbols.iter().position(|&symbol| symbol == u16::from(byte)).expect("a symbol");
            let number = (place as u32).wrapping_sub(CODE.offsets[length]);
            bits.extend((0..length).rev().map(|bit| number >> bit & 1 == 1));
        }
        while bits.len() % 8 != 0 {
            bits.push(true);
        }
        bits.chunks(8).map(|byte| byte.iter().fold(0, |all, &bit| all << 1 | u8::from(bit))).collect()
    }

    fn decoded(coded: &[u8]) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        decode(coded, 1000, &mut text).map(|()| text)
    }

    #[test]
    fn the_examples_of_the_rfc_are_decoded() {
        // RFC 7541 Appendix C.4 and C.6.
        for (coded, text) in [
            ("f1e3c2e5f23a6ba0ab90f4ff", "www.example.com"),
            ("a8eb10649cbf", "no-cache"),
            ("25a849e95ba97d7f", "custom-key"),
            ("25a849e95bb8e8b4bf", "custom-value"),
            ("d07abe941054d444a8200595040b8166e082a62d1bff", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("", ""),
        ] {
            let coded = data_encoding::HEXLOWER.decode(coded.as_bytes()).expect("digits");
            assert_eq!(decoded(&coded).as_deref(), Some(text.as_bytes()));
            assert_eq!(encode(text.as_bytes()), coded);
        }
    }

    #[test]
    fn what_is_no_code_is_refused() {
        // EOS, padding of 8 bits, padding with a zero, and a text that is too long.
        for coded in [&[0xff, 0xff, 0xff, 0xff][..], &[0xff], &[0xf8, 0xff], &[0b0000_0110]] {
            assert_eq!(decoded(coded), None, "{coded:x?}");
        }
        assert_eq!(decode(&encode(b"aaaa"), 3, &mut Vec::new()), None);
        assert_eq!(decode(&encode(b"aaa"), 3, &mut Vec::new()), Some(()));
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(decoded(&encode(&text)), Some(text));
        }

        /// What is decoded has this code and no other.
        #[test]
        fn each_text_has_one_code(coded in prop::collection::vec(any::<u8>(), 0..20)) {
            if let Some(text) = decoded(&coded) {
                prop_assert_eq!(encode(&text), coded);
            }
        }
    }
}
