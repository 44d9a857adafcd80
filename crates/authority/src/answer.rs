//! One answer: the name asked for, and then the names that CNAME and DNAME lead to.

use wire::NameHash;
use wire::hash::HashedName;
use wire::message::{Builder, Full, Offset};
use wire::rdata::MAX_RDATA;
use zone::store::Zone;

use crate::aim::Aim;
use crate::ask::Ask;
use crate::here::Here;
use crate::lookup::zone_for;
use crate::memo::Memo;
use crate::reply::Reply;
use crate::respond::{self, Chase};

/// What answering reuses from one query to the next.
pub struct Scratch {
    chain: Links,
    rdata: Vec<u8>,
    memo: Memo,
}

/// What following a chain keeps.
struct Links {
    /// The name it has led to.
    name: HashedName,
    /// All names it has come to.
    names: Vec<NameHash>,
    /// The owners of the DNAMEs it went by.
    dnames: Vec<NameHash>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Scratch {
    /// With room for everything that answering can need: it never grows.
    pub fn new() -> Self {
        // One for the name asked for, and one for each link of the longest chain.
        let links = || Vec::with_capacity(1 + u8::MAX as usize);
        let chain = Links { name: HashedName::new(), names: links(), dnames: links() };
        Scratch { chain, rdata: Vec::with_capacity(MAX_RDATA), memo: Memo::new() }
    }
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The zone that is asked is not loaded.
    NotLoaded,
    /// A zone delegates the name, and [`Ask::resolves`](crate::Ask::resolves).
    Delegated,
    /// The denial needs more hashing than [`HashingLimit`](crate::HashingLimit) allows at present. What
    /// stands in the sections is no answer.
    Hashing,
}

/// Answers into `b`, where the question already stands, from the zone that `aim` was found in; `aim` is of
/// the same question and catalog. If something that must be there does not fit, TC is set and what the
/// sections hold does not count.
///
/// Returns the name that a chain leads to, if it ends because no zone of the catalog holds that, or because
/// the one that does delegates it and [`Ask::resolves`].
#[inline]
pub fn answer<'a, 's>(
    ask: &Ask<'a>,
    aim: &Aim,
    b: &mut Builder<'_>,
    scratch: &'s mut Scratch,
) -> Result<Option<&'s HashedName>, Unanswered> {
    let zone = ask.catalog.zone(aim.located()).ok_or(Unanswered::NotLoaded)?;
    let Scratch { chain, rdata, memo } = scratch;
    let mut reply = Reply::new(b, ask, rdata, memo);
    let done = resolve(ask, zone, aim, &mut reply, chain);
    let done = done.and_then(|end| reply.proofs().map(|()| end));
    if done.is_err() {
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

/// Where a chain ends.
#[derive(Clone, Copy)]
enum End {
    /// In a zone of the catalog, or nowhere.
    Here,
    /// At a name outside of all zones, or one that is delegated and resolved for the client.
    Elsewhere,
    /// Where it begins: the name asked for is delegated, and resolved for the client.
    Delegated,
}

/// Answers the name asked for and then whatever CNAME and DNAME lead to.
#[inline]
fn resolve<'a>(
    ask: &Ask<'a>,
    zone: &'a Zone,
    aim: &Aim,
    reply: &mut Reply<'_, '_, 'a>,
    chain: &mut Links,
) -> Result<End, Full> {
    let below = aim.located().below();
    let (name, hashed, at, begun) = (ask.name, ask.qname, Offset::QNAME, aim.search());
    let here = Here { zone, name, hashed, below, at, dnames: &[], begun };
    // Without `?`, which would move the room for a name.
    match respond::step(ask, &here, reply) {
        Ok(None) if reply.is_delegated() => Ok(End::Delegated),
        Ok(None) => Ok(End::Here),
        Ok(Some(first)) => chase(ask, first, reply, chain),
        Err(Full) => Err(Full),
    }
}

/// Follows a chain to its end, to a name it has come to before, out of the zones served or to the limit.
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
        let Some(zone) = ask.catalog.zone(located) else { break };
        let below = located.below();
        let here = Here { zone, name: target.as_name(), hashed: next, below, at, dnames, begun: None };
        link = respond::step(ask, &here, reply)?;
        if reply.is_delegated() {
            return Ok(End::Elsewhere);
        }
    }
    Ok(End::Here)
}
