//! Base64 (RFC 4648 §4), base32hex without padding (RFC 4648 §7, RFC 5155 §3.3) and hex (RFC 4648 §8).
//!
//! The readers take text in pieces, because a record's data may be spread over several tokens.

use std::fmt;

use super::write_ascii;

/// Text with characters outside the alphabet, of a wrong length, or with nonzero padding bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadEncoding;

/// Marks bytes outside the alphabet: a bit that no valid value has, so that one test covers several values
/// combined.
const NONE: u8 = 0x80;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE32HEX: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
const HEX: &[u8; 16] = b"0123456789ABCDEF";
static BASE64_VALUES: [u8; 256] = values(BASE64, false);
static BASE32HEX_VALUES: [u8; 256] = values(BASE32HEX, true);
static HEX_VALUES: [u8; 256] = values(HEX, true);

/// The value of every byte in `alphabet`, [`NONE`] for other bytes.
const fn values(alphabet: &[u8], any_case: bool) -> [u8; 256] {
    let mut table = [NONE; 256];
    let mut i = 0;
    while i < alphabet.len() {
        table[alphabet[i] as usize] = i as u8;
        if any_case {
            table[alphabet[i].to_ascii_lowercase() as usize] = i as u8;
            table[alphabet[i].to_ascii_uppercase() as usize] = i as u8;
        }
        i += 1;
    }
    table
}

/// Decodes base64 with padding.
#[derive(Default)]
pub struct Base64 {
    /// Bits of the characters that do not form a byte yet.
    bits: u32,
    /// Characters of the group so far, padding included, 0 to 3.
    in_group: u8,
    /// Padding characters of the group so far.
    padding: u8,
    /// A padded group has ended: nothing may follow.
    ended: bool,
}

impl Base64 {
    /// Decodes one piece and appends its bytes.
    #[inline]
    pub fn feed(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), BadEncoding> {
        let mut rest = text;
        if self.in_group == 0 && !self.ended {
            rest = decode_groups(text, out);
        }
        for &byte in rest {
            self.one(byte, out)?;
        }
        Ok(())
    }

    fn one(&mut self, byte: u8, out: &mut Vec<u8>) -> Result<(), BadEncoding> {
        if self.ended {
            return Err(BadEncoding);
        }
        if byte == b'=' {
            if self.in_group < 2 {
                return Err(BadEncoding);
            }
            self.padding += 1;
        } else {
            let value = BASE64_VALUES[byte as usize];
            if value == NONE || self.padding > 0 {
                return Err(BadEncoding);
            }
            self.bits = self.bits << 6 | value as u32;
        }
        self.in_group += 1;
        if self.in_group < 4 {
            return Ok(());
        }
        let (bits, padding) = (self.bits << (6 * self.padding), self.padding);
        let bytes = bits.to_be_bytes();
        let kept = 3 - padding as usize;
        // Bits beyond the last byte must be zero (RFC 4648 §3.5), so that every value has one encoding.
        if bytes[1 + kept..].iter().any(|&byte| byte != 0) {
            return Err(BadEncoding);
        }
        out.extend_from_slice(&bytes[1..1 + kept]);
        *self = Base64 { ended: padding > 0, ..Base64::default() };
        Ok(())
    }

    /// Checks that the text ended at the end of a group.
    pub fn finish(self) -> Result<(), BadEncoding> {
        if self.in_group == 0 { Ok(()) } else { Err(BadEncoding) }
    }
}

/// Decodes whole groups of four letters and returns the rest of the text.
fn decode_groups<'t>(text: &'t [u8], out: &mut Vec<u8>) -> &'t [u8] {
    let (groups, _) = text.as_chunks::<4>();
    let start = out.len();
    out.resize(start + groups.len() * 3, 0);
    let mut done = 0;
    for (group, to) in groups.iter().zip(out[start..].as_chunks_mut::<3>().0) {
        let [a, b, c, d] = group.map(|byte| BASE64_VALUES[byte as usize]);
        if (a | b | c | d) & NONE != 0 {
            break;
        }
        *to = [a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d];
        done += 1;
    }
    out.truncate(start + done * 3);
    &text[done * 4..]
}

/// Decodes base32hex without padding, in any letter case.
#[derive(Default)]
pub struct Base32Hex;

impl Base32Hex {
    /// Decodes `text` and appends its bytes.
    #[inline]
    pub fn decode(text: &[u8], out: &mut Vec<u8>) -> Result<(), BadEncoding> {
        let (mut bits, mut held) = (0u32, 0u32);
        for &byte in text {
            let value = BASE32HEX_VALUES[byte as usize];
            if value == NONE {
                return Err(BadEncoding);
            }
            bits = bits << 5 | value as u32;
            held += 5;
            if held >= 8 {
                held -= 8;
                out.push((bits >> held) as u8);
                bits &= (1 << held) - 1;
            }
        }
        // Five or more remaining bits would be a superfluous letter.
        if held < 5 && bits == 0 { Ok(()) } else { Err(BadEncoding) }
    }
}

/// Decodes hex digits in any letter case; a pair may be split over two pieces.
#[derive(Default)]
pub struct Hex {
    high: Option<u8>,
}

impl Hex {
    /// Decodes one piece and appends its bytes.
    #[inline]
    pub fn feed(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), BadEncoding> {
        for &byte in text {
            let value = HEX_VALUES[byte as usize];
            if value == NONE {
                return Err(BadEncoding);
            }
            match self.high.take() {
                None => self.high = Some(value),
                Some(high) => out.push(high << 4 | value),
            }
        }
        Ok(())
    }

    /// Checks that no half byte is left.
    pub fn finish(self) -> Result<(), BadEncoding> {
        if self.high.is_none() { Ok(()) } else { Err(BadEncoding) }
    }
}

/// Writes base64 with padding, in one piece.
pub fn write_base64(bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
    for piece in bytes.chunks(48) {
        let mut text = [b'='; 64];
        let mut len = 0;
        for (group, letters) in piece.chunks(3).zip(text.as_chunks_mut::<4>().0) {
            let byte = |i| group.get(i).copied().unwrap_or(0) as u32;
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for (i, letter) in letters.iter_mut().enumerate().take(group.len() + 1) {
                *letter = BASE64[(bits >> (18 - 6 * i)) as usize & 63];
            }
            len += 4;
        }
        write_ascii(&text[..len], to)?;
    }
    Ok(())
}

/// Writes base32hex in lower case without padding.
pub fn write_base32hex(bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
    for piece in bytes.chunks(5) {
        let mut bytes = [0u8; 8];
        bytes[3..3 + piece.len()].copy_from_slice(piece);
        let bits = u64::from_be_bytes(bytes);
        let letters: [u8; 8] = std::array::from_fn(|i| BASE32HEX[(bits >> (35 - 5 * i)) as usize & 31]);
        write_ascii(&letters[..(piece.len() * 8).div_ceil(5)], to)?;
    }
    Ok(())
}

/// Writes hex in upper case, in one piece.
pub fn write_hex(bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
    for piece in bytes.chunks(32) {
        let mut text = [0u8; 64];
        for (byte, pair) in piece.iter().zip(text.as_chunks_mut::<2>().0) {
            *pair = [HEX[(byte >> 4) as usize], HEX[(byte & 15) as usize]];
        }
        write_ascii(&text[..piece.len() * 2], to)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn base64(pieces: &[&str]) -> Result<Vec<u8>, BadEncoding> {
        let (mut out, mut reader) = (Vec::new(), Base64::default());
        for piece in pieces {
            reader.feed(piece.as_bytes(), &mut out)?;
        }
        reader.finish().map(|()| out)
    }

    fn base32(text: &str) -> Result<Vec<u8>, BadEncoding> {
        let mut out = Vec::new();
        Base32Hex::decode(text.as_bytes(), &mut out).map(|()| out)
    }

    #[test]
    fn vectors_of_rfc_4648_section_10() {
        for (plain, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(&[text]), Ok(plain.into()));
        }
        for (plain, text) in
            [("f", "CO"), ("fo", "CPNG"), ("foo", "cpnmu"), ("foob", "CPNMUOG"), ("fooba", "CPNMUOJ1")]
        {
            assert_eq!(base32(text), Ok(plain.into()));
        }
    }

    #[test]
    fn bad_text_is_refused() {
        for bad in ["Z", "Zg", "Zg=", "Zg===", "=Zg=", "Zg==Zg==", "Zh==", "Zm9=", "Zm9v!", "Zm=v", "Zm 9"] {
            assert_eq!(base64(&[bad]), Err(BadEncoding), "{bad}");
        }
        assert_eq!(base64(&["Zg==", "Zg=="]), Err(BadEncoding));
        for bad in ["C", "CP", "CPN", "W0", "CO======"] {
            assert_eq!(base32(bad), Err(BadEncoding), "{bad}");
        }
        assert!(Hex::default().feed(b"0g", &mut Vec::new()).is_err());
        let mut odd = Hex::default();
        assert_eq!(odd.feed(b"012", &mut Vec::new()), Ok(()));
        assert_eq!(odd.finish(), Err(BadEncoding));
    }

    proptest! {
        #[test]
        fn everything_reads_back_whole_or_in_pieces(bytes: Vec<u8>, cuts: [prop::sample::Index; 2]) {
            let mut text = String::new();
            prop_assert!(write_base64(&bytes, &mut text).is_ok());
            let mut cuts = cuts.map(|cut| cut.index(text.len() + 1));
            cuts.sort();
            let pieces = [&text[..cuts[0]], &text[cuts[0]..cuts[1]], &text[cuts[1]..]];
            prop_assert_eq!(base64(&pieces), Ok(bytes.clone()));

            let mut text = String::new();
            prop_assert!(write_base32hex(&bytes, &mut text).is_ok());
            prop_assert_eq!(base32(&text), Ok(bytes.clone()));

            let mut text = String::new();
            prop_assert!(write_hex(&bytes, &mut text).is_ok());
            let (mut out, mut reader) = (Vec::new(), Hex::default());
            let cut = cuts[0] % (text.len() + 1);
            prop_assert_eq!(reader.feed(&text.as_bytes()[..cut], &mut out), Ok(()));
            prop_assert_eq!(reader.feed(&text.as_bytes()[cut..], &mut out), Ok(()));
            prop_assert_eq!(reader.finish(), Ok(()));
            prop_assert_eq!(out, bytes);
        }
    }
}
