//! The rules for forwarders. Each also compares with the upstream server's own response, which is what a
//! forwarder passes on.

use super::{Rule, View, chain_end, endless_chain, extended_error_only};
use crate::answer::{Answer, Record, flag};
use crate::compare::Facet;
use crate::name::Name;
use crate::query::rtype;
use crate::servers::Kind;
use std::collections::BTreeSet;

/// The rules for differences from other servers, tried in order.
pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "forward-referral",
        facets: &[
            Facet::Rcode,
            Facet::Tc,
            Facet::Answer,
            Facet::Authority,
            Facet::Additional,
            Facet::Edns,
            Facet::Ttl,
        ],
        subject: Some(Kind::Nomen),
        why: "The upstream server answers with a referral, at once or behind a chain, also one that it \
              leaves off at a name of another zone it has a referral for. RFC 1034, section 4.3.1: where \
              recursion is available the response is \"the answer to the query\", \"a name error\" or \"a \
              temporary error indication\", never a referral. nomen and BIND say SERVFAIL; Unbound and \
              dnsdist pass the referral on, PowerDNS makes answers of its records.",
        applies: referral,
    },
    Rule {
        id: "forward-chain-limit",
        facets: &[
            Facet::Rcode,
            Facet::Tc,
            Facet::Answer,
            Facet::Authority,
            Facet::Additional,
            Facet::Edns,
            Facet::Duplicates,
            Facet::Ttl,
        ],
        subject: Some(Kind::Nomen),
        why: "A chain of CNAMEs or DNAMEs without end, or nearly so: how many steps each of the two servers \
              takes is its own affair. RFC 1034, section 3.6.2: chains \"should be followed and CNAME loops \
              signalled as an error\".",
        applies: endless_chain,
    },
    Rule {
        id: "forward-too-long",
        facets: &[Facet::Rcode, Facet::Tc, Facet::Answer, Facet::Authority, Facet::Edns],
        subject: Some(Kind::Nomen),
        why: "A DNAME makes the name longer than 255 bytes. RFC 6672, section 2.2: the RCODE is then \
              YXDOMAIN; where the upstream server says NXDOMAIN instead nomen refuses the reply, others look \
              at the DNAME themselves or fail.",
        applies: too_long,
    },
    Rule {
        id: "forward-wildcard-dname",
        facets: &[Facet::Rcode, Facet::Tc, Facet::Answer, Facet::Authority, Facet::Edns, Facet::Ttl],
        subject: Some(Kind::Nomen),
        why: "A DNAME at a wildcard, which the upstream server expands to the name asked for. RFC 4592, \
              section 4.4: it \"represents a threat to the coherency of the DNS and is to be avoided or \
              outright rejected\". nomen keeps the one of DNAME and CNAME that answers the question, and \
              what is said of the target, and refuses NXDOMAIN beside what was asked for; others reject all \
              of it, or give the wildcard's own records from their caches.",
        applies: wildcard_dname,
    },
    Rule {
        id: "forward-error",
        facets: &[Facet::Tc, Facet::Answer, Facet::Authority, Facet::Additional],
        subject: Some(Kind::Nomen),
        why: "The upstream server gives an error, with part of a chain, or leaves the chain off at a name \
              that it has an error for, as BIND and Unbound find, too. RFC 1034, section 4.3.1: \"a \
              temporary error indication\" has no records to it; nomen sends none, others the part that \
              came.",
        applies: error,
    },
    Rule {
        id: "forward-class",
        facets: &[Facet::Rcode, Facet::Tc, Facet::Flags, Facet::Answer, Facet::Authority, Facet::Edns],
        subject: Some(Kind::Nomen),
        why: "QCLASS other than IN, for which the upstream server has an error. RFC 1035, section 4.1.1: \
              REFUSED, the server \"refuses to perform the specified operation for policy reasons\"; nomen \
              resolves class IN alone, others copy the code. To QCLASS ANY, RFC 1035, section 6.2, the \
              answer is \"never authoritative\": nomen refuses it, others pass on what came.",
        applies: class,
    },
    Rule {
        id: "forward-any",
        facets: &[Facet::Tc, Facet::Answer, Facet::Authority, Facet::Additional, Facet::Ttl],
        subject: Some(Kind::Nomen),
        why: "QTYPE ANY. RFC 8482, section 4.1 lets a responder give some of the RRsets; a cache has those \
              that came by, and servers with a cache of RRsets put them together from there. nomen passes on \
              what the upstream server gave, and no more.",
        applies: any,
    },
    Rule {
        id: "forward-dname-type",
        facets: &[Facet::Rcode, Facet::Tc, Facet::Answer, Facet::Authority, Facet::Ttl],
        subject: Some(Kind::Nomen),
        why: "QTYPE DNAME below a DNAME, at once or behind a CNAME. RFC 1034, section 4.3.2, as RFC 6672, \
              section 3.2 has it: a DNAME above the name redirects the query whatever its QTYPE. nomen and \
              Unbound follow where it leads, also out of the upstream server's zone, and fail where that \
              fails; BIND and PowerDNS answer with the DNAME itself.",
        applies: dname_type,
    },
    Rule {
        id: "forward-ds-after-cname",
        facets: &[Facet::Rcode, Facet::Tc, Facet::Authority],
        subject: Some(Kind::Nomen),
        why: "QTYPE DS at a CNAME, whose target the upstream server does not answer for. RFC 1034, section \
              3.6.2: the query is restarted \"at the domain name specified in the data field of the CNAME \
              record\", whatever its QTYPE. nomen and Unbound do so and find no DS; BIND asks for servers of \
              the zone above and fails, PowerDNS and dnsdist stop.",
        applies: ds_after_cname,
    },
    Rule {
        id: "forward-proofs",
        facets: &[Facet::Authority],
        subject: Some(Kind::Nomen),
        why: "The NSEC or NSEC3 records of a negative answer. RFC 4035, section 3.1.3: those that prove \
              it \"MUST\" be there, and servers differ in how many that takes; nomen passes on the upstream \
              server's section as it came, others put theirs together from what they got with other answers. \
              Of signatures asked for by themselves (QTYPE RRSIG) BIND gives no proofs, and PowerDNS an \
              error.",
        applies: proofs,
    },
    Rule {
        id: "forward-additional",
        facets: &[Facet::Additional],
        subject: Some(Kind::Nomen),
        why: "The additional section. RFC 2181, section 5.4.1 calls its data \"the least trustworthy\", not \
              to be cached so that it \"would ever be returned as answers\"; RFC 1034, section 4.3.2, step 6 \
              leaves to the server what it adds. nomen and PowerDNS keep nothing of it.",
        applies: additional,
    },
    Rule {
        id: "forward-cname-and-old-types",
        facets: &[Facet::Rcode, Facet::Answer, Facet::Authority, Facet::Tc],
        subject: Some(Kind::Nomen),
        why: "QTYPE NSEC, NSEC3, RRSIG, SIG, KEY or NXT at a CNAME, for which the upstream server says \
              NODATA or has that record. A cache that has the CNAME follows it, as RFC 1034, section 3.6.2 \
              has it for all types; one that has not takes the answer as it came (RFC 2308, section 2.2). So \
              it depends on what was asked before.",
        applies: cname_and_old_types,
    },
    Rule {
        id: "forward-fits-or-not",
        facets: &[Facet::Tc],
        subject: Some(Kind::Nomen),
        why: "A datagram about as full as it may be: some servers compress more names than others, so it \
              fits here and not there. RFC 1035, section 4.1.4 leaves compression to the sender. The same \
              question by TCP is compared in full.",
        applies: fits_or_not,
    },
    Rule {
        id: "forward-broken-chain",
        facets: &[Facet::Rcode, Facet::Tc, Facet::Answer, Facet::Authority],
        subject: Some(Kind::Nomen),
        why: "The upstream server says NXDOMAIN at the end of a chain, of a name for which it has records \
              when it is asked for that name alone (Knot 3.5 behind some wildcards). RFC 1034, section 4.3.2 \
              has no such answer. nomen and dnsdist pass on what came; others ask for each name of a chain \
              by itself.",
        applies: broken_chain,
    },
    Rule {
        id: "forward-bare-denial",
        facets: &[Facet::Tc, Facet::Answer, Facet::Authority],
        subject: Some(Kind::Nomen),
        why: "A DNAME at a wildcard below which the upstream server has an answer without DO, and a bare \
              NXDOMAIN with DO (Knot 3.5). RFC 4592, section 4.4: such a DNAME \"represents a threat to the \
              coherency of the DNS\". nomen asks with the client's DO and passes on what came; others ask \
              with DO always.",
        applies: bare_denial,
    },
    Rule {
        id: "forward-extended-error",
        facets: &[Facet::Edns],
        subject: Some(Kind::Nomen),
        why: "An EDE option beside an error, or its lack. RFC 8914, section 2: it can stand in any response \
              to a query with an OPT record, whatever the RCODE.",
        applies: extended_error_only,
    },
];

/// The rules for differences between a server's first and second reply.
pub(crate) const AGAIN: &[Rule] = &[
    Rule {
        id: "forward-ttl-runs-out",
        facets: &[Facet::Ttl],
        subject: None,
        why: "A record whose TTL is over before the second time: the answer is fetched anew. RFC 1035, \
              section 4.1.3: a TTL is the time \"that the resource record may be cached before it should be \
              discarded\"; 0 says it \"should not be cached\".",
        applies: runs_out,
    },
    Rule {
        id: "forward-crowded-name",
        facets: &[Facet::Ttl],
        subject: Some(Kind::Nomen),
        why: "More than sixteen different answers for one name, by type, DO and CD: nomen's cache keeps so \
              many of a name, and fetches the others anew. RFC 2181, section 8: \"The TTL specifies a \
              maximum time to live, not a mandatory time to live\".",
        applies: crowded_name,
    },
];

/// The upstream server's response ends in a referral: NS records without an SOA, and no answer for the QNAME.
fn referral(view: &View<'_>) -> bool {
    let Some(upstream) = view.case.upstream() else { return false };
    let answered = upstream.sections[0].iter().any(|r| r.is_or_covers(view.case.query.qtype));
    let has = |rtype| upstream.sections[1].iter().any(|r| r.rtype == rtype);
    let delegates = has(rtype::NS) && !has(rtype::SOA) && (!answered || chain_end(upstream).is_some());
    let leads = delegates || leads_to_referral(view, upstream);
    upstream.rcode == 0 && leads && is_bare_failure(view.mine)
}

/// The upstream server's chain is incomplete, and Unbound returns its referral for the rest.
fn leads_to_referral(view: &View<'_>, upstream: &Answer) -> bool {
    let Some((_, end)) = chain_end(upstream) else { return false };
    let delegates = |unbound: &Answer| {
        let ns = |r: &Record| r.rtype == rtype::NS && end.is_under(&r.owner);
        chain_end(unbound).is_some() && unbound.sections[1].iter().any(ns)
    };
    // QTYPE CNAME is answered by the first link; for other types, a chain alone is no answer.
    view.case.query.qtype != rtype::CNAME
        && upstream.sections[1].is_empty()
        && view.case.of(Kind::Unbound).is_some_and(delegates)
}

fn is_bare_failure(answer: &Answer) -> bool {
    answer.rcode == 2 && is_bare(answer)
}

fn is_bare(answer: &Answer) -> bool {
    answer.sections.iter().all(BTreeSet::is_empty)
}

/// A DNAME of the chain would make a name too long.
fn too_long(view: &View<'_>) -> bool {
    let Some(upstream) = view.case.upstream() else { return false };
    let targets = upstream.sections[0]
        .iter()
        .filter(|r| r.rtype == rtype::CNAME)
        .filter_map(|r| Some(Name::from_wire(&r.rdata)?.0.lower()));
    let names: Vec<_> = targets.chain([view.case.query.name.lower()]).collect();
    let overflows = |dname: &Record| {
        Name::from_wire(&dname.rdata).is_some_and(|(target, _)| {
            names.iter().any(|name| {
                let below = name.is_under(&dname.owner) && *name != dname.owner;
                below && name.wire_len() - dname.owner.wire_len() + target.wire_len() > 255
            })
        })
    };
    let refused = upstream.rcode == 3 && is_bare_failure(view.mine);
    (refused || view.mine.rcode == upstream.rcode)
        && upstream.sections[0].iter().filter(|r| r.rtype == rtype::DNAME).any(overflows)
}

/// A DNAME has the same owner as the CNAME synthesized from it, instead of one above.
fn wildcard_dname(view: &View<'_>) -> bool {
    let Some(upstream) = view.case.upstream() else { return false };
    let at = |rtype| upstream.sections[0].iter().filter(move |r| r.rtype == rtype).map(|r| &r.owner);
    let expanded = at(rtype::DNAME).any(|owner| at(rtype::CNAME).any(|other| other == owner));
    let refused = upstream.rcode == 3 && is_bare_failure(view.mine);
    expanded && (refused || passes_on(view, upstream))
}

/// Whether the subject's answer contains only records of the upstream server's answer.
fn passes_on(view: &View<'_>, upstream: &Answer) -> bool {
    let known = |mine: &Record| upstream.sections[0].iter().any(|r| is_same_data(r, mine));
    view.mine.rcode == upstream.rcode && view.mine.sections[0].iter().all(known)
}

fn error(view: &View<'_>) -> bool {
    let Some(upstream) = view.case.upstream() else { return false };
    let fails = |kind| view.case.of(kind).is_some_and(|a| a.rcode == 2);
    let left_off = chain_end(upstream).is_some() && fails(Kind::Bind) && fails(Kind::Unbound);
    let failed = !matches!(upstream.rcode, 0 | 3 | 6) || upstream.rcode == 0 && left_off;
    failed && is_bare_failure(view.mine)
}

fn class(view: &View<'_>) -> bool {
    let refused = view.case.upstream().is_some_and(|a| a.rcode != 0);
    match view.case.query.class {
        1 => false,
        255 => is_bare(view.mine) && matches!(view.mine.rcode, 2 | 4 | 5),
        _ => refused && view.mine.rcode == 5 && is_bare(view.mine),
    }
}

/// The subject's answer contains only records from the upstream server.
fn any(view: &View<'_>) -> bool {
    let Some(upstream) = view.case.upstream() else { return false };
    view.case.query.qtype == rtype::ANY
        && (view.mine.has(flag::TC) || !view.mine.sections[0].is_empty())
        && passes_on(view, upstream)
}

/// QTYPE DNAME: the upstream server's answer has a DNAME above a name of the chain, and the subject passes
/// all of it on.
fn dname_type(view: &View<'_>) -> bool {
    let Some(upstream) = view.case.upstream() else { return false };
    let name = view.case.query.name.lower();
    let links = upstream.sections[0].iter().filter(|r| r.rtype == rtype::CNAME).map(|r| &r.owner);
    let names: Vec<_> = links.chain([&name]).collect();
    let below = |r: &Record| names.iter().any(|name| name.is_under(&r.owner) && **name != r.owner);
    let redirects = |r: &Record| r.rtype == rtype::DNAME && below(r);
    let passed_on = |r: &Record| view.mine.sections[0].iter().any(|mine| is_same_data(r, mine));
    let as_unbound = view.case.of(Kind::Unbound).is_some_and(|unbound| unbound.rcode == view.mine.rcode);
    let all = view.mine.has(flag::TC) || upstream.sections[0].iter().all(passed_on);
    view.case.query.qtype == rtype::DNAME
        && upstream.sections[0].iter().any(redirects)
        && (all || as_unbound && is_bare_failure(view.mine))
}

/// QTYPE DS with an incomplete chain, which the subject and Unbound complete in the same way.
fn ds_after_cname(view: &View<'_>) -> bool {
    let (Some(upstream), Some(unbound)) = (view.case.upstream(), view.case.of(Kind::Unbound)) else {
        return false;
    };
    let lacks = |all: &BTreeSet<Record>, record: &Record| !all.iter().any(|r| is_same_data(r, record));
    let same =
        |(a, b): (&BTreeSet<Record>, &BTreeSet<Record>)| a.len() == b.len() && !a.iter().any(|r| lacks(b, r));
    view.case.query.qtype == rtype::DS
        && upstream.rcode == 0
        && upstream.sections[1].is_empty()
        && chain_end(upstream).is_some()
        && view.mine.rcode == unbound.rcode
        && view.mine.sections.iter().zip(&unbound.sections).take(2).all(same)
}

/// The subject's authority section has the upstream server's proofs and nothing that the upstream server
/// lacks; another server's differs from it in proofs only.
fn proofs(view: &View<'_>) -> bool {
    let Some(upstream) = view.case.upstream() else { return false };
    // PowerDNS Recursor does not resolve QTYPE RRSIG.
    let failed = view.case.query.qtype == rtype::RRSIG && is_bare_failure(view.theirs);
    let [mine, theirs, upstream] = [view.mine, view.theirs, upstream].map(|answer| &answer.sections[1]);
    let lacks = |all: &BTreeSet<Record>, record: &Record| !all.iter().any(|r| is_same_data(r, record));
    let is_proof = |r: &&Record| [rtype::NSEC, rtype::NSEC3].into_iter().any(|rtype| r.is_or_covers(rtype));
    let only = |these: &BTreeSet<Record>, others: &BTreeSet<Record>| {
        these.iter().filter(|r| lacks(others, r)).all(|r| is_proof(&r))
    };
    let passed_on =
        mine.iter().all(|r| !lacks(upstream, r)) && upstream.iter().filter(is_proof).all(|r| !lacks(mine, r));
    let same_code = failed || view.mine.rcode == view.theirs.rcode;
    passed_on && same_code && only(mine, theirs) && only(theirs, mine)
}

fn is_same_data(a: &Record, b: &Record) -> bool {
    (&a.owner, a.rtype, a.class, &a.rdata) == (&b.owner, b.rtype, b.class, &b.rdata)
}

fn additional(view: &View<'_>) -> bool {
    view.mine.sections[2].is_empty() && view.mine.rcode == view.theirs.rcode
}

/// The subject passes on all records that the upstream server has of the type, or that there are none;
/// another server returns a CNAME at the name, or the zone has one.
fn cname_and_old_types(view: &View<'_>) -> bool {
    let Some(upstream) = view.case.upstream() else { return false };
    let types = [rtype::NSEC, rtype::NSEC3, rtype::RRSIG, rtype::SIG, rtype::KEY, rtype::NXT];
    let name = view.case.query.name.lower();
    let mut all = view.case.replies.iter().filter_map(|(_, r)| r.answer());
    let in_zone = view.case.world.zone_of(&name).is_some_and(|zone| zone.has(&name, "CNAME"));
    types.contains(&view.case.query.qtype)
        && upstream.sections[0].iter().all(|r| r.rtype != rtype::CNAME)
        && upstream.sections[0].len() == view.mine.sections[0].len()
        && passes_on(view, upstream)
        && (in_zone || all.any(|a| a.sections[0].iter().any(|r| r.rtype == rtype::CNAME && r.owner == name)))
}

/// The largest complete message, including that from upstream by TCP, differs from the limit by no more than
/// compression explains.
fn fits_or_not(view: &View<'_>) -> bool {
    let replies = view.case.replies.iter().filter_map(|(_, r)| r.answer()).chain(view.case.upstream());
    let fullest = replies.filter(|a| !a.has(flag::TC)).map(|a| a.len).max().unwrap_or(0);
    // Names synthesized from DNAMEs repeat whole labels, which only some servers compress.
    let chained = view.mine.sections[0].iter().any(|r| r.rtype == rtype::DNAME);
    let slack = if chained { 260 } else { 60 };
    let near = |room: usize| fullest + slack > room && fullest < room + slack;
    view.mine.rcode == view.theirs.rcode && super::room(view).is_some_and(near)
}

/// The subject passes on the upstream server's NXDOMAIN and chain; the other has a record at the end of that
/// chain.
fn broken_chain(view: &View<'_>) -> bool {
    let Some(upstream) = view.case.upstream() else { return false };
    let goes_on = |end: &Name| view.theirs.sections[0].iter().any(|r| r.owner == *end);
    upstream.rcode == 3
        && view.mine.sections[0].len() == upstream.sections[0].len()
        && passes_on(view, upstream)
        && chain_end(upstream).is_some_and(|(_, end)| goes_on(&end.lower()))
}

/// For a query without DO, the subject passes on the upstream server's NXDOMAIN below a wildcard DNAME; the
/// other returns only the RCODE.
fn bare_denial(view: &View<'_>) -> bool {
    let Some(upstream) = view.case.upstream() else { return false };
    let with_do = view.case.query.edns.as_ref().is_some_and(|edns| edns.dnssec_ok);
    upstream.rcode == 3
        && !with_do
        && upstream.sections[0].iter().any(|r| r.rtype == rtype::DNAME && r.owner.is_wildcard())
        && view.mine.sections[0].len() == upstream.sections[0].len()
        && passes_on(view, upstream)
        && view.theirs.rcode == 3
        && view.theirs.sections.iter().all(BTreeSet::is_empty)
}

fn runs_out(view: &View<'_>) -> bool {
    let soon = view.case.forwarding.as_ref().map_or(0, |f| f.slack);
    view.theirs.sections.iter().flatten().any(|r| r.ttl <= soon)
}

/// Number of answers of one name that fit into nomen's cache: the slots of a pair of buckets of its index.
const OF_ONE_NAME: usize = 16;

/// The name has too many answers to cache all of them, and this one is the upstream server's current one.
fn crowded_name(view: &View<'_>) -> bool {
    let (Some(upstream), Some(forwarding)) = (view.case.upstream(), &view.case.forwarding) else {
        return false;
    };
    let fresh = |mine: &Record| {
        let mut same = upstream.sections.iter().flatten().filter(|r| is_same_data(r, mine));
        same.all(|r| mine.ttl <= r.ttl)
    };
    forwarding.kept_apart > OF_ONE_NAME && view.mine.sections.iter().flatten().all(fresh)
}
