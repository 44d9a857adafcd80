//! Rules of who may query which zone, from the configuration.

use std::collections::HashMap;
use std::sync::Arc;

use wire::ZoneName;

use config::query_access::{QueryGrant, ZoneAccessKeys};
use config::table::read::At;

/// The clients of one zone, or of all zones of a folder, in the order of the configuration.
pub type QueryGrants = Arc<[QueryGrant]>;

/// Who may query which zone: the zones that not every client may query.
#[derive(Debug, Clone, Default)]
pub struct ZoneQueries {
    zones: HashMap<ZoneName, QueryGrants>,
}

impl ZoneQueries {
    /// Sets the clients of a zone; `None`: every client may query it.
    pub fn set(&mut self, apex: &ZoneName, grants: Option<QueryGrants>) {
        match grants {
            Some(grants) => drop(self.zones.insert(apex.clone(), grants)),
            None => drop(self.zones.remove(apex)),
        }
    }

    /// Returns the clients of a zone; `None`: every client may query it.
    pub fn get(&self, apex: &ZoneName) -> Option<&QueryGrants> {
        self.zones.get(apex)
    }

    /// Returns the zones that not every client may query.
    pub fn iter(&self) -> impl Iterator<Item = (&ZoneName, &QueryGrants)> {
        self.zones.iter()
    }

    /// Whether every client may query every zone.
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }
}

/// Makes the clients of zones.
#[derive(Default)]
pub(crate) struct QueryGrantMaker {
    /// Clients shared by many zones, by the address of their list.
    made: HashMap<*const At<QueryGrant>, QueryGrants>,
}

impl QueryGrantMaker {
    /// Returns the clients of a zone with these keys; its template's apply where it has none.
    pub(crate) fn grants(
        &mut self,
        own: Option<&ZoneAccessKeys>,
        template: Option<&ZoneAccessKeys>,
    ) -> Option<QueryGrants> {
        let list = own.into_iter().chain(template).find_map(|keys| keys.allow_query.value.as_ref())?;
        let grants = || list.iter().map(|grant| grant.value.clone()).collect();
        Some(Arc::clone(self.made.entry(list.as_ptr()).or_insert_with(grants)))
    }
}
