//! Groups of clients: which response policy zones and lists count for each client.

use policy::{GroupFacts, SourceMask};
use query_path::access::{Access, AccessRule, KeyMasks, TooManyRules};
use transport::Client;
use wire::{LowerName, LowerNameBuf};

/// A group of clients and the sources of rules that count for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientGroup {
    /// What rules of lists know of it.
    pub facts: GroupFacts,
    /// Which clients are in it; its action does not matter.
    pub clients: AccessRule,
    /// Clients whose queries these TSIG keys sign are in it, from any address, under the other conditions of
    /// `clients`.
    pub keys: Vec<LowerNameBuf>,
    /// The sources.
    pub sources: SourceMask,
}

/// A client, as groups see it.
#[derive(Clone, Copy, Debug)]
pub struct GroupClient<'q> {
    /// Its address and transport.
    pub client: &'q Client,
    /// The TSIG key that signed its query.
    pub key: Option<LowerName<'q>>,
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
    clients: Access,
    keys: KeyMasks,
    groups: Box<[(SourceMask, GroupFacts)]>,
    others: SourceMask,
}

impl ClientGroups {
    /// Compiles groups; `others` are the sources for clients in no group.
    ///
    /// # Errors
    /// There are more than 64.
    pub fn new(groups: &[ClientGroup], others: SourceMask) -> Result<Self, TooManyRules> {
        let clients: Vec<AccessRule> = groups.iter().map(|group| group.clients.clone()).collect();
        let clients = Access::new(&clients)?;
        let keys = KeyMasks::new(groups.iter().map(|group| &*group.keys));
        let groups = groups.iter().map(|group| (group.sources, group.facts.clone())).collect();
        Ok(ClientGroups { clients, keys, groups, others })
    }

    /// The sources for clients in no group.
    pub(crate) fn others(&self) -> &SourceMask {
        &self.others
    }

    /// Returns what counts for a client.
    #[inline]
    pub fn of(&self, GroupClient { client, key }: GroupClient<'_>) -> GroupView<'_> {
        let by_key = key.map_or(0, |key| self.keys.mask(key));
        match self.clients.first(client, by_key).and_then(|number| self.groups.get(number)) {
            Some((sources, facts)) => GroupView { sources, facts: Some(facts) },
            None => GroupView { sources: &self.others, facts: None },
        }
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
    use query_path::access::AccessAction;
    use transport::Transport;
    use wire::NameBuf;

    use super::*;

    fn name(text: &str) -> NameBuf {
        text.parse().expect("a name")
    }

    fn group(number: u8, from: &str, keys: &[&str]) -> ClientGroup {
        let from = from.split_whitespace().map(|text| text.parse().expect("a network")).collect();
        ClientGroup {
            facts: GroupFacts { name: format!("g{number}"), tags: Vec::new() },
            clients: AccessRule { action: AccessAction::Allow, from, local: None, transports: None },
            keys: keys.iter().map(|key| name(key).as_name().to_lower()).collect(),
            sources: SourceMask::default().with(SourceId(number)),
        }
    }

    #[test]
    fn a_client_is_in_the_first_group_by_address_or_key() {
        let groups = [
            group(0, "", &["phone.", "both."]),
            group(1, "192.0.2.0/24", &[]),
            group(2, "198.51.100.1", &["tablet.", "both."]),
        ];
        let groups = ClientGroups::new(&groups, SourceMask::ALL).expect("few");
        let of = |peer: [u8; 4], key: Option<&str>| {
            let client = Client {
                peer: (peer, 1).into(),
                local: ([127, 0, 0, 1], 53).into(),
                transport: Transport::Udp,
            };
            let key = key.map(|text| name(text).as_name().to_lower());
            let key = key.as_ref().map(LowerNameBuf::as_lower);
            groups.of(GroupClient { client: &client, key }).facts.map(|facts| facts.name.clone())
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
