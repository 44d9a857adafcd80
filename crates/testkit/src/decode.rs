//! Responses decoded by our parser and by the `domain` crate, which must agree. All compression pointers are
//! checked, too.

use domain::base::rdata::ComposeRecordData;
use domain::base::{Message, Record, ToName};
use domain::rdata::AllRecordData;
use wire::edns::Edns;
use wire::message::{MAX_POINTERS, Offset, POINTER, Parser, RawRecord};
use wire::{Class, Header, NameBuf, Rcode, Ttl, Type};

use crate::answers::Line;

/// A decoded response.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// The message.
    pub bytes: Vec<u8>,
    /// Its header.
    pub header: Header,
    /// The response code, with the upper bits that OPT carries.
    pub rcode: Rcode,
    /// The bytes of the question section: no question or one.
    pub question: Vec<u8>,
    /// The class of all records; `None` if there are none.
    pub class: Option<Class>,
    /// The records, in the order of the message, without OPT and TSIG.
    pub sections: [Vec<Line>; 3],
    /// Offset in the message at which each record ends.
    pub ends: [Vec<usize>; 3],
    /// OPT.
    pub opt: Option<Opt>,
    /// TSIG, with its RDATA as received.
    pub tsig: Option<Line>,
}

/// Contents of an OPT record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opt {
    /// The sender's UDP payload size.
    pub udp_size: u16,
    /// EDNS version.
    pub version: u8,
    /// DO and the unassigned flags.
    pub flags: u16,
    /// The options, in order.
    pub options: Vec<(u16, Vec<u8>)>,
}

/// Decodes a response.
///
/// # Panics
/// If it is not well formed: tests call this.
pub fn decode(bytes: &[u8]) -> Decoded {
    let (header, mut parser) = Parser::new(bytes).expect("a header");
    let counts = header.counts();
    assert!(counts[0] <= 1, "{} questions", counts[0]);
    let mut qname = None;
    if counts[0] == 1 {
        qname = Some(parser.question().expect("a question").name);
    }
    let question = bytes[12..parser.position().index()].to_vec();
    let (sections, ends) = ([const { Vec::new() }; 3], [const { Vec::new() }; 3]);
    let (opt, tsig) = (None, None);
    let bytes = bytes.to_vec();
    let mut all =
        Decoded { rcode: header.rcode(), header, question, class: None, sections, ends, opt, tsig, bytes };
    for (section, &count) in counts[1..].iter().enumerate() {
        for _ in 0..count {
            let record = parser.record().expect("a record");
            take(&mut all, section, &record, &mut parser);
        }
    }
    assert!(parser.at_end(), "bytes behind the last record");
    let elsewhere = read_elsewhere(&all.bytes);
    for (ours, theirs) in all.sections.iter().zip(&elsewhere) {
        let ours: Vec<Line> = ours.iter().map(Line::canonical).collect();
        assert_eq!(ours, *theirs, "two readers differ, question {qname:?}");
    }
    all
}

fn take(all: &mut Decoded, section: usize, record: &RawRecord, parser: &mut Parser<'_>) {
    let message = &all.bytes;
    let owner = parser.name_at(record.owner_at).expect("an owner");
    let (rtype, ttl) = (record.rtype, record.ttl());
    assert!(all.tsig.is_none(), "{owner} {rtype} behind TSIG, which is the last record (RFC 8945 §5.1)");
    match rtype {
        Type::OPT => {
            assert!(section == 2 && all.opt.is_none(), "OPT out of place (RFC 6891 §6.1.1)");
            let edns = Edns::parse(message, record).expect("OPT");
            let [_, _, high, low] = record.ttl_field;
            let options = edns.options.map(|(code, data)| (code.0, data.to_vec())).collect();
            let flags = u16::from_be_bytes([high, low]);
            all.rcode.0 |= u16::from(edns.extended_rcode) << 4;
            all.opt = Some(Opt { udp_size: edns.udp_size, version: edns.version, flags, options });
        }
        Type::TSIG => {
            assert!(section == 2 && record.class == Class::ANY && ttl == Ttl::ZERO, "RFC 8945 §4.2");
            let rdata = message[record.rdata.clone()].to_vec();
            all.tsig = Some(Line { owner, rtype, ttl, rdata });
        }
        _ => {
            assert_eq!(*all.class.get_or_insert(record.class), record.class, "records of two classes");
            check_names(message, record);
            let mut rdata = Vec::new();
            parser.expand_rdata(record, &mut rdata).expect("RDATA");
            wire::rdata::validate(rtype, &rdata).unwrap_or_else(|error| panic!("{rtype} {error:?}"));
            all.sections[section].push(Line { owner, rtype, ttl, rdata });
            all.ends[section].push(record.rdata.end);
        }
    }
}

/// Checks every name in a record: its owner and those in its RDATA.
fn check_names(message: &[u8], record: &RawRecord) {
    check_pointers(message, record.owner_at.index());
    let (start, region) = (record.rdata.start, &message[record.rdata.clone()]);
    let seen = wire::rdata::expand(record.rtype, region, &mut Vec::new(), |at, out| {
        check_pointers(message, start + at);
        let (_, mut parser) = Parser::new(message).ok()?;
        parser.seek(Offset::new(start + at)?);
        out.extend_from_slice(parser.name().ok()?.as_name().as_wire());
        Some(parser.position().index() - start - at)
    });
    assert_eq!(seen, Ok(()), "{}", record.rtype);
}

/// Follows the pointers of the name at `at`: each must point before the labels in front of it, and there must
/// be few enough for common decoders.
fn check_pointers(message: &[u8], at: usize) {
    let (mut at, mut run, mut pointers) = (at, at, 0);
    loop {
        match message[at] {
            0 => break,
            high @ POINTER.. => {
                let target = Offset::of_pointer([high, message[at + 1]]).index();
                assert!(target < run, "a pointer at {at} leads to {target}, not backwards");
                (at, run, pointers) = (target, target, pointers + 1);
            }
            len => at += len as usize + 1,
        }
    }
    assert!(pointers <= MAX_POINTERS, "{pointers} pointers in the name at {run}");
}

/// Returns the sections as the `domain` crate decodes them.
fn read_elsewhere(bytes: &[u8]) -> [Vec<Line>; 3] {
    let message = Message::from_octets(bytes).expect("a header");
    let sections = [message.answer(), message.authority(), message.additional()];
    sections.map(|section| {
        let records = section.expect("sections").map(|record| record.expect("a record"));
        let records = records.filter(|record| {
            let rtype = Type(record.rtype().to_int());
            rtype != Type::OPT && rtype != Type::TSIG
        });
        let lines = records.map(|record| {
            let owner: domain::base::Name<Vec<u8>> = record.owner().to_name();
            let owner: NameBuf = wire::Name::from_wire(owner.as_slice()).expect("a name").to_buf();
            let (rtype, ttl) = (Type(record.rtype().to_int()), Ttl::from_secs(record.ttl().as_secs()));
            let parsed: Record<_, AllRecordData<_, _>> =
                record.into_record().expect("RDATA").expect("every type is taken");
            let mut rdata = Vec::new();
            parsed.data().compose_rdata(&mut rdata).expect("a vector grows");
            Line { owner, rtype, ttl, rdata }.canonical()
        });
        lines.collect()
    })
}
