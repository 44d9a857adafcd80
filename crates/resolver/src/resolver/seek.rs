//! Addresses of servers that no referral brought: looked up by lookups without clients, one after the other
//! and, where that takes long, side by side.
//!
//! The lookup that waits for one pays for it from its budget when it is begun; [`payers`](super::payers)
//! moves it to another. A lookup that others have begun to do without is set aside: it takes the replies that
//! come, but sends no further query.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exchange::Action;
use wire::message::Parser;
use wire::{Class, LowerName, LowerNameBuf, Name, Rcode, Type};

use super::Resolver;
use super::state::{Lookup, LookupId, Timer, Wait};
use crate::budget::{Overspent, Seeking};
use crate::outcome::{LookupFailure, LookupOutcome};
use crate::query_key::QueryKey;
use crate::random::Random;
use crate::request::LookupSink;
use crate::scrub::{Answer, address, may_be_asked};
use crate::trace::TraceEvent;

/// So many times the first timeout of a server that was never measured an address may be in coming before
/// another server's is looked up beside it.
const SEEK_LONGER: u32 = 2;
/// The most that a server's addresses, or that there are none, are believed.
const HOST_TTL: u32 = 86_400;
/// The same for none without a time of its own.
const NO_HOST: Duration = Duration::from_secs(60);

impl<O: LookupSink, R: Random> Resolver<O, R> {
    /// Looks the address of one more server up, unless that is under way. Whether there is something to wait
    /// for.
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

    /// Looks the address of one more server up, beside those that are waited for or if there are none.
    /// Whether there is something more to wait for.
    fn seek_one(&mut self, id: LookupId, beside: bool, now: Instant, actions: &mut Vec<Action>) -> bool {
        let before = self.lookups.get(&id).map_or(0, |lookup| lookup.waits().len());
        loop {
            if self.lookups.get(&id).is_none_or(|lookup| lookup.waits().len() > before) {
                return true;
            }
            let Some(query_key) = self.next_sought(id, beside, now) else { return false };
            let Some(lookup) = self.lookups.get_mut(&id) else { return true };
            let Some(budget) = lookup.budget.clone() else { return false };
            let limits = &self.config.iterate;
            let allowed = match lookup.depth < limits.depth {
                true => budget.seek(&limits.budget),
                false => Err(Overspent::Depth),
            };
            let seeking = match allowed {
                Ok(seeking) => seeking,
                Err(_) if beside => return false,
                Err(spent) => {
                    // Where there are servers to ask, that was not what it failed of.
                    lookup.overspent = lookup.overspent.or(Some(spent).filter(|_| lookup.asked.is_empty()));
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

    /// A server's address has been long in coming: that of another is looked up beside it.
    pub(super) fn seek_longer(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        let Some(walk) = self.lookups.get_mut(&id).and_then(|lookup| lookup.walk.as_mut()) else { return };
        walk.seek_at = None;
        if !walk.waits.is_empty() && !self.is_set_aside(id) {
            self.seek_one(id, true, now, actions);
        }
    }

    /// No query is under way for the address that a lookup waits for. So another address is looked up or, if
    /// there is none, those servers are asked again.
    fn press_on(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        if !self.seek_one(id, true, now, actions)
            && let Some(newest) = self.lookups.get(&id).and_then(|lookup| lookup.newest_wait())
        {
            self.rouse(newest, now, actions);
        }
    }

    /// A lookup goes on that was set aside, and is not any more.
    pub(super) fn rouse(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        if !self.is_stalled(id) {
            return;
        }
        match self.lookups.get(&id).is_some_and(|lookup| lookup.seeks()) {
            true => self.press_on(id, now, actions),
            false => self.go_on(id, now, actions),
        }
    }

    /// Whether nothing happens for a lookup unless something comes that was asked for before.
    pub(super) fn is_stalled(&self, id: LookupId) -> bool {
        let Some(lookup) = self.lookups.get(&id) else { return false };
        !self.asks(lookup) && lookup.newest_wait().is_none_or(|newest| self.is_stalled(newest))
    }

    /// Whether a lookup finds the address of a server, and every lookup that waits for that has begun to look
    /// for another since. It then takes the replies that come, but sends no further query: no more is asked
    /// at a time than if one address were looked up after the other.
    pub(super) fn is_set_aside(&self, id: LookupId) -> bool {
        let Some(lookup) = self.lookups.get(&id) else { return false };
        let wants = |other: &LookupId| {
            let newest = self.lookups.get(other).and_then(|lookup| lookup.newest_wait());
            newest == Some(id) && !self.is_set_aside(*other)
        };
        lookup.clients.is_empty() && !lookup.dependents.is_empty() && !lookup.dependents.iter().any(wants)
    }

    /// The next server whose address may be looked up, by the family that is to be. Those with glue come
    /// last, since that may be out of date; those below the zone never, since only its servers know them.
    /// Beside others, one is preferred of which nothing was looked up so far, and one is left out whose name
    /// is in a zone without a server that answers: that is no other way.
    fn next_sought(&mut self, id: LookupId, beside: bool, now: Instant) -> Option<QueryKey> {
        let families: Vec<Type> = [(false, Type::A), (true, Type::AAAA)]
            .into_iter()
            .filter(|(v6, _)| self.is_open(*v6, now))
            .map(|(_, qtype)| qtype)
            .collect();
        let walk = self.lookups.get(&id)?.walk.as_ref()?;
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
                        let walk = self.lookups.get_mut(&id)?.walk.as_mut()?;
                        walk.sought.push((at, qtype));
                        return Some(plain(name, qtype));
                    }
                }
            }
        }
        None
    }

    /// Whether it is known that none of the servers answers that would be asked for a name first.
    fn leads_nowhere(&mut self, name: LowerName<'_>, now: Instant) -> bool {
        let cut = self.delegations.closest(name, LowerNameBuf::ROOT.as_lower(), now);
        cut.is_some_and(|cut| self.is_dead(&cut, now))
    }

    /// Has one lookup depend on another, which may have to be started; whether that could be done. If not,
    /// nothing was begun, and what was taken for it is given back.
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
            lookup.hindered = lookup.hindered.or(Some(LookupFailure::Shed(reason)));
            return false;
        }
        let (budget, depth, dependents) = (lookup.budget.clone(), lookup.depth + 1, vec![id]);
        self.stats.address_lookups.add(1);
        // It gets the next number.
        let other = LookupId(self.last + 1);
        self.wait_for(id, Wait { on: other, seeking }, now);
        self.start(Lookup { budget, depth, dependents, ..Lookup::new(query_key, rule) }, now, actions);
        true
    }

    /// A server's address cannot be looked up: neither that of the other family, for it is with the same
    /// servers.
    fn seek_no_more(&mut self, id: LookupId, name: LowerName<'_>) {
        let Some(walk) = self.lookups.get_mut(&id).and_then(|lookup| lookup.walk.as_mut()) else { return };
        for (at, server) in walk.cut.servers.iter().enumerate() {
            if server.name() == Some(name) {
                walk.sought.extend([(at, Type::A), (at, Type::AAAA)]);
            }
        }
    }

    fn wait_for(&mut self, id: LookupId, wait: Wait, now: Instant) {
        let Some(walk) = self.lookups.get_mut(&id).and_then(|lookup| lookup.walk.as_mut()) else { return };
        walk.waits.push(wait);
        let at = now + self.config.timing.first_rto * SEEK_LONGER;
        let before = walk.seek_at.replace(at);
        self.drop_timer(before, Timer::Seek(id));
        self.set_timer(at, Timer::Seek(id));
    }

    /// Whether `other` is the lookup itself, or waits for it, if by others in between.
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

    /// A lookup no longer needs another one, which ends if nothing else needs it.
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

    /// A lookup that others depend on has ended: what it found is kept, and they go on.
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
        // A name that is not there has neither, and where no server is known there is none to ask for the
        // other.
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

    /// A lookup waits no longer for another that it depended on, and that may have found nothing: of a
    /// `limit`, if there is one.
    pub(super) fn goes_on_without(
        &mut self,
        dependent: LookupId,
        id: LookupId,
        fruitless: bool,
        limit: Option<LookupFailure>,
    ) {
        let Some(lookup) = self.lookups.get_mut(&dependent) else { return };
        lookup.hindered = lookup.hindered.or(limit);
        let over = lookup.walk.as_mut().and_then(|walk| {
            let ended = walk.waits.extract_if(.., |wait| wait.on == id);
            ended.filter(|_| fruitless).for_each(|wait| wait.seeking.was_fruitless());
            walk.seek_at.take_if(|_| walk.waits.is_empty())
        });
        self.drop_timer(over, Timer::Seek(dependent));
        self.woken.push_back(dependent);
    }

    /// Lookups that have waited for others go on, and those that others pay for begin again.
    pub(super) fn wake(&mut self, now: Instant, actions: &mut Vec<Action>) {
        while let Some(id) = self.woken.pop_front() {
            if self.lookups.get(&id).is_some_and(|lookup| lookup.begins_again) {
                self.begin_again(id, now, actions);
                continue;
            }
            let new = self.add_addresses(id, now);
            let Some(lookup) = self.lookups.get_mut(&id) else { continue };
            let addresses = lookup.asked.len();
            if new {
                lookup.tries_left = lookup.tries_left.max(self.config.limits.tries);
                // Another's budget may have been spent, not this one's.
                lookup.overspent = None;
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

/// A question of our own.
pub(super) fn plain(name: LowerName<'_>, qtype: Type) -> QueryKey {
    let (dnssec_ok, checking_disabled) = (false, false);
    QueryKey { name: name.to_buf(), qtype, qclass: Class::IN, dnssec_ok, checking_disabled }
}

/// The addresses in the answer to a question for them, and how long that holds. A server's name is no alias
/// (RFC 2181 §10.3).
pub(super) fn addresses_in(answer: &Answer, qtype: Type) -> (Vec<IpAddr>, Option<Duration>) {
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
