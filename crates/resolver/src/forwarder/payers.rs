//! From whose budget a lookup is paid: that of the client who has waited longest or, if no client waits, of a lookup that
//! depends on it.
//!
//! Whoever joins pays nothing as long as another does. But nobody's time ends with another's, nor does anybody fail for what
//! another has spent elsewhere: then the next one pays from its own budget, as it stands.

use std::time::Instant;

use exchange::Action;

use super::Forwarder;
use super::state::{Lookup, LookupId, Timer};
use crate::budget::{Budget, Overspent};
use crate::inquiry::{LookupFailure, LookupOutcome, Outlet};
use crate::random::Random;
use crate::rules::Way;
use crate::select::Asked;

impl<O: Outlet, R: Random> Forwarder<O, R> {
    /// Clients of a lookup have gone: whoever is next pays, if somebody is left.
    pub(super) fn next_pays(&mut self, id: LookupId) {
        let Some(lookup) = self.lookups.get(&id) else { return };
        let client = lookup.clients.first().map(|client| client.budget.clone());
        let dependents =
            || lookup.dependents.iter().find_map(|id| Some(self.lookups.get(id)?.budget.clone()));
        if let Some(budget) = client.or_else(dependents) {
            self.pays(id, budget);
        }
    }

    /// Has a lookup paid from another budget, and so those that were begun for it.
    pub(super) fn pays(&mut self, id: LookupId, budget: Option<Budget>) {
        let Some(lookup) = self.lookups.get(&id) else { return };
        let before = lookup.budget.clone();
        if same(&before, &budget) {
            return;
        }
        let mut left = vec![id];
        while let Some(next) = left.pop() {
            let Some(lookup) = self.lookups.get_mut(&next) else { continue };
            if next == id || lookup.clients.is_empty() && same(&lookup.budget, &before) {
                lookup.paid_by(budget.clone());
                left.extend(lookup.waits().iter().map(|wait| wait.on));
            }
        }
    }

    /// What a lookup is paid from is spent: whoever paid gets no answer, be it a client or a lookup that depends on this one. If it
    /// had spent a part of that elsewhere, the lookup begins again for those who are left; else it costs more than anybody has.
    pub(super) fn spent(&mut self, id: LookupId, spent: Overspent, now: Instant, actions: &mut Vec<Action>) {
        self.stats.overspent.add(1);
        let outcome = LookupOutcome::Failed(LookupFailure::Overspent(spent));
        let others = self.others(id, spent);
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        let Some(next) = others else { return self.end(id, outcome, now, actions) };
        let before = lookup.budget.clone();
        let gone: Vec<_> = lookup.clients.extract_if(.., |client| same(&client.budget, &before)).collect();
        let dependents = std::mem::take(&mut lookup.dependents);
        lookup.paid_by(Some(next));
        // Not at once: there may be many who can no longer pay.
        lookup.begins_again = true;
        self.woken.push_back(id);
        // Each pays once, or two of them would pay in turn for ever.
        let has_paid = |id: &LookupId| self.lookups.get(id).is_none_or(|other| same(&other.budget, &before));
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

    /// The budget of somebody else who waits for a lookup whose own is spent, if that says nothing about theirs.
    fn others(&self, id: LookupId, spent: Overspent) -> Option<Budget> {
        let lookup = self.lookups.get(&id)?;
        let own = match spent {
            Overspent::Time => true,
            Overspent::Depth => false,
            _ => !lookup.paid_in_full,
        };
        let clients = lookup.clients.iter().map(|client| &client.budget);
        let dependents = lookup.dependents.iter().filter_map(|id| Some(&self.lookups.get(id)?.budget));
        let mut all = clients.chain(dependents).filter(|_| own);
        all.find(|budget| !same(budget, &lookup.budget)).cloned().flatten()
    }

    /// A lookup begins again with what is known by now.
    pub(super) fn begin_again(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        (lookup.begins_again, lookup.overspent, lookup.fault, lookup.hindered) = (false, None, None, None);
        let resume = lookup.resume.take();
        let tries = std::mem::take(&mut lookup.tries);
        let walks = lookup.walk.is_some();
        self.drop_timer(resume, Timer::Resume(id));
        for id in tries {
            self.leave(id, now, actions);
        }
        if walks {
            return self.set_out(id, now, actions);
        }
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        (lookup.tries_left, lookup.round) = (self.config.limits.tries, 1);
        if let Some(Way::Forward { servers, .. }) = self.rules.get(lookup.rule).map(|rule| &rule.way) {
            lookup.asked = servers.iter().map(|&server| Asked { server, ..Asked::default() }).collect();
        }
        self.ask_next(id, now, actions);
    }
}

impl<W> Lookup<W> {
    /// From now on it is paid from this.
    pub(super) fn paid_by(&mut self, budget: Option<Budget>) {
        self.paid_in_full = budget.as_ref().is_none_or(|budget| budget.queries() == 0);
        self.budget = budget;
    }
}

/// Whether two budgets are one.
fn same(one: &Option<Budget>, other: &Option<Budget>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.is_same(other),
        (one, other) => one.is_none() && other.is_none(),
    }
}
