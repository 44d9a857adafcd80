//! Signed queries (RFC 8945): every reply is signed with the key of the query, and stays within the size
//! limit.

use std::time::Duration;

use transfer::tsig::{ResponseError, TsigRcode, find};
use transport::{Outcome, Transport, unix_now};
use wire::{Class, Opcode, Rcode, Type};

use crate::support::{OPT_NSID, Rig, fill, message, query, said, signed};

/// The reply to a query that was signed `ago` seconds before, as the client verifies it.
fn verified(
    rig: &mut Rig,
    transport: Transport,
    query: &[u8],
    ago: Duration,
) -> (Vec<u8>, Result<(), ResponseError>) {
    let (packet, mut verifier) = signed(query, unix_now().saturating_sub(ago));
    let reply = rig.ask_by(transport, &packet).expect("a reply");
    let at = find(&reply).expect("a message");
    let found = verifier.message(&reply, at, unix_now().saturating_sub(ago));
    (reply, found)
}

#[test]
fn whatever_the_reply_it_is_signed() {
    let (ordinary, cut) = (query("example.", Type::A, OPT_NSID), query("example.", Type::SRV, OPT_NSID));
    let unknown = message(Opcode(2), "example.", (Type::SOA, Class::IN), OPT_NSID);
    let refused = query("example.", Type::MX, b"");
    for (packet, rcode, truncated) in [
        (ordinary, Rcode::NOERROR, false),
        (cut, Rcode::NOERROR, true),
        (unknown, Rcode::NOTIMP, false),
        (refused, Rcode::SERVFAIL, false),
    ] {
        let mut rig = Rig::new();
        let (reply, found) = verified(&mut rig, Transport::Udp, &packet, Duration::ZERO);
        assert_eq!(found, Ok(()));
        assert_eq!((said(&reply).rcode, said(&reply).truncated), (rcode, truncated));
        assert!(reply.len() <= 1232);
        let unsigned = rig.ask(&packet).expect("a reply");
        assert_eq!(find(&unsigned), Ok(None), "who does not sign gets no signature");
        assert_eq!(said(&unsigned), said(&reply));
    }
}

#[test]
fn a_late_reply_is_signed_as_one_at_once() {
    let mut rig = Rig::new();
    let (packet, mut verifier) = signed(&query("example.", Type::AAAA, OPT_NSID), unix_now());
    assert!(matches!(rig.ask(&packet), Err(Outcome::Pending)));
    rig.source.responder().resume(|b| {
        fill(b, 3);
        Ok(None)
    });
    let (_, _, reply) = rig.late().remove(0);
    assert_eq!(said(&reply).answers, 3);
    assert_eq!(verifier.message(&reply, find(&reply).expect("a message"), unix_now()), Ok(()));
}

#[test]
fn a_signature_out_of_time_is_refused_with_the_time_here() {
    let (reply, found) = verified(
        &mut Rig::new(),
        Transport::Tcp,
        &query("example.", Type::A, b""),
        Duration::from_secs(3600),
    );
    assert_eq!(said(&reply).rcode, Rcode::NOTAUTH);
    let Err(ResponseError::Refused { error, authentic, server_time }) = found else {
        panic!("{found:?}");
    };
    assert_eq!((error, authentic), (TsigRcode::BADTIME, true));
    assert!(server_time.is_some_and(|time| time.abs_diff(unix_now()) < Duration::from_secs(60)));
}

#[test]
fn what_was_changed_on_the_way_is_refused_with_badsig() {
    let (mut packet, mut verifier) = signed(&query("example.", Type::A, b""), unix_now());
    packet[13] ^= 1;
    let reply = Rig::new().ask(&packet).expect("a reply");
    assert_eq!((said(&reply).rcode, said(&reply).answers), (Rcode::NOTAUTH, 0));
    let found = verifier.message(&reply, find(&reply).expect("a message"), unix_now());
    let refused = ResponseError::Refused { error: TsigRcode::BADSIG, authentic: false, server_time: None };
    assert_eq!(found, Err(refused));
}
