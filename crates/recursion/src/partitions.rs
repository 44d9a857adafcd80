//! Partitions: which clients have which rules of their own for sending queries to other servers.

use std::sync::Arc;

use query_path::access::TooManyRules;
use query_path::{GroupClient, GroupMatcher, GroupRule};
use resolver::Partition;
use wire::Prefix;
use wire::hash::HashKey;

use crate::cache_views::Domain;
use crate::local::{LocalConfig, LocalNames};

/// A group of clients and its partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionedGroup {
    /// Its name, for operators.
    pub name: String,
    /// Which clients are in it.
    pub rule: GroupRule,
    /// The partition. Groups with the same rules share one.
    pub partition: Partition,
}

/// The partitions of all clients. A client is in the first group that it matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionsConfig {
    /// The groups.
    pub groups: Vec<PartitionedGroup>,
    /// The partition of clients in no group.
    pub others: Partition,
    /// Networks whose clients are trusted to say in options for which client they ask.
    pub trusted: Vec<Prefix>,
}

impl PartitionsConfig {
    /// Returns the names of the groups in a partition; `others` is the name of the clients in no group.
    pub fn names<'c>(&'c self, of: Partition, others: &'c str) -> Vec<&'c str> {
        let groups = self.groups.iter().map(|group| (&*group.name, group.partition));
        groups.chain([(others, self.others)]).filter(|(_, own)| *own == of).map(|(name, _)| name).collect()
    }

    /// Whether no client has rules of its own.
    pub fn is_empty(&self) -> bool {
        self.others.is_shared() && self.groups.iter().all(|group| group.partition.is_shared())
    }
}

/// The partitions of all clients, compiled.
pub(crate) struct Partitions {
    matcher: GroupMatcher,
    groups: Box<[Partition]>,
    others: Partition,
    /// Local names of partitions for which others are local: a special-use name that a rule is for is not.
    local: Box<[(Partition, Arc<LocalNames>)]>,
}

impl Partitions {
    /// Compiles partitions; `None` if no client has rules of its own.
    ///
    /// # Errors
    /// There are more than 64 groups.
    pub(crate) fn new(
        config: &PartitionsConfig,
        domains: &[Domain],
        local: &LocalConfig,
        key: &HashKey,
    ) -> Result<Option<Partitions>, TooManyRules> {
        if config.is_empty() && domains.iter().all(|domain| domain.partition.is_shared()) {
            return Ok(None);
        }
        let rules: Vec<GroupRule> = config.groups.iter().map(|group| group.rule.clone()).collect();
        let groups: Box<[Partition]> = config.groups.iter().map(|group| group.partition).collect();
        // Some may be those of no group at present.
        let mut all: Vec<Partition> = domains.iter().map(|domain| domain.partition).collect();
        all.sort_unstable();
        all.dedup();
        let own_local = |partition: Partition| {
            let own = domains.iter().filter(|domain| domain.partition == partition);
            let own = own.map(|domain| domain.name.as_name().to_lower());
            let forwarded = local.forwarded.iter().copied().chain(own).collect();
            let with_own = LocalConfig { forwarded, ..local.clone() };
            let differs = !partition.is_shared() && with_own.special_names() != local.special_names();
            differs.then(|| (partition, Arc::new(LocalNames::new(&with_own, key))))
        };
        Ok(Some(Partitions {
            matcher: GroupMatcher::new(&rules, &config.trusted)?,
            local: all.into_iter().filter_map(own_local).collect(),
            groups,
            others: config.others,
        }))
    }

    /// Returns the partition of a client.
    #[inline]
    pub(crate) fn of(&self, client: GroupClient<'_>) -> Partition {
        let group = self.matcher.first(client).and_then(|number| self.groups.get(number));
        group.copied().unwrap_or(self.others)
    }

    /// The partition of clients in no group.
    pub(crate) fn others(&self) -> Partition {
        self.others
    }

    /// Returns the local names of a partition, if it has others than clients without rules of their own.
    pub(crate) fn local(&self, partition: Partition) -> Option<&LocalNames> {
        self.local.iter().find(|(own, _)| *own == partition).map(|(_, local)| &**local)
    }
}
