//! Rules whose servers are all down: their lookups fail at once.
//!
//! When a lookup by a forwarding rule fails because no server replied, each server gets a health check: a
//! query of our own for the NS records of the rule's domain, which a server answers even if it is slow to
//! resolve some name. Servers that do not reply are dead for half a minute. As long as all servers of a rule
//! are dead, one lookup in each probe interval sends its query and waits [`DEAD_WAIT`]; all others fail
//! without a query.

use std::time::{Duration, Instant};

use transport::Action;

use super::Resolver;
use super::seek::plain;
use super::state::{Carrier, LookupId, State, Steps, Timer, Try, TryId};
use crate::outcome::{LookupFailure, LookupOutcome, NetworkFault};
use crate::query;
use crate::random::Random;
use crate::request::LookupSink;
use crate::rules::Way;
use crate::server_id::ServerId;
use crate::trace::TraceEvent;

/// Longest wait of a lookup for a reply if all servers are dead.
const DEAD_WAIT: Duration = Duration::from_millis(50);

impl<O: LookupSink, R: Random> Resolver<O, R> {
    /// Shortens a lookup whose rule has only dead servers, or ends it. Returns whether it has ended.
    pub(super) fn ends_at_dead_servers(
        &mut self,
        id: LookupId,
        now: Instant,
        actions: &mut Vec<Action>,
    ) -> bool {
        let Some(lookup) = self.lookups.get(&id) else { return true };
        let servers = lookup.attempts.asked.iter().map(|asked| self.servers.get(asked.server));
        if lookup.attempts.asked.is_empty()
            || !servers.clone().all(|server| server.is_some_and(|one| one.is_dead(now)))
        {
            return false;
        }
        let is_due = servers.flatten().any(|server| server.wants_probe(now));
        self.stats.dead.add(1);
        self.note(id, now, || TraceEvent::Dead);
        if !is_due {
            self.end(id, LookupOutcome::Failed(self.death(id)), now, actions);
            return true;
        }
        let at = now + DEAD_WAIT;
        if let Some(lookup) = self.lookups.get_mut(&id) {
            lookup.state = State::Forwarding { hopeless_at: Some(at) };
        }
        self.set_timer(at, Timer::Hopeless(id));
        false
    }

    /// Ends a lookup that got no reply from dead servers in time.
    pub(super) fn hopeless(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        if self.lookups.get_mut(&id).and_then(|lookup| lookup.state.take_hopeless()).is_some() {
            self.end(id, LookupOutcome::Failed(self.death(id)), now, actions);
        }
    }

    /// Returns the failure of a lookup with dead servers only.
    fn death(&self, id: LookupId) -> LookupFailure {
        let asked = self.lookups.get(&id).map(|lookup| lookup.attempts.asked.as_slice()).unwrap_or_default();
        let insecure = asked.iter().find_map(|asked| self.servers.get(asked.server)?.insecure);
        let failure = |fault| LookupFailure::Network(NetworkFault::Encryption(fault));
        insecure.map_or(LookupFailure::NoReply, failure)
    }

    /// Sends a health check to each server of a rule, if all of them are failing: the result is then known to
    /// later lookups.
    pub(super) fn check_servers(&mut self, rule: usize, now: Instant, actions: &mut Vec<Action>) {
        let Some(Way::Forward { servers, .. }) = self.rules.get(rule).map(|rule| &rule.way) else { return };
        let servers = servers.clone();
        let is_failing = |id: &ServerId| self.servers.get(*id).is_some_and(|server| server.is_failing());
        if !servers.iter().all(is_failing) {
            return;
        }
        for server in servers {
            let is_due = |one: &crate::server::Server| one.wants_check(now, &self.config.timing);
            if self.servers.get(server).is_some_and(is_due) {
                self.check_server(rule, server, now, actions);
            }
        }
    }

    fn check_server(&mut self, rule: usize, server: ServerId, now: Instant, actions: &mut Vec<Action>) {
        let recursion_desired = self.rules.recurse(rule);
        let Some(rule) = self.rules.get(rule) else { return };
        let domain = rule.domain.as_name().to_lower();
        let query_key = plain(domain.as_lower(), wire::Type::NS);
        let stream = self.has_only_streams(server);
        let try_id = TryId(self.number());
        let carrier = self.carrier_to(server, stream, try_id, now, actions);
        let Some(Carrier { link, query_id: id, measurable }) = carrier else { return };
        let (name, mixed) = self.name_for(server, &query_key.name.into(), now);
        let opt = self.opt_for(server, Steps::default(), now);
        let message = query::build(id, name.as_name(), &query_key, recursion_desired, opt.as_ref());
        actions.push(Action::Send { link, message });
        let at = now + self.config.timing.max_rto;
        if let Some(server) = self.servers.get_mut(server) {
            server.on_check(now);
        }
        self.count_sent(server, stream, true);
        let one = Try {
            lookup: None,
            place: 0,
            server,
            link,
            stream,
            id,
            query_key,
            name,
            mixed,
            opt,
            steps: Steps::default(),
            sent: now,
            measurable,
            timer: Some(at),
            probe: true,
            check: true,
            in_clear: None,
            errors: Vec::new(),
        };
        self.set_timer(at, Timer::Try(try_id));
        self.tries.insert(try_id, one);
    }

    /// Ends a health check.
    pub(super) fn check_ended(&mut self, one: &Try, is_answered: bool, now: Instant) {
        if let Some(server) = self.servers.get_mut(one.server).filter(|_| one.check) {
            server.on_check_ended(is_answered, now);
        }
    }
}
