//! The NSEC3 hash (RFC 5155 §5).

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use wire::LowerName;
use wire::name::MAX_NAME;
use wire::rdata::view::Nsec3Param;

/// Length of a hash in bytes.
pub const HASH_LEN: usize = 20;

/// Length of a SHA-1 block in bytes, and of its padding (FIPS 180-4 §5.1.1).
const BLOCK: usize = 64;
const PADDING: usize = 9;

/// The number of SHA-1 blocks that [`hash`] processes for a name and a salt of these lengths.
pub fn blocks(name_len: usize, salt_len: usize, iterations: u16) -> u32 {
    let round = |len: usize| (len + salt_len + PADDING).div_ceil(BLOCK) as u32;
    round(name_len) + u32::from(iterations) * round(HASH_LEN)
}

/// Hashes a name: `iterations` rounds after the first, each with the salt of up to 255 bytes appended.
pub fn hash(name: LowerName<'_>, salt: &[u8], iterations: u16) -> [u8; HASH_LEN] {
    let mut hashed = round(name.as_wire(), salt);
    for _ in 0..iterations {
        hashed = round(&hashed, salt);
    }
    hashed
}

/// Hashes `data` followed by the salt. Concatenates them first, since hashing in two steps allocates memory,
/// and this is on the query path.
fn round(data: &[u8], salt: &[u8]) -> [u8; HASH_LEN] {
    let mut both = [0; MAX_NAME + Nsec3Param::MAX_SALT];
    let all = match salt {
        [] => data,
        _ => {
            let len = data.len() + salt.len();
            both[..data.len()].copy_from_slice(data);
            both[data.len()..len].copy_from_slice(salt);
            &both[..len]
        }
    };
    let mut hashed = [0; HASH_LEN];
    hashed.copy_from_slice(digest(&SHA1_FOR_LEGACY_USE_ONLY, all).as_ref());
    hashed
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::NameBuf;
    use wire::text::write_base32hex;

    #[test]
    fn the_longest_name_and_the_longest_salt_are_hashed() {
        let name: NameBuf = format!("{}.{0}.{0}.{}", "a".repeat(63), "b".repeat(61)).parse().expect("name");
        assert_eq!(name.as_name().len(), MAX_NAME);
        let name = name.as_name().to_lower();
        let salts = [&[7; Nsec3Param::MAX_SALT][..], &[7; Nsec3Param::MAX_SALT - 1], &[]]
            .map(|salt| hash(name.as_lower(), salt, 2));
        assert!(salts[0] != salts[1] && salts[1] != salts[2]);
    }

    #[test]
    fn a_round_takes_a_block_for_each_64_bytes_with_nine_of_padding() {
        assert_eq!(blocks(20, 0, 0), 1);
        assert_eq!(blocks(20, 35, 100), 101);
        assert_eq!(blocks(20, 36, 100), 202);
        assert_eq!(blocks(MAX_NAME, Nsec3Param::MAX_SALT, 100), 9 + 100 * 5);
        assert_eq!(blocks(MAX_NAME, Nsec3Param::MAX_SALT, u16::MAX), 9 + 65_535 * 5);
    }

    /// The names of RFC 5155 appendix A: salt aabbccdd, 12 iterations.
    #[test]
    fn the_hashes_of_rfc_5155_appendix_a() {
        let expected = [
            ("example", "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom"),
            ("a.example", "35mthgpgcu1qg68fab165klnsnk3dpvl"),
            ("ns1.example", "2t7b4g4vsa5smi47k61mv5bv1a22bojr"),
            ("*.w.example", "r53bq7cc2uvmubfu5ocmm6pers9tk9en"),
            ("x.y.w.example", "2vptu5timamqttgl4luu9kg21e0aor3s"),
        ];
        for (name, text) in expected {
            let name: NameBuf = name.parse().expect("name");
            let hashed = hash(name.as_name().to_lower().as_lower(), &[0xaa, 0xbb, 0xcc, 0xdd], 12);
            let mut written = String::new();
            write_base32hex(&hashed, &mut written).expect("a String takes everything");
            assert_eq!(written, text);
        }
    }
}
