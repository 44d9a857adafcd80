//! Queries decoded byte by byte from the RFCs. Shares no code with what it is compared with.

use wire::{Class, Name, NameBuf, Type};

/// A query, as far as it can be decoded.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// The header's opcode.
    pub opcode: u8,
    /// The one question, if it can be decoded.
    pub question: Option<Asks>,
    /// The OPT record, if there is one and all sections can be decoded.
    pub opt: Option<Wants>,
    /// TSIG, if it is the message's last record.
    pub tsig: Option<Signed>,
    /// Whether the message does not match its header.
    pub malformed: bool,
    /// Whether the message is OPT with a cookie alone (RFC 7873 §5.4).
    pub is_cookie_alone: bool,
}

/// A question.
#[derive(Clone, Debug)]
pub struct Asks {
    /// QNAME as received.
    pub name: NameBuf,
    /// QTYPE.
    pub qtype: Type,
    /// QCLASS.
    pub qclass: Class,
}

impl Asks {
    /// Bytes of the question section.
    pub fn len(&self) -> usize {
        self.name.as_name().len() + 4
    }

    /// Always false: a question has a name, a type and a class.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// Contents of a client's OPT record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wants {
    /// UDP payload size as received.
    pub udp_size: u16,
    /// EDNS version.
    pub version: u8,
    /// DO.
    pub dnssec_ok: bool,
    /// NSID (RFC 5001).
    pub nsid: bool,
    /// TCP keepalive (RFC 7828).
    pub keepalive: bool,
    /// Cookie (RFC 7873).
    pub cookie: bool,
}

/// The part of a TSIG record that an error repeats, in lower case; `None` if it is malformed.
#[derive(Clone, Debug)]
pub struct Signed(pub Option<SignerKey>);

/// A key's name and algorithm.
#[derive(Clone, Debug)]
pub struct SignerKey {
    /// The owner.
    pub owner: NameBuf,
    /// The algorithm's name, followed by time signed and fudge.
    pub algorithm_and_time: Vec<u8>,
}

/// Decodes a packet; `None` for packets that never get a reply: shorter than a header, or responses.
pub fn read(packet: &[u8]) -> Option<Read> {
    if packet.len() < 12 || packet[2] & 0x80 != 0 {
        return None;
    }
    let mut read = Read { opcode: packet[2] >> 3 & 0xf, ..Read::default() };
    let mut at = 12;
    let whole = sections(packet, &mut at, &mut read);
    if whole.is_none() {
        // OPT is ignored where the sections cannot be decoded.
        read.opt = None;
    }
    // RFC 9619: one question.
    if count(packet, 0) != 1 {
        read.question = None;
    }
    read.is_cookie_alone = whole.is_some()
        && at == packet.len()
        && packet[4..12] == [0, 0, 0, 0, 0, 0, 0, 1]
        && read.opcode == 0
        && read.opt.is_some_and(|wants| wants.cookie && wants.version == 0);
    read.malformed = whole.is_none() || count(packet, 0) != 1 || at != packet.len();
    Some(read)
}

fn count(packet: &[u8], section: usize) -> u16 {
    u16::from_be_bytes([packet[4 + 2 * section], packet[5 + 2 * section]])
}

/// Reads all sections, and moves `at` to their end; `None` if one of them cannot be read.
fn sections(packet: &[u8], at: &mut usize, read: &mut Read) -> Option<()> {
    for _ in 0..count(packet, 0) {
        let name = Name::parse(packet.get(*at..)?).ok()?.to_buf();
        *at += name.as_name().len();
        let (qtype, qclass) = (Type(number(packet, at)?), Class(number(packet, at)?));
        read.question = Some(Asks { name, qtype, qclass });
    }
    for section in 1..4 {
        for left in (0..count(packet, section)).rev() {
            let owner = *at;
            skip_name(packet, at)?;
            let (rtype, class) = (Type(number(packet, at)?), number(packet, at)?);
            let ttl = [number(packet, at)?.to_be_bytes(), number(packet, at)?.to_be_bytes()].concat();
            let len = number(packet, at)? as usize;
            let rdata = *at..*at + len;
            *at += len;
            let data = packet.get(rdata.clone())?;
            match (rtype, section) {
                // RFC 6891 §6.1.1: one OPT, with the root as owner, in the additional section.
                (Type::OPT, 3) if packet[owner] == 0 && read.opt.is_none() => {
                    let (udp_size, version, dnssec_ok) = (class, ttl[1], ttl[2] & 0x80 != 0);
                    let mut wants = Wants { udp_size, version, dnssec_ok, ..Wants::default() };
                    options(data, &mut wants)?;
                    read.opt = Some(wants);
                }
                // RFC 8945 §5.1: TSIG is the last record.
                (Type::TSIG, 3) if left == 0 => read.tsig = Some(Signed(key(packet, owner, rdata.clone()))),
                (Type::OPT | Type::TSIG, _) => return None,
                _ => {}
            }
        }
    }
    Some(())
}

/// Returns the number at `at`, and moves `at` past it.
fn number(packet: &[u8], at: &mut usize) -> Option<u16> {
    let bytes = packet.get(*at..*at + 2)?;
    *at += 2;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// Skips a name without following its pointer (RFC 1035 §4.1.4).
fn skip_name(packet: &[u8], at: &mut usize) -> Option<()> {
    let start = *at;
    loop {
        let len = *packet.get(*at)?;
        match len {
            0 => *at += 1,
            0xc0.. => {
                packet.get(*at + 1)?;
                *at += 2;
            }
            1..=63 => {
                *at += len as usize + 1;
                // A name has at most 255 bytes, including the root label.
                if *at - start > 254 {
                    return None;
                }
                continue;
            }
            _ => return None,
        }
        return Some(());
    }
}

/// Returns the name at `at`. Follows its pointers, each of which must point before the labels that it ends.
fn name_at(packet: &[u8], mut at: usize) -> Option<NameBuf> {
    let (mut wire, mut run) = (Vec::new(), at);
    loop {
        let len = *packet.get(at)?;
        match len {
            0 => {
                wire.push(0);
                return Name::from_wire(&wire).ok().map(Name::to_buf);
            }
            0xc0.. => {
                let target = usize::from(len & 0x3f) << 8 | usize::from(*packet.get(at + 1)?);
                if target >= run {
                    return None;
                }
                (at, run) = (target, target);
            }
            1..=63 => {
                wire.extend_from_slice(packet.get(at..=at + len as usize)?);
                at += len as usize + 1;
            }
            _ => return None,
        }
        if wire.len() > 254 {
            return None;
        }
    }
}

/// Reads the options, which must fill the record (RFC 6891 §6.1.2).
fn options(mut data: &[u8], wants: &mut Wants) -> Option<()> {
    while !data.is_empty() {
        let code = u16::from_be_bytes([*data.first()?, *data.get(1)?]);
        let len = u16::from_be_bytes([*data.get(2)?, *data.get(3)?]) as usize;
        data = data.get(4 + len..)?;
        // RFC 9660 §3: ZONEVERSION in a query has no data.
        if code == 19 && len > 0 {
            return None;
        }
        // RFC 7873 §5.2.2: a client cookie of 8 bytes, and a server cookie of 8 to 32.
        if code == 10 && !matches!(len, 8 | 16..=40) {
            return None;
        }
        wants.cookie |= code == 10;
        wants.nsid |= code == 3;
        wants.keepalive |= code == 11;
    }
    Some(())
}

/// Reads a TSIG record: class ANY, TTL 0; its RDATA is the uncompressed algorithm name, time signed and
/// fudge, MAC, original ID, error, other data (RFC 8945 §4.2).
fn key(packet: &[u8], owner: usize, rdata: std::ops::Range<usize>) -> Option<SignerKey> {
    let head = packet.get(rdata.start.checked_sub(10)?..rdata.start)?;
    let owner: NameBuf = name_at(packet, owner)?.as_name().to_lower().into();
    let algorithm: NameBuf = name_at(packet, rdata.start)?.as_name().to_lower().into();
    let mut at = rdata.start + algorithm.as_name().len();
    let mut behind = rdata.start;
    skip_name(packet, &mut behind)?;
    let time = packet.get(at..at + 8)?;
    at += 8;
    for fixed in [4, 0] {
        at += usize::from(number(packet, &mut at)?) + fixed;
    }
    let well_formed = head[2..8] == [0, 255, 0, 0, 0, 0] && behind == rdata.start + algorithm.as_name().len();
    (well_formed && at == rdata.end)
        .then(|| SignerKey { owner, algorithm_and_time: [algorithm.as_name().as_wire(), time].concat() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_with_opt_and_one_without_are_read() {
        let plain = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
        let seen = read(plain).expect("a query");
        assert!(!seen.malformed && seen.opt.is_none());
        assert_eq!(seen.question.map(|q| (q.len(), q.qtype, q.qclass)), Some((7, Type::A, Class::IN)));
        let mut with_opt = plain.to_vec();
        with_opt[11] = 1;
        with_opt.extend(b"\0\0\x29\x04\xd0\0\x01\x80\0\0\x04\0\x03\0\0");
        let wants = read(&with_opt).expect("a query").opt.expect("OPT");
        assert_eq!((wants.udp_size, wants.version, wants.dnssec_ok, wants.nsid), (1232, 1, true, true));
        with_opt.push(0);
        assert!(read(&with_opt).is_some_and(|seen| seen.malformed && seen.opt.is_some()));
        with_opt.truncate(30);
        assert!(read(&with_opt).is_some_and(|seen| seen.malformed && seen.opt.is_none()));
    }

    #[test]
    fn responses_and_stubs_are_nothing_to_read() {
        assert!(read(b"stub").is_none() && read(b"\0\0\x80\0\0\0\0\0\0\0\0\0").is_none());
    }
}
