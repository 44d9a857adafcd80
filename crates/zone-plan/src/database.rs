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
    /// The templates that the database may name.
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
            Some(name) => {
                let template = self.templates.get(name);
                template.ok_or_else(|| format!("the configuration has no template `{name}`"))?
            }
        };
        let MemberTemplate { peers, grants, queries, updates, listing, differences, rules, .. } = &**template;
        let (apex, text, origin) = (apex.clone(), ZoneText::Database, Origin::Database);
        let signed = updates.as_ref().is_some_and(|updates| updates.is_signed());
        let spec = ZoneSpec { apex, text, origin, differences: *differences, rules: *rules, signed };
        let (peers, grants, queries) = (peers.clone(), grants.clone(), queries.clone());
        Ok(PlannedZone { spec, peers, grants, queries, updates: updates.clone(), listing: listing.clone() })
    }
}
