//! Limits on the queries of each client of a group, whatever the transport. The gate applies them before any
//! data is read.
//!
//! A query over a limit gets no reply over UDP, and REFUSED over a stream, where the client would wait for
//! one. Queries over the limit do not count, so a client gets the rate of its group also while it sends more.
//! Clients for which a trusted forwarder asks are counted by the options that identify them.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use rate_limits::{RateLimit, RateTable};
use wire::Prefix;

use crate::access::TooManyRules;
use crate::client_groups::{GroupClient, GroupMatcher, GroupRule};
use crate::prefix::PrefixMasks;

/// The limit of each client of one group.
#[derive(Clone, Debug)]
pub struct GroupLimit {
    /// Queries of one address.
    pub limit: RateLimit,
    /// Number of queries over the limit, of all clients.
    pub refused: Arc<AtomicU64>,
}

/// The limits of all groups.
pub struct GroupLimits {
    groups: GroupMatcher,
    /// The limit of each group, in their order.
    limits: Box<[Option<GroupLimit>]>,
    /// The limit of clients in no group.
    others: Option<GroupLimit>,
    /// Networks of forwarders that say for which client they ask.
    trusted: PrefixMasks,
    /// The counters. They outlive a change of the limits.
    table: Arc<RateTable>,
}

impl GroupLimits {
    /// Compiles the limits of groups with these rules. Options about clients count in queries from `trusted`
    /// networks.
    ///
    /// # Errors
    /// There are more than 64 groups.
    pub fn new(
        groups: &[(GroupRule, Option<GroupLimit>)],
        others: Option<GroupLimit>,
        trusted: &[Prefix],
        table: &Arc<RateTable>,
    ) -> Result<Self, TooManyRules> {
        let rules: Vec<GroupRule> = groups.iter().map(|(rule, _)| rule.clone()).collect();
        let limits = groups.iter().map(|(_, limit)| limit.clone()).collect();
        Ok(GroupLimits {
            groups: GroupMatcher::new(&rules, trusted)?,
            limits,
            others,
            trusted: PrefixMasks::any(trusted),
            table: Arc::clone(table),
        })
    }

    /// Counts a query. Returns whether it is over the limit of its client.
    pub(crate) fn refuses(&self, client: GroupClient<'_>, now: Instant) -> bool {
        let group = self.groups.first(client).and_then(|number| self.limits.get(number));
        let Some(GroupLimit { limit, refused }) = group.unwrap_or(&self.others) else { return false };
        let hashes = self.table.hashes(self.counted_as(client));
        let is_over = !self.table.admit(&hashes, limit, self.table.ticks(now));
        if is_over {
            refused.fetch_add(1, Relaxed);
        }
        is_over
    }

    /// Returns the address that a client is counted by. For a client that a trusted forwarder identifies, it
    /// is made from the options, so that all forwarders of a client count together, and is no client's
    /// address.
    fn counted_as(&self, GroupClient { client, ids, .. }: GroupClient<'_>) -> IpAddr {
        let peer = client.peer.ip();
        match ids.filter(|_| self.trusted.contains(peer.to_canonical())) {
            Some(ids) => {
                let [mut bytes, low] = [0, 1].map(|seed| u128::from(ids.hash(seed)));
                bytes = bytes << 64 | low | 0xff << 120;
                Ipv6Addr::from(bytes).into()
            }
            None => peer,
        }
    }
}

impl fmt::Debug for GroupLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupLimits").field("limits", &self.limits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use transport::{Client, Transport};

    use super::*;
    use crate::access::{AccessAction, AccessRule};
    use crate::client_groups::{ClientIds, GroupPart};

    #[test]
    fn clients_behind_a_forwarder_have_a_limit_each() {
        let now = Instant::now();
        let table = Arc::new(RateTable::new(1 << 16, [1, 2, 3, 4], now));
        let limit =
            GroupLimit { limit: RateLimit::of_addresses(3, Duration::from_secs(1)), refused: Arc::default() };
        let trusted = ["192.0.2.1", "2001:db8::1"].map(|text| text.parse().expect("a network"));
        let limits = GroupLimits::new(&[], Some(limit), &trusted, &table).expect("few");
        let answered = |peer: &str, tag: Option<u8>| {
            let peer = peer.parse().expect("an address");
            let client = Client {
                peer: (IpAddr::V6(peer), 1).into(),
                local: ([192, 0, 2, 53], 53).into(),
                transport: Transport::Udp,
            };
            let bytes = tag.map(|tag| [0, 3, 0, 0, 0, 16, 0, 2, 0, tag]);
            let ids = bytes.as_ref().map(|bytes| ClientIds::of_bytes(bytes));
            (0..10)
                .filter(|_| !limits.refuses(GroupClient { client: &client, key: None, ids, name: None }, now))
                .count()
        };
        let (forwarder, other) = ("::ffff:192.0.2.1", "::ffff:192.0.2.2");
        assert_eq!([1, 2].map(|tag| answered(forwarder, Some(tag))), [3, 3]);
        assert_eq!(answered(forwarder, None), 3, "those that it does not identify");
        assert_eq!(
            answered("2001:db8::1", Some(1)),
            0,
            "the same client by another address of the forwarder"
        );
        assert_eq!([Some(1), Some(2), None].map(|tag| answered(other, tag)), [3, 0, 0], "not trusted");
    }

    #[test]
    fn each_client_has_the_limit_of_its_group() {
        let now = Instant::now();
        let table = Arc::new(RateTable::new(1 << 16, [1, 2, 3, 4], now));
        let limit = |rate| {
            let limit = RateLimit::of_addresses(rate, Duration::from_secs(1));
            GroupLimit { limit, refused: Arc::default() }
        };
        let from = vec!["192.0.2.0/24".parse().expect("a network")];
        let clients = AccessRule { action: AccessAction::Allow, from, local: None, transports: None };
        let rule = GroupPart { clients, keys: Vec::new(), ids: Vec::new() }.into();
        let (few, some) = (limit(3), limit(5));
        let groups = [(rule, Some(few.clone()))];
        let limits = GroupLimits::new(&groups, Some(some.clone()), &[], &table).expect("few");
        let answered = |peer: [u8; 4], at: Instant| {
            let client = Client {
                peer: (peer, 1).into(),
                local: ([192, 0, 2, 53], 53).into(),
                transport: Transport::Udp,
            };
            (0..10).filter(|_| !limits.refuses(GroupClient::by_address(&client), at)).count()
        };
        assert_eq!([answered([192, 0, 2, 1], now), answered([192, 0, 2, 2], now)], [3, 3]);
        assert_eq!(answered([198, 51, 100, 1], now), 5);
        assert_eq!((few.refused.load(Relaxed), some.refused.load(Relaxed)), (14, 5));
        // Those over the limit have not counted.
        assert_eq!(answered([192, 0, 2, 1], now + Duration::from_secs(1)), 3);
        let unlimited = GroupLimits::new(&groups, None, &[], &table).expect("few");
        let client = Client {
            peer: ([198, 51, 100, 1], 1).into(),
            local: ([192, 0, 2, 53], 53).into(),
            transport: Transport::Udp,
        };
        assert!((0..100).all(|_| !unlimited.refuses(GroupClient::by_address(&client), now)));
    }
}
