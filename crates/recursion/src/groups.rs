//! Groups of clients: which response policy zones and lists count for each client.

use policy::SourceMask;
use transport::Client;

use query_path::access::{Access, AccessRule, TooManyRules};

/// A group of clients and the sources of rules that count for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientGroup {
    /// Which clients are in it; its action does not matter.
    pub clients: AccessRule,
    /// The sources.
    pub sources: SourceMask,
}

/// All groups. A client is in the first group that it matches.
#[derive(Clone, Debug)]
pub struct ClientGroups {
    clients: Access,
    groups: Box<[SourceMask]>,
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
        Ok(ClientGroups { clients, groups: groups.iter().map(|group| group.sources).collect(), others })
    }

    /// The sources for clients in no group.
    pub(crate) fn others(&self) -> &SourceMask {
        &self.others
    }

    /// Returns the sources for a client.
    #[inline]
    pub(crate) fn of(&self, client: &Client) -> &SourceMask {
        let group = self.clients.first(client).and_then(|number| self.groups.get(number));
        group.unwrap_or(&self.others)
    }

    /// Keeps these sources only, of all groups.
    pub(crate) fn retain(&mut self, sources: &SourceMask) {
        let all = self.groups.iter_mut().chain(std::iter::once(&mut self.others));
        all.for_each(|own| *own = own.and(sources));
    }
}
