//! Names that an NSEC3 record matches or covers (RFC 5155). Has its own hash function, and shares no code
//! with the server that it judges.

use crate::answer::Record;
use crate::name::Name;
use crate::query::rtype;

/// Digits of Base 32 with extended hex alphabet, in lower case (RFC 4648, section 7).
const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// Whether an NSEC3 record matches or covers `name`, an ancestor of it in the record's zone, or the wildcard
/// below one of these: these are the parts of a proof about `name` (RFC 5155, sections 7.2.1 and 7.2.3).
pub(crate) fn is_about(record: &Record, name: &Name) -> bool {
    let Some((owner, parameters)) = parse(record) else { return false };
    let zone = record.owner.parent();
    if !name.is_under(&zone) {
        return false;
    }
    let name = name.lower();
    let depth = name.0.len() - zone.0.len();
    let mut around = (0..=depth).flat_map(|skip| {
        let above = Name(name.0[skip..].to_vec());
        [above.child(b"*"), above]
    });
    around.any(|name| {
        let hash = parameters.hash(&name);
        let is_between = if owner < parameters.next {
            owner < hash && hash < parameters.next
        } else {
            // The last record of the chain.
            owner < hash || hash < parameters.next
        };
        hash == owner || is_between
    })
}

/// Hash parameters of a record, and the next hash of the chain.
struct Parameters<'a> {
    iterations: u16,
    salt: &'a [u8],
    next: [u8; 20],
}

impl Parameters<'_> {
    /// Hashes a name (RFC 5155, section 5).
    fn hash(&self, name: &Name) -> [u8; 20] {
        let first = sha1(&[&name.to_wire(), self.salt].concat());
        (0..self.iterations).fold(first, |hash, _| sha1(&[&hash[..], self.salt].concat()))
    }
}

/// Returns the owner's hash and the parameters of an NSEC3 record with SHA-1.
fn parse(record: &Record) -> Option<([u8; 20], Parameters<'_>)> {
    let rdata = Some(&record.rdata[..]).filter(|_| record.rtype == rtype::NSEC3)?;
    let [1, _flags, high, low, salted, rest @ ..] = rdata else { return None };
    let (salt, rest) = rest.split_at_checked(usize::from(*salted))?;
    let [20, rest @ ..] = rest else { return None };
    let next = *rest.first_chunk()?;
    let owner = from_digits(record.owner.0.first()?)?;
    Some((owner, Parameters { iterations: u16::from_be_bytes([*high, *low]), salt, next }))
}

/// Decodes 20 bytes from 32 digits.
fn from_digits(digits: &[u8]) -> Option<[u8; 20]> {
    let mut out = [0; 20];
    for (five, eight) in out.chunks_exact_mut(5).zip(<&[u8; 32]>::try_from(digits).ok()?.chunks_exact(8)) {
        let mut bits = 0u64;
        for digit in eight {
            let value = DIGITS.iter().position(|d| d.eq_ignore_ascii_case(digit))?;
            bits = (bits << 5) | value as u64;
        }
        five.copy_from_slice(&bits.to_be_bytes()[3..]);
    }
    Some(out)
}

/// SHA-1 (FIPS 180-4, section 6.1).
fn sha1(message: &[u8]) -> [u8; 20] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend((message.len() as u64 * 8).to_be_bytes());
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in padded.chunks_exact(64) {
        let mut words = [0u32; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = bytes.iter().fold(0, |word, byte| (word << 8) | u32::from(*byte));
        }
        for t in 16..80 {
            words[t] = (words[t - 3] ^ words[t - 8] ^ words[t - 14] ^ words[t - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (t, word) in words.into_iter().enumerate() {
            let (mixed, constant) = match t {
                0..20 => ((b & c) | (!b & d), 0x5a82_7999),
                20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let sum = [a.rotate_left(5), mixed, e, constant, word].into_iter().fold(0, u32::wrapping_add);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, sum);
        }
        for (part, more) in state.iter_mut().zip([a, b, c, d, e]) {
            *part = part.wrapping_add(more);
        }
    }
    let mut out = [0; 20];
    for (bytes, part) in out.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&part.to_be_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::from_text(text).unwrap()
    }

    /// A record of RFC 5155, appendix A: owner and next hash in digits.
    fn record(owner: &str, next: &str) -> Record {
        let mut rdata = vec![1, 1, 0, 12, 4, 0xaa, 0xbb, 0xcc, 0xdd, 20];
        rdata.extend(from_digits(next.as_bytes()).unwrap());
        let owner = name(&format!("{owner}.example."));
        Record { owner, rtype: rtype::NSEC3, class: 1, ttl: 3600, rdata }
    }

    #[test]
    fn hashes_are_those_of_the_rfc() {
        assert_eq!(sha1(b"abc")[..4], [0xa9, 0x99, 0x3e, 0x36]);
        assert_eq!(sha1(&[b'a'; 64])[..4], [0x00, 0x98, 0xba, 0x82]);
        let salt = &[0xaa, 0xbb, 0xcc, 0xdd];
        let parameters = Parameters { iterations: 12, salt, next: [0; 20] };
        for (text, digits) in [
            ("example.", "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom"),
            ("a.example.", "35mthgpgcu1qg68fab165klnsnk3dpvl"),
            ("*.w.example.", "r53bq7cc2uvmubfu5ocmm6pers9tk9en"),
        ] {
            assert_eq!(Some(parameters.hash(&name(text))), from_digits(digits.as_bytes()), "{text}");
        }
        assert_eq!(from_digits(b"0p9m"), None);
        assert_eq!(from_digits(b"wp9mhaveqvm6t7vbl5lop2u3t2rp3tom"), None);
    }

    #[test]
    fn a_record_is_about_what_it_matches_and_what_it_covers() {
        // Appendix B.1, a name error: these match x.w.example and cover c.x.w.example and *.x.w.example.
        let error = name("a.c.x.w.example.");
        for (owner, next) in [
            ("b4um86eghhds6nea196smvmlo4ors995", "gjeqe526plbf1g8mklp59enfd789njgi"),
            ("0p9mhaveqvm6t7vbl5lop2u3t2rp3tom", "2t7b4g4vsa5smi47k61mv5bv1a22bojr"),
            ("35mthgpgcu1qg68fab165klnsnk3dpvl", "b4um86eghhds6nea196smvmlo4ors995"),
        ] {
            assert!(is_about(&record(owner, next), &error), "{owner}");
        }
        // ns2.example and x.y.w.example.
        for (owner, next) in [
            ("q04jkcevqvmu85r014c7dkba38o0ji5r", "r53bq7cc2uvmubfu5ocmm6pers9tk9en"),
            ("2vptu5timamqttgl4luu9kg21e0aor3s", "35mthgpgcu1qg68fab165klnsnk3dpvl"),
        ] {
            assert!(!is_about(&record(owner, next), &error), "{owner}");
            assert!(!is_about(&record(owner, next), &name("x.test.")), "another zone");
        }
        // The last record of the chain covers the name itself, whose hash is lower than the first.
        let (last, first) = ("t644ebqk9bibcna874givr6joj62mlhv", "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom");
        assert!(is_about(&record(last, first), &error));
        assert!(!is_about(&record(last, first), &name("ent.example.")));
        let other = Record { rtype: rtype::NSEC, ..record(last, first) };
        assert!(!is_about(&other, &error));
    }
}
