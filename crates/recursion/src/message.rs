//! Replies to clients: whole messages, joined where a chain of aliases spans several, and copied behind the
//! client's question.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use resolver::{AnsweredBy, QueryKey, ScrubbedAnswer};
use wire::edns::ErrorInfo;
use wire::message::{Builder, Compressor, Full, MAX_MESSAGE, Malformed, Offset, Owner, Parser, Section};
use wire::{Class, Header, LowerName, LowerNameBuf, Rcode, Ttl, Type};

/// A response as cached and passed on: question in lower case at offset 12, no OPT.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// From the resolver, shared by all waiters.
    Shared(Arc<ScrubbedAnswer>),
    /// Built in this crate.
    Own(Arc<[u8]>),
}

impl Message {
    /// The message's bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Message::Shared(answer) => &answer.message,
            Message::Own(bytes) => bytes,
        }
    }
}

/// A response, or the part of one up to a link of a chain.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) message: Message,
    pub(crate) rcode: Rcode,
    /// It is secure: validated here, or by servers that are trusted to validate.
    pub(crate) authentic: bool,
    /// How long a negative answer may be cached.
    pub(crate) negative_ttl: Option<Ttl>,
    /// It has expired.
    pub(crate) stale: bool,
    /// The extended error to send with it.
    pub(crate) info: Option<ErrorInfo>,
    /// The server that sent it for this query, unless it was cached.
    pub(crate) upstream: Option<SocketAddr>,
}

impl Piece {
    /// Returns a response that is made here as a piece.
    pub(crate) fn made(message: Vec<u8>, rcode: Rcode) -> Piece {
        Piece {
            message: Message::Own(message.into()),
            rcode,
            authentic: false,
            negative_ttl: None,
            stale: false,
            info: None,
            upstream: None,
        }
    }

    /// Returns the resolver's answer as a piece that shares its message.
    pub(crate) fn shared(answer: &Arc<ScrubbedAnswer>, trust_ad: bool) -> Piece {
        Piece {
            message: Message::Shared(Arc::clone(answer)),
            rcode: answer.rcode,
            authentic: answer.authentic && trust_ad,
            negative_ttl: answer.negative_ttl,
            stale: false,
            info: None,
            upstream: answer.by.and_then(AnsweredBy::server),
        }
    }
}

/// The reply to a client.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) message: Message,
    pub(crate) rcode: Rcode,
    /// AA: the chain of the answer begins in a zone served here.
    pub(crate) authoritative: bool,
    /// AD, for clients that understand it.
    pub(crate) authentic: bool,
    /// The extended error to send with it.
    pub(crate) info: Option<ErrorInfo>,
    /// TC: the client is to ask again over TCP.
    pub(crate) truncated: bool,
}

/// Properties of a client's query that affect the reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyOptions {
    /// The client understands AD: it set DO or AD (RFC 6840 §5.7).
    pub(crate) authentic: bool,
}

impl ReplyOptions {
    /// Returns the options of a query.
    #[inline]
    pub(crate) fn of(request: &query_path::request::Request) -> Self {
        ReplyOptions { authentic: request.dnssec_ok() || request.header.authentic_data() }
    }

    /// Sets the header flags of a reply.
    #[inline]
    pub(crate) fn set_flags(self, b: &mut Builder<'_>, rcode: Rcode, authoritative: bool, authentic: bool) {
        b.flags(|header| {
            header.set_rcode(rcode);
            header.set_authoritative(authoritative);
            header.set_authentic_data(authentic && self.authentic);
        });
    }
}

impl Reply {
    /// Appends the reply to the client's question, which has the same name. Sets TC if it does not fit.
    pub(crate) fn write(&self, reply_options: ReplyOptions, b: &mut Builder<'_>) -> Option<ErrorInfo> {
        reply_options.set_flags(b, self.rcode, self.authoritative, self.authentic);
        if self.truncated {
            b.flags(|header| header.set_truncated(true));
            return self.info;
        }
        let bytes = self.message.bytes();
        let counts = Header::of(bytes).map_or([0; 4], |header| header.counts());
        let body = bytes.get(b.len()..).unwrap_or_default();
        match b.append(body) {
            Ok(_) => {
                let sections = [Section::Answer, Section::Authority, Section::Additional];
                sections.into_iter().zip(&counts[1..]).for_each(|(section, n)| b.add_count(section, *n));
            }
            Err(Full) => b.flags(|header| header.set_truncated(true)),
        }
        self.info
    }
}

/// The joined message exceeds 65,535 bytes, or a part is malformed: neither can follow from scrubbed
/// responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unjoinable;

impl From<Malformed> for Unjoinable {
    fn from(_: Malformed) -> Self {
        Unjoinable
    }
}

impl From<Full> for Unjoinable {
    fn from(_: Full) -> Self {
        Unjoinable
    }
}

/// Returns a response to a query, with the question of its key. `counts` has the records of the answer, the
/// authority and the additional section in `body`.
pub(crate) fn response(query_key: &QueryKey, rcode: Rcode, counts: [u16; 3], body: &[u8]) -> Vec<u8> {
    let QueryKey { name, qtype, qclass, .. } = query_key;
    cache::message(rcode, name.as_lower(), *qtype, *qclass, counts, body)
}

/// Joins the links of a chain and the response at their end into one message: the question of `links`, the
/// response code of `end`, both answer sections and both authority sections. A record that both have is
/// written once per section. A name with two aliases is a loop, which is an error (RFC 1034 §3.6.2). AD is
/// set if `authentic`.
pub(crate) fn join(links: &[u8], end: &[u8], authentic: bool) -> Result<Vec<u8>, Unjoinable> {
    let (mut header, _) = Parser::new(links)?;
    let (last, _) = Parser::new(end)?;
    header.set_rcode(last.rcode());
    header.set_authentic_data(authentic);
    let mut joined = vec![0; MAX_MESSAGE];
    let mut names = Compressor::large();
    let mut b = Builder::new(&mut joined, MAX_MESSAGE, header, &mut names);
    let (_, mut parser) = Parser::new(links)?;
    let question = parser.question()?;
    b.question(question.name, question.qtype, question.qclass)?;
    b.learn(question.name, Offset::QNAME);
    for section in [Section::Answer, Section::Authority] {
        let (mut written, mut aliases) = (HashSet::new(), HashSet::new());
        copy(links, section, &mut written, &mut aliases, &mut b)?;
        copy(end, section, &mut written, &mut aliases, &mut b)?;
    }
    let len = b.finish();
    joined.truncate(len);
    Ok(joined)
}

/// Returns the part of an answer that leads through aliases to `name`: the records before those of that name,
/// with the question and without other sections. The aliases come first in `message`, in their order.
pub(crate) fn links_to(message: &[u8], name: LowerName<'_>) -> Result<Vec<u8>, Unjoinable> {
    let (header, mut parser) = Parser::new(message)?;
    let question = parser.question()?;
    let [_, answers, ..] = header.counts();
    let (mut room, mut names) = (vec![0; MAX_MESSAGE], Compressor::large());
    let mut b = Builder::new(&mut room, MAX_MESSAGE, Header::query(0).reply(), &mut names);
    b.question(question.name, question.qtype, question.qclass)?;
    b.learn(question.name, Offset::QNAME);
    let mut rdata = Vec::new();
    for _ in 0..answers {
        let record = parser.record()?;
        let owner = parser.name_at(record.owner_at)?;
        if owner.as_name().to_lower().as_lower() == name {
            break;
        }
        rdata.clear();
        parser.expand_rdata(&record, &mut rdata)?;
        let to = Owner::Name(owner.as_name());
        b.record(Section::Answer, to, record.rtype, record.class, record.ttl(), &rdata)?;
    }
    let len = b.finish();
    room.truncate(len);
    Ok(room)
}

/// Copies the records of one section that are not yet in `written`.
fn copy(
    message: &[u8],
    wanted: Section,
    written: &mut HashSet<(LowerNameBuf, Type, Class, Vec<u8>)>,
    aliases: &mut HashSet<LowerNameBuf>,
    b: &mut Builder<'_>,
) -> Result<(), Unjoinable> {
    let (header, mut parser) = Parser::new(message)?;
    let [questions, answers, authorities, _] = header.counts();
    for _ in 0..questions {
        parser.question()?;
    }
    let mut rdata = Vec::new();
    for (section, count) in [(Section::Answer, answers), (Section::Authority, authorities)] {
        for _ in 0..count {
            let record = parser.record()?;
            if section as usize != wanted as usize {
                continue;
            }
            let owner = parser.name_at(record.owner_at)?;
            rdata.clear();
            parser.expand_rdata(&record, &mut rdata)?;
            let owner_key = owner.as_name().to_lower();
            let key = (owner_key, record.rtype, record.class, rdata.clone());
            if !written.insert(key) {
                continue;
            }
            if record.rtype == Type::CNAME && !aliases.insert(owner_key) {
                return Err(Unjoinable);
            }
            b.record(
                section,
                Owner::Name(owner.as_name()),
                record.rtype,
                record.class,
                record.ttl(),
                &rdata,
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use wire::{Name, NameBuf, Ttl};

    use super::*;

    fn name(text: &str) -> NameBuf {
        text.parse().expect("a name")
    }

    /// A message of records of one owner, type and data, in a section.
    fn message(qname: &str, records: &[(Section, &str, Type, Vec<u8>)]) -> Vec<u8> {
        let (mut room, mut names) = (vec![0; MAX_MESSAGE], Compressor::small());
        let mut b = Builder::new(&mut room, MAX_MESSAGE, Header::query(0).reply(), &mut names);
        b.question(name(qname).as_name(), Type::A, Class::IN).expect("room");
        for (section, owner, rtype, rdata) in records {
            let (owner, ttl) = (name(owner), Ttl::from_secs(60));
            b.record(*section, Owner::Name(owner.as_name()), *rtype, Class::IN, ttl, rdata).expect("room");
        }
        let len = b.finish();
        room.truncate(len);
        room
    }

    /// Owners and types of a message's records, section by section.
    fn owners(message: &[u8]) -> [Vec<(String, Type)>; 2] {
        let (header, mut parser) = Parser::new(message).expect("a message");
        parser.question().expect("a question");
        let [_, answers, authorities, _] = header.counts();
        [answers, authorities].map(|count| {
            let mut next = || {
                let record = parser.record().expect("a record");
                let owner = parser.name_at(record.owner_at).expect("a name");
                (owner.as_name().to_string(), record.rtype)
            };
            (0..count).map(|_| next()).collect()
        })
    }

    fn wire(of: &str) -> Vec<u8> {
        let name = name(of);
        let name: Name<'_> = name.as_name();
        name.as_wire().to_vec()
    }

    #[test]
    fn a_dname_that_a_chain_passes_twice_stands_in_the_answer_once() {
        let dname = |owner| (Section::Answer, owner, Type::DNAME, wire("z.example."));
        let cname = |owner, to| (Section::Answer, owner, Type::CNAME, wire(to));
        let a = |owner| (Section::Answer, owner, Type::A, Ipv4Addr::LOCALHOST.octets().to_vec());
        let links = [
            dname("y.example."),
            cname("x.y.example.", "x.z.example."),
            cname("x.z.example.", "w.y.example."),
        ];
        let end = [dname("Y.example."), cname("w.y.example.", "w.z.example."), a("w.z.example.")];
        let joined =
            join(&message("x.y.example.", &links), &message("w.y.example.", &end), false).expect("joined");
        let of = |owner: &str, rtype| (owner.to_owned(), rtype);
        let wanted = vec![
            of("y.example.", Type::DNAME),
            of("x.y.example.", Type::CNAME),
            of("x.z.example.", Type::CNAME),
            of("w.y.example.", Type::CNAME),
            of("w.z.example.", Type::A),
        ];
        assert_eq!(owners(&joined), [wanted, vec![]]);
    }

    /// A rule's alias led to a name whose aliases lead back.
    #[test]
    fn a_name_with_two_aliases_is_a_loop() {
        let cname = |owner, to| (Section::Answer, owner, Type::CNAME, wire(to));
        let links = message("a.example.", &[cname("a.example.", "b.example.")]);
        let end = [cname("b.example.", "A.example."), cname("A.example.", "c.example.")];
        assert_eq!(join(&links, &message("b.example.", &end), false), Err(Unjoinable));
        assert!(join(&links, &message("b.example.", &end[..1]), false).is_ok());
    }

    #[test]
    fn a_record_of_two_sections_stands_in_both_and_other_data_beside_it() {
        let ns = |section, to| (section, "example.", Type::NS, wire(to));
        let links = [ns(Section::Answer, "a.example.")];
        let end = [
            ns(Section::Answer, "b.example."),
            ns(Section::Authority, "a.example."),
            ns(Section::Authority, "a.example."),
        ];
        let joined = join(&message("example.", &links), &message("example.", &end), false).expect("joined");
        let ns = ("example.".to_owned(), Type::NS);
        assert_eq!(owners(&joined), [vec![ns.clone(), ns.clone()], vec![ns]]);
    }
}
