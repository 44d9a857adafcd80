//! NSEC3 hashes of names that one answer after the other needs: closest enclosers and the wildcards below them. A flood
//! of names that do not exist shares them, and each costs a round of SHA-1 and as many more as the zone has iterations
//! (RFC 5155 §5). What a query alone is about, its next closer name, is not kept: it would push out the others.
//!
//! Rounds for zones with many iterations are limited: without a limit, queries for one such zone would take the worker's whole time.

use std::time::{Duration, Instant};

use dnssec::nsec3::{self, HASH_LEN};
use wire::LowerName;
use zone::store::Nsec3Chain;

/// Iterations above which hashing counts against [`HashingLimit`]. Validators treat such zones as insecure (RFC 9276 §3.2).
pub const COSTLY_ITERATIONS: u16 = 100;
/// Longest time for which unused rounds are saved up.
const SAVED: Duration = Duration::from_millis(100);
/// Longest time whose rounds are added at once.
const MOST_ADDED: Duration = Duration::from_secs(1);

/// Names kept; each has one entry, and the last one stays.
const ENTRIES: usize = 256;
/// Longest name and longest salt kept.
const MAX_NAME: usize = 64;
const MAX_SALT: usize = 8;

/// How many rounds of SHA-1 a worker spends on hashing names for zones with more than a hundred NSEC3 iterations.
#[derive(Clone, Copy, Debug)]
pub struct HashingLimit {
    /// The time of the query.
    pub now: Instant,
    /// Rounds per second. A round takes about 0.1 µs.
    pub rounds_per_second: u32,
}

impl HashingLimit {
    /// The limit if the configuration has no other: a fifth of a CPU, or so.
    pub const DEFAULT_ROUNDS: u32 = 2_000_000;

    /// The usual limit, at this time.
    pub fn at(now: Instant) -> Self {
        HashingLimit { now, rounds_per_second: Self::DEFAULT_ROUNDS }
    }
}

/// The hashes kept by one worker, and the rounds that it may still spend.
pub(crate) struct Memo {
    kept: Box<[KeptHash]>,
    rounds: Rounds,
}

/// Rounds for zones with more than [`COSTLY_ITERATIONS`].
#[derive(Default)]
struct Rounds {
    /// Below zero where the last hash took more than was left.
    left: i64,
    added: Option<Instant>,
    /// A hash was refused.
    short: bool,
}

impl Rounds {
    /// Takes the rounds of one hash; `false` if none are left.
    #[cold]
    fn take(&mut self, iterations: u16, limit: &HashingLimit) -> bool {
        if self.left <= 0 {
            self.add(limit);
        }
        if self.left <= 0 {
            self.short = true;
            return false;
        }
        self.left -= 1 + i64::from(iterations);
        true
    }

    fn add(&mut self, limit: &HashingLimit) {
        let of = |time: Duration| (time.as_micros() * u128::from(limit.rounds_per_second) / 1_000_000) as i64;
        let passed = self.added.map_or(MOST_ADDED, |added| limit.now.saturating_duration_since(added));
        self.added = Some(limit.now);
        self.left = (self.left + of(passed.min(MOST_ADDED))).min(of(SAVED).max(1));
    }
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
        Memo { kept: vec![free; ENTRIES].into(), rounds: Rounds::default() }
    }

    /// The hash of a name, as `chain` hashes. All zeros where the limit is reached: then [`Memo::ran_short`].
    pub(crate) fn hash(
        &mut self,
        chain: Nsec3Chain<'_>,
        name: LowerName<'_>,
        limit: &HashingLimit,
    ) -> [u8; HASH_LEN] {
        let iterations = chain.iterations();
        let (Some(short), Some(salt)) = (Short::of(name.as_wire()), Short::of(chain.salt())) else {
            return self.hash_once(chain, name, limit);
        };
        let at = entry_of(&short);
        let entry = &self.kept[at];
        if entry.name == short && entry.salt == salt && entry.iterations == iterations {
            return entry.hash;
        }
        let hash = self.hash_once(chain, name, limit);
        if !self.rounds.short {
            self.kept[at] = KeptHash { name: short, salt, iterations, hash };
        }
        hash
    }

    /// The same without keeping it.
    pub(crate) fn hash_once(
        &mut self,
        chain: Nsec3Chain<'_>,
        name: LowerName<'_>,
        limit: &HashingLimit,
    ) -> [u8; HASH_LEN] {
        let iterations = chain.iterations();
        if iterations > COSTLY_ITERATIONS && !self.rounds.take(iterations, limit) {
            return [0; HASH_LEN];
        }
        nsec3::hash(name, chain.salt(), iterations)
    }

    /// Whether a hash was refused since the last call, so that what was made of it is no answer.
    #[inline]
    pub(crate) fn ran_short(&mut self) -> bool {
        std::mem::take(&mut self.rounds.short)
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
                    let limit = HashingLimit { now: Instant::now(), rounds_per_second: 1 };
                    let hash = memo.hash(chain, name, &limit);
                    assert_eq!(hash, nsec3::hash(name, chain.salt(), chain.iterations()));
                }
            }
        }
    }

    #[test]
    fn many_iterations_took_all_the_time_of_a_worker() {
        let (costly, usual) = (zone(&[], 500), zone(&[], COSTLY_ITERATIONS));
        let mut memo = Memo::new();
        let begun = Instant::now();
        let names: Vec<NameBuf> =
            (0..5000).map(|i| format!("{i}.example.").parse().expect("a name")).collect();
        // A name each 0.1 ms, for half a second.
        let mut hashed = 0_u32;
        for (i, name) in (0_u32..).zip(&names) {
            let limit =
                HashingLimit { now: begun + Duration::from_micros(100) * i, rounds_per_second: 50_000 };
            let name = LowerName::new(name.as_name()).expect("lower case");
            let hash = memo.hash_once(costly.nsec3().expect("a chain"), name, &limit);
            if memo.ran_short() {
                assert_eq!(hash, [0; HASH_LEN]);
            } else {
                assert_eq!(hash, nsec3::hash(name, &[], 500));
                hashed += 1;
            }
            // Other zones have no part in the limit.
            memo.hash_once(usual.nsec3().expect("a chain"), name, &limit);
            assert!(!memo.ran_short());
        }
        // 50,000 rounds a second are a hundred hashes of 501 rounds; what was saved up, and one that goes below zero, come on top.
        assert!((45..=65).contains(&hashed), "{hashed}");
    }

    #[test]
    fn a_refused_hash_is_not_kept() {
        let costly = zone(&[], 500);
        let chain = costly.nsec3().expect("a chain");
        let name: NameBuf = "a.example.".parse().expect("a name");
        let name = LowerName::new(name.as_name()).expect("lower case");
        let mut memo = Memo::new();
        let limit = |now, rounds_per_second| HashingLimit { now, rounds_per_second };
        let begun = Instant::now();
        assert_eq!(memo.hash(chain, name, &limit(begun, 0)), [0; HASH_LEN]);
        assert!(memo.ran_short());
        let later = limit(begun + Duration::from_secs(1), 1_000_000);
        assert_eq!(memo.hash(chain, name, &later), nsec3::hash(name, &[], 500));
        assert!(!memo.ran_short());
    }
}
