//! Catalog zones (RFC 9432) of the plan: those whose members are served, and those that nomen produces.

use std::collections::HashMap;
use std::sync::Arc;

use config::zones::pattern::PathPattern;
use transfer::catalog_zone::Member;
use wire::ZoneName;

use crate::peers::ZonePeers;
use crate::queries::QueryGrants;
use crate::spec::{DifferenceRule, TextRules, ZoneSpec};
use crate::transfers::Grants;
use crate::updates::ZoneUpdates;

/// Common properties of members of a catalog zone.
#[derive(Debug)]
pub struct MemberTemplate {
    /// Their files; `None`: they are secondary zones.
    pub file: Option<PathPattern>,
    /// Their other servers, if they have any.
    pub peers: Option<Arc<ZonePeers>>,
    /// Who may transfer them.
    pub grants: Option<Grants>,
    /// Who may query them; `None`: every client.
    pub queries: Option<QueryGrants>,
    /// Rules for updates, if they may be changed.
    pub updates: Option<Arc<ZoneUpdates>>,
    /// Whether changes of their files are stored.
    pub differences: DifferenceRule,
    /// How their files are checked.
    pub rules: TextRules,
    /// The produced catalog zone that lists them, if any.
    pub listing: Option<Arc<Listing>>,
}

/// A catalog zone as configured.
#[derive(Debug, Clone)]
pub struct CatalogPlan {
    /// Its name.
    pub apex: ZoneName,
    /// For members without a template of their group.
    pub template: Arc<MemberTemplate>,
    /// For members of a group.
    pub groups: HashMap<Box<[u8]>, Arc<MemberTemplate>>,
    /// The largest share of members, from 0 to 1, that one version may remove.
    pub max_removed: f64,
    /// Whether queries and transfers of the catalog zone are answered.
    pub answers: bool,
}

impl CatalogPlan {
    /// Returns the template of a member: that of its first group with one, or the general one.
    pub fn template(&self, member: &Member) -> &MemberTemplate {
        member.groups.iter().find_map(|group| self.groups.get(group)).unwrap_or(&self.template)
    }
}

/// A zone to serve that is not from the configuration.
#[derive(Debug, Clone)]
pub struct PlannedZone {
    /// The zone.
    pub spec: ZoneSpec,
    /// Its other servers, if it has any.
    pub peers: Option<Arc<ZonePeers>>,
    /// Who may transfer it.
    pub grants: Option<Grants>,
    /// Who may query it; `None`: every client.
    pub queries: Option<QueryGrants>,
    /// Rules for updates, if it may be changed.
    pub updates: Option<Arc<ZoneUpdates>>,
    /// The produced catalog zone that lists it, if any.
    pub listing: Option<Arc<Listing>>,
}

/// The entry of a zone in a catalog zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The catalog zone.
    pub catalog: ZoneName,
    /// Its group there.
    pub group: Option<Box<[u8]>>,
    /// The catalog zone to which the zone is to move.
    pub new_owner: Option<ZoneName>,
}

/// A produced catalog zone as configured.
#[derive(Debug, Clone, PartialEq)]
pub struct ProducedPlan {
    /// Its name.
    pub apex: ZoneName,
    /// The largest share of members, from 0 to 1, that one version may remove.
    pub max_removed: f64,
}
