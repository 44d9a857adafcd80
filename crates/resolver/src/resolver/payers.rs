//! The budget that a lookup is charged to: that of the client that has waited longest or, without clients, of
//! a lookup that depends on it.
//!
//! A waiter that joins is not charged as long as another one is. But a waiter neither times out with another,
//! nor fails because another spent its budget elsewhere: then the next one's budget is charged, as it is.

use std::time::Instant;

use transport::Action;

use super::Resolver;
use super::state::{Charge, Client, Lookup, LookupId, Timer};
use crate::budget::{Budget, Overspent};
use crate::config::IterateConfig;
use crate::outcome::{LookupFailure, LookupOutcome};
use crate::random::Random;
use crate::request::LookupSink;
use crate::rules::Way;
use crate::select::Asked;

impl<O: LookupSink, R: Random> Resolver<O, R> {
    /// Handles the end of a waiter. If it was the charged one, the next waiter is charged.
    pub(super) fn next_pays(&mut self, id: LookupId) {
        let Some(lookup) = self.lookups.get(&id) else { return };
        let paid_for = |budget: &Option<Budget>| same(budget, &lookup.charge.budget);
        let is_left = lookup.clients.iter().any(|client| paid_for(&client.budget))
            || lookup
                .dependents
                .iter()
                .any(|id| self.lookups.get(id).is_some_and(|by| paid_for(&by.charge.budget)));
        if is_left {
            return;
        }
        let client = lookup.clients.first().map(Payer::client);
        let dependents =
            || lookup.dependents.iter().find_map(|id| Some(Payer::dependent(self.lookups.get(id)?)));
        if let Some(payer) = client.or_else(dependents) {
            self.pays(id, payer);
        }
    }

    /// Charges a lookup to another budget, with the lookups started for it. Pending address lookups count in
    /// the new budget as in the old one; a lookup that exceeds the new limits restarts, within these limits.
    pub(super) fn pays(&mut self, id: LookupId, payer: Payer) {
        let Some(lookup) = self.lookups.get(&id) else { return };
        let before = lookup.charge.budget.clone();
        if same(&before, &payer.budget) {
            return;
        }
        let mut left = vec![(id, payer)];
        while let Some((next, payer)) = left.pop() {
            let Some(lookup) = self.lookups.get_mut(&next) else { continue };
            if next != id && !(lookup.clients.is_empty() && same(&lookup.charge.budget, &before)) {
                continue;
            }
            let below = payer.one_deeper();
            if lookup.moves_to(payer, &self.config.iterate) {
                left.extend(lookup.waits().iter().map(|wait| (wait.on, below.clone())));
            } else {
                lookup.charge.begins_again = true;
                self.woken.push_back(next);
            }
        }
    }

    /// Handles an exceeded limit of the charged budget: its waiter gets no answer, be it a client or a
    /// dependent lookup. If part of the budget was spent elsewhere, the lookup restarts for the remaining
    /// waiters; otherwise it costs more than any budget allows.
    pub(super) fn spent(&mut self, id: LookupId, spent: Overspent, now: Instant, actions: &mut Vec<Action>) {
        self.stats.overspent.add(1);
        let outcome = LookupOutcome::Failed(LookupFailure::Overspent(spent));
        let others = self.others(id, spent);
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        let Some(next) = others else { return self.end(id, outcome, now, actions) };
        let before = lookup.charge.budget.clone();
        let gone: Vec<_> = lookup.clients.extract_if(.., |client| same(&client.budget, &before)).collect();
        let dependents = std::mem::take(&mut lookup.dependents);
        lookup.paid_by(next);
        // Not at once: several waiters may be unable to pay.
        lookup.charge.begins_again = true;
        self.woken.push_back(id);
        // Each is charged only once; otherwise two of them could alternate for ever.
        let has_paid =
            |id: &LookupId| self.lookups.get(id).is_none_or(|other| same(&other.charge.budget, &before));
        let (paid, left): (Vec<_>, Vec<_>) = dependents.into_iter().partition(has_paid);
        if let Some(lookup) = self.lookups.get_mut(&id) {
            lookup.dependents = left;
        }
        for dependent in paid {
            self.goes_on_without(dependent, id, true, Some(LookupFailure::Overspent(spent)));
        }
        for client in gone {
            self.went(client, outcome.clone(), now);
        }
    }

    /// Returns another waiter to charge, if its own budget may suffice.
    fn others(&self, id: LookupId, spent: Overspent) -> Option<Payer> {
        let lookup = self.lookups.get(&id)?;
        let own = match spent {
            Overspent::Time | Overspent::Depth => true,
            _ => !lookup.charge.paid_in_full,
        };
        // A waiter with less depth may get further than the previous one.
        let nearer = |payer: &Payer| spent != Overspent::Depth || payer.depth < lookup.charge.depth;
        let clients = lookup.clients.iter().map(Payer::client);
        let dependents =
            lookup.dependents.iter().filter_map(|id| Some(Payer::dependent(self.lookups.get(id)?)));
        let mut all = clients.chain(dependents).filter(|payer| own && nearer(payer));
        all.find(|payer| !same(&payer.budget, &lookup.charge.budget)).filter(|payer| payer.budget.is_some())
    }

    /// Restarts a lookup with the state known by now.
    pub(super) fn begin_again(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        (lookup.charge.begins_again, lookup.charge.overspent, lookup.attempts.fault) = (false, None, None);
        let resume = lookup.attempts.resume.take();
        let tries = std::mem::take(&mut lookup.attempts.tries);
        let walks = lookup.state.walk().is_some();
        self.drop_timer(resume, Timer::Resume(id));
        for id in tries {
            self.leave(id, now, actions);
        }
        if walks {
            return self.set_out(id, now, actions);
        }
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        (lookup.attempts.tries_left, lookup.attempts.round) = (self.config.limits.tries, 1);
        if let Some(Way::Forward { servers, .. }) = self.rules.get(lookup.rule).map(|rule| &rule.way) {
            lookup.attempts.asked =
                servers.iter().map(|&server| Asked { server, ..Asked::default() }).collect();
        }
        self.ask_next(id, now, actions);
    }
}

/// The waiter that a lookup is charged to.
#[derive(Clone)]
pub(super) struct Payer {
    /// Its budget, if any.
    pub(super) budget: Option<Budget>,
    /// Nesting depth of the lookup, among lookups of the same query that wait for each other.
    pub(super) depth: u8,
}

impl Payer {
    /// A client that waits for the lookup.
    pub(super) fn client<W>(client: &Client<W>) -> Payer {
        Payer { budget: client.budget.clone(), depth: 0 }
    }

    /// A lookup that depends on the lookup.
    fn dependent<W>(lookup: &Lookup<W>) -> Payer {
        Payer { budget: lookup.charge.budget.clone(), depth: lookup.charge.depth }.one_deeper()
    }

    /// The same payer, for a dependency of the lookup.
    fn one_deeper(&self) -> Payer {
        Payer { budget: self.budget.clone(), depth: self.depth.saturating_add(1) }
    }
}

impl<W> Lookup<W> {
    /// Sets the payer.
    pub(super) fn paid_by(&mut self, payer: Payer) {
        self.charge.paid_in_full = payer.budget.as_ref().is_none_or(Budget::is_whole);
        (self.charge.budget, self.charge.depth) = (payer.budget, payer.depth);
    }

    /// Sets the payer and charges it for all pending address lookups; returns whether the limits allow that.
    fn moves_to(&mut self, payer: Payer, limits: &IterateConfig) -> bool {
        self.paid_by(payer);
        let waits = self.state.walk_mut().map(|walk| walk.waits.as_mut_slice()).unwrap_or_default();
        if waits.is_empty() {
            return true;
        }
        let Charge { budget, depth, .. } = &self.charge;
        let Some(budget) = budget.as_ref().filter(|_| *depth < limits.depth) else { return false };
        waits.iter_mut().all(|wait| {
            let taken = budget.seek(&limits.budget);
            taken.map(|seeking| wait.seeking = seeking).is_ok()
        })
    }
}

/// Whether both budgets are the same.
fn same(one: &Option<Budget>, other: &Option<Budget>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.is_same(other),
        (one, other) => one.is_none() && other.is_none(),
    }
}
