//! Groups of clients: which response policy zones and lists count for each client.

use std::sync::Arc;

use policy::{GroupFacts, SourceMask};
use query_path::access::TooManyRules;
use query_path::{GroupClient, GroupMatcher, GroupRule, RuleAction, RuleNote, SourceName};
use wire::Prefix;

use crate::count::SharedCount;

/// A group of clients and the sources of rules that count for it.
#[derive(Clone, Debug)]
pub struct ClientGroup {
    /// What rules of lists know of it.
    pub facts: GroupFacts,
    /// Which clients are in it.
    pub rule: GroupRule,
    /// The sources.
    pub sources: SourceMask,
    /// The numbers of its queries that rules decided.
    pub counts: Arc<GroupCounts>,
}

/// Clients in no group.
#[derive(Clone, Debug)]
pub struct OtherClients {
    /// Their name, in logs.
    pub name: String,
    /// The sources of rules that count for them.
    pub sources: SourceMask,
    /// The numbers of their queries that rules decided.
    pub counts: Arc<GroupCounts>,
}

/// The numbers of queries of a group that rules decided, by the action.
#[derive(Debug, Default)]
pub struct GroupCounts([SharedCount; RuleAction::ALL.len()]);

impl GroupCounts {
    /// Returns the counter of an action.
    pub fn of(&self, action: RuleAction) -> &SharedCount {
        &self.0[action.index()]
    }
}

/// What counts for a client.
#[derive(Clone, Copy, Debug)]
pub struct GroupView<'g> {
    /// The sources of rules.
    pub sources: &'g SourceMask,
    /// What rules of lists know of its group, if it is in one.
    pub facts: Option<&'g GroupFacts>,
}

/// All groups. A client is in the first group that it matches.
#[derive(Clone, Debug)]
pub struct ClientGroups {
    matcher: GroupMatcher,
    groups: Box<[(SourceMask, GroupFacts)]>,
    others: SourceMask,
    /// The name of each group and its counters; the last is that of clients in none.
    counts: Box<[(SourceName, Arc<GroupCounts>)]>,
}

impl ClientGroups {
    /// Compiles groups. Options about clients count in queries from `trusted` networks.
    ///
    /// # Errors
    /// There are more than 64.
    pub fn new(
        groups: &[ClientGroup],
        others: &OtherClients,
        trusted: &[Prefix],
    ) -> Result<Self, TooManyRules> {
        let rules: Vec<GroupRule> = groups.iter().map(|group| group.rule.clone()).collect();
        let matcher = GroupMatcher::new(&rules, trusted)?;
        let of_groups = groups.iter().map(|group| (SourceName::new(&group.facts.name), &group.counts));
        let all = of_groups.chain([(SourceName::new(&others.name), &others.counts)]);
        let counts = all.map(|(name, counts)| (name, Arc::clone(counts))).collect();
        let groups = groups.iter().map(|group| (group.sources, group.facts.clone())).collect();
        Ok(ClientGroups { matcher, groups, others: others.sources, counts })
    }

    /// The sources for clients in no group.
    pub(crate) fn others(&self) -> &SourceMask {
        &self.others
    }

    /// Returns what counts for a client.
    #[inline]
    pub fn of(&self, client: GroupClient<'_>) -> GroupView<'_> {
        match self.matcher.first(client).and_then(|number| self.groups.get(number)) {
            Some((sources, facts)) => GroupView { sources, facts: Some(facts) },
            None => GroupView { sources: &self.others, facts: None },
        }
    }

    /// Counts a query that a rule decides, and returns the note with the client's group.
    #[cold]
    pub(crate) fn counted(&self, client: GroupClient<'_>, note: RuleNote) -> RuleNote {
        let number = self.matcher.first(client).unwrap_or(self.groups.len());
        let Some((name, counts)) = self.counts.get(number) else { return note };
        counts.of(note.action).add();
        RuleNote { group: Some(*name), ..note }
    }

    /// Keeps these sources only, of all groups.
    pub(crate) fn retain(&mut self, sources: &SourceMask) {
        let own = self.groups.iter_mut().map(|(own, _)| own);
        own.chain(std::iter::once(&mut self.others)).for_each(|own| *own = own.and(sources));
    }
}

#[cfg(test)]
mod tests {
    use policy::SourceId;
    use query_path::access::{AccessAction, AccessRule};
    use transport::{Client, Transport};
    use wire::{LowerNameBuf, NameBuf};

    use super::*;

    fn name(text: &str) -> NameBuf {
        text.parse().expect("a name")
    }

    fn group(number: u8, from: &str, keys: &[&str]) -> ClientGroup {
        let from = from.split_whitespace().map(|text| text.parse().expect("a network")).collect();
        ClientGroup {
            facts: GroupFacts { name: format!("g{number}"), tags: Vec::new() },
            rule: GroupRule::from(query_path::GroupPart {
                clients: AccessRule { action: AccessAction::Allow, from, local: None, transports: None },
                keys: keys.iter().map(|key| name(key).as_name().to_lower()).collect(),
                ids: Vec::new(),
            }),
            sources: SourceMask::default().with(SourceId(number)),
            counts: Arc::default(),
        }
    }

    #[test]
    fn a_client_is_in_the_first_group_by_address_or_key() {
        let groups = [
            group(0, "", &["phone.", "both."]),
            group(1, "192.0.2.0/24", &[]),
            group(2, "198.51.100.1", &["tablet.", "both."]),
        ];
        let others =
            OtherClients { name: "default".into(), sources: SourceMask::ALL, counts: Arc::default() };
        let groups = ClientGroups::new(&groups, &others, &[]).expect("few");
        let of = |peer: [u8; 4], key: Option<&str>| {
            let client = Client {
                peer: (peer, 1).into(),
                local: ([127, 0, 0, 1], 53).into(),
                transport: Transport::Udp,
            };
            let key = key.map(|text| name(text).as_name().to_lower());
            let key = key.as_ref().map(LowerNameBuf::as_lower);
            groups
                .of(GroupClient { client: &client, key, ids: None, name: None })
                .facts
                .map(|facts| facts.name.clone())
        };
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(of([192, 0, 2, 1], None), named("g1"));
        assert_eq!(of([192, 0, 2, 1], Some("PHONE.")), named("g0"), "names of keys have no letter case");
        assert_eq!(of([192, 0, 2, 1], Some("tablet.")), named("g1"), "the first");
        assert_eq!(of([203, 0, 113, 1], Some("tablet.")), named("g2"));
        assert_eq!(of([203, 0, 113, 1], Some("both.")), named("g0"));
        assert_eq!(of([203, 0, 113, 1], Some("other.")), None);
        assert_eq!(of([203, 0, 113, 1], None), None);
    }
}
