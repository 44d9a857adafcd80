//! The states of all zones.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use tracing::{error, warn};

use super::ZoneStatus;
use super::examination::SignatureAge;
use super::online::OnlineSigners;
use super::state::ZoneState;
use threads::sync::read;
use wire::{UnixTime, ZoneName};
use zone_plan::ZoneSpec;

/// A zone and its state.
pub(crate) struct ManagedZone {
    pub(crate) state: ZoneState,
    /// Whether the round in progress waits for the zone's load.
    pub(crate) awaited: bool,
    /// State of its signatures at the last check.
    pub(crate) signatures: SignatureAge,
}

impl ManagedZone {
    pub(crate) fn new(spec: ZoneSpec) -> Self {
        ManagedZone { state: ZoneState::new(spec), awaited: false, signatures: SignatureAge::default() }
    }
}

impl ManagedZone {
    /// Logs if the signatures of the version in service have come closer to expiry since the last check.
    pub(crate) fn look_at_signatures(&mut self, now: UnixTime) {
        let state = self.state.status();
        let Some(examined) = &state.examined else { return };
        let age = examined.signatures.map_or(SignatureAge::Valid, |first| first.age(now));
        let before = std::mem::replace(&mut self.signatures, age);
        let Some(first) = examined.signatures.filter(|_| age > before) else { return };
        let (name, hours) = (&state.spec.apex, first.at.abs_diff(now).as_secs() / 3600);
        match age {
            SignatureAge::Valid => {}
            SignatureAge::Expiring => warn!("zone {name}: a signature expires in {hours} hours, at {first}"),
            SignatureAge::Expired => {
                error!("zone {name}: a signature expired {hours} hours ago, at {first}")
            }
        }
    }
}

/// The states of all zones, shared with readers.
#[derive(Default)]
pub struct ZoneStates {
    pub(crate) zones: RwLock<HashMap<ZoneName, ManagedZone>>,
    pub(crate) online: Arc<OnlineSigners>,
}

impl ZoneStates {
    /// What signs the answers of zones that are signed while answering.
    pub fn online(&self) -> &Arc<OnlineSigners> {
        &self.online
    }

    /// The status of one zone.
    pub fn get(&self, apex: &ZoneName) -> Option<Arc<ZoneStatus>> {
        read(&self.zones).get(apex).map(|zone| Arc::clone(zone.state.status()))
    }
}
