//! The expected response to a packet: the sections of [`answers`](crate::answers) in a message as the RFCs
//! prescribe. Responses are checked one by one.

use wire::{Class, NameBuf, Rcode, Ttl, Type};

use crate::answers::{Expected, Line, ModelZones, NoAnswer};
use crate::decode::{Decoded, Opt, decode};
use crate::query::{self, Asks, Read, Signed, Wants};

/// A server without recursion, transfers, keys, NOTIFY and UPDATE.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Its zones.
    pub served: ModelZones,
    /// Maximum UDP payload size that it accepts and sends, in bytes.
    pub max_udp_size: u16,
    /// NSID (RFC 5001); empty if off.
    pub nsid: Vec<u8>,
    /// Idle timeout of streams in units of 100 ms (RFC 7828).
    pub keepalive: u16,
    /// Answer to `version.bind` (RFC 4892); `None` hides it.
    pub version: Option<Vec<u8>>,
    /// Answer to `id.server`; `None` hides it.
    pub id: Option<Vec<u8>>,
    /// The agent domain (RFC 9567), sent in responses from zones that do not contain it.
    pub agent: Option<NameBuf>,
}

/// The expected response.
struct Due<'r> {
    read: &'r Read,
    /// Response code and sections.
    sections: Expected,
    /// The class of the records.
    class: Class,
    /// The extended error code (RFC 8914).
    info: Option<u16>,
}

/// Extended error codes (RFC 8914 §4).
const INVALID_DATA: u16 = 24;
const PROHIBITED: u16 = 18;
const NOT_AUTHORITATIVE: u16 = 20;
const NOT_SUPPORTED: u16 = 21;

/// Option codes (IANA "DNS EDNS0 Option Codes").
const NSID: u16 = 3;
const KEEPALIVE: u16 = 11;
const EXTENDED_ERROR: u16 = 15;
const REPORT_CHANNEL: u16 = 18;

/// Size of OPT without options, in bytes.
const OPT_LEN: usize = 11;
/// Size of the header, in bytes.
const HEADER_LEN: usize = 12;

impl Reference {
    /// Checks the reply to `packet` over a stream. `None` means no reply.
    ///
    /// # Panics
    /// If it is another: tests call this.
    pub fn check(&self, packet: &[u8], reply: Option<&[u8]>) {
        let Some((read, reply)) = spoken(packet, reply) else { return };
        let expected = self.due(&read);
        self.check_frame(packet, &reply, &expected, None);
        assert!(!reply.header.truncated(), "TC, and everything fits");
        check_records(&reply, &expected);
    }

    /// Checks the reply to `packet` in a datagram of at most `room` bytes. `whole` is the reply to the same
    /// packet over a stream.
    ///
    /// # Panics
    /// If it is another: tests call this.
    pub fn check_datagram(&self, packet: &[u8], room: usize, reply: Option<&[u8]>, whole: Option<&[u8]>) {
        self.check(packet, whole);
        let Some((read, reply)) = spoken(packet, reply) else { return };
        let expected = self.due(&read);
        let limit = self.limit(&read, room);
        self.check_frame(packet, &reply, &expected, Some(limit));
        let Some(whole) = whole.map(decode) else { panic!("no whole reply") };
        assert!(reply.bytes.len() <= limit, "{} bytes, more than {limit}", reply.bytes.len());
        let needed = needed(&whole, expected.sections.cut) + self.opt_len(&read);
        if needed > limit {
            // RFC 2181 §9: the client asks again over a stream, and ignores these records.
            assert!(reply.header.truncated(), "no TC, though {needed} bytes do not fit {limit}");
            assert_eq!(reply.sections, [const { Vec::new() }; 3], "cut, and not to the question");
            return;
        }
        assert!(!reply.header.truncated(), "TC, though {needed} bytes fit {limit}");
        // Over a stream there may also be a keepalive timeout and a TSIG.
        if records_end(&whole) + self.opt_len(&read) <= limit {
            return check_records(&reply, &expected);
        }
        check_additional(&reply, &expected.sections);
        let [answer, authority, _] = reply.sections.clone();
        let sections = Expected { additional: Vec::new(), ..expected.sections };
        check_records(
            &Decoded { sections: [answer, authority, Vec::new()], ..reply },
            &Due { sections, ..expected },
        );
    }

    /// Returns the maximum size of a datagram, in bytes.
    fn limit(&self, read: &Read, room: usize) -> usize {
        // RFC 6891 §6.2.3 and §6.2.5; RFC 1035 §4.2.1 without OPT.
        let taken = read.opt.map_or(512, |wants| wants.udp_size.min(self.max_udp_size).max(512));
        room.min(taken.into())
    }

    /// Returns the size of OPT in a response without an error.
    fn opt_len(&self, read: &Read) -> usize {
        let nsid = |wants: Wants| if wants.nsid && !self.nsid.is_empty() { 4 + self.nsid.len() } else { 0 };
        read.opt.map_or(0, |wants| OPT_LEN + nsid(wants))
    }

    /// Returns the expected response: errors first, then what this server does not serve, then data.
    fn due<'r>(&self, read: &'r Read) -> Due<'r> {
        let no = |rcode, info| Due { read, sections: Expected::nothing(rcode), class: Class::IN, info };
        let known = matches!(read.opcode, 0 | 4 | 5);
        if read.is_cookie_alone {
            return no(Rcode::NOERROR, None);
        }
        if known && read.malformed {
            return no(Rcode::FORMERR, None);
        }
        // RFC 6891 §6.1.3.
        if known && read.opt.is_some_and(|wants| wants.version > 0) {
            return no(Rcode::BADVERS, None);
        }
        let Some(asks) = read.question.as_ref().filter(|_| read.opcode == 0) else {
            return no(Rcode::NOTIMP, None);
        };
        // RFC 8945 §5.2: TSIG must be well formed, and this server has no keys.
        match read.tsig {
            Some(Signed(None)) => return no(Rcode::FORMERR, None),
            Some(Signed(Some(_))) => return no(Rcode::NOTAUTH, None),
            None => {}
        }
        match (asks.qclass, asks.qtype) {
            (Class::IN | Class::CH | Class::ANY, Type::AXFR | Type::IXFR) => {
                no(Rcode::REFUSED, Some(PROHIBITED))
            }
            (Class::CH, _) => self.chaos(read, asks).unwrap_or(no(Rcode::REFUSED, Some(NOT_AUTHORITATIVE))),
            (Class::IN | Class::ANY, _) => {
                let dnssec_ok = read.opt.is_some_and(|wants| wants.dnssec_ok);
                match self.served.answer(asks.name.as_name(), asks.qtype, dnssec_ok) {
                    Err(NoAnswer::NoZone) => no(Rcode::REFUSED, Some(NOT_AUTHORITATIVE)),
                    Err(NoAnswer::NotLoaded) => no(Rcode::SERVFAIL, Some(INVALID_DATA)),
                    Ok(mut sections) => {
                        // RFC 1035 §6.2: there may be more records in other classes.
                        sections.authoritative &= asks.qclass == Class::IN;
                        Due { read, sections, class: Class::IN, info: None }
                    }
                }
            }
            _ => no(Rcode::REFUSED, Some(NOT_SUPPORTED)),
        }
    }

    /// Answers a CHAOS query (RFC 4892 §3.1), also for `version.bind`.
    fn chaos<'r>(&self, read: &'r Read, asks: &Asks) -> Option<Due<'r>> {
        let text = match asks.name.to_string().to_ascii_lowercase().as_str() {
            "version.bind." | "version.server." => self.version.as_ref(),
            "id.server." | "hostname.bind." => self.id.as_ref(),
            _ => None,
        }?;
        let mut sections = Expected { authoritative: true, ..Expected::nothing(Rcode::NOERROR) };
        if matches!(asks.qtype, Type::TXT | Type::ANY) {
            let strings = text.chunks(255).map(|part| [&[part.len() as u8], part].concat());
            let rdata = strings.collect::<Vec<_>>().concat();
            sections.answer.push(Line { owner: asks.name, rtype: Type::TXT, ttl: Ttl::ZERO, rdata });
        }
        Some(Due { read, sections, class: Class::CH, info: None })
    }

    /// Checks header, question, OPT and TSIG. A datagram has at most `limit` bytes.
    fn check_frame(&self, packet: &[u8], reply: &Decoded, expected: &Due<'_>, limit: Option<usize>) {
        let Due { read, sections, info, .. } = expected;
        // The code is that of the end of a chain (RFC 6604 §3), which a truncated response may not reach.
        let unknown = reply.header.truncated() && sections.is_chain() && reply.rcode == Rcode::NOERROR;
        let due = sections.rcode_said(read);
        assert!(unknown || reply.rcode == due, "response code {:?}, expected {due:?}", reply.rcode);
        assert_eq!(reply.bytes[..2], packet[..2], "ID");
        // QR; opcode and RD copied (RFC 1035 §4.1.1). AD and CD concern resolvers, and RA is not offered.
        let (aa, tc) = (sections.authoritative as u8, reply.header.truncated() as u8);
        assert_eq!(reply.bytes[2], 0x80 | packet[2] & 0x79 | aa << 2 | tc << 1, "flags");
        assert_eq!(reply.bytes[3] & 0xf0, 0, "flags");
        let question = read.question.as_ref().map_or(&[][..], |asks| &packet[HEADER_LEN..][..asks.len()]);
        assert_eq!(reply.question, question, "the question comes back byte by byte");
        let key = read.tsig.as_ref().filter(|_| sections.rcode == Rcode::NOTAUTH);
        let key = key.and_then(|Signed(key)| key.as_ref());
        // A key with a long name leaves no room for NSID: the error has priority.
        let no_room = key.is_some() && reply.bytes.len() + 4 + self.nsid.len() > 512;
        let nsid = |wants: Wants| {
            wants.nsid && !(no_room && reply.opt.as_ref().is_some_and(|opt| opt.options.is_empty()))
        };
        let stream = limit.is_none();
        let mut opt = read.opt.map(|wants| self.opt(Wants { nsid: nsid(wants), ..wants }, *info, stream));
        if let (Some(opt), Some(agent)) = (&mut opt, self.agent_for(read)) {
            let agent = agent.as_name().as_wire().to_vec();
            // No record is dropped to make room for this option.
            let is_there =
                reply.opt.iter().flat_map(|opt| &opt.options).any(|(code, _)| *code == REPORT_CHANNEL);
            let option = 4 + agent.len();
            let without = reply.bytes.len() - if is_there { option } else { 0 };
            if limit.is_none_or(|limit| without + option <= limit) {
                opt.options.push((REPORT_CHANNEL, agent));
            }
        }
        assert_eq!(reply.opt, opt, "OPT");
        match key {
            None => assert!(reply.tsig.is_none(), "a TSIG out of nothing"),
            Some(key) => {
                // RFC 8945 §5.2.1 and §5.3.2: BADKEY, and nothing is signed.
                let rdata = [&key.algorithm_and_time, &[0, 0][..], &packet[..2], &[0, 17, 0, 0]].concat();
                let (owner, rtype, ttl) = (key.owner, Type::TSIG, Ttl::ZERO);
                let fits = reply.bytes.len() + owner.as_name().len() + 10 + rdata.len() <= 512;
                let tsig = Line { owner, rtype, ttl, rdata };
                assert!(reply.tsig == Some(tsig) || reply.tsig.is_none() && !fits, "{:?}", reply.tsig);
            }
        }
    }

    /// Returns the error-reporting agent for a response: only in zones that do not contain it (RFC 9567 §6.2,
    /// §8.1).
    fn agent_for(&self, read: &Read) -> Option<NameBuf> {
        let asks = read.question.as_ref().filter(|_| read.opcode == 0 && read.tsig.is_none())?;
        let goes_on = !read.malformed && read.opt.is_some_and(|wants| wants.version == 0);
        let is_data =
            !matches!(asks.qtype, Type::AXFR | Type::IXFR) && matches!(asks.qclass, Class::IN | Class::ANY);
        let zone = self.served.apex_for(asks.name.as_name(), asks.qtype).filter(|_| goes_on && is_data)?;
        self.agent.filter(|agent| !agent.as_name().is_at_or_below(zone.as_name()))
    }

    /// Returns OPT of a response (RFC 6891 §6.1.1, §7): DO is copied (RFC 3225 §3), options appear only if
    /// requested.
    fn opt(&self, wants: Wants, info: Option<u16>, stream: bool) -> Opt {
        let mut options = Vec::new();
        if wants.nsid && !self.nsid.is_empty() {
            options.push((NSID, self.nsid.clone()));
        }
        if wants.keepalive && stream {
            options.push((KEEPALIVE, self.keepalive.to_be_bytes().to_vec()));
        }
        options.extend(info.map(|info| (EXTENDED_ERROR, info.to_be_bytes().to_vec())));
        let flags = u16::from(wants.dnssec_ok) << 15;
        Opt { udp_size: self.max_udp_size, version: 0, flags, options }
    }
}

impl Expected {
    /// Returns the code as sent: without OPT its upper bits are lost (RFC 6891 §6.1.3).
    fn rcode_said(&self, read: &Read) -> Rcode {
        if read.opt.is_some() { self.rcode } else { Rcode(self.rcode.0 & 0xf) }
    }

    /// Whether the answer contains a CNAME or a DNAME.
    fn is_chain(&self) -> bool {
        self.answer.iter().any(|line| matches!(line.rtype, Type::CNAME | Type::DNAME))
    }
}

/// Decodes query and response; `None` if the query gets none.
fn spoken(packet: &[u8], reply: Option<&[u8]>) -> Option<(Read, Decoded)> {
    match (query::read(packet), reply) {
        (None, None) => None,
        (Some(read), Some(reply)) => Some((read, decode(reply))),
        (None, Some(_)) => panic!("a reply to what is no query"),
        (Some(_), None) => panic!("no reply"),
    }
}

fn check_records(reply: &Decoded, expected: &Due<'_>) {
    if let Err(wrong) = expected.sections.compare(&reply.sections) {
        panic!("{wrong}");
    }
    assert_eq!(reply.class.unwrap_or(expected.class), expected.class, "class");
}

/// Whether a host's address is required in the referral (RFC 9471 §3.1).
fn is_required(line: &Line, cut: Option<NameBuf>) -> bool {
    cut.is_some_and(|cut| line.owner.as_name().is_at_or_below(cut.as_name()))
}

/// Returns the offset at which the last record ends, not counting OPT and TSIG.
fn records_end(reply: &Decoded) -> usize {
    let last = reply.ends.iter().flatten().max();
    last.copied().unwrap_or(HEADER_LEN + reply.question.len())
}

/// Returns the offset at which the last required record of a whole response ends, not counting OPT.
fn needed(whole: &Decoded, cut: Option<NameBuf>) -> usize {
    let [answer, authority, additional] = &whole.ends;
    let required = additional.iter().zip(&whole.sections[2]).filter(|(_, line)| is_required(line, cut));
    let ends = answer.iter().chain(authority).chain(required.map(|(end, _)| end));
    ends.copied().max().unwrap_or(HEADER_LEN + whole.question.len())
}

/// Checks that the additional section consists of whole RRsets with their signatures, and contains all
/// required ones (RFC 2181 §9, RFC 9471 §3.1).
fn check_additional(reply: &Decoded, expected: &Expected) {
    // A signature belongs to the RRset that it covers.
    let set = |line: &Line| {
        let covered = line.rdata.first_chunk().map(|covered| Type(u16::from_be_bytes(*covered)));
        (line.owner, if line.rtype == Type::RRSIG { covered.unwrap_or(Type::RRSIG) } else { line.rtype })
    };
    let (there, all) = (expected.comparable(&reply.sections[2]), expected.comparable(&expected.additional));
    for line in &there {
        assert!(all.contains(line), "{line:?} does not belong in the additional section");
    }
    for line in &all {
        let is_there = there.iter().any(|other| set(other) == set(line));
        assert!(is_there || !is_required(line, expected.cut), "{line:?} is missing");
        assert!(!is_there || there.contains(line), "half of the RRset of {line:?}");
    }
    assert!(there.len() < all.len(), "nothing is left out, yet the whole reply is larger");
}
