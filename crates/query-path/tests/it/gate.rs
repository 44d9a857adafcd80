//! Queries that are refused before any data is read, and their replies.

use transport::{Outcome, Transport};
use wire::message::Parser;
use wire::{Class, Opcode, Rcode, Type};

use crate::support::{OPT_NSID, Rig, Said, message, query, rig, said};

fn refused(rcode: Rcode, error: Option<u16>) -> Said {
    Said { rcode, truncated: false, answers: 0, error }
}

#[test]
fn what_is_no_query_is_met_with_silence() {
    let mut rig = Rig::new();
    assert!(matches!(rig.ask(b"short"), Err(Outcome::Drop)));
    let mut response = query("example.", Type::A, b"");
    response[2] |= 0x80;
    assert!(matches!(rig.ask(&response), Err(Outcome::Drop)), "a response is never answered");
    assert_eq!(rig.worker.stats().dropped.get(), 2);
}

#[test]
fn faults_get_the_code_they_deserve() {
    let mut rig = Rig::new();
    let mut ask = |packet: &[u8]| said(&rig.ask(packet).expect("a reply"));
    assert_eq!(ask(&query("example.", Type::A, b"\0\0\x29")), refused(Rcode::FORMERR, None));
    let badvers = query("example.", Type::A, b"\0\0\x29\x10\0\0\x01\0\0\0\0");
    assert_eq!(ask(&badvers), refused(Rcode::BADVERS, None));
    let hesiod = message(Opcode::QUERY, "example.", (Type::A, Class::HS), OPT_NSID);
    assert_eq!(ask(&hesiod), refused(Rcode::REFUSED, Some(21)));
}

#[test]
fn operations_go_to_their_source_or_are_refused_where_there_is_none() {
    let asks = [
        (message(Opcode::UPDATE, "example.", (Type::SOA, Class::IN), b""), refused(Rcode::NOTIMP, None)),
        (message(Opcode::NOTIFY, "example.", (Type::SOA, Class::IN), b""), refused(Rcode::NOTIMP, None)),
        (query("example.", Type::AXFR, OPT_NSID), refused(Rcode::REFUSED, Some(18))),
        (query("example.", Type::IXFR, OPT_NSID), refused(Rcode::REFUSED, Some(18))),
    ];
    for (packet, expected) in asks {
        assert_eq!(said(&rig(false).ask(&packet).expect("a reply")), expected);
        // The scripted source has no such name.
        assert_eq!(said(&rig(true).ask(&packet).expect("a reply")), refused(Rcode::NXDOMAIN, None));
    }
    let status = message(Opcode(2), "example.", (Type::SOA, Class::IN), b"");
    assert_eq!(said(&rig(true).ask(&status).expect("a reply")), refused(Rcode::NOTIMP, None));
}

#[test]
fn a_signature_by_an_unknown_key_is_refused_with_badkey() {
    // owner "k.", HMAC-SHA256, time, fudge 300, a MAC of four bytes, original ID, no error, no other data
    let mut tsig = b"\x01k\0\0\xfa\0\xff\0\0\0\0\0\x21".to_vec();
    tsig.extend(b"\x0bhmac-sha256\0\0\0\x65\0\0\0\x01\x2c\0\x04abcd\x12\x34\0\0\0\0");
    for qtype in [Type::A, Type::AXFR] {
        let reply = Rig::new().ask_by(Transport::Tcp, &query("example.", qtype, &tsig)).expect("a reply");
        let (header, mut parser) = Parser::new(&reply).expect("header");
        assert_eq!((header.rcode(), header.counts()), (Rcode::NOTAUTH, [1, 0, 0, 1]));
        parser.question().expect("question");
        let record = parser.record().expect("TSIG");
        assert_eq!((record.rtype, record.class, record.ttl().as_secs()), (Type::TSIG, Class::ANY, 0));
        let rdata = &reply[record.rdata.clone()];
        assert_eq!(&rdata[13..], b"\0\0\x65\0\0\0\x01\x2c\0\0\x12\x34\0\x11\0\0");
    }
}
