//! Decides where a server stands apart from the others: facet by facet, against the largest group that agrees.
//! Why a difference may stand is decided in `explained`.

use crate::answer::{Answer, flag};
use crate::messages::Message;
use crate::query::Query;
use crate::servers::Kind;
use crate::zones::World;
use std::collections::BTreeSet;

/// What came back: nothing, something malformed, or an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// No answer to several tries.
    Silence,
    /// Not a DNS message, and why.
    Malformed(String),
    /// A response.
    Answer(Box<Answer>),
}

impl Reply {
    /// From the bytes received.
    pub(crate) fn from_wire(wire: Option<&[u8]>) -> Self {
        match wire.map(Answer::parse) {
            None => Self::Silence,
            Some(Err(error)) => Self::Malformed(error),
            Some(Ok(answer)) => Self::Answer(Box::new(answer)),
        }
    }

    /// The response, if it is one.
    pub(crate) fn answer(&self) -> Option<&Answer> {
        if let Self::Answer(answer) = self { Some(answer) } else { None }
    }
}

/// One thing compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Facet {
    /// Answered or silent, well-formed or not.
    Reply,
    /// RCODE with the EDNS bits.
    Rcode,
    /// AA.
    Aa,
    /// TC.
    Tc,
    /// QR, OPCODE, RD, RA, Z, AD, CD.
    Flags,
    /// The question section, letter case included.
    Question,
    /// The answer section as a set.
    Answer,
    /// The authority section as a set.
    Authority,
    /// The additional section as a set, without OPT.
    Additional,
    /// OPT: present, version, DO, size, options.
    Edns,
    /// A record twice in one section.
    Duplicates,
}

/// All facets, in the order of printing.
pub(crate) const FACETS: [Facet; 11] = [
    Facet::Reply,
    Facet::Rcode,
    Facet::Aa,
    Facet::Tc,
    Facet::Flags,
    Facet::Question,
    Facet::Answer,
    Facet::Authority,
    Facet::Additional,
    Facet::Edns,
    Facet::Duplicates,
];

/// A query with everybody's reply.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    /// What was asked.
    pub query: &'a Query,
    /// The message's name when it is one of the `messages` suite; `query` then has only what it asks about.
    pub message: Option<&'a Message>,
    /// Of which zones.
    pub world: &'a World,
    /// The replies of those that were asked.
    pub replies: Vec<(Kind, Reply)>,
}

impl Case<'_> {
    /// The response of `kind`, if it gave one.
    pub(crate) fn of(&self, kind: Kind) -> Option<&Answer> {
        self.replies.iter().find(|(k, _)| *k == kind).and_then(|(_, r)| r.answer())
    }
}

/// One facet in which the subject stands apart, and the group it stands apart from.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    /// What differs.
    pub facet: Facet,
    /// The largest group that agrees with itself and not with the subject.
    pub against: Vec<Kind>,
}

/// True when two replies are the same in `facet`.
pub(crate) fn same(facet: Facet, a: &Reply, b: &Reply) -> bool {
    let (a, b) = match (a, b) {
        (Reply::Answer(a), Reply::Answer(b)) => (a, b),
        _ if facet == Facet::Reply => return std::mem::discriminant(a) == std::mem::discriminant(b),
        _ => return true,
    };
    let cut_short = a.has(flag::TC) || b.has(flag::TC);
    match facet {
        Facet::Reply => true,
        Facet::Rcode => a.rcode == b.rcode,
        Facet::Aa => a.has(flag::AA) == b.has(flag::AA),
        Facet::Tc => a.has(flag::TC) == b.has(flag::TC),
        Facet::Flags => {
            let rest = !(flag::AA | flag::TC);
            a.flags & rest == b.flags & rest && a.opcode == b.opcode
        }
        Facet::Question => a.question == b.question,
        // What a truncated answer still holds is nobody's promise (RFC 2181, section 9); the same question goes
        // to everybody again by TCP.
        Facet::Answer => cut_short || a.sections[0] == b.sections[0],
        Facet::Authority => cut_short || a.sections[1] == b.sections[1],
        Facet::Additional => cut_short || a.sections[2] == b.sections[2],
        Facet::Edns => match (&a.opt, &b.opt) {
            (None, None) => true,
            (Some(x), Some(y)) => {
                let codes = |o: &crate::answer::OptRecord| o.codes.iter().copied().collect::<BTreeSet<_>>();
                (x.version, x.dnssec_ok, x.z, x.size) == (y.version, y.dnssec_ok, y.z, y.size)
                    && codes(x) == codes(y)
            }
            _ => false,
        },
        Facet::Duplicates => a.duplicates == b.duplicates,
    }
}

/// Where `subject` stands apart: no peer agrees with it, or fewer than agree with one another against it.
pub(crate) fn differences(case: &Case<'_>, subject: Kind) -> Vec<Difference> {
    let Some((_, mine)) = case.replies.iter().find(|(k, _)| *k == subject) else { return Vec::new() };
    let peers: Vec<_> = case.replies.iter().filter(|(k, _)| *k != subject && *k != Kind::Nomen).collect();
    let mut out = Vec::new();
    for facet in FACETS {
        let with = peers.iter().filter(|(_, r)| same(facet, mine, r)).count();
        let apart: Vec<_> = peers.iter().filter(|(_, r)| !same(facet, mine, r)).collect();
        let group = apart
            .iter()
            .map(|(_, r)| {
                apart.iter().filter(|(_, o)| same(facet, r, o)).map(|(k, _)| *k).collect::<Vec<_>>()
            })
            .max_by_key(Vec::len)
            .unwrap_or_default();
        if !group.is_empty() && with < group.len() {
            out.push(Difference { facet, against: group });
        }
    }
    out
}
