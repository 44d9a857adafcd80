//! [`OnlineSigners`]: what signs the answers of the zones whose policy has `online`. The thread that
//! maintains a zone sets the keys; the publishing thread gives the signer to the zone's entry before the
//! first version that needs it goes into service.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, RwLock};

use signer::denial::DenialMethod;
use signer::online::OnlineSigner;
use threads::sync::{read, write};
use transport::unix_now;
use wire::ZoneName;
use zone::Zone;
use zone::catalog::{AnswerSigner, ZoneEntry};
use zone_plan::UpdateRules;

/// The signers of answers, by zone.
#[derive(Default)]
pub struct OnlineSigners {
    zones: RwLock<HashMap<ZoneName, Arc<OnlineSigner>>>,
}

/// Counters of the signatures of answers of all zones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OnlineTotals {
    /// RRsets whose signatures were cached.
    pub hits: u64,
    /// Signatures made.
    pub made: u64,
    /// RRsets whose signatures were evicted.
    pub evicted: u64,
    /// RRsets that were not signed because of the limit.
    pub refused: u64,
    /// Bytes of cached signatures.
    pub bytes: u64,
}

impl OnlineSigners {
    /// Takes the policies of all zones. A zone keeps its signer under another policy: the version in service
    /// may need it. A zone that is no longer signed here loses the keys of its signer.
    pub(crate) fn adopt(&self, rules: &UpdateRules) {
        for (apex, updates) in rules.iter() {
            let denial = updates.signing.as_ref().map(|signing| &signing.policy.denial);
            if matches!(denial, Some(DenialMethod::Online(_))) && self.of(apex).is_none() {
                let signer = Arc::new(OnlineSigner::new(apex.as_lower(), unix_now));
                write(&self.zones).insert(apex.clone(), signer);
            }
        }
        for (apex, signer) in read(&self.zones).iter() {
            if rules.get(apex).is_none_or(|updates| updates.signing.is_none()) {
                signer.clear();
            }
        }
    }

    /// Returns the signer of a zone.
    pub(crate) fn of(&self, apex: &ZoneName) -> Option<Arc<OnlineSigner>> {
        read(&self.zones).get(apex).cloned()
    }

    /// Gives their signers to the entries of versions that are about to go into service.
    pub(crate) fn before_service(
        &self,
        zones: &[(ZoneName, Arc<Zone>)],
        entry_of: &dyn Fn(&ZoneName) -> Option<ZoneEntry>,
    ) {
        for (apex, _) in zones.iter().filter(|(_, zone)| zone.is_chainless()) {
            if let (Some(signer), Some(entry)) = (self.of(apex), entry_of(apex)) {
                let signer: Arc<dyn AnswerSigner> = signer;
                entry.set_signer(signer);
            }
        }
    }

    /// Returns the counters of all zones; `None`: no zone has a signer.
    pub fn totals(&self) -> Option<OnlineTotals> {
        let zones = read(&self.zones);
        let mut totals = OnlineTotals::default();
        for signer in zones.values() {
            let counts = signer.counts();
            totals.hits += counts.hits.load(Relaxed);
            totals.made += counts.made.load(Relaxed);
            totals.evicted += counts.evicted.load(Relaxed);
            totals.refused += counts.refused.load(Relaxed);
            totals.bytes += signer.cached_bytes() as u64;
        }
        (!zones.is_empty()).then_some(totals)
    }
}
