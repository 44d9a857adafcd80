//! The allowed differences: each rule is as narrow as possible, and quotes the document that decides.
//! `EXPLAINED.md` has the same rules as prose, and a test compares the two.

mod forwarding;
mod resolving;

pub(crate) use forwarding::{AGAIN as AGAIN_RULES, RULES as FORWARDING_RULES};
pub(crate) use resolving::{AGAIN as RESOLVING_AGAIN_RULES, RULES as RESOLVING_RULES};

use crate::answer::{Answer, OptRecord, Record, flag};
use crate::compare::{Case, Difference, Facet, Reply};
use crate::name::Name;
use crate::nsec3;
use crate::query::{Transport, rtype};
use crate::servers::Kind;
use std::collections::BTreeSet;

/// One rule.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Short name, printed with its count.
    pub id: &'static str,
    /// Facets that it may excuse.
    pub facets: &'static [Facet],
    /// The server that it excuses; `None` for any server.
    pub subject: Option<Kind>,
    /// What differs, and the document that decides.
    pub why: &'static str,
    /// Whether the rule applies to a difference.
    pub applies: fn(&View<'_>) -> bool,
}

/// Input of a rule.
#[derive(Debug)]
pub(crate) struct View<'a> {
    /// The query and all replies.
    pub case: &'a Case<'a>,
    /// The subject's response.
    pub mine: &'a Answer,
    /// The response of one server of the group it differs from, or the subject's own earlier one.
    pub theirs: &'a Answer,
    /// The difference.
    pub difference: &'a Difference,
}

/// All rules for authoritative servers, tried in order; those for forwarders are in `forwarding`.
pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "cname-across-zones",
        facets: &[Facet::Rcode, Facet::Aa, Facet::Tc, Facet::Answer, Facet::Authority, Facet::Additional],
        subject: Some(Kind::Nomen),
        why: "The chain goes on into another zone that the server has too. RFC 1034, section 4.3.2, step \
              3a: \"change QNAME to the canonical name in the CNAME RR, and go back to step 1\", and step 2 \
              searches \"the available zones\". NSD goes on; BIND and Knot stop at the zone's edge.",
        applies: across_zones,
    },
    Rule {
        id: "chain-limit",
        facets: &[
            Facet::Rcode,
            Facet::Tc,
            Facet::Answer,
            Facet::Authority,
            Facet::Additional,
            Facet::Duplicates,
        ],
        subject: Some(Kind::Nomen),
        why: "A chain of CNAMEs or DNAMEs without end, or nearly so: how many steps a server takes is its \
              own affair; as far as both go, they go the same way. RFC 1034, section 3.6.2: chains \"should \
              be followed and CNAME loops signalled as an error\"; RFC 6672, section 3.2 gives YXDOMAIN \
              where a substituted name becomes too long.",
        applies: chain_limit,
    },
    Rule {
        id: "cname-and-old-types",
        facets: &[Facet::Rcode, Facet::Tc, Facet::Answer, Facet::Authority, Facet::Additional],
        subject: Some(Kind::Nomen),
        why: "QTYPE NSEC, NSEC3, RRSIG, SIG, KEY or NXT at a CNAME that has no such record beside it. RFC \
              1034, section 3.6.2: when the server \"fails to find a desired RR in the resource set\" and \
              finds a CNAME, it \"restarts the query at the domain name specified\"; no type is left out. \
              nomen does so for all of them; BIND, NSD and Knot each say NODATA for some.",
        applies: cname_and_old_types,
    },
    Rule {
        id: "truncated-chain-rcode",
        facets: &[Facet::Rcode, Facet::Aa],
        subject: Some(Kind::Nomen),
        why: "An answer is truncated on the way along a chain, and its RCODE speaks of where it stopped. RFC \
              2181, section 9: a truncated response is to be ignored and the query repeated by TCP; that \
              repetition is compared in full.",
        applies: truncated_chain,
    },
    Rule {
        id: "any-at-dname",
        facets: &[Facet::Rcode, Facet::Tc, Facet::Answer, Facet::Authority, Facet::Additional],
        subject: Some(Kind::Nomen),
        why: "Policy: QTYPE ANY below a DNAME is answered with the DNAME and the CNAME made from it. RFC \
              6672, section 3.2 restarts the query at the target whatever its QTYPE, as NSD and Knot do; RFC \
              8482, section 4.1 lets a responder give some of the RRsets to ANY, and nomen, as BIND, stops \
              there, so that ANY costs no walk through other zones.",
        applies: any_at_dname,
    },
    Rule {
        id: "glue-truncation",
        facets: &[Facet::Tc],
        subject: Some(Kind::Nomen),
        why: "A referral whose glue does not fit. RFC 9471, section 3.1: \"If message size constraints \
              prevent the inclusion of all glue records for in-domain name servers [...], the server MUST \
              set the TC (Truncated) flag\".",
        applies: glue_does_not_fit,
    },
    Rule {
        id: "extended-error",
        facets: &[Facet::Edns],
        subject: Some(Kind::Nomen),
        why: "An EDE option beside an error. RFC 8914, section 2: it can stand in any response to a query \
              with an OPT record, whatever the RCODE.",
        applies: extended_error_only,
    },
    Rule {
        id: "wildcard-ns",
        facets: &[Facet::Aa, Facet::Answer, Facet::Authority, Facet::Additional],
        subject: Some(Kind::Nomen),
        why: "NS at a wildcard owner. RFC 4592, section 4.2: \"the semantics of a wildcard domain name \
              owning an NS RRSet has come to be poorly defined\"; BIND refuses to load such a zone, Knot \
              gives a referral, nomen and NSD take the records for data.",
        applies: wildcard_ns,
    },
    Rule {
        id: "formerr-with-opt",
        facets: &[Facet::Edns],
        subject: Some(Kind::Nomen),
        why: "FORMERR to a message whose OPT could be read. RFC 6891, section 6.1.1: \"If an OPT record is \
              present in a received request, compliant responders MUST include an OPT record in their \
              respective responses\".",
        applies: formerr_with_opt,
    },
    Rule {
        id: "trailing-bytes",
        facets: &[Facet::Rcode, Facet::Aa, Facet::Answer, Facet::Authority, Facet::Additional],
        subject: Some(Kind::Nomen),
        why: "Bytes behind the last record the header counts. RFC 1035, section 4.1 has no such part in a \
              message; nomen and Knot say FORMERR, BIND and NSD answer.",
        applies: trailing_bytes,
    },
    Rule {
        id: "malformed-formerr",
        facets: &[Facet::Reply],
        subject: Some(Kind::Nomen),
        why: "The question cannot be read, or is not one (RFC 9619). RFC 1035, section 4.1.1: RCODE 1, \"the \
              name server was unable to interpret the query\" (4 where the opcode is not known either); some \
              servers stay silent instead.",
        applies: malformed_formerr,
    },
    Rule {
        id: "additional-ignored",
        facets: &[Facet::Rcode, Facet::Aa, Facet::Answer, Facet::Authority, Facet::Additional],
        subject: Some(Kind::Nomen),
        why: "A query with a record in its additional section that is neither OPT nor a signature of the \
              transaction. RFC 1035, section 4.1 gives it no meaning in a query; nomen reads past it, others \
              object to its class or RDATA.",
        applies: additional_ignored,
    },
    Rule {
        id: "opcode-not-implemented",
        facets: &[Facet::Rcode, Facet::Aa, Facet::Question, Facet::Answer, Facet::Authority],
        subject: Some(Kind::Nomen),
        why: "OPCODE other than QUERY. RFC 1035, section 4.1.1: RCODE 4, \"the name server does not support \
              the requested kind of query\"; a primary without transfers or updates supports none other, and \
              the form of the rest of the message is then unknown to it.",
        applies: opcode_not_implemented,
    },
    Rule {
        id: "notify-refused",
        facets: &[Facet::Rcode, Facet::Aa],
        subject: Some(Kind::Nomen),
        why: "Policy: NOTIFY from a stranger, or for a zone that is not taken from primaries. RFC 1996, \
              section 3.10: a notification from anyone but a known primary is to be ignored and logged. \
              nomen changes nothing and logs it, and sends REFUSED, as NSD does, because a primary repeats a \
              NOTIFY that gets no response (section 3.6); Knot says NOTAUTH, BIND NOERROR or NOTAUTH.",
        applies: notify_refused,
    },
    Rule {
        id: "meta-qtype",
        facets: &[Facet::Rcode, Facet::Aa, Facet::Authority, Facet::Answer],
        subject: Some(Kind::Nomen),
        why: "A QTYPE that no record can have: 0, OPT, TKEY, TSIG, MAILA, MAILB. RFC 6895, section 3.1 sets \
              0 and the meta-TYPEs apart, RFC 1035, section 3.2.3 calls MAILA obsolete; nomen and BIND give \
              an error where others look the type up and find nothing.",
        applies: meta_qtype,
    },
    Rule {
        id: "transfer-refused",
        facets: &[Facet::Rcode, Facet::Aa],
        subject: Some(Kind::Nomen),
        why: "A transfer that is not offered. RFC 5936, section 2.2.1: REFUSED where the server does not \
              give this client the zone; section 4.2: \"AXFR sessions over UDP transport are not defined\".",
        applies: transfer_refused,
    },
    Rule {
        id: "chaos",
        facets: &[Facet::Rcode, Facet::Aa, Facet::Answer, Facet::Authority, Facet::Edns, Facet::Additional],
        subject: Some(Kind::Nomen),
        why: "The server's own names in class CHAOS. RFC 4892, section 3 leaves to the operator whether and \
              what they answer; every server's text and defaults are its own.",
        applies: chaos,
    },
    Rule {
        id: "minimal-any",
        facets: &[Facet::Tc, Facet::Answer, Facet::Authority, Facet::Additional],
        subject: Some(Kind::Nomen),
        why: "QTYPE ANY answered with one RRset. RFC 8482, section 4.1 lets a responder give one RRset or \
              some of those it has; which one is its own choice, and every server's is another.",
        applies: minimal_any,
    },
    Rule {
        id: "nsec3-owner-names",
        facets: &[Facet::Rcode, Facet::Aa, Facet::Tc, Facet::Answer, Facet::Authority, Facet::Additional],
        subject: Some(Kind::Nomen),
        why: "A name at or below the owner of an NSEC3 record. RFC 5155, section 7.2.8: it is answered as a \
              name that does not exist, unless something else stands there; NSD and Knot let it stand in the \
              way of a wildcard or of a closest encloser.",
        applies: nsec3_owner_names,
    },
    Rule {
        id: "additional-size",
        facets: &[Facet::Additional],
        subject: Some(Kind::Nomen),
        why: "A datagram nearly full: which of the additional records that are not glue it still holds. RFC \
              2181, section 9: TC is not set \"merely because some extra information could have been \
              included, but there was insufficient room\". The same question by TCP is compared in full.",
        applies: additional_size,
    },
    Rule {
        id: "sibling-glue-truncation",
        facets: &[Facet::Tc],
        subject: Some(Kind::Nomen),
        why: "A referral without all of its sibling glue. RFC 9471, section 3.2 asks TC only for in-domain \
              glue: what fits of the sibling glue is sent. The same question by TCP is compared in full.",
        applies: sibling_glue,
    },
    Rule {
        id: "ds-after-cname",
        facets: &[Facet::Rcode, Facet::Authority],
        subject: Some(Kind::Nomen),
        why: "QTYPE DS at a CNAME that leads to the apex of a zone served here, whose parent is served too. \
              RFC 4035, section 3.1.4.1: the parent answers for DS at a cut; nomen holds to it behind a \
              CNAME as it does without one.",
        applies: ds_after_cname,
    },
    Rule {
        id: "fits-or-not",
        facets: &[Facet::Tc],
        subject: Some(Kind::Nomen),
        why: "A datagram about as full as it may be: some servers compress more names than others, so it \
              fits here and not there. RFC 1035, section 4.1.4 leaves compression to the sender. The same \
              question by TCP is compared in full.",
        applies: fits_or_not,
    },
    Rule {
        id: "nul-in-labels",
        facets: &[Facet::Tc, Facet::Authority],
        subject: Some(Kind::Nomen),
        why: "Denial in a signed zone with bytes 0 or 1 in its labels. RFC 4034, section 6.1 orders labels \
              byte by byte, \"the absence of a octet\" sorting before a zero octet; BIND does so, NSD and \
              Knot take another record for the one that covers the name.",
        applies: nul_in_labels,
    },
    Rule {
        id: "cd-cleared",
        facets: &[Facet::Flags],
        subject: Some(Kind::Nomen),
        why: "CD set in the query and not in the answer. RFC 4035, section 3.1.6: \"A security-aware name \
              server SHOULD clear the CD bit when composing an authoritative response\". BIND copies it \
              always, NSD into BADVERS.",
        applies: cd_cleared,
    },
    Rule {
        id: "svcb-additional",
        facets: &[Facet::Additional],
        subject: Some(Kind::Nomen),
        why: "Addresses beside SVCB and HTTPS records. RFC 9460, section 4.1: an authoritative \
              server \"SHOULD\" add the records of the target name. nomen adds the addresses of the target \
              names, and nothing of a target that is a CNAME; servers that add less leave those addresses \
              out, servers that add more send the CNAME at the target, what it leads to, or (Knot alone) \
              NSEC3 records that prove something of the target.",
        applies: svcb_additional,
    },
    Rule {
        id: "class-any",
        facets: &[Facet::Rcode, Facet::Aa, Facet::Tc, Facet::Authority, Facet::Additional],
        subject: Some(Kind::Nomen),
        why: "QCLASS ANY. RFC 1035, section 6.2 lets it be answered from the zones there are, never \
              authoritatively; BIND refuses to read it, NSD leaves the authority section out and with it the \
              addresses of the servers named there, Knot sets AA.",
        applies: class_any,
    },
    Rule {
        id: "wildcard-ent",
        facets: &[Facet::Tc, Facet::Authority],
        subject: Some(Kind::Nomen),
        why: "No data at a wildcard that is itself an empty non-terminal, in a zone with NSEC. RFC 4035, \
              section 3.1.3.4 asks for a proof \"that there are no RRsets matching <SNAME, STYPE> that could \
              have been used to answer via wildcard expansion\"; at an empty non-terminal that is the NSEC \
              before it. nomen and NSD send it, BIND and Knot leave it out.",
        applies: wildcard_ent,
    },
    Rule {
        id: "wildcard-without-data",
        facets: &[Facet::Rcode, Facet::Tc, Facet::Authority],
        subject: Some(Kind::Nomen),
        why: "A name whose source of synthesis, the wildcard at its closest encloser, is an empty \
              non-terminal. RFC 4592, section 2.2.2: such a name exists, so the answer is NODATA. nomen and \
              Knot say so; BIND since 9.20 says NXDOMAIN, and NSD where another zone of the server lies \
              below the name asked for or beside it.",
        applies: wildcard_without_data,
    },
    Rule {
        id: "wildcard-host",
        facets: &[Facet::Additional],
        subject: Some(Kind::Nomen),
        why: "A host that only a wildcard gives an address. RFC 1034, section 4.3.2, step 6: \"attempt to \
              add other RRs which may be useful\", and section 4.3.3 makes wildcards records like others; \
              which hosts count is each server's own choice: nomen adds those of wildcards with authority, \
              NSD and Knot also those of wildcards below a cut, BIND few.",
        applies: wildcard_host,
    },
    Rule {
        id: "hosts-limit",
        facets: &[Facet::Additional],
        subject: Some(Kind::Nomen),
        why: "An answer that names very many hosts. RFC 1034, section 4.3.2, step 6: \"attempt to add other \
              RRs which may be useful\"; nomen adds the addresses of at most 32 hosts, so that one answer \
              costs no more than that (CVE-2024-11187).",
        applies: hosts_limit,
    },
    Rule {
        id: "tcp-keepalive",
        facets: &[Facet::Edns],
        subject: Some(Kind::Nomen),
        why: "The keepalive option asked for over TCP. RFC 7828, section 3.3.2: a server \"MAY include the \
              edns-tcp-keepalive option in any response\" to a query that had an OPT; nomen and BIND do, NSD \
              and Knot do not.",
        applies: tcp_keepalive,
    },
];

/// Returns the rule that explains `difference` of `subject`, if there is one.
pub(crate) fn explain(case: &Case<'_>, subject: Kind, difference: &Difference) -> Option<&'static Rule> {
    let mine = case.of(subject)?;
    // Silence has no response to compare; only the rules for silence apply to it, and they look at the
    // subject's own.
    let silent = case.replies.iter().any(|(k, r)| difference.against.contains(k) && *r == Reply::Silence);
    let again = difference.against == [subject];
    let theirs = match difference.against.first()? {
        _ if again => case.earlier(subject)?,
        kind => case.of(*kind).or(silent.then_some(mine))?,
    };
    let view = View { case, mine, theirs, difference };
    let rules = match (&case.forwarding, &case.resolving) {
        (None, None) => RULES,
        (Some(_), _) if again => AGAIN_RULES,
        (Some(_), _) => FORWARDING_RULES,
        (None, Some(_)) if again => RESOLVING_AGAIN_RULES,
        (None, Some(_)) => RESOLVING_RULES,
    };
    rules.iter().find(|rule| {
        rule.facets.contains(&difference.facet)
            && rule.subject.is_none_or(|s| s == subject)
            && (rule.applies)(&view)
    })
}

/// Returns all rules.
pub(crate) fn all() -> impl Iterator<Item = &'static Rule> {
    let forwarding = FORWARDING_RULES.iter().chain(AGAIN_RULES);
    RULES.iter().chain(forwarding).chain(RESOLVING_RULES).chain(RESOLVING_AGAIN_RULES)
}

fn cnames(answer: &Answer) -> usize {
    answer.sections[0].iter().filter(|r| r.rtype == rtype::CNAME).count()
}

/// Returns the CNAME target that owns no record of the answer section, with the CNAME's owner: the chain ends
/// there.
fn chain_end(answer: &Answer) -> Option<(&Name, Name)> {
    let owners: BTreeSet<_> = answer.sections[0].iter().map(|r| &r.owner).collect();
    let links = answer.sections[0].iter().filter(|r| r.rtype == rtype::CNAME);
    links
        .filter_map(|r| Some((&r.owner, Name::from_wire(&r.rdata)?.0)))
        .find(|(_, target)| !owners.contains(target))
}

fn across_zones(view: &View<'_>) -> bool {
    let world = view.case.world;
    let Some((owner, target)) = chain_end(view.theirs) else { return false };
    let (Some(from), Some(to)) = (world.zone_of(owner), world.zone_of(&target)) else { return false };
    let goes_on = view.mine.sections[0].is_superset(&view.theirs.sections[0]);
    from.name != to.name && (goes_on || view.mine.has(flag::TC))
}

/// One of the two responses shows an endless chain (or any server's, if one is truncated), and one's answer
/// section contains the other's.
fn chain_limit(view: &View<'_>) -> bool {
    let (mine, theirs) = (view.mine, view.theirs);
    let codes = [mine, theirs].iter().all(|a| matches!(a.rcode, 0 | 2 | 3 | 6));
    if mine.has(flag::TC) || theirs.has(flag::TC) {
        return codes && endless_chain(view);
    }
    let (own, other) = (&mine.sections[0], &theirs.sections[0]);
    let same_way = own.is_subset(other) || other.is_subset(own);
    codes && same_way && [mine, theirs].iter().any(|a| is_endless(a))
}

/// Some server's response shows a chain longer than any regular one in the zones, or a loop.
fn endless_chain(view: &View<'_>) -> bool {
    let replies = view.case.replies.iter().filter_map(|(_, r)| r.answer());
    replies.chain(view.case.upstream()).any(is_endless)
}

fn is_endless(a: &Answer) -> bool {
    let owners: BTreeSet<_> =
        a.sections[0].iter().filter(|r| r.rtype == rtype::CNAME).map(|r| r.owner.clone()).collect();
    let closes = |r: &Record| Name::from_wire(&r.rdata).is_some_and(|(n, _)| owners.contains(&n));
    let all_close =
        !owners.is_empty() && a.sections[0].iter().filter(|r| r.rtype == rtype::CNAME).all(closes);
    let grows = a.sections[0]
        .iter()
        .filter(|r| r.rtype == rtype::DNAME)
        .any(|r| Name::from_wire(&r.rdata).is_some_and(|(target, _)| target.is_under(&r.owner)));
    grows || cnames(a) > 12 || all_close
}

fn truncated_chain(view: &View<'_>) -> bool {
    let cut = |a: &Answer| a.has(flag::TC);
    let chained = view.case.replies.iter().filter_map(|(_, r)| r.answer());
    let redirects =
        |a: &Answer| a.sections[0].iter().any(|r| r.is_or_covers(rtype::CNAME) || r.rtype == rtype::DNAME);
    // Where no link fitted into the message, the zone shows that there is a chain.
    let name = view.case.query.name.lower();
    let below_dname = view.case.world.zone_of(&name).is_some_and(|zone| {
        let depth = name.0.len() - zone.name.0.len();
        (1..=depth).any(|skip| zone.has(&Name(name.0[skip..].to_vec()), "DNAME"))
    });
    (cut(view.mine) || cut(view.theirs)) && (below_dname || chained.into_iter().any(redirects))
}

/// The subject answers with a DNAME above the name and its synthesized CNAME, with their signatures; the
/// other has these as well and follows the CNAME.
fn any_at_dname(view: &View<'_>) -> bool {
    let name = view.case.query.name.lower();
    let mine = &view.mine.sections[0];
    let has = |t| mine.iter().any(|r| r.rtype == t);
    let stops = mine.iter().all(|r| {
        let redirects = r.is_or_covers(rtype::DNAME) && name.is_under(&r.owner) && name != r.owner;
        redirects || r.is_or_covers(rtype::CNAME) && r.owner == name
    });
    let goes_on = view.theirs.has(flag::TC) || view.theirs.sections[0].is_superset(mine);
    view.case.query.qtype == rtype::ANY && has(rtype::DNAME) && has(rtype::CNAME) && stops && goes_on
}

fn glue_does_not_fit(view: &View<'_>) -> bool {
    let referral = !view.theirs.has(flag::AA)
        && view.theirs.sections[0].is_empty()
        && view.theirs.sections[1].iter().any(|r| r.rtype == rtype::NS);
    let room = view.case.query.edns.as_ref().map_or(512, |e| usize::from(e.size.clamp(512, 1232)));
    // The other's referral nearly fills a datagram.
    view.mine.has(flag::TC) && referral && view.theirs.len + 28 + 200 > room
}

fn extended_error_only(view: &View<'_>) -> bool {
    let (Some(mine), Some(theirs)) = (&view.mine.opt, &view.theirs.opt) else { return false };
    // NSID is sent only by servers that have one configured.
    let rest =
        |o: &OptRecord| o.codes.iter().copied().filter(|c| !matches!(c, 3 | 15)).collect::<BTreeSet<_>>();
    let header = |o: &OptRecord| (o.size, o.version, o.dnssec_ok, o.z);
    view.mine.rcode != 0 && header(mine) == header(theirs) && rest(mine) == rest(theirs)
}

/// The other server sends a referral from a wildcard NS above the name, and the subject an authoritative
/// answer.
fn wildcard_ns(view: &View<'_>) -> bool {
    let name = view.case.query.name.lower();
    let Some(zone) = view.case.world.zone_of(&name) else { return false };
    let delegates =
        |r: &Record| r.owner.is_wildcard() && zone.has(&r.owner, "NS") && name.is_under(&r.owner.parent());
    let servers: Vec<_> = view.theirs.sections[1].iter().filter(|r| r.rtype == rtype::NS).collect();
    let refers = view.theirs.sections[0].is_empty() && !view.theirs.has(flag::AA) && view.theirs.rcode == 0;
    refers
        && !servers.is_empty()
        && servers.into_iter().all(delegates)
        && view.mine.has(flag::AA)
        && view.mine.rcode == 0
}

fn formerr_with_opt(view: &View<'_>) -> bool {
    view.case.message.is_some() && view.mine.rcode == 1 && view.mine.opt.is_some()
}

fn trailing_bytes(view: &View<'_>) -> bool {
    let Some(message) = view.case.message else { return false };
    let trailing = Answer::parse(&message.wire).is_err_and(|e| e.contains("after the last record"));
    trailing && view.mine.rcode == 1
}

fn malformed_formerr(view: &View<'_>) -> bool {
    let refused = view.mine.rcode == 1 || (view.mine.rcode == 4 && view.mine.opcode != 0);
    let one_question = |wire: &[u8]| wire.get(4..6) == Some(&[0, 1]);
    let bad = |wire: &[u8]| Answer::parse(wire).is_err() || !one_question(wire);
    view.case.message.is_some_and(|m| bad(&m.wire)) && refused
}

fn additional_ignored(view: &View<'_>) -> bool {
    let Some(request) = view.case.message.and_then(|m| Answer::parse(&m.wire).ok()) else { return false };
    let foreign = |r: &Record| !matches!(r.rtype, rtype::OPT | rtype::SIG | 250);
    request.sections[2].iter().any(foreign) && view.theirs.rcode == 1 && view.mine.rcode != 1
}

fn opcode_not_implemented(view: &View<'_>) -> bool {
    view.case.message.is_some() && view.mine.opcode != 0 && view.mine.rcode == 4
}

/// Both refuse or acknowledge, with empty answer and authority sections.
fn notify_refused(view: &View<'_>) -> bool {
    let bare = |a: &Answer| a.opcode == 4 && a.sections.iter().take(2).all(BTreeSet::is_empty);
    view.case.message.is_some()
        && view.mine.rcode == 5
        && matches!(view.theirs.rcode, 0 | 5 | 9)
        && bare(view.mine)
        && bare(view.theirs)
}

fn meta_qtype(view: &View<'_>) -> bool {
    let qtype = view.mine.question.first().map_or(view.case.query.qtype, |q| q.1);
    matches!(qtype, 0 | 41 | 249 | 250 | 253 | 254) && matches!(view.mine.rcode, 1 | 4)
}

fn transfer_refused(view: &View<'_>) -> bool {
    matches!(view.case.query.qtype, rtype::AXFR | rtype::IXFR) && view.mine.rcode == 5
}

fn chaos(view: &View<'_>) -> bool {
    view.case.query.class == 3
}

fn cname_and_old_types(view: &View<'_>) -> bool {
    let types = [rtype::NSEC, rtype::NSEC3, rtype::RRSIG, rtype::SIG, rtype::KEY, rtype::NXT];
    let case = view.case;
    let name = case.query.name.lower();
    let has_cname = || case.world.zone_of(&name).is_some_and(|zone| zone.has(&name, "CNAME"));
    // A truncated answer may show no link of the chain; the zone shows that there is one.
    let cut = view.mine.has(flag::TC) && cnames(view.mine) == 0 && has_cname();
    let most = if cut { 1 } else { cnames(view.mine) };
    let stays = |kind: &Kind| case.of(*kind).is_some_and(|a| cnames(a) < most);
    types.contains(&case.query.qtype) && view.difference.against.iter().any(stays)
}

fn minimal_any(view: &View<'_>) -> bool {
    let subset = view
        .case
        .of(Kind::Bind)
        .is_some_and(|b| b.has(flag::TC) || view.mine.sections[0].is_subset(&b.sections[0]));
    view.case.query.qtype == rtype::ANY && !view.mine.sections[0].is_empty() && subset
}

fn nsec3_owner_names(view: &View<'_>) -> bool {
    let name = view.case.query.name.lower();
    let Some(zone) = view.case.world.zone_of(&name) else { return false };
    let depth = name.0.len() - zone.name.0.len();
    let covered = (0..depth).any(|skip| zone.has(&Name(name.0[skip..].to_vec()), "NSEC3"));
    // At least one peer must agree with the subject.
    covered && (view.difference.against.len() < 3 || view.difference.facet == Facet::Tc)
}

/// Returns the maximum size of a datagram, in bytes.
fn room(view: &View<'_>) -> Option<usize> {
    (view.case.query.transport == Transport::Udp)
        .then(|| view.case.query.edns.as_ref().map_or(512, |e| usize::from(e.size.clamp(512, 1232))))
}

fn additional_size(view: &View<'_>) -> bool {
    let fullest = view.mine.len.max(view.theirs.len);
    // A signed address RRset takes about 150 bytes: with more room than that left, it should have been sent.
    room(view).is_some_and(|room| fullest + 160 > room)
}

fn sibling_glue(view: &View<'_>) -> bool {
    let referral = !view.mine.has(flag::AA) && view.mine.sections[1].iter().any(|r| r.rtype == rtype::NS);
    let cut: BTreeSet<_> =
        view.mine.sections[1].iter().filter(|r| r.rtype == rtype::NS).map(|r| &r.owner).collect();
    let in_domain = view.mine.sections[1]
        .iter()
        .filter(|r| r.rtype == rtype::NS)
        .filter_map(|r| Name::from_wire(&r.rdata))
        .any(|(target, _)| cut.iter().any(|c| target.is_under(c)));
    room(view).is_some() && referral && !in_domain && !view.mine.has(flag::TC)
}

/// Both chains lead to the apex of a zone. The subject answers from the zone above it; the other has no SOA,
/// or answers from the zone itself.
fn ds_after_cname(view: &View<'_>) -> bool {
    let Some((_, target)) = chain_end(view.mine) else { return false };
    let target = target.lower();
    let is_apex = |name: &Name| view.case.world.zones.iter().any(|z| z.name.lower() == *name);
    let soa = |a: &Answer| {
        let mut owners = a.sections[1].iter().filter(|r| r.rtype == rtype::SOA).map(|r| r.owner.lower());
        owners.next()
    };
    let above = soa(view.mine).is_some_and(|apex| apex != target && target.is_under(&apex) && is_apex(&apex));
    let same_chain = view.mine.sections[0] == view.theirs.sections[0];
    let below = soa(view.theirs).map_or(view.theirs.sections[1].is_empty(), |apex| apex == target);
    view.case.query.qtype == rtype::DS
        && is_apex(&target)
        && same_chain
        && above
        && below
        && matches!(view.mine.rcode, 0 | 3)
        && view.theirs.rcode == 0
}

/// The largest complete answer is so close to the limit that compression decides, and both have the same
/// RCODE, as far as a truncated one shows it.
fn fits_or_not(view: &View<'_>) -> bool {
    let whole = view.case.replies.iter().filter_map(|(_, r)| r.answer()).filter(|a| !a.has(flag::TC));
    let Some(fullest) = whole.max_by_key(|a| a.len) else { return false };
    let chained = view.mine.sections[0].iter().any(|r| r.rtype == rtype::DNAME);
    let slack = COMPRESSION_SLACK + if chained { made_names(fullest).min(MADE) } else { 0 };
    let same_code = view.mine.rcode == view.theirs.rcode || truncated_chain(view);
    same_code && room(view).is_some_and(|room| fullest.len + slack > room)
}

/// Largest difference between two servers' compression, in bytes.
const COMPRESSION_SLACK: usize = 60;

/// Largest additional difference for names synthesized from DNAMEs, in bytes.
const MADE: usize = 200;

/// Returns the size of the names synthesized from DNAMEs: they repeat whole labels, which only some servers
/// compress.
fn made_names(answer: &Answer) -> usize {
    let records = &answer.sections[0];
    let dnames: Vec<_> = records.iter().filter(|r| r.rtype == rtype::DNAME).map(|r| &r.owner).collect();
    let is_made = |r: &&Record| {
        let below = |dname: &&Name| r.owner.is_under(dname) && r.owner != **dname;
        r.rtype == rtype::CNAME && dnames.iter().any(below)
    };
    records.iter().filter(is_made).map(|r| r.owner.wire_len() + r.rdata.len()).sum()
}

fn nul_in_labels(view: &View<'_>) -> bool {
    let Some(zone) = view.case.world.zone_of(&view.case.query.name) else { return false };
    let low = |name: &Name| name.0.iter().flatten().any(|o| *o < 2);
    let peers_apart = view.difference.against.iter().all(|k| matches!(k, Kind::Nsd | Kind::Knot));
    zone.signed && peers_apart && (low(&view.case.query.name) || zone.nodes.keys().any(low))
}

fn cd_cleared(view: &View<'_>) -> bool {
    // Only CD differs.
    !view.mine.has(flag::CD)
        && view.mine.flags | flag::CD | flag::AA | flag::TC == view.theirs.flags | flag::AA | flag::TC
}

/// Additional records of the subject are addresses of target names; those of the other are a CNAME at a
/// target name, what the CNAME leads to, or, from Knot, NSEC3 records about these names.
fn svcb_additional(view: &View<'_>) -> bool {
    let target = |r: &Record| {
        let service = matches!(r.rtype, rtype::SVCB | rtype::HTTPS);
        let (target, _) = service.then(|| Name::from_wire(r.rdata.get(2..)?)).flatten()?;
        // The root means the owner name itself.
        Some(if target.0.is_empty() { r.owner.clone() } else { target.lower() })
    };
    let targets: BTreeSet<_> = view.mine.sections[0].iter().filter_map(target).collect();
    let (mine, theirs) = (&view.mine.sections[2], &view.theirs.sections[2]);
    let is_address = |r: &Record| r.is_or_covers(rtype::A) || r.is_or_covers(rtype::AAAA);
    let mut led_to = BTreeSet::new();
    for _ in 0..theirs.len() {
        let links = theirs.iter().filter(|r| r.rtype == rtype::CNAME);
        let reached = links.filter(|r| targets.contains(&r.owner) || led_to.contains(&r.owner));
        let next: Vec<_> = reached.filter_map(|r| Some(Name::from_wire(&r.rdata)?.0.lower())).collect();
        led_to.extend(next);
    }
    let more = mine.difference(theirs).all(|r| is_address(r) && targets.contains(&r.owner));
    let about = |r: &Record| targets.iter().chain(&led_to).any(|name| nsec3::is_about(r, name));
    // A signature belongs to the RRset that it covers.
    let proves = |r: &Record| theirs.iter().any(|proof| proof.owner == r.owner && about(proof));
    let is_knot = view.difference.against == [Kind::Knot];
    let less = theirs.difference(mine).all(|r| {
        let alias = r.is_or_covers(rtype::CNAME) && (targets.contains(&r.owner) || led_to.contains(&r.owner));
        let proof = is_knot && r.is_or_covers(rtype::NSEC3) && proves(r);
        alias || proof || is_address(r) && led_to.contains(&r.owner)
    });
    !targets.is_empty() && more && less
}

/// The subject's answer has no AA; the other refuses, has AA, or leaves out the authority section and at most
/// addresses of the servers that the subject names there.
fn class_any(view: &View<'_>) -> bool {
    let (mine, theirs) = (view.mine, view.theirs);
    let refuses = matches!(theirs.rcode, 1 | 4 | 5) && theirs.sections.iter().all(BTreeSet::is_empty);
    let leaves_out = theirs.sections[1].is_empty() && theirs.rcode == mine.rcode;
    let servers: BTreeSet<_> = mine.sections[1]
        .iter()
        .filter(|r| r.rtype == rtype::NS)
        .filter_map(|r| Some(Name::from_wire(&r.rdata)?.0.lower()))
        .collect();
    let is_of_server =
        |r: &Record| (r.is_or_covers(rtype::A) || r.is_or_covers(rtype::AAAA)) && servers.contains(&r.owner);
    let only_servers = || {
        theirs.sections[2].is_subset(&mine.sections[2])
            && mine.sections[2].difference(&theirs.sections[2]).all(is_of_server)
    };
    let fits = match view.difference.facet {
        // Outside its zones the subject refuses as well.
        Facet::Rcode => refuses && matches!(mine.rcode, 0 | 3 | 5 | 6),
        Facet::Aa => theirs.has(flag::AA),
        Facet::Authority => refuses || leaves_out,
        // Without these sections the answer fits.
        Facet::Tc => mine.has(flag::TC) && (refuses || leaves_out),
        _ => refuses || leaves_out && only_servers(),
    };
    view.case.query.class == 255 && !mine.has(flag::AA) && fits
}

/// The subject has all the proofs of the others, and one more NSEC.
fn wildcard_ent(view: &View<'_>) -> bool {
    let proofs = |a: &Answer| a.sections[1].iter().filter(|r| r.rtype == rtype::NSEC).count();
    let nodata = view.mine.rcode == 0 && cnames(view.mine) == view.mine.sections[0].len();
    let nsd_too = view.case.of(Kind::Nsd).is_some_and(|a| a.has(flag::TC) || proofs(a) == 2);
    let more = view.mine.sections[1].is_superset(&view.theirs.sections[1]) && proofs(view.theirs) == 1;
    let cut = view.difference.facet == Facet::Tc && proofs(view.theirs) == 1 && view.mine.has(flag::TC);
    nodata && nsd_too && (cut || (more && proofs(view.mine) == 2))
}

/// The wildcard at the closest encloser of the chain's last name is an empty non-terminal; the other returns
/// NXDOMAIN.
fn wildcard_without_data(view: &View<'_>) -> bool {
    let name =
        chain_end(view.mine).map_or_else(|| view.case.query.name.lower(), |(_, target)| target.lower());
    let Some(zone) = view.case.world.zone_of(&name) else { return false };
    let exists = |name: &Name| zone.nodes.keys().any(|node| node.is_under(name));
    let depth = name.0.len() - zone.name.0.len();
    let encloser = (1..=depth).map(|skip| Name(name.0[skip..].to_vec())).find(|above| exists(above));
    let is_empty = |source: &Name| exists(source) && !zone.nodes.contains_key(source);
    let theirs_only = matches!(view.theirs.rcode, 0 | 3)
        && view.difference.against.iter().all(|kind| matches!(kind, Kind::Bind | Kind::Nsd));
    !exists(&name)
        && encloser.is_some_and(|above| is_empty(&above.child(b"*")))
        && view.mine.rcode == 0
        && (view.theirs.rcode == 3 || view.difference.facet != Facet::Rcode)
        && theirs_only
}

/// The records that only one side has are at names expanded from a wildcard.
fn wildcard_host(view: &View<'_>) -> bool {
    let (mine, theirs) = (&view.mine.sections[2], &view.theirs.sections[2]);
    let made = |owner: &Name| {
        view.case.world.zone_of(owner).is_some_and(|z| !z.has(owner, "A") && !z.has(owner, "AAAA"))
    };
    (mine.is_superset(theirs) || theirs.is_superset(mine))
        && mine.symmetric_difference(theirs).all(|r| made(&r.owner))
}

fn hosts_limit(view: &View<'_>) -> bool {
    let hosts = |a: &Answer| a.sections[2].iter().map(|r| r.owner.clone()).collect::<BTreeSet<_>>().len();
    hosts(view.mine) == 32 && view.mine.sections[2].is_subset(&view.theirs.sections[2])
}

fn tcp_keepalive(view: &View<'_>) -> bool {
    let (Some(mine), Some(theirs)) = (&view.mine.opt, &view.theirs.opt) else { return false };
    let rest = |o: &OptRecord| o.codes.iter().copied().filter(|c| *c != 11).collect::<BTreeSet<_>>();
    mine.codes.contains(&11) && rest(mine) == rest(theirs)
}
