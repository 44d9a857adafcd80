//! Which responses can be cached, and that they mean the same behind every question.

use cache::{Answer, AnswerKind, Credibility, Unfit};
use proptest::prelude::*;
use wire::message::Section;
use wire::{Rcode, Type};

use crate::support::*;

const W: &str = "www.example.";
const OPT: &[u8] = b"\0\0\x29\x04\xd0\0\0\x80\0\0\0";

fn of(message: &[u8]) -> Result<Answer, Unfit> {
    Answer::of(message, &terms(Credibility::Answer, None))
}

fn plain() -> Vec<u8> {
    response(W, Type::A, Rcode::NOERROR, &[a(W, 300, 1)])
}

/// Inserts bytes into a message, counted as a record of a section.
fn with(mut message: Vec<u8>, section: usize, at: usize, bytes: &[u8]) -> Vec<u8> {
    message[5 + 2 * section] += 1;
    message.splice(at..at, bytes.iter().copied());
    message
}

/// What a reader sees after the answer went through a cache.
fn through(answer: Answer, qname: &str, qtype: Type) -> Vec<Seen> {
    let cache = cache_of(1 << 20);
    insert(&cache, answer, 0).expect("kept");
    let (hit, body) = get(&cache, qname, qtype, 0).expect("a hit");
    seen(&reply(qname, qtype, &hit, &body))
}

#[test]
fn faults_are_named() {
    let flag = |byte: usize, bits: u8| {
        let mut message = plain();
        message[byte] ^= bits;
        of(&message)
    };
    assert_eq!(flag(2, 0x80), Err(Unfit::NoResponse));
    assert_eq!(flag(2, 0x20), Err(Unfit::NoResponse), "NOTIFY");
    assert_eq!(flag(2, 0x02), Err(Unfit::Truncated));
    assert_eq!(flag(5, 1), Err(Unfit::Question));
    assert_eq!(flag(7, 3), Err(Unfit::Malformed), "a record too many");
    assert_eq!(of(&plain()[..40]), Err(Unfit::Malformed));
    assert_eq!(of(&[plain(), vec![0]].concat()), Err(Unfit::Malformed), "something behind the end");
    assert_eq!(of(&response(W, Type::AXFR, Rcode::NOERROR, &[a(W, 300, 1)])), Err(Unfit::Question));
    assert_eq!(of(&response(W, Type::A, Rcode::NOERROR, &[])), Err(Unfit::NoLifetime));
    assert_eq!(of(&response(W, Type::A, Rcode::NXDOMAIN, &[])), Err(Unfit::NoLifetime));
    let tsig = Record(Section::Additional, W, Type::TSIG, 0, vec![0; 20]);
    assert_eq!(of(&response(W, Type::A, Rcode::NOERROR, &[a(W, 300, 1), tsig])), Err(Unfit::Meta));
    let end = plain().len();
    let two = with(with(plain(), 3, end, OPT), 3, end, OPT);
    assert_eq!(of(&two), Err(Unfit::Meta));
    assert_eq!(of(&with(plain(), 2, end, OPT)), Err(Unfit::Meta), "OPT in the authority section");
    let short = Record(Section::Answer, W, Type::A, 300, vec![1, 2, 3]);
    assert_eq!(
        of(&response(W, Type::A, Rcode::NOERROR, &[short])),
        Err(Unfit::Malformed),
        "an address of 3 bytes"
    );
}

#[test]
fn kinds_come_from_code_and_sections() {
    let kind = |message: &[u8], ttl| {
        Answer::of(message, &terms(Credibility::Answer, ttl)).map(|answer| answer.kind())
    };
    assert_eq!(kind(&plain(), None), Ok(AnswerKind::Positive));
    assert_eq!(kind(&plain(), Some(5)), Ok(AnswerKind::Negative), "a CNAME to NODATA, the caller says");
    assert_eq!(kind(&response(W, Type::A, Rcode::NOERROR, &[]), Some(5)), Ok(AnswerKind::Negative));
    assert_eq!(kind(&response(W, Type::A, Rcode::REFUSED, &[]), None), Ok(AnswerKind::Failure));
    assert_eq!(kind(&response(W, Type::A, Rcode::YXDOMAIN, &[]), None), Ok(AnswerKind::Failure));
    assert_eq!(kind(&response(W, Type::A, Rcode::YXDOMAIN, &[a(W, 300, 1)]), None), Ok(AnswerKind::Positive));
    let badvers = with(plain(), 3, plain().len(), b"\0\0\x29\x04\xd0\x01\0\0\0\0\0");
    assert_eq!(kind(&badvers, None), Ok(AnswerKind::Failure), "the upper bits of the code are in OPT");
}

#[test]
fn opt_is_left_out_wherever_it_stands() {
    let glue = |owner| Record(Section::Additional, owner, Type::A, 100, vec![1, 2, 3, 4]);
    let records = [a(W, 300, 1), glue("ns.deep.example."), glue("x.ns.deep.example.")];
    let message = response(W, Type::A, Rcode::NOERROR, &records);
    let expected = seen(&message);
    let behind = with(message.clone(), 3, message.len(), OPT);
    assert_eq!(through(of(&behind).expect("an answer"), W, Type::A), expected);
    // In front of the last record, which points to the one before OPT.
    let last = message.len() - (2 + 2 + 10 + 4);
    let between = with(message, 3, last, OPT);
    assert_eq!(seen(&between), expected);
    assert_eq!(through(of(&between).expect("an answer"), W, Type::A), expected);
    // In front of both records, so that the last one's pointer leads behind OPT and must be changed.
    let first = response(W, Type::A, Rcode::NOERROR, &records[..1]).len();
    let mut before = with(response(W, Type::A, Rcode::NOERROR, &records), 3, first, OPT);
    let pointer = before.len() - 10 - 4 - 1;
    before[pointer] += OPT.len() as u8;
    assert_eq!(seen(&before), expected);
    assert_eq!(through(of(&before).expect("an answer"), W, Type::A), expected);
}

#[test]
fn pointers_into_what_changes_are_written_out() {
    // ID 0x0161 and flags 0x0000 would read as the name `a.`; RD clear, QR has to be set: bytes 4 and 5 do,
    // `00`: the root.
    let message = with(
        response(W, Type::A, Rcode::NOERROR, &[]),
        1,
        question_end(&response(W, Type::A, Rcode::NOERROR, &[])),
        b"\xc0\x04\0\x01\0\x01\0\0\x01\x2c\0\x04\x01\x02\x03\x04",
    );
    let expected = seen(&message);
    assert_eq!(expected[0].1, ".", "the upper byte of the number of questions is the root");
    let answer = of(&message).expect("an answer");
    assert_eq!(through(answer, W, Type::A), expected);
    // A pointer to QTYPE, whose upper byte is the root, too.
    let mut message = message;
    let end = question_end(&message);
    message[end + 1] = end as u8 - 4;
    assert_eq!(seen(&message), expected);
    assert_eq!(through(of(&message).expect("an answer"), W, Type::A), expected);
}

/// A pointer into a TTL would become another name a second later.
#[test]
fn a_name_made_of_a_ttl_does_not_change_with_it() {
    // TTL 300 is `00 00 01 2c`: its third byte is a label of one byte, and RDLENGTH, whose first byte is
    // zero, ends the name.
    let records = [a(W, 300, 1), Record(Section::Answer, "y.", Type::A, 300, vec![1, 2, 3, 4])];
    let mut message = response(W, Type::A, Rcode::NOERROR, &records);
    let (ttl, owner) = (question_end(&message) + 6, message.len() - 17);
    message.splice(owner..owner + 3, [0xc0, ttl as u8 + 2]);
    let expected = seen(&message);
    assert_eq!(expected[1].1, r"\,.");
    let cache = cache_of(1 << 20);
    insert(&cache, of(&message).expect("an answer"), 0).expect("kept");
    let (hit, body) = get(&cache, W, Type::A, 100).expect("a hit");
    let aged = seen(&reply(W, Type::A, &hit, &body));
    assert_eq!((aged[1].1.as_str(), aged[1].3), (r"\,.", 200));
}

#[test]
fn names_in_data_keep_their_meaning() {
    let exchange = |host: &str| [&[0, 10], name(host).as_name().as_wire()].concat();
    let records = [
        Record(Section::Answer, "Example.", Type::MX, 300, exchange("Mail.example.")),
        Record(Section::Answer, "example.", Type::MX, 300, exchange("mail.other.")),
        Record(Section::Additional, "mail.other.", Type::A, 300, vec![1, 2, 3, 4]),
    ];
    let message = response("Example.", Type::MX, Rcode::NOERROR, &records);
    assert_eq!(through(of(&message).expect("an answer"), "Example.", Type::MX), seen(&message));
}

proptest! {
    /// Any message is either refused, or a reader sees the same in the copy as in the response, apart from
    /// TTLs.
    #[test]
    fn what_is_kept_means_what_arrived(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        opt_first: bool,
    ) {
        let exchange = [&[0, 10], name("mail.www.example.").as_name().as_wire()].concat();
        let records = [
            Record(Section::Answer, W, Type::MX, 300, exchange),
            soa("example.", 400, 100),
            Record(Section::Additional, "mail.www.example.", Type::A, 500, vec![1, 2, 3, 4]),
        ];
        let message = response(W, Type::MX, Rcode::NOERROR, &records);
        let opt_at = if opt_first { message.len() - 16 } else { message.len() };
        let mut message = with(message, 3, opt_at, OPT);
        for (at, bits) in flips {
            let at = at.index(message.len());
            message[at] ^= bits;
        }
        let Ok(answer) = Answer::of(&message, &terms(Credibility::Answer, Some(50))) else { return Ok(()) };
        let (_, mut parser) = wire::message::Parser::new(&message).expect("a header");
        let question = parser.question().expect("a question");
        let (qname, qtype, qclass) = (question.name.to_string(), question.qtype, question.qclass);
        let cache = cache_of(1 << 20);
        let failed = answer.kind() == AnswerKind::Failure;
        if insert(&cache, answer, 0).is_err() {
            return Ok(());
        }
        let hashed = hashed(&qname);
        let key = cache::Key { qclass, ..key(&hashed, qtype) };
        let mut room = [0; 2048];
        let lookup = if failed { cache.failure(&key, at(0), &mut room) } else { cache.lookup(&key, at(0), &mut room) };
        let cache::Lookup::Hit(hit) = lookup else { panic!("{lookup:?} for what was just kept") };
        let mut copied = reply(&qname, qtype, &hit, &room[..hit.len]);
        let class_at = question_end(&copied) - 2;
        copied[class_at..class_at + 2].copy_from_slice(&qclass.0.to_be_bytes());
        let strip = |seen: Vec<Seen>| -> Vec<_> { seen.into_iter().map(|s| (s.0, s.1, s.2, s.4)).collect() };
        prop_assert_eq!(strip(seen(&copied)), strip(seen(&message)));
    }

    #[test]
    fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = of(&bytes);
    }
}
