//! An engine with zones, and the reference that its replies are compared with. The fuzz target `engine`
//! uses it too.

use std::sync::Arc;
use std::task::Waker;

use query_path::{Engine, EngineConfig, Identity, Sources, Worker, WorkerState, Zones};
use testkit::answers::ModelZones;
use testkit::model::ModelZone;
use testkit::packets::PacketBatch;
use testkit::reference::Reference;
use testkit::{ModelRecord, key, name};
use transport::{MAX_MESSAGE, Outcome, Packets, Transport};
use wire::NameBuf;
use zone::catalog::{Catalog, Change};

/// A zone of the world.
pub(crate) struct Land {
    pub(crate) apex: NameBuf,
    pub(crate) records: Vec<ModelRecord>,
    /// Whether it can be served.
    pub(crate) loaded: bool,
}

pub(crate) struct World {
    reference: Reference,
    /// Names for queries.
    pub(crate) names: Vec<NameBuf>,
    /// Answers one batch after the other.
    worker: Worker<Zones>,
    /// Answers one packet after the other.
    lone: Worker<Zones>,
}

/// Prints which packet it was, if the test fails meanwhile.
struct Context<'c>(usize, &'c [u8]);

impl Drop for Context<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Context(number, packet) = self;
            eprintln!("packet {number}: {}", packet.escape_ascii());
        }
    }
}

fn worker(engine: &Arc<Engine<Zones>>) -> Worker<Zones> {
    Worker::new(Arc::clone(engine), Arc::new(WorkerState::new(Waker::noop().clone())))
}

impl World {
    pub(crate) fn new(lands: &[Land]) -> Self {
        let change = |land: &Land| match land.loaded {
            true => Change::Serve(testkit::build(land.apex.as_name(), &key(), &land.records).into()),
            false => Change::Unload(Box::new(land.apex)),
        };
        let catalog = Catalog::new(&key()).with(lands.iter().map(change)).expect("zones of one key");
        let model = |land: &Land| ModelZone::new(land.apex.as_name(), &land.records);
        let (loaded, unloaded): (Vec<&Land>, Vec<&Land>) = lands.iter().partition(|land| land.loaded);
        let unloaded = unloaded.iter().map(|land| land.apex).collect();
        let zones = loaded.into_iter().map(model).collect();
        let reference = Reference {
            served: ModelZones { zones, unloaded, max_chain: 16 },
            max_udp_size: 1232,
            nsid: b"ns1.example".to_vec(),
            keepalive: 300,
            // More than a datagram without EDNS holds.
            version: Some(vec![b'v'; 600]),
            id: Some(b"one".to_vec()),
            // Inside some of the zones and outside others.
            agent: Some(name("er.example.com.")),
        };
        let text = |text: &Option<Vec<u8>>| text.as_deref().map(Into::into);
        let config = EngineConfig {
            rotate_addresses: false,
            max_udp_size: reference.max_udp_size,
            nsid: reference.nsid.as_slice().into(),
            keepalive: reference.keepalive,
            identity: Identity { version: text(&reference.version), id: text(&reference.id) },
            report_channel: reference.agent,
            ..EngineConfig::default()
        };
        let engine = Arc::new(Engine::new(Zones::new(Arc::new(catalog)), Sources::default(), config));
        let mut names: Vec<NameBuf> = lands.iter().flat_map(|land| model(land).all()).collect();
        names.extend(["elsewhere.", "host.elsewhere.net.", "a.b.c.d.e.f.example.com."].map(name));
        World { worker: worker(&engine), lone: worker(&engine), reference, names }
    }

    /// Answers a batch, and compares each reply with the reference: the result for a packet, one reply or
    /// silence, depends on the packet alone.
    ///
    /// # Panics
    /// If a reply differs from the reference.
    pub(crate) fn hold(&mut self, batch: &PacketBatch) {
        let transport = if batch.stream { Transport::Tcp } else { Transport::Udp };
        let mut packets = Packets::new(transport, batch.room);
        let counted = self.counted();
        let replies = ask(&mut self.worker, &mut packets, batch.packets.iter());
        assert_eq!(self.counted() - counted, batch.packets.len() as u64, "replies and packets dropped");
        // In reverse order, into buffers that hold earlier replies.
        let mut again = ask(&mut self.worker, &mut packets, batch.packets.iter().rev());
        again.reverse();
        let mut whole = Packets::new(Transport::Tcp, MAX_MESSAGE);
        let mut alone = Packets::new(transport, batch.room);
        for (i, packet) in batch.packets.iter().enumerate() {
            let _context = Context(i, packet);
            let reply = replies[i].as_deref();
            assert!(again[i] == replies[i], "the reply hangs on the order of the batch");
            let alone = ask(&mut self.lone, &mut alone, [packet].into_iter()).remove(0);
            assert!(alone == replies[i], "the reply hangs on the batch");
            match batch.stream {
                true => self.reference.check(packet, reply),
                false => {
                    let whole = ask(&mut self.lone, &mut whole, [packet].into_iter()).remove(0);
                    self.reference.check_datagram(packet, batch.room, reply, whole.as_deref());
                }
            }
        }
    }

    /// Packets that the worker has replied to or dropped, as it counts them.
    fn counted(&self) -> u64 {
        let stats = self.worker.stats();
        let replies = stats.replies.iter().flatten().map(transport::Counter::get);
        replies.sum::<u64>() + stats.dropped.get()
    }
}

/// The replies to a batch, in the order of its packets.
fn ask<'p>(
    worker: &mut Worker<Zones>,
    packets: &mut Packets,
    batch: impl Iterator<Item = &'p Vec<u8>>,
) -> Vec<Option<Vec<u8>>> {
    packets.clear();
    batch.for_each(|packet| packets.push(packet));
    packets.ask(worker);
    let count = packets.len();
    let reply = |i| {
        let reply = packets.reply(i).map(<[u8]>::to_vec);
        match (packets.take_outcome(i), &reply) {
            (Some(Outcome::Reply(1..)), Some(_)) | (Some(Outcome::Drop), None) => reply,
            (outcome, _) => panic!("packet {i}: {outcome:?}"),
        }
    };
    (0..count).map(reply).collect()
}
