//! Evaluates replies.

use std::sync::Arc;
use std::time::Instant;

use transport::{Action, Link};
use wire::{Header, LowerName, LowerNameBuf, Rcode};

use super::Resolver;
use super::state::{LinkUse, Try, TryId};
use crate::extended;
use crate::outcome::LookupOutcome;
use crate::query::{self, Reply, ReplyMismatch, Sent};
use crate::query_key::{AnsweredBy, ReportAgent};
use crate::random::Random;
use crate::request::LookupSink;
use crate::rules::{Rule, Way};
use crate::scrub::{Border, ReplyFault, Scope, ScrubbedAnswer, scrub};
use crate::server::Ability;
use crate::server_id::ServerId;
use crate::trace::{TraceEvent, TraceVerdict, TryChange};

/// The consequence of a reply that matches its query.
enum Verdict {
    /// The query is repeated with a change.
    Again(TryChange),
    /// It has records to scrub.
    Records,
    /// It is useless.
    Useless(ReplyFault),
}

impl<O: LookupSink, R: Random> Resolver<O, R> {
    /// Handles a message on a link.
    pub(super) fn message(&mut self, link: Link, message: &[u8], now: Instant, actions: &mut Vec<Action>) {
        let id = match self.links.get_mut(&link) {
            None => return,
            Some(LinkUse::Datagram(id)) => Some(*id),
            Some(LinkUse::Key(_)) => return self.close_key_link(link, None, actions),
            Some(LinkUse::Stream(connection)) => {
                connection.heard = Some(now);
                let header = Header::of(message);
                let id = header.and_then(|header| connection.pending.get(&header.id()));
                if id.is_none() {
                    self.stats.suspects.id.add(1);
                }
                id.copied()
            }
        };
        if self.encrypts_opportunistically() {
            self.transport_spoke(link, now);
        }
        let Some(id) = id else { return };
        self.touch(link, now);
        let Some(one) = self.tries.get(&id) else {
            // Its lookup has ended.
            return self.free(link, message);
        };
        let cookie = one.opt.as_ref().and_then(|opt| opt.cookie.as_ref()).map(|(ours, _)| *ours);
        let sent = Sent { id: one.id, name: one.name.as_name(), query_key: &one.query_key, cookie };
        let read = query::read(message, &sent);
        let (stream, steps, check) = (one.stream, one.steps, one.check);
        let mismatch = match &read {
            Ok(reply) => self.distrusted(one, reply, cookie.is_some()),
            Err(mismatch) => Some(*mismatch),
        };
        match (read, mismatch) {
            (Ok(reply), None) => {
                self.free(link, message);
                self.judge(id, message, reply, now, actions);
            }
            (read, Some(mismatch)) => {
                self.count(mismatch);
                // An attacker may be guessing, or the server may be broken; on a connection no attacker can
                // guess.
                self.note_of(id, now, |server, transport, _| TraceEvent::Suspected {
                    server,
                    transport,
                    mismatch,
                });
                if !stream && !check && (read.is_ok() || mismatch == ReplyMismatch::Id) {
                    self.replace(id, steps.and(TryChange::OverTcp), now, actions);
                }
            }
            (Err(_), None) => {}
        }
    }

    /// Returns why a matching datagram may be forged: it does not repeat what this server is able to repeat.
    fn distrusted(&self, one: &Try, reply: &Reply, cookie: bool) -> Option<ReplyMismatch> {
        let server = self.servers.get(one.server)?;
        if one.stream {
            None
        } else if one.mixed && !reply.same_case {
            Some(ReplyMismatch::Case)
        } else if cookie && server.server_cookie.is_some() && reply.cookie.is_none() && !reply.truncated {
            Some(ReplyMismatch::Cookie)
        } else {
            None
        }
    }

    fn count(&self, mismatch: ReplyMismatch) {
        let suspects = &self.stats.suspects;
        match mismatch {
            ReplyMismatch::Unreadable => suspects.unreadable.add(1),
            ReplyMismatch::Id => suspects.id.add(1),
            ReplyMismatch::Question => suspects.question.add(1),
            ReplyMismatch::Case => suspects.case.add(1),
            ReplyMismatch::Cookie => suspects.cookie.add(1),
        }
    }

    /// Frees the ID of a reply on its connection.
    fn free(&mut self, link: Link, message: &[u8]) {
        let header = Header::of(message);
        if let (Some(LinkUse::Stream(connection)), Some(header)) = (self.links.get_mut(&link), header) {
            connection.pending.remove(&header.id());
        }
    }

    /// Handles a matching reply.
    fn judge(
        &mut self,
        id: TryId,
        message: &[u8],
        mut reply: Reply,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let Some(one) = self.tries.get(&id) else { return };
        let (server, after) = (one.server, now.saturating_duration_since(one.sent));
        let (encrypted, is_transport_probe) = (one.in_clear.is_some(), one.is_transport_probe());
        let after = one.measurable.then_some(after);
        self.learn(id, server, &reply, now);
        if let Some(server) = self.servers.get_mut(server) {
            server.on_reply(after);
        }
        if is_transport_probe {
            return self.probe_replied(id, &reply, now, actions);
        }
        if encrypted {
            self.encrypted_replied(id);
        }
        if self.tries.get(&id).is_some_and(|one| one.check) {
            if let Some(one) = self.forget(id, actions) {
                self.check_ended(&one, true, now);
            }
            return;
        }
        if self.is_too_much(id, message, now, actions) {
            return;
        }
        if self.traced > 0
            && let Some(one) = self.tries.get_mut(&id)
        {
            one.errors = extended::read(message);
        }
        if let Some(domain) = reply.agent.take() {
            self.hear_of_agent(id, *domain);
        }
        if reply.recursive {
            self.offers_recursion(id);
        }
        let verdict = self.verdict(id, &reply);
        match verdict {
            Some(Verdict::Again(change)) => {
                self.note_reply(id, reply.rcode, TraceVerdict::Again(change), now);
                if let Some(steps) = self.tries.get(&id).map(|one| one.steps) {
                    self.replace(id, steps.and(change), now, actions);
                }
            }
            Some(Verdict::Records) => self.take_records(id, message, reply.rcode, now, actions),
            Some(Verdict::Useless(fault)) => self.useless(id, reply.rcode, fault, now, actions),
            None => {}
        }
    }

    /// Records that a server offers recursion and its reply is not authoritative.
    fn offers_recursion(&mut self, id: TryId) {
        let Some(one) = self.tries.get(&id) else { return };
        let lookup = one.lookup.and_then(|id| self.lookups.get_mut(&id));
        if let Some(asked) = lookup.and_then(|lookup| lookup.attempts.asked.get_mut(one.place)) {
            asked.recursive = true;
        }
    }

    /// Records a server's agent for reports of its zone (RFC 9567 §6.1). The option is hop by hop: recursive
    /// servers name no agents for other zones.
    fn hear_of_agent(&mut self, id: TryId, domain: LowerNameBuf) {
        let Some(one) = self.tries.get(&id) else { return };
        let Some(lookup) = one.lookup.and_then(|id| self.lookups.get_mut(&id)) else { return };
        let zone = match (lookup.state.walk(), self.rules.get(lookup.rule)) {
            (Some(walk), _) => walk.cut.zone,
            (None, Some(Rule { domain, way: Way::Forward { recursion_desired: false, .. } })) => {
                domain.as_name().to_lower()
            }
            _ => return,
        };
        lookup.attempts.agent = Some((one.server, Box::new(ReportAgent { domain, zone })));
    }

    /// Charges a reply to the budget of its lookup, which ends if a limit is reached.
    fn is_too_much(&mut self, id: TryId, message: &[u8], now: Instant, actions: &mut Vec<Action>) -> bool {
        let lookup = self.tries.get(&id).and_then(|one| one.lookup);
        let budget = lookup.and_then(|id| self.lookups.get(&id)?.charge.budget.as_ref());
        let limits = &self.config.iterate.budget;
        let Some(Err(spent)) = budget.map(|budget| budget.take_reply(message.len(), limits)) else {
            return false;
        };
        self.forget(id, actions);
        if let Some(lookup) = lookup {
            self.spent(lookup, spent, now, actions);
        }
        true
    }

    pub(super) fn note_reply(&self, id: TryId, rcode: Rcode, verdict: TraceVerdict, now: Instant) {
        self.note_of(id, now, |server, transport, one| {
            let after = now.saturating_duration_since(one.sent);
            let errors = one.errors.clone();
            TraceEvent::Replied { server, transport, after, rcode, errors, verdict }
        });
    }

    /// Records what a reply shows about its server.
    fn learn(&mut self, id: TryId, server: ServerId, reply: &Reply, now: Instant) {
        let timing = &self.config.timing;
        let (Some(one), Some(server)) = (self.tries.get(&id), self.servers.get_mut(server)) else { return };
        let cookie_sent = one.opt.as_ref().is_some_and(|opt| opt.cookie.is_some());
        match &reply.cookie {
            Some(cookie) => server.server_cookie = Some(cookie.clone()),
            // It has stopped sending cookies: on a connection the reply cannot be forged.
            None if one.stream && cookie_sent && !reply.truncated => server.server_cookie = None,
            None => {}
        }
        if one.stream && one.mixed && !reply.same_case {
            server.cannot(Ability::LetterCase, now, timing);
        }
        if matches!(reply.rcode, Rcode::FORMERR | Rcode::NOTIMP | Rcode::BADVERS) {
            return;
        }
        // The error was due to what was left out this time.
        if one.steps.plain {
            server.cannot(Ability::Edns, now, timing);
        } else if one.steps.bare {
            server.cannot(Ability::Cookies, now, timing);
        }
    }

    fn verdict(&self, id: TryId, reply: &Reply) -> Option<Verdict> {
        let one = self.tries.get(&id)?;
        let steps = one.steps;
        if reply.several_opts {
            return Some(Verdict::Useless(ReplyFault::Malformed));
        }
        let cookie_sent = one.opt.as_ref().is_some_and(|opt| opt.cookie.is_some());
        if reply.rcode == Rcode::BADCOOKIE && cookie_sent {
            if !steps.cookie_again && reply.cookie.is_some() {
                return Some(Verdict::Again(TryChange::NewCookie));
            }
            if !one.stream {
                return Some(Verdict::Again(TryChange::OverTcp));
            }
        }
        if reply.truncated {
            return Some(match one.stream {
                true => Verdict::Useless(ReplyFault::Truncated),
                false => Verdict::Again(TryChange::OverTcp),
            });
        }
        Some(match reply.rcode {
            Rcode::NOERROR | Rcode::NXDOMAIN | Rcode::YXDOMAIN => Verdict::Records,
            // RFC 6891 §7: a reply without OPT means no EDNS. With OPT, the cookie may be the problem.
            Rcode::FORMERR if reply.edns && cookie_sent && !steps.bare => {
                Verdict::Again(TryChange::WithoutCookie)
            }
            Rcode::FORMERR | Rcode::NOTIMP if one.opt.is_some() && !reply.edns && !steps.plain => {
                Verdict::Again(TryChange::WithoutEdns)
            }
            Rcode::BADVERS if one.opt.is_some() && !steps.plain => Verdict::Again(TryChange::WithoutEdns),
            rcode => Verdict::Useless(ReplyFault::Rcode(rcode)),
        })
    }

    /// Ends the lookup of a try with the records of its reply.
    fn take_records(
        &mut self,
        id: TryId,
        message: &[u8],
        rcode: Rcode,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let Some(one) = self.tries.get(&id) else { return };
        let (server, lookup) = (one.server, one.lookup);
        if lookup.is_some_and(|id| self.lookups.get(&id).is_some_and(|lookup| lookup.state.walk().is_some()))
        {
            return self.take_step(id, message, rcode, now, actions);
        }
        let rule = lookup.and_then(|id| self.lookups.get(&id)).map(|lookup| lookup.rule);
        if let (Some(lookup), Some(rule)) = (lookup, rule.and_then(|rule| self.rules.get(rule))) {
            let cut = |target: LowerName<'_>| self.rules.cut(&one.query_key, target);
            let scope = Scope {
                domain: rule.domain.as_name(),
                sent: one.name.as_name(),
                records_per_set: self.config.limits.records_per_set,
                max_ttl: self.config.max_ttl,
                max_negative_ttl: self.config.max_negative_ttl,
                border: self.rules.has_partitions().then(|| Border::new(&cut)),
            };
            match scrub(message, &one.query_key, rcode, &scope) {
                Ok(answer) => {
                    let agent = self.lookups.get_mut(&lookup).and_then(|lookup| lookup.agent_of(server));
                    let by = self.servers.address(server).map(AnsweredBy::Server);
                    let answer = ScrubbedAnswer { by, agent, ..answer };
                    self.note_reply(id, rcode, TraceVerdict::Answer, now);
                    self.forget(id, actions);
                    self.end(lookup, LookupOutcome::Answered(Arc::new(answer)), now, actions);
                }
                Err(fault) => return self.useless(id, rcode, fault, now, actions),
            }
        }
        self.forget(id, actions);
        if let Some(server) = self.servers.get_mut(server) {
            server.on_good_reply();
        }
    }

    /// Handles a useless reply: its server is not queried again in this lookup, the next one is.
    pub(super) fn useless(
        &mut self,
        id: TryId,
        rcode: Rcode,
        fault: ReplyFault,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        self.note_reply(id, rcode, TraceVerdict::Useless(fault), now);
        let Some(one) = self.forget(id, actions) else { return };
        if let Some(server) = self.servers.get_mut(one.server) {
            server.on_bad_reply(now);
        }
        let Some(lookup_id) = one.lookup else { return };
        let Some(lookup) = self.lookups.get_mut(&lookup_id) else { return };
        if one.in_clear.is_some() {
            return self.encrypted_useless(&one, now, actions);
        }
        lookup.attempts.fault = Some(fault);
        if let Some(asked) = lookup.attempts.asked.get_mut(one.place) {
            asked.spent = true;
        }
        self.go_on(lookup_id, now, actions);
    }
}
