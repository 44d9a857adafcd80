//! Sources other than authority: answers that come later and answers of many messages, and what the line
//! does around them.

use std::sync::{Arc, Mutex};

use engine::{
    Asked, Config, Engine, MessageStream, Next, Packet, Responder, Source, Sourced, Stats, Ticket, Transport,
    Verdict, Worker,
};
use wire::edns::{Edns, OptionCode};
use wire::hash::HashKey;
use wire::message::{Builder, Header, Offset, Owner, Parser, Section};
use wire::{Class, NameBuf, Rcode, Type};
use zone::catalog::Catalog;

/// Keeps tickets for the test to resume, or streams three messages to questions of type TXT.
#[derive(Default)]
struct Scripted {
    tickets: Mutex<Vec<Ticket>>,
}

struct Three(u8);

impl MessageStream for Three {
    fn next(&mut self, out: &mut [u8]) -> Next {
        let Some(left) = self.0.checked_sub(1) else { return Next::End };
        self.0 = left;
        out[0] = left;
        Next::Message(1)
    }
}

impl Source for Scripted {
    fn answer(&self, asked: &Asked<'_>, b: &mut Builder<'_>, ticket: &mut dyn FnMut() -> Ticket) -> Sourced {
        match asked.qtype {
            Type::TXT => Sourced::Stream(Box::new(Three(3))),
            Type::A => {
                self.tickets.lock().expect("lock").push(ticket());
                Sourced::Pending
            }
            _ => {
                b.set_rcode(Rcode::NXDOMAIN);
                Sourced::Ready
            }
        }
    }
}

/// Sends whatever the client would get into a shared list.
struct Mailbox(Arc<Mutex<Vec<Vec<u8>>>>);

impl Responder for Mailbox {
    fn send(self: Box<Self>, message: &[u8]) {
        self.0.lock().expect("lock").push(message.to_vec());
    }
}

struct Rig {
    worker: Worker,
    source: Arc<Scripted>,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Rig {
    fn new(with_source: bool) -> Rig {
        let key = HashKey::new([1, 2, 3]);
        let source = Arc::new(Scripted::default());
        let fallback: Option<Arc<dyn Source>> = if with_source { Some(source.clone()) } else { None };
        let config = Config { nsid: b"test".as_slice().into(), ..Config::default() };
        let engine = Engine::new(key, Arc::new(Catalog::new(&key)), config, fallback);
        let worker = Worker::new(Arc::new(engine), Arc::new(Stats::default()));
        Rig { worker, source, sent: Arc::default() }
    }

    fn ask(&mut self, octets: &[u8]) -> (Verdict, Vec<u8>) {
        let peer = "127.0.0.1:5353".parse().expect("address");
        let packet = Packet { octets, peer, transport: Transport::Udp };
        let mut out = vec![0; 4096];
        self.worker.begin();
        self.worker.prepare(0, &packet);
        self.worker.route(1);
        let sent = Arc::clone(&self.sent);
        let verdict = self.worker.answer(0, &packet, &mut out, &mut || Box::new(Mailbox(Arc::clone(&sent))));
        if let Verdict::Reply(len) = verdict {
            out.truncate(len);
        }
        (verdict, out)
    }
}

fn query(name: &str, qtype: Type, opt: &[u8]) -> Vec<u8> {
    let name: NameBuf = name.parse().expect("name");
    let mut header = Header::query(0x1234);
    header.set_recursion_desired(true);
    header.set_counts([1, 0, 0, !opt.is_empty() as u16]);
    let mut packet = header.as_bytes().to_vec();
    packet.extend_from_slice(name.as_name().as_wire());
    packet.extend_from_slice(&qtype.0.to_be_bytes());
    packet.extend_from_slice(&Class::IN.0.to_be_bytes());
    packet.extend_from_slice(opt);
    packet
}

/// OPT with NSID asked for and a size of 4096.
const OPT_NSID: &[u8] = b"\0\0\x29\x10\0\0\0\x80\0\0\x04\0\x03\0\0";

#[test]
fn an_answer_that_comes_later_is_framed_like_one_that_comes_at_once() {
    let mut rig = Rig::new(true);
    let (verdict, _) = rig.ask(&query("WwW.example.", Type::A, OPT_NSID));
    assert!(matches!(verdict, Verdict::Pending));
    assert!(rig.sent.lock().expect("lock").is_empty());
    let ticket = rig.source.tickets.lock().expect("lock").pop().expect("a ticket");
    assert_eq!(ticket.qname().to_string(), "WwW.example.");
    let resumed = std::thread::spawn(move || {
        ticket.resume(|b| {
            b.record(
                Section::Answer,
                Owner::At(Offset::QNAME),
                Type::A,
                Class::IN,
                wire::Ttl::from_secs(30),
                &[192, 0, 2, 1],
            )
            .expect("fits");
        });
    });
    resumed.join().expect("resumed");
    let sent = rig.sent.lock().expect("lock");
    let (header, mut parser) = Parser::new(&sent[0]).expect("header");
    assert!(header.is_response() && header.recursion_desired());
    assert_eq!((header.id(), header.counts()), (0x1234, [1, 1, 0, 1]));
    assert_eq!(parser.question().expect("question").name.to_string(), "WwW.example.");
    parser.record().expect("A");
    let opt = parser.record().expect("OPT");
    let edns = Edns::parse(&sent[0], &opt).expect("OPT");
    assert_eq!((edns.udp_size, edns.dnssec_ok), (1232, true));
    assert_eq!(edns.option(OptionCode::NSID), Some(b"test".as_slice()));
}

#[test]
fn a_stream_is_handed_to_the_transport() {
    let (verdict, _) = Rig::new(true).ask(&query("example.", Type::TXT, b""));
    let Verdict::Stream(mut messages) = verdict else { panic!("not a stream") };
    let mut out = [0; 4];
    let next = [(); 4].map(|()| messages.next(&mut out));
    assert_eq!(next, [Next::Message(1), Next::Message(1), Next::Message(1), Next::End]);
}

#[test]
fn without_a_zone_or_a_source_the_query_is_refused_and_told_why() {
    let (_, reply) = Rig::new(false).ask(&query("example.", Type::A, OPT_NSID));
    let (header, mut parser) = Parser::new(&reply).expect("header");
    assert_eq!((header.rcode(), header.counts()), (Rcode::REFUSED, [1, 0, 0, 1]));
    parser.question().expect("question");
    let opt = parser.record().expect("OPT");
    let edns = Edns::parse(&reply, &opt).expect("OPT");
    assert_eq!(edns.option(OptionCode::EXTENDED_ERROR), Some(b"\0\x14".as_slice()));
}

#[test]
fn faults_get_the_code_they_deserve() {
    let mut rig = Rig::new(true);
    let mut rcode = |packet: &[u8]| match rig.ask(packet) {
        (Verdict::Reply(_), reply) => {
            let (header, _) = Parser::new(&reply).expect("header");
            assert!(header.is_response());
            Some(header.rcode())
        }
        (Verdict::Drop, _) => None,
        _ => panic!("neither reply nor silence"),
    };
    assert_eq!(rcode(b"short"), None);
    let mut response = query("example.", Type::A, b"");
    response[2] |= 0x80;
    assert_eq!(rcode(&response), None, "a response is never answered");
    let mut update = query("example.", Type::SOA, b"");
    update[2] |= 5 << 3;
    assert_eq!(rcode(&update), Some(Rcode::NOTIMP));
    assert_eq!(rcode(&query("example.", Type::AXFR, b"")), Some(Rcode::REFUSED));
    assert_eq!(rcode(&query("example.", Type::A, b"\0\0\x29")), Some(Rcode::FORMERR));
    let badvers = query("example.", Type::A, b"\0\0\x29\x10\0\0\x01\0\0\0\0");
    assert_eq!(rcode(&badvers), Some(Rcode::NOERROR), "the upper bits are in OPT");
    let (_, reply) = rig.ask(&badvers);
    assert_eq!(reply[reply.len() - 6], 1, "BADVERS is 16");
}

#[test]
fn counters_follow_what_was_answered() {
    let mut rig = Rig::new(true);
    rig.ask(&query("example.", Type::MX, OPT_NSID));
    rig.ask(&query("example.", Type::A, b""));
    let stats = rig.worker.stats();
    let udp = Transport::Udp as usize;
    assert_eq!(stats.queries[udp][Type::MX.0 as usize].get(), 1);
    assert_eq!(stats.replies[udp][Rcode::NXDOMAIN.0 as usize].get(), 1);
    assert_eq!((stats.pending.get(), stats.dnssec_ok.get(), stats.dropped.get()), (1, 1, 0));
}

#[test]
fn a_signature_by_an_unknown_key_is_refused_with_badkey() {
    // owner "k.", HMAC-SHA256, time, fudge 300, a MAC of four octets, original ID, no error, no other data
    let mut tsig = b"\x01k\0\0\xfa\0\xff\0\0\0\0\0\x21".to_vec();
    tsig.extend(b"\x0bhmac-sha256\0\0\0\x65\0\0\0\x01\x2c\0\x04abcd\x12\x34\0\0\0\0");
    let (_, reply) = Rig::new(true).ask(&query("example.", Type::A, &tsig));
    let (header, mut parser) = Parser::new(&reply).expect("header");
    assert_eq!((header.rcode(), header.counts()), (Rcode::NOTAUTH, [1, 0, 0, 1]));
    parser.question().expect("question");
    let record = parser.record().expect("TSIG");
    assert_eq!((record.rtype, record.class, record.ttl()), (Type::TSIG, Class::ANY, wire::Ttl::ZERO));
    let rdata = &reply[record.rdata.clone()];
    assert_eq!(&rdata[13..], b"\0\0\x65\0\0\0\x01\x2c\0\0\x12\x34\0\x11\0\0");
}
