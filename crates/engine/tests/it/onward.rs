//! Where memory is not the end: a chain that leads out of it, an answer that is gone when it is wanted, and who may go on.

use std::sync::Arc;
use std::task::Waker;

use engine::{Account, Asked, Both, Config, Engine, Found, Memory, Refusal, Sought, Sources, Worker, Zones};
use exchange::{Client, MAX_MESSAGE, Packets, Transport};
use wire::hash::{HashKey, HashedName};
use wire::message::{Builder, Header, Offset, Owner, Section};
use wire::{Class, NameBuf, Rcode, Ttl, Type};
use zone::catalog::Catalog;

use crate::support::{Scripted, query, said};

/// Holds an alias for every TXT question, and loses what it has found for any other.
#[derive(Clone)]
struct Half {
    key: HashKey,
    /// Offers recursion to all.
    offers: bool,
}

impl Memory for Half {
    type Aim = ();
    type Scratch = HashedName;

    const PASSES: usize = 0;

    fn key(&self) -> &HashKey {
        &self.key
    }

    fn offers_recursion(&self, client: impl FnOnce() -> Client) -> bool {
        self.offers && client().peer.ip().is_loopback()
    }

    fn prefetch_find(&self, _: &HashedName) {}

    fn find(&self, _: &Sought<'_>) -> Option<()> {
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
    ) -> Result<Found<'s>, Refusal> {
        let target: NameBuf = "target.".parse().expect("a name");
        let (at, ttl, rdata) = (Owner::At(Offset::QNAME), Ttl::from_secs(60), target.as_name().as_wire());
        b.record(Section::Answer, at, Type::CNAME, Class::IN, ttl, rdata).expect("it fits");
        b.flags(|header| header.set_authoritative(true));
        if asked.question.qtype != Type::TXT {
            return Ok(Found::Nothing);
        }
        scratch.set(&self.key, target.as_name());
        Ok(Found::LeadsTo(scratch))
    }
}

/// The reply of an engine with such data.
fn ask(offers: bool, sources: bool, query: &[u8]) -> Vec<u8> {
    let key = HashKey::new([1, 2, 3]);
    let first = Zones::new(Arc::new(Catalog::new(&key)));
    let memory = Both { first, then: Half { key, offers } };
    let elsewhere: Option<Arc<dyn engine::Source>> = match sources {
        true => Some(Arc::new(Scripted::default())),
        false => None,
    };
    let engine = Engine::new(memory, Sources { elsewhere, ..Sources::default() }, Config::default());
    let mut worker = Worker::new(Arc::new(engine), Arc::new(Account::new(Waker::noop().clone())));
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
    assert_eq!(answers(true, false, &wanted), 1, "nobody goes on");
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
