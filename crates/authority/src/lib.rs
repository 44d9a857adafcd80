//! Authoritative answers: a zone snapshot and a question make an answer (RFC 1034 §4.3.2 with RFC 2308,
//! 4035, 4592, 5155, 6672, 8482 and 9471).
//!
//! What lives here: what the sections of an answer hold. What does not: which zone is asked and how the
//! message is framed (`engine`), how records are kept (`zone`).
//!
//! | module | does |
//! |---|---|
//! | [`lookup`] | finds what the name is: a node, a wildcard, a cut, a DNAME, nothing |
//! | `respond` | turns that into sections, one step of a CNAME or DNAME chain at a time |
//! | `denial` | picks the NSEC or NSEC3 records that prove it |
//! | `memo` | keeps the NSEC3 hashes that many answers share |
//! | [`audit`] | checks that a signed zone can prove what it will have to |
//! | [`explain`] | says to a person why |
//! | `reply` | copies compiled RRsets into the message and moves their pointers |
//! | `aim` | prefetches what a batch of answers will read |
#![forbid(unsafe_code)]

mod aim;
pub mod audit;
mod denial;
pub mod explain;
pub mod lookup;
mod memo;
mod reply;
mod respond;

use wire::hash::{HashKey, HashedName};
use wire::message::{Builder, Full, Offset};
use wire::rdata::MAX_RDATA;
use wire::{Name, NameBuf, NameHash, Type};
use zone::catalog::{Catalog, Located};
use zone::store::Zone;

pub use aim::{Aim, PASSES, prefetch};

use memo::Memo;
use reply::Reply;
use respond::{Chase, Here};

/// What is asked, and of whom.
pub struct Ask<'a> {
    /// QNAME as the client wrote it; it stands in the message at [`Offset::QNAME`].
    pub name: Name<'a>,
    /// QNAME, hashed under `key`.
    pub qname: &'a HashedName,
    /// QTYPE.
    pub qtype: Type,
    /// Whether DNSSEC records are wanted.
    pub dnssec_ok: bool,
    /// All zones served, for chains that lead from one to another.
    pub catalog: &'a Catalog,
    /// The key under which zones were built.
    pub key: &'a HashKey,
    /// CNAME and DNAME links followed, at the most.
    pub max_chain: u8,
}

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

/// Answers from `zone`, whose apex has `below` labels less than the name asked for, into `b`, where the
/// question already stands. If something that must be there does not fit, TC is set and what the sections
/// hold does not count.
pub fn answer<'a>(ask: &Ask<'a>, zone: &'a Zone, below: usize, b: &mut Builder<'_>, scratch: &mut Scratch) {
    let Scratch { chain, rdata, memo } = scratch;
    let mut reply = Reply::new(b, ask, rdata, memo);
    let done = resolve(ask, zone, below, &mut reply, chain).and_then(|()| reply.proofs());
    if let Err(Full) = done {
        reply.truncate();
    }
}

/// Answers the name asked for and then whatever CNAME and DNAME lead to.
#[inline]
fn resolve<'a>(
    ask: &Ask<'a>,
    zone: &'a Zone,
    below: usize,
    reply: &mut Reply<'_, '_, 'a>,
    chain: &mut Links,
) -> Result<(), Full> {
    let here = Here { zone, name: ask.name, hashed: ask.qname, below, at: Offset::QNAME, dnames: &[] };
    match respond::step(ask, &here, reply)? {
        None => Ok(()),
        Some(first) => chase(ask, first, reply, chain),
    }
}

/// Follows a chain to its end, to a name it has come to before, out of the zones served or to the limit.
#[cold]
fn chase<'a>(
    ask: &Ask<'a>,
    first: Chase,
    reply: &mut Reply<'_, '_, 'a>,
    chain: &mut Links,
) -> Result<(), Full> {
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
        let Some(located) = zone_for(ask.catalog, next, ask.qtype) else { break };
        let Some(zone) = ask.catalog.zone(located) else { break };
        let below = located.below as usize;
        let here = Here { zone, name: target.as_name(), hashed: next, below, at, dnames };
        link = respond::step(ask, &here, reply)?;
    }
    Ok(())
}

/// The zone that answers a question: the closest one, but for DS at an apex the one above, if it is served
/// here (RFC 4035 §3.1.4.1).
#[inline]
pub fn zone_for(catalog: &Catalog, name: &HashedName, qtype: Type) -> Option<Located> {
    let found = catalog.locate(name, 0)?;
    if qtype == Type::DS && found.below == 0 && name.label_count() > 0 {
        return Some(catalog.locate(name, 1).unwrap_or(found));
    }
    Some(found)
}

/// DNAME substitution (RFC 6672 §2.2): the owner's labels at the end of `name` become `target`.
fn substitute(name: Name<'_>, owner_labels: usize, target: Name<'_>) -> Option<NameBuf> {
    NameBuf::replace_suffix(name, owner_labels, target).ok()
}
