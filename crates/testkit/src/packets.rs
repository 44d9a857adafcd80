//! Batches of packets, from ordinary clients and from other senders.

use wire::{Class, Name, NameBuf, Type};

use crate::choices::Choices;

/// Packets that arrive together.
#[derive(Clone, Debug)]
pub struct PacketBatch {
    /// Whether they arrive by a stream.
    pub stream: bool,
    /// Maximum size of a reply in bytes.
    pub room: usize,
    /// The packets.
    pub packets: Vec<Vec<u8>>,
}

/// Maximum number of packets in a batch: more than a worker handles at once.
const MAX_PACKETS: usize = 80;

const TYPES: [Type; 24] = [
    Type::A,
    Type::AAAA,
    Type::NS,
    Type::MX,
    Type::SRV,
    Type::SVCB,
    Type::CNAME,
    Type::DNAME,
    Type::SOA,
    Type::DS,
    Type::ANY,
    Type::RRSIG,
    Type::NSEC,
    Type::NSEC3,
    Type::NSEC3PARAM,
    Type::TXT,
    Type::A,
    Type::MX,
    Type::AXFR,
    Type::IXFR,
    Type::OPT,
    Type::TSIG,
    Type(0),
    Type(65_280),
];

/// Names about the server itself (RFC 4892), in wire form.
const CHAOS: [&[u8]; 5] = [
    b"\x07version\x04bind\0",
    b"\x02id\x06server\0",
    b"\x07version\x06server\0",
    b"\x08hostname\x04bind\0",
    b"\x07authors\x04bind\0",
];

/// Makes a batch that asks for `names` and for names near them.
pub fn batch(choices: &mut Choices<'_>, names: &[NameBuf]) -> PacketBatch {
    let stream = choices.one_in(4);
    let room = if stream { 65_535 } else { choices.pick(&[4096, 1232, 65_535, 1000, 512]) };
    let count = 1 + choices.below(MAX_PACKETS);
    let packets = (0..count as u16).map(|i| packet(choices, i << 8 | i, names)).collect();
    PacketBatch { stream, room, packets }
}

fn packet(choices: &mut Choices<'_>, id: u16, names: &[NameBuf]) -> Vec<u8> {
    let mut packet = match choices.byte() {
        0..230 => query(choices, id, names),
        _ => (0..choices.below(200)).map(|_| choices.byte()).collect(),
    };
    if choices.one_in(8) {
        damage(choices, &mut packet);
    }
    packet
}

fn damage(choices: &mut Choices<'_>, packet: &mut Vec<u8>) {
    match choices.below(4) {
        0 => packet.truncate(choices.below(packet.len() + 1)),
        1 => packet.extend((0..1 + choices.below(20)).map(|_| choices.byte())),
        _ => {
            for _ in 0..1 + choices.below(4) {
                let at = choices.below(packet.len());
                let flipped = choices.byte().max(1);
                packet.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= flipped);
            }
        }
    }
}

/// Makes a query, well formed most of the time.
fn query(choices: &mut Choices<'_>, id: u16, names: &[NameBuf]) -> Vec<u8> {
    let mut sections = [const { Vec::<Vec<u8>>::new() }; 4];
    let asked = question(choices, names);
    sections[0].push(asked.clone());
    if choices.one_in(40) {
        sections[0].clear();
    }
    if choices.one_in(40) {
        sections[0].push(asked);
    }
    if choices.one_in(20) {
        sections[1 + choices.below(3)].push(record(choices));
    }
    for _ in 0..choices.pick(&[0, 1, 1, 1, 1, 1, 1, 2]) {
        let section = if choices.one_in(40) { 1 + choices.below(2) } else { 3 };
        let opt = opt(choices);
        sections[section].push(opt);
    }
    if choices.one_in(20) {
        let section = if choices.one_in(8) { 1 + choices.below(2) } else { 3 };
        let tsig = tsig(choices, id);
        sections[section].push(tsig);
        if choices.one_in(8) {
            sections[section].push(record(choices));
        }
    }
    let mut packet = id.to_be_bytes().to_vec();
    packet.extend_from_slice(&flags(choices));
    for section in &sections {
        let count = section.len() as u16 + choices.one_in(100) as u16;
        packet.extend_from_slice(&count.to_be_bytes());
    }
    packet.extend(sections.concat().concat());
    packet
}

/// Returns the two flag bytes, with opcode and response code.
fn flags(choices: &mut Choices<'_>) -> [u8; 2] {
    let mut high = choices.byte() & 1; // RD
    if choices.one_in(12) {
        high |= choices.pick(&[4, 5, 2, 1, 3, 6, 15]) << 3;
    }
    if choices.one_in(30) {
        high |= choices.byte() & 0x86; // QR, AA, TC
    }
    let low = if choices.one_in(8) { choices.byte() } else { 0 };
    [high, low]
}

fn question(choices: &mut Choices<'_>, names: &[NameBuf]) -> Vec<u8> {
    if choices.one_in(24) {
        let qclass = if choices.one_in(8) { Class::IN } else { Class::CH };
        let qtype = choices.pick(&[Type::TXT, Type::ANY, Type::A, Type::SOA]);
        let name = choices.pick(&CHAOS);
        let name = Name::from_wire(name).map_or(NameBuf::ROOT, Name::to_buf);
        return asked(choices, name, qtype, qclass);
    }
    let mut name = if names.is_empty() { NameBuf::ROOT } else { choices.pick(names) };
    for _ in 0..choices.pick(&[0, 1, 0, 2]) {
        let label = choices.pick(&[&b"a"[..], b"b", b"*", b"ns", b"zz", b"nowhere"]);
        name = NameBuf::prepend(label, name.as_name()).unwrap_or(name);
    }
    let qtype = if choices.one_in(16) { Type(choices.number()) } else { choices.pick(&TYPES) };
    let qclass = match choices.one_in(12) {
        true => choices.pick(&[Class::ANY, Class::CH, Class::HS, Class(254), Class(0)]),
        false => Class::IN,
    };
    asked(choices, name, qtype, qclass)
}

/// Returns the question in wire form, with random letter case in its name.
fn asked(choices: &mut Choices<'_>, name: NameBuf, qtype: Type, qclass: Class) -> Vec<u8> {
    let mut wire = name.as_name().as_wire().to_vec();
    if choices.one_in(3) {
        let mut at = 0;
        while wire[at] != 0 {
            let label = at + 1..at + 1 + wire[at] as usize;
            at = label.end;
            for byte in &mut wire[label] {
                if byte.is_ascii_alphabetic() && choices.one_in(2) {
                    *byte ^= 0x20;
                }
            }
        }
    }
    [&wire, &qtype.0.to_be_bytes()[..], &qclass.0.to_be_bytes()].concat()
}

/// Makes a record that no query needs.
fn record(choices: &mut Choices<'_>) -> Vec<u8> {
    let owner = choices.pick(&[&b"\xc0\x0c"[..], b"\0", b"\x01x\0", b"\xff\xff", b"\x01x\xc0\x0c"]);
    let rtype = choices.pick(&[Type::A, Type::SOA, Type::TXT, Type(65_280)]);
    [owner, &rtype.0.to_be_bytes(), &[0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]].concat()
}

fn opt(choices: &mut Choices<'_>) -> Vec<u8> {
    let owner = if choices.one_in(60) { &b"\xc0\x0c"[..] } else { b"\0" };
    let size = match choices.below(7) {
        6 => choices.number(),
        i => [1232, 4096, 512, 0, 700, 65_535][i],
    };
    let dnssec_ok = choices.one_in(2) as u8;
    let version = if choices.one_in(24) { choices.byte() } else { 0 };
    let (high, low) = if choices.one_in(16) { (choices.byte() & 0x7f, choices.byte()) } else { (0, 0) };
    let mut options = Vec::new();
    for _ in 0..choices.pick(&[0, 0, 1, 2, 3]) {
        let (code, len) =
            choices.pick(&[(3u16, 0), (11, 0), (10, 8), (12, 40), (65_001, 3), (3, 2), (11, 2)]);
        options.extend_from_slice(&code.to_be_bytes());
        options.extend_from_slice(&(len as u16 + choices.one_in(100) as u16).to_be_bytes());
        options.resize(options.len() + len, 0);
    }
    let len = options.len() as u16;
    let fixed = [0, version, dnssec_ok << 7 | high, low];
    [owner, &[0, 41], &size.to_be_bytes(), &fixed, &len.to_be_bytes(), &options].concat()
}

/// Makes a TSIG record with an unknown key.
fn tsig(choices: &mut Choices<'_>, id: u16) -> Vec<u8> {
    let owner = choices.pick(&[&b"\x03key\0"[..], b"\x01k\xc0\x0c", b"\0", b"\xc0\xff"]);
    let algorithm = choices.pick(&[&b"\x0bhmac-sha256\0"[..], b"\xc0\x0c", b"\0"]);
    let mac_len = choices.pick(&[4u8, 0, 32]);
    let behind = [&id.to_be_bytes()[..], &[0, 0, 0, 0]].concat();
    let time = [0, 0, 0x65, 0, 0, choices.byte(), 1, 44];
    let mac = vec![0xaa; mac_len as usize];
    let rdata = [algorithm, &time, &[0, mac_len], &mac, &behind].concat();
    let len = rdata.len() as u16;
    [owner, &[0, 250, 0, 255, 0, 0, 0, 0], &len.to_be_bytes(), &rdata].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tld::mix;
    use crate::{name, query};

    #[test]
    fn no_bytes_make_the_plainest_batch() {
        let batch = batch(&mut Choices::new(&[]), &[name("a.example.")]);
        assert!(!batch.stream);
        let [packet] = &batch.packets[..] else { panic!("{batch:?}") };
        let read = query::read(packet).expect("a query");
        let asks = read.question.expect("a question");
        assert_eq!((asks.name, asks.qtype, asks.qclass), (name("a.example."), Type::A, Class::IN));
        assert!(read.opt.is_none() && !read.malformed);
    }

    /// Callers rely on this: every kind of packet occurs, good ones most often.
    #[test]
    fn every_kind_of_packet_is_made() {
        let (mut good, mut malformed, mut silent, mut opts, mut keys) = (0, 0, 0, 0, 0);
        let bytes: Vec<u8> = (0..200_000).map(|i| mix(i) as u8).collect();
        let mut choices = Choices::new(&bytes);
        while !choices.is_over() {
            for packet in batch(&mut choices, &[name("a.example.")]).packets {
                match query::read(&packet) {
                    None => silent += 1,
                    Some(read) if read.malformed => malformed += 1,
                    Some(read) => {
                        good += 1;
                        opts += read.opt.is_some() as usize;
                        keys += read.tsig.is_some() as usize;
                    }
                }
            }
        }
        let all = good + malformed + silent;
        assert!(all > 2000 && good > all / 2 && opts > good / 2, "{good} of {all} good, {opts} with OPT");
        assert!(malformed > all / 20 && silent > all / 50 && keys > 20, "{malformed} {silent} {keys}");
    }
}
