//! Fallbacks of iteration when all servers of a zone are useless: addresses from the parent that it is not
//! authoritative for, the parent's servers again, and last the servers that offer recursion.
//!
//! The parent's servers are queried for glue that their referral lacked, and for the delegation itself if it
//! is old: the zone may have moved. This is limited by the budget of the query, by [`PARENT_QUESTIONS`] for
//! each lookup and by [`DELEGATION_RECHECK_INTERVAL`] for each zone. Servers that offer recursion and are not
//! authoritative are queried with RD only when every other server has failed.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use transport::Action;
use wire::{LowerName, LowerNameBuf, Rcode, Type};

use super::Resolver;
use super::seek::{addresses_in, plain};
use super::state::{LookupId, Recheck};
use super::walk::Next;
use crate::delegations::{Cut, CutServer};
use crate::outcome::LookupOutcome;
use crate::query_key::QueryKey;
use crate::random::Random;
use crate::request::LookupSink;
use crate::scrub::{ReferralScope, ReplyFault, Scope, may_be_asked, referral, scrub};
use crate::select::Asked;
use crate::trace::TraceEvent;

/// Shortest time between two queries to a parent's servers for a delegation whose servers fail.
const DELEGATION_RECHECK_INTERVAL: Duration = Duration::from_secs(30);
/// Most queries to parents' servers in one lookup, for glue and for delegations together.
const PARENT_QUESTIONS: u8 = 3;

impl<O: LookupSink, R: Random> Resolver<O, R> {
    /// Starts the next fallback of a lookup whose zone has no useful server. Returns whether there is one, or
    /// the lookup has ended.
    pub(super) fn fall_back(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) -> bool {
        let Some(lookup) = self.lookups.get_mut(&id).filter(|lookup| lookup.other_than.is_none()) else {
            return false;
        };
        let recheck = lookup.state.take_recheck();
        let Some(walk) = lookup.state.walk() else { return false };
        let Some(mut recheck) = recheck else {
            if walk.recursion {
                return false;
            }
            if self.ask_outside(id, now, actions) {
                return true;
            }
            return self.recheck(id, now).is_some_and(|recheck| self.check(id, recheck, now, actions));
        };
        recheck.question = None;
        let failure = recheck.failure;
        if !self.check(id, recheck, now, actions) {
            self.end(id, LookupOutcome::Failed(failure), now, actions);
        }
        true
    }

    /// Queries servers at addresses that the parent is not authoritative for.
    fn ask_outside(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) -> bool {
        let tries = self.config.limits.tries;
        let Some(lookup) = self.lookups.get_mut(&id) else { return false };
        let Some(walk) = lookup.state.walk_mut() else { return false };
        if walk.outside || walk.cut.servers.iter().all(|server| server.outside.is_empty()) {
            return false;
        }
        walk.outside = true;
        let zone = walk.cut.zone;
        lookup.attempts.tries_left = tries;
        if !self.add_addresses(id, now) {
            return false;
        }
        self.note(id, now, || TraceEvent::OutsideGlue { zone: Box::new(zone.into()) });
        self.go_on(id, now, actions);
        true
    }

    /// Returns the recheck state for a lookup at a zone whose servers have failed.
    fn recheck(&self, id: LookupId, now: Instant) -> Option<Box<Recheck>> {
        let lookup = self.lookups.get(&id)?;
        let child = Arc::clone(&lookup.state.walk()?.cut);
        let due = child.checked.is_some_and(|at| at + DELEGATION_RECHECK_INTERVAL <= now);
        let (asked, failure) = (lookup.attempts.asked.clone(), lookup.failure());
        Some(Box::new(Recheck { child, asked, failure, sought: Vec::new(), due, question: None }))
    }

    /// Queries the parent's servers, or the servers that offer recursion. Returns whether there are any.
    fn check(
        &mut self,
        id: LookupId,
        mut recheck: Box<Recheck>,
        now: Instant,
        actions: &mut Vec<Action>,
    ) -> bool {
        let iteration = self.lookups.get(&id).and_then(|lookup| lookup.state.iteration());
        let may_ask = iteration.is_some_and(|iteration| iteration.parent_questions < PARENT_QUESTIONS);
        let Some(parent) = self.parent_of(id, &recheck.child, now).filter(|_| may_ask) else {
            return self.ask_for_recursion(id, &recheck, now, actions);
        };
        if let Some(name) = self.without_glue(&recheck, now) {
            recheck.sought.push(name);
            let qtype = if self.is_open(false, now) { Type::A } else { Type::AAAA };
            recheck.question = Some(plain(name.as_lower(), qtype));
        } else if std::mem::take(&mut recheck.due) {
            // Other lookups do not ask again meanwhile.
            let child = Arc::new(Cut { checked: Some(now), ..(*recheck.child).clone() });
            self.delegations.keep(&child, self.config.iterate.delegation_bytes);
        } else {
            return self.ask_for_recursion(id, &recheck, now, actions);
        }
        let iteration = self.lookups.get_mut(&id).and_then(|lookup| lookup.state.iteration_mut());
        let Some(iteration) = iteration else { return true };
        iteration.parent_questions += 1;
        self.stats.parents_asked.add(1);
        let zone = recheck.child.zone;
        iteration.recheck = Some(recheck);
        self.note(id, now, || TraceEvent::ParentAsked { zone: Box::new(zone.into()) });
        self.come_to(id, parent, now, actions);
        true
    }

    /// Returns the closest known cut above a delegated zone. Above a rule's primed zone are the configured
    /// servers.
    fn parent_of(&mut self, id: LookupId, child: &Cut, now: Instant) -> Option<Arc<Cut>> {
        child.expires?;
        let start = Arc::clone(self.rules.get(self.lookups.get(&id)?.rule)?.start()?);
        let above = child.zone.as_lower().parent().filter(|_| child.zone != start.zone);
        let known = above.and_then(|above| self.delegations.closest(above, start.zone.as_lower(), now));
        Some(known.unwrap_or(start))
    }

    /// Returns a server below the zone itself that has no address, only the parent's servers can provide one,
    /// and they were not queried for it.
    fn without_glue(&mut self, recheck: &Recheck, now: Instant) -> Option<LowerNameBuf> {
        let zone = recheck.child.zone.as_lower();
        let lacks = |server: &&CutServer| {
            let name = server.name().filter(|name| name.is_at_or_below(zone));
            server.glue.is_empty() && name.is_some_and(|name| !recheck.sought.contains(&name.to_buf()))
        };
        for server in recheck.child.servers.iter().filter(lacks) {
            if self.own_addresses(server, now).is_empty() {
                return server.name().map(LowerName::to_buf);
            }
        }
        None
    }

    /// Queries the servers of a zone that offer recursion with RD, and accepts answers from their caches.
    fn ask_for_recursion(
        &mut self,
        id: LookupId,
        recheck: &Recheck,
        now: Instant,
        actions: &mut Vec<Action>,
    ) -> bool {
        if !recheck.asked.iter().any(|asked| asked.recursive) {
            return false;
        }
        if !self.move_to(id, Arc::clone(&recheck.child), now, actions) {
            return true;
        }
        let Some(lookup) = self.lookups.get_mut(&id) else { return true };
        lookup.attempts.asked.clone_from(&recheck.asked);
        lookup.attempts.asked.iter_mut().for_each(Asked::is_asked_for_recursion);
        if let Some(walk) = lookup.state.walk_mut() {
            (walk.recursion, walk.whole) = (true, true);
        }
        let zone = recheck.child.zone;
        self.note(id, now, || TraceEvent::RecursionAsked { zone: Box::new(zone.into()) });
        self.ask_zone(id, now, actions);
        true
    }

    /// Handles a delegation that was requested again. Returns whether it brings nothing new, and another
    /// fallback was started.
    pub(super) fn is_unchanged(
        &mut self,
        id: LookupId,
        newer: &Cut,
        now: Instant,
        actions: &mut Vec<Action>,
    ) -> bool {
        let recheck = self.lookups.get_mut(&id).and_then(|lookup| lookup.state.take_recheck());
        let Some(recheck) = recheck else { return false };
        if recheck.child.zone != newer.zone || !recheck.child.covers(newer) {
            return false;
        }
        let failure = recheck.failure;
        if !self.check(id, recheck, now, actions) {
            self.end(id, LookupOutcome::Failed(failure), now, actions);
        }
        true
    }

    /// Returns the glue in a reply of the parent's servers to the query for a server's address.
    pub(super) fn weigh_glue(
        &self,
        recheck: &Recheck,
        question: &QueryKey,
        message: &[u8],
        rcode: Rcode,
        scope: &Scope<'_>,
        referral_scope: &ReferralScope<'_>,
    ) -> Result<Next, ReplyFault> {
        let mut glue = Vec::new();
        if let Some(referral) = referral(message, referral_scope)? {
            if referral.zone != recheck.child.zone {
                return Err(ReplyFault::Lame);
            }
            let all = |(name, addresses): (LowerNameBuf, Vec<IpAddr>)| {
                addresses.into_iter().map(move |ip| (name, ip))
            };
            glue.extend(referral.servers.into_iter().flat_map(all));
        } else {
            let answer = scrub(message, question, rcode, scope)?;
            let loopback = self.config.iterate.loopback;
            let (found, _) = addresses_in(&answer, question.qtype);
            glue.extend(
                found.into_iter().filter(|ip| may_be_asked(*ip, loopback)).map(|ip| (question.name, ip)),
            );
        }
        Ok(Next::Glue(glue))
    }

    /// Returns to a zone with the glue from its parent's servers.
    pub(super) fn take_glue(
        &mut self,
        id: LookupId,
        glue: &[(LowerNameBuf, IpAddr)],
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let recheck = self.lookups.get_mut(&id).and_then(|lookup| lookup.state.take_recheck());
        let Some(recheck) = recheck else { return };
        let failure = recheck.failure;
        if let Some(cut) = recheck.child.with_glue(glue) {
            let cut = Arc::new(cut);
            self.delegations.keep(&cut, self.config.iterate.delegation_bytes);
            return self.come_to(id, cut, now, actions);
        }
        if !self.check(id, recheck, now, actions) {
            self.end(id, LookupOutcome::Failed(failure), now, actions);
        }
    }
}
