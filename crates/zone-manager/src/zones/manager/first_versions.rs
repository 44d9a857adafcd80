//! First versions of zones that are to be created in the database.

use std::ops::ControlFlow;
use std::sync::Arc;

use transport::unix_now;
use wire::Serial;
use zone::scan::{Limits, TextSource};
use zone::{LoadConfig, Zone};

use super::members::unfit;
use super::{ReloadFault, ZoneManager};
use crate::zones::created::ZoneCreation;

/// Why a zone with primaries is not created in the database.
const NO_PRIMARIES: &str = "a zone of the database has records, and no primaries";

impl ZoneManager {
    /// Returns the first version of a zone that is to be created in the database.
    ///
    /// # Errors
    /// This node would not serve the zone, or its records make no zone.
    pub(super) fn first_version(&self, zone: &ZoneCreation) -> Result<Arc<Zone>, ReloadFault> {
        let joining = &self.joining;
        let (Some(plan), Some(database)) =
            (&joining.database, self.executor.changes.as_ref().and_then(|changes| changes.database()))
        else {
            return Err(ReloadFault::NoState);
        };
        let apex = &zone.apex;
        if let Some(state) = self.table.get(apex) {
            return Err(ReloadFault::Served(state.spec.origin.clone()));
        }
        if database.id(apex).is_some() {
            return Err(unfit(
                ["the database has the zone, and this node does not serve it".into()].into_iter(),
            ));
        }
        joining.check_view(apex)?;
        let planned = plan.zone(apex, zone.template.as_deref()).map_err(|why| unfit([why].into_iter()))?;
        let policy = planned.updates.as_ref().map(|updates| updates.serial).unwrap_or_default();
        let text = zone.text(policy.next(Serial(0), unix_now())).map_err(|why| unfit([why].into_iter()))?;
        let text = text.ok_or_else(|| unfit([NO_PRIMARIES.into()].into_iter()))?;
        let limits = Limits { text: planned.spec.rules.most_text(), ..Limits::default() };
        let config = LoadConfig { limits, ..LoadConfig::default() };
        let source = TextSource::bytes("records", text.as_bytes());
        let loaded =
            zone::load::load(source, apex.as_name(), &self.key, &config, |_| ControlFlow::Continue(()));
        let version = loaded.map_err(|fault| unfit([fault.to_string()].into_iter()))?.zone;
        // An earlier zone of this name may have left one.
        self.forget_document(apex)?;
        planned.spec.objection(&version).map_or(Ok(Arc::new(version)), |why| Err(ReloadFault::Zone(why)))
    }
}
