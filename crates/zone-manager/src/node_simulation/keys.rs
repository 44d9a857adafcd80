//! Keys in the simulation of nodes: the database's part of them, the parent's DS records, and what each
//! signed version must have.

use std::sync::Arc;
use std::time::Duration;

use ::database::{KeyCommit, ZoneKeySet};
use authority::audit::audit;
use signer::policy::{DnssecPolicy, KeyAlgorithm};
use signer::rollover::KeyId;
use signer::scan::SignatureScan;
use wire::rdata::view::SigAlgorithm;
use wire::{Ttl, UnixTime};
use zone::Zone;
use zone_plan::ZoneSigning;

/// How long caches may have a DS record.
const DS_TTL: Duration = Duration::from_secs(3600);

/// The policy of the zones: its waits are short beside the steps of the clock.
pub(super) fn signing() -> Arc<ZoneSigning> {
    let ed25519 = KeyAlgorithm { algorithm: SigAlgorithm::ED25519, bits: 0 };
    let policy = DnssecPolicy {
        ksk: ed25519,
        zsk: ed25519,
        dnskey_ttl: Ttl::from_secs(600),
        publish_safety: Duration::from_secs(60),
        retire_safety: Duration::from_secs(60),
        parent_propagation_delay: Duration::from_secs(60),
        parent_ds_ttl: Ttl::from_secs(3600),
        purge_keys: Some(Duration::from_secs(86_400)),
        ..DnssecPolicy::default()
    };
    Arc::new(ZoneSigning {
        policy: Arc::new(policy),
        parental_servers: Vec::new(),
        ds_push: zone_plan::DsPush::Off,
    })
}

/// The keys of one zone in the model of the database, and at its parent.
#[derive(Default)]
pub(super) struct ModelKeys {
    pub(super) set: Arc<ZoneKeySet>,
    /// DS records that caches may have, until this time; `None`: the parent has it.
    ds: Vec<(KeyId, Option<UnixTime>)>,
}

impl ModelKeys {
    /// Whether a commit was decided with these keys.
    pub(super) fn fit(&self, commit: Option<&KeyCommit>) -> bool {
        commit.is_none_or(|commit| commit.before.stamp == self.set.version.stamp)
    }

    /// Takes the keys of a commit. Returns whether they changed.
    pub(super) fn take(&mut self, commit: Option<&KeyCommit>) -> bool {
        let Some(after) = commit.and_then(|commit| commit.after.as_ref()) else { return false };
        assert_eq!(after.version.number, self.set.version.number + 1);
        self.set = Arc::clone(after);
        true
    }

    /// The operator replaces the DS records at the parent by that of this key.
    pub(super) fn publish_ds(&mut self, id: KeyId, now: UnixTime) {
        let until = now.saturating_add(DS_TTL);
        self.ds.iter_mut().for_each(|(_, ended)| *ended = ended.or(Some(until)));
        self.ds.retain(|(other, _)| *other != id);
        self.ds.push((id, None));
    }

    /// Checks a version that was committed: it is signed by keys that the database has, and DS records lead
    /// to it.
    pub(super) fn check(&self, version: &Zone, now: UnixTime) {
        let scan = SignatureScan::of(version, now);
        let has_ds = self.ds.iter().any(|(_, until)| until.is_none_or(|until| until > now));
        if !version.is_signed() {
            return assert!(!has_ds, "an unsigned version, and a DS record");
        }
        let mut findings = Vec::new();
        audit(version, now.to_serial(), &mut |finding| findings.push(format!("{finding:?}")));
        assert!(findings.is_empty(), "serial {}: {findings:?}", version.serial());
        for ((algorithm, tag), _) in scan.tagged_keys() {
            let end = format!("+{:03}+{tag:05}", algorithm.0);
            let is_known = self.set.keys.iter().any(|key| key.name.ends_with(&end));
            assert!(is_known, "key {tag} is published, and the database does not have it");
        }
        for (id, until) in &self.ds {
            let is_cached = until.is_none_or(|until| until > now);
            let signs = scan.of_keys.contains(&(id.algorithm, id.tag));
            assert!(!is_cached || signs, "serial {}: the DS of {id} leads nowhere", version.serial());
        }
    }
}
