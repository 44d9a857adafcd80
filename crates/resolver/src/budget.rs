//! Limits of one client's query: queries, bytes and time, over all its lookups, restarts and aliases.
//!
//! All of these share one [`Budget`], which is never reset; `recursion` passes it along a chain. Lookups of
//! server addresses are charged when they begin, and refunded if they find addresses.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use wire::LowerName;

use crate::config::BudgetLimits;
use crate::query_key::ReportAgent;

/// Counters of one client's query, and the agent for reports of its failure. Clones share them: a caller that
/// sends another request for the same query, for an alias's target or as a retry, passes the budget in
/// [`LookupRequest::budget`](crate::LookupRequest::budget). It is never reset.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    spent: Arc<Mutex<Spent>>,
    /// Its lookups are not links of a chain: see [`for_proofs`](Budget::for_proofs).
    is_for_proofs: bool,
}

/// The shared counters.
#[derive(Clone, Debug, Default)]
struct Spent {
    since: Option<Instant>,
    /// The query's deadline.
    ends: Option<Instant>,
    lookups: u16,
    queries: u16,
    bytes: usize,
    fruitless: u16,
    /// Pending lookups of server addresses.
    seeking: u16,
    minimised: u16,
    /// Queries to the servers of each zone.
    zones: Vec<(Box<[u8]>, u16)>,
    /// The agent that the failed zone's servers name for reports (RFC 9567).
    agent: Option<Box<ReportAgent>>,
}

/// A pending lookup of a server's address. Until it is dropped it counts like a fruitless one.
#[derive(Debug)]
pub(crate) struct Seeking(Arc<Mutex<Spent>>);

impl Seeking {
    /// Counts it as fruitless for good.
    pub(crate) fn was_fruitless(self) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spent.fruitless = spent.fruitless.saturating_add(1);
    }
}

impl Drop for Seeking {
    fn drop(&mut self) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spent.seeking = spent.seeking.saturating_sub(1);
    }
}

/// The exceeded limit: see [`BudgetLimits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overspent {
    /// Queries in total.
    Queries,
    /// Queries to the servers of one zone.
    ZoneQueries,
    /// Bytes of replies.
    Bytes,
    /// Time.
    Time,
    /// Aliases followed.
    Aliases,
    /// Fruitless lookups of server addresses.
    Addresses,
    /// Nested lookups that wait for each other.
    Depth,
}

impl Budget {
    /// Returns the same budget for a validator's lookups: DS and DNSKEY are charged like all others, but do
    /// not count as aliases.
    pub fn for_proofs(&self) -> Budget {
        Budget { spent: Arc::clone(&self.spent), is_for_proofs: true }
    }

    /// Returns the number of queries sent so far.
    pub fn queries(&self) -> u16 {
        self.lock().queries
    }

    /// Returns the bytes of replies so far.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Returns the query's deadline; `None` before its first lookup.
    pub fn ends(&self) -> Option<Instant> {
        self.lock().ends
    }

    /// Whether both belong to the same client's query.
    pub fn is_same(&self, other: &Budget) -> bool {
        Arc::ptr_eq(&self.spent, &other.spent)
    }

    /// Takes the agent for reports, if a lookup charged to this failed at servers that name one (RFC 9567).
    /// Returns it once.
    pub fn take_agent(&self) -> Option<Box<ReportAgent>> {
        self.lock().agent.take()
    }

    /// Records the agent of servers where a lookup failed. Not for lookups of a validator, which reports
    /// itself.
    pub(crate) fn failed_at(&self, agent: Box<ReportAgent>) {
        if !self.is_for_proofs {
            self.lock().agent = Some(agent);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Spent> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a request. Returns its deadline. All lookups but the first count as aliases.
    pub(crate) fn begin(&self, limits: &BudgetLimits, now: Instant) -> Result<Instant, Overspent> {
        let mut spent = self.lock();
        let until = *spent.since.get_or_insert(now) + limits.time;
        spent.ends = Some(until);
        if spent.lookups > limits.aliases && !self.is_for_proofs {
            return Err(Overspent::Aliases);
        }
        if until <= now { Err(Overspent::Time) } else { Ok(until) }
    }

    /// Counts a lookup.
    pub(crate) fn count_lookup(&self) {
        if self.is_for_proofs {
            return;
        }
        let mut spent = self.lock();
        spent.lookups = spent.lookups.saturating_add(1);
    }

    /// Charges a query to a server of `zone`; `None` if it is forwarded.
    pub(crate) fn take_query(
        &self,
        zone: Option<LowerName<'_>>,
        limits: &BudgetLimits,
        now: Instant,
    ) -> Result<(), Overspent> {
        let mut spent = self.lock();
        if spent.queries >= limits.queries {
            return Err(Overspent::Queries);
        }
        if spent.bytes >= limits.bytes {
            return Err(Overspent::Bytes);
        }
        if *spent.since.get_or_insert(now) + limits.time <= now {
            return Err(Overspent::Time);
        }
        if let Some(zone) = zone {
            let known = spent.zones.iter_mut().find(|(known, _)| **known == *zone.as_wire());
            match known {
                Some((_, sent)) if *sent >= limits.queries_per_zone => return Err(Overspent::ZoneQueries),
                Some((_, sent)) => *sent += 1,
                None => spent.zones.push((zone.as_wire().into(), 1)),
            }
        }
        spent.queries += 1;
        Ok(())
    }

    /// Charges a reply. Fails if it exceeds the limit of bytes.
    pub(crate) fn take_reply(&self, bytes: usize, limits: &BudgetLimits) -> Result<(), Overspent> {
        let mut spent = self.lock();
        spent.bytes = spent.bytes.saturating_add(bytes);
        if spent.bytes > limits.bytes { Err(Overspent::Bytes) } else { Ok(()) }
    }

    /// Charges a lookup of a server's address. Pending ones count as fruitless, since all of them may be,
    /// whether nested or side by side.
    pub(crate) fn seek(&self, limits: &BudgetLimits) -> Result<Seeking, Overspent> {
        let mut spent = self.lock();
        if spent.queries >= limits.queries {
            return Err(Overspent::Queries);
        }
        if spent.fruitless.saturating_add(spent.seeking) >= limits.fruitless {
            return Err(Overspent::Addresses);
        }
        spent.seeking += 1;
        Ok(Seeking(Arc::clone(&self.spent)))
    }

    /// Whether nothing was charged so far.
    pub(crate) fn is_whole(&self) -> bool {
        let spent = self.lock();
        (spent.queries, spent.fruitless, spent.seeking) == (0, 0, 0)
    }

    /// Charges a query with a part of the name. Returns the number before, unless the limit is reached.
    pub(crate) fn take_minimised(&self, limits: &BudgetLimits) -> Option<u16> {
        let mut spent = self.lock();
        let before = spent.minimised;
        (before < limits.minimised).then(|| {
            spent.minimised += 1;
            before
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wire::LowerNameBuf;

    use super::*;

    #[test]
    fn every_part_has_its_end_and_clones_share_it() {
        let (budget, now) = (Budget::default(), Instant::now());
        let limits = BudgetLimits { queries: 3, queries_per_zone: 2, bytes: 10, ..Default::default() };
        let other: wire::NameBuf = "example.".parse().expect("a name");
        let (root, other) = (LowerNameBuf::ROOT, other.as_name().to_lower());
        let take = |zone: &LowerNameBuf| budget.clone().take_query(Some(zone.as_lower()), &limits, now);
        assert_eq!([take(&root), take(&root), take(&root)], [Ok(()), Ok(()), Err(Overspent::ZoneQueries)]);
        assert_eq!([take(&other), take(&other)], [Ok(()), Err(Overspent::Queries)]);
        assert_eq!(budget.seek(&limits).err(), Some(Overspent::Queries));
        assert_eq!(budget.take_reply(10, &limits), Ok(()));
        assert_eq!(budget.take_reply(1, &limits), Err(Overspent::Bytes));
        assert_eq!((budget.queries(), budget.bytes()), (3, 11));
    }

    #[test]
    fn restarts_share_time_and_count_as_aliases() {
        let (budget, now) = (Budget::default(), Instant::now());
        let limits = BudgetLimits { aliases: 2, ..Default::default() };
        let end = now + limits.time;
        for seconds in 0..3 {
            assert_eq!(budget.begin(&limits, now + Duration::from_secs(seconds)), Ok(end));
            budget.count_lookup();
        }
        assert_eq!(budget.ends(), Some(end));
        assert!(budget.is_same(&budget.for_proofs()) && !budget.is_same(&Budget::default()));
        assert_eq!(budget.begin(&limits, now), Err(Overspent::Aliases));
        let proofs = budget.for_proofs();
        assert_eq!(proofs.begin(&limits, now), Ok(end), "DS and DNSKEY are no aliases");
        proofs.count_lookup();
        assert_eq!(proofs.take_query(None, &BudgetLimits { queries: 1, ..limits }, now), Ok(()));
        assert_eq!(budget.queries(), 1, "but paid");
        assert_eq!(budget.take_query(None, &limits, end), Err(Overspent::Time));
        let more = BudgetLimits { aliases: 3, ..limits };
        assert_eq!(budget.begin(&more, end), Err(Overspent::Time));
    }

    #[test]
    fn lookups_of_addresses_count_from_their_start_to_their_success() {
        let limits = BudgetLimits { fruitless: 2, ..Default::default() };
        let budget = Budget::default();
        let (first, second) =
            (budget.seek(&limits).expect("one"), budget.clone().seek(&limits).expect("two"));
        assert_eq!(budget.for_proofs().seek(&limits).err(), Some(Overspent::Addresses));
        drop(second);
        first.was_fruitless();
        let third = budget.seek(&limits).expect("the second has found something");
        assert_eq!(budget.seek(&limits).err(), Some(Overspent::Addresses));
        third.was_fruitless();
        assert_eq!(budget.seek(&limits).err(), Some(Overspent::Addresses), "they are never given back");
        assert!(!budget.is_whole() && Budget::default().is_whole());
    }
}
