//! The messages of a transfer, parsed by `wire`, contain the zone's records, each once.

use std::sync::Arc;

use proptest::prelude::*;
use testkit::{ModelRecord, build, key, name};
use transport::{MessageStream, Next};
use wire::message::{Compressor, Header, MAX_MESSAGE, MAX_POINTERS, Owner, Parser, Section};
use wire::{Class, Name, NameBuf, Rcode, Ttl, Type, UnixTime};
use zone::Zone;

use super::*;
use crate::tsig;

/// A request for a transfer.
pub(crate) fn request(apex: Name<'_>, t: Type) -> Vec<u8> {
    [
        Header::query(0x4242).as_bytes().as_slice(),
        apex.as_wire(),
        &t.0.to_be_bytes(),
        &Class::IN.0.to_be_bytes(),
    ]
    .concat()
}

pub(crate) fn frame(apex: Name<'_>, t: Type) -> TransferFrame {
    frame_with_limit(apex, t, DEFAULT_LIMIT)
}

pub(crate) fn frame_with_limit(apex: Name<'_>, t: Type, limit: usize) -> TransferFrame {
    TransferFrame::answering(&request(apex, t), limit).expect("a request")
}

pub(crate) fn messages(mut stream: Box<dyn MessageStream>) -> Vec<Vec<u8>> {
    let (mut buf, mut messages) = (vec![0xee; MAX_MESSAGE], Vec::new());
    loop {
        match stream.next(&mut buf) {
            Next::Message(len) => messages.push(buf[..len].to_vec()),
            Next::End => return messages,
            Next::Abort => panic!("aborted after {} messages", messages.len()),
        }
    }
}

/// A parsed record: owner and RDATA in the letter case of the message.
pub(crate) type Plain = (Vec<u8>, Type, Ttl, Vec<u8>);

/// The number of pointers that a reader of the name at `at` follows.
fn pointers(message: &[u8], mut at: usize) -> usize {
    let mut count = 0;
    loop {
        match message[at] {
            0 => return count,
            high @ 0xc0.. => {
                at = (high as usize & 0x3f) << 8 | message[at + 1] as usize;
                count += 1;
            }
            len => at += len as usize + 1,
        }
    }
}

/// Parses the records of the answer sections, and checks what holds for every message.
pub(crate) fn records(messages: &[Vec<u8>], question: &[u8]) -> Vec<Plain> {
    let mut all = Vec::new();
    for (number, message) in messages.iter().enumerate() {
        let (header, mut parser) = Parser::new(message).expect("a header");
        assert!(header.is_response() && header.authoritative() && !header.truncated());
        assert_eq!((header.id(), header.rcode()), (0x4242, Rcode::NOERROR));
        let counts = header.counts();
        assert_eq!(counts[0], (number == 0) as u16, "the question is in the first message only");
        if number == 0 {
            parser.question().expect("a question");
            assert_eq!(&message[12..parser.position().index()], question);
        }
        assert!(counts[1] > 0 && counts[2] == 0);
        for _ in 0..counts[1] {
            let record = parser.record().expect("a record");
            assert!(pointers(message, record.owner_at.index()) <= MAX_POINTERS);
            assert_eq!(record.class, Class::IN);
            let owner = parser.name_at(record.owner_at).expect("an owner").as_name().as_wire().to_vec();
            let mut rdata = Vec::new();
            parser.expand_rdata(&record, &mut rdata).expect("data");
            all.push((owner, record.rtype, record.ttl(), rdata));
        }
        for _ in 0..counts[3] {
            parser.record().expect("a record");
        }
        assert!(parser.at_end());
    }
    all
}

/// The records of the zone's snapshot, with the SOA once.
pub(crate) fn of_zone(zone: &Zone) -> Vec<Plain> {
    let mut all = Vec::new();
    for node in zone {
        let owner = node.written_owner().as_name().as_wire().to_vec();
        for set in node.rrsets() {
            let own = set.rdatas().map(|rdata| (set.rtype(), rdata));
            for (t, rdata) in own.chain(set.sig_rdatas().map(|rdata| (Type::RRSIG, rdata))) {
                let mut data = Vec::new();
                rdata.copy_to(&mut data);
                all.push((owner.clone(), t, rdata.ttl(), data));
            }
        }
    }
    all.sort();
    all
}

/// Checks a transfer of the zone and returns its bytes.
fn check(zone: Zone, limit: usize, asked: Name<'_>) -> usize {
    let zone = Arc::new(zone);
    let frame = frame_with_limit(asked, Type::AXFR, limit);
    let question = frame.question.to_vec();
    let messages = messages(axfr(zone.clone(), frame));
    let mut received = records(&messages, &question);
    let last = received.pop().expect("records");
    assert!(last.1 == Type::SOA && received.first() == Some(&last), "SOA first and last, and the same");
    received.sort();
    assert_eq!(received, of_zone(&zone));
    messages.iter().map(Vec::len).sum()
}

fn mixed_case(apex: &NameBuf) -> NameBuf {
    let upper = apex.as_name().as_wire().to_ascii_uppercase();
    Name::from_wire(&upper).expect("a name").to_buf()
}

proptest! {
    #[test]
    fn what_is_received_is_the_zone((apex, records) in testkit::random::zone(), limit in 100..3000usize, upper: bool) {
        let zone = build(apex.as_name(), &key(), &records);
        let asked = if upper { mixed_case(&apex) } else { apex };
        check(zone, limit, asked.as_name());
    }

    #[test]
    fn what_is_received_of_signed_zones_is_the_zone(zones in testkit::random::zones(), limit in 100..3000usize) {
        for (apex, records) in zones {
            check(build(apex.as_name(), &key(), &records), limit, apex.as_name());
        }
    }

    /// Messages are never larger than those of `wire`'s builder, which compresses names label by label
    /// against the whole message.
    #[test]
    fn messages_are_as_small_as_those_of_the_plain_builder((apex, records) in testkit::random::zone()) {
        let zone = build(apex.as_name(), &key(), &records);
        let (mut buf, mut names) = (vec![0; MAX_MESSAGE], Compressor::large());
        let header = Header::query(0x4242).reply();
        let mut b = wire::message::Builder::new(&mut buf, MAX_MESSAGE, header, &mut names);
        b.question(apex.as_name(), Type::AXFR, Class::IN).expect("room");
        b.learn(apex.as_name(), wire::message::Offset::QNAME);
        let all = messages(axfr(Arc::new(zone), frame(apex.as_name(), Type::AXFR)));
        prop_assume!(all.len() == 1);
        for (owner, t, ttl, rdata) in self::records(&all, &request(apex.as_name(), Type::AXFR)[12..]) {
            let owner = Name::from_wire(&owner).expect("a name");
            b.record(Section::Answer, Owner::Name(owner), t, Class::IN, ttl, &rdata).expect("room");
        }
        prop_assert!(all[0].len() <= b.finish(), "{} bytes", all[0].len());
    }
}

#[test]
fn everything_there_is_goes_out() {
    let (apex, records) = (name("example."), testkit::everything::records("example"));
    let zone = build(apex.as_name(), &key(), &records);
    for limit in [512, 4096, DEFAULT_LIMIT, MAX_MESSAGE] {
        check(build(apex.as_name(), &key(), &records), limit, apex.as_name());
    }
    assert!(zone.record_count() > 20);
}

/// Deep names, each below the previous, must not form ever longer chains of pointers.
#[test]
fn pointers_stay_few_in_deep_names() {
    let apex = name("2.ip6.arpa.");
    let mut all = vec![ModelRecord {
        owner: apex,
        rtype: Type::SOA,
        ttl: Ttl::from_secs(60),
        rdata: testkit::random::soa(apex.as_name(), 1),
    }];
    let mut owner = apex;
    for depth in 0..100u8 {
        owner = NameBuf::prepend(&[b'0' + depth % 10], owner.as_name()).expect("short");
        let mut target = vec![1, b'h'];
        target.extend_from_slice(owner.as_name().as_wire());
        all.push(ModelRecord { owner, rtype: Type::PTR, ttl: Ttl::from_secs(60), rdata: target });
    }
    check(build(apex.as_name(), &key(), &all), DEFAULT_LIMIT, apex.as_name());
}

/// Owners of records after a delegation point into its records, wherever messages end; letter case is kept.
#[test]
fn hosts_of_a_delegation_are_pointed_at() {
    let (apex, mut all) = (name("example."), Vec::new());
    let mut add = |owner: &str, rtype, rdata: &[u8]| {
        all.push(ModelRecord { owner: name(owner), rtype, ttl: Ttl::from_secs(60), rdata: rdata.to_vec() });
    };
    add("example.", Type::SOA, &testkit::random::soa(apex.as_name(), 1));
    for i in 0..20u8 {
        let cut = format!("delegation-{i}.example.");
        let hosts: Vec<String> =
            ["ns1", "Ns2", "ns3", "a.ns4"].iter().map(|host| format!("{host}.{cut}")).collect();
        // An RRset with an upper-case letter is not a pointer target; every other RRset has one.
        for host in hosts.iter().filter(|host| i % 2 == 0 || !host.starts_with('N')) {
            add(&cut, Type::NS, name(host).as_name().as_wire());
        }
        for host in &hosts {
            add(&host.to_ascii_lowercase(), Type::A, &[192, 0, 2, i]);
            add(&host.to_ascii_lowercase(), Type::MX, &[&[0, 1], name(host).as_name().as_wire()].concat());
        }
        add(&format!("NS9.{cut}"), Type::A, &[192, 0, 2, i]);
        add(&format!("other.{cut}"), Type::NS, name(&format!("NS9.{cut}")).as_name().as_wire());
        add(
            &format!("upper-{i}.example."),
            Type::NS,
            name(&format!("h.upper-{i}.example.")).as_name().as_wire(),
        );
        add(&format!("H.upper-{i}.example."), Type::A, &[192, 0, 2, i]);
    }
    for limit in (100..2000).step_by(7).chain([DEFAULT_LIMIT]) {
        check(build(apex.as_name(), &key(), &all), limit, apex.as_name());
    }
}

/// A large zone: many messages, each full.
#[test]
fn large_zones_fill_their_messages() {
    let apex = name("test.");
    let all: Vec<ModelRecord> = testkit::tld::Tld::new(apex, 20_000).collect();
    for limit in [4096, DEFAULT_LIMIT, MAX_MESSAGE] {
        let zone = Arc::new(build(apex.as_name(), &key(), &all));
        let frame = frame_with_limit(apex.as_name(), Type::AXFR, limit);
        let all = messages(axfr(zone.clone(), frame));
        let full = all[..all.len() - 1].iter().all(|message| message.len() + 300 > limit);
        assert!(full && all.iter().all(|message| message.len() <= limit));
        check(build(apex.as_name(), &key(), &tld(apex)), limit, apex.as_name());
    }
}

fn tld(apex: NameBuf) -> Vec<ModelRecord> {
    testkit::tld::Tld::new(apex, 5_000).collect()
}

#[test]
fn a_record_larger_than_the_limit_has_a_message_to_itself() {
    let apex = name("example.");
    let mut all = vec![ModelRecord {
        owner: apex,
        rtype: Type::SOA,
        ttl: Ttl::from_secs(60),
        rdata: testkit::random::soa(apex.as_name(), 1),
    }];
    let owner = name("large.example.");
    for (t, size) in [(65_280, 30_000), (65_281, 50_000)] {
        all.push(ModelRecord { owner, rtype: Type(t), ttl: Ttl::from_secs(60), rdata: vec![7; size] });
    }
    check(build(apex.as_name(), &key(), &all), 4096, apex.as_name());
}

#[test]
fn the_first_message_has_opt_and_every_message_a_signature() {
    let apex = name("test.");
    let zone = Arc::new(build(apex.as_name(), &key(), &tld(apex)));
    let secret = tsig::TsigKey::new(name("k.").as_name(), tsig::TsigAlgorithm::HmacSha256, b"secret");
    let secret = Arc::new(secret.expect("a key"));
    let keys = tsig::TsigKeys::new([tsig::TsigKey::clone(&secret)]).expect("one key");
    let mut asked = request(apex.as_name(), Type::AXFR);
    let len = asked.len();
    asked.resize(len + 200, 0);
    let after = |seconds| UnixTime::from_secs(1000 + seconds);
    let (len, mut verifier) = tsig::sign_request(&secret, &mut asked, len, after(0)).expect("room");
    asked.truncate(len);
    let at = tsig::find(&asked).expect("a message").expect("TSIG");
    let verified = tsig::verify(&asked, at, &keys, after(0)).expect("a good signature");
    let opt = [0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0];
    let mut messages_signed = 0;
    let clock = Box::new(move || {
        messages_signed += 1;
        after(10 * messages_signed)
    });
    let frame = TransferFrame::answering(&asked, 4096).expect("a request").with_opt(&opt);
    let all = messages(axfr(zone.clone(), frame.signed(verified.signer(), clock)));
    assert!(all.len() > 10);
    for (number, message) in all.iter().enumerate() {
        assert!(message.len() <= 4096);
        let additional = Header::of(message).expect("a header").counts()[3];
        assert_eq!(additional, if number == 0 { 2 } else { 1 });
        let now = after(10 * (number as u64 + 1));
        assert_eq!(verifier.message(message, tsig::find(message).expect("a message"), now), Ok(()));
    }
    assert_eq!(verifier.end(), Ok(()));
    let mut received = records(&all, &request(apex.as_name(), Type::AXFR)[12..]);
    received.pop();
    received.sort();
    assert_eq!(received, of_zone(&zone));
}

#[test]
fn the_soa_alone_is_one_message() {
    let apex = name("test.");
    let zone = Arc::new(build(apex.as_name(), &key(), &tld(apex)));
    let all = messages(soa_only(zone, frame(apex.as_name(), Type::IXFR)));
    let received = records(&all, &request(apex.as_name(), Type::IXFR)[12..]);
    assert_eq!(received.iter().map(|record| record.1).collect::<Vec<_>>(), [Type::SOA]);
}

#[test]
fn requests_say_which_version_the_client_has() {
    let apex = name("Example.");
    let mut message = request(apex.as_name(), Type::IXFR);
    message[9] = 1;
    message.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0]);
    let soa = testkit::random::soa(apex.as_name(), 77);
    message.extend_from_slice(&(soa.len() as u16).to_be_bytes());
    message.extend_from_slice(&soa);
    let read = IxfrRequest::read(&message).expect("a request");
    assert_eq!((read.apex.to_string().as_str(), read.serial.0), ("example.", 77));
    for cut in 0..message.len() {
        assert!(IxfrRequest::read(&message[..cut]).is_err(), "{cut}");
    }
    let mut wrong = message.clone();
    wrong[9] = 0;
    assert!(IxfrRequest::read(&wrong).is_err());
}

#[test]
fn the_table_of_compressed_names_is_that_of_the_record_types() {
    use wire::rdata::{Kind, NameRule, layout};
    for &(t, _) in wire::rr::TYPES {
        let fields = layout(t).map_or(&[][..], |layout| layout.fields);
        let compressed = |kind: &Kind| matches!(kind, Kind::Name(NameRule::Compress));
        let first = fields.iter().position(|field| compressed(&field.kind));
        let expected = first.map(|first| {
            let front: usize =
                fields[..first].iter().map(|f| f.kind.wire_len(&[0; 64]).expect("fixed")).sum();
            (front, fields[first..].iter().filter(|field| compressed(&field.kind)).count())
        });
        assert_eq!(message::compressed_names(t), expected, "{t}");
    }
}
