//! Answers made from cached proofs (RFC 8198), without a lookup: for names that are proven not to exist, that
//! a cached wildcard matches, or that a cached DNAME redirects (RFC 6672 §3.4).

use std::time::Duration;

use cache::Now;
use resolver::QueryKey;
use validator::{DenialWork, ReceivedSet, Response, Validated};
use wire::message::{Builder, Compressor, Full, Header, Offset, Owner};
use wire::{Class, LowerNameBuf, Rcode, Ttl, Type};

use crate::cache_views::CacheView;
use crate::kept::with_ad;
use crate::message::{Message, Piece};
use crate::service::Service;
use crate::settings::Policy;

/// Largest size of an answer, in bytes; a longer one needs a lookup.
const MAX_ANSWER_BYTES: usize = 4096;

/// Returns the time on the clock of [`validator::ProvenDenials`].
fn since_start(now: Now) -> Duration {
    Duration::from_secs(now.since(Now::since_start(0)).into())
}

impl Service {
    /// Caches the denials of a secure negative answer, for `ttl`.
    pub(crate) fn store_denial(
        &self,
        policy: &Policy,
        query_key: &QueryKey,
        response: &Response,
        validated: &Validated,
        ttl: Ttl,
        now: Now,
    ) {
        if let Some(cache_view) =
            self.cache_view(policy, query_key).filter(|cache_view| is_denied_in(policy, *cache_view))
        {
            self.denials.store_denial(cache_view.number, response, validated, ttl, since_start(now));
        }
    }

    /// Caches the wildcards that a secure answer was expanded from, and its DNAME.
    pub(crate) fn store_wildcards(
        &self,
        policy: &Policy,
        query_key: &QueryKey,
        response: &Response,
        validated: &Validated,
        now: Now,
    ) {
        if let Some(cache_view) =
            self.cache_view(policy, query_key).filter(|cache_view| is_denied_in(policy, *cache_view))
        {
            self.denials.store_wildcards(cache_view.number, response, validated, since_start(now));
        }
    }

    /// Returns an answer made from cached proofs, and the target if it ends in an alias.
    pub(crate) fn made(
        &self,
        policy: &Policy,
        query_key: &QueryKey,
        cache_view: CacheView,
        now: Now,
    ) -> Option<(Piece, Option<LowerNameBuf>)> {
        if !is_synthesized(policy, query_key, cache_view) {
            return None;
        }
        let mut work = DenialWork::default();
        let made = match self.denied(policy, query_key, cache_view, now, &mut work) {
            Some(piece) => Some((piece, None)),
            None => self.expanded(policy, query_key, cache_view, now, &mut work),
        };
        if work.hashes() > 0 {
            self.stats().denial_hashes.add_many(work.hashes().into());
        }
        made
    }

    /// Returns a negative answer made from cached denials.
    fn denied(
        &self,
        policy: &Policy,
        query_key: &QueryKey,
        cache_view: CacheView,
        now: Now,
        work: &mut DenialWork,
    ) -> Option<Piece> {
        let name = query_key.name.as_name();
        let denial = self.denials.deny(cache_view.number, name, query_key.qtype, since_start(now), work)?;
        let sets = denial.sets.iter().map(|set| &**set);
        let message = write(query_key, denial.rcode, denial.ttl, sets).ok()?;
        self.stats().denied.add();
        self.keep_made(policy, query_key, &message, Some(denial.ttl), now);
        Some(Piece { negative_ttl: Some(denial.ttl), ..piece(message, denial.rcode, cache_view) })
    }

    /// Returns an answer made from a cached DNAME or wildcard, and the target if it ends in an alias.
    fn expanded(
        &self,
        policy: &Policy,
        query_key: &QueryKey,
        cache_view: CacheView,
        now: Now,
        work: &mut DenialWork,
    ) -> Option<(Piece, Option<LowerNameBuf>)> {
        let name = query_key.name.as_name();
        if let Some(made) = self.denials.redirect(cache_view.number, name, query_key.qtype, since_start(now))
        {
            let message = write(query_key, Rcode::NOERROR, made.ttl, [&*made.dname, &made.cname]).ok()?;
            self.stats().redirected.add();
            let leads_to = made.leads_to.map(|name| name.as_name().to_lower());
            return Some((piece(message, Rcode::NOERROR, cache_view), leads_to));
        }
        let made = self.denials.expand(cache_view.number, name, query_key.qtype, since_start(now), work)?;
        let message = write(query_key, Rcode::NOERROR, made.ttl, [&made.set, &*made.proof]).ok()?;
        // The wildcard may be from a domain that is exempt from the filter of private addresses.
        if policy.private.as_ref().is_some_and(|private| private.offends(&message)) {
            return None;
        }
        self.stats().expanded.add();
        let leads_to = made.leads_to.map(|name| name.as_name().to_lower());
        if leads_to.is_none() {
            self.keep_made(policy, query_key, &message, None, now);
        }
        Some((piece(message, Rcode::NOERROR, cache_view), leads_to))
    }

    /// Caches an answer made here if the query was seen a short time ago: a cache hit is faster than
    /// synthesis. A flood of names that are queried only once takes no space from other entries.
    fn keep_made(&self, policy: &Policy, query_key: &QueryKey, message: &[u8], ttl: Option<Ttl>, now: Now) {
        if self.made.has_come(query_key) {
            self.keep(policy, query_key, &with_ad(message, true), ttl, now);
        }
    }
}

fn piece(message: Vec<u8>, rcode: Rcode, cache_view: CacheView) -> Piece {
    Piece {
        message: Message::Own(message.into()),
        rcode,
        authentic: cache_view.passes_ad,
        negative_ttl: None,
        stale: false,
        info: None,
        upstream: None,
    }
}

/// Whether the client of this query may get answers made here.
fn is_synthesized(policy: &Policy, query_key: &QueryKey, cache_view: CacheView) -> bool {
    !query_key.checking_disabled && query_key.qclass == Class::IN && is_denied_in(policy, cache_view)
}

fn is_denied_in(policy: &Policy, cache_view: CacheView) -> bool {
    policy.aggressive_nsec && cache_view.validates
}

/// Returns the message of these RRsets: with signatures and proofs if DO is set.
fn write<'s>(
    query_key: &QueryKey,
    rcode: Rcode,
    ttl: Ttl,
    sets: impl IntoIterator<Item = &'s ReceivedSet>,
) -> Result<Vec<u8>, Full> {
    let (mut written, mut names) = (vec![0; MAX_ANSWER_BYTES], Compressor::small());
    let mut header = Header::query(0).reply();
    header.set_rcode(rcode);
    let mut b = Builder::new(&mut written, MAX_ANSWER_BYTES, header, &mut names);
    b.question(query_key.name.as_name(), query_key.qtype, query_key.qclass)?;
    b.learn(query_key.name.as_name(), Offset::QNAME);
    let is_proof = |set: &ReceivedSet| matches!(set.rtype, Type::NSEC | Type::NSEC3);
    for set in sets.into_iter().filter(|set| query_key.dnssec_ok || !is_proof(set)) {
        let own = set.rdatas.iter().map(|rdata| (set.rtype, rdata));
        let signatures = set.signatures.iter().map(|signature| (Type::RRSIG, &signature.rdata));
        for (rtype, rdata) in own.chain(signatures.filter(|_| query_key.dnssec_ok)) {
            let owner = Owner::Name(set.owner.as_name());
            b.record(set.section, owner, rtype, query_key.qclass, ttl, rdata)?;
        }
    }
    let len = b.finish();
    written.truncate(len);
    Ok(written)
}
