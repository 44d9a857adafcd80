//! A new transport is one line in `transport`, a new kind of data in memory one type here: no other code
//! changes. The transport is `Pigeon`, which is compiled in for this test alone; the data are [`Attic`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Waker;

use query_path::{
    Asked, Both, Engine, EngineConfig, LookupKey, Memory, MemoryResult, Refusal, Sources, Worker,
    WorkerState, Zones,
};
use transport::{Packets, Transport};
use wire::hash::{HashKey, HashedName};
use wire::message::{Builder, Header, Offset, Owner, Section};
use wire::{Class, NameBuf, Rcode, Ttl, Type};
use zone::catalog::{Catalog, Change};
use zone::store::ZoneBuilder;

/// Answers TXT queries for one name, `old.attic.`.
#[derive(Clone)]
struct Attic {
    key: HashKey,
    name: NameBuf,
    /// Calls of `prefetch_find`, and of `prefetch` by pass.
    prefetched: Arc<[AtomicUsize; 3]>,
}

impl Memory for Attic {
    type Location = ();
    type Scratch = ();

    const PASSES: usize = 2;

    fn key(&self) -> &HashKey {
        &self.key
    }

    fn prefetch_find(&self, _: &HashedName) {
        self.prefetched[0].fetch_add(1, Relaxed);
    }

    fn find(&self, lookup_key: &LookupKey<'_>) -> Option<()> {
        (lookup_key.qname.as_lower().as_name() == self.name.as_name()).then_some(())
    }

    fn prefetch(&self, pass: usize, (): &mut (), _: &HashedName) -> bool {
        self.prefetched[pass + 1].fetch_add(1, Relaxed);
        pass + 1 < Self::PASSES
    }

    fn answer<'s>(
        &self,
        (): &(),
        asked: &Asked<'_>,
        b: &mut Builder<'_>,
        (): &'s mut (),
    ) -> Result<MemoryResult<'s>, Refusal> {
        assert!(asked.client.peer.ip().is_loopback() && asked.name() == self.name.as_name());
        let (at, ttl) = (Owner::At(Offset::QNAME), Ttl::from_secs(60));
        b.record(Section::Answer, at, Type::TXT, Class::IN, ttl, b"\x04dust").expect("it fits");
        Ok(MemoryResult::Answer(None))
    }
}

fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

fn zones(key: &HashKey) -> Zones {
    let apex = name("zone.");
    let mut builder = ZoneBuilder::new(apex.as_name(), key);
    builder.add(apex.as_name(), Type::SOA, Ttl::from_secs(60), &[0; 22]).expect("a record");
    builder.add(name("www.zone.").as_name(), Type::A, Ttl::from_secs(60), &[192, 0, 2, 1]).expect("a record");
    let zone = Arc::new(builder.finish().expect("a zone"));
    Zones::new(Arc::new(Catalog::new(key).with([Change::Serve(zone)]).expect("a zone of this key")))
}

fn query(qname: &str, qtype: Type) -> Vec<u8> {
    let mut header = Header::query(7);
    header.set_counts([1, 0, 0, 0]);
    [header.as_bytes().as_slice(), name(qname).as_name().as_wire(), &qtype.0.to_be_bytes(), &[0, 1]].concat()
}

#[test]
fn a_third_source_and_a_third_transport_work_with_everything_there_is() {
    let key = HashKey::new([1, 2, 3]);
    let attic = Attic { key, name: name("old.attic."), prefetched: Arc::default() };
    let memory = Both { first: zones(&key), then: attic.clone() };
    let engine = Engine::new(memory, Sources::default(), EngineConfig::default());
    let account = Arc::new(WorkerState::new(Waker::noop().clone()));
    let mut worker = Worker::new(Arc::new(engine), account);
    let asks = [("www.zone.", Type::A), ("old.attic.", Type::TXT), ("elsewhere.", Type::A)];
    for &transport in Transport::ALL {
        let mut packets = Packets::new(transport, 4096);
        asks.iter().for_each(|(name, qtype)| packets.push(&query(name, *qtype)));
        packets.ask(&mut worker);
        let said = [0, 1, 2].map(|i| {
            let header = Header::of(packets.reply(i).expect("a reply")).expect("a header");
            (header.rcode(), header.counts()[1])
        });
        assert_eq!(said, [(Rcode::NOERROR, 1), (Rcode::NOERROR, 1), (Rcode::REFUSED, 0)], "{transport}");
        let counted = |qtype: Type| worker.stats().queries[transport.index()][qtype.0 as usize].get();
        assert_eq!((counted(Type::A), counted(Type::TXT)), (2, 1), "{transport}");
    }
    assert!(Transport::ALL.iter().any(|transport| transport.label() == "pigeon"));
    // Every query was prefetched for, and in each pass the one that `Attic` answers.
    let batches = Transport::ALL.len();
    assert_eq!(attic.prefetched.each_ref().map(|n| n.load(Relaxed)), [3 * batches, batches, batches]);
}
