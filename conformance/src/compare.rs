//! Finds where a server differs from the others: facet by facet, against the largest group that agrees.
//! Whether a difference is allowed is decided in `explained`.

use crate::answer::{Answer, Record, flag};
use crate::internet::links::Links;
use crate::internet::sites::Condition;
use crate::messages::Message;
use crate::name::Name;
use crate::query::Query;
use crate::servers::Kind;
use crate::zones::World;
use std::collections::{BTreeMap, BTreeSet};

/// A reply, or its absence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// No answer after several tries.
    Silence,
    /// Not a DNS message; says why.
    Malformed(String),
    /// A response.
    Answer(Box<Answer>),
}

impl Reply {
    /// Decodes the received bytes.
    pub(crate) fn from_wire(wire: Option<&[u8]>) -> Self {
        match wire.map(Answer::parse) {
            None => Self::Silence,
            Some(Err(error)) => Self::Malformed(error),
            Some(Ok(answer)) => Self::Answer(Box::new(answer)),
        }
    }

    /// Returns the response, if there is one.
    pub(crate) fn answer(&self) -> Option<&Answer> {
        if let Self::Answer(answer) = self { Some(answer) } else { None }
    }
}

/// One compared property.
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
    /// Number of duplicate records.
    Duplicates,
    /// TTLs of records in both replies. Compared by itself for forwarders only; otherwise TTLs are part of
    /// the sections.
    Ttl,
    /// AD by itself, for resolvers.
    Ad,
}

/// All facets, in print order.
pub(crate) const FACETS: [Facet; 12] = [
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
    Facet::Ttl,
];

/// Facets compared of resolvers: the answer and its security status. The other contents are up to each
/// resolver.
pub(crate) const OF_RESOLVERS: [Facet; 4] = [Facet::Reply, Facet::Rcode, Facet::Ad, Facet::Answer];

/// Context of a case beside the replies, for resolvers.
#[derive(Debug)]
pub(crate) struct Resolving<'a> {
    /// The earlier replies to the same query, which filled the caches; empty the first time.
    pub earlier: Vec<(Kind, Reply)>,
    /// The condition of each zone.
    pub conditions: &'a BTreeMap<Name, Condition>,
    /// The CNAMEs, DNAMEs and name servers of the zones.
    pub links: &'a Links,
}

/// Context of a case beside the replies, for forwarders.
#[derive(Debug)]
pub(crate) struct Forwarding {
    /// The upstream server and its own reply by TCP.
    pub upstream: (Kind, Reply),
    /// Largest allowed difference of TTLs, in seconds: servers do not cache a record at the same time.
    pub slack: u32,
    /// The earlier replies to the same query, which filled the caches; empty the first time.
    pub earlier: Vec<(Kind, Reply)>,
    /// Seconds since the earlier replies, rounded down.
    pub waited: u32,
    /// Number of different answers that a cache keeps for the QNAME: by type, class, DO and CD.
    pub kept_apart: usize,
}

/// A query with the replies of all servers.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    /// The query.
    pub query: &'a Query,
    /// The message, if it is from the `messages` suite; `query` then has only its question.
    pub message: Option<&'a Message>,
    /// The zones that it asks about.
    pub world: &'a World,
    /// The replies.
    pub replies: Vec<(Kind, Reply)>,
    /// Set if the servers forward.
    pub forwarding: Option<Forwarding>,
    /// Set if the servers resolve.
    pub resolving: Option<Resolving<'a>>,
}

impl Case<'_> {
    /// Returns the response of `kind`, if there is one.
    pub(crate) fn of(&self, kind: Kind) -> Option<&Answer> {
        self.replies.iter().find(|(k, _)| *k == kind).and_then(|(_, r)| r.answer())
    }

    /// Returns the earlier response of `kind`, if there is one.
    pub(crate) fn earlier(&self, kind: Kind) -> Option<&Answer> {
        self.all_earlier().iter().find(|(k, _)| *k == kind).and_then(|(_, r)| r.answer())
    }

    /// Returns all earlier replies; empty the first time.
    fn all_earlier(&self) -> &[(Kind, Reply)] {
        let forwarding = self.forwarding.as_ref().map(|f| &f.earlier);
        forwarding.or(self.resolving.as_ref().map(|r| &r.earlier)).map_or(&[], Vec::as_slice)
    }

    /// Returns the facets that are compared.
    fn facets(&self) -> &'static [Facet] {
        if self.resolving.is_some() { &OF_RESOLVERS } else { &FACETS }
    }

    /// Returns the upstream server's own response.
    pub(crate) fn upstream(&self) -> Option<&Answer> {
        self.forwarding.as_ref()?.upstream.1.answer()
    }
}

/// One facet in which the subject differs, and the group it differs from.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    /// The facet that differs.
    pub facet: Facet,
    /// The largest group of servers that agree with each other, but not with the subject.
    pub against: Vec<Kind>,
}

/// How TTLs are compared.
#[derive(Clone, Copy, Debug)]
enum Ttls {
    /// TTLs must be equal, as part of the record.
    Exact,
    /// TTLs may differ by this many seconds.
    Apart(u32),
    /// TTLs must be lower than in the first reply, by at least this many seconds.
    Lower(u32),
}

/// A record without its TTL.
type Key<'a> = (&'a Name, u16, u16, &'a [u8]);

fn keyed(records: &BTreeSet<Record>) -> BTreeMap<Key<'_>, u32> {
    records.iter().map(|r| ((&r.owner, r.rtype, r.class, r.rdata.as_slice()), r.ttl)).collect()
}

fn same_section(ttls: Ttls, a: &BTreeSet<Record>, b: &BTreeSet<Record>) -> bool {
    match ttls {
        Ttls::Exact => a == b,
        _ => keyed(a).keys().eq(keyed(b).keys()),
    }
}

fn same_ttls(ttls: Ttls, a: &Answer, b: &Answer) -> bool {
    let fits = |a: u32, b: u32| match ttls {
        Ttls::Exact => true,
        Ttls::Apart(slack) => a.abs_diff(b) <= slack,
        Ttls::Lower(waited) => a.saturating_add(waited) <= b || a == 0,
    };
    a.sections.iter().zip(&b.sections).all(|(a, b)| {
        let b = keyed(b);
        keyed(a).iter().all(|(key, ttl)| b.get(key).is_none_or(|other| fits(*ttl, *other)))
    })
}

/// Whether two replies are equal in `facet`.
fn same(facet: Facet, a: &Reply, b: &Reply, ttls: Ttls) -> bool {
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
        // The sections of a truncated response are unreliable (RFC 2181, section 9); the query is repeated by
        // TCP to all servers.
        Facet::Answer => cut_short || same_section(ttls, &a.sections[0], &b.sections[0]),
        Facet::Authority => cut_short || same_section(ttls, &a.sections[1], &b.sections[1]),
        Facet::Additional => cut_short || same_section(ttls, &a.sections[2], &b.sections[2]),
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
        Facet::Ttl => cut_short || same_ttls(ttls, a, b),
        Facet::Ad => a.has(flag::AD) == b.has(flag::AD),
    }
}

/// Returns the facets in which fewer peers agree with `subject` than with each other against it. For
/// forwarders and resolvers, also those in which it differs from its earlier reply.
pub(crate) fn differences(case: &Case<'_>, subject: Kind) -> Vec<Difference> {
    let Some((_, mine)) = case.replies.iter().find(|(k, _)| *k == subject) else { return Vec::new() };
    let peers: Vec<_> = case.replies.iter().filter(|(k, _)| *k != subject && *k != Kind::Nomen).collect();
    let mut out = Vec::new();
    let ttls = match (&case.forwarding, &case.resolving) {
        (Some(forwarding), _) => Ttls::Apart(forwarding.slack),
        (None, Some(_)) => Ttls::Apart(u32::MAX),
        (None, None) => Ttls::Exact,
    };
    let same = |facet, a: &Reply, b: &Reply| same(facet, a, b, ttls);
    for &facet in case.facets() {
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
    out.extend(changes(case, subject, mine));
    out
}

/// Returns how `subject` differs from its earlier reply: the answer must be the same, with TTLs lower by the
/// time since then.
fn changes(case: &Case<'_>, subject: Kind, mine: &Reply) -> Vec<Difference> {
    let earlier = case.all_earlier();
    let Some((_, before)) = earlier.iter().find(|(k, _)| *k == subject) else { return Vec::new() };
    let ttls = case.forwarding.as_ref().map_or(Ttls::Apart(u32::MAX), |f| Ttls::Lower(f.waited));
    let changed = case.facets().iter().copied().filter(|facet| !same(*facet, mine, before, ttls));
    changed.map(|facet| Difference { facet, against: vec![subject] }).collect()
}
