//! The letter case of a name, stored beside its lower-case form: one bit per byte, lowest first, set for
//! upper-case letters.
//!
//! `WWW.example.` takes 13 bytes, so its letter case takes two: `0e 00`. Bits 1, 2 and 3 are set; byte 0 is
//! the length of the first label.

use super::{LowerName, Name, NameBuf};

impl Name<'_> {
    /// Bytes needed for the letter case of a name of `len` bytes.
    pub const fn case_len(len: usize) -> usize {
        len.div_ceil(8)
    }

    /// Whether any letter is upper case.
    pub fn has_upper_case(self) -> bool {
        // Length bytes are below `A`.
        self.as_wire().iter().any(u8::is_ascii_uppercase)
    }

    /// Writes the letter case to `to`, which must be [`case_len`](Self::case_len) zeros.
    pub fn write_case(self, to: &mut [u8]) {
        let bits = self.as_wire().iter().map(|byte| u8::from(byte.is_ascii_uppercase()));
        bits.enumerate().for_each(|(i, bit)| to[i / 8] |= bit << (i % 8));
    }
}

impl LowerName<'_> {
    /// The name in the letter case written by [`Name::write_case`]. Bits of bytes that are not letters have
    /// no effect; missing bits mean lower case.
    pub fn in_case(self, case: &[u8]) -> NameBuf {
        let mut written = self.as_name().to_buf();
        for (i, byte) in written.bytes[..self.len()].iter_mut().enumerate() {
            if case.get(i / 8).is_some_and(|bits| bits & 1 << (i % 8) != 0) {
                byte.make_ascii_uppercase();
            }
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_documented_example() {
        let name: NameBuf = "WWW.example.".parse().expect("a name");
        let mut case = [0; 2];
        name.as_name().write_case(&mut case);
        assert_eq!((case, Name::case_len(name.as_name().len())), ([0x0e, 0], 2));
    }

    proptest! {
        /// The lower-case form and the letter case restore the original name.
        #[test]
        fn lower_case_and_letter_case_make_the_name(labels in prop::collection::vec("[a-zA-Z0-9@\\[`{-]{1,40}", 0..5)) {
            let text: String = labels.iter().map(|label| format!("{}.", label.replace('@', "\\@"))).collect();
            let name: NameBuf = if text.is_empty() { NameBuf::ROOT } else { text.parse().expect("a name") };
            let name = name.as_name();
            let mut case = vec![0; Name::case_len(name.len())];
            name.write_case(&mut case);
            let lower = name.to_lower();
            let in_case = |case: &[u8]| lower.as_lower().in_case(case).as_name().as_wire().to_vec();
            prop_assert_eq!(in_case(&case), name.as_wire());
            prop_assert_eq!(name.has_upper_case(), case.iter().any(|&bits| bits != 0));
            prop_assert_eq!(in_case(&[]), lower.as_name().as_wire());
            // Bits of bytes that are not letters have no effect.
            prop_assert_eq!(in_case(&[0xff; 32]), name.as_wire().to_ascii_uppercase());
        }
    }
}
