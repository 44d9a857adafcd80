//! Zones of the database: the keys that apply to them.

use std::collections::HashMap;
use std::sync::Arc;

use wire::ZoneName;

use crate::catalogs::{MemberTemplate, PlannedZone};
use crate::spec::{Origin, ZoneSpec, ZoneText};

/// Keys of the zones of the database.
#[derive(Debug, Clone)]
pub struct DatabasePlan {
    /// For zones for which the database names no template.
    pub default: Arc<MemberTemplate>,
    /// The templates that the database may name. Those with `dnssec-policy` are not among them.
    pub templates: HashMap<String, Arc<MemberTemplate>>,
}

impl DatabasePlan {
    /// Returns a zone with the keys of this template.
    ///
    /// # Errors
    /// Why the template cannot be used.
    pub fn zone(&self, apex: &ZoneName, template: Option<&str>) -> Result<PlannedZone, String> {
        let template = match template {
            None => &self.default,
            Some(name) => self.templates.get(name).ok_or_else(|| {
                format!("the configuration has no template `{name}`, or it has a `dnssec-policy`")
            })?,
        };
        let MemberTemplate { peers, grants, queries, updates, listing, differences, rules, .. } = &**template;
        let (apex, text, origin) = (apex.clone(), ZoneText::Database, Origin::Database);
        let spec = ZoneSpec { apex, text, origin, differences: *differences, rules: *rules, signed: false };
        let (peers, grants, queries) = (peers.clone(), grants.clone(), queries.clone());
        Ok(PlannedZone { spec, peers, grants, queries, updates: updates.clone(), listing: listing.clone() })
    }
}
