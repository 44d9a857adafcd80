//! Whole answers without the kernel: batches of 64 queries through a worker of the engine, as the server does
//! it.

use std::hint::black_box;
use std::sync::Arc;
use std::task::Waker;

use engine::{BATCH, Config, Engine, Sources, Worker, WorkerState, Zones};
use exchange::{Packets, Transport};
use testkit::Chain;
use testkit::tld::Tld;
use wire::hash::HashKey;
use wire::{Header, NameBuf, Rcode, Type};
use zone::{Catalog, Change, Zone};

use crate::messages::query;
use crate::zones::{changed, zone};
use crate::{Piece, name};

/// Room for one reply.
const ROOM: usize = 4096;
/// The same where misses are counted: replies begin at every place of a cache, and at every eighth byte of a
/// line.
const COLD_ROOM: usize = 1480;
/// Bytes of the last cache where misses are counted: a small one, to which a zone of a megabyte is a large
/// one.
pub const COLD_CACHE: usize = 128 << 10;

/// What is asked and what the answer must be: rcode, and records in its answer and authority sections.
struct Kind {
    name: &'static str,
    /// QNAME, `#` for a number.
    pattern: &'static str,
    qtype: Type,
    /// Whether the query has OPT, and DO in it.
    edns: Option<bool>,
    expected: (Rcode, u16, u16),
}

const fn kind(
    name: &'static str,
    pattern: &'static str,
    qtype: Type,
    edns: Option<bool>,
    expected: (Rcode, u16, u16),
) -> Kind {
    Kind { name, pattern, qtype, edns, expected }
}

const PLAIN: Option<bool> = Some(false);
const DO: Option<bool> = Some(true);

const KINDS: [Kind; 21] = [
    kind("exact", "h#.plain.", Type::A, PLAIN, (Rcode::NOERROR, 2, 0)),
    kind("exact-without-edns", "h#.plain.", Type::A, None, (Rcode::NOERROR, 2, 0)),
    kind("cname", "c#.plain.", Type::A, PLAIN, (Rcode::NOERROR, 3, 0)),
    kind("wildcard", "any#.w.plain.", Type::A, PLAIN, (Rcode::NOERROR, 1, 0)),
    kind("referral", "www.d#.plain.", Type::A, PLAIN, (Rcode::NOERROR, 0, 2)),
    kind("nodata", "h#.plain.", Type::AAAA, PLAIN, (Rcode::NOERROR, 0, 1)),
    kind("nxdomain", "x#.plain.", Type::A, PLAIN, (Rcode::NXDOMAIN, 0, 1)),
    kind("deep-nxdomain", "a.b.c.d.x#.c.b.deep.plain.", Type::A, PLAIN, (Rcode::NXDOMAIN, 0, 1)),
    kind("refused", "x#.elsewhere.", Type::A, PLAIN, (Rcode::REFUSED, 0, 0)),
    kind("nsec/exact", "h#.nsec.", Type::A, DO, (Rcode::NOERROR, 3, 0)),
    kind("nsec/wildcard", "any#.w.nsec.", Type::A, DO, (Rcode::NOERROR, 2, 2)),
    kind("nsec/referral", "www.d#.nsec.", Type::A, DO, (Rcode::NOERROR, 0, 4)),
    kind("nsec/nodata", "h#.nsec.", Type::AAAA, DO, (Rcode::NOERROR, 0, 4)),
    kind("nsec/nxdomain", "x#.nsec.", Type::A, DO, (Rcode::NXDOMAIN, 0, 6)),
    kind("nsec/nxdomain-without-do", "x#.nsec.", Type::A, PLAIN, (Rcode::NXDOMAIN, 0, 1)),
    kind("nsec3/exact", "h#.nsec3.", Type::A, DO, (Rcode::NOERROR, 3, 0)),
    kind("nsec3/wildcard", "any#.w.nsec3.", Type::A, DO, (Rcode::NOERROR, 2, 2)),
    kind("nsec3/referral", "www.d#.nsec3.", Type::A, DO, (Rcode::NOERROR, 0, 4)),
    kind("nsec3/nodata", "h#.nsec3.", Type::AAAA, DO, (Rcode::NOERROR, 0, 4)),
    kind("nsec3/nxdomain", "x#.nsec3.", Type::A, DO, (Rcode::NXDOMAIN, 0, 8)),
    kind("nsec3/deep-nxdomain", "a.b.c.d.x#.c.b.deep.nsec3.", Type::A, DO, (Rcode::NXDOMAIN, 0, 8)),
];

/// The same of a zone with changes pending: for names that did not change, and for one that did.
const CHANGED: [Kind; 5] = [
    kind("changed/exact", "h#.moved.", Type::A, PLAIN, (Rcode::NOERROR, 2, 0)),
    kind("changed/referral", "www.d#.moved.", Type::A, PLAIN, (Rcode::NOERROR, 0, 2)),
    kind("changed/nodata", "h#.moved.", Type::AAAA, PLAIN, (Rcode::NOERROR, 0, 1)),
    kind("changed/nxdomain", "x#.moved.", Type::A, PLAIN, (Rcode::NXDOMAIN, 0, 1)),
    kind("changed/new", "f1#0.moved.", Type::A, PLAIN, (Rcode::NOERROR, 2, 0)),
];

/// What is asked where memory is counted: for names that lie all over the zone.
const COLD: [Kind; 10] = [
    kind("exact", "h#.plain.", Type::A, PLAIN, (Rcode::NOERROR, 2, 0)),
    kind("cname", "c#.plain.", Type::A, PLAIN, (Rcode::NOERROR, 3, 0)),
    kind("referral", "www.d#.plain.", Type::A, PLAIN, (Rcode::NOERROR, 0, 2)),
    kind("nxdomain", "h#x.plain.", Type::A, PLAIN, (Rcode::NXDOMAIN, 0, 1)),
    kind("nsec/exact", "h#.nsec.", Type::A, DO, (Rcode::NOERROR, 3, 0)),
    kind("nsec/referral", "www.d#.nsec.", Type::A, DO, (Rcode::NOERROR, 0, 4)),
    kind("nsec/nxdomain", "h#x.nsec.", Type::A, DO, (Rcode::NXDOMAIN, 0, 6)),
    kind("nsec3/exact", "h#.nsec3.", Type::A, DO, (Rcode::NOERROR, 3, 0)),
    kind("nsec3/referral", "www.d#.nsec3.", Type::A, DO, (Rcode::NOERROR, 0, 4)),
    kind("nsec3/nxdomain", "h#x.nsec3.", Type::A, DO, (Rcode::NXDOMAIN, 0, 8)),
];

pub(crate) fn pieces(key: &HashKey) -> Vec<Piece> {
    let (engine, changed) = (serving_all(key), serving(key, [changed(key, "moved.")]));
    let one = |(kind, engine): (&Kind, &Arc<Engine<Zones>>)| {
        // Even numbers: the delegations that have DS.
        let mut batch = kind.batches(engine, ROOM, (0..BATCH).map(|i| i * 14));
        Piece::new(format!("answer/{}", kind.name), move || batch.next())
    };
    let kinds = KINDS.iter().map(|kind| (kind, &engine));
    kinds.chain(CHANGED.iter().map(|kind| (kind, &changed))).map(one).collect()
}

/// Pieces that answer a batch whose names and their data no cache of [`COLD_CACHE`] bytes holds: for counting
/// its misses. When one is done for the first time, it answers so many other batches that nothing of its own
/// is left in the cache.
pub fn cold() -> Vec<Piece> {
    let engine = serving_all(&crate::key());
    let one = |kind: &Kind| {
        // Even numbers below a thousand, each once, in an order that jumps about.
        let mut batches = kind.batches(&engine, COLD_ROOM, (0..7 * BATCH).map(|i| 2 * (i * 197 % 500)));
        let mut first = true;
        let run = move || {
            let len = batches.next();
            while first && batches.at != 0 {
                batches.next();
            }
            first = false;
            len
        };
        Piece::new(format!("cold/{}", kind.name), run)
    };
    COLD.iter().map(one).collect()
}

impl Kind {
    /// Batches that ask for these numbers. The first is answered, and is as expected.
    fn batches(
        &self,
        engine: &Arc<Engine<Zones>>,
        room: usize,
        numbers: impl Iterator<Item = usize>,
    ) -> Batches {
        let qname = |number: usize| name(&self.pattern.replace('#', &number.to_string()));
        let edns = self.edns.map(|dnssec_ok| (dnssec_ok, b"".as_slice()));
        let queries: Vec<_> = numbers.map(|i| query(qname(i).as_name(), self.qtype, edns)).collect();
        let mut batches = Batches::new(engine, room, &queries);
        batches.next();
        for i in 0..BATCH {
            assert_eq!(batches.outcome(i), self.expected, "{} {i}", self.name);
        }
        batches.at = 0;
        batches
    }
}

/// A zone without signatures, one with NSEC and one with NSEC3.
fn serving_all(key: &HashKey) -> Arc<Engine<Zones>> {
    let zones = [("plain.", None), ("nsec.", Some(Chain::Nsec)), ("nsec3.", Some(Chain::NSEC3))];
    serving(key, zones.map(|(apex, chain)| zone(key, apex, chain)))
}

fn serving<const N: usize>(key: &HashKey, zones: [Zone; N]) -> Arc<Engine<Zones>> {
    let changes = zones.map(|zone| Change::Serve(Arc::new(zone)));
    let catalog = Catalog::new(key).with(changes).expect("zones of one key");
    // As the server is configured by default.
    let config = Config { rotate_addresses: true, ..Config::default() };
    Arc::new(Engine::new(Zones::new(Arc::new(catalog)), Sources::default(), config))
}

/// Queries answered batch by batch, over and over.
struct Batches {
    worker: Worker<Zones>,
    batches: Vec<Packets>,
    at: usize,
}

impl Batches {
    fn new(engine: &Arc<Engine<Zones>>, room: usize, queries: &[Vec<u8>]) -> Self {
        let account = Arc::new(WorkerState::new(Waker::noop().clone()));
        let batch = |queries: &[Vec<u8>]| {
            let mut packets = Packets::new(Transport::Udp, room);
            queries.iter().for_each(|query| packets.push(query));
            packets
        };
        let batches = queries.chunks_exact(BATCH).map(batch).collect();
        Batches { worker: Worker::new(Arc::clone(engine), account), batches, at: 0 }
    }

    /// Answers the next batch and returns the bytes of its last reply.
    fn next(&mut self) -> usize {
        let batch = black_box(&mut self.batches[self.at]);
        batch.ask(&mut self.worker);
        let len = batch.reply(BATCH - 1).map_or(0, <[u8]>::len);
        self.at = (self.at + 1) % self.batches.len();
        black_box(len)
    }

    /// Rcode, answers and authority records of a reply of the first batch.
    fn outcome(&self, i: usize) -> (Rcode, u16, u16) {
        let header = Header::of(self.batches[0].reply(i).expect("a reply")).expect("a header");
        assert!(header.is_response() && !header.truncated());
        let [_, answers, authorities, _] = header.counts();
        (header.rcode(), answers, authorities)
    }
}

/// Pieces that ask a zone of `names` delegations for names it has, in no order, and for names it has not: not
/// for counting instructions, which the size hardly changes, but for counting misses of the cache.
pub fn large(names: u64) -> Vec<Piece> {
    let key = crate::key();
    let apex = name("com.");
    let mut builder = zone::ZoneBuilder::new(apex.as_name(), &key);
    // Three records for each delegation, nearly.
    for record in Tld::new(apex, names * 5 / 2) {
        builder.add(record.owner.as_name(), record.rtype, record.ttl, &record.rdata).expect("a record");
    }
    let engine = serving(&key, [builder.finish().expect("a zone")]);
    // A walk over the names that no cache line predicts.
    let pick = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % names;
    let below =
        |label: &[u8], i: u64| NameBuf::prepend(label, Tld::name(apex, pick(i)).as_name()).expect("a name");
    let referrals = |i: u64| below(b"www", i);
    let absent = |i: u64| name(&format!("0{}.com.", pick(i)));
    let asks: [(&str, &dyn Fn(u64) -> NameBuf); 2] = [("referral", &referrals), ("nxdomain", &absent)];
    let one = |(kind, qname): (&str, &dyn Fn(u64) -> NameBuf)| {
        // Many batches: what one leaves in the cache must not help the next.
        let all = 0..BATCH as u64 * 512;
        let queries: Vec<_> = all.map(|i| query(qname(i).as_name(), Type::A, Some((false, b"")))).collect();
        let mut batches = Batches::new(&engine, ROOM, &queries);
        Piece::new(format!("answer/{kind}/{names}-names"), move || batches.next())
    };
    asks.map(one).into()
}
