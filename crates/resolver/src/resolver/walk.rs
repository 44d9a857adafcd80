//! Iteration: lookups from the servers of one zone to those of the next (RFC 1034 §5.3.3).
//!
//! Each step is sent, repeated and checked like a forwarded query. A local copy of a zone (RFC 8806) replaces
//! the zone's servers, and its responses are checked in the same way; if they are useless, the servers are
//! queried. Aliases are not followed here: the caller gets the first part of the chain and requests its
//! target, through its own cache and rules and from the same [`Budget`](crate::Budget).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use transport::Action;
use wire::message::Header;
use wire::{LowerName, LowerNameBuf, Name, Rcode, Type};

use super::Resolver;
use super::minimise::lifetime;
use super::seek::plain;
use super::state::{Charge, Iteration, Lookup, LookupId, State, Timer, TryId, Walk};
use super::tries::has_fresh;
use crate::config::Minimisation;
use crate::delegations::Cut;
use crate::outcome::{LookupFailure, LookupOutcome};
use crate::query_key::{AnsweredBy, QueryKey, ReportAgent};
use crate::random::Random;
use crate::request::LookupSink;
use crate::rules::Way;
use crate::scrub::{Border, Referral, ReferralProof, ReferralScope, ReplyFault, Scope, ScrubbedAnswer};
use crate::scrub::{priming, referral, referral_proof, scrub};
use crate::select::Asked;
use crate::trace::{TraceEvent, TraceVerdict};

/// Interval between two attempts to prime a rule.
const PRIME_AGAIN: Duration = Duration::from_secs(60);
/// Most referrals of a lookup whose proofs are kept: no sensible path has more zones.
const MAX_PROOFS: usize = 16;

/// The consequence of a reply in one step.
pub(super) enum Next {
    /// The servers of a zone below are next. The referral may have a proof about its DS.
    Down(Referral, Option<Box<ReferralProof>>),
    /// The next query has more labels. The queried name has no zone cut, for this time.
    Deeper(Option<Duration>),
    /// The next query has the whole name.
    Whole,
    /// The answer.
    Answer(ScrubbedAnswer),
    /// The parent's servers have these addresses of a zone's servers.
    Glue(Vec<(LowerNameBuf, IpAddr)>),
}

/// A response and its source.
struct Said<'m> {
    message: &'m [u8],
    /// Its source.
    by: Option<AnsweredBy>,
    /// The server's error-reporting agent (RFC 9567).
    agent: Option<Box<ReportAgent>>,
}

impl<O: LookupSink, R: Random> Resolver<O, R> {
    /// Starts a lookup at the closest cut known. For DS that is the closest above QNAME (RFC 4035 §3.1.4.1).
    pub(super) fn set_out(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        let (query_key, rule) = (lookup.query_key, lookup.rule);
        let way = self.rules.get(rule).map(|rule| &rule.way);
        let Some(Way::Iterate { start, prime, .. }) = way else { return };
        let (start, prime) = (Arc::clone(start), *prime);
        lookup.attempts.asked.clear();
        let hopeless = lookup.state.take_hopeless();
        match &mut lookup.state {
            State::Iterating(iteration) => iteration.recheck = None,
            state @ State::Forwarding { .. } => *state = State::Iterating(Box::default()),
        }
        self.drop_timer(hopeless, Timer::Hopeless(id));
        let name = query_key.name.as_lower();
        let from = if query_key.qtype == Type::DS { name.parent().unwrap_or(name) } else { name };
        let known = self.delegations.closest(from, start.zone.as_lower(), now);
        let own = self.own_cut(&query_key, from, now).filter(|own| {
            let is_below = |cut: &Arc<Cut>| cut.zone.as_lower().is_at_or_below(own.zone.as_lower());
            own.zone.as_lower().is_at_or_below(start.zone.as_lower()) && !known.as_ref().is_some_and(is_below)
        });
        let known = own.or(known);
        let primes = prime && known.is_none();
        self.come_to(id, known.unwrap_or_else(|| Arc::clone(&start)), now, actions);
        if primes {
            self.prime(rule, start.zone.as_lower(), now, actions);
        }
    }

    /// Returns the cut at which a zone served here delegates a name.
    fn own_cut(&self, query_key: &QueryKey, name: LowerName<'_>, now: Instant) -> Option<Arc<Cut>> {
        let mut message = Vec::new();
        let zone = self.config.iterate.own_zones.as_ref()?.refer(name, &mut message)?;
        let question = QueryKey { name: name.to_buf(), qtype: Type::A, ..*query_key };
        let above = Cut::start(zone, &[]);
        let referral = referral(&message, &self.referral_scope(&above, &question)).ok()??;
        Some(Arc::new(Cut::of(&referral, None, now)))
    }

    /// Primes a rule, unless that is in flight or failed a short time ago.
    fn prime(&mut self, rule: usize, zone: LowerName<'_>, now: Instant, actions: &mut Vec<Action>) {
        let query_key = plain(zone, Type::NS);
        let early = self.prime_again.get(&rule).is_some_and(|at| now < *at);
        if early || self.by_inquiry.contains_key(&query_key) {
            return;
        }
        self.prime_again.insert(rule, now + PRIME_AGAIN);
        let charge = Charge { budget: Some(Default::default()), ..Charge::default() };
        let lookup = Lookup { charge, ..Lookup::new(query_key, rule) };
        self.start(lookup, now, actions);
    }

    /// Continues a lookup at the servers of a zone.
    pub(super) fn come_to(&mut self, id: LookupId, cut: Arc<Cut>, now: Instant, actions: &mut Vec<Action>) {
        if self.move_to(id, cut, now, actions) && !self.ask_copy(id, now, actions) {
            self.ask_zone(id, now, actions);
        }
    }

    /// Moves a lookup to a zone, whose servers are not queried yet. Returns whether it may; if not, it has
    /// ended.
    pub(super) fn move_to(
        &mut self,
        id: LookupId,
        cut: Arc<Cut>,
        now: Instant,
        actions: &mut Vec<Action>,
    ) -> bool {
        let turn = self.random.below(cut.servers.len() as u32) as usize;
        let Some(lookup) = self.lookups.get_mut(&id) else { return false };
        lookup.attempts.asked.clear();
        (lookup.attempts.fault, lookup.attempts.agent) = (None, None);
        let whole = lookup.state.walk().is_some_and(|walk| walk.whole);
        self.leave_zone(id, now, actions);
        let dead = self.is_dead(&cut, now);
        let config = &self.config.iterate;
        let most = if dead { config.lookups_per_dead_zone } else { config.lookups_per_zone };
        if let Err(reason) = self.load.zone_came(cut.zone.as_lower(), most) {
            if let Some(count) = self.stats.shed(reason) {
                count.add(1);
            }
            self.end(id, LookupOutcome::Failed(LookupFailure::Shed(reason)), now, actions);
            return false;
        }
        let Some(lookup) = self.lookups.get_mut(&id) else { return false };
        let shown = cut.zone.as_lower().label_count();
        let (waits, sought, seek_at) = (Vec::new(), Vec::new(), None);
        let question = lookup.glue_question().unwrap_or(lookup.query_key);
        let Some(iteration) = lookup.state.iteration_mut() else { return false };
        let (outside, recursion, hindered) = (false, false, None);
        let walk =
            Walk { cut, question, shown, whole, waits, seek_at, sought, turn, outside, recursion, hindered };
        iteration.walk = Some(walk);
        true
    }

    /// Queries the copy of the current zone, if there is one: for the whole name, since no server sees it,
    /// and free of charge. Returns whether its response led on.
    fn ask_copy(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) -> bool {
        let wanted = |lookup: &&Lookup<O::Waiter>| lookup.other_than != Some(AnsweredBy::Copy);
        let Some(lookup) = self.lookups.get(&id).filter(wanted) else { return false };
        let (Some(walk), Some(rule)) = (lookup.state.walk(), self.rules.get(lookup.rule)) else {
            return false;
        };
        let Way::Iterate { start, copy: Some(copy), .. } = &rule.way else { return false };
        let mut message = Vec::new();
        if walk.cut.zone != start.zone || !copy.respond(&walk.question, &mut message) {
            return false;
        }
        let (header, sent) = (Header::of(&message), walk.question.name);
        let rcode = header.as_ref().map_or(Rcode::SERVFAIL, Header::rcode);
        let next = match (header.is_some_and(|header| header.truncated()), rcode) {
            (true, _) => Err(ReplyFault::Truncated),
            (false, Rcode::NOERROR | Rcode::NXDOMAIN | Rcode::YXDOMAIN) => {
                self.weigh(lookup, walk, sent.as_name(), &message, rcode)
            }
            (false, rcode) => Err(ReplyFault::Rcode(rcode)),
        };
        let cut = Arc::clone(&walk.cut);
        let verdict = next.as_ref().map_or_else(|fault| TraceVerdict::Useless(*fault), Next::verdict);
        self.note(id, now, || TraceEvent::Copied { zone: Box::new(cut.zone.into()), rcode, verdict });
        let Ok(next) = next else { return false };
        self.stats.copied.add(1);
        let said = Said { message: &message, by: Some(AnsweredBy::Copy), agent: None };
        self.follow(id, &cut, said, next, now, actions);
        true
    }

    /// Removes a lookup from its zone, with its address lookups.
    pub(super) fn leave_zone(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        let iteration = self.lookups.get_mut(&id).and_then(|lookup| lookup.state.iteration_mut());
        let Some(walk) = iteration.and_then(|iteration| iteration.walk.take()) else { return };
        self.load.zone_went(walk.cut.zone.as_lower());
        self.drop_timer(walk.seek_at, Timer::Seek(id));
        for wait in walk.waits {
            self.depends_no_more(id, wait.on, now, actions);
        }
    }

    /// Queries the servers of the current zone for as much of the name as they need.
    pub(super) fn ask_zone(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        let uncut = self.uncut(id, now);
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        lookup.attempts.tries_left = self.config.limits.tries;
        lookup.attempts.round = 1;
        let resume = lookup.attempts.resume.take();
        let tries = std::mem::take(&mut lookup.attempts.tries);
        let for_glue = lookup.glue_question().is_some();
        if let Some(walk) = lookup.state.walk_mut().filter(|_| !for_glue) {
            let budget = lookup.charge.budget.as_ref();
            let config = &self.config.iterate;
            let taken = || budget.and_then(|budget| budget.take_minimised(&config.budget));
            walk.show_more(&lookup.query_key, config, uncut, taken);
        }
        self.drop_timer(resume, Timer::Resume(id));
        for id in tries {
            self.leave(id, now, actions);
        }
        self.add_addresses(id, now);
        self.note_zone(id, now);
        match self.lookups.get(&id).is_some_and(|lookup| !lookup.attempts.asked.is_empty()) {
            true => {
                self.ask_next(id, now, actions);
                self.ask_failing(id, now, actions);
            }
            false => self.give_up(id, now, actions),
        }
    }

    fn note_zone(&self, id: LookupId, now: Instant) {
        let Some(lookup) = self.lookups.get(&id) else { return };
        let Some(walk) = lookup.state.walk() else { return };
        self.note(id, now, || TraceEvent::Zone {
            zone: Box::new(walk.cut.zone.into()),
            addresses: lookup.attempts.asked.len(),
            name: Box::new(walk.question.name.into()),
            qtype: walk.question.qtype,
        });
    }

    /// Handles the reply to a try of a lookup with iteration.
    pub(super) fn take_step(
        &mut self,
        id: TryId,
        message: &[u8],
        rcode: Rcode,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let Some(one) = self.tries.get(&id) else { return };
        let Some((lookup_id, lookup)) = one.lookup.and_then(|id| Some((id, self.lookups.get(&id)?))) else {
            return;
        };
        let Some(walk) = lookup.state.walk() else { return };
        let next = match self.weigh(lookup, walk, one.name.as_name(), message, rcode) {
            Ok(next) => next,
            Err(fault) => return self.useless(id, rcode, fault, now, actions),
        };
        let (server, cut) = (one.server, Arc::clone(&walk.cut));
        self.note_reply(id, rcode, next.verdict(), now);
        let Some(one) = self.forget(id, actions) else { return };
        let in_clear = one.in_clear.map_or(server, |(in_clear, _)| in_clear);
        if let Some(server) = self.servers.get_mut(in_clear) {
            server.on_good_reply();
        }
        self.clear_was_better(&one, now, actions);
        let by = self.servers.address(in_clear).map(AnsweredBy::Server);
        let lookup = self.lookups.get_mut(&lookup_id).filter(|_| matches!(next, Next::Answer(_)));
        let agent = lookup.and_then(|lookup| lookup.agent_of(server));
        self.follow(lookup_id, &cut, Said { message, by, agent }, next, now, actions);
    }

    /// Continues a lookup after a response of the servers of `cut`, or of its copy.
    fn follow(
        &mut self,
        id: LookupId,
        cut: &Cut,
        said: Said<'_>,
        next: Next,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let Said { message, by, agent } = said;
        let walk = self.lookups.get(&id).and_then(|lookup| lookup.state.walk());
        let part = walk.map(|walk| walk.question.name);
        match next {
            Next::Down(referral, proof) => {
                let lookup = self.lookups.get_mut(&id);
                if let Some(iteration) = lookup.and_then(|lookup| lookup.state.iteration_mut()) {
                    iteration.referrals.extend(proof.map(|proof| *proof));
                }
                self.go_down(id, cut, &referral, now, actions);
            }
            Next::Deeper(ttl) => {
                self.learn_uncut(part.as_ref().map(|part| part.as_lower()), cut, || ttl, now);
                if let Some(lookup) = self.lookups.get_mut(&id) {
                    lookup.attempts.asked.iter_mut().for_each(Asked::goes_on);
                }
                self.ask_zone(id, now, actions);
            }
            Next::Whole => self.ask_whole(id, now, actions),
            Next::Glue(glue) => self.take_glue(id, &glue, now, actions),
            Next::Answer(answer) => {
                let lookup = self.lookups.get_mut(&id);
                let walk = lookup.as_ref().and_then(|lookup| lookup.state.walk());
                if !answer.authoritative && walk.is_some_and(|walk| walk.recursion) {
                    self.stats.recursive.add(1);
                    if let (Some(AnsweredBy::Server(server)), Some(lookup)) = (by, lookup.as_deref()) {
                        self.sink.took_recursive(cut.zone.as_name(), server, &lookup.query_key);
                    }
                }
                let iteration = lookup.and_then(|lookup| lookup.state.iteration_mut());
                let referrals = iteration.map(|iteration| std::mem::take(&mut iteration.referrals));
                let answer = ScrubbedAnswer { by, agent, referrals: referrals.unwrap_or_default(), ..answer };
                self.learn_start(id, cut, message, &answer, now);
                let above = part.as_ref().and_then(|part| part.as_lower().parent());
                self.learn_uncut(above, cut, || lifetime(&answer), now);
                self.end(id, LookupOutcome::Answered(Arc::new(answer)), now, actions);
            }
        }
    }

    /// Returns the consequence of a reply. `sent` is the name as sent in the query.
    fn weigh(
        &self,
        lookup: &Lookup<O::Waiter>,
        walk: &Walk,
        sent: Name<'_>,
        message: &[u8],
        rcode: Rcode,
    ) -> Result<Next, ReplyFault> {
        let question = &walk.question;
        let for_glue = lookup.glue_question();
        let cut =
            |target: LowerName<'_>| self.rules.cut(for_glue.as_ref().unwrap_or(&lookup.query_key), target);
        let scope = Scope {
            domain: walk.cut.zone.as_name(),
            sent,
            records_per_set: self.config.limits.records_per_set,
            max_ttl: self.config.max_ttl,
            max_negative_ttl: self.config.max_negative_ttl,
            border: self.rules.has_partitions().then(|| Border::new(&cut)),
        };
        let referral_scope = self.referral_scope(&walk.cut, question);
        let (recheck, referrals) = match lookup.state.iteration() {
            Some(Iteration { recheck, referrals, .. }) => (recheck.as_ref(), referrals.len()),
            None => (None, 0),
        };
        if let Some(recheck) = recheck.filter(|recheck| recheck.question.is_some()) {
            return self.weigh_glue(recheck, question, message, rcode, &scope, &referral_scope);
        }
        if rcode == Rcode::NOERROR
            && let Some(referral) = referral(message, &referral_scope)?
        {
            // The servers of the parent zone answer for DS themselves.
            if question.qtype == Type::DS && referral.zone == question.name {
                return Err(ReplyFault::Lame);
            }
            // A client that has set both bits validates the answer.
            let validates = question.dnssec_ok && question.checking_disabled;
            let proof = (validates && referrals < MAX_PROOFS)
                .then(|| referral_proof(message, &referral.zone, question, &scope));
            return Ok(Next::Down(referral, proof.flatten().map(Box::new)));
        }
        let lame = |fault| if fault == ReplyFault::Referral { ReplyFault::Lame } else { fault };
        let part = *question != lookup.query_key;
        let answer = match scrub(message, question, rcode, &scope) {
            Ok(answer) => answer,
            // The target of an intermediate alias does not matter.
            Err(ReplyFault::Chain) if part => return Ok(Next::Deeper(None)),
            Err(fault) => return Err(lame(fault)),
        };
        let positive = Header::of(&answer.message).is_some_and(|header| header.counts()[1] > 0);
        let recursive = Header::of(message).is_some_and(|header| header.recursion_available());
        let lame = recursive && !walk.recursion || !positive && answer.negative_ttl.is_none();
        if !answer.authoritative && lame {
            return Err(ReplyFault::Lame);
        }
        if !part {
            return Ok(Next::Answer(answer));
        }
        match (rcode, self.config.iterate.minimisation) {
            (Rcode::NOERROR, _) => Ok(Next::Deeper(lifetime(&answer))),
            // The target of an intermediate alias may not exist.
            (Rcode::NXDOMAIN, _) if positive => Ok(Next::Deeper(lifetime(&answer))),
            (Rcode::NXDOMAIN, Minimisation::Strict) => {
                scrub(message, &lookup.query_key, rcode, &scope).map(Next::Answer)
            }
            _ => Ok(Next::Whole),
        }
    }

    fn referral_scope<'a>(&self, cut: &'a Cut, question: &'a QueryKey) -> ReferralScope<'a> {
        ReferralScope {
            zone: cut.zone.as_name(),
            name: question.name.as_name(),
            class: question.qclass,
            servers: self.config.iterate.servers,
            addresses: self.config.iterate.addresses,
            loopback: self.config.iterate.loopback,
            max_ttl: self.config.max_ttl,
        }
    }

    /// Continues at the servers of a zone below, as the servers of `above` referred.
    fn go_down(
        &mut self,
        id: LookupId,
        above: &Cut,
        referral: &Referral,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        self.stats.referrals.add(1);
        let lookup = self.lookups.get(&id);
        let rule = lookup.and_then(|lookup| self.rules.get(lookup.rule));
        // A rule's start zone is configured: the TTL of its primed servers does not limit the zones below.
        let is_start = rule.is_some_and(|rule| rule.domain.as_name() == above.zone.as_name());
        let end = above.expires.filter(|_| !is_start);
        let cut = Arc::new(Cut::of(referral, end, now));
        if cut.expires.is_some_and(|end| now < end) {
            self.delegations.keep(&cut, self.config.iterate.delegation_bytes);
            self.stats.delegation_bytes.set(self.delegations.bytes() as u64);
        }
        if !self.is_unchanged(id, &cut, now, actions) {
            self.come_to(id, cut, now, actions);
        }
    }

    /// Caches the current servers of a rule's start zone from an answer for its NS records, if priming is on.
    fn learn_start(
        &mut self,
        id: LookupId,
        cut: &Cut,
        message: &[u8],
        answer: &ScrubbedAnswer,
        now: Instant,
    ) {
        let Some(lookup) = self.lookups.get(&id) else { return };
        let rule = self.rules.get(lookup.rule).map(|rule| &rule.way);
        let Some(Way::Iterate { start, prime: true, .. }) = rule else { return };
        let query_key = &lookup.query_key;
        let asks_for_it =
            query_key.qtype == Type::NS && query_key.name == start.zone && cut.zone == start.zone;
        if !asks_for_it || !answer.authoritative {
            return;
        }
        if let Ok(Some(servers)) = priming(message, &self.referral_scope(cut, query_key))
            && servers.servers.iter().any(|(_, addresses)| !addresses.is_empty())
        {
            let cut = Arc::new(Cut::of(&servers, None, now));
            self.delegations.keep(&cut, self.config.iterate.delegation_bytes);
        }
    }

    /// Whether a server has just given a useless reply to a part of the name, and every other one was
    /// queried, too. The whole name may be answered at once, where the others are silent or have unknown
    /// addresses.
    pub(super) fn wants_whole(&self, id: LookupId) -> bool {
        self.lookups.get(&id).is_some_and(|lookup| {
            let just = lookup.attempts.asked.iter().any(|asked| asked.spent && asked.tries > 0);
            self.may_be_misunderstood(lookup)
                && just
                && lookup.charge.overspent.is_none()
                && !has_fresh(lookup)
        }) && !self.is_set_aside(id)
    }

    /// Whether servers may mishandle partial names (RFC 9156 §2.3). Silent ones would be silent again.
    fn may_be_misunderstood(&self, lookup: &Lookup<O::Waiter>) -> bool {
        let part = lookup.state.walk().is_some_and(|walk| walk.question != lookup.query_key);
        part && lookup.glue_question().is_none()
            && lookup.attempts.fault.is_some()
            && self.config.iterate.minimisation == Minimisation::Relaxed
    }

    /// Queries for the whole name, first the servers whose reply to a part of it was useless.
    pub(super) fn ask_whole(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        lookup.attempts.asked.iter_mut().for_each(Asked::begins_again);
        if let Some(walk) = lookup.state.walk_mut() {
            walk.whole = true;
        }
        self.ask_zone(id, now, actions);
    }

    /// Tries all alternatives of a lookup whose servers have no more tries or are useless. Returns whether
    /// there is one.
    pub(super) fn has_another_way(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) -> bool {
        let Some(lookup) = self.lookups.get(&id).filter(|lookup| lookup.state.walk().is_some()) else {
            return false;
        };
        if lookup.charge.overspent.is_some() {
            let newest = lookup.newest_wait();
            newest.into_iter().for_each(|other| self.rouse(other, now, actions));
            return newest.is_some();
        }
        if self.seek(id, now, actions) {
            return true;
        }
        let again = self.lookups.get(&id).is_none_or(|lookup| self.may_be_misunderstood(lookup));
        if again {
            self.ask_whole(id, now, actions);
            return true;
        }
        self.fall_back(id, now, actions)
    }
}

impl Next {
    fn verdict(&self) -> TraceVerdict {
        match self {
            Next::Down(..) | Next::Glue(_) => TraceVerdict::Referral,
            Next::Deeper(_) => TraceVerdict::Deeper,
            Next::Whole => TraceVerdict::Whole,
            Next::Answer(_) => TraceVerdict::Answer,
        }
    }
}
