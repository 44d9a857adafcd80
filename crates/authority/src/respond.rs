//! Writes the sections for the result of a lookup. One call is one step of a CNAME or DNAME chain.

use wire::message::{Full, Section};
use wire::{NameBuf, Rcode, Type};
use zone::store::{Node, RrSet};

use crate::ask::Ask;
use crate::chain::{Chase, Step};
use crate::denial;
use crate::here::Here;
use crate::live;
use crate::lookup::{self, LookupResult};
use crate::reply::Reply;

/// Answers one name.
#[inline]
pub(crate) fn step<'z>(ask: &Ask<'_>, here: &Here<'_, 'z>, reply: &mut Reply<'_, '_, 'z>) -> Step {
    if here.zone.is_chainless()
        && let Some(step) = live::step(ask, here, reply)
    {
        return step;
    }
    let parent_side = ask.qtype == Type::DS && here.below > 0;
    let found = lookup::find(here.zone, ask.key, here.hashed, here.below, parent_side);
    if let LookupResult::Cut { node, skip } = found {
        if (ask.resolves)() {
            reply.set_delegated();
            return Ok(None);
        }
        return referral(ask, here, node, skip, reply).map(|()| None);
    }
    reply.set_authoritative();
    match found {
        LookupResult::Exact(node) => data(ask, here, node, None, reply),
        LookupResult::Wildcard { node, skip } => data(ask, here, node, Some(skip), reply),
        LookupResult::Dname { node, skip } => dname(ask, here, node, skip, reply),
        LookupResult::Nothing { skip } => nothing(ask, here, skip, reply).map(|()| None),
        LookupResult::Cut { .. } => Ok(None),
    }
}

/// Answers a name that exists, or that a wildcard whose encloser is `wildcard` labels up matches.
#[inline]
fn data<'z>(
    ask: &Ask<'_>,
    here: &Here<'_, 'z>,
    node: Node<'z>,
    wildcard: Option<usize>,
    reply: &mut Reply<'_, '_, 'z>,
) -> Step {
    let mut hosts = None;
    let answered = match ask.qtype {
        Type::ANY => {
            // One RRset is an answer to ANY (RFC 8482 §4.1).
            let first = node.rrsets().find(|set| set.rtype() != Type::NSEC3);
            first.map(|set| reply.put_at(Section::Answer, set, here.at)).transpose()?.is_some()
        }
        Type::RRSIG => reply.put_sigs(node, here.at)?,
        // NSEC3 belongs to the chain, not to a name that happens to equal a hash (RFC 5155 §7.2.8).
        qtype => match node.rrset(qtype).filter(|_| qtype != Type::NSEC3) {
            Some(set) => {
                let placed = reply.put_at(Section::Answer, set, here.at)?;
                hosts = has_hosts(qtype).then_some((set, placed));
                true
            }
            None => match node.rrset(Type::CNAME) {
                Some(set) => return cname(ask, here, set, wildcard, reply),
                None => false,
            },
        },
    };
    if !answered {
        reply.put_soa(here.zone.apex_node(), here.ancestor_at(here.below), here.zone.negative_ttl())?;
    }
    if ask.dnssec_ok && here.zone.is_signed() {
        denial::data(here, node, wildcard, answered, reply);
    }
    if let Some((set, placed)) = hosts {
        reply.put_hosts(here.zone, set, &placed, None)?;
    }
    Ok(None)
}

/// Types whose targets' addresses are added to an answer (RFC 1035 §3.3, RFC 2782, RFC 9460 §4.1).
#[inline]
fn has_hosts(qtype: Type) -> bool {
    matches!(qtype, Type::NS | Type::MX | Type::SRV | Type::SVCB | Type::HTTPS)
}

/// Writes the CNAME; the chain continues at its target.
#[cold]
fn cname<'z>(
    ask: &Ask<'_>,
    here: &Here<'_, 'z>,
    set: RrSet<'z>,
    wildcard: Option<usize>,
    reply: &mut Reply<'_, '_, 'z>,
) -> Step {
    let placed = reply.put_at(Section::Answer, set, here.at)?;
    if ask.dnssec_ok && here.zone.is_signed() {
        denial::data(here, set.node(), wildcard, true, reply);
    }
    let Some(target) = set.rdatas().next().and_then(|rdata| rdata.name()) else { return Ok(None) };
    reply.compare_case(set);
    Ok(reply.target_at(set, &placed).map(|at| Chase { target, at, dname: None }))
}

/// Writes the DNAME, with the CNAME synthesized from it (RFC 6672 §3.1).
#[cold]
fn dname<'z>(
    ask: &Ask<'_>,
    here: &Here<'_, 'z>,
    node: Node<'z>,
    skip: usize,
    reply: &mut Reply<'_, '_, 'z>,
) -> Step {
    let Some(set) = node.rrset(Type::DNAME) else { return Ok(None) };
    // A chain may use this DNAME again for another name; the record itself is written once.
    let owner = here.hashed.hash(skip);
    if !here.dnames.contains(&owner) {
        reply.put(Section::Answer, set, here.ancestor_at(skip))?;
    }
    let Some(suffix) = set.rdatas().next().and_then(|rdata| rdata.name()) else { return Ok(None) };
    // The target replaces the owner's labels at the end of the name (RFC 6672 §2.2).
    let labels = here.hashed.label_count() - skip;
    let Ok(target) = NameBuf::replace_suffix(here.name, labels, suffix.as_name()) else {
        reply.set_rcode(Rcode::YXDOMAIN);
        return Ok(None);
    };
    let at = reply.put_made(here.at, Type::CNAME, set.ttl(), target.as_name().as_wire())?;
    if ask.qtype == Type::CNAME || ask.qtype == Type::ANY {
        return Ok(None);
    }
    Ok(Some(Chase { target, at, dname: Some(owner) }))
}

/// Answers a name that does not exist, and for which no record is synthesized.
#[inline]
fn nothing<'z>(
    ask: &Ask<'_>,
    here: &Here<'_, 'z>,
    skip: usize,
    reply: &mut Reply<'_, '_, 'z>,
) -> Result<(), Full> {
    // The response code is about the end of the chain (RFC 6604 §3).
    reply.set_rcode(Rcode::NXDOMAIN);
    reply.put_soa(here.zone.apex_node(), here.ancestor_at(here.below), here.zone.negative_ttl())?;
    if ask.dnssec_ok && here.zone.is_signed() {
        denial::no_name(here, skip, reply);
    }
    Ok(())
}

/// Answers a name of a delegated zone: NS of the cut, DS or the proof that there is none, glue.
#[inline]
fn referral<'z>(
    ask: &Ask<'_>,
    here: &Here<'_, 'z>,
    cut: Node<'z>,
    skip: usize,
    reply: &mut Reply<'_, '_, 'z>,
) -> Result<(), Full> {
    let Some(ns) = cut.rrset(Type::NS) else { return Ok(()) };
    let at = here.ancestor_at(skip);
    let placed = reply.put_unsigned(ns, at)?;
    if ask.dnssec_ok && here.zone.is_signed() {
        match cut.rrset(Type::DS) {
            Some(ds) => {
                reply.put(Section::Authority, ds, at)?;
            }
            None => denial::no_ds(here, cut, skip, reply),
        }
    }
    reply.put_hosts(here.zone, ns, &placed, Some(cut))
}
