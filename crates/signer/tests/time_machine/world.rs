//! What servers of the zone and of its parent have, and what caches may have of it: all versions that any
//! server may have sent within the TTL before now. [`World::check`] validates every combination of them.

use std::collections::BTreeSet;

use signer::rollover::KeyId;
use wire::rdata::view::SigAlgorithm;

/// RRsets of the zone that are signed one after the other.
pub(crate) const GROUPS: usize = 3;

/// A version of the zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ZoneVersion {
    /// Keys in the DNSKEY RRset.
    pub(crate) dnskeys: Vec<KeyId>,
    /// Keys that sign the DNSKEY RRset.
    pub(crate) key_signers: Vec<KeyId>,
    /// Keys that have signed each group of RRsets.
    pub(crate) groups: [Vec<KeyId>; GROUPS],
    /// TTL of DNSKEY and CDS.
    pub(crate) dnskey_ttl: u64,
    /// TTL of all else.
    pub(crate) data_ttl: u64,
    /// Keys with CDS records.
    pub(crate) cds: Vec<KeyId>,
    /// CDS asks for the deletion of the DS records.
    pub(crate) cds_delete: bool,
}

/// What was served from one time to another one.
#[derive(Clone, Debug)]
pub(crate) struct Served<T> {
    pub(crate) from: u64,
    /// When the next one came to the primary.
    pub(crate) until: Option<u64>,
    pub(crate) what: T,
}

/// All servers and caches.
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) zone: Vec<Served<ZoneVersion>>,
    pub(crate) ds: Vec<Served<Vec<KeyId>>>,
    /// Longest delays until all servers have a version, and the TTL of DS.
    pub(crate) zone_delay: u64,
    pub(crate) parent_delay: u64,
    pub(crate) ds_ttl: u64,
    /// The largest TTL of the version before.
    pub(crate) ttls_before: (u64, u64),
    /// Combinations that were validated.
    pub(crate) checked: u64,
}

impl World {
    pub(crate) fn new(
        now: u64,
        zone_delay: u64,
        parent_delay: u64,
        ds_ttl: u64,
        first: ZoneVersion,
    ) -> World {
        let ttls_before = (first.dnskey_ttl, first.data_ttl);
        let zone = vec![Served { from: now, until: None, what: first }];
        let ds = vec![Served { from: now, until: None, what: Vec::new() }];
        World { now, zone, ds, zone_delay, parent_delay, ds_ttl, ttls_before, checked: 0 }
    }

    pub(crate) fn zone_now(&self) -> &ZoneVersion {
        &self.zone.last().expect("a version").what
    }

    pub(crate) fn ds_now(&self) -> &Vec<KeyId> {
        &self.ds.last().expect("a version").what
    }

    /// Returns the DS RRset of a server of the parent that is this many seconds behind.
    pub(crate) fn ds_behind(&self, delay: u64) -> &Vec<KeyId> {
        let at = self.now.saturating_sub(delay);
        let version = self.ds.iter().rev().find(|version| version.from <= at);
        &version.unwrap_or(&self.ds[0]).what
    }

    pub(crate) fn publish(&mut self, version: ZoneVersion) -> Result<(), String> {
        self.ttls_before = (self.zone_now().dnskey_ttl, self.zone_now().data_ttl);
        self.zone.last_mut().expect("a version").until = Some(self.now);
        self.zone.push(Served { from: self.now, until: None, what: version });
        self.forget();
        self.check()
    }

    pub(crate) fn set_ds(&mut self, keys: Vec<KeyId>) -> Result<(), String> {
        self.ds.last_mut().expect("a version").until = Some(self.now);
        self.ds.push(Served { from: self.now, until: None, what: keys });
        self.forget();
        self.check()
    }

    /// Drops versions that no server and no cache has.
    pub(crate) fn forget(&mut self) {
        let (now, zone, parent, ds_ttl) = (self.now, self.zone_delay, self.parent_delay, self.ds_ttl);
        self.zone.retain(|version| {
            let ttl = version.what.dnskey_ttl.max(version.what.data_ttl);
            version.until.is_none_or(|until| now < until + zone + ttl)
        });
        self.ds.retain(|version| version.until.is_none_or(|until| now < until + parent + ds_ttl));
    }

    /// Validates all that caches may have now. What they may have grows only when a version is published.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        let now = self.now;
        let ds: BTreeSet<&Vec<KeyId>> = self.ds.iter().map(|version| &version.what).collect();
        let held = |version: &Served<ZoneVersion>, ttl: u64| {
            version.until.is_none_or(|until| now < until + self.zone_delay + ttl)
        };
        let keys: BTreeSet<(&Vec<KeyId>, &Vec<KeyId>)> = self
            .zone
            .iter()
            .filter(|version| held(version, version.what.dnskey_ttl))
            .map(|version| (&version.what.dnskeys, &version.what.key_signers))
            .collect();
        let mut checked = self.check_cds(&ds, &keys)?;
        for group in 0..GROUPS {
            let data: BTreeSet<&Vec<KeyId>> = self
                .zone
                .iter()
                .filter(|version| held(version, version.what.data_ttl))
                .map(|version| &version.what.groups[group])
                .collect();
            for ds in &ds {
                for (dnskeys, key_signers) in &keys {
                    for data in &data {
                        checked += 1;
                        validate(ds, dnskeys, key_signers, data)?;
                    }
                }
            }
        }
        self.checked += checked;
        Ok(())
    }
}

impl World {
    /// Validates the CDS RRsets that caches may have: the parent reads them. One signature is enough. Returns
    /// the number of combinations.
    fn check_cds(
        &self,
        ds: &BTreeSet<&Vec<KeyId>>,
        keys: &BTreeSet<(&Vec<KeyId>, &Vec<KeyId>)>,
    ) -> Result<u64, String> {
        let is_held = |version: &&Served<ZoneVersion>| {
            let until = |until: u64| self.now < until + self.zone_delay + version.what.dnskey_ttl;
            version.until.is_none_or(until) && (version.what.cds_delete || !version.what.cds.is_empty())
        };
        let signers: BTreeSet<&Vec<KeyId>> =
            self.zone.iter().filter(is_held).map(|version| &version.what.key_signers).collect();
        let is_secure = ds.iter().any(|ds| !ds.is_empty());
        let mut checked = 0;
        for (dnskeys, _) in keys.iter().filter(|_| is_secure) {
            for signers in &signers {
                checked += 1;
                if !signers.iter().any(|key| dnskeys.contains(key)) {
                    return Err(format!("bogus CDS: DNSKEY {dnskeys:?}, CDS signed by {signers:?}"));
                }
            }
        }
        Ok(checked)
    }
}

/// Validates an RRset as a strict validator does: RFC 4035 §2.2, and the algorithms of DS as in RFC 6840
/// §5.11 with protection against downgrades. A fault says whether a validator that accepts any path fails
/// as well.
fn validate(ds: &[KeyId], dnskeys: &[KeyId], key_signers: &[KeyId], data: &[KeyId]) -> Result<(), String> {
    if ds.is_empty() {
        return Ok(());
    }
    let of = |keys: &[KeyId]| keys.iter().map(|key| key.algorithm).collect::<BTreeSet<SigAlgorithm>>();
    let enters = |algorithm: SigAlgorithm| {
        let is_secure = |key: &&KeyId| dnskeys.contains(key) && key_signers.contains(key);
        ds.iter().filter(|key| key.algorithm == algorithm).any(|key| is_secure(&key))
    };
    let signs = |algorithm: SigAlgorithm, by: &[KeyId]| {
        by.iter().any(|key| key.algorithm == algorithm && dnskeys.contains(key))
    };
    let any_path = of(ds).into_iter().any(enters) && data.iter().any(|key| dnskeys.contains(key));
    let of_ds = of(ds).into_iter().all(|algorithm| enters(algorithm) && signs(algorithm, data));
    let of_keys =
        of(dnskeys).into_iter().all(|algorithm| signs(algorithm, data) && signs(algorithm, key_signers));
    let fault = match (any_path, of_ds, of_keys) {
        (true, true, true) => return Ok(()),
        (false, _, _) => "bogus",
        (true, false, _) => "bogus if all algorithms of DS are required",
        (true, true, false) => "not all algorithms of DNSKEY sign",
    };
    let list = |keys: &[KeyId]| keys.iter().map(KeyId::to_string).collect::<Vec<_>>().join(" ");
    Err(format!(
        "{fault}: DS {{{}}} DNSKEY {{{}}} signed by {{{}}} RRset signed by {{{}}}",
        list(ds),
        list(dnskeys),
        list(key_signers),
        list(data)
    ))
}
