//! Other settings while lookups are in flight.
//!
//! Servers, rules, tries and connections know each other by number. So first all numbers become those of the new
//! settings, and what belongs to a server that is gone goes; only then lookups go on.

use std::sync::Arc;
use std::time::Instant;

use exchange::{Action, Link};

use super::Forwarder;
use super::state::{LinkUse, LookupId, Timer, TryId};
use crate::config::{ForwardConfig, Upstream};
use crate::inquiry::{LookupFailure, LookupOutcome, Outlet};
use crate::random::Random;
use crate::rules::Rules;
use crate::select::Asked;
use crate::server::Server;
use crate::trace::TraceEvent;

impl<O: Outlet, R: Random> Forwarder<O, R> {
    /// Replaces all settings. See [`ForwarderRequest::Configure`](crate::ForwarderRequest::Configure).
    pub(super) fn configure(&mut self, config: ForwardConfig, now: Instant, actions: &mut Vec<Action>) {
        let (rules, upstreams) = Rules::of(&config);
        (self.config, self.rules) = (config, rules);
        let places = self.replace_servers(upstreams);
        self.move_links(&places, actions);
        self.move_tries(&places, actions);
        let mut by_rule = vec![0; self.rules.len()];
        let mut lookups: Vec<LookupId> = self.lookups.keys().copied().collect();
        lookups.sort_unstable();
        lookups.retain(|&id| match self.move_lookup(id, &places, actions) {
            Some(rule) => {
                self.note(id, now, || TraceEvent::Configured);
                by_rule.get_mut(rule).into_iter().for_each(|n| *n += 1);
                true
            }
            None => {
                self.end(id, LookupOutcome::Failed(LookupFailure::NoRule), now, actions);
                false
            }
        });
        self.load.set_rules(by_rule);
        for id in lookups {
            if self.lookups.get(&id).is_some_and(|lookup| !self.waits(lookup)) {
                self.go_on(id, now, actions);
            }
        }
    }

    /// Keeps the servers that are named again. Returns for each old place the new one.
    fn replace_servers(&mut self, upstreams: Vec<Upstream>) -> Vec<Option<usize>> {
        let old = std::mem::take(&mut self.servers);
        let place = |server: &Server| upstreams.iter().position(|upstream| *upstream == server.upstream);
        let places = old.iter().map(place).collect();
        let mut old: Vec<Option<Server>> = old.into_iter().map(Some).collect();
        for upstream in upstreams {
            let same = |server: &&mut Option<Server>| server.as_ref().is_some_and(|s| s.upstream == upstream);
            let known = old.iter_mut().find(same).and_then(Option::take);
            let server = known.unwrap_or_else(|| Server::new(upstream, self.random.bytes()));
            self.servers.push(server);
        }
        let stats = self.servers.iter().map(|server| Arc::clone(&server.stats));
        self.stats.set_upstreams(stats.collect());
        places
    }

    /// Closes connections to servers that are gone.
    fn move_links(&mut self, places: &[Option<usize>], actions: &mut Vec<Action>) {
        let mut gone: Vec<Link> = Vec::new();
        for (link, used) in &mut self.links {
            let LinkUse::Stream(connection) = used else { continue };
            match places.get(connection.server).copied().flatten() {
                Some(place) => connection.server = place,
                None => gone.push(*link),
            }
        }
        gone.sort_unstable();
        for link in gone {
            if let Some(LinkUse::Stream(connection)) = self.links.remove(&link) {
                self.drop_timer(Some(connection.idle_at), Timer::Idle(link));
                actions.push(Action::Close { link });
            }
        }
    }

    /// Forgets tries at servers that are gone.
    fn move_tries(&mut self, places: &[Option<usize>], actions: &mut Vec<Action>) {
        let mut gone: Vec<TryId> = Vec::new();
        for (id, one) in &mut self.tries {
            match places.get(one.server).copied().flatten() {
                Some(place) => one.server = place,
                None => gone.push(*id),
            }
        }
        gone.sort_unstable();
        for id in gone {
            self.forget(id, actions);
        }
    }

    /// Puts a lookup under the rule that covers it now, whose number is returned if there is one. Tries at servers that
    /// the rule does not have are forgotten.
    fn move_lookup(
        &mut self,
        id: LookupId,
        places: &[Option<usize>],
        actions: &mut Vec<Action>,
    ) -> Option<usize> {
        let lookup = self.lookups.get_mut(&id)?;
        let number = self.rules.covering(&lookup.inquiry)?;
        let rule = self.rules.get(number)?;
        let before = std::mem::take(&mut lookup.asked);
        let asked_before = |server: usize| {
            let same = |asked: &&Asked| places.get(asked.server).copied().flatten() == Some(server);
            Asked { server, ..before.iter().find(same).copied().unwrap_or_default() }
        };
        lookup.asked = rule.servers.iter().map(|&server| asked_before(server)).collect();
        lookup.rule = number;
        for try_id in lookup.tries.clone() {
            let place = self.tries.get(&try_id).and_then(|one| {
                let asked = &self.lookups.get(&id)?.asked;
                asked.iter().position(|asked| asked.server == one.server)
            });
            match (place, self.tries.get_mut(&try_id)) {
                (Some(place), Some(one)) => one.place = place,
                _ => drop(self.forget(try_id, actions)),
            }
        }
        Some(number)
    }
}
