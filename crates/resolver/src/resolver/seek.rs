//! Lookups of server addresses that came with no referral. They have no clients, and run one after the other
//! or, if one takes long, in parallel.
//!
//! The dependent lookup's budget is charged when one starts; [`payers`](super::payers) moves it to another. A
//! lookup is set aside when all its dependents have started another one: it accepts replies, but sends no
//! further queries.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use transport::Action;
use wire::message::Parser;
use wire::{Class, LowerName, LowerNameBuf, Name, Rcode, Type};

use super::Resolver;
use super::state::{Charge, Lookup, LookupId, Timer, Wait};
use crate::budget::{Overspent, Seeking};
use crate::outcome::{LookupFailure, LookupOutcome};
use crate::query_key::{Partition, QueryKey};
use crate::random::Random;
use crate::request::LookupSink;
use crate::scrub::{ScrubbedAnswer, address, may_be_asked};
use crate::trace::TraceEvent;

/// After this many first timeouts of an unmeasured server without an address, another server's address is
/// looked up in parallel.
const SEEK_LONGER: u32 = 2;
/// Highest TTL of a server's addresses or their absence, in seconds.
const HOST_TTL: u32 = 86_400;
/// How long the absence of addresses is cached if the answer has no negative TTL.
const NO_HOST: Duration = Duration::from_secs(60);

impl<O: LookupSink, R: Random> Resolver<O, R> {
    /// Looks up the address of one more server, unless that is pending. Returns whether there is something to
    /// wait for.
    pub(super) fn seek(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) -> bool {
        match self.lookups.get(&id).map(|lookup| lookup.newest_wait()) {
            None => true,
            Some(None) => self.seek_one(id, false, now, actions),
            Some(Some(newest)) => {
                if self.is_stalled(newest) {
                    self.press_on(id, now, actions);
                }
                true
            }
        }
    }

    /// Starts a lookup of another server's address; with `beside`, in addition to pending ones. Returns
    /// whether there is something new to wait for.
    fn seek_one(&mut self, id: LookupId, beside: bool, now: Instant, actions: &mut Vec<Action>) -> bool {
        let before = self.lookups.get(&id).map_or(0, |lookup| lookup.waits().len());
        loop {
            if self.lookups.get(&id).is_none_or(|lookup| lookup.waits().len() > before) {
                return true;
            }
            let Some(query_key) = self.next_sought(id, beside, now) else { return false };
            let Some(lookup) = self.lookups.get_mut(&id) else { return true };
            let Some(budget) = lookup.charge.budget.clone() else { return false };
            let limits = &self.config.iterate;
            let allowed = match lookup.charge.depth < limits.depth {
                true => budget.seek(&limits.budget),
                false => Err(Overspent::Depth),
            };
            let seeking = match allowed {
                Ok(seeking) => seeking,
                Err(_) if beside => return false,
                Err(spent) => {
                    // If there are servers to query, the budget is not the cause of the failure.
                    lookup.charge.overspent =
                        lookup.charge.overspent.or(Some(spent).filter(|_| lookup.attempts.asked.is_empty()));
                    return false;
                }
            };
            let (name, qtype) = (Box::new(query_key.name.into()), query_key.qtype);
            self.note(id, now, || TraceEvent::LookupStarted { name, qtype });
            if !self.depend(id, query_key, seeking, now, actions) {
                self.seek_no_more(id, query_key.name.as_lower());
            }
        }
    }

    /// Looks up another server's address in parallel, since the pending ones take long.
    pub(super) fn seek_longer(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        let Some(walk) = self.lookups.get_mut(&id).and_then(|lookup| lookup.state.walk_mut()) else { return };
        walk.seek_at = None;
        if !walk.waits.is_empty() && !self.is_set_aside(id) {
            self.seek_one(id, true, now, actions);
        }
    }

    /// No query is in flight for the address that a lookup waits for. So looks up another address or, if
    /// there is none, resumes the newest pending lookup.
    fn press_on(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        if !self.seek_one(id, true, now, actions)
            && let Some(newest) = self.lookups.get(&id).and_then(|lookup| lookup.newest_wait())
        {
            self.rouse(newest, now, actions);
        }
    }

    /// Resumes a lookup that was set aside, and is not any more.
    pub(super) fn rouse(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        if !self.is_stalled(id) {
            return;
        }
        match self.lookups.get(&id).is_some_and(|lookup| lookup.seeks()) {
            true => self.press_on(id, now, actions),
            false => self.go_on(id, now, actions),
        }
    }

    /// Whether a lookup has nothing in flight or planned, in its own tries or the newest lookup it waits for.
    pub(super) fn is_stalled(&self, id: LookupId) -> bool {
        let Some(lookup) = self.lookups.get(&id) else { return false };
        !self.asks(lookup) && lookup.newest_wait().is_none_or(|newest| self.is_stalled(newest))
    }

    /// Whether a lookup finds a server's address, and every dependent has started another one since. It then
    /// accepts replies, but sends no further queries: no more queries are sent at a time than if addresses
    /// were looked up one after the other.
    pub(super) fn is_set_aside(&self, id: LookupId) -> bool {
        let Some(lookup) = self.lookups.get(&id) else { return false };
        let wants = |other: &LookupId| {
            let newest = self.lookups.get(other).and_then(|lookup| lookup.newest_wait());
            newest == Some(id) && !self.is_set_aside(*other)
        };
        lookup.clients.is_empty() && !lookup.dependents.is_empty() && !lookup.dependents.iter().any(wants)
    }

    /// Returns the query for the next server address to look up, in families that are reachable. Servers with
    /// glue come last, since glue may be outdated; servers below the zone never, since only they have their
    /// addresses. With `beside`, servers without any address lookup so far are preferred, and those in a zone
    /// whose servers are all failing are left out, since they are no alternative.
    fn next_sought(&mut self, id: LookupId, beside: bool, now: Instant) -> Option<QueryKey> {
        let families: Vec<Type> = [(false, Type::A), (true, Type::AAAA)]
            .into_iter()
            .filter(|(v6, _)| self.is_open(*v6, now))
            .map(|(_, qtype)| qtype)
            .collect();
        let walk = self.lookups.get(&id)?.state.walk()?;
        let (cut, turn, sought) = (Arc::clone(&walk.cut), walk.turn, walk.sought.clone());
        let ranks = [(true, true), (true, false), (false, true), (false, false)];
        for (glueless, untouched) in ranks.into_iter().filter(|(_, untouched)| beside || !untouched) {
            for at in (0..cut.servers.len()).map(|n| (n + turn) % cut.servers.len()) {
                let server = cut.servers.get(at)?;
                let Some(name) = server.name().filter(|name| !name.is_at_or_below(cut.zone.as_lower()))
                else {
                    continue;
                };
                if untouched && sought.iter().any(|(touched, _)| *touched == at)
                    || beside && self.leads_nowhere(name, now)
                {
                    continue;
                }
                for &qtype in families.iter().filter(|_| server.glue.is_empty() == glueless) {
                    let known = self.delegations.host(name, qtype).is_some_and(|found| found.holds(now));
                    if !known && !sought.contains(&(at, qtype)) {
                        let walk = self.lookups.get_mut(&id)?.state.walk_mut()?;
                        walk.sought.push((at, qtype));
                        return Some(plain(name, qtype));
                    }
                }
            }
        }
        None
    }

    /// Whether all servers that a lookup of `name` would query first are known to be failing.
    fn leads_nowhere(&mut self, name: LowerName<'_>, now: Instant) -> bool {
        let cut = self.delegations.closest(name, LowerNameBuf::ROOT.as_lower(), now);
        cut.is_some_and(|cut| self.is_dead(&cut, now))
    }

    /// Makes a lookup depend on another, which is started if needed; returns whether that worked. If not,
    /// nothing was started, and the budget is refunded.
    fn depend(
        &mut self,
        id: LookupId,
        query_key: QueryKey,
        seeking: Seeking,
        now: Instant,
        actions: &mut Vec<Action>,
    ) -> bool {
        let known = self.by_inquiry.get(&query_key).copied();
        if let Some(other) = known {
            if self.is_waited_for(id, other) {
                return false;
            }
            if let Some(other) = self.lookups.get_mut(&other) {
                other.dependents.push(id);
            }
            self.wait_for(id, Wait { on: other, seeking }, now);
            self.rouse(other, now, actions);
            return true;
        }
        let Some(rule) = self.rules.covering(&query_key) else { return false };
        let Some(lookup) = self.lookups.get_mut(&id) else { return false };
        if let Err(reason) = self.load.may_start(&self.config.limits, rule) {
            if let Some(walk) = lookup.state.walk_mut() {
                walk.hindered = walk.hindered.or(Some(LookupFailure::Shed(reason)));
            }
            return false;
        }
        let (budget, depth) = (lookup.charge.budget.clone(), lookup.charge.depth + 1);
        let charge = Charge { budget, depth, ..Charge::default() };
        self.stats.address_lookups.add(1);
        // It gets the next number.
        let other = LookupId(self.last + 1);
        self.wait_for(id, Wait { on: other, seeking }, now);
        let lookup = Lookup { charge, dependents: vec![id], ..Lookup::new(query_key, rule) };
        self.start(lookup, now, actions);
        true
    }

    /// Excludes a server's address from further lookups, of both families, since the same servers would be
    /// queried.
    fn seek_no_more(&mut self, id: LookupId, name: LowerName<'_>) {
        let Some(walk) = self.lookups.get_mut(&id).and_then(|lookup| lookup.state.walk_mut()) else { return };
        for (at, server) in walk.cut.servers.iter().enumerate() {
            if server.name() == Some(name) {
                walk.sought.extend([(at, Type::A), (at, Type::AAAA)]);
            }
        }
    }

    fn wait_for(&mut self, id: LookupId, wait: Wait, now: Instant) {
        let Some(walk) = self.lookups.get_mut(&id).and_then(|lookup| lookup.state.walk_mut()) else { return };
        walk.waits.push(wait);
        let at = now + self.config.timing.first_rto * SEEK_LONGER;
        let before = walk.seek_at.replace(at);
        self.drop_timer(before, Timer::Seek(id));
        self.set_timer(at, Timer::Seek(id));
    }

    /// Whether `other` is the lookup itself or depends on it, directly or through others.
    fn is_waited_for(&self, id: LookupId, other: LookupId) -> bool {
        let (mut seen, mut next) = (Vec::new(), vec![id]);
        while let Some(id) = next.pop() {
            if id == other {
                return true;
            }
            if !seen.contains(&id) {
                seen.push(id);
                next.extend(self.lookups.get(&id).map(|lookup| &lookup.dependents).into_iter().flatten());
            }
        }
        false
    }

    /// Removes a dependency; the other lookup ends if nothing else needs it.
    pub(super) fn depends_no_more(
        &mut self,
        id: LookupId,
        other: LookupId,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let Some(lookup) = self.lookups.get_mut(&other) else { return };
        lookup.dependents.retain(|dependent| *dependent != id);
        if lookup.dependents.is_empty() && lookup.clients.is_empty() {
            self.stats.failed.add(1);
            self.remove(other, now, actions);
            return;
        }
        self.next_pays(other);
    }

    /// Handles the end of a lookup that others depend on: caches the addresses and wakes the dependents.
    pub(super) fn found(
        &mut self,
        lookup: &Lookup<O::Waiter>,
        id: LookupId,
        outcome: &LookupOutcome,
        now: Instant,
    ) {
        let (name, qtype) = (lookup.query_key.name, lookup.query_key.qtype);
        let loopback = self.config.iterate.loopback;
        let (mut addresses, ttl) = match outcome {
            LookupOutcome::Answered(answer) => addresses_in(answer, qtype),
            LookupOutcome::Failed(_) => (Vec::new(), None),
        };
        // A failure at a limit is no failure of the server: other lookups may find its address.
        let says_something = match outcome {
            LookupOutcome::Answered(_) => true,
            LookupOutcome::Failed(failure) => {
                use LookupFailure::{BadReply, Network, NoReply, NoServers};
                matches!(failure, BadReply(_) | Network(_) | NoReply | NoServers)
            }
        };
        addresses.retain(|address| may_be_asked(*address, loopback));
        // NXDOMAIN holds for both families, and without name servers neither family can be looked up.
        let of_both = match outcome {
            LookupOutcome::Answered(answer) => answer.rcode == Rcode::NXDOMAIN && addresses.is_empty(),
            LookupOutcome::Failed(failure) => *failure == LookupFailure::NoServers,
        };
        let fruitless = addresses.is_empty();
        let most = self.config.iterate.delegation_bytes;
        for family in [Type::A, Type::AAAA] {
            if says_something && (family == qtype || of_both) {
                self.delegations.keep_host(name.as_lower(), family, addresses.clone(), ttl, now, most);
            }
        }
        self.stats.delegation_bytes.set(self.delegations.bytes() as u64);
        use LookupFailure::{Overspent, Shed, TimedOut};
        let limit = match outcome {
            LookupOutcome::Failed(failure @ (Overspent(_) | Shed(_) | TimedOut)) => Some(*failure),
            _ => None,
        };
        for &dependent in &lookup.dependents {
            self.goes_on_without(dependent, id, fruitless, limit);
        }
    }

    /// Removes an ended dependency of a lookup, which may have been fruitless, possibly due to a `limit`.
    pub(super) fn goes_on_without(
        &mut self,
        dependent: LookupId,
        id: LookupId,
        fruitless: bool,
        limit: Option<LookupFailure>,
    ) {
        let Some(lookup) = self.lookups.get_mut(&dependent) else { return };
        let over = lookup.state.walk_mut().and_then(|walk| {
            walk.hindered = walk.hindered.or(limit);
            let ended = walk.waits.extract_if(.., |wait| wait.on == id);
            ended.filter(|_| fruitless).for_each(|wait| wait.seeking.was_fruitless());
            walk.seek_at.take_if(|_| walk.waits.is_empty())
        });
        self.drop_timer(over, Timer::Seek(dependent));
        self.woken.push_back(dependent);
    }

    /// Continues woken lookups, and restarts those that are charged to another budget.
    pub(super) fn wake(&mut self, now: Instant, actions: &mut Vec<Action>) {
        while let Some(id) = self.woken.pop_front() {
            if self.lookups.get(&id).is_some_and(|lookup| lookup.charge.begins_again) {
                self.begin_again(id, now, actions);
                continue;
            }
            let new = self.add_addresses(id, now);
            let Some(lookup) = self.lookups.get_mut(&id) else { continue };
            let addresses = lookup.attempts.asked.len();
            if new {
                lookup.attempts.tries_left = lookup.attempts.tries_left.max(self.config.limits.tries);
                // The spent budget may have been another one.
                lookup.charge.overspent = None;
            }
            self.note(id, now, || TraceEvent::Found { addresses });
            let idle = self.lookups.get(&id).is_some_and(|lookup| lookup.seeks() && !self.asks(lookup));
            if idle && !new {
                self.press_on(id, now, actions);
            }
            self.go_on(id, now, actions);
        }
    }
}

/// Returns a query of our own, without DO and CD.
pub(super) fn plain(name: LowerName<'_>, qtype: Type) -> QueryKey {
    let (dnssec_ok, checking_disabled) = (false, false);
    QueryKey {
        name: name.to_buf(),
        qtype,
        qclass: Class::IN,
        dnssec_ok,
        checking_disabled,
        partition: Partition::SHARED,
    }
}

/// Returns the addresses in an answer, and their TTL. A server's name must not be an alias (RFC 2181 §10.3).
pub(super) fn addresses_in(answer: &ScrubbedAnswer, qtype: Type) -> (Vec<IpAddr>, Option<Duration>) {
    let seconds = |ttl: u32| Some(Duration::from_secs(ttl.clamp(1, HOST_TTL).into()));
    let mut found = (Vec::new(), answer.negative_ttl.map_or(Some(NO_HOST), |ttl| seconds(ttl.as_secs())));
    let Ok((header, mut parser)) = Parser::new(&answer.message) else { return found };
    let Ok(question) = parser.question() else { return found };
    let owner_is = |owner: Name<'_>| owner == question.name;
    for _ in 0..header.counts()[1] {
        let mut data = Vec::new();
        let Ok(record) = parser.record() else { break };
        let Ok(owner) = parser.name_at(record.owner_at) else { break };
        if record.rtype == qtype
            && owner_is(owner.as_name())
            && parser.expand_rdata(&record, &mut data).is_ok()
            && let Some(address) = address(&data)
        {
            found.1 = seconds(record.ttl().as_secs());
            found.0.push(address);
        }
    }
    found
}
