//! Sends tries, and continues after failures.

use std::io;
use std::time::{Duration, Instant};

use transport::{Action, Link, Transport};
use wire::NameBuf;

use super::Resolver;
use super::state::{Carrier, LinkLoss, LinkUse, Lookup, LookupId, Steps, Timer, Try, TryId};
use crate::config::{BudgetLimits, Reach};
use crate::outcome::{LookupFailure, LookupOutcome};
use crate::query::{self, Opt};
use crate::random::Random;
use crate::request::LookupSink;
use crate::select;
use crate::server::{Ability, Server};
use crate::server_id::ServerId;
use crate::trace::{CookieSent, TraceEvent};

/// Failed links to a server in one lookup after which it counts as unreachable.
const MAX_REFUSALS: u32 = 2;

impl<O: LookupSink, R: Random> Resolver<O, R> {
    /// Queries the next server, if there is one and a try is left.
    pub(super) fn ask_next(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        let Some(lookup) = self.lookups.get(&id) else { return };
        if lookup.state.walk().is_some() && !has_fresh(lookup) {
            // Only servers with tries are left: others may have addresses, also from other lookups.
            if !self.add_addresses(id, now) {
                self.seek(id, now, actions);
            }
        }
        let Some(lookup) = self.lookups.get(&id) else { return };
        match select::next(&lookup.attempts.asked, &self.servers, &self.config, &mut self.random) {
            Some(place) => self.launch(id, place, Steps::default(), false, now, actions),
            None => self.give_up(id, now, actions),
        }
    }

    /// Sends a probe, a duplicate query, to a failing server that is due for one.
    pub(super) fn ask_failing(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        let Some(lookup) = self.lookups.get(&id) else { return };
        if let Some(place) = select::probe(&lookup.attempts.asked, &self.servers, now) {
            self.launch(id, place, Steps::default(), true, now, actions);
        }
    }

    /// Sends a query to the server at `place` in the lookup's list. If no try is left, or no connection is
    /// available, the lookup continues with its other tries.
    pub(super) fn launch(
        &mut self,
        id: LookupId,
        place: usize,
        steps: Steps,
        probe: bool,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        let (query_key, last) = (*lookup.question(), lookup.attempts.tries_left <= 1);
        let walk_recurses = lookup.state.walk().is_some_and(|walk| walk.recursion);
        let recursion_desired = walk_recurses || self.rules.recurse(lookup.rule);
        pay(lookup, &self.config.iterate.budget, now);
        let Some(asked) = lookup.attempts.asked.get_mut(place).filter(|_| lookup.attempts.tries_left > 0)
        else {
            return self.go_on(id, now, actions);
        };
        lookup.attempts.tries_left -= 1;
        asked.tries += 1;
        let (in_clear, silent) = (asked.server, asked.silent);
        let try_id = TryId(self.number());
        let may_encrypt = self.may_encrypt(id, probe);
        // The last try is left for a query in the clear.
        let carrier = self.carrier_for(try_id, in_clear, steps, may_encrypt && !last, now, actions);
        let Some((server, Carrier { link, query_id, measurable })) = carrier else {
            return self.go_on(id, now, actions);
        };
        let silent = if server == in_clear { silent } else { 0 };
        let stream = steps.stream || self.has_only_streams(server);
        let (name, mixed) = self.name_for(server, &query_key.name.into(), now);
        let opt = self.opt_for(server, steps, now);
        let message = query::build(query_id, name.as_name(), &query_key, recursion_desired, opt.as_ref());
        actions.push(Action::Send { link, message });
        let wait = match probe || last {
            true => self.config.timing.max_rto,
            false => self.reply_timeout(server, silent, measurable),
        };
        let mut of_transport = None;
        if let Some(server) = self.servers.get_mut(server) {
            server.on_asked(now, &self.config.timing);
            of_transport = server.in_clear;
        }
        self.count_sent(server, stream, probe);
        let one = Try {
            lookup: Some(id),
            place,
            server,
            link,
            stream,
            id: query_id,
            query_key,
            name,
            mixed,
            opt,
            steps,
            sent: now,
            measurable,
            timer: Some(now + wait),
            probe,
            check: false,
            in_clear: of_transport,
            errors: Vec::new(),
        };
        self.add_try(id, try_id, one, wait, now);
        if may_encrypt {
            self.probe_transports(id, server, &query_key, now, actions);
        }
    }

    /// Adds a try to its lookup.
    fn add_try(&mut self, id: LookupId, try_id: TryId, one: Try, wait: Duration, now: Instant) {
        self.set_timer(now + wait, Timer::Try(try_id));
        self.tries.insert(try_id, one);
        if let Some(lookup) = self.lookups.get_mut(&id) {
            lookup.attempts.tries.push(try_id);
        }
        self.note_asked(id, try_id, wait, now);
    }

    /// Returns the time until the next try, if the reply to one at this server does not come before.
    fn reply_timeout(&self, server: ServerId, silent: u32, measurable: bool) -> Duration {
        let timing = &self.config.timing;
        // Opening a connection takes a round trip, and encrypting it one or two more.
        let opening = |server: &Server| u32::from(!measurable) * if server.is_encrypted() { 2 } else { 1 };
        let rto = |server: &Server| server.rtt.timeout(silent + opening(server), timing);
        self.servers.get(server).map_or(timing.max_rto, rto)
    }

    fn note_asked(&self, id: LookupId, try_id: TryId, wait: Duration, now: Instant) {
        self.note_of(try_id, now, |server, transport, one| {
            let left = self.lookups.get(&id).map_or(0, |lookup| lookup.attempts.tries_left);
            let attempt = self.config.limits.tries.saturating_sub(left);
            let edns = one.opt.as_ref().map(|opt| match &opt.cookie {
                None => CookieSent::No,
                Some((_, server)) if server.is_empty() => CookieSent::Client,
                Some(_) => CookieSent::Both,
            });
            let (mixed_case, probe) = (one.mixed, one.probe);
            TraceEvent::Asked { server, transport, attempt, mixed_case, edns, probe, wait }
        });
    }

    pub(super) fn count_sent(&self, id: ServerId, stream: bool, probe: bool) {
        let Some(server) = self.servers.get(id) else { return };
        server.stats.queries(server.transport(stream)).add(1);
        if server.in_clear.is_some() {
            self.count_encrypted(id);
        }
        if probe {
            server.stats.probes.add(1);
        }
    }

    /// Whether queries to a server never go as datagrams.
    pub(super) fn has_only_streams(&self, server: ServerId) -> bool {
        self.servers.get(server).is_some_and(|server| server.upstream.reach.is_stream())
    }

    /// Returns the link for a query: a connection if `stream`, else a new one for a UDP exchange. `None` if
    /// all possible connections are full.
    pub(super) fn carrier_to(
        &mut self,
        server: ServerId,
        stream: bool,
        id: TryId,
        now: Instant,
        actions: &mut Vec<Action>,
    ) -> Option<Carrier> {
        match stream {
            true => self.stream_to(server, id, now, actions),
            false => self.datagram_to(server, id, actions),
        }
    }

    /// Opens a link for one UDP exchange.
    fn datagram_to(&mut self, server: ServerId, id: TryId, actions: &mut Vec<Action>) -> Option<Carrier> {
        let link = Link(self.number());
        // No query for an encrypted connection leaves in the clear, whatever went wrong before.
        let server = self.servers.get(server).filter(|server| !server.is_encrypted())?;
        let to = server.upstream.address;
        let from = self.config.source_for(to);
        actions.push(Action::Open { link, transport: Transport::Udp, to, from, encryption: None });
        self.links.insert(link, LinkUse::Datagram(id));
        Some(Carrier { link, query_id: self.random.next_u32() as u16, measurable: true })
    }

    /// Returns the name as sent to this server, and whether its letters are in random case.
    pub(super) fn name_for(&mut self, server: ServerId, name: &NameBuf, now: Instant) -> (NameBuf, bool) {
        let server = self.servers.get(server);
        match server.is_some_and(|server| server.can(Ability::LetterCase, &self.config, now)) {
            true => (query::mix_case(name.as_name(), &mut self.random), true),
            false => (*name, false),
        }
    }

    pub(super) fn opt_for(&self, server: ServerId, steps: Steps, now: Instant) -> Option<Opt> {
        let server = self.servers.get(server)?;
        let can = |ability| server.can(ability, &self.config, now);
        let cookie = || (server.client_cookie, server.server_cookie.clone().unwrap_or_default());
        (can(Ability::Edns) && !steps.plain).then(|| Opt {
            udp_size: self.config.udp_size,
            cookie: (can(Ability::Cookies) && !steps.bare).then(cookie),
            padded: server.is_encrypted(),
        })
    }

    /// Ends a try and repeats its query, changed, at the same server.
    pub(super) fn replace(&mut self, id: TryId, steps: Steps, now: Instant, actions: &mut Vec<Action>) {
        let Some(old) = self.forget(id, actions) else { return };
        if let Some(lookup) = old.lookup {
            self.launch(lookup, old.place, steps, old.probe, now, actions);
        }
    }

    /// Handles a try without a reply in time. A later reply is still accepted as long as the lookup lasts.
    pub(super) fn unanswered(&mut self, id: TryId, now: Instant, actions: &mut Vec<Action>) {
        let Some(one) = self.tries.get_mut(&id) else { return };
        one.timer = None;
        if one.in_clear.is_some() {
            return self.encrypted_unanswered(id, now, actions);
        }
        let (lookup, place, probe) = (one.lookup, one.place, one.probe);
        let (server, stream, link, sent) = (one.server, one.stream, one.link, one.sent);
        self.note_of(id, now, |server, transport, _| TraceEvent::Unanswered { server, transport });
        self.went_silent(server, stream, now);
        // Other tries without a lookup were counted before.
        if let Some(server) = self.servers.get(server).filter(|_| lookup.is_some() || probe) {
            server.stats.timeouts.add(1);
        }
        if stream {
            self.suspect(link, sent);
        }
        let Some(lookup_id) = lookup else {
            if let Some(one) = self.forget(id, actions) {
                self.check_ended(&one, false, now);
            }
            return;
        };
        if let Some(asked) = self.lookups.get_mut(&lookup_id).and_then(|l| l.attempts.asked.get_mut(place)) {
            asked.silent += 1;
        }
        let more = self.lookups.get(&lookup_id).is_some_and(|lookup| lookup.attempts.tries_left > 0);
        if more && self.is_set_aside(lookup_id) {
            return;
        }
        match more && !probe && !self.wants_whole(lookup_id) {
            true => self.ask_next(lookup_id, now, actions),
            false => self.go_on(lookup_id, now, actions),
        }
    }

    /// Handles the failure of a try's link.
    pub(super) fn broken(&mut self, id: TryId, loss: LinkLoss, now: Instant, actions: &mut Vec<Action>) {
        self.note_loss(id, loss, now);
        let Some(one) = self.forget(id, actions) else { return };
        if one.in_clear.is_some() {
            return self.encrypted_broken(&one, loss, now, actions);
        }
        self.check_ended(&one, loss.is_ours(), now);
        // Running out of links is not the server's fault.
        if !loss.is_ours() {
            self.went_silent(one.server, one.stream, now);
            if let Some(server) = self.servers.get(one.server) {
                server.stats.failures.add(1);
            }
        }
        let Some(lookup) = one.lookup else { return };
        let Some(state) = self.lookups.get_mut(&lookup) else { return };
        let mut other_server = false;
        if let LinkLoss::Encryption(fault) = loss {
            state.attempts.insecure = Some(fault);
            other_server = fault.is_lasting();
        }
        if let Some(asked) = state.attempts.asked.get_mut(one.place) {
            asked.silent += 1;
            asked.broken += 1;
            asked.refused += u32::from(loss.is_refusal());
            // A single refusal is not enough: the server may be starting, and an attacker that guesses a port
            // can forge one.
            asked.spent |= other_server || (!loss.is_ours() && asked.broken >= MAX_REFUSALS);
        }
        // For a connection the error may come from another router (ICMP), which must not decide which servers
        // are used.
        let is_ours = loss == LinkLoss::Io(io::ErrorKind::NetworkUnreachable) && !one.stream;
        if let Some(server) = self.servers.get(one.server).filter(|_| is_ours) {
            self.shut(lookup, server.upstream.address, now);
        }
        self.go_on(lookup, now, actions);
    }

    /// Adds the end of a try's link to the traces.
    pub(super) fn note_loss(&self, id: TryId, loss: LinkLoss, now: Instant) {
        self.note_of(id, now, |server, transport, _| match loss {
            LinkLoss::Io(error) => TraceEvent::Broke { server, transport, error },
            LinkLoss::Encryption(fault) => TraceEvent::Insecure { server, fault },
        });
    }

    /// Records a failure. UDP may work although TCP does not.
    fn went_silent(&mut self, server: ServerId, stream: bool, now: Instant) {
        let Some(server) = self.servers.get_mut(server) else { return };
        match stream && server.upstream.reach == Reach::UdpThenTcp {
            true => server.on_no_use(now),
            false => server.on_silence(now),
        }
    }

    /// Keeps an unanswered lookup going: queries a server without tries at once, or, if links to all servers
    /// have failed, all of them again after a pause.
    pub(super) fn go_on(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        if self.wants_whole(id) {
            return self.ask_whole(id, now, actions);
        }
        let Some(lookup) = self.lookups.get(&id) else { return };
        if lookup.attempts.asked.iter().all(|asked| asked.spent) {
            return self.give_up(id, now, actions);
        }
        let waits = self.waits(lookup);
        let fresh =
            lookup.attempts.asked.iter().any(|asked| asked.tries < lookup.attempts.round && !asked.spent);
        match lookup.attempts.tries_left {
            0 if !waits => self.give_up(id, now, actions),
            0 => {}
            _ if fresh => self.ask_next(id, now, actions),
            _ if !waits => {
                let at = now + self.pause(lookup);
                if let Some(lookup) = self.lookups.get_mut(&id) {
                    lookup.attempts.resume = Some(at);
                }
                self.set_timer(at, Timer::Resume(id));
            }
            _ => {}
        }
    }

    /// Whether a lookup has something to wait for: an address, a pending try, or its next one.
    pub(super) fn waits(&self, lookup: &Lookup<O::Waiter>) -> bool {
        lookup.seeks() || self.asks(lookup)
    }

    /// Whether a try is pending for a lookup, or the next one is scheduled.
    pub(super) fn asks(&self, lookup: &Lookup<O::Waiter>) -> bool {
        let pending = |id: &TryId| self.tries.get(id).is_some_and(|one| one.timer.is_some());
        lookup.attempts.resume.is_some() || lookup.attempts.tries.iter().any(pending)
    }

    /// Returns the pause before servers with failed links are queried again.
    fn pause(&self, lookup: &Lookup<O::Waiter>) -> Duration {
        let open = lookup.attempts.asked.iter().filter(|asked| !asked.spent);
        let timeouts = open.filter_map(|asked| {
            let server = self.servers.get(asked.server)?;
            Some(server.rtt.timeout(asked.silent, &self.config.timing))
        });
        timeouts.min().unwrap_or(self.config.timing.first_rto)
    }

    /// Continues a lookup after a pause.
    pub(super) fn resume(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        let aside = self.is_set_aside(id);
        if let Some(lookup) = self.lookups.get_mut(&id) {
            lookup.attempts.resume = None;
            if aside {
                return;
            }
            let open = lookup.attempts.asked.iter().filter(|asked| !asked.spent);
            lookup.attempts.round = open.map(|asked| asked.tries).min().unwrap_or_default() + 1;
            self.ask_next(id, now, actions);
        }
    }

    /// Handles a lookup that has no further tries.
    pub(super) fn give_up(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        if self.has_another_way(id, now, actions) {
            return;
        }
        let Some(lookup) = self.lookups.get(&id) else { return };
        let failure = match lookup.charge.overspent {
            _ if lookup.other_than.is_some() => LookupFailure::NoOtherServer,
            Some(overspent) => return self.spent(id, overspent, now, actions),
            None => lookup.failure(),
        };
        if let LookupFailure::Overspent(overspent) = failure {
            return self.spent(id, overspent, now, actions);
        }
        self.end(id, LookupOutcome::Failed(failure), now, actions);
    }

    /// Detaches a try from its ended lookup. It continues only if it may show that a failing server answers
    /// again.
    pub(super) fn leave(&mut self, id: TryId, now: Instant, actions: &mut Vec<Action>) {
        let max = self.config.timing.max_rto;
        let Some(one) = self.tries.get_mut(&id) else { return };
        let failing = self.servers.get(one.server).is_some_and(|server| server.is_failing());
        let until = one.sent + max;
        if one.stream || !failing || until <= now {
            self.forget(id, actions);
            return;
        }
        one.lookup = None;
        let before = one.timer.replace(until);
        self.drop_timer(before, Timer::Try(id));
        self.set_timer(until, Timer::Try(id));
    }

    /// Removes a try, and closes its link if it is not a connection. On a connection with a stream for each
    /// query, a query without a response is cancelled, and its ID free again.
    pub(super) fn forget(&mut self, id: TryId, actions: &mut Vec<Action>) -> Option<Try> {
        let one = self.tries.remove(&id)?;
        self.drop_timer(one.timer, Timer::Try(id));
        if one.is_transport_probe() {
            self.probe_ended(&one);
        }
        if let Some(lookup) = one.lookup.and_then(|lookup| self.lookups.get_mut(&lookup)) {
            lookup.attempts.tries.retain(|other| *other != id);
        }
        if !one.stream && self.links.remove(&one.link).is_some() {
            actions.push(Action::Close { link: one.link });
        }
        if let Some(LinkUse::Stream(connection)) = self.links.get_mut(&one.link)
            && connection.streamed
            && connection.pending.get(&one.id) == Some(&id)
        {
            connection.pending.remove(&one.id);
            actions.push(Action::Cancel { link: one.link, id: one.id });
        }
        Some(one)
    }
}

/// Whether there is a server that this lookup has not queried.
pub(super) fn has_fresh<W>(lookup: &Lookup<W>) -> bool {
    lookup.attempts.asked.iter().any(|asked| asked.tries == 0 && !asked.spent)
}

/// Charges a query to the lookup's budget. If a limit is reached, no try is left.
fn pay<W>(lookup: &mut Lookup<W>, limits: &BudgetLimits, now: Instant) {
    let (Some(budget), 1..) = (&lookup.charge.budget, lookup.attempts.tries_left) else { return };
    let zone = lookup.state.walk().map(|walk| walk.cut.zone.as_lower());
    if let Err(spent) = budget.take_query(zone, limits, now) {
        (lookup.attempts.tries_left, lookup.charge.overspent) = (0, Some(spent));
    }
}
