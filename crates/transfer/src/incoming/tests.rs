//! Incoming transfers: from our own sender, and from hostile peers.

use std::sync::Arc;

use proptest::prelude::*;
use testkit::{build, key, name};
use wire::edns::{OptionCode, opt_with_options};
use wire::message::{Builder, Compressor, Header, MAX_MESSAGE, Owner, Section};
use wire::{Class, Name, Rcode, Ttl, Type, UnixTime};
use zone::store::ChangedRecords;

use super::*;
use crate::outgoing::tests::{frame_with_limit, messages, of_zone};
use crate::outgoing::{axfr, ixfr};
use crate::tsig;

const MINUTE: Ttl = Ttl::from_secs(60);
const ID: u16 = 0x4242;
const NOW: UnixTime = UnixTime::from_secs(10);

/// A record of a test response.
type Made<'a> = (&'a str, Type, Class, Vec<u8>);

fn soa(serial: u32) -> Made<'static> {
    ("example.", Type::SOA, Class::IN, testkit::random::soa(name("example.").as_name(), serial))
}

fn a(owner: &str, n: u8) -> Made<'_> {
    (owner, Type::A, Class::IN, vec![192, 0, 2, n])
}

/// A message with these records.
fn message_with(header: Header, question: Option<Type>, records: &[Made<'_>]) -> Vec<u8> {
    let (mut buf, mut names) = (vec![0; MAX_MESSAGE], Compressor::large());
    let mut b = Builder::new(&mut buf, MAX_MESSAGE, header, &mut names);
    if let Some(qtype) = question {
        b.question(name("example.").as_name(), qtype, Class::IN).expect("room");
    }
    for (owner, t, class, rdata) in records {
        let owner = name(owner);
        b.record(Section::Answer, Owner::Name(owner.as_name()), *t, *class, MINUTE, rdata).expect("room");
    }
    let len = b.finish();
    buf.truncate(len);
    buf
}

fn message(records: &[Made<'_>]) -> Vec<u8> {
    message_with(Header::query(ID).reply(), None, records)
}

fn asked(apex: Name<'_>, asked: AskedFor) -> SentRequest {
    SentRequest { id: ID, apex: apex.to_buf(), asked, datagram: false }
}

fn transfer_with(what: AskedFor, limits: TransferLimits) -> IncomingTransfer {
    IncomingTransfer::new(asked(name("example.").as_name(), what), &key(), limits, None)
}

fn transfer(what: AskedFor) -> IncomingTransfer {
    transfer_with(what, TransferLimits::default())
}

/// The outcome of messages with these records.
fn outcome(what: AskedFor, messages: &[&[Made<'_>]]) -> Result<Option<Received>, TransferFault> {
    let mut transfer = transfer(what);
    let mut received = None;
    for records in messages {
        received = transfer.message(&message(records), NOW)?;
    }
    Ok(received)
}

fn fault(what: AskedFor, messages: &[&[Made<'_>]]) -> TransferFault {
    outcome(what, messages).expect_err("a fault")
}

fn serials(received: Result<Option<Received>, TransferFault>) -> Vec<(u32, u32)> {
    match received {
        Ok(Some(Received::Differences(differences))) => {
            differences.iter().map(|d| (d.before.0, d.after.0)).collect()
        }
        other => panic!("{other:?}"),
    }
}

const AXFR: AskedFor = AskedFor::Axfr;
const FROM_1: AskedFor = AskedFor::Ixfr(Serial(1));

proptest! {
    #[test]
    fn a_zone_that_is_sent_is_received((apex, records) in testkit::random::zone(), limit in 100..3000usize) {
        let zone = Arc::new(build(apex.as_name(), &key(), &records));
        let mut transfer = IncomingTransfer::new(asked(apex.as_name(), AXFR), &key(), TransferLimits::default(), None);
        let all = messages(axfr(zone.clone(), frame_with_limit(apex.as_name(), Type::AXFR, limit)));
        let (last, before) = all.split_last().expect("messages");
        for message in before {
            prop_assert!(transfer.message(message, NOW).expect("good").is_none());
        }
        let Ok(Some(Received::Zone(received))) = transfer.message(last, NOW) else { panic!("no zone") };
        prop_assert_eq!(received.serial(), zone.serial());
        match received.build() {
            Ok(received) => prop_assert_eq!(of_zone(&received), of_zone(&zone)),
            Err(fault) => prop_assert!(matches!(fault, TransferFault::BadZone(_)), "{}", fault),
        }
        prop_assert!(transfer.message(last, NOW).is_err(), "nothing comes after the end");
    }

    #[test]
    fn any_bytes_are_taken_without_a_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300),
        ixfr: bool,
        whole_header: bool,
    ) {
        if whole_header && bytes.len() > 12 {
            bytes[..4].copy_from_slice(&[0x42, 0x42, 0x84, 0]);
            bytes[4..12].copy_from_slice(&[0, 0, 0, 2, 0, 0, 0, 0]);
        }
        let mut transfer = transfer(if ixfr { FROM_1 } else { AXFR });
        let _ = transfer.message(&bytes, NOW);
    }

    /// One byte of a valid transfer is changed: the outcome is a fault or a zone, never a panic.
    #[test]
    fn damaged_transfers_never_panic(at in 0..10_000usize, to: u8, records in testkit::random::zone()) {
        let (apex, records) = records;
        let zone = Arc::new(build(apex.as_name(), &key(), &records));
        let mut all = messages(axfr(zone, frame_with_limit(apex.as_name(), Type::AXFR, 512)));
        let number = at % all.len();
        let len = all[number].len();
        all[number][at / 7 % len] = to;
        let mut transfer = IncomingTransfer::new(asked(apex.as_name(), AXFR), &key(), TransferLimits::default(), None);
        for message in &all {
            match transfer.message(message, NOW) {
                Ok(None) => {}
                Ok(Some(Received::Zone(zone))) => {
                    let _ = zone.build();
                    break;
                }
                Ok(Some(other)) => panic!("{other:?}"),
                Err(_) => break,
            }
        }
    }
}

#[test]
fn a_whole_zone_comes_in_any_number_of_messages() {
    let all = [soa(7), a("a.example.", 1), a("b.example.", 1), soa(7)];
    let one = outcome(AXFR, &[&all]);
    let many: Vec<&[Made<'_>]> = all.chunks(1).collect();
    for received in [one, outcome(AXFR, &many), outcome(FROM_1, &many), outcome(FROM_1, &[&all])] {
        let Ok(Some(Received::Zone(zone))) = received else { panic!("{received:?}") };
        assert_eq!(zone.serial(), Serial(7));
    }
}

#[test]
fn differences_come_step_by_step_or_condensed() {
    let steps = [soa(4), soa(1), a("a.example.", 1), soa(2), a("b.example.", 1), soa(2), soa(4), soa(4)];
    for size in 1..=steps.len() {
        let messages: Vec<&[Made<'_>]> = steps.chunks(size).collect();
        assert_eq!(serials(outcome(FROM_1, &messages)), [(1, 2), (2, 4)], "{size} in a message");
    }
    let condensed = [soa(4), soa(1), a("a.example.", 1), soa(4), a("b.example.", 1), soa(4)];
    assert_eq!(serials(outcome(FROM_1, &[&condensed])), [(1, 4)]);
}

#[test]
fn differences_that_are_sent_are_received() {
    let list = |serial: u32, hosts: std::ops::Range<u8>| {
        let mut list = ChangedRecords::default();
        let apex = name("example.");
        let rdata = testkit::random::soa(apex.as_name(), serial);
        list.push(apex.as_name(), Type::SOA, MINUTE, &rdata);
        for n in hosts {
            let owner = name(&format!("h{n}.Example."));
            list.push(owner.as_name(), Type::MX, MINUTE, &[&[0, n], owner.as_name().as_wire()].concat());
        }
        list
    };
    let steps = [(1, 5, 0..9), (5, 6, 4..100)];
    let steps: Vec<Arc<ChangeSet>> = steps
        .into_iter()
        .map(|(from, to, hosts)| {
            let (removed, added) = (list(from, hosts.clone()), list(to, hosts));
            Arc::new(ChangeSet { before: Serial(from), after: Serial(to), removed, added })
        })
        .collect();
    let apex = name("example.");
    let soa = testkit::ModelRecord {
        owner: apex,
        rtype: Type::SOA,
        ttl: MINUTE,
        rdata: testkit::random::soa(apex.as_name(), 6),
    };
    let zone = Arc::new(build(apex.as_name(), &key(), &[soa]));
    for limit in [300, 16_384] {
        let frame = frame_with_limit(apex.as_name(), Type::IXFR, limit);
        let mut transfer = transfer(FROM_1);
        let mut received = None;
        for message in messages(ixfr(zone.clone(), Serial(1), steps.clone(), frame)) {
            assert!(received.is_none());
            received = transfer.message(&message, NOW).expect("good");
        }
        let Some(Received::Differences(received)) = received else { panic!("{received:?}") };
        assert!(received.iter().eq(steps.iter().map(Arc::as_ref)));
    }
}

#[test]
fn the_soa_alone_says_that_nothing_changed() {
    for serial in [1, 0] {
        let received = outcome(FROM_1, &[&[soa(serial)]]);
        assert!(matches!(received, Ok(Some(Received::SoaOnly(Serial(s)))) if s == serial), "{received:?}");
    }
    assert!(matches!(outcome(FROM_1, &[&[soa(2)]]), Ok(None)), "over a stream more will come");
    let mut request = asked(name("example.").as_name(), FROM_1);
    request.datagram = true;
    let mut transfer = IncomingTransfer::new(request, &key(), TransferLimits::default(), None);
    let received = transfer.message(&message(&[soa(2)]), NOW);
    assert!(matches!(received, Ok(Some(Received::SoaOnly(Serial(2))))), "{received:?}");
    let mut transfer = IncomingTransfer::new(request, &key(), TransferLimits::default(), None);
    let cut = transfer.message(&message(&[soa(2), soa(1), a("a.example.", 1)]), NOW);
    assert_eq!(cut.expect_err("no end"), TransferFault::Truncated);
}

#[test]
fn headers_and_questions_that_are_not_ours_are_refused() {
    let good = [soa(1), soa(1)];
    let check = |change: &dyn Fn(&mut Header), question| {
        let mut header = Header::query(ID).reply();
        change(&mut header);
        transfer(AXFR).message(&message_with(header, question, &good), NOW).map(|_| ())
    };
    assert_eq!(check(&|_| (), None), Ok(()));
    assert_eq!(check(&|_| (), Some(Type::AXFR)), Ok(()));
    assert_eq!(check(&|_| (), Some(Type::IXFR)), Err(TransferFault::OtherQuestion));
    assert_eq!(check(&|h| h.set_response(false), None), Err(TransferFault::NotTheResponse));
    assert_eq!(check(&|h| *h = Header::query(ID + 1).reply(), None), Err(TransferFault::NotTheResponse));
    assert_eq!(check(&|h| h.set_truncated(true), None), Err(TransferFault::Truncated));
    for rcode in [Rcode::REFUSED, Rcode::NOTIMP, Rcode::NOTAUTH, Rcode::FORMERR] {
        assert_eq!(check(&|h| h.set_rcode(rcode), None), Err(TransferFault::Rcode(rcode)));
    }
    let mut twice = message_with(Header::query(ID).reply(), Some(Type::AXFR), &good);
    twice[5] = 2;
    assert_eq!(transfer(AXFR).message(&twice, NOW).expect_err("two"), TransferFault::OtherQuestion);
    let mut notify = message(&good);
    notify[2] |= 4 << 3;
    assert_eq!(transfer(AXFR).message(&notify, NOW).expect_err("NOTIFY"), TransferFault::NotTheResponse);
    let mut more = message(&good);
    more.push(0);
    assert_eq!(transfer(AXFR).message(&more, NOW).expect_err("a byte"), TransferFault::Malformed);
    assert_eq!(fault(AXFR, &[&[]]), TransferFault::Empty);
    assert_eq!(fault(AXFR, &[&[soa(1)], &[]]), TransferFault::Empty);
}

#[test]
fn records_that_cannot_be_in_the_zone_are_refused() {
    let outside = name("a.other.");
    let with = |record: Made<'static>| fault(AXFR, &[&[soa(1), a("a.example.", 1), record, soa(1)]]);
    assert_eq!(with(a("a.other.", 1)), TransferFault::OutOfZone(Box::new(outside), Type::A));
    let owner = Box::new(name("b.example."));
    assert_eq!(
        with(("b.example.", Type::A, Class::CH, vec![1, 2, 3, 4])),
        TransferFault::Class(owner.clone(), Type::A)
    );
    for t in [Type::ANY, Type::OPT, Type::TSIG, Type::AXFR, Type(0)] {
        assert_eq!(with(("b.example.", t, Class::IN, vec![])), TransferFault::MetaType(owner.clone(), t));
    }
    assert_eq!(with(("b.example.", Type::A, Class::IN, vec![1, 2, 3])), TransferFault::Malformed);
    assert_eq!(with(("b.example.", Type::MX, Class::IN, vec![1])), TransferFault::Malformed);
    assert_eq!(fault(AXFR, &[&[a("a.example.", 1)]]), TransferFault::NoSoa);
    let other = ("other.", Type::SOA, Class::IN, soa(1).3);
    assert!(matches!(fault(AXFR, &[&[other]]), TransferFault::OutOfZone(..)));
    let below = ("b.example.", Type::SOA, Class::IN, soa(1).3);
    assert_eq!(fault(AXFR, &[&[below]]), TransferFault::NoSoa);
}

#[test]
fn a_zone_that_should_not_be_served_is_refused_whole() {
    let cname = ("a.example.", Type::CNAME, Class::IN, b"\x01b\x07example\0".to_vec());
    let Ok(Some(Received::Zone(zone))) = outcome(AXFR, &[&[soa(1), a("a.example.", 1), cname, soa(1)]])
    else {
        panic!("no zone");
    };
    let Err(TransferFault::BadZone(note)) = zone.build() else { panic!("a zone") };
    assert_eq!(note.kind, zone::store::NoteKind::CnameAndOther);
}

#[test]
fn the_end_must_be_the_beginning() {
    assert_eq!(fault(AXFR, &[&[soa(1), a("a.example.", 1), soa(2)]]), TransferFault::OtherLastSoa);
    let mut other = soa(1);
    *other.3.last_mut().expect("a byte") ^= 1;
    assert_eq!(fault(AXFR, &[&[soa(1), a("a.example.", 1), other]]), TransferFault::OtherLastSoa);
    assert_eq!(fault(AXFR, &[&[soa(1), soa(1), a("a.example.", 1)]]), TransferFault::AfterEnd);
    let twice = outcome(AXFR, &[&[soa(1), soa(1)], &[soa(1)]]);
    assert_eq!(twice.expect_err("again"), TransferFault::AfterEnd);
    assert!(matches!(outcome(AXFR, &[&[soa(1), a("a.example.", 1)]]), Ok(None)), "no end, no zone");
}

#[test]
fn differences_must_lead_on() {
    let broken =
        |reached, found| TransferFault::BrokenChain { reached: Serial(reached), found: Serial(found) };
    assert_eq!(fault(FROM_1, &[&[soa(4), soa(2)]]), broken(1, 2), "not from our version");
    assert_eq!(fault(FROM_1, &[&[soa(4), soa(1), soa(1)]]), broken(1, 1), "to no later version");
    assert_eq!(fault(FROM_1, &[&[soa(4), soa(1), soa(0)]]), broken(1, 0), "backwards");
    assert_eq!(fault(FROM_1, &[&[soa(4), soa(1), soa(2), soa(3)]]), broken(2, 3), "a step is missing");
    assert_eq!(fault(FROM_1, &[&[soa(4), soa(1), soa(2), soa(4)]]), broken(2, 4), "too early an end");
    let mut other = soa(4);
    *other.3.last_mut().expect("a byte") ^= 1;
    assert_eq!(fault(FROM_1, &[&[soa(4), soa(1), soa(4), other]]), TransferFault::OtherLastSoa);
    assert_eq!(fault(FROM_1, &[&[soa(4), soa(1), soa(4), soa(4), soa(4)]]), TransferFault::AfterEnd);
    // Serials wrap from the greatest to 0 (RFC 1982).
    let wrapped = [soa(0), soa(u32::MAX), soa(0), soa(0)];
    assert_eq!(serials(outcome(AskedFor::Ixfr(Serial(u32::MAX)), &[&wrapped])), [(u32::MAX, 0)]);
}

/// A peer that never ends its transfer.
#[test]
fn endless_transfers_end_at_the_limits() {
    let limits = TransferLimits {
        records: 1000,
        bytes: 1 << 20,
        messages: 100,
        differences: 10,
        difference_bytes: 1 << 20,
    };
    let until_fault = |what, limits, first: &[Made<'_>], next: &dyn Fn(u32) -> Vec<Made<'static>>| {
        let mut transfer = transfer_with(what, limits);
        transfer.message(&message(first), NOW).expect("good");
        let mut results = (0..10_000).map(|n| transfer.message(&message(&next(n)), NOW));
        results.find_map(Result::err).expect("a limit")
    };
    let hosts = |_| vec![a("a.example.", 1); 20];
    assert_eq!(until_fault(AXFR, limits, &[soa(1)], &hosts), TransferFault::Limit(TransferLimit::Records));
    let few = |_| vec![a("a.example.", 1)];
    assert_eq!(until_fault(AXFR, limits, &[soa(1)], &few), TransferFault::Limit(TransferLimit::Messages));
    let small = TransferLimits { bytes: 2000, ..limits };
    assert_eq!(until_fault(AXFR, small, &[soa(1)], &few), TransferFault::Limit(TransferLimit::Bytes));
    let steps = |n: u32| vec![soa(2 + n), soa(2 + n)];
    assert_eq!(
        until_fault(FROM_1, limits, &[soa(1_000_000), soa(1)], &steps),
        TransferFault::Limit(TransferLimit::Differences)
    );
    // One difference without an end, of records removed or added.
    let many = TransferLimits { records: u64::MAX, bytes: u64::MAX, difference_bytes: 2000, ..limits };
    for first in [&[soa(9), soa(1)][..], &[soa(9), soa(1), soa(2)]] {
        assert_eq!(until_fault(FROM_1, many, first, &few), TransferFault::Limit(TransferLimit::Differences));
    }
}

/// Regression: the limit covers memory, not only the bytes of messages.
#[test]
fn an_endless_zone_took_several_times_the_memory_of_its_limit() {
    let limits = TransferLimits { bytes: 100_000, ..TransferLimits::default() };
    // Names that are compressed in messages, and records that wait for the end of their name.
    let owners: [fn(u32) -> String; 2] = [|n| format!("h{n}.example."), |_| "h.example.".to_owned()];
    for owner in owners {
        let mut transfer = transfer_with(AXFR, limits);
        transfer.message(&message(&[soa(1)]), NOW).expect("good");
        let fault = (0..10_000).find_map(|n| {
            let owners: Vec<String> = (0..20).map(|i| owner(20 * n + i)).collect();
            let records: Vec<Made<'_>> = owners.iter().map(|owner| a(owner, 1)).collect();
            transfer.message(&message(&records), NOW).err()
        });
        assert_eq!(fault, Some(TransferFault::Limit(TransferLimit::Bytes)));
        assert!(transfer.bytes() < limits.bytes * 2 / 3, "{} bytes came", transfer.bytes());
    }
}

/// A signed transfer: every message is verified, and the last one must be signed.
#[test]
fn signatures_are_verified_as_messages_come() {
    let apex = name("example.");
    let secret = tsig::TsigKey::new(name("k.").as_name(), tsig::TsigAlgorithm::HmacSha256, b"secret");
    let secret = Arc::new(secret.expect("a key"));
    let keys = tsig::TsigKeys::new([tsig::TsigKey::clone(&secret)]).expect("one key");
    let sign = || {
        let mut request = crate::outgoing::tests::request(apex.as_name(), Type::AXFR);
        let len = request.len();
        request.resize(len + 200, 0);
        let (len, verifier) = tsig::sign_request(&secret, &mut request, len, NOW).expect("room");
        request.truncate(len);
        let at = tsig::find(&request).expect("a message").expect("TSIG");
        (verifier, tsig::verify(&request, at, &keys, NOW).expect("good").signer())
    };
    let plain = [message(&[soa(1)]), message(&[a("a.example.", 1)]), message(&[soa(1)])];
    let outcome = |signed: [bool; 3], damaged: Option<usize>| {
        let (verifier, mut signer) = sign();
        let request = asked(apex.as_name(), AXFR);
        let mut transfer = IncomingTransfer::new(request, &key(), TransferLimits::default(), Some(verifier));
        let mut received = Ok(None);
        for (number, message) in plain.iter().enumerate() {
            let mut buf = message.clone();
            if signed[number] {
                buf.resize(message.len() + 200, 0);
                let len = signer.sign(&mut buf, message.len(), NOW).expect("room");
                buf.truncate(len);
            }
            if damaged == Some(number) {
                buf[message.len() - 1] ^= 1;
            }
            received = transfer.message(&buf, NOW);
            if received.is_err() {
                break;
            }
        }
        received
    };
    let unsigned = TransferFault::Tsig(tsig::ResponseError::Unsigned);
    assert!(matches!(outcome([true; 3], None), Ok(Some(Received::Zone(_)))));
    assert_eq!(outcome([true, true, false], None).expect_err("the last"), unsigned);
    assert_eq!(outcome([false, true, true], None).expect_err("the first"), unsigned);
    let wrong = TransferFault::Tsig(tsig::ResponseError::BadSignature);
    assert_eq!(outcome([true; 3], Some(1)).expect_err("changed"), wrong);
    // An unsigned message in between is covered by the next signature. Our signer did not see it, so its
    // signature is wrong.
    assert_eq!(outcome([true, false, true], None).expect_err("not covered"), wrong);
    let (_, mut signer) = sign();
    let mut buf = plain[0].clone();
    buf.resize(plain[0].len() + 200, 0);
    let len = signer.sign(&mut buf, plain[0].len(), NOW).expect("room");
    assert_eq!(transfer(AXFR).message(&buf[..len], NOW).expect_err("signed"), TransferFault::UnexpectedTsig);
}

#[test]
fn a_zone_older_than_the_one_held_is_refused_at_its_first_soa() {
    let first = |serial: u32| message(&[soa(serial), a("a.example.", 1)]);
    for what in [AskedFor::Axfr, AskedFor::Ixfr(Serial(5))] {
        let taken = |serial: u32| {
            let mut transfer = transfer(what).not_older_than(Some(Serial(5)));
            transfer.message(&first(serial), NOW)
        };
        let older = |sent: u32| TransferFault::Older { sent: Serial(sent), held: Serial(5) };
        assert_eq!(taken(4).expect_err("older"), older(4), "{what:?}");
        assert_eq!(
            taken(5 + (1 << 31) + 1).expect_err("older in serial number arithmetic"),
            older(5 + (1 << 31) + 1)
        );
        assert!(taken(6).is_ok(), "{what:?}");
    }
    assert!(transfer(AskedFor::Axfr).message(&first(4), NOW).is_ok(), "without a version, any is taken");
}

#[test]
fn of_two_opt_records_the_first_was_believed() {
    let opt = opt_with_options(1232, false, &[(OptionCode::EXPIRE, &[0, 0, 1, 0])]);
    let outcome = |authorities: u8, additionals: u8| {
        let opts = opt.repeat(usize::from(authorities + additionals));
        let mut message = [message(&[soa(2), a("h.example.", 1), soa(2)]), opts].concat();
        (message[9], message[11]) = (authorities, additionals);
        let mut transfer = transfer(AXFR);
        let received = transfer.message(&message, NOW).map(|received| received.is_some());
        (received, transfer.expire())
    };
    assert_eq!(outcome(0, 1), (Ok(true), Some(256)));
    for counts in [(0, 2), (1, 1)] {
        assert_eq!(outcome(counts.0, counts.1).0, Err(TransferFault::Malformed));
    }
    // Each message may have one OPT record.
    let mut transfer = transfer(AXFR);
    for (records, last) in [(vec![soa(2), a("h.example.", 1)], false), (vec![soa(2)], true)] {
        let mut message = [message(&records), opt.clone()].concat();
        message[11] = 1;
        assert_eq!(transfer.message(&message, NOW).map(|received| received.is_some()), Ok(last));
    }
}
