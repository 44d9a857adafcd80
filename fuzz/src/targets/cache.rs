//! The cache: whatever is inserted, as a response or from a file, can be decoded when it is read back, and
//! has the same records.
//!
//! RFC 1035 §4.1.4 says of pointers "a prior occurance of the same name": a copy after another header and
//! question must have that name at the same offset. RFC 2181 §5.2: "the TTL in each record of the answer"
//! counts down, so no TTL in a copy is greater than that of the insertion, except for the configured limits.

use cache::{Answer, AnswerKind, Cache, CacheConfig, Credibility, Held, Key, Lookup, Now, Terms};
use wire::hash::{HashKey, HashedName};
use wire::message::{HEADER_LEN, MAX_MESSAGE, Parser, QUESTION_TAIL};
use wire::{Header, Ttl, Type, UnixTime};

const NOW: Now = Now::since_start(1000);
const WALL: UnixTime = UnixTime::from_secs(100);

pub(crate) fn run(data: &[u8]) {
    respond(data);
    let _ = load(data);
    // The same data as an entry with a valid checksum, in a file with a valid header.
    let mut file = summed(b"nomencac\x01\0\0\0\0\0\0\0\0\0\0\0".to_vec());
    let len = (data.len().saturating_sub(16) as u32).to_le_bytes();
    file.extend(summed([len.as_slice(), data].concat()));
    let _ = load(&file);
}

fn cache() -> Cache {
    Cache::new(
        &CacheConfig { bytes: 256 << 10, shards: 1, ..CacheConfig::default() },
        HashKey::new([1, 2, 3]),
    )
    .expect("a cache")
}

/// Appends the checksum that a cache file has.
fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = bytes.chunks(8).fold(0x9e37_79b9_7f4a_7c15 ^ bytes.len() as u64, |sum, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        let sum = (sum ^ u64::from_le_bytes(word)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        sum ^ sum >> 32
    });
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Loads a file; checks that its entries can be looked up, saved and loaded again.
fn load(mut file: &[u8]) -> Option<()> {
    let cache = cache();
    let _ = cache.load(&mut file, NOW, WALL);
    let mut all = Vec::new();
    cache.for_each(NOW, |held| all.push(held.clone()));
    all.iter().for_each(|held| check(&cache, held));
    let mut saved = Vec::new();
    let count = cache.save(&mut saved, NOW, WALL).expect("a Vec takes everything");
    assert_eq!(count, all.len() as u64);
    let restored = self::cache().load(&mut saved.as_slice(), NOW, WALL).expect("what was saved can be read");
    assert_eq!(restored.kept, count);
    Some(())
}

fn check(cache: &Cache, held: &Held) {
    let message = held.message();
    let stored = records(&message).expect("what is kept can be read");
    let mut name = HashedName::new();
    name.set(cache.key(), held.name().as_name());
    let key = Key {
        name: &name,
        qtype: held.asked(),
        qclass: held.qclass(),
        view: held.view(),
        dnssec_ok: held.dnssec_ok(),
        checking_disabled: held.checking_disabled(),
    };
    let mut copied = vec![0; MAX_MESSAGE];
    let body_at = HEADER_LEN + held.name().as_lower().len() + QUESTION_TAIL;
    // The header and the question of another response: everything except the counts may differ.
    copied[..body_at].copy_from_slice(&message[..body_at]);
    copied[..2].fill(0xff);
    let room = &mut copied[body_at..];
    let lookup = match held.kind() {
        AnswerKind::Failure => cache.failure(&key, NOW, room),
        _ => cache.lookup(&key, NOW, room),
    };
    let Lookup::Hit(hit) = lookup else { panic!("{lookup:?} for what is kept") };
    let read = records(&copied[..body_at + hit.len]).expect("what is copied can be read");
    assert_eq!(read.len(), stored.len());
    for (read, stored) in read.iter().zip(&stored) {
        assert_eq!((&read.0, read.1, &read.3), (&stored.0, stored.1, &stored.3));
        assert!(read.2 <= stored.2.max(Ttl::from_secs(30)));
    }
}

/// A record: its owner, type, TTL and RDATA.
type KeptRecord = (String, Type, Ttl, Vec<u8>);

/// Returns every record.
fn records(message: &[u8]) -> Option<Vec<KeptRecord>> {
    let (header, mut parser) = Parser::new(message).ok()?;
    parser.question().ok()?;
    let mut records = Vec::new();
    for _ in 0..header.counts()[1..].iter().map(|count| *count as u32).sum() {
        let record = parser.record().ok()?;
        let (owner, mut rdata) = (parser.name_at(record.owner_at).ok()?, Vec::new());
        parser.expand_rdata(&record, &mut rdata).ok()?;
        if record.rtype != Type::OPT {
            records.push((owner.to_string(), record.rtype, record.ttl(), rdata));
        }
    }
    parser.at_end().then_some(records)
}

/// Inserts a response; a lookup must return the records that a decoder sees in it.
fn respond(message: &[u8]) {
    let ttl = Some(Ttl::from_secs(60));
    for ttl in [None, ttl] {
        let terms =
            Terms { view: 7, dnssec_ok: true, checking_disabled: false, rank: Credibility::Answer, ttl };
        let Ok(answer) = Answer::of(message, &terms) else { continue };
        let cache = cache();
        if cache.insert(answer, NOW).is_err() {
            continue;
        }
        let seen = records(message).expect("what is taken can be read");
        assert!(Header::of(message).is_some_and(|header| header.is_response() && !header.truncated()));
        let mut shown = 0;
        cache.for_each(NOW, |held| {
            shown += 1;
            check(&cache, held);
            let kept = records(&held.message()).expect("what is kept can be read");
            assert_eq!(kept.len(), seen.len());
            for (kept, seen) in kept.iter().zip(&seen) {
                assert!(kept.0.eq_ignore_ascii_case(&seen.0));
                assert_eq!(kept.1, seen.1);
                assert!(kept.3.eq_ignore_ascii_case(&seen.3));
            }
        });
        assert_eq!(shown, 1);
    }
}
