//! The query path at speed, for many inputs: packets of all kinds, sent to zones that are made once, signed
//! and unsigned. Each reply can be read, fits, and belongs to its packet; what it has to say is compared by
//! the target `engine`.
//!
//! RFC 1035 §4.1.1 of the ID: "This identifier is copied the corresponding reply and can be used by the
//! requester to match up replies to outstanding queries." RFC 9619 §4: a query has one question at most; its
//! reply repeats it as it was sent.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::Waker;

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use query_path::{Engine, EngineConfig, Sources, Worker, WorkerState, Zones};
use testkit::choices::Choices;
use testkit::model::ModelZone;
use testkit::{key, packets, zones};
use transport::{Outcome, Packets, Transport};
use wire::NameBuf;
use wire::message::{HEADER_LEN, Parser, RawRecord};
use zone::catalog::{Catalog, Change};

/// Worlds of zones that packets are sent to.
const WORLDS: u64 = 32;
/// Bytes that the choices of the zones of a world are made from.
const CHOICES: usize = 1024;

/// Zones, a worker that serves them, and names for queries.
struct World {
    worker: Worker<Zones>,
    names: Vec<NameBuf>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut bytes = [0; CHOICES];
        ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
        let zones = zones::zones(&mut Choices::new(&bytes));
        let serve = |(apex, records): &(NameBuf, Vec<_>)| {
            Change::Serve(testkit::build(apex.as_name(), &key(), records).into())
        };
        let catalog = Catalog::new(&key()).with(zones.iter().map(serve)).expect("zones of one key");
        let config = EngineConfig { nsid: b"ns1.example".as_slice().into(), ..EngineConfig::default() };
        let engine = Arc::new(Engine::new(Zones::new(Arc::new(catalog)), Sources::default(), config));
        let mut names: Vec<NameBuf> =
            zones.iter().flat_map(|(apex, records)| ModelZone::new(apex.as_name(), records).all()).collect();
        names.extend(["elsewhere.", "a.b.c.d.e.f.example.com."].map(testkit::name));
        let state = WorkerState::new(Waker::noop().clone());
        World { worker: Worker::new(engine, Arc::new(state)), names }
    }
}

thread_local! {
    static MADE: RefCell<Vec<World>> = RefCell::new((0..WORLDS).map(World::new).collect());
}

pub(crate) fn run(data: &[u8]) {
    MADE.with_borrow_mut(|worlds| {
        let mut choices = Choices::new(data);
        let world = &mut worlds[usize::from(choices.byte()) % WORLDS as usize];
        let batch = packets::batch(&mut choices, &world.names);
        let transport = if batch.stream { Transport::Tcp } else { Transport::Udp };
        let mut packets = Packets::new(transport, batch.room);
        batch.packets.iter().for_each(|packet| packets.push(packet));
        packets.ask(&mut world.worker);
        for (i, packet) in batch.packets.iter().enumerate() {
            if let Some(reply) = packets.reply(i) {
                check(packet, reply, batch.room);
            }
            let is_replied = packets.reply(i).is_some();
            match (packets.take_outcome(i), is_replied) {
                (Some(Outcome::Reply(1..)), true) | (Some(Outcome::Drop), false) => {}
                (outcome, _) => panic!("packet {i} of {}: {outcome:?}", packet.escape_ascii()),
            }
        }
        super::add_inputs(batch.packets.len() as u64 - 1);
    });
}

/// Checks that a reply can be read, fits, and repeats the ID and the question.
fn check(packet: &[u8], reply: &[u8], room: usize) {
    let shown = || format!("{} after {}", reply.escape_ascii(), packet.escape_ascii());
    assert!(reply.len() <= room && reply[..2] == packet[..2], "{}", shown());
    let (header, mut parser) = Parser::new(reply).expect("a header");
    assert!(header.is_response(), "{}", shown());
    let [questions, answers, authorities, additional] = header.counts();
    assert!(questions <= 1, "{}", shown());
    if questions == 1 {
        parser.question().expect("a question");
        let end = parser.position().index();
        assert!(packet.get(HEADER_LEN..end) == Some(&reply[HEADER_LEN..end]), "{}", shown());
    }
    let mut data = Vec::new();
    for _ in 0..u32::from(answers) + u32::from(authorities) + u32::from(additional) {
        let record: RawRecord = parser.record().unwrap_or_else(|fault| panic!("{fault:?}: {}", shown()));
        let owner = parser.name_at(record.owner_at);
        assert!(owner.is_ok() && parser.expand_rdata(&record, &mut data).is_ok(), "{}", shown());
        data.clear();
    }
    assert!(parser.at_end(), "{}", shown());
}
