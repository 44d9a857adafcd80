//! A cache of NSEC3 hashes that many answers need: those of closest enclosers and of the wildcards below
//! them. A flood of queries for nonexistent names shares them, and each costs a round of SHA-1 and one more
//! per iteration of the zone (RFC 5155 §5), each of as many blocks as name or hash and salt take. Next closer
//! names are specific to one query and not cached: they would evict the others.
//!
//! Blocks for zones whose hashes take many are limited: without a limit, queries for one such zone would take
//! all of the worker's time.

use std::time::{Duration, Instant};

use dnssec::nsec3::{self, HASH_LEN};
use wire::LowerName;
use wire::rdata::view::Nsec3Param;
use zone::store::Nsec3Chain;

/// Blocks of SHA-1 for a short name above which hashing counts against [`HashingLimit`]: those of 100
/// iterations where a block takes hash and salt. Validators treat zones with more iterations as insecure (RFC
/// 9276 §3.2).
const COSTLY_BLOCKS: u32 = 101;
/// Iterations up to which hashing is not costly with any salt: a hash and the longest salt take five blocks.
const NEVER_COSTLY: u16 = 19;
/// Longest time for which unused blocks are saved.
const SAVED: Duration = Duration::from_millis(100);
/// Longest time whose blocks are added at once.
const MOST_ADDED: Duration = Duration::from_secs(1);

/// Number of cached names; each name has one entry, and the last one replaces it.
const ENTRIES: usize = 256;
/// Longest name cached, and longest salt stored in an entry, in bytes.
const MAX_NAME: usize = 64;
const MAX_SALT: usize = 8;
/// Number of longer salts stored at a time.
const LONG_SALTS: usize = 16;

/// Whether hashing names for a chain counts against [`HashingLimit`]: more than 100 iterations, or fewer with
/// a long salt.
#[inline]
pub fn is_costly(chain: Nsec3Chain<'_>) -> bool {
    // The salt of the usual zone, which has no iterations, is not read.
    chain.iterations() > NEVER_COSTLY && takes_many_blocks(chain)
}

#[cold]
fn takes_many_blocks(chain: Nsec3Chain<'_>) -> bool {
    nsec3::blocks(HASH_LEN, chain.salt().len(), chain.iterations()) > COSTLY_BLOCKS
}

/// Limit of the SHA-1 blocks that a worker spends on zones whose hashes [are costly](is_costly).
#[derive(Clone, Copy, Debug)]
pub struct HashingLimit {
    /// The time of the query.
    pub now: Instant,
    /// Blocks per second. A round takes one, with a salt of more than 35 bytes up to five. A block takes
    /// about 0.1 µs.
    pub rounds_per_second: u32,
}

impl HashingLimit {
    /// The default limit: about a fifth of a CPU.
    pub const DEFAULT_ROUNDS: u32 = 2_000_000;

    /// Returns the default limit at this time.
    pub fn at(now: Instant) -> Self {
        HashingLimit { now, rounds_per_second: Self::DEFAULT_ROUNDS }
    }
}

/// The hashes cached by one worker, and the blocks that it may still spend.
pub(crate) struct Memo {
    kept: Box<[KeptHash]>,
    salts: LongSalts,
    rounds: Rounds,
}

/// Blocks of SHA-1 for zones whose hashes are costly.
#[derive(Default)]
struct Rounds {
    /// Below zero if the last hash took more than was left.
    left: i64,
    added: Option<Instant>,
    /// A hash was refused.
    short: bool,
}

impl Rounds {
    /// Takes the blocks of one hash; returns `false` if none are left.
    #[cold]
    fn take(&mut self, blocks: u32, limit: &HashingLimit) -> bool {
        if self.left <= 0 {
            self.add(limit);
        }
        if self.left <= 0 {
            self.short = true;
            return false;
        }
        self.left -= i64::from(blocks);
        true
    }

    fn add(&mut self, limit: &HashingLimit) {
        let of = |time: Duration| (time.as_micros() * u128::from(limit.rounds_per_second) / 1_000_000) as i64;
        let passed = self.added.map_or(MOST_ADDED, |added| limit.now.saturating_duration_since(added));
        self.added = Some(limit.now);
        self.left = (self.left + of(passed.min(MOST_ADDED))).min(of(SAVED).max(1));
    }
}

/// All parameters of a hash, and the hash. Unused if the name is empty.
#[derive(Clone, Copy)]
struct KeptHash {
    name: Short<MAX_NAME>,
    salt: Short<MAX_SALT>,
    iterations: u16,
    hash: [u8; HASH_LEN],
}

/// A short byte string; bytes after its end are zero.
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

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&self.bytes)
    }
}

/// Salts that are too long for an entry. Each has a number, which the entry stores instead.
struct LongSalts {
    known: Box<[LongSalt]>,
    /// The last number assigned.
    last: u64,
}

/// A salt and its number; unused if the number is 0.
#[derive(Clone, Copy)]
struct LongSalt {
    salt: Short<{ Nsec3Param::MAX_SALT }>,
    number: u64,
}

impl LongSalts {
    fn new() -> Self {
        LongSalts { known: [LongSalt { salt: Short::EMPTY, number: 0 }; LONG_SALTS].into(), last: 0 }
    }

    /// Returns what an entry stores in place of a salt. A new salt replaces the oldest one and gets a new
    /// number: no number has two meanings.
    #[cold]
    fn kept(&mut self, salt: &[u8]) -> Short<MAX_SALT> {
        let is_it = |known: &&LongSalt| known.number != 0 && known.salt.as_bytes() == salt;
        let number = match self.known.iter().find(is_it) {
            Some(known) => known.number,
            None => {
                self.last += 1;
                let at = (self.last % LONG_SALTS as u64) as usize;
                let salt = Short::of(salt).unwrap_or(Short::EMPTY);
                self.known[at] = LongSalt { salt, number: self.last };
                self.last
            }
        };
        // No salt that is stored directly has that length.
        Short { bytes: number.to_le_bytes(), len: MAX_SALT as u8 + 1 }
    }
}

impl Memo {
    pub(crate) fn new() -> Self {
        let free = KeptHash { name: Short::EMPTY, salt: Short::EMPTY, iterations: 0, hash: [0; HASH_LEN] };
        Memo { kept: vec![free; ENTRIES].into(), salts: LongSalts::new(), rounds: Rounds::default() }
    }

    /// Returns the NSEC3 hash of a name. All zeros if the limit is reached: then [`Memo::ran_short`] returns
    /// true.
    pub(crate) fn hash(
        &mut self,
        chain: Nsec3Chain<'_>,
        name: LowerName<'_>,
        limit: &HashingLimit,
    ) -> [u8; HASH_LEN] {
        let iterations = chain.iterations();
        let Some(short) = Short::of(name.as_wire()) else {
            return self.hash_once(chain, name, limit);
        };
        let salt = match Short::of(chain.salt()) {
            Some(salt) => salt,
            None => self.salts.kept(chain.salt()),
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

    /// Returns the NSEC3 hash of a name, without caching it.
    pub(crate) fn hash_once(
        &mut self,
        chain: Nsec3Chain<'_>,
        name: LowerName<'_>,
        limit: &HashingLimit,
    ) -> [u8; HASH_LEN] {
        let (salt, iterations) = (chain.salt(), chain.iterations());
        if is_costly(chain) && !self.rounds.take(nsec3::blocks(name.len(), salt.len(), iterations), limit) {
            return [0; HASH_LEN];
        }
        nsec3::hash(name, salt, iterations)
    }

    /// Returns whether a hash was refused since the last call: then the answer is invalid.
    #[inline]
    pub(crate) fn ran_short(&mut self) -> bool {
        std::mem::take(&mut self.rounds.short)
    }
}

/// Returns the index of a name's entry. A client that finds names with a common entry only makes them cost as
/// much as without a cache.
fn entry_of(name: &Short<MAX_NAME>) -> usize {
    let words = name.bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let mixed = words
        .fold(name.len as u64, |sum, word| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
    mixed as usize % ENTRIES
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use wire::NameBuf;
    use wire::hash::HashKey;
    use zone::store::{Zone, ZoneBuilder};

    /// A zone with an NSEC3 chain of one record.
    pub(crate) fn zone(salt: &[u8], iterations: u16) -> Zone {
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
        // More long salts than are stored at a time.
        let mut salts = vec![vec![], vec![0], vec![0xaa, 0xbb], vec![9; 20], vec![9; 255]];
        salts.extend((0..LONG_SALTS as u8).map(|n| vec![n; MAX_SALT + 1]));
        let zones: Vec<Zone> = salts.iter().flat_map(|salt| [zone(salt, 0), zone(salt, 5)]).collect();
        let mut memo = Memo::new();
        // More names than entries, some of them too long for an entry, each asked for with all parameters and
        // again.
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
        // The number of blocks is the same: five for each round with the longest salt.
        for (salt, iterations) in [(&[][..], 500), (&[7; 255], 100)] {
            hashes_are_limited(&zone(salt, iterations));
        }
    }

    /// Hashes of the costly zone, each of some 500 blocks, are limited; others are not.
    fn hashes_are_limited(costly: &Zone) {
        let usual = [zone(&[], 100), zone(&[7; 255], NEVER_COSTLY)];
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
            let chain = costly.nsec3().expect("a chain");
            let hash = memo.hash_once(chain, name, &limit);
            if memo.ran_short() {
                assert_eq!(hash, [0; HASH_LEN]);
            } else {
                assert_eq!(hash, nsec3::hash(name, chain.salt(), chain.iterations()));
                hashed += 1;
            }
            // Other zones are not limited.
            for usual in &usual {
                memo.hash_once(usual.nsec3().expect("a chain"), name, &limit);
                assert!(!memo.ran_short());
            }
        }
        // 50,000 blocks per second are a hundred such hashes; the saved blocks, and one hash that goes below
        // zero, are added.
        assert!((45..=65).contains(&hashed), "{hashed}");
    }

    #[test]
    fn the_salt_counts_only_where_a_hash_is_costly_by_it() {
        let is_costly = |salt: &[u8], iterations| is_costly(zone(salt, iterations).nsec3().expect("a chain"));
        assert!(!is_costly(&[], 100) && is_costly(&[], 101));
        assert!(!is_costly(&[7; 35], 100) && is_costly(&[7; 36], 100));
        assert!(!is_costly(&[7; 255], NEVER_COSTLY) && is_costly(&[7; 255], NEVER_COSTLY + 1));
    }

    #[test]
    fn hashes_with_a_long_salt_were_computed_again_for_each_answer() {
        let zones: Vec<Zone> = (0..LONG_SALTS as u8).map(|n| zone(&[n; 255], 100)).collect();
        let name: NameBuf = "a.example.".parse().expect("a name");
        let name = LowerName::new(name.as_name()).expect("lower case");
        let (mut memo, now) = (Memo::new(), Instant::now());
        let limit = |rounds_per_second| HashingLimit { now, rounds_per_second };
        // One after the other, since they share an entry.
        for zone in &zones {
            let chain = zone.nsec3().expect("a chain");
            let hash = memo.hash(chain, name, &limit(1_000_000));
            memo.rounds.left = 0;
            assert_eq!(hash, nsec3::hash(name, chain.salt(), 100));
            assert_eq!(memo.hash(chain, name, &limit(0)), hash);
            assert!(!memo.ran_short(), "it is kept");
            memo.rounds.left = 1000;
        }
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
