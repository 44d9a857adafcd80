//! Whole answers without the kernel: batches of 64 queries through a worker of the engine, as in the server.

use std::hint::black_box;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use query_path::prefix::PrefixMasks;
use query_path::{BATCH, Engine, EngineConfig, ReplyLimits, Sources, Worker, WorkerState, Zones};
use rate_limits::{PrefixFactors, RateLimit, RateTable};
use testkit::Chain;
use testkit::tld::Tld;
use transport::{Packets, Transport};
use wire::hash::HashKey;
use wire::{Header, NameBuf, Rcode, Type};
use zone::{Catalog, Change, Zone};

use crate::messages::query;
use crate::zones::{changed, zone};
use crate::{Piece, name};

/// Size of the buffer for one reply, in bytes.
const ROOM: usize = 4096;
/// Size of the buffer where misses are counted: replies then begin in every set of the cache, and at every
/// eighth byte of a line.
const COLD_ROOM: usize = 1480;
/// Size of the last cache where misses are counted, in bytes: so small that a zone of a megabyte is large.
pub const COLD_CACHE: usize = 128 << 10;

/// A question and its expected answer: RCODE, and number of records in the answer and authority sections.
struct Kind {
    name: &'static str,
    /// QNAME, with `#` for a number.
    pattern: &'static str,
    qtype: Type,
    /// Whether the query has OPT, and whether it sets DO.
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

/// Questions to a zone with pending changes: for names that did not change, and for one that did.
const CHANGED: [Kind; 5] = [
    kind("changed/exact", "h#.moved.", Type::A, PLAIN, (Rcode::NOERROR, 2, 0)),
    kind("changed/referral", "www.d#.moved.", Type::A, PLAIN, (Rcode::NOERROR, 0, 2)),
    kind("changed/nodata", "h#.moved.", Type::AAAA, PLAIN, (Rcode::NOERROR, 0, 1)),
    kind("changed/nxdomain", "x#.moved.", Type::A, PLAIN, (Rcode::NXDOMAIN, 0, 1)),
    kind("changed/new", "f1#0.moved.", Type::A, PLAIN, (Rcode::NOERROR, 2, 0)),
];

/// Questions of a client that has limits on replies, and is not over them.
const LIMITED: [Kind; 2] = [
    kind("limited/exact", "h#.plain.", Type::A, PLAIN, (Rcode::NOERROR, 2, 0)),
    kind("limited/nxdomain", "x#.plain.", Type::A, PLAIN, (Rcode::NXDOMAIN, 0, 1)),
];

/// Questions where misses are counted: for names that are spread over the zone.
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
    let limited = serving_all(key);
    limited.set_config(EngineConfig { limits: Some(Arc::new(limits())), ..config() });
    let one = |(kind, engine): (&Kind, &Arc<Engine<Zones>>)| {
        // Even numbers: the delegations that have DS.
        let mut batch = kind.batches(engine, ROOM, (0..BATCH).map(|i| i * 14));
        Piece::new(format!("answer/{}", kind.name), move || batch.next())
    };
    let kinds = KINDS.iter().map(|kind| (kind, &engine));
    let changed = CHANGED.iter().map(|kind| (kind, &changed));
    kinds.chain(changed).chain(LIMITED.iter().map(|kind| (kind, &limited))).map(one).collect()
}

/// Returns pieces for counting misses: each answers a batch whose names and data do not fit into a cache of
/// [`COLD_CACHE`] bytes. After its first run, a piece answers so many other batches that its own data is no
/// longer in the cache.
pub fn cold() -> Vec<Piece> {
    let engine = serving_all(&crate::key());
    let one = |kind: &Kind| {
        // Even numbers below a thousand, each once, in scattered order.
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
    /// Returns batches of queries for these numbers. Answers the first, and checks the answers.
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

/// Serves an unsigned zone, one with NSEC and one with NSEC3.
fn serving_all(key: &HashKey) -> Arc<Engine<Zones>> {
    let zones = [("plain.", None), ("nsec.", Some(Chain::Nsec)), ("nsec3.", Some(Chain::NSEC3))];
    serving(key, zones.map(|(apex, chain)| zone(key, apex, chain)))
}

fn serving<const N: usize>(key: &HashKey, zones: [Zone; N]) -> Arc<Engine<Zones>> {
    let changes = zones.map(|zone| Change::Serve(Arc::new(zone)));
    let catalog = Catalog::new(key).with(changes).expect("zones of one key");
    Arc::new(Engine::new(Zones::new(Arc::new(catalog)), Sources::default(), config()))
}

/// The server's defaults, of a client that has no limits.
fn config() -> EngineConfig {
    EngineConfig { rotate_addresses: true, ..EngineConfig::default() }
}

/// The server's default limits on replies but for the rates, which no run reaches, and clients of loopback.
fn limits() -> ReplyLimits {
    let (v4, v6) = (PrefixFactors([2, 16, 48]), PrefixFactors([2, 3, 4]));
    let limit = RateLimit::new(100_000_000, v4, v6, Duration::from_secs(60));
    ReplyLimits {
        table: Arc::new(RateTable::new(2 << 20, [1, 2, 3, 4], Instant::now())),
        limits: [limit; 4],
        short: None,
        slip: 5,
        unit: 256,
        exempt: PrefixMasks::any(&[]),
        recursive: false,
        dry_run: false,
        log: None,
    }
}

/// Queries that are answered batch by batch, in a cycle.
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

    /// Answers the next batch and returns the size of its last reply in bytes.
    fn next(&mut self) -> usize {
        let batch = black_box(&mut self.batches[self.at]);
        batch.ask(&mut self.worker);
        let len = batch.reply(BATCH - 1).map_or(0, <[u8]>::len);
        self.at = (self.at + 1) % self.batches.len();
        black_box(len)
    }

    /// Returns RCODE and the numbers of answer and authority records of a reply of the first batch.
    fn outcome(&self, i: usize) -> (Rcode, u16, u16) {
        let header = Header::of(self.batches[0].reply(i).expect("a reply")).expect("a header");
        assert!(header.is_response() && !header.truncated());
        let [_, answers, authorities, _] = header.counts();
        (header.rcode(), answers, authorities)
    }
}

/// Returns pieces that query a zone of `names` delegations for existing names, in scattered order, and for
/// non-existent ones: for counting cache misses, not instructions, which hardly depend on the size.
pub fn large(names: u64) -> Vec<Piece> {
    let key = crate::key();
    let apex = name("com.");
    let mut builder = zone::ZoneBuilder::new(apex.as_name(), &key);
    // Nearly three records per delegation.
    for record in Tld::new(apex, names * 5 / 2) {
        builder.add(record.owner.as_name(), record.rtype, record.ttl, &record.rdata).expect("a record");
    }
    let engine = serving(&key, [builder.finish().expect("a zone")]);
    // An order of names that the prefetcher cannot predict.
    let pick = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % names;
    let below =
        |label: &[u8], i: u64| NameBuf::prepend(label, Tld::name(apex, pick(i)).as_name()).expect("a name");
    let referrals = |i: u64| below(b"www", i);
    let absent = |i: u64| name(&format!("0{}.com.", pick(i)));
    let asks: [(&str, &dyn Fn(u64) -> NameBuf); 2] = [("referral", &referrals), ("nxdomain", &absent)];
    let one = |(kind, qname): (&str, &dyn Fn(u64) -> NameBuf)| {
        // Many batches, so that one does not profit from the cache contents of another.
        let all = 0..BATCH as u64 * 512;
        let queries: Vec<_> = all.map(|i| query(qname(i).as_name(), Type::A, Some((false, b"")))).collect();
        let mut batches = Batches::new(&engine, ROOM, &queries);
        Piece::new(format!("answer/{kind}/{names}-names"), move || batches.next())
    };
    asks.map(one).into()
}
