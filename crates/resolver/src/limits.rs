//! Limits on waiting clients and lookups in flight.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use wire::LowerName;

use crate::config::ForwardLimits;
use crate::outcome::ShedReason;
use crate::request::ClientPrefix;

/// Time slot in which at most [`ForwardLimits::pulse`] clients of a prefix are settled.
const SLOT: Duration = Duration::from_millis(10);

/// Clients and lookups in flight.
pub(crate) struct Load {
    clients: HashMap<ClientPrefix, Waiting>,
    by_rule: Vec<usize>,
    /// By the wire form of the zone whose servers are queried.
    by_zone: HashMap<Box<[u8]>, usize>,
    lookups: usize,
}

/// The waiting clients of one prefix.
#[derive(Default)]
struct Waiting {
    clients: usize,
    /// Start of the last slot in use, and the number of clients settled in it.
    slot: Option<(Instant, usize)>,
}

impl Load {
    /// Nothing is in flight.
    pub(crate) fn new(rules: usize) -> Self {
        Load { clients: HashMap::new(), by_rule: vec![0; rules], by_zone: HashMap::new(), lookups: 0 }
    }

    /// Checks whether one more client of `prefix` may wait.
    pub(crate) fn may_wait(&self, limits: &ForwardLimits, prefix: ClientPrefix) -> Result<(), ShedReason> {
        let waiting = self.clients.get(&prefix).map_or(0, |waiting| waiting.clients);
        if waiting < limits.clients_per_prefix { Ok(()) } else { Err(ShedReason::ClientPrefix) }
    }

    /// Checks whether one more lookup by `rule` may start.
    pub(crate) fn may_start(&self, limits: &ForwardLimits, rule: usize) -> Result<(), ShedReason> {
        match self.by_rule.get(rule) {
            _ if self.lookups >= limits.lookups => Err(ShedReason::Lookups),
            Some(&n) if n < limits.lookups_per_rule => Ok(()),
            _ => Err(ShedReason::Rule),
        }
    }

    /// Counts a waiting client.
    pub(crate) fn client_came(&mut self, prefix: ClientPrefix) {
        self.clients.entry(prefix).or_default().clients += 1;
    }

    /// Counts the end of a client's wait.
    pub(crate) fn client_went(&mut self, prefix: ClientPrefix) {
        if let Some(waiting) = self.clients.get_mut(&prefix) {
            waiting.clients = waiting.clients.saturating_sub(1);
            if waiting.clients == 0 {
                self.clients.remove(&prefix);
            }
        }
    }

    /// Returns when a client that has waited long may be settled: the first slot that is not full.
    pub(crate) fn take_slot(
        &mut self,
        limits: &ForwardLimits,
        prefix: ClientPrefix,
        now: Instant,
    ) -> Instant {
        let Some(waiting) = self.clients.get_mut(&prefix).filter(|_| limits.pulse > 0) else { return now };
        let (begins, settled) = match waiting.slot {
            Some((begins, settled)) if now < begins + SLOT => match settled < limits.pulse {
                true => (begins, settled),
                false => (begins + SLOT, 0),
            },
            _ => (now, 0),
        };
        waiting.slot = Some((begins, settled + 1));
        begins
    }

    /// Replaces the rules; `by_rule` has the number of lookups of each.
    pub(crate) fn set_rules(&mut self, by_rule: Vec<usize>) {
        self.by_rule = by_rule;
    }

    /// Counts the start of a lookup.
    pub(crate) fn lookup_came(&mut self, rule: usize) {
        self.lookups += 1;
        if let Some(n) = self.by_rule.get_mut(rule) {
            *n += 1;
        }
    }

    /// Counts the end of a lookup.
    pub(crate) fn lookup_went(&mut self, rule: usize) {
        self.lookups = self.lookups.saturating_sub(1);
        if let Some(n) = self.by_rule.get_mut(rule) {
            *n = n.saturating_sub(1);
        }
    }

    /// Counts a lookup at the servers of a zone, if there are fewer than `most`.
    pub(crate) fn zone_came(&mut self, zone: LowerName<'_>, most: usize) -> Result<(), ShedReason> {
        match self.by_zone.get_mut(zone.as_wire()) {
            Some(n) if *n >= most => return Err(ShedReason::Zone),
            Some(n) => *n += 1,
            None => drop(self.by_zone.insert(zone.as_wire().into(), 1)),
        }
        Ok(())
    }

    /// Counts a lookup that leaves a zone or ends.
    pub(crate) fn zone_went(&mut self, zone: LowerName<'_>) {
        if let Some(n) = self.by_zone.get_mut(zone.as_wire()) {
            *n = n.saturating_sub(1);
            if *n == 0 {
                self.by_zone.remove(zone.as_wire());
            }
        }
    }

    /// Returns the number of lookups in flight.
    pub(crate) fn lookups(&self) -> usize {
        self.lookups
    }

    /// Whether all counts are 0.
    pub(crate) fn is_empty(&self) -> bool {
        let zones = self.by_zone.is_empty();
        zones && self.clients.is_empty() && self.lookups == 0 && self.by_rule.iter().all(|&n| n == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_fill_one_after_the_other_and_an_old_one_is_left() {
        let limits = ForwardLimits { pulse: 2, ..Default::default() };
        let (prefix, mut load, start) =
            (ClientPrefix::of([192, 0, 2, 1].into()), Load::new(1), Instant::now());
        let ms = |n| start + Duration::from_millis(n);
        (0..9).for_each(|_| load.client_came(prefix));
        let taken: Vec<_> = (0..5).map(|_| load.take_slot(&limits, prefix, start)).collect();
        assert_eq!(taken, [0, 0, 10, 10, 20].map(ms));
        assert_eq!(
            [5, 25, 25, 29, 30, 90].map(|n| load.take_slot(&limits, prefix, ms(n))),
            [20, 30, 30, 40, 40, 90].map(ms)
        );
        let any = ForwardLimits { pulse: 0, ..limits };
        assert_eq!(load.take_slot(&any, prefix, ms(90)), ms(90));
    }

    #[test]
    fn what_went_makes_room() {
        let limits =
            ForwardLimits { clients_per_prefix: 1, lookups_per_rule: 1, lookups: 2, ..Default::default() };
        let prefix = ClientPrefix::of([192, 0, 2, 1].into());
        let mut load = Load::new(3);
        load.client_came(prefix);
        assert_eq!(load.may_wait(&limits, prefix), Err(ShedReason::ClientPrefix));
        load.lookup_came(0);
        assert_eq!(load.may_start(&limits, 0), Err(ShedReason::Rule));
        assert_eq!(load.may_start(&limits, 1), Ok(()));
        load.lookup_came(1);
        assert_eq!(load.may_start(&limits, 2), Err(ShedReason::Lookups));
        load.client_went(prefix);
        load.lookup_went(0);
        load.lookup_went(1);
        assert!(load.is_empty());
        assert_eq!((load.may_wait(&limits, prefix), load.may_start(&limits, 0)), (Ok(()), Ok(())));
    }
}
