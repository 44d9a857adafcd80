//! The NSEC3 hash (RFC 5155 §5).

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, digest};
use wire::LowerName;

/// Bytes of a hash.
pub const HASH_LEN: usize = 20;

/// Hashes a name: `iterations` further rounds after the first, the salt added in each.
pub fn hash(name: LowerName<'_>, salt: &[u8], iterations: u16) -> [u8; HASH_LEN] {
    let mut hashed = round(name.as_wire(), salt);
    for _ in 0..iterations {
        hashed = round(&hashed, salt);
    }
    hashed
}

fn round(data: &[u8], salt: &[u8]) -> [u8; HASH_LEN] {
    let done = if salt.is_empty() {
        digest(&SHA1_FOR_LEGACY_USE_ONLY, data)
    } else {
        let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        context.update(data);
        context.update(salt);
        context.finish()
    };
    let mut out = [0; HASH_LEN];
    out.copy_from_slice(done.as_ref());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::NameBuf;
    use wire::text::write_base32hex;

    /// The names of RFC 5155, Appendix A: salt aabbccdd, 12 iterations.
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
