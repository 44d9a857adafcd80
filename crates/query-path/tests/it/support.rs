//! A worker of an engine with a scripted source, and messages for it.

use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Instant;

use query_path::{
    Asked, Engine, EngineConfig, LoggedQuery, LoggedReply, QueryLog, Refusal, Responder, Responders, Role,
    Source, SourceReply, Sources, Worker, WorkerState, Zones,
};
use transfer::tsig::{ResponseVerifier, TsigAlgorithm, TsigKey, TsigKeys, sign_request};
use transport::{MAX_MESSAGE, MessageStream, Next, Outcome, Packets, Transport};
use wire::edns::{Edns, ErrorInfo, OptionCode};
use wire::hash::{HashKey, HashedName};
use wire::message::{Builder, Header, Offset, Owner, Parser, Section};
use wire::{Class, NameBuf, Opcode, Rcode, Ttl, Type, UnixTime};
use zone::catalog::Catalog;

/// Answers by the type asked for.
#[derive(Default)]
pub(crate) struct Scripted {
    /// Responders taken for the test to settle.
    pub(crate) responders: Mutex<Vec<Responder>>,
}

impl Scripted {
    pub(crate) fn responder(&self) -> Responder {
        self.responders.lock().expect("lock").pop().expect("a ticket")
    }
}

/// Three messages of one byte.
pub(crate) struct Three(pub(crate) u8);

impl MessageStream for Three {
    fn next(&mut self, out: &mut [u8]) -> Next {
        let Some(left) = self.0.checked_sub(1) else { return Next::End };
        self.0 = left;
        out[0] = left;
        Next::Message(1)
    }
}

/// Writes `records` addresses for the question's name.
pub(crate) fn fill(b: &mut Builder<'_>, records: u8) {
    for n in 0..records {
        if b.record(
            Section::Answer,
            Owner::At(Offset::QNAME),
            Type::A,
            Class::IN,
            Ttl::from_secs(30),
            &[192, 0, 2, n],
        )
        .is_err()
        {
            return b.flags(|h| h.set_truncated(true));
        }
    }
}

impl Source for Scripted {
    fn answer(&self, asked: &Asked<'_>, b: &mut Builder<'_>, responders: Responders<'_>) -> SourceReply {
        match asked.question.qtype {
            // At once, and late: the same sections.
            Type::A => {
                fill(b, 3);
                SourceReply::Ready(Some(ErrorInfo(3)))
            }
            Type::AAAA | Type::CNAME | Type::PTR => {
                let (responder, promise) = responders.take();
                self.responders.lock().expect("lock").push(responder);
                SourceReply::Pending(promise)
            }
            Type::TXT => SourceReply::Stream(Box::new(Three(3))),
            Type::MX => {
                fill(b, 3);
                SourceReply::Refused(Refusal::because(Rcode::SERVFAIL, ErrorInfo::NOT_READY))
            }
            // More than fits.
            Type::SRV => {
                fill(b, 200);
                SourceReply::Ready(None)
            }
            _ => {
                b.set_rcode(Rcode::NXDOMAIN);
                SourceReply::Ready(None)
            }
        }
    }

    /// Answers with the links and an address behind them.
    fn follow(
        &self,
        target: &HashedName,
        links: Vec<u8>,
        _: &Asked<'_>,
        b: &mut Builder<'_>,
        _: Responders<'_>,
    ) -> SourceReply {
        let behind = &links[b.len()..];
        b.append(behind).expect("it fits");
        b.add_count(Section::Answer, Header::of(&links).expect("a header").counts()[1]);
        b.record(
            Section::Answer,
            Owner::Name(target.as_lower().as_name()),
            Type::A,
            Class::IN,
            Ttl::from_secs(30),
            &[192, 0, 2, 1],
        )
        .expect("it fits");
        SourceReply::Ready(None)
    }
}

/// Stores what is logged.
#[derive(Default)]
pub(crate) struct Logged(Mutex<Log>);

#[derive(Default)]
struct Log {
    queries: Vec<String>,
    replies: Vec<String>,
    received: Vec<Instant>,
}

impl Logged {
    /// The queries: transport, name, role, zone and whether the message is whole.
    pub(crate) fn queries(&self) -> Vec<String> {
        self.0.lock().expect("lock").queries.clone()
    }

    /// The replies: transport, name, response code, bytes, TC, extended error.
    pub(crate) fn replies(&self) -> Vec<String> {
        self.0.lock().expect("lock").replies.clone()
    }

    /// When the queries of all entries were received, in the order of the entries.
    pub(crate) fn received(&self) -> Vec<Instant> {
        self.0.lock().expect("lock").received.clone()
    }
}

impl QueryLog for Logged {
    fn query(&self, query: &LoggedQuery<'_>) {
        let role = match query.role {
            Role::Authority => "authority",
            Role::Recursion => "recursion",
        };
        let zone = query.zone.map_or_else(|| "-".into(), |zone| zone.to_string());
        let (transport, len) = (query.client.transport, query.packet.len());
        let mut log = self.0.lock().expect("lock");
        log.queries.push(format!("{transport} {} {role} {zone} {len}", query.qname()));
        log.received.push(query.received);
    }

    fn reply(&self, query: &LoggedQuery<'_>, reply: &LoggedReply<'_>) {
        let LoggedReply { message, rcode, truncated, info, upstream: _, rule: _ } = reply;
        let header = Header::of(message).expect("a header");
        assert_eq!((header.truncated(), header.is_response()), (*truncated, true));
        let (transport, len) = (query.client.transport, message.len());
        let mut line = format!("{transport} {} {rcode} {len}", query.qname());
        line += if *truncated { " TC" } else { "" };
        line += &info.map_or_else(String::new, |info| format!(" {}", info.0));
        let mut log = self.0.lock().expect("lock");
        log.replies.push(line);
        log.received.push(query.received);
    }
}

pub(crate) struct Rig {
    pub(crate) worker: Worker<Zones>,
    pub(crate) source: Arc<Scripted>,
    pub(crate) log: Arc<Logged>,
}

/// An engine without zones, with a source for every operation if `sources`.
pub(crate) fn rig(sources: bool) -> Rig {
    let key = HashKey::new([1, 2, 3]);
    let source = Arc::new(Scripted::default());
    let all = || -> Option<Arc<dyn Source>> { Some(source.clone()) };
    let asked = match sources {
        true => Sources { elsewhere: all(), transfer: all(), notify: all(), update: all() },
        false => Sources::default(),
    };
    let keys = Arc::new(TsigKeys::new([signing_key()]).expect("one key"));
    let config = EngineConfig { nsid: b"test".as_slice().into(), ..EngineConfig::default() };
    let engine = Engine::new(Zones::new(Arc::new(Catalog::new(&key))), asked, config);
    engine.set_keys(&keys);
    let log = Arc::new(Logged::default());
    engine.set_query_log(Some(log.clone()));
    let account = Arc::new(WorkerState::new(Waker::noop().clone()));
    Rig { worker: Worker::new(Arc::new(engine), account), source, log }
}

impl Rig {
    pub(crate) fn new() -> Rig {
        rig(true)
    }

    /// Sends a query and returns the reply, or any other outcome.
    pub(crate) fn ask_by(&mut self, transport: Transport, query: &[u8]) -> Result<Vec<u8>, Outcome> {
        let mut packets = Packets::new(transport, MAX_MESSAGE);
        packets.push(query);
        packets.ask(&mut self.worker);
        match packets.reply(0) {
            Some(reply) => Ok(reply.to_vec()),
            None => Err(packets.take_outcome(0).expect("decided")),
        }
    }

    pub(crate) fn ask(&mut self, query: &[u8]) -> Result<Vec<u8>, Outcome> {
        self.ask_by(Transport::Udp, query)
    }

    /// The late answers that are ready.
    pub(crate) fn late(&mut self) -> Vec<(Transport, Outcome, Vec<u8>)> {
        let all = Packets::new(Transport::Udp, MAX_MESSAGE).late(&mut self.worker);
        all.into_iter().map(|late| (late.to.client.transport, late.outcome, late.message)).collect()
    }
}

/// The only key of the rig.
pub(crate) fn signing_key() -> TsigKey {
    let name: NameBuf = "key.example.".parse().expect("a name");
    TsigKey::new(name.as_name(), TsigAlgorithm::HmacSha256, &[7; 32]).expect("a key")
}

/// Returns the query signed at this time, and the verifier of its reply.
pub(crate) fn signed(query: &[u8], at: UnixTime) -> (Vec<u8>, ResponseVerifier) {
    let mut signed = [query, &[0; 200]].concat();
    let (len, verifier) =
        sign_request(&Arc::new(signing_key()), &mut signed, query.len(), at).expect("there is room");
    signed.truncate(len);
    (signed, verifier)
}

/// OPT that requests NSID, with a size of 4096 and DO.
pub(crate) const OPT_NSID: &[u8] = b"\0\0\x29\x10\0\0\0\x80\0\0\x04\0\x03\0\0";

/// A query with `additional` records behind the question.
pub(crate) fn query(name: &str, qtype: Type, additional: &[u8]) -> Vec<u8> {
    message(Opcode::QUERY, name, (qtype, Class::IN), additional)
}

pub(crate) fn message(
    opcode: Opcode,
    name: &str,
    (qtype, qclass): (Type, Class),
    additional: &[u8],
) -> Vec<u8> {
    let name: NameBuf = name.parse().expect("name");
    let mut header = Header::query(0x1234);
    header.set_recursion_desired(true);
    header.set_counts([1, 0, 0, !additional.is_empty() as u16]);
    let mut packet = header.as_bytes().to_vec();
    packet[2] |= opcode.0 << 3;
    packet.extend_from_slice(name.as_name().as_wire());
    packet.extend_from_slice(&qtype.0.to_be_bytes());
    packet.extend_from_slice(&qclass.0.to_be_bytes());
    packet.extend_from_slice(additional);
    packet
}

/// Fields of a reply: response code (upper bits from OPT included), TC, answers, extended error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) rcode: Rcode,
    pub(crate) truncated: bool,
    pub(crate) answers: u16,
    pub(crate) error: Option<u16>,
}

pub(crate) fn said(reply: &[u8]) -> Said {
    let (header, mut parser) = Parser::new(reply).expect("header");
    assert!(header.is_response() && header.id() == 0x1234);
    let [questions, answers, authorities, additionals] = header.counts();
    for _ in 0..questions {
        parser.question().expect("question");
    }
    let mut said = Said { rcode: header.rcode(), truncated: header.truncated(), answers, error: None };
    for _ in 0..answers + authorities + additionals {
        let record = parser.record().expect("record");
        if record.rtype == Type::OPT {
            let edns = Edns::parse(reply, &record).expect("OPT");
            said.rcode = Rcode(said.rcode.0 | u16::from(edns.extended_rcode) << 4);
            let code = |info: &[u8]| u16::from_be_bytes([info[0], info[1]]);
            said.error = edns.option(OptionCode::EXTENDED_ERROR).map(code);
        }
    }
    assert!(parser.at_end());
    said
}
