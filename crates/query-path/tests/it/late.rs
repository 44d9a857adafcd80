//! Late answers: their replies equal those sent at once, and every responder is settled once.

use query_path::Refusal;
use transport::{Outcome, Transport};
use wire::edns::ErrorInfo;
use wire::{Rcode, Type};

use crate::support::{OPT_NSID, Rig, Said, Three, fill, query, said};

/// Sends a query whose answer comes later.
fn pend(rig: &mut Rig, transport: Transport, qtype: Type, additional: &[u8]) {
    let outcome = rig.ask_by(transport, &query("example.", qtype, additional));
    assert!(matches!(outcome, Err(Outcome::Pending)));
    assert!(rig.late().is_empty(), "nothing is ready yet");
}

fn only(late: Vec<(Transport, Outcome, Vec<u8>)>) -> Vec<u8> {
    let [(_, Outcome::Reply(_), message)] = &late[..] else { panic!("not one reply: {late:?}") };
    message.clone()
}

#[test]
fn a_late_answer_is_byte_for_byte_the_one_at_once() {
    for transport in [Transport::Udp, Transport::Tcp] {
        for additional in [b"".as_slice(), OPT_NSID] {
            let mut rig = Rig::new();
            let at_once = rig.ask_by(transport, &query("example.", Type::A, additional)).expect("a reply");
            pend(&mut rig, transport, Type::AAAA, additional);
            let responder = rig.source.responder();
            assert_eq!(responder.qname().to_string(), "example.");
            // Settled from another thread.
            let settled = std::thread::spawn(move || {
                responder.resume(|b| {
                    fill(b, 3);
                    Ok(Some(ErrorInfo(3)))
                })
            });
            settled.join().expect("settled");
            let mut late = only(rig.late());
            // All but QTYPE is equal.
            late[12 + 9 + 1] = Type::A.0 as u8;
            assert_eq!(late, at_once);
        }
    }
}

#[test]
fn a_late_answer_is_cut_counted_and_logged() {
    let mut rig = Rig::new();
    pend(&mut rig, Transport::Udp, Type::AAAA, OPT_NSID);
    rig.source.responder().resume(|b| {
        fill(b, 200);
        Ok(None)
    });
    let late = only(rig.late());
    assert_eq!(said(&late), Said { rcode: Rcode::NOERROR, truncated: true, answers: 0, error: None });
    let stats = rig.worker.stats();
    assert_eq!((stats.pending.get(), stats.late.get(), stats.truncated.get()), (1, 1, 1));
    assert_eq!(stats.replies[Transport::Udp.index()][0].get(), 1);
    assert_eq!(rig.log.replies(), [format!("udp example. NOERROR {} TC", late.len())]);
    // The query was logged whole on arrival, and once.
    let asked = query("example.", Type::AAAA, OPT_NSID);
    assert_eq!(rig.log.queries(), [format!("udp example. recursion - {}", asked.len())]);
    let received = rig.log.received();
    assert!(received.len() == 2 && received[0] == received[1], "{received:?}");
}

#[test]
fn a_ticket_that_is_dropped_answers_servfail() {
    let mut rig = Rig::new();
    pend(&mut rig, Transport::Udp, Type::AAAA, OPT_NSID);
    drop(rig.source.responder());
    let late = only(rig.late());
    assert_eq!(said(&late), Said { rcode: Rcode::SERVFAIL, truncated: false, answers: 0, error: Some(0) });
}

#[test]
fn a_late_refusal_says_why_and_nothing_else() {
    let mut rig = Rig::new();
    pend(&mut rig, Transport::Udp, Type::AAAA, OPT_NSID);
    rig.source.responder().refuse(Refusal::PROHIBITED);
    let expected = Said { rcode: Rcode::REFUSED, truncated: false, answers: 0, error: Some(18) };
    assert_eq!(said(&only(rig.late())), expected);
    pend(&mut rig, Transport::Udp, Type::AAAA, OPT_NSID);
    rig.source.responder().resume(|b| {
        fill(b, 3);
        Err(Refusal::PROHIBITED)
    });
    assert_eq!(said(&only(rig.late())), expected);
}

#[test]
fn a_late_stream_reaches_its_connection() {
    let mut rig = Rig::new();
    pend(&mut rig, Transport::Tcp, Type::AAAA, b"");
    rig.source.responder().stream(Box::new(Three(3)));
    let late = rig.late();
    assert!(matches!(late[..], [(Transport::Tcp, Outcome::Stream(_), _)]));
    assert_eq!(rig.worker.stats().streams.get(), 1);
}

#[test]
fn more_late_answers_than_fit_one_batch_all_leave() {
    let mut rig = Rig::new();
    for _ in 0..100 {
        pend(&mut rig, Transport::Udp, Type::AAAA, b"");
    }
    let responders = std::mem::take(&mut *rig.source.responders.lock().expect("lock"));
    responders.into_iter().for_each(|responder| responder.refuse(Refusal::PROHIBITED));
    assert_eq!(rig.late().len(), 100);
}
