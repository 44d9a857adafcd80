//! The rules for resolvers on the small Internet. The correct result is known: the condition of each zone is
//! part of the case.

use super::{Rule, View};
use crate::answer::{Answer, Record, flag};
use crate::compare::Facet;
use crate::internet::sites::Condition;
use crate::name::Name;
use crate::query::rtype;
use crate::servers::Kind;

/// The rules for differences from other resolvers, tried in order.
pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "resolve-cd-without-ad",
        facets: &[Facet::Ad],
        subject: Some(Kind::Nomen),
        why: "A query with CD. RFC 4035, section 3.2.2: its sender \"takes responsibility for performing its \
              own authentication\"; nomen passes on what came, without AD, so that AD never depends on what \
              others have asked before. Unbound and PowerDNS validate all the same, BIND sets AD where it \
              happens to know.",
        applies: cd_without_ad,
    },
    Rule {
        id: "resolve-cd-bogus",
        facets: &[Facet::Rcode, Facet::Answer],
        subject: Some(Kind::Nomen),
        why: "A query with CD for a name of a zone that is broken, or below one. RFC 4035, section 3.2.2: \
              the resolver \"SHOULD return the requested data to the originating resolver, even if the \
              recursive name server's local authentication policy would reject the records in question\". \
              nomen does; others fail where they have found it bogus before.",
        applies: cd_bogus,
    },
    Rule {
        id: "resolve-failure-without-ad",
        facets: &[Facet::Ad],
        subject: Some(Kind::Nomen),
        why: "AD beside an error. RFC 4035, section 3.2.3: AD says that all RRsets \"in the Answer and \
              Authority sections of the response\" are authentic; SERVFAIL from nomen has none. BIND and \
              PowerDNS leave AD as it was when they gave up, on a chain that goes round, say.",
        applies: failure_without_ad,
    },
    Rule {
        id: "resolve-failure-is-bare",
        facets: &[Facet::Answer],
        subject: Some(Kind::Nomen),
        why: "The records beside SERVFAIL. RFC 1034, section 4.3.1: \"a temporary error indication\" has \
              none; nomen and BIND send none, others the part of a chain that they got, and Unbound to a \
              query with CD even without the error.",
        applies: failure_is_bare,
    },
    Rule {
        id: "resolve-dname-type",
        facets: &[Facet::Rcode, Facet::Answer, Facet::Ad],
        subject: Some(Kind::Nomen),
        why: "QTYPE DNAME below a DNAME. RFC 6672, section 3.2: a DNAME above the name redirects the query \
              whatever its QTYPE. nomen follows it, and fails where that leads to a zone that is broken; \
              BIND answers with the DNAME itself the first time and follows it the second, the others do one \
              or the other, or fail.",
        applies: dname_type,
    },
    Rule {
        id: "resolve-cname-of-dname",
        facets: &[Facet::Rcode, Facet::Answer, Facet::Ad],
        subject: Some(Kind::Nomen),
        why: "Policy: QTYPE CNAME below a DNAME. RFC 6672, section 3.2 restarts the query at the target \
              whatever its QTYPE, and so Unbound and PowerDNS go on, say what is there, without AD if that \
              is not signed, and fail where its servers are broken. nomen and BIND hold that the CNAME made \
              from the DNAME is the record that was asked for, as any other CNAME is to this QTYPE (RFC \
              1034, section 4.3.2, step 3a), and send it.",
        applies: cname_of_dname,
    },
    Rule {
        id: "resolve-unproven-between",
        facets: &[Facet::Rcode, Facet::Answer, Facet::Ad],
        subject: Some(Kind::Nomen),
        why: "A name, or a zone that is delegated, more than a label below a zone without NSEC records. RFC \
              4035, section 5: what makes it secure is the chain of DNSKEY and DS RRsets, and its own RRSIG; \
              these are there. nomen goes by the names of the signers; others ask for DS label by label, \
              PowerDNS for both, Unbound for zones and BIND for names, and fail where it cannot be proven \
              that an empty name in between has none.",
        applies: unproven_between,
    },
    Rule {
        id: "resolve-without-end",
        facets: &[Facet::Reply],
        subject: Some(Kind::Nomen),
        why: "A zone on the way to the answer has no servers, or all of them refuse; or the zone is bogus, \
              and the peer queries each of its servers again, those included that do not respond. On the \
              way are the name, the targets of its aliases, the names of the servers of their zones, and \
              the zones above all of these. The peer sends no response within 20 seconds. RFC 1034, \
              section 5.3.3: \"Bound the amount of work (packets sent, parallel processes started)\". \
              nomen and PowerDNS respond with SERVFAIL within 10 seconds, BIND within 12 seconds if it has \
              no other queries. Unbound queries for more than 90 seconds, and sends no response to a \
              client that has waited for more than 1.9 seconds (discard-timeout).",
        applies: without_end,
    },
    Rule {
        id: "resolve-past-unreachable",
        facets: &[Facet::Rcode, Facet::Answer, Facet::Ad],
        subject: Some(Kind::Nomen),
        why: "A name in a zone below one that has no servers, or such as refuse. RFC 1034, section 5.3.3 \
              leads there by delegations, and they end at no server that has the zone. A server of a zone \
              above has the zone all the same here, and answers who asks it for the whole name; nomen, who \
              shows it no more than it has to know (RFC 9156, section 2), is referred to such servers as do \
              not answer for it. Others get there or not, as it comes: BIND has done one and the other with \
              the same name.",
        applies: past_nobody,
    },
];

/// The rules for differences between a resolver's first and second reply.
pub(crate) const AGAIN: &[Rule] = &[Rule {
    id: "resolve-found-since",
    facets: &[Facet::Rcode, Facet::Answer, Facet::Ad],
    subject: Some(Kind::Nomen),
    why: "SERVFAIL one time and an answer the other, where a zone on the way has no servers, or such as \
          refuse. A server of a zone above has the zone all the same here (resolve-past-unreachable); which \
          servers are asked, and in which order, depends on what other queries have found out about them \
          (RFC 1034, section 5.3.3: \"the best servers\").",
    applies: found_since,
}];

/// Returns the QNAME, for DS its parent, and the targets of CNAMEs that any reply shows.
fn names(view: &View<'_>) -> Vec<Name> {
    let replies = view.case.replies.iter().filter_map(|(_, reply)| reply.answer());
    let aliases = replies.flat_map(|answer| &answer.sections[0]).filter(|r| r.rtype == rtype::CNAME);
    let targets = aliases.filter_map(|r| Some(Name::from_wire(&r.rdata)?.0.lower()));
    let query = view.case.query;
    let asked = if query.qtype == rtype::DS { query.name.parent() } else { query.name.clone() };
    targets.chain([asked.lower()]).collect()
}

/// Returns the conditions of the zones that contain a name, the closest first.
fn zones_of(view: &View<'_>, name: &Name) -> Vec<Condition> {
    let Some(resolving) = &view.case.resolving else { return Vec::new() };
    let holding = resolving.conditions.iter().filter(|(apex, _)| name.is_under(apex));
    let mut holding: Vec<_> = holding.map(|(apex, condition)| (apex.0.len(), *condition)).collect();
    holding.sort_by_key(|(labels, _)| std::cmp::Reverse(*labels));
    holding.into_iter().map(|(_, condition)| condition).collect()
}

/// Returns the zone that contains a name, and its condition.
fn zone_of<'v>(view: &'v View<'_>, name: &Name) -> Option<(&'v Name, Condition)> {
    let conditions = view.case.resolving.as_ref()?.conditions;
    let holding = conditions.iter().filter(|(apex, _)| name.is_under(apex));
    holding.max_by_key(|(apex, _)| apex.0.len()).map(|(apex, condition)| (apex, *condition))
}

fn cd_without_ad(view: &View<'_>) -> bool {
    view.case.query.cd && !view.mine.has(flag::AD)
}

/// Conditions of zones of which some answers cannot be fetched, or cannot be validated as secure or insecure.
const BROKEN: [Condition; 7] = [
    Condition::Expired,
    Condition::WrongDs,
    Condition::Tampered,
    Condition::Stripped,
    Condition::Unproven,
    Condition::Lame,
    Condition::Dead,
];

/// With CD the subject has an answer; the other fails, as the zone, or one above, is broken.
fn cd_bogus(view: &View<'_>) -> bool {
    // A server may also serve the zone below one that it refuses and whose DS cannot be fetched; a dead zone
    // has no answers.
    let is_broken = |condition: &Condition| BROKEN.contains(condition) && *condition != Condition::Dead;
    let found = names(view).into_iter().flat_map(|name| zones_of(view, &name)).any(|c| is_broken(&c));
    view.case.query.cd && matches!(view.mine.rcode, 0 | 3) && view.theirs.rcode == 2 && found
}

fn failure_without_ad(view: &View<'_>) -> bool {
    view.mine.rcode == 2 && !view.mine.has(flag::AD)
}

fn failure_is_bare(view: &View<'_>) -> bool {
    let qtype = view.case.query.qtype;
    let is_part = !view.theirs.sections[0].iter().any(|r| r.rtype == qtype);
    let failed = view.theirs.rcode == 2 || view.case.query.cd && is_part;
    view.mine.rcode == 2 && view.mine.sections[0].is_empty() && failed
}

/// QTYPE CNAME: the subject answers with the CNAME at the name and the DNAME that it is synthesized from, and
/// nothing else. The other fails, or follows the CNAME, possibly to a name without AD.
fn cname_of_dname(view: &View<'_>) -> bool {
    let name = view.case.query.name.lower();
    let mine = &view.mine.sections[0];
    let is_cname = |r: &Record| r.is_or_covers(rtype::CNAME) && r.owner == name;
    let is_dname = |r: &Record| r.is_or_covers(rtype::DNAME) && redirects(r, &name);
    let has_all = || mine.iter().filter(|r| r.rtype == rtype::CNAME).all(|r| shows(view.theirs, r));
    let goes_on = view.theirs.rcode == 2 || matches!(view.theirs.rcode, 0 | 3) && has_all();
    view.case.query.qtype == rtype::CNAME
        && view.mine.rcode == 0
        && mine.iter().any(|r| r.rtype == rtype::CNAME)
        && mine.iter().any(|r| r.rtype == rtype::DNAME)
        && mine.iter().all(|r| is_cname(r) || is_dname(r))
        && goes_on
        && (view.difference.facet != Facet::Ad || view.mine.has(flag::AD))
}

/// Whether a record's owner is above a name: a DNAME there redirects it.
fn redirects(record: &Record, name: &Name) -> bool {
    name.is_under(&record.owner) && *name != record.owner
}

/// Whether an answer has this record, with any TTL.
fn shows(answer: &Answer, wanted: &Record) -> bool {
    let data = |r: &Record| (r.owner.clone(), r.rtype, r.rdata.clone());
    answer.sections[0].iter().any(|r| data(r) == data(wanted))
}

/// QTYPE DNAME, and a reply shows a DNAME above the name. Either the subject has followed it, and the other
/// shows it, too, or fails; or the subject fails, as it leads to a broken zone. AD may differ only if the
/// answers differ.
fn dname_type(view: &View<'_>) -> bool {
    let name = view.case.query.name.lower();
    let is_above = |r: &&Record| r.rtype == rtype::DNAME && redirects(r, &name);
    let replies = || view.case.replies.iter().filter_map(|(_, reply)| reply.answer());
    let Some(dname) = replies().find_map(|answer| answer.sections[0].iter().find(is_above)) else {
        return false;
    };
    let is_made = |r: &Record| r.rtype == rtype::CNAME && r.owner == name;
    let followed = matches!(view.mine.rcode, 0 | 3 | 6)
        && shows(view.mine, dname)
        && (view.mine.rcode == 6 || view.mine.sections[0].iter().any(is_made))
        && (view.theirs.rcode == 2 || matches!(view.theirs.rcode, 0 | 3 | 6) && shows(view.theirs, dname));
    let target = Name::from_wire(&dname.rdata).map(|(target, _)| {
        let below = name.0.len() - dname.owner.0.len();
        Name(name.0[..below].iter().chain(&target.0).cloned().collect()).lower()
    });
    let leads_to_broken = || {
        let names = names(view).into_iter().filter(|other| *other != name).chain(target);
        names.flat_map(|name| zones_of(view, &name)).any(|condition| BROKEN.contains(&condition))
    };
    let failed = || view.mine.rcode == 2 && view.mine.sections[0].is_empty() && leads_to_broken();
    let same = view.mine.rcode == view.theirs.rcode
        && view.mine.sections[0].len() == view.theirs.sections[0].len()
        && view.mine.sections[0].iter().all(|r| shows(view.theirs, r));
    view.case.query.qtype == rtype::DNAME
        && (followed || failed())
        && (view.difference.facet != Facet::Ad || !same)
}

/// Returns the name that the subject's CNAMEs lead to.
fn end(view: &View<'_>) -> Name {
    let mut name = view.case.query.name.lower();
    let aliases = || view.mine.sections[0].iter().filter(|r| r.rtype == rtype::CNAME);
    for _ in 0..view.mine.sections[0].len() {
        let target = aliases().find(|r| r.owner == name).and_then(|r| Name::from_wire(&r.rdata));
        let Some((target, _)) = target else { break };
        name = target.lower();
    }
    name
}

/// The subject has an answer; the other fails below a zone without proofs: in a zone below it, or at a name
/// with other labels in between. In such a zone, the absence of data at the end of the CNAMEs cannot be
/// proved.
fn unproven_between(view: &View<'_>) -> bool {
    let below = |name: &Name| zones_of(view, name).iter().skip(1).any(|c| *c == Condition::Unproven);
    // QNAME of a DS query is one label below the name that is checked here.
    let query = view.case.query;
    let ds = (query.qtype == rtype::DS).then(|| query.name.parent().lower());
    let between = |name: &Name| {
        let labels = name.0.len() + usize::from(ds.as_ref() == Some(name));
        zone_of(view, name).is_some_and(|(apex, c)| c == Condition::Unproven && labels > apex.0.len() + 1)
    };
    let answer = &view.mine.sections[0];
    let found = answer.iter().any(|r| r.rtype == view.case.query.qtype);
    let proven = || zone_of(view, &end(view)).is_some_and(|(_, c)| c != Condition::Unproven);
    let answers = !answer.is_empty() && (found || proven());
    matches!(view.mine.rcode, 0 | 3)
        && view.theirs.rcode == 2
        && names(view).iter().any(|name| below(name) || answers && between(name))
}

/// Whether no server answers for a zone that its delegation names.
fn has_nobody(condition: &Condition) -> bool {
    matches!(condition, Condition::Dead | Condition::Lame)
}

/// Whether such a zone contains the name, a target of CNAMEs, or a name server on the way.
fn on_the_way(view: &View<'_>, is_such: fn(&Condition) -> bool) -> bool {
    let Some(resolving) = &view.case.resolving else { return false };
    let mut all = names(view).into_iter().flat_map(|name| resolving.links.on_the_way(&name));
    all.any(|name| zones_of(view, &name).iter().any(is_such))
}

/// The subject fails, and a zone on the way has no server that answers, or is bogus.
fn without_end(view: &View<'_>) -> bool {
    let is_bogus = || !view.case.query.cd && on_the_way(view, |condition| BROKEN.contains(condition));
    view.mine.rcode == 2 && (on_the_way(view, has_nobody) || is_bogus())
}

/// One of the subject's two replies is a failure, and no server answers for a zone on the way.
fn found_since(view: &View<'_>) -> bool {
    let failed = [view.mine.rcode, view.theirs.rcode].map(|rcode| rcode == 2);
    failed[0] != failed[1] && on_the_way(view, has_nobody)
}

/// The subject fails where no server answers for a zone above; the other has found the zone all the same.
fn past_nobody(view: &View<'_>) -> bool {
    view.mine.rcode == 2
        && matches!(view.theirs.rcode, 0 | 3)
        && names(view).iter().any(|name| zones_of(view, name).iter().skip(1).any(has_nobody))
}
