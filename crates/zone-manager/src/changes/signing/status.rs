//! [`SigningStatus`]: the keys and signatures of a zone, for operators.

use signer::denial::DenialMethod;
use signer::policy::SigningGoal;
use signer::rollover::{Facts, KeyId, KeyState, RecordTrack};
use wire::UnixTime;
use zone::catalog::OnlineDenial;

use super::{OfflineStatus, ZoneKeyEvent, ZoneSigner};

/// The keys and signatures of a zone that is signed here.
#[derive(Debug, Clone, Default)]
pub struct SigningStatus {
    /// The name of its policy.
    pub policy: String,
    /// Its keys, those in use first.
    pub keys: Vec<ZoneKeyStatus>,
    /// The first expiration of a signature, if it is known.
    pub earliest: Option<UnixTime>,
    /// When the next look at keys and signatures is due.
    pub next: UnixTime,
    /// Signatures made since the start.
    pub signatures: u64,
    /// What the zone as a whole waits for.
    pub waits: Vec<String>,
    /// Whether the policy wants the zone to be unsigned.
    pub is_insecure: bool,
    /// Its responses, if its KSK is offline.
    pub offline: Option<OfflineStatus>,
    /// How answers deny names and types, if the policy has the zone signed while answering.
    pub online: Option<OnlineDenial>,
    /// Why the last look failed.
    pub fault: Option<String>,
}

/// One key of a zone.
#[derive(Debug, Clone)]
pub struct ZoneKeyStatus {
    /// The key.
    pub id: KeyId,
    /// Its DNSKEY record.
    pub dnskey: Vec<u8>,
    /// Its state.
    pub state: KeyState,
    /// Whether the parent is to have its DS record.
    pub wants_ds: bool,
    /// What it waits for, and until when if that is known.
    pub waits: Option<(String, Option<UnixTime>)>,
}

impl ZoneKeyStatus {
    /// Its records by name, each with its state.
    pub fn records(&self) -> [(&'static str, &RecordTrack); 4] {
        let state = &self.state;
        [
            ("dnskey", &state.dnskey),
            ("key signature", &state.krrsig),
            ("zone signatures", &state.zrrsig),
            ("ds", &state.ds),
        ]
    }
}

impl ZoneSigner {
    /// Predicts the events to come.
    pub(super) fn timeline(&self, now: UnixTime) -> Vec<ZoneKeyEvent> {
        let facts = Facts { now, ..self.facts.clone() };
        let offline = self.offline.as_ref().map(|offline| &offline.keys);
        let events = self.ring.timeline(&self.rules.policy, &facts, offline);
        events.into_iter().map(|(at, key, event)| ZoneKeyEvent { at, key, event }).collect()
    }

    /// Returns what operators see.
    pub(in super::super) fn status(&self, fault: Option<&str>, next: UnixTime) -> SigningStatus {
        let mut keys: Vec<ZoneKeyStatus> = self
            .ring
            .status()
            .into_iter()
            .map(|status| ZoneKeyStatus {
                id: status.key.id,
                dnskey: status.key.dnskey.clone(),
                state: status.key.state.clone(),
                wants_ds: self.plan.parent_ds.contains(&status.key.id),
                waits: status.wait.map(|wait| (wait.cause.to_string(), wait.until)),
            })
            .collect();
        keys.sort_by_key(|key| (key.state.is_hidden(), key.state.role, key.id));
        let of_zone = self.plan.waits.iter().filter(|wait| wait.key.is_none());
        SigningStatus {
            policy: self.rules.policy.name.clone(),
            keys,
            earliest: [self.earliest, self.offline.as_ref().and_then(|offline| offline.covered)]
                .into_iter()
                .flatten()
                .min(),
            offline: self.offline_status(),
            online: match self.rules.policy.denial {
                DenialMethod::Online(denial) => Some(denial),
                DenialMethod::Nsec | DenialMethod::Nsec3(_) => None,
            },
            next,
            signatures: self.made,
            waits: of_zone.map(|wait| wait.cause.to_string()).collect(),
            is_insecure: self.rules.policy.goal == SigningGoal::Insecure,
            fault: fault.map(str::to_owned),
        }
    }
}
