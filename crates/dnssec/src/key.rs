//! Key tags (RFC 4034 appendix B).

use wire::rdata::view::Dnskey;

/// The tag of a key (RFC 4034 appendix B; algorithm 1, which has a rule of its own, is obsolete): the RDATA as a row of
/// 16-bit numbers, summed up, and what the sum carries over 16 bits added once more.
pub fn tag(key: &Dnskey<'_>) -> u16 {
    let (pairs, last) = key.rdata.as_chunks::<2>();
    let sum: u32 = pairs.iter().map(|pair| u16::from_be_bytes(*pair) as u32).sum();
    let sum = sum + last.first().map_or(0, |&byte| (byte as u32) << 8);
    (sum + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use wire::text::Base64;

    use super::*;

    /// The root's key-signing key of 2017, as the root zone has it.
    const ROOT_KSK: &str = "AwEAAaz/tAm8yTn4Mfeh5eyI96WSVexTBAvkMgJzkKTOiW1vkIbzxeF3+/4RgWOq7HrxRixHlFlExOLAJr5emLvN7SWXgnLh4+B5xQlNVz8Og8kvArMtNROxVQuCaSnIDdD5LKyWbRd2n9WGe2R8PzgCmr3EgVLrjyBxWezF0jLHwVN8efS3rCj/EWgvIWgb9tarpVUDK/b58Da+sqqls3eNbuv7pr+eoZG+SrDK6nWeL3c6H5Apxz7LjVc1uTIdsIXxuOLYA4/ilBmSVIzuDWfdRUfhHdY6+cn8HFRm+2hM8AnXGXws9555KrUB5qihylGa8subX2Nn6UwNR1AkUTV74bU=";

    #[test]
    fn the_root_key_of_2017_has_tag_20326() {
        let mut rdata = vec![1, 1, 3, 8];
        let mut base64 = Base64::default();
        base64.feed(ROOT_KSK.as_bytes(), &mut rdata).expect("base64");
        let key = Dnskey::read(&rdata).expect("a key");
        assert_eq!((tag(&key), key.is_zone_key(), key.is_sep()), (20326, true, true));
    }

    #[test]
    fn a_last_byte_without_a_partner_is_the_upper_one() {
        let key = Dnskey::read(&[1, 0, 3, 13, 0xff]).expect("a key");
        assert_eq!(tag(&key), ((0x0100u32 + 0x030d + 0xff00) - 0x10000 + 1) as u16);
    }
}
