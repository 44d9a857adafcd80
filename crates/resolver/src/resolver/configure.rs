//! Replaces the settings while lookups are in flight.
//!
//! First the links and tries of removed servers are dropped, and lookups move to the rules that cover them
//! now; only then they continue.

use std::time::Instant;

use transport::{Action, Link};

use super::Resolver;
use super::state::{Connection, KeyLink, LinkUse, LookupId, State, Timer, Try, TryId, Walk};
use crate::config::ForwardConfig;
use crate::outcome::{LookupFailure, LookupOutcome};
use crate::random::Random;
use crate::request::LookupSink;
use crate::rules::{Rules, Way};
use crate::select::{self, Asked};
use crate::trace::TraceEvent;

impl<O: LookupSink, R: Random> Resolver<O, R> {
    /// Replaces all settings. See [`ResolverRequest::Configure`](crate::ResolverRequest::Configure).
    pub(super) fn configure(&mut self, config: ForwardConfig, now: Instant, actions: &mut Vec<Action>) {
        // Lookups of partitions that have gone end by the rules that they began by; their clients asked
        // before.
        let is_new = |partition| config.rules.iter().any(|rule| rule.partition == partition);
        let before = self.config.rules.iter().filter(|rule| !rule.partition.is_shared());
        let retired: Vec<_> = before.filter(|rule| !is_new(rule.partition)).cloned().collect();
        let (rules, upstreams) = Rules::of(&config, &retired, &mut self.servers, &mut self.random);
        if config.iterate.opportunistic.encryptions != self.config.iterate.opportunistic.encryptions {
            self.servers.forget_transports();
        }
        (self.config, self.rules) = (config, rules);
        self.stats.set_upstreams(self.servers.stats(&upstreams));
        self.prime_again.clear();
        self.drop_links(actions);
        self.drop_tries(actions);
        let mut lookups: Vec<LookupId> = self.lookups.keys().copied().collect();
        lookups.sort_unstable();
        for &id in &lookups {
            match self.move_lookup(id, now, actions) {
                true => self.note(id, now, || TraceEvent::Configured),
                false => self.end(id, LookupOutcome::Failed(LookupFailure::NoRule), now, actions),
            }
        }
        let mut by_rule = vec![0; self.rules.len()];
        for lookup in self.lookups.values() {
            by_rule.get_mut(lookup.rule).into_iter().for_each(|n| *n += 1);
        }
        self.load.set_rules(by_rule);
        for id in lookups {
            let Some(lookup) = self.lookups.get(&id) else { continue };
            let walks = self.rules.get(lookup.rule).is_some_and(|rule| rule.walks());
            if walks && lookup.state.walk().is_none() {
                self.set_out(id, now, actions);
            } else if !self.waits(lookup) {
                self.go_on(id, now, actions);
            }
        }
    }

    /// Closes connections to removed servers.
    fn drop_links(&mut self, actions: &mut Vec<Action>) {
        let gone = |(link, used): (&Link, &LinkUse)| match used {
            LinkUse::Stream(Connection { server, .. }) | LinkUse::Key(KeyLink { server, .. }) => {
                self.servers.get(*server).is_none().then_some(*link)
            }
            LinkUse::Datagram(_) => None,
        };
        let mut gone: Vec<Link> = self.links.iter().filter_map(gone).collect();
        gone.sort_unstable();
        for link in gone {
            match self.links.remove(&link) {
                Some(LinkUse::Stream(connection)) => {
                    self.drop_timer(Some(connection.idle_at), Timer::Idle(link));
                    self.drop_timer(connection.handshake_until, Timer::Handshake(link));
                }
                Some(LinkUse::Key(KeyLink { until, .. })) => {
                    self.drop_timer(Some(until), Timer::Handshake(link));
                }
                Some(LinkUse::Datagram(_)) | None => continue,
            }
            actions.push(Action::Close { link });
        }
    }

    /// Drops tries at removed servers.
    fn drop_tries(&mut self, actions: &mut Vec<Action>) {
        let gone = |(id, one): (&TryId, &Try)| self.servers.get(one.server).is_none().then_some(*id);
        let mut gone: Vec<TryId> = self.tries.iter().filter_map(gone).collect();
        gone.sort_unstable();
        for id in gone {
            self.forget(id, actions);
        }
    }

    /// Moves a lookup to the rule that covers it now; returns whether there is one. Tries at servers that the
    /// rule lacks are dropped. A lookup with iteration continues in its zone if that is below its rule's
    /// domain, otherwise it restarts.
    fn move_lookup(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) -> bool {
        let Some(lookup) = self.lookups.get_mut(&id) else { return true };
        let Some(number) = self.rules.covering(&lookup.query_key) else { return false };
        let Some(rule) = self.rules.get(number) else { return false };
        lookup.rule = number;
        let on_its_way =
            |walk: &Walk| rule.walks() && walk.cut.zone.as_name().is_at_or_below(rule.domain.as_name());
        if lookup.state.walk().is_some_and(on_its_way) {
            return true;
        }
        let before = std::mem::take(&mut lookup.attempts.asked);
        if let Way::Forward { servers, .. } = &rule.way {
            let same = |server| before.iter().find(|asked| asked.server == server).copied();
            let asked = servers.iter().map(|&server| Asked { server, ..same(server).unwrap_or_default() });
            lookup.attempts.asked = asked.collect();
            let unwanted = lookup.unwanted_server();
            select::set_aside(&mut lookup.attempts.asked, &self.servers, unwanted.as_slice());
        }
        let walks = rule.walks();
        self.leave_zone(id, now, actions);
        let Some(lookup) = self.lookups.get_mut(&id) else { return true };
        if !walks && lookup.state.iteration().is_some() {
            lookup.state = State::Forwarding { hopeless_at: None };
        }
        for try_id in lookup.attempts.tries.clone() {
            let place = self.tries.get(&try_id).and_then(|one| {
                let asked = &self.lookups.get(&id)?.attempts.asked;
                asked.iter().position(|asked| asked.server == one.server)
            });
            match (place, self.tries.get_mut(&try_id)) {
                (Some(place), Some(one)) => one.place = place,
                _ => drop(self.forget(try_id, actions)),
            }
        }
        true
    }
}
