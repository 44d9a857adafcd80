//! Queries to upstream servers, and the matching of replies to them.

use wire::edns::{Edns, OptWriter, OptionCode};
use wire::message::{Builder, Compressor, Header, Parser};
use wire::name::MAX_NAME;
use wire::{LowerNameBuf, Name, NameBuf, Rcode, Type};

use crate::query_key::QueryKey;
use crate::random::Random;
use crate::server::CLIENT_COOKIE;

/// Size of the largest query: the longest name, and OPT with the longest cookie.
const QUERY_ROOM: usize = 512;
/// Padded queries have a multiple of this many bytes (RFC 8467 §4.1).
const PADDED_TO: usize = 128;
const _: () = assert!(QUERY_ROOM.is_multiple_of(PADDED_TO));
/// Bytes of an option's code and length (RFC 6891 §6.1.2).
const OPTION_HEAD: usize = 4;
/// Bytes of a server cookie (RFC 7873 §4).
const SERVER_COOKIE: std::ops::RangeInclusive<usize> = 8..=32;

/// The contents of OPT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opt {
    /// The largest UDP response that we accept, in bytes.
    pub(crate) udp_size: u16,
    /// The cookies: ours, and the server's or nothing.
    pub(crate) cookie: Option<([u8; CLIENT_COOKIE], Vec<u8>)>,
    /// Whether the message is padded, so that its length does not tell the name (RFC 7830).
    pub(crate) padded: bool,
}

/// Returns the name in random letter case (draft-vixie-dnsext-dns0x20).
pub(crate) fn mix_case(name: Name<'_>, random: &mut impl Random) -> NameBuf {
    let (mut bits, mut left) = (0, 0);
    let mut mixed = [0; MAX_NAME];
    let Some(mixed) = mixed.get_mut(..name.len()) else { return name.to_buf() };
    for (mixed, &byte) in mixed.iter_mut().zip(name.as_wire()) {
        *mixed = byte;
        // Length bytes are below 64, letters above.
        if byte.is_ascii_alphabetic() {
            if left == 0 {
                (bits, left) = (random.next_u32(), u32::BITS);
            }
            left -= 1;
            bits = u32::rotate_right(bits, 1);
            *mixed = if bits & 1 == 0 { byte.to_ascii_lowercase() } else { byte.to_ascii_uppercase() };
        }
    }
    Name::from_wire(mixed).map_or_else(|_| name.to_buf(), Name::to_buf)
}

/// Builds a query. AD requests AD in the reply (RFC 6840 §5.7).
pub(crate) fn build(
    id: u16,
    name: Name<'_>,
    query_key: &QueryKey,
    recursion_desired: bool,
    opt: Option<&Opt>,
) -> Vec<u8> {
    let mut buf = [0; QUERY_ROOM];
    let mut names = Compressor::small();
    let mut header = Header::query(id);
    header.set_recursion_desired(recursion_desired);
    header.set_authentic_data(true);
    header.set_checking_disabled(query_key.checking_disabled);
    let mut b = Builder::new(&mut buf, QUERY_ROOM, header, &mut names);
    // It always fits: see QUERY_ROOM.
    let _ = b.question(name, query_key.qtype, query_key.qclass);
    if let Some(opt) = opt
        && let Ok(mut writer) = OptWriter::begin(&mut b, opt.udp_size, 0, query_key.dnssec_ok)
    {
        if let Some((client, server)) = &opt.cookie {
            let _ = writer.option(&mut b, OptionCode::COOKIE, &[client, server]);
        }
        if opt.padded {
            let used = b.len() + OPTION_HEAD;
            let padding = used.next_multiple_of(PADDED_TO) - used;
            let _ = writer.option(&mut b, OptionCode::PADDING, &[&[0; PADDED_TO][..padding]]);
        }
    }
    let len = b.finish();
    buf[..len].to_vec()
}

/// The parts of a sent query that its reply must repeat.
pub(crate) struct Sent<'a> {
    pub(crate) id: u16,
    pub(crate) name: Name<'a>,
    pub(crate) query_key: &'a QueryKey,
    /// Our cookie, if it was sent.
    pub(crate) cookie: Option<[u8; CLIENT_COOKIE]>,
}

/// Why a message is not the reply to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMismatch {
    /// It is not a response, or its header or question is malformed.
    Unreadable,
    /// Wrong ID.
    Id,
    /// Wrong question.
    Question,
    /// QNAME in a different letter case.
    Case,
    /// Wrong client cookie, or none where the server is known to send it.
    Cookie,
}

/// Properties of a matching reply besides its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The response code, with the bits of OPT.
    pub(crate) rcode: Rcode,
    /// TC: the whole reply is available over a stream.
    pub(crate) truncated: bool,
    /// RA without AA: the server offers recursion, and its reply is not authoritative.
    pub(crate) recursive: bool,
    /// It has an OPT record.
    pub(crate) edns: bool,
    /// It has several OPT records, which is a format error (RFC 6891 §6.1.1).
    pub(crate) several_opts: bool,
    /// The server's cookie.
    pub(crate) cookie: Option<Vec<u8>>,
    /// The agent domain that the server names (RFC 9567 §5); `None` also for an empty or malformed one and
    /// the root.
    pub(crate) agent: Option<Box<LowerNameBuf>>,
    /// It repeats the question; errors of old servers may not.
    pub(crate) question: bool,
    /// QNAME has the letter case that was sent.
    pub(crate) same_case: bool,
}

/// Parses as much of a message as is needed to match it with the query.
pub(crate) fn read(message: &[u8], sent: &Sent<'_>) -> Result<Reply, ReplyMismatch> {
    let (header, mut parser) = Parser::new(message).map_err(|_| ReplyMismatch::Unreadable)?;
    if header.id() != sent.id {
        return Err(ReplyMismatch::Id);
    }
    if !header.is_response() || header.opcode() != wire::Opcode::QUERY {
        return Err(ReplyMismatch::Unreadable);
    }
    let mut reply = Reply {
        rcode: header.rcode(),
        truncated: header.truncated(),
        recursive: header.recursion_available() && !header.authoritative(),
        edns: false,
        several_opts: false,
        cookie: None,
        agent: None,
        question: false,
        same_case: true,
    };
    match header.counts() {
        [1, ..] => {
            let question = parser.question().map_err(|_| ReplyMismatch::Unreadable)?;
            let query_key = sent.query_key;
            if question.name != sent.name
                || (question.qtype, question.qclass) != (query_key.qtype, query_key.qclass)
            {
                return Err(ReplyMismatch::Question);
            }
            reply.question = true;
            reply.same_case = question.name.as_wire() == sent.name.as_wire();
        }
        // The header alone, from a server that could not parse the query.
        [0, 0, 0, _] if matches!(reply.rcode, Rcode::FORMERR | Rcode::NOTIMP) => {}
        _ => return Err(ReplyMismatch::Question),
    }
    let records = header.counts()[1..].iter().map(|&n| usize::from(n)).sum();
    let mut has_opt = false;
    // The scrubber reports malformed records; a truncated message may end anywhere.
    for _ in 0..records {
        let Ok(record) = parser.record() else { break };
        if record.rtype != Type::OPT {
            continue;
        }
        if std::mem::replace(&mut has_opt, true) {
            reply.several_opts = true;
            break;
        }
        let Ok(edns) = Edns::parse(message, &record) else { continue };
        reply.edns = true;
        reply.rcode = Rcode(u16::from(edns.extended_rcode) << 4 | header.rcode().0);
        if let (Some(ours), Some(option)) = (sent.cookie, edns.option(OptionCode::COOKIE)) {
            let (client, server) = option.split_at_checked(CLIENT_COOKIE).ok_or(ReplyMismatch::Cookie)?;
            if client != ours {
                return Err(ReplyMismatch::Cookie);
            }
            reply.cookie = SERVER_COOKIE.contains(&server.len()).then(|| server.to_vec());
        }
        reply.agent = edns.option(OptionCode::REPORT_CHANNEL).and_then(agent_domain);
    }
    Ok(reply)
}

/// Parses the agent domain of a Report-Channel option: one uncompressed name. The root turns reporting off
/// (RFC 9567).
fn agent_domain(option: &[u8]) -> Option<Box<LowerNameBuf>> {
    let name = Name::from_wire(option).ok().filter(|name| !name.is_root())?;
    Some(Box::new(name.to_lower()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query_key::Partition;
    use crate::random::ChaCha;
    use wire::Class;

    fn query_key() -> QueryKey {
        let name: NameBuf = "www.example.".parse().expect("a name");
        QueryKey {
            name: name.as_name().to_lower(),
            qtype: Type::A,
            qclass: Class::IN,
            dnssec_ok: true,
            checking_disabled: true,
            partition: Partition::SHARED,
        }
    }

    /// The query as its own reply.
    fn echo(mut query: Vec<u8>) -> Vec<u8> {
        query[2] |= 0x80;
        query
    }

    #[test]
    fn what_is_sent_is_what_is_read() {
        let (query_key, cookie) = (query_key(), [7; 8]);
        let name: NameBuf = "wWw.exaMPle.".parse().expect("a name");
        let opt = Opt { udp_size: 1232, cookie: Some((cookie, vec![9; 16])), padded: false };
        let message = build(0xabcd, name.as_name(), &query_key, true, Some(&opt));
        let (header, mut parser) = Parser::new(&message).expect("a header");
        assert!(header.recursion_desired() && header.checking_disabled() && header.authentic_data());
        assert_eq!(parser.question().expect("a question").name.as_wire(), name.as_name().as_wire());
        let record = parser.record().expect("OPT");
        let edns = Edns::parse(&message, &record).expect("OPT");
        assert!(parser.at_end() && edns.dnssec_ok && edns.udp_size == 1232);
        let sent = Sent { id: 0xabcd, name: name.as_name(), query_key: &query_key, cookie: Some(cookie) };
        let reply = read(&echo(message.clone()), &sent).expect("fits");
        assert!(reply.same_case && reply.edns && reply.question);
        assert_eq!(reply.cookie, Some(vec![9; 16]));
        assert_eq!(read(&message, &sent), Err(ReplyMismatch::Unreadable), "a query is no reply");
        assert_eq!(read(&echo(message.clone()), &Sent { id: 1, ..sent }), Err(ReplyMismatch::Id));
        let other = QueryKey { qtype: Type::AAAA, ..query_key };
        let sent = Sent { query_key: &other, name: name.as_name(), ..sent };
        assert_eq!(read(&echo(message.clone()), &sent), Err(ReplyMismatch::Question));
        let sent = Sent { query_key: &query_key, cookie: Some([8; 8]), ..sent };
        assert_eq!(read(&echo(message), &sent), Err(ReplyMismatch::Cookie));
    }

    /// RFC 8467 §4.1: "Clients SHOULD pad queries to the closest multiple of 128 octets."
    #[test]
    fn padded_queries_of_any_name_are_multiples_of_128_bytes() {
        let query_key = query_key();
        for cookie in [None, Some(([7; 8], vec![9; 32]))] {
            let opt = Opt { udp_size: 1232, cookie, padded: true };
            let mut lengths = std::collections::BTreeSet::new();
            for labels in 1..=127 {
                let name: NameBuf = "a.".repeat(labels).parse().expect("a name");
                let message = build(1, name.as_name(), &query_key, true, Some(&opt));
                assert_eq!(message.len() % 128, 0, "{name}");
                lengths.insert(message.len());
                let (_, mut parser) = Parser::new(&message).expect("a header");
                parser.question().expect("a question");
                let record = parser.record().expect("OPT");
                assert!(Edns::parse(&message, &record).expect("OPT").option(OptionCode::PADDING).is_some());
                assert!(parser.at_end());
            }
            assert!(lengths.len() > 1 && lengths.last().is_some_and(|most| *most <= QUERY_ROOM));
        }
    }

    #[test]
    fn a_second_opt_record_was_not_noticed() {
        let query_key = query_key();
        let name = query_key.name.as_name();
        let opt = Opt { udp_size: 1232, cookie: None, padded: false };
        let mut message = echo(build(5, name, &query_key, true, Some(&opt)));
        let sent = Sent { id: 5, name, query_key: &query_key, cookie: None };
        let several = |message: &[u8]| read(message, &sent).expect("fits").several_opts;
        assert!(!several(&message));
        // The root, OPT, the size, and no flags or options.
        message.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
        assert!(!several(&message), "it is behind the records that the header counts");
        message[11] = 2;
        assert!(several(&message));
    }

    #[test]
    fn only_errors_may_leave_the_question_out() {
        let query_key = query_key();
        let sent = Sent { id: 5, name: query_key.name.as_name(), query_key: &query_key, cookie: None };
        let mut header = Header::query(5).reply();
        assert_eq!(read(header.as_bytes(), &sent), Err(ReplyMismatch::Question));
        header.set_rcode(Rcode::FORMERR);
        assert_eq!(read(header.as_bytes(), &sent).map(|reply| reply.question), Ok(false));
    }

    #[test]
    fn an_agent_domain_is_one_whole_name_and_not_the_root() {
        let read = |option: &[u8]| agent_domain(option).map(|name| name.to_string());
        assert_eq!(read(b"\x05Agent\x07example\0"), Some("agent.example.".into()));
        for none in [&b""[..], b"\0", b"\x05agent", b"\x05agent\0\0", b"\x05agent\xc0\x0c"] {
            assert_eq!(read(none), None, "{none:?}");
        }
    }

    #[test]
    fn mixed_case_changes_letters_only() {
        let name: NameBuf = r"abcdefghijklmnopqrstuvwxyz-0123.\000\255z.example.".parse().expect("a name");
        let mut random = ChaCha::new([3; 32]);
        let mixed = mix_case(name.as_name(), &mut random);
        assert_eq!(mixed, name);
        assert_ne!(mixed.as_name().as_wire(), name.as_name().as_wire());
        assert_ne!(mix_case(name.as_name(), &mut random).as_name().as_wire(), mixed.as_name().as_wire());
    }
}
