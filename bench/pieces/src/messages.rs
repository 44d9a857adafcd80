//! Messages by themselves: decompression, compression, parsing, rendering.

use std::hint::black_box;

use query_path::request::Request;
use testkit::tld::Tld;
use wire::edns::{ErrorInfo, OptWriter};
use wire::message::{Builder, Compressor, HEADER_LEN, Header, Offset, Owner, Parser, Section};
use wire::{Class, Name, NameBuf, Rcode, Ttl, Type};

use crate::{Piece, name};

const QNAME: &str = "www.some-customer.example.com.";
const HOUR: Ttl = Ttl::from_secs(3600);
const TWO_DAYS: Ttl = Ttl::from_secs(172_800);
/// Number of names in the message that is full of them.
const MANY_NAMES: usize = 100;

pub(crate) fn pieces() -> Vec<Piece> {
    let mut pieces = decompression();
    pieces.extend(compression());
    pieces.extend(parsing());
    pieces.extend(rendering());
    pieces
}

/// Returns a message with a name of ten labels in several parts, each but the last with a pointer to the
/// next, and the name's offset.
pub fn chained(pointers: usize) -> (Vec<u8>, Offset) {
    let mut message = vec![0; HEADER_LEN];
    let labels: Vec<&[u8]> = vec![b"label-of-15-oct"; 10];
    // The root end first, so that each part can point to the previous one.
    let mut before: Option<Offset> = None;
    let parts = pointers + 1;
    for part in (0..parts).rev() {
        let at = Offset::new(message.len());
        for label in &labels[part * 10 / parts..(part + 1) * 10 / parts] {
            message.push(label.len() as u8);
            message.extend_from_slice(label);
        }
        match before {
            Some(at) => message.extend_from_slice(&at.pointer().expect("within reach")),
            None => message.push(0),
        }
        before = at;
    }
    (message, before.unwrap_or(Offset::QNAME))
}

/// A name of ten labels, with different numbers of pointers.
fn decompression() -> Vec<Piece> {
    let one = |pointers: usize| {
        let (message, at) = chained(pointers);
        let read = move || {
            let (_, mut parser) = Parser::new(black_box(&message)).expect("a header");
            black_box(parser.name_at(at).expect("a name")).as_name().len()
        };
        assert_eq!(read(), 161);
        Piece::new(format!("decompress/{pointers}-pointers"), read)
    };
    [0, 1, 5, 9].map(one).into()
}

/// Renders a referral with thirteen name servers and their addresses, as the root returns it.
fn referral(buf: &mut [u8], names: &mut Compressor, input: &(NameBuf, NameBuf, Vec<NameBuf>)) -> usize {
    let (qname, zone, servers) = input;
    let mut b = Builder::new(buf, 4096, Header::query(1).reply(), names);
    b.question(qname.as_name(), Type::A, Class::IN).expect("fits");
    b.learn(qname.as_name(), Offset::QNAME);
    for server in servers {
        let (owner, rdata) = (Owner::Name(zone.as_name()), server.as_name().as_wire());
        b.record(Section::Authority, owner, Type::NS, Class::IN, TWO_DAYS, rdata).expect("fits");
    }
    for server in servers {
        let owner = Owner::Name(server.as_name());
        b.record(Section::Additional, owner, Type::A, Class::IN, TWO_DAYS, &[192, 5, 6, 30]).expect("fits");
    }
    b.finish()
}

fn referral_input() -> (NameBuf, NameBuf, Vec<NameBuf>) {
    let servers = (b'a'..=b'm').map(|c| name(&format!("{}.gtld-servers.net.", c as char))).collect();
    (name(QNAME), name("com."), servers)
}

/// Returns hosts that share suffixes of one, two and three labels.
pub fn hosts(n: usize) -> Vec<NameBuf> {
    (0..n).map(|i| name(&format!("host{i}.rack{}.site{}.example.net.", i % 20, i % 5))).collect()
}

/// Returns names as in a transfer of a top-level zone, in order: owners and name servers.
pub fn zone_names(n: usize) -> Vec<NameBuf> {
    let records = Tld::new(name("test."), 4 * n as u64);
    let names = records.flat_map(|record| {
        let server = (record.rtype == Type::NS)
            .then(|| Name::from_wire(&record.rdata).ok().map(Name::to_buf))
            .flatten();
        [Some(record.owner), server]
    });
    names.flatten().take(n).collect()
}

fn compression() -> Vec<Piece> {
    let input = referral_input();
    let (mut names, mut buf) = (Compressor::small(), vec![0; 4096]);
    let referral = Piece::new("compress/referral", move || referral(black_box(&mut buf), &mut names, &input));

    let (mut names, mut buf, hosts) = (Compressor::large(), vec![0; 8192], hosts(MANY_NAMES));
    let many = Piece::new(format!("compress/{MANY_NAMES}-names"), move || {
        let mut b = Builder::new(black_box(&mut buf), 8192, Header::query(1), &mut names);
        for host in &hosts {
            b.name(black_box(host.as_name())).expect("fits");
        }
        b.finish()
    });
    vec![referral, many]
}

/// Contents of a query's OPT, if it has one: DO, and options.
type Opt<'a> = Option<(bool, &'a [u8])>;

/// Returns a query, with OPT if `edns` is set.
pub(crate) fn query(qname: Name<'_>, qtype: Type, edns: Opt<'_>) -> Vec<u8> {
    let mut header = Header::query(7);
    header.set_counts([1, 0, 0, edns.is_some() as u16]);
    let mut octets =
        [header.as_bytes().as_slice(), qname.as_wire(), &qtype.0.to_be_bytes(), &Class::IN.0.to_be_bytes()]
            .concat();
    if let Some((dnssec_ok, options)) = edns {
        octets.extend_from_slice(&[0, 0, 41, 0x04, 0xd0, 0, 0, (dnssec_ok as u8) << 7, 0]);
        octets.extend_from_slice(&(options.len() as u16).to_be_bytes());
        octets.extend_from_slice(options);
    }
    octets
}

fn parsing() -> Vec<Piece> {
    // An NSID request and a client cookie.
    let options = b"\0\x03\0\0\0\x0a\0\x08cookie..";
    let shapes: [(&str, Opt<'_>); 3] = [
        ("plain-query", None),
        ("edns-query", Some((true, b""))),
        ("edns-options-query", Some((true, options))),
    ];
    let mut pieces = Vec::new();
    for (shape, edns) in shapes {
        let octets = query(name(QNAME).as_name(), Type::A, edns);
        assert!(Request::read(&octets).fault.is_none());
        pieces.push(Piece::new(format!("parse/{shape}"), move || {
            let request = black_box(Request::read(black_box(&octets)));
            request.question.map_or(0, |question| question.len_in_message())
        }));
    }
    let mut message = vec![0; 4096];
    let len = referral(&mut message, &mut Compressor::small(), &referral_input());
    message.truncate(len);
    pieces.push(Piece::new("parse/referral-names-expanded", move || {
        let (header, mut parser) = Parser::new(black_box(&message)).expect("a header");
        parser.question().expect("a question");
        let records: u32 = header.counts()[1..].iter().map(|&n| n as u32).sum();
        let mut octets = 0;
        for _ in 0..records {
            let record = parser.record().expect("a record");
            octets += parser.name_at(record.owner_at).expect("a name").as_name().len();
        }
        octets
    }));
    pieces
}

/// Messages made by the builder alone: one address, and an error with an extended error.
fn rendering() -> Vec<Piece> {
    let (qname, mut names, mut buf) = (name(QNAME), Compressor::small(), vec![0; 512]);
    let address = Piece::new("render/one-address", move || {
        let mut b = Builder::new(black_box(&mut buf), 512, Header::query(1).reply(), &mut names);
        b.question(black_box(qname.as_name()), Type::A, Class::IN).expect("fits");
        let owner = Owner::At(Offset::QNAME);
        b.record(Section::Answer, owner, Type::A, Class::IN, HOUR, &[192, 0, 2, 1]).expect("fits");
        OptWriter::begin(&mut b, 1232, 0, true).expect("fits");
        b.finish()
    });
    let (mut names, mut buf) = (Compressor::small(), vec![0; 512]);
    let error = Piece::new("render/extended-error", move || {
        let mut b = Builder::new(black_box(&mut buf), 512, Header::query(1).reply(), &mut names);
        b.question(black_box(qname.as_name()), Type::A, Class::IN).expect("fits");
        b.set_rcode(Rcode::REFUSED);
        let mut opt = OptWriter::begin(&mut b, 1232, 0, true).expect("fits");
        opt.extended_error(&mut b, ErrorInfo::NOT_AUTHORITATIVE, "").expect("fits");
        b.finish()
    });
    vec![address, error]
}
