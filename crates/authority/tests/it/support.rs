//! A set of zones that can be asked, and answers read back by our parser and by the `domain` crate.

use authority::explain::explain;
use authority::{Aim, Ask, PASSES, Scratch, answer};
use domain::base::rdata::ComposeRecordData;
use domain::base::{Message, Record, ToName};
use domain::rdata::AllRecordData;
use testkit::answers::Line;
use testkit::model::canonical;
use wire::hash::{HashKey, HashedName};
use wire::message::{Builder, Compressor, Header, MAX_POINTERS, Offset, POINTER, Parser, RawRecord};
use wire::{Class, NameBuf, Rcode, Ttl, Type};
use zone::store::Zone;
use zone::{Catalog, Change};

/// The key of all zones here.
pub(crate) fn key() -> HashKey {
    HashKey::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 7])
}

pub(crate) fn name(text: &str) -> NameBuf {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Zones served together.
pub(crate) struct Server {
    catalog: Catalog,
}

/// One question and the bounds on its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    pub(crate) name: NameBuf,
    pub(crate) qtype: Type,
    pub(crate) dnssec_ok: bool,
    pub(crate) size: usize,
    pub(crate) max_chain: u8,
}

impl Query {
    pub(crate) fn new(name: NameBuf, qtype: Type) -> Self {
        Query { name, qtype, dnssec_ok: false, size: 65_535, max_chain: 16 }
    }
}

/// An answer, read. Sections are in the order of the message.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) rcode: Rcode,
    pub(crate) authoritative: bool,
    pub(crate) truncated: bool,
    pub(crate) sections: [Vec<Line>; 3],
}

impl Server {
    pub(crate) fn new(changes: impl IntoIterator<Item = Change>) -> Self {
        Server { catalog: Catalog::new(&key()).with(changes).expect("zones of one key") }
    }

    pub(crate) fn of(zones: impl IntoIterator<Item = Zone>) -> Self {
        Self::new(zones.into_iter().map(|zone| Change::Serve(zone.into())))
    }

    /// Asks; `None` if no zone that is loaded holds the name. A truncated answer comes without sections: they do
    /// not count.
    pub(crate) fn ask(&self, query: &Query) -> Option<Answer> {
        let (key, mut hashed) = (key(), HashedName::new());
        hashed.set(&key, query.name.as_name());
        let mut aim = Aim::find(&self.catalog, &hashed, query.qtype, query.dnssec_ok)?;
        let _ = (0..PASSES).all(|pass| aim.prefetch(&self.catalog, pass, &hashed));
        let (mut buf, mut names) = (vec![0; 65_535], Compressor::small());
        let mut b = Builder::new(&mut buf, query.size, Header::query(1).reply(), &mut names);
        b.question(query.name.as_name(), query.qtype, Class::IN).expect("the question fits");
        let question_only = b.mark();
        let ask = Ask {
            name: query.name.as_name(),
            qname: &hashed,
            qtype: query.qtype,
            dnssec_ok: query.dnssec_ok,
            catalog: &self.catalog,
            key: &key,
            max_chain: query.max_chain,
        };
        answer(&ask, &aim, &mut b, &mut Scratch::new()).ok()?;
        if b.header().truncated() {
            b.rollback(question_only);
        }
        let len = b.finish();
        buf.truncate(len);
        assert!(buf.len() <= query.size);
        Some(read(buf, query))
    }

    /// The last thing that explaining the answer says.
    pub(crate) fn explain(&self, query: &Query) -> String {
        let steps = explain(&self.catalog, &key(), query.name.as_name(), query.qtype, query.max_chain);
        steps.last().expect("a step").what.clone()
    }
}

/// Follows the pointers of the name at `at`: each leads to before the labels in front of it, and there are not so many
/// that readers give up.
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

/// Checks every name in a record, its owner and those in its data.
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

fn read(bytes: Vec<u8>, query: &Query) -> Answer {
    let (header, mut parser) = Parser::new(&bytes).expect("a header");
    let question = parser.question().expect("a question");
    assert_eq!((question.name.as_wire(), question.qtype), (query.name.as_name().as_wire(), query.qtype));
    let mut sections = [const { Vec::new() }; 3];
    for (section, &count) in sections.iter_mut().zip(&header.counts()[1..]) {
        for _ in 0..count {
            let record = parser.record().expect("a record");
            assert_eq!(record.class, Class::IN);
            check_names(&bytes, &record);
            let owner = parser.name_at(record.owner_at).expect("an owner");
            let mut rdata = Vec::new();
            parser.expand_rdata(&record, &mut rdata).expect("RDATA");
            wire::rdata::validate(record.rtype, &rdata).unwrap_or_else(|e| panic!("{} {e:?}", record.rtype));
            section.push(Line { owner, rtype: record.rtype, ttl: record.ttl(), rdata });
        }
    }
    assert!(parser.at_end(), "bytes behind the last record");
    let elsewhere = read_elsewhere(&bytes);
    for (ours, theirs) in sections.iter().zip(&elsewhere) {
        assert_eq!(ours.iter().map(canonical_line).collect::<Vec<_>>(), *theirs, "two readers differ");
    }
    Answer {
        rcode: header.rcode(),
        authoritative: header.authoritative(),
        truncated: header.truncated(),
        sections,
        bytes,
    }
}

/// The line with names in its data in lower case, so that it compares.
pub(crate) fn canonical_line(line: &Line) -> Line {
    Line { rdata: canonical(line.rtype, &line.rdata), ..line.clone() }
}

/// The sections as the `domain` crate reads them.
fn read_elsewhere(bytes: &[u8]) -> [Vec<Line>; 3] {
    let message = Message::from_octets(bytes).expect("a header");
    let sections = [message.answer(), message.authority(), message.additional()];
    sections.map(|section| {
        let lines = section.expect("sections").map(|record| {
            let record = record.expect("a record");
            let owner: domain::base::Name<Vec<u8>> = record.owner().to_name();
            let owner = wire::Name::from_wire(owner.as_slice()).expect("a name").to_buf();
            let (rtype, ttl) = (Type(record.rtype().to_int()), Ttl::from_secs(record.ttl().as_secs()));
            let parsed: Record<_, AllRecordData<_, _>> =
                record.into_record().expect("RDATA").expect("every type is taken");
            let mut rdata = Vec::new();
            parsed.data().compose_rdata(&mut rdata).expect("a vector grows");
            Line { owner, rtype, ttl, rdata: canonical(rtype, &rdata) }
        });
        lines.collect()
    })
}
