//! Makes responses and looks them up.

use cache::{Answer, Cache, CacheConfig, Credibility, Freshness, Hit, Key, Lookup, Now, Refused, Terms};
use wire::hash::{HashKey, HashedName};
use wire::message::{Builder, Compressor, HEADER_LEN, Offset, Owner, Parser, QUESTION_TAIL, Section};
use wire::{Class, Header, NameBuf, Rcode, Ttl, Type};

pub(crate) fn hash_key() -> HashKey {
    HashKey::new([0x1234_5678_9abc_def1, 0xfedc_ba98_7654_3211, 42])
}

/// A cache of one shard with this size and default lifetimes.
pub(crate) fn cache_of(bytes: usize) -> Cache {
    cache_with(CacheConfig { bytes, shards: 1, ..CacheConfig::default() })
}

pub(crate) fn cache_with(config: CacheConfig) -> Cache {
    Cache::new(&config, hash_key()).expect("a cache")
}

pub(crate) fn at(seconds: u32) -> Now {
    Now::since_start(seconds)
}

pub(crate) fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

pub(crate) fn hashed(text: &str) -> HashedName {
    let mut hashed = HashedName::new();
    hashed.set(&hash_key(), name(text).as_name());
    hashed
}

pub(crate) fn key(name: &HashedName, qtype: Type) -> Key<'_> {
    Key { name, qtype, qclass: Class::IN, view: 0, dnssec_ok: false, checking_disabled: false }
}

pub(crate) fn terms(rank: Credibility, ttl: Option<u32>) -> Terms {
    Terms { view: 0, dnssec_ok: false, checking_disabled: false, rank, ttl: ttl.map(Ttl::from_secs) }
}

/// One record of a response.
pub(crate) struct Record<'a>(
    pub(crate) Section,
    pub(crate) &'a str,
    pub(crate) Type,
    pub(crate) u32,
    pub(crate) Vec<u8>,
);

/// A response with names compressed.
pub(crate) fn response(qname: &str, qtype: Type, rcode: Rcode, records: &[Record<'_>]) -> Vec<u8> {
    let mut header = Header::query(7).reply();
    header.set_rcode(rcode);
    let (mut buffer, mut names) = (vec![0; 65_535], Compressor::large());
    let mut b = Builder::new(&mut buffer, 65_535, header, &mut names);
    let qname = name(qname);
    b.question(qname.as_name(), qtype, Class::IN).expect("room");
    b.learn(qname.as_name(), Offset::QNAME);
    for Record(section, owner, rtype, ttl, rdata) in records {
        let owner = name(owner);
        let owner = Owner::Name(owner.as_name());
        b.record(*section, owner, *rtype, Class::IN, Ttl::from_secs(*ttl), rdata).expect("room");
    }
    let len = b.finish();
    buffer.truncate(len);
    buffer
}

pub(crate) fn a(owner: &str, ttl: u32, address: u32) -> Record<'_> {
    Record(Section::Answer, owner, Type::A, ttl, address.to_be_bytes().to_vec())
}

pub(crate) fn soa(owner: &str, ttl: u32, minimum: u32) -> Record<'_> {
    let mut rdata =
        [name("ns.example.").as_name().as_wire(), name("admin.example.").as_name().as_wire()].concat();
    [1, 2, 3, 4, minimum].into_iter().for_each(|n: u32| rdata.extend(n.to_be_bytes()));
    Record(Section::Authority, owner, Type::SOA, ttl, rdata)
}

/// An answer of one address.
pub(crate) fn address(owner: &str, ttl: u32, address: u32, rank: Credibility) -> Answer {
    let message = response(owner, Type::A, Rcode::NOERROR, &[a(owner, ttl, address)]);
    Answer::of(&message, &terms(rank, None)).expect("an answer")
}

pub(crate) fn nxdomain(owner: &str, qtype: Type, ttl: u32, rank: Credibility) -> Answer {
    let message = response(owner, qtype, Rcode::NXDOMAIN, &[soa("example.", ttl, ttl)]);
    Answer::of(&message, &terms(rank, Some(ttl))).expect("an answer")
}

pub(crate) fn failure(owner: &str, ttl: Option<u32>) -> Answer {
    let message = response(owner, Type::A, Rcode::SERVFAIL, &[]);
    Answer::of(&message, &terms(Credibility::Answer, ttl)).expect("an answer")
}

pub(crate) fn insert(cache: &Cache, answer: Answer, now: u32) -> Result<(), Refused> {
    cache.insert(answer, at(now))
}

/// Looks up a name; returns the hit and the copied body.
pub(crate) fn get(cache: &Cache, owner: &str, qtype: Type, now: u32) -> Option<(Hit, Vec<u8>)> {
    let hashed = hashed(owner);
    get_key(cache, &key(&hashed, qtype), now)
}

pub(crate) fn get_key(cache: &Cache, key: &Key<'_>, now: u32) -> Option<(Hit, Vec<u8>)> {
    let mut room = vec![0; 65_535];
    match cache.lookup(key, at(now), &mut room) {
        Lookup::Hit(hit) => {
            room.truncate(hit.len);
            Some((hit, room))
        }
        Lookup::Miss => None,
        Lookup::TooLong(_) => panic!("there is room"),
    }
}

pub(crate) fn freshness(cache: &Cache, owner: &str, now: u32) -> Option<Freshness> {
    get(cache, owner, Type::A, now).map(|(hit, _)| hit.freshness)
}

/// A copied body behind a header and a question for `owner`, as the engine sends it.
pub(crate) fn reply(owner: &str, qtype: Type, hit: &Hit, body: &[u8]) -> Vec<u8> {
    let mut header = Header::query(99).reply();
    header.set_rcode(hit.rcode);
    let [answer, authority, additional] = hit.counts;
    header.set_counts([1, answer, authority, additional]);
    let (qtype, qclass) = (qtype.0.to_be_bytes(), Class::IN.0.to_be_bytes());
    [header.as_bytes().as_slice(), name(owner).as_name().as_wire(), &qtype, &qclass, body].concat()
}

/// A record as a reader sees it: section, owner, type, TTL and data, names decompressed.
pub(crate) type Seen = (usize, String, Type, u32, Vec<u8>);

/// The records of a message as a reader sees them, without OPT.
pub(crate) fn seen(message: &[u8]) -> Vec<Seen> {
    let (header, mut parser) = Parser::new(message).expect("a header");
    parser.question().expect("a question");
    let mut seen = Vec::new();
    for section in 1..4 {
        for _ in 0..header.counts()[section] {
            let record = parser.record().expect("a record");
            if record.rtype == Type::OPT {
                continue;
            }
            let owner = parser.name_at(record.owner_at).expect("an owner");
            let mut rdata = Vec::new();
            parser.expand_rdata(&record, &mut rdata).expect("data");
            seen.push((section, owner.to_string(), record.rtype, record.ttl().as_secs(), rdata));
        }
    }
    assert!(parser.at_end());
    seen
}

/// The addresses and TTLs in a copied body.
pub(crate) fn addresses(owner: &str, hit: &Hit, body: &[u8]) -> Vec<(u32, u32)> {
    let records = seen(&reply(owner, Type::A, hit, body)).into_iter().filter(|record| record.2 == Type::A);
    records.map(|(.., ttl, rdata)| (u32::from_be_bytes(rdata.try_into().expect("four bytes")), ttl)).collect()
}

/// Returns the end of a message's question.
pub(crate) fn question_end(message: &[u8]) -> usize {
    let (_, mut parser) = Parser::new(message).expect("a header");
    HEADER_LEN + parser.question().expect("a question").name.len() + QUESTION_TAIL
}
