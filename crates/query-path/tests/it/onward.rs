//! Queries that memory does not answer in full: a chain of aliases that leaves memory, an answer that is gone
//! when it is needed, and which clients may recurse.

use std::sync::Arc;
use std::task::Waker;

use query_path::{
    Asked, Both, Engine, EngineConfig, LookupKey, Memory, MemoryResult, Refusal, Source, Sources, Worker,
    WorkerState, Zones,
};
use transport::{Client, MAX_MESSAGE, Outcome, Packets, Transport};
use wire::hash::{HashKey, HashedName};
use wire::message::{Builder, Header, Offset, Owner, Section};
use wire::{Class, NameBuf, Rcode, Ttl, Type};
use zone::catalog::Catalog;

use crate::support::{Scripted, query, said};

/// Holds an alias for every TXT query, and finds but does not answer any other query.
#[derive(Clone)]
struct Half {
    key: HashKey,
    /// Offers recursion to all.
    offers: bool,
}

impl Memory for Half {
    type Location = ();
    type Scratch = HashedName;

    const PASSES: usize = 0;

    fn key(&self) -> &HashKey {
        &self.key
    }

    fn offers_recursion(&self, client: impl FnOnce() -> Client) -> bool {
        self.offers && client().peer.ip().is_loopback()
    }

    fn prefetch_find(&self, _: &HashedName) {}

    fn find(&self, _: &LookupKey<'_>) -> Option<()> {
        Some(())
    }

    fn prefetch(&self, _: usize, (): &mut (), _: &HashedName) -> bool {
        false
    }

    fn answer<'s>(
        &self,
        (): &(),
        asked: &Asked<'_>,
        b: &mut Builder<'_>,
        scratch: &'s mut HashedName,
    ) -> Result<MemoryResult<'s>, Refusal> {
        let target: NameBuf = "target.".parse().expect("a name");
        let (at, ttl, rdata) = (Owner::At(Offset::QNAME), Ttl::from_secs(60), target.as_name().as_wire());
        b.record(Section::Answer, at, Type::CNAME, Class::IN, ttl, rdata).expect("it fits");
        b.flags(|header| header.set_authoritative(true));
        if asked.question.qtype != Type::TXT {
            return Ok(MemoryResult::Nothing);
        }
        scratch.set(&self.key, target.as_name());
        Ok(MemoryResult::LeadsTo(scratch))
    }
}

/// Returns a worker of an engine with such data.
fn worker(offers: bool, elsewhere: Option<Arc<dyn Source>>) -> Worker<Both<Zones, Half>> {
    let key = HashKey::new([1, 2, 3]);
    let first = Zones::new(Arc::new(Catalog::new(&key)));
    let memory = Both { first, then: Half { key, offers } };
    let engine = Engine::new(memory, Sources { elsewhere, ..Sources::default() }, EngineConfig::default());
    Worker::new(Arc::new(engine), Arc::new(WorkerState::new(Waker::noop().clone())))
}

/// Returns the reply of an engine with such data.
fn ask(offers: bool, sources: bool, query: &[u8]) -> Vec<u8> {
    let elsewhere: Option<Arc<dyn Source>> = match sources {
        true => Some(Arc::new(Scripted::default())),
        false => None,
    };
    let mut worker = worker(offers, elsewhere);
    let mut packets = Packets::new(Transport::Udp, MAX_MESSAGE);
    packets.push(query);
    packets.ask(&mut worker);
    packets.reply(0).expect("a reply").to_vec()
}

fn header(reply: &[u8]) -> Header {
    Header::of(reply).expect("a header")
}

#[test]
fn a_chain_goes_on_for_clients_who_want_that_and_may() {
    let wanted = query("alias.", Type::TXT, b"");
    let answers = |offers, sources, query: &[u8]| said(&ask(offers, sources, query)).answers;
    assert_eq!(answers(true, true, &wanted), 2, "the link and what it leads to");
    assert_eq!(answers(false, true, &wanted), 1, "this client may not");
    assert_eq!(answers(true, false, &wanted), 1, "no source goes on");
    let mut unwanted = wanted.clone();
    unwanted[2] &= !1;
    assert_eq!(answers(true, true, &unwanted), 1, "RD is clear");
}

#[test]
fn an_answer_that_is_gone_when_it_is_wanted_is_asked_for_elsewhere() {
    let reply = ask(true, true, &query("gone.", Type::A, b""));
    assert_eq!(said(&reply).answers, 3, "the source's, without the link that memory had written");
    assert!(!header(&reply).authoritative(), "nor its flag");
    let alone = said(&ask(true, false, &query("gone.", Type::A, b"")));
    assert_eq!((alone.rcode, alone.answers), (Rcode::REFUSED, 0));
}

#[test]
fn ra_is_for_those_who_may_have_others_asked() {
    for qtype in [Type::A, Type::TXT, Type::AXFR] {
        let available = |offers| header(&ask(offers, true, &query("a.", qtype, b""))).recursion_available();
        assert!(available(true) && !available(false), "{qtype}");
    }
}

#[test]
fn cd_is_repeated_to_those_who_may_even_in_refusals() {
    let mut unchecked = query("a.", Type::AXFR, b"");
    unchecked[3] |= 0x10;
    let repeated = |offers, query: &[u8]| header(&ask(offers, false, query)).checking_disabled();
    assert!(repeated(true, &unchecked) && !repeated(false, &unchecked));
    assert!(!repeated(true, &query("a.", Type::AXFR, b"")));
}

/// Answers from memory leave with the batch; queries that need other servers are answered afterwards, in
/// their order.
#[test]
fn of_a_batch_that_may_be_put_off_memory_answers_first() {
    let source = Arc::new(Scripted::default());
    let mut worker = worker(true, Some(source.clone()));
    let mut batch = Packets::new(Transport::Udp, MAX_MESSAGE).let_put_off();
    let mut unwanted = query("gone.", Type::A, b"");
    unwanted[2] &= !1;
    let (later, at_once) = (query("later.", Type::AAAA, b""), query("gone.", Type::A, b""));
    for query in [&later, &query("alias.", Type::TXT, b""), &at_once, &unwanted, &at_once] {
        batch.push(query);
    }
    batch.ask(&mut worker);
    let outcomes: Vec<_> = (0..5).map(|i| batch.take_outcome(i)).collect();
    let pending = |i: usize| matches!(outcomes[i], Some(Outcome::Pending));
    assert_eq!([0, 1, 2, 3, 4].map(pending), [true, false, true, false, true], "{outcomes:?}");
    assert_eq!(worker.stats().pending.get(), 0, "no ticket is taken yet");
    let resumed = batch.resume(&mut worker);
    assert_eq!(resumed.len(), 2, "{resumed:?}");
    assert!(resumed.iter().all(|late| late.message == ask(true, true, &at_once)));
    assert_eq!(worker.stats().pending.get(), 1);
    let read: u64 = worker.stats().queries.iter().flatten().map(|counter| counter.get()).sum();
    assert_eq!(read, 5, "each is counted once");
    source.responder().resume(|_| Ok(None));
    assert_eq!(batch.late(&mut worker).len(), 1);
    assert!(batch.resume(&mut worker).is_empty());
}

#[test]
fn only_so_many_queries_are_put_off() {
    let mut worker = worker(true, Some(Arc::new(Scripted::default())));
    let mut batch = Packets::new(Transport::Udp, 512).let_put_off();
    let at_once = query("gone.", Type::A, b"");
    (0..1500).for_each(|_| batch.push(&at_once));
    batch.ask(&mut worker);
    let answered = (0..1500).filter(|&i| batch.reply(i).is_some()).count();
    assert_eq!(answered, 1500 - 1024, "the others are answered as they come");
    assert_eq!(batch.resume(&mut worker).len(), 1024);
}
