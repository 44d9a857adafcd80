//! Sources beyond memory that answer at once or as streams, and the parts that every reply has.

use query_path::stats::RCODES;
use transport::{Next, Outcome, Transport};
use wire::edns::{Edns, OptionCode};
use wire::message::{Header, Parser};
use wire::{Class, Opcode, Rcode, Type};

use crate::support::{OPT_NSID, Rig, Said, message, query, rig, said};

const PLAIN: Said = Said { rcode: Rcode::NOERROR, truncated: false, answers: 0, error: None };

#[test]
fn an_answer_at_once_may_carry_an_extended_error() {
    let reply = Rig::new().ask(&query("example.", Type::A, OPT_NSID)).expect("a reply");
    assert_eq!(said(&reply), Said { answers: 3, error: Some(3), ..PLAIN });
    let (_, mut parser) = Parser::new(&reply).expect("header");
    parser.question().expect("question");
    (0..3).for_each(|_| assert!(parser.record().is_ok()));
    let opt = parser.record().expect("OPT");
    let edns = Edns::parse(&reply, &opt).expect("OPT");
    assert_eq!((edns.udp_size, edns.dnssec_ok), (1232, true));
    assert_eq!(edns.option(OptionCode::NSID), Some(b"test".as_slice()));
}

#[test]
fn what_a_refusing_source_wrote_does_not_count() {
    let reply = Rig::new().ask(&query("example.", Type::MX, OPT_NSID)).expect("a reply");
    assert_eq!(said(&reply), Said { rcode: Rcode::SERVFAIL, error: Some(14), ..PLAIN });
}

#[test]
fn what_does_not_fit_is_cut_to_the_question() {
    let mut rig = Rig::new();
    let reply = rig.ask(&query("example.", Type::SRV, OPT_NSID)).expect("a reply");
    assert_eq!(said(&reply), Said { truncated: true, ..PLAIN });
    assert_eq!(rig.worker.stats().truncated.get(), 1);
    let whole = rig.ask_by(Transport::Tcp, &query("example.", Type::SRV, OPT_NSID)).expect("a reply");
    assert_eq!(said(&whole).answers, 200);
}

#[test]
fn a_stream_is_handed_to_the_transport() {
    let mut rig = Rig::new();
    let Err(Outcome::Stream(mut messages)) = rig.ask_by(Transport::Tcp, &query("example.", Type::TXT, b""))
    else {
        panic!("not a stream")
    };
    let mut out = [0; 4];
    let next = [(); 4].map(|()| messages.next(&mut out));
    assert_eq!(next, [Next::Message(1), Next::Message(1), Next::Message(1), Next::End]);
    assert_eq!(rig.worker.stats().streams.get(), 1);
}

#[test]
fn without_a_zone_or_a_source_the_query_is_refused_and_told_why() {
    let reply = rig(false).ask(&query("example.", Type::A, OPT_NSID)).expect("a reply");
    assert_eq!(said(&reply), Said { rcode: Rcode::REFUSED, error: Some(20), ..PLAIN });
}

#[test]
fn the_question_comes_back_byte_by_byte() {
    let asked = query("WwW.eXample.", Type::A, b"");
    let reply = Rig::new().ask(&asked).expect("a reply");
    assert_eq!(reply[12..asked.len()], asked[12..]);
    assert!(Header::of(&reply).expect("header").recursion_desired());
}

#[test]
fn counters_and_log_follow_what_was_answered() {
    let mut rig = Rig::new();
    let [dropped, refused, named] =
        [b"no header".to_vec(), query("a.", Type::MX, OPT_NSID), query("b.", Type::NS, b"")];
    assert!(matches!(rig.ask(&dropped), Err(Outcome::Drop)));
    let refused = rig.ask(&refused).expect("a reply");
    let named = rig.ask_by(Transport::Tcp, &named).expect("a reply");
    let stats = rig.worker.stats();
    let [udp, tcp] = [Transport::Udp, Transport::Tcp].map(Transport::index);
    assert_eq!(stats.queries[udp][Type::MX.0 as usize].get(), 1);
    assert_eq!(stats.queries[tcp][Type::NS.0 as usize].get(), 1);
    assert_eq!(stats.replies[udp][Rcode::SERVFAIL.0 as usize].get(), 1);
    assert_eq!(stats.replies[tcp][Rcode::NXDOMAIN.0 as usize].get(), 1);
    assert_eq!((0..RCODES).map(|r| stats.replies[udp][r].get()).sum::<u64>(), 1);
    assert_eq!((stats.dnssec_ok.get(), stats.dropped.get()), (1, 1));
    assert_eq!(stats.bytes_out[udp].get(), refused.len() as u64);
    let lines = [format!("udp a. SERVFAIL {} 14", refused.len()), format!("tcp b. NXDOMAIN {}", named.len())];
    assert_eq!(rig.log.replies(), lines);
}

#[test]
fn a_query_is_logged_as_what_it_is_answered() {
    let mut rig = Rig::new();
    let stream = query("example.", Type::TXT, b"");
    assert!(matches!(rig.ask_by(Transport::Tcp, &stream), Err(Outcome::Stream(_))));
    let update = message(Opcode::UPDATE, "a.", (Type::SOA, Class::IN), b"");
    rig.ask(&update).expect("a reply");
    let chaos = message(Opcode::QUERY, "id.server.", (Type::TXT, Class::CH), b"");
    rig.ask(&chaos).expect("a reply");
    let mut malformed = query("a.", Type::A, b"");
    malformed.push(0);
    rig.ask(&malformed).expect("a reply");
    let lines = [
        format!("tcp example. recursion - {}", stream.len()),
        format!("udp a. authority - {}", update.len()),
        format!("udp id.server. authority - {}", chaos.len()),
        format!("udp a. authority - {}", malformed.len()),
    ];
    assert_eq!(rig.log.queries(), lines);
    assert_eq!(rig.log.replies().len(), 3, "a stream has no reply");
    // Without a source beyond the zones, the query is refused.
    let mut rig = self::rig(false);
    rig.ask(&query("a.", Type::A, b"")).expect("a reply");
    assert!(rig.log.queries()[0].starts_with("udp a. authority -"), "{:?}", rig.log.queries());
}
