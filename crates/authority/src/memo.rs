//! NSEC3 hashes of names that one answer after the other needs: closest enclosers and the wildcards below them. A flood
//! of names that do not exist shares them, and each costs a round of SHA-1 and as many more as the zone has iterations
//! (RFC 5155 §5). What a query alone is about, its next closer name, is not kept: it would push out the others.

use dnssec::nsec3::{self, HASH_LEN};
use wire::LowerName;
use zone::store::Nsec3Chain;

/// Names kept; each has one entry, and the last one stays.
const ENTRIES: usize = 256;
/// Longest name and longest salt kept.
const MAX_NAME: usize = 64;
const MAX_SALT: usize = 8;

/// The hashes kept by one worker.
pub(crate) struct Memo {
    kept: Box<[KeptHash]>,
}

/// Everything that a hash depends on, and the hash. Free while the name is empty.
#[derive(Clone, Copy)]
struct KeptHash {
    name: Short<MAX_NAME>,
    salt: Short<MAX_SALT>,
    iterations: u16,
    hash: [u8; HASH_LEN],
}

/// A few bytes; those behind the end are zero.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Short<const N: usize> {
    bytes: [u8; N],
    len: u8,
}

impl<const N: usize> Short<N> {
    const EMPTY: Self = Short { bytes: [0; N], len: 0 };

    #[inline]
    fn of(bytes: &[u8]) -> Option<Self> {
        let mut short = Self::EMPTY;
        short.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        short.len = bytes.len() as u8;
        Some(short)
    }
}

impl Memo {
    pub(crate) fn new() -> Self {
        let free = KeptHash { name: Short::EMPTY, salt: Short::EMPTY, iterations: 0, hash: [0; HASH_LEN] };
        Memo { kept: vec![free; ENTRIES].into() }
    }

    /// The hash of a name, as `chain` hashes.
    pub(crate) fn hash(&mut self, chain: Nsec3Chain<'_>, name: LowerName<'_>) -> [u8; HASH_LEN] {
        let (salt, iterations) = (chain.salt(), chain.iterations());
        let compute = || nsec3::hash(name, salt, iterations);
        let (Some(name), Some(salt)) = (Short::of(name.as_wire()), Short::of(salt)) else { return compute() };
        let entry = &mut self.kept[entry_of(&name)];
        if !(entry.name == name && entry.salt == salt && entry.iterations == iterations) {
            *entry = KeptHash { name, salt, iterations, hash: compute() };
        }
        entry.hash
    }
}

/// The entry of a name. Whoever knows names that share one entry only makes them cost what they cost without it.
fn entry_of(name: &Short<MAX_NAME>) -> usize {
    let words = name.bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let mixed = words
        .fold(name.len as u64, |sum, word| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
    mixed as usize % ENTRIES
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::NameBuf;
    use wire::hash::HashKey;
    use zone::store::{Zone, ZoneBuilder};

    /// A zone with an NSEC3 chain of one record.
    fn zone(salt: &[u8], iterations: u16) -> Zone {
        let apex: NameBuf = "example.".parse().expect("a name");
        let mut builder = ZoneBuilder::new(apex.as_name(), &HashKey::new([1, 2, 3]));
        let mut add = |owner: &str, t: wire::Type, rdata: &[u8]| {
            let owner: NameBuf = owner.parse().expect("a name");
            builder.add(owner.as_name(), t, wire::Ttl::from_secs(60), rdata).expect("a record");
        };
        add("example.", wire::Type::SOA, &[&[0, 0][..], &[0; 20]].concat());
        add("example.", wire::Type::NS, &[0]);
        let params = [&[1, 0, (iterations >> 8) as u8, iterations as u8, salt.len() as u8], salt].concat();
        add("example.", wire::Type::NSEC3PARAM, &params);
        let record = [&params[..], &[20], &[7; 20]].concat();
        add("0p9mhaveqvm6t7vbl5lop2u3t2rp3tom.example.", wire::Type::NSEC3, &record);
        builder.finish().expect("a zone")
    }

    #[test]
    fn what_is_kept_is_what_would_be_computed() {
        let salts: [&[u8]; 4] = [&[], &[0], &[0xaa, 0xbb], &[9; 20]];
        let zones: Vec<Zone> = salts.iter().flat_map(|salt| [zone(salt, 0), zone(salt, 5)]).collect();
        let mut memo = Memo::new();
        // More names than kept, some of them too long to be kept, each asked for under all parameters and again.
        let names: Vec<NameBuf> = (0..600)
            .map(|i| format!("{}{i}.example.", "x".repeat(i % 60)).parse().expect("a name"))
            .collect();
        for name in names.iter().chain(&names) {
            for zone in &zones {
                let chain = zone.nsec3().expect("a chain");
                for _ in 0..2 {
                    let name = LowerName::new(name.as_name()).expect("lower case");
                    assert_eq!(memo.hash(chain, name), nsec3::hash(name, chain.salt(), chain.iterations()));
                }
            }
        }
    }
}
