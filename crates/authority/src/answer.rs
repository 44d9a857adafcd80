//! One answer: for QNAME, and then for the names that CNAME and DNAME lead to.

use wire::NameHash;
use wire::hash::HashedName;
use wire::message::{Builder, Full, Offset};
use wire::rdata::MAX_RDATA;
use zone::store::Zone;

use crate::ask::Ask;
use crate::chain::Chase;
use crate::here::Here;
use crate::locate::AnswerLocation;
use crate::lookup::zone_for;
use crate::memo::Memo;
use crate::reply::Reply;
use crate::respond;
use crate::unanswered::Unanswered;

/// Buffers that answering reuses from one query to the next.
pub struct Scratch {
    chain: Links,
    rdata: Vec<u8>,
    memo: Memo,
}

/// State of following a chain.
struct Links {
    /// The current target.
    name: HashedName,
    /// Hashes of all names of the chain.
    names: Vec<NameHash>,
    /// Hashes of the owners of the DNAMEs in the chain.
    dnames: Vec<NameHash>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Scratch {
    /// Returns buffers with the capacity for any answer: they never grow.
    pub fn new() -> Self {
        // One for QNAME, and one for each link of the longest chain.
        let links = || Vec::with_capacity(1 + u8::MAX as usize);
        let chain = Links { name: HashedName::new(), names: links(), dnames: links() };
        Scratch { chain, rdata: Vec::with_capacity(MAX_RDATA), memo: Memo::new() }
    }
}

/// Writes the answer into `b`, which already holds the question, from the zone of `location`, which belongs
/// to the same query and catalog. If required records do not fit, sets TC, and the sections must be
/// discarded.
///
/// Returns the target that a chain ends at, if no zone of the catalog covers it, or if its zone delegates it
/// and [`Ask::resolves`] returns true.
#[inline]
pub fn answer<'a, 's>(
    ask: &Ask<'a>,
    location: &AnswerLocation,
    b: &mut Builder<'_>,
    scratch: &'s mut Scratch,
) -> Result<Option<&'s HashedName>, Unanswered> {
    let zone = ask.catalog.zone(location.located()).ok_or(Unanswered::NotLoaded)?;
    let Scratch { chain, rdata, memo } = scratch;
    let mut reply = Reply::new(b, ask, rdata, memo);
    let done = resolve(ask, zone, location, &mut reply, chain);
    let done = done.and_then(|end| reply.proofs().map(|()| end));
    if done.is_err() {
        if let Some(why) = reply.refused() {
            return Err(why);
        }
        reply.truncate();
    }
    if memo.ran_short() {
        return Err(Unanswered::Hashing);
    }
    match done {
        Ok(End::Here) => Ok(None),
        Ok(End::Elsewhere) => Ok(Some(&chain.name)),
        Ok(End::Delegated) => Err(Unanswered::Delegated),
        Err(Full) => Ok(None),
    }
}

/// How a chain ends.
#[derive(Clone, Copy)]
enum End {
    /// In a zone of the catalog, before one that it may not enter, or at a loop or limit.
    Here,
    /// At a name outside of all zones, or at a delegated name that is resolved for the client.
    Elsewhere,
    /// At QNAME, which is delegated, and resolved for the client.
    Delegated,
}

/// Answers QNAME and then the names that CNAME and DNAME lead to.
#[inline]
fn resolve<'a>(
    ask: &Ask<'a>,
    zone: &'a Zone,
    location: &AnswerLocation,
    reply: &mut Reply<'_, '_, 'a>,
    chain: &mut Links,
) -> Result<End, Full> {
    let below = location.located().below();
    let (name, hashed, at, begun) = (ask.name, ask.qname, Offset::QNAME, location.search());
    let here = Here { zone, name, hashed, below, at, dnames: &[], begun };
    // Without `?`, which would move the buffer of a name.
    match respond::step(ask, &here, reply) {
        Ok(None) if reply.is_delegated() => Ok(End::Delegated),
        Ok(None) => Ok(End::Here),
        Ok(Some(first)) => chase(ask, first, reply, chain),
        Err(Full) => Err(Full),
    }
}

/// Follows a chain to its end: a final answer, a loop, a name outside the zones in service, or the limit.
#[cold]
fn chase<'a>(
    ask: &Ask<'a>,
    first: Chase,
    reply: &mut Reply<'_, '_, 'a>,
    chain: &mut Links,
) -> Result<End, Full> {
    let Links { name: next, names, dnames } = chain;
    names.clear();
    names.push(ask.qname.hash(0));
    dnames.clear();
    let mut link = Some(first);
    while let Some(Chase { target, at, dname }) = link {
        if names.len() > ask.max_chain as usize || !reply.can_prove_more() {
            break;
        }
        dnames.extend(dname);
        next.set(ask.key, target.as_name());
        if names.contains(&next.hash(0)) {
            break;
        }
        names.push(next.hash(0));
        let Some(located) = zone_for(ask.catalog, next, ask.qtype) else { return Ok(End::Elsewhere) };
        let Some(entry) = ask.catalog.entry(located).filter(|entry| (ask.may_enter)(entry)) else { break };
        let Some(zone) = entry.zone() else { break };
        let below = located.below();
        let here = Here { zone, name: target.as_name(), hashed: next, below, at, dnames, begun: None };
        link = respond::step(ask, &here, reply)?;
        if reply.is_delegated() {
            return Ok(End::Elsewhere);
        }
    }
    Ok(End::Here)
}
