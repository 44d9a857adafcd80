//! Lookups that go step by step, from the servers of one zone to those of the next (RFC 1034 §5.3.3).
//!
//! Whatever a step is for, it is sent, repeated and judged as a forwarded question is. A copy of a zone on this machine (RFC 8806)
//! is asked in place of the zone's servers, and what it says judged in the same way; where it has nothing of use, they are asked. Aliases are not followed here: who
//! asked gets the beginning of the chain and asks for its target, through its own cache and rules and from the same
//! [`Budget`](crate::Budget).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use exchange::Action;
use wire::message::{Header, Parser};
use wire::{Class, LowerName, LowerNameBuf, Name, Rcode, Type};

use super::Forwarder;
use super::minimise::lifetime;
use super::state::{Lookup, LookupId, Timer, TryId, Wait, Walk};
use crate::config::{Minimisation, Upstream};
use crate::delegations::{Cut, CutServer};
use crate::inquiry::{AnsweredBy, Inquiry, LookupFailure, LookupOutcome, Outlet, ReportAgent};
use crate::random::Random;
use crate::rules::Way;
use crate::scrub::{Answer, Referral, ReferralProof, ReferralScope, ReplyFault, Scope};
use crate::scrub::{address, may_be_asked, priming, referral, referral_proof, scrub};
use crate::select::Asked;
use crate::trace::{TraceEvent, TraceVerdict};

/// So many times the first timeout of a server that was never measured an address may be in coming before another server's is
/// looked up beside it.
const SEEK_LONGER: u32 = 2;
/// Between two attempts to learn who a rule's servers are.
const PRIME_AGAIN: Duration = Duration::from_secs(60);
/// How long a family of addresses to which there is no way is left alone.
const NO_WAY: Duration = Duration::from_secs(10);
/// The most that a server's addresses, or that there are none, are believed.
const HOST_TTL: u32 = 86_400;
/// The same for none without a time of its own.
const NO_HOST: Duration = Duration::from_secs(60);

/// Most referrals of a lookup whose proofs are kept: as many as there are zones on any sensible way.
const PROOFS: usize = 16;

/// What a reply at one step leads to.
enum Next {
    /// The servers of a zone below are asked. The referral may say something of its DS.
    Down(Referral, Option<Box<ReferralProof>>),
    /// More of the name is asked. That no zone begins at what was asked holds for so long.
    Deeper(Option<Duration>),
    /// All of it is.
    Whole,
    /// It is the answer.
    Answer(Answer),
}

/// A response that is followed.
struct Said<'m> {
    message: &'m [u8],
    /// Who it is from.
    by: Option<AnsweredBy>,
    /// Whom that server wants to be told if it is bogus.
    agent: Option<Box<ReportAgent>>,
}

impl<O: Outlet, R: Random> Forwarder<O, R> {
    /// A lookup sets out from the closest cut that is known. DS stands above it (RFC 4035 §3.1.4.1).
    pub(super) fn set_out(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        let (inquiry, rule) = (lookup.inquiry, lookup.rule);
        lookup.asked.clear();
        let way = self.rules.get(rule).map(|rule| &rule.way);
        let Some(Way::Iterate { start, prime, .. }) = way else { return };
        let (start, prime) = (Arc::clone(start), *prime);
        let name = inquiry.name.as_lower();
        let from = if inquiry.qtype == Type::DS { name.parent().unwrap_or(name) } else { name };
        let known = self.delegations.closest(from, start.zone.as_lower(), now);
        let primes = prime && known.is_none();
        self.come_to(id, known.unwrap_or_else(|| Arc::clone(&start)), now, actions);
        if primes {
            self.prime(rule, start.zone.as_lower(), now, actions);
        }
    }

    /// Asks the servers of a rule who they are, unless that is under way or was in vain a short time ago.
    fn prime(&mut self, rule: usize, zone: LowerName<'_>, now: Instant, actions: &mut Vec<Action>) {
        let inquiry = plain(zone, Type::NS);
        let early = self.prime_again.get(&rule).is_some_and(|at| now < *at);
        if early || self.by_inquiry.contains_key(&inquiry) {
            return;
        }
        self.prime_again.insert(rule, now + PRIME_AGAIN);
        let lookup = Lookup { budget: Some(Default::default()), ..Lookup::new(inquiry, rule) };
        self.start(lookup, now, actions);
    }

    /// The servers of a zone are asked next.
    fn come_to(&mut self, id: LookupId, cut: Arc<Cut>, now: Instant, actions: &mut Vec<Action>) {
        let turn = self.random.below(cut.servers.len() as u32) as usize;
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        lookup.asked.clear();
        (lookup.fault, lookup.hindered, lookup.agent) = (None, None, None);
        let whole = lookup.walk.as_ref().is_some_and(|walk| walk.whole);
        self.leave_zone(id, now, actions);
        let dead = self.is_dead(&cut, now);
        let config = &self.config.iterate;
        let most = if dead { config.lookups_per_dead_zone } else { config.lookups_per_zone };
        if let Err(reason) = self.load.zone_came(cut.zone.as_lower(), most) {
            if let Some(count) = self.stats.shed(reason) {
                count.add(1);
            }
            return self.end(id, LookupOutcome::Failed(LookupFailure::Shed(reason)), now, actions);
        }
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        let shown = cut.zone.as_lower().label_count();
        let (question, waits, sought) = (lookup.inquiry, Vec::new(), Vec::new());
        let seek_at = None;
        lookup.walk = Some(Box::new(Walk { cut, question, shown, whole, waits, seek_at, sought, turn }));
        if !self.ask_copy(id, now, actions) {
            self.ask_zone(id, now, actions);
        }
    }

    /// Whether the addresses of a zone's servers are known, and none of them answers.
    fn is_dead(&mut self, cut: &Cut, now: Instant) -> bool {
        let mut known = Vec::new();
        self.addresses_of(cut, now, &mut known);
        let failing = |address: &SocketAddr| {
            let server = self.servers.id_of(&Upstream::new(*address));
            server.and_then(|id| self.servers.get(id)).is_some_and(|server| server.is_failing())
        };
        !known.is_empty() && known.iter().all(failing)
    }

    /// Asks the copy of the zone that a lookup has come to, if there is one: for the whole name, which nobody else sees, and at
    /// nobody's cost. Returns whether it had a response that leads on.
    fn ask_copy(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) -> bool {
        let wanted = |lookup: &&Lookup<O::Waiter>| lookup.other_than != Some(AnsweredBy::Copy);
        let Some(lookup) = self.lookups.get(&id).filter(wanted) else { return false };
        let (Some(walk), Some(rule)) = (&lookup.walk, self.rules.get(lookup.rule)) else { return false };
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

    /// A lookup is at no zone any more, and needs no addresses of its servers.
    pub(super) fn leave_zone(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        let walk = self.lookups.get_mut(&id).and_then(|lookup| lookup.walk.take());
        let Some(walk) = walk else { return };
        self.load.zone_went(walk.cut.zone.as_lower());
        self.drop_timer(walk.seek_at, Timer::Seek(id));
        for wait in walk.waits {
            self.depends_no_more(id, wait.on, now, actions);
        }
    }

    /// Asks the servers of the zone that a lookup has come to for as much of the name as they need.
    fn ask_zone(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        let uncut = self.uncut(id, now);
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        lookup.tries_left = self.config.limits.tries;
        lookup.round = 1;
        let resume = lookup.resume.take();
        let tries = std::mem::take(&mut lookup.tries);
        for asked in &mut lookup.asked {
            *asked = Asked { server: asked.server, spent: asked.spent, ..Asked::default() };
        }
        if let Some(walk) = &mut lookup.walk {
            let budget = lookup.budget.as_ref();
            let config = &self.config.iterate;
            let taken = || budget.and_then(|budget| budget.take_minimised(&config.budget));
            walk.show_more(&lookup.inquiry, config, uncut, taken);
        }
        self.drop_timer(resume, Timer::Resume(id));
        for id in tries {
            self.leave(id, now, actions);
        }
        self.add_addresses(id, now);
        self.note_zone(id, now);
        match self.lookups.get(&id).is_some_and(|lookup| !lookup.asked.is_empty()) {
            true => {
                self.ask_next(id, now, actions);
                self.ask_failing(id, now, actions);
            }
            false => self.give_up(id, now, actions),
        }
    }

    fn note_zone(&self, id: LookupId, now: Instant) {
        let Some(lookup) = self.lookups.get(&id) else { return };
        let Some(walk) = &lookup.walk else { return };
        self.note(id, now, || TraceEvent::Zone {
            zone: Box::new(walk.cut.zone.into()),
            addresses: lookup.asked.len(),
            name: Box::new(walk.question.name.into()),
            qtype: walk.question.qtype,
        });
    }

    /// The addresses of a zone's servers that are known and can be reached, each once; where there are none, those that could
    /// not be reached a moment ago: to one of them there may be a way all the same.
    fn addresses_of(&mut self, cut: &Cut, now: Instant, into: &mut Vec<SocketAddr>) {
        let iterate = &self.config.iterate;
        let (most, wanted) = (iterate.addresses, [iterate.ipv4, iterate.ipv6]);
        let open = [false, true].map(|v6| self.is_open(v6, now));
        for families in [open, wanted] {
            for server in &cut.servers {
                let mut own = self.own_addresses(server, now);
                own.retain(|address| families[usize::from(address.is_ipv6())]);
                own.dedup();
                own.truncate(most);
                own.retain(|address| !into.contains(address));
                into.extend(own);
            }
            if !into.is_empty() {
                break;
            }
        }
    }

    /// The addresses of one server that are known.
    fn own_addresses(&mut self, server: &CutServer, now: Instant) -> Vec<SocketAddr> {
        let mut own: Vec<SocketAddr> = server.glue.clone();
        for qtype in [Type::A, Type::AAAA] {
            let found = server.name().and_then(|name| self.delegations.host(name, qtype));
            let found = found.filter(|found| found.holds(now));
            own.extend(
                found.into_iter().flat_map(|found| &found.addresses).map(|&ip| SocketAddr::new(ip, 53)),
            );
        }
        own
    }

    /// Whether servers are asked by a family of addresses.
    fn is_open(&self, v6: bool, now: Instant) -> bool {
        let wanted = if v6 { self.config.iterate.ipv6 } else { self.config.iterate.ipv4 };
        let shut = self.no_way.get(usize::from(v6)).copied().flatten();
        // Where neither family leads anywhere both are tried.
        wanted && (shut.is_none_or(|until| until <= now) || self.no_way.iter().all(Option::is_some))
    }

    /// Has the addresses that are known by now asked, in any order. Whether there are new ones.
    pub(super) fn add_addresses(&mut self, id: LookupId, now: Instant) -> bool {
        let walk = self.lookups.get(&id).and_then(|lookup| lookup.walk.as_ref());
        let Some(cut) = walk.map(|walk| Arc::clone(&walk.cut)) else { return false };
        let mut addresses = Vec::new();
        self.addresses_of(&cut, now, &mut addresses);
        for last in (1..addresses.len()).rev() {
            addresses.swap(last, self.random.below(last as u32 + 1) as usize);
        }
        let most = self.config.iterate.known_servers;
        let unwanted = self.unwanted(id, &cut, now);
        let mut any = false;
        for address in addresses {
            let server = self.servers.find(Upstream::new(address), most, &mut self.random);
            let Some(lookup) = self.lookups.get_mut(&id) else { return any };
            if !lookup.asked.iter().any(|asked| asked.server == server) {
                lookup.asked.push(Asked { server, ..Asked::default() });
                any = true;
            }
        }
        if let Some(lookup) = self.lookups.get_mut(&id) {
            self.servers.set_aside(&mut lookup.asked, &unwanted);
        }
        any
    }

    /// The addresses of the server whose answer is not wanted. For a part of the name it may be asked.
    fn unwanted(&mut self, id: LookupId, cut: &Cut, now: Instant) -> Vec<SocketAddr> {
        let lookup = self.lookups.get(&id).filter(|lookup| *lookup.question() == lookup.inquiry);
        let Some(address) = lookup.and_then(|lookup| lookup.unwanted_server()) else { return Vec::new() };
        let mut all = vec![address];
        for server in &cut.servers {
            let own = self.own_addresses(server, now);
            if own.contains(&address) {
                all.extend(own);
            }
        }
        all
    }

    /// Takes the reply to a try of a lookup that goes step by step.
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
        let Some(walk) = &lookup.walk else { return };
        let next = match self.weigh(lookup, walk, one.name.as_name(), message, rcode) {
            Ok(next) => next,
            Err(fault) => return self.useless(id, rcode, fault, now, actions),
        };
        let (server, cut) = (one.server, Arc::clone(&walk.cut));
        self.note_reply(id, rcode, next.verdict(), now);
        self.forget(id, actions);
        if let Some(server) = self.servers.get_mut(server) {
            server.on_good_reply();
        }
        let by = self.servers.address(server).map(AnsweredBy::Server);
        let lookup = self.lookups.get_mut(&lookup_id).filter(|_| matches!(next, Next::Answer(_)));
        let agent = lookup.and_then(|lookup| lookup.agent_of(server));
        self.follow(lookup_id, &cut, Said { message, by, agent }, next, now, actions);
    }

    /// Goes where a response leads that those who serve `cut` have given, or the copy of that zone.
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
        let walk = self.lookups.get(&id).and_then(|lookup| lookup.walk.as_ref());
        let part = walk.map(|walk| walk.question.name);
        match next {
            Next::Down(referral, proof) => {
                if let Some(lookup) = self.lookups.get_mut(&id) {
                    lookup.referrals.extend(proof.map(|proof| *proof));
                }
                self.go_down(id, cut, &referral, now, actions);
            }
            Next::Deeper(ttl) => {
                self.learn_uncut(part.as_ref().map(|part| part.as_lower()), cut, || ttl, now);
                self.ask_zone(id, now, actions);
            }
            Next::Whole => self.ask_whole(id, now, actions),
            Next::Answer(answer) => {
                let lookup = self.lookups.get_mut(&id);
                let referrals = lookup.map(|lookup| std::mem::take(&mut lookup.referrals));
                let answer = Answer { by, agent, referrals: referrals.unwrap_or_default(), ..answer };
                self.learn_start(id, cut, message, &answer, now);
                let above = part.as_ref().and_then(|part| part.as_lower().parent());
                self.learn_uncut(above, cut, || lifetime(&answer), now);
                self.end(id, LookupOutcome::Answered(Arc::new(answer)), now, actions);
            }
        }
    }

    /// Decides what a reply leads to, to a question in which the name was `sent` so.
    fn weigh(
        &self,
        lookup: &Lookup<O::Waiter>,
        walk: &Walk,
        sent: Name<'_>,
        message: &[u8],
        rcode: Rcode,
    ) -> Result<Next, ReplyFault> {
        let question = &walk.question;
        let scope = Scope {
            domain: walk.cut.zone.as_name(),
            sent,
            records_per_set: self.config.limits.records_per_set,
            max_ttl: self.config.max_ttl,
            max_negative_ttl: self.config.max_negative_ttl,
        };
        if rcode == Rcode::NOERROR
            && let Some(referral) = referral(message, &self.referral_scope(&walk.cut, question))?
        {
            // Who serves the zone above answers for DS itself.
            if question.qtype == Type::DS && referral.zone == question.name {
                return Err(ReplyFault::Lame);
            }
            // Whoever has set both bits validates what comes.
            let validates = question.dnssec_ok && question.checking_disabled;
            let proof = (validates && lookup.referrals.len() < PROOFS)
                .then(|| referral_proof(message, &referral.zone, question, &scope));
            return Ok(Next::Down(referral, proof.flatten().map(Box::new)));
        }
        let lame = |fault| if fault == ReplyFault::Referral { ReplyFault::Lame } else { fault };
        let part = *question != lookup.inquiry;
        let answer = match scrub(message, question, rcode, &scope) {
            Ok(answer) => answer,
            // Where an alias in between leads is another matter.
            Err(ReplyFault::Chain) if part => return Ok(Next::Deeper(None)),
            Err(fault) => return Err(lame(fault)),
        };
        let positive = Header::of(&answer.message).is_some_and(|header| header.counts()[1] > 0);
        let recursive = Header::of(message).is_some_and(|header| header.recursion_available());
        if !answer.authoritative && (recursive || !positive && answer.negative_ttl.is_none()) {
            return Err(ReplyFault::Lame);
        }
        if !part {
            return Ok(Next::Answer(answer));
        }
        match (rcode, self.config.iterate.minimisation) {
            (Rcode::NOERROR, _) => Ok(Next::Deeper(lifetime(&answer))),
            // What an alias in between leads to may not be there.
            (Rcode::NXDOMAIN, _) if positive => Ok(Next::Deeper(lifetime(&answer))),
            (Rcode::NXDOMAIN, Minimisation::Strict) => {
                scrub(message, &lookup.inquiry, rcode, &scope).map(Next::Answer)
            }
            _ => Ok(Next::Whole),
        }
    }

    fn referral_scope<'a>(&self, cut: &'a Cut, question: &'a Inquiry) -> ReferralScope<'a> {
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

    /// Goes on to the servers of a zone below, as those of `above` have said.
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
        // What begins a rule is not delegated to it.
        let is_start = rule.is_some_and(|rule| rule.domain.as_name() == above.zone.as_name());
        let end = above.expires.filter(|_| !is_start);
        let cut = Arc::new(Cut::of(referral, end, now));
        if cut.expires.is_some_and(|end| now < end) {
            self.delegations.keep(&cut, self.config.iterate.delegation_bytes);
            self.stats.delegation_bytes.set(self.delegations.bytes() as u64);
        }
        self.come_to(id, cut, now, actions);
    }

    /// The answer to who serves the zone that a rule begins with is believed as long as it says, if that is wanted.
    fn learn_start(&mut self, id: LookupId, cut: &Cut, message: &[u8], answer: &Answer, now: Instant) {
        let Some(lookup) = self.lookups.get(&id) else { return };
        let rule = self.rules.get(lookup.rule).map(|rule| &rule.way);
        let Some(Way::Iterate { start, prime: true, .. }) = rule else { return };
        let inquiry = &lookup.inquiry;
        let asks_for_it = inquiry.qtype == Type::NS && inquiry.name == start.zone && cut.zone == start.zone;
        if !asks_for_it || !answer.authoritative {
            return;
        }
        if let Ok(Some(servers)) = priming(message, &self.referral_scope(cut, inquiry))
            && servers.servers.iter().any(|(_, addresses)| !addresses.is_empty())
        {
            let cut = Arc::new(Cut::of(&servers, None, now));
            self.delegations.keep(&cut, self.config.iterate.delegation_bytes);
        }
    }

    /// Asks for the whole name, also those whose reply to a part of it was of no use.
    fn ask_whole(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        lookup.asked.iter_mut().for_each(|asked| asked.spent = false);
        if let Some(walk) = &mut lookup.walk {
            walk.whole = true;
        }
        self.ask_zone(id, now, actions);
    }

    /// What may still be done for a lookup whose servers have no more tries, or are of no use: whether anything is.
    pub(super) fn has_another_way(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) -> bool {
        let Some(lookup) = self.lookups.get(&id).filter(|lookup| lookup.walk.is_some()) else { return false };
        if lookup.overspent.is_some() {
            let newest = lookup.newest_wait();
            newest.into_iter().for_each(|other| self.rouse(other, now, actions));
            return newest.is_some();
        }
        if self.seek(id, now, actions) {
            return true;
        }
        let Some(lookup) = self.lookups.get(&id) else { return true };
        let part = *lookup.question() != lookup.inquiry;
        // Some servers have no use for a name in between (RFC 9156 §2.3). Those that are silent would be so again.
        let again =
            part && lookup.fault.is_some() && self.config.iterate.minimisation == Minimisation::Relaxed;
        if again {
            self.ask_whole(id, now, actions);
        }
        again
    }

    /// Looks the address of one more server up, unless that is under way. Whether there is something to wait for.
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

    /// Looks the address of one more server up, beside those that are waited for or if there are none. Whether there is something more
    /// to wait for.
    fn seek_one(&mut self, id: LookupId, beside: bool, now: Instant, actions: &mut Vec<Action>) -> bool {
        let before = self.lookups.get(&id).map_or(0, |lookup| lookup.waits().len());
        loop {
            if self.lookups.get(&id).is_none_or(|lookup| lookup.waits().len() > before) {
                return true;
            }
            let Some(inquiry) = self.next_sought(id, beside, now) else { return false };
            let Some(lookup) = self.lookups.get_mut(&id) else { return true };
            let Some(budget) = lookup.budget.clone() else { return false };
            let limits = &self.config.iterate;
            let allowed = match lookup.depth < limits.depth {
                true => budget.may_seek(&limits.budget),
                false => Err(crate::budget::Overspent::Depth),
            };
            if beside && (allowed.is_err() || !budget.may_seek_beside(&limits.budget)) {
                return false;
            }
            if let Err(spent) = allowed {
                // Where there are servers to ask, that was not what it failed of.
                lookup.overspent = lookup.overspent.or(Some(spent).filter(|_| lookup.asked.is_empty()));
                return false;
            }
            let (name, qtype) = (Box::new(inquiry.name.into()), inquiry.qtype);
            self.note(id, now, || TraceEvent::Sought { name, qtype });
            if !self.depend(id, inquiry, now, actions) {
                budget.was_fruitless();
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

    /// Nobody is asked at the moment for the address that a lookup waits for. So another is looked up or, if there is none, those
    /// servers are asked again.
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

    /// Whether a lookup finds the address of a server, and whoever waits for that has begun to look for another since. It then
    /// takes what comes, but asks nobody again: no more is asked at a time than if one address were looked up after the other.
    pub(super) fn is_set_aside(&self, id: LookupId) -> bool {
        let Some(lookup) = self.lookups.get(&id) else { return false };
        let wants = |other: &LookupId| {
            let newest = self.lookups.get(other).and_then(|lookup| lookup.newest_wait());
            newest == Some(id) && !self.is_set_aside(*other)
        };
        lookup.clients.is_empty() && !lookup.dependents.is_empty() && !lookup.dependents.iter().any(wants)
    }

    /// The next server whose address may be looked up, by the family that is to be. Those with glue come last, since that
    /// may be out of date; those below the zone never, since only its servers know them. Beside others, one is preferred of which
    /// nothing was looked up so far, and left out whose name is in a zone where nobody answers: that is no other way.
    fn next_sought(&mut self, id: LookupId, beside: bool, now: Instant) -> Option<Inquiry> {
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

    /// Has one lookup depend on another, which may have to be started; whether that could be done.
    fn depend(&mut self, id: LookupId, inquiry: Inquiry, now: Instant, actions: &mut Vec<Action>) -> bool {
        let known = self.by_inquiry.get(&inquiry).copied();
        if let Some(other) = known {
            if self.is_waited_for(id, other) {
                return false;
            }
            if let Some(other) = self.lookups.get_mut(&other) {
                other.dependents.push(id);
            }
            let waits = self.wait_for(id, other, now);
            self.rouse(other, now, actions);
            return waits;
        }
        let Some(rule) = self.rules.covering(&inquiry) else { return false };
        let Some(lookup) = self.lookups.get(&id) else { return false };
        if let Err(reason) = self.load.may_start(&self.config.limits, rule) {
            if let Some(lookup) = self.lookups.get_mut(&id) {
                lookup.hindered = lookup.hindered.or(Some(LookupFailure::Shed(reason)));
            }
            return false;
        }
        let (budget, depth, dependents) = (lookup.budget.clone(), lookup.depth + 1, vec![id]);
        self.stats.address_lookups.add(1);
        // It gets the next number.
        let other = LookupId(self.last + 1);
        self.wait_for(id, other, now);
        self.start(Lookup { budget, depth, dependents, ..Lookup::new(inquiry, rule) }, now, actions);
        true
    }

    fn wait_for(&mut self, id: LookupId, other: LookupId, now: Instant) -> bool {
        let Some(lookup) = self.lookups.get_mut(&id) else { return false };
        let (Some(walk), Some(budget)) = (&mut lookup.walk, &lookup.budget) else { return false };
        walk.waits.push(Wait { on: other, _seeking: budget.seeks() });
        let at = now + self.config.timing.first_rto * SEEK_LONGER;
        let before = walk.seek_at.replace(at);
        self.drop_timer(before, Timer::Seek(id));
        self.set_timer(at, Timer::Seek(id));
        true
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

    /// A lookup needs another no more, which ends if nobody does.
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
        }
    }

    /// A lookup that others depend on has ended: what it found is kept, and they go on.
    pub(super) fn found(
        &mut self,
        lookup: &Lookup<O::Waiter>,
        id: LookupId,
        outcome: &LookupOutcome,
        now: Instant,
    ) {
        let (name, qtype) = (lookup.inquiry.name, lookup.inquiry.qtype);
        let loopback = self.config.iterate.loopback;
        let (mut addresses, ttl) = match outcome {
            LookupOutcome::Answered(answer) => addresses_in(answer, qtype),
            LookupOutcome::Failed(_) => (Vec::new(), None),
        };
        // What failed of limits says nothing about the server: others may find it.
        let says_something = match outcome {
            LookupOutcome::Answered(_) => true,
            LookupOutcome::Failed(failure) => {
                use LookupFailure::{BadReply, Network, NoReply, NoServers};
                matches!(failure, BadReply(_) | Network | NoReply | NoServers)
            }
        };
        addresses.retain(|address| may_be_asked(*address, loopback));
        let denied = matches!(outcome, LookupOutcome::Answered(answer)
            if answer.rcode == Rcode::NXDOMAIN && addresses.is_empty());
        let fruitless = addresses.is_empty();
        let most = self.config.iterate.delegation_bytes;
        for family in [Type::A, Type::AAAA] {
            // What is not there has neither.
            if says_something && (family == qtype || denied) {
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

    /// A lookup waits no longer for another that it depended on, and that may have found nothing: of a `limit`, if there is one.
    pub(super) fn goes_on_without(
        &mut self,
        dependent: LookupId,
        id: LookupId,
        fruitless: bool,
        limit: Option<LookupFailure>,
    ) {
        let Some(lookup) = self.lookups.get_mut(&dependent) else { return };
        if let Some(budget) = lookup.budget.as_ref().filter(|_| fruitless) {
            budget.was_fruitless();
        }
        lookup.hindered = lookup.hindered.or(limit);
        let over = lookup.walk.as_mut().and_then(|walk| {
            walk.waits.retain(|wait| wait.on != id);
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

    /// There is no way to an address, and most likely to none of its family: a lookup that goes step by step asks those of the
    /// other one, if it has any.
    pub(super) fn shut(&mut self, id: LookupId, address: SocketAddr, now: Instant) {
        let v6 = address.is_ipv6();
        if let Some(shut) = self.no_way.get_mut(usize::from(v6)) {
            *shut = now.checked_add(NO_WAY);
        }
        let Some(lookup) = self.lookups.get_mut(&id).filter(|lookup| lookup.walk.is_some()) else { return };
        let address_of = |asked: &Asked| self.servers.get(asked.server).map(|server| server.upstream.address);
        let of_family = |asked: &Asked| address_of(asked).is_some_and(|address| address.is_ipv6() == v6);
        let others = lookup.asked.iter().any(|asked| !asked.spent && !of_family(asked));
        for asked in &mut lookup.asked {
            asked.spent |= if others { of_family(asked) } else { address_of(asked) == Some(address) };
        }
    }
}

impl Next {
    fn verdict(&self) -> TraceVerdict {
        match self {
            Next::Down(..) => TraceVerdict::Referral,
            Next::Deeper(_) => TraceVerdict::Deeper,
            Next::Whole => TraceVerdict::Whole,
            Next::Answer(_) => TraceVerdict::Answer,
        }
    }
}

/// A question of our own.
fn plain(name: LowerName<'_>, qtype: Type) -> Inquiry {
    let (dnssec_ok, checking_disabled) = (false, false);
    Inquiry { name: name.to_buf(), qtype, qclass: Class::IN, dnssec_ok, checking_disabled }
}

/// The addresses in the answer to a question for them, and how long that holds. A server's name is no alias (RFC 2181
/// §10.3).
fn addresses_in(answer: &Answer, qtype: Type) -> (Vec<IpAddr>, Option<Duration>) {
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
