//! Answers made of what was proven before (RFC 8198): no server is asked for a name that is known not to
//! exist, nor for one that a known wildcard matches or a known DNAME redirects (RFC 6672 §3.4).

use cache::Now;
use dnssec::{DenialWork, ProvenDenials, ReceivedSet, Response, Validated};
use resolver::QueryKey;
use wire::message::{Builder, Compressor, Full, Header, Offset, Owner};
use wire::{Class, LowerNameBuf, Rcode, Ttl, Type};

use crate::cache_views::CacheView;
use crate::message::Message;
use crate::policy::Policy;
use crate::service::{Piece, Service, with_ad};

/// Room for an answer; a longer one is asked for.
const ROOM: usize = 4096;

/// The time as denials are kept by: seconds.
fn seconds(now: Now) -> u64 {
    now.since(Now::since_start(0)).into()
}

/// What was proven for one client may deny names to others, if the operator has nothing against it.
pub(crate) fn denials(policy: &Policy) -> ProvenDenials {
    let denials = ProvenDenials::new(0);
    configure(&denials, policy);
    denials
}

/// Drops all denials, and has what comes bounded as the policy says.
fn configure(denials: &ProvenDenials, policy: &Policy) {
    denials.configure(room(policy), &policy.validation.settings, &policy.validation.limits);
}

fn room(policy: &Policy) -> usize {
    if policy.aggressive_nsec { policy.denials } else { 0 }
}

impl Service {
    /// Drops all denials that were proven under another policy.
    pub(crate) fn forget_denials(&self, policy: &Policy) {
        configure(&self.denials, policy);
    }

    /// Takes what an answer proves not to be there, which was found secure and may be kept for `ttl`.
    pub(crate) fn learn_denial(
        &self,
        policy: &Policy,
        query_key: &QueryKey,
        (response, validated): (&Response, &Validated),
        ttl: Ttl,
        now: Now,
    ) {
        if let Some(cache_view) =
            self.cache_view(policy, query_key).filter(|cache_view| is_denied_in(policy, *cache_view))
        {
            self.denials.learn(cache_view.number, response, validated, ttl, seconds(now));
        }
    }

    /// Takes the wildcards that an answer was made of, which was found secure, and its DNAME.
    pub(crate) fn learn_wildcards(
        &self,
        policy: &Policy,
        query_key: &QueryKey,
        (response, validated): (&Response, &Validated),
        now: Now,
    ) {
        if let Some(cache_view) =
            self.cache_view(policy, query_key).filter(|cache_view| is_denied_in(policy, *cache_view))
        {
            self.denials.learn_wildcards(cache_view.number, response, validated, seconds(now));
        }
    }

    /// The answer to a question, if what is proven makes one; and where it leads, if that is not its end.
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

    /// The answer to a question, if it is known that there is nothing.
    fn denied(
        &self,
        policy: &Policy,
        query_key: &QueryKey,
        cache_view: CacheView,
        now: Now,
        work: &mut DenialWork,
    ) -> Option<Piece> {
        let name = query_key.name.as_name();
        let denial = self.denials.deny(cache_view.number, name, query_key.qtype, seconds(now), work)?;
        let sets = denial.sets.iter().map(|set| &**set);
        let message = write(query_key, denial.rcode, denial.ttl, sets).ok()?;
        self.stats().denied.add();
        self.keep_made(policy, query_key, &message, Some(denial.ttl), now);
        Some(Piece { negative_ttl: Some(denial.ttl), ..piece(message, denial.rcode, cache_view) })
    }

    /// The answer to a question, if it is known that a DNAME redirects the name or that a wildcard covers it;
    /// and where it leads, if that is not its end.
    fn expanded(
        &self,
        policy: &Policy,
        query_key: &QueryKey,
        cache_view: CacheView,
        now: Now,
        work: &mut DenialWork,
    ) -> Option<(Piece, Option<LowerNameBuf>)> {
        let name = query_key.name.as_name();
        if let Some(made) = self.denials.redirect(cache_view.number, name, query_key.qtype, seconds(now)) {
            let message = write(query_key, Rcode::NOERROR, made.ttl, [&*made.dname, &made.cname]).ok()?;
            self.stats().redirected.add();
            let leads_to = made.leads_to.map(|name| name.as_name().to_lower());
            return Some((piece(message, Rcode::NOERROR, cache_view), leads_to));
        }
        let made = self.denials.expand(cache_view.number, name, query_key.qtype, seconds(now), work)?;
        let message = write(query_key, Rcode::NOERROR, made.ttl, [&made.set, &*made.proof]).ok()?;
        // Another name may have addresses that this one may not.
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

    /// Keeps an answer made here, if it was asked for before a short time ago: the cache has it ready sooner
    /// than it is made. Of a flood of names that are asked for once, none takes the room of others.
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

/// Whether the client of this query gets answers that are made here.
fn is_synthesized(policy: &Policy, query_key: &QueryKey, cache_view: CacheView) -> bool {
    !query_key.checking_disabled && query_key.qclass == Class::IN && is_denied_in(policy, cache_view)
}

fn is_denied_in(policy: &Policy, cache_view: CacheView) -> bool {
    policy.aggressive_nsec && cache_view.validates
}

/// The message of these RRsets: for those who have set DO with signatures, and with what proves it.
fn write<'s>(
    query_key: &QueryKey,
    rcode: Rcode,
    ttl: Ttl,
    sets: impl IntoIterator<Item = &'s ReceivedSet>,
) -> Result<Vec<u8>, Full> {
    let (mut written, mut names) = (vec![0; ROOM], Compressor::small());
    let mut header = Header::query(0).reply();
    header.set_rcode(rcode);
    let mut b = Builder::new(&mut written, ROOM, header, &mut names);
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
