//! From a zone's DS to its keys (RFC 4035 §5.2).

use dnssec::key::{self, KeyDigest, tag};
use wire::rdata::view::{Dnskey, Ds};
use wire::{Name, Ttl, UnixTime};

use crate::budget::{ValidationBudget, ValidationLimit};
use crate::outcome::{BogusReason, InsecureReason};
use crate::response::ReceivedSet;
use crate::settings::ValidationSettings;
use crate::signatures::{Checked, Checker};
use crate::trust::{SharedData, Trust};

/// The trust that follows from a proven DS RRset: delegated by the supported DS, or insecure if none is
/// supported. Unsupported DS do not affect the others (RFC 6840 §5.2, §5.11).
pub(crate) fn delegated(rdatas: &[Vec<u8>], settings: &ValidationSettings) -> Trust {
    let all = || rdatas.iter().filter_map(|rdata| Ds::read(rdata).ok().map(|ds| (ds, rdata)));
    let takes = |ds: &Ds<'_>| settings.takes_algorithm(ds.algorithm) && settings.takes_digest(ds.digest_type);
    // RFC 4509 §3: SHA-1 is ignored beside a better digest.
    let better = all().any(|(ds, _)| takes(&ds) && ds.digest_type != Ds::SHA1);
    let usable = all().filter(|(ds, _)| takes(ds) && !(better && ds.digest_type == Ds::SHA1));
    let usable: SharedData = usable.map(|(_, rdata)| rdata.clone()).collect();
    if !usable.is_empty() {
        Trust::Delegated(usable)
    } else if all().any(|(ds, _)| settings.takes_algorithm(ds.algorithm)) {
        Trust::Insecure(InsecureReason::UnsupportedDigest)
    } else {
        Trust::Insecure(InsecureReason::UnsupportedAlgorithm)
    }
}

/// Returns the keys of `zone` from its DNSKEY RRset, which must be signed by a key that matches a DS (RFC
/// 4035 §5.2).
///
/// # Errors
/// Why no such key has signed it.
pub(crate) fn keys(
    set: &ReceivedSet,
    zone: Name<'_>,
    ds: &[Vec<u8>],
    settings: &ValidationSettings,
    now: UnixTime,
    budget: &mut ValidationBudget,
) -> Result<(Trust, Ttl), BogusReason> {
    let checked = check_keys(set, zone, ds, settings, now, budget)?;
    let may_sign = |rdata: &&Vec<u8>| {
        Dnskey::read(rdata).is_ok_and(|key| key.is_zone_key() && settings.takes_algorithm(key.algorithm))
    };
    Ok((Trust::Secure(set.rdatas.iter().filter(may_sign).cloned().collect()), checked.ttl))
}

/// Checks that the DNSKEY RRset of `zone` is signed by one of its keys that matches a DS.
///
/// # Errors
/// Why no such key has signed it.
pub(crate) fn check_keys(
    set: &ReceivedSet,
    zone: Name<'_>,
    ds: &[Vec<u8>],
    settings: &ValidationSettings,
    now: UnixTime,
    budget: &mut ValidationBudget,
) -> Result<Checked, BogusReason> {
    if set.rdatas.len() > budget.limits().records_per_set {
        return Err(ValidationLimit::RecordsPerSet.into());
    }
    let entries = entry_points(set, zone, ds, budget)?;
    Checker { settings, now, zone, keys: &entries }.check(set, budget)
}

/// Digests of a zone's keys, each computed once, however many DS are compared with it.
struct Digests<'k> {
    zone: Name<'k>,
    /// RDATA of the key, the digest type, and the digest.
    made: Vec<(&'k [u8], u8, KeyDigest)>,
}

impl<'k> Digests<'k> {
    /// Whether a DS has the digest of a key.
    fn fits(&mut self, key: &Dnskey<'k>, ds: &Ds<'_>, budget: &mut ValidationBudget) -> bool {
        let same = |(of, digest_type, _): &&(&[u8], u8, KeyDigest)| {
            *of == key.rdata && *digest_type == ds.digest_type
        };
        if let Some((.., digest)) = self.made.iter().find(same) {
            return digest.as_ref() == ds.digest;
        }
        let Some(digest) = key::digest(self.zone, key, ds.digest_type) else { return false };
        budget.note_digest();
        let fits = digest.as_ref() == ds.digest;
        self.made.push((key.rdata, ds.digest_type, digest));
        fits
    }
}

/// RDATA of the keys in the set that match a DS and may sign.
fn entry_points(
    set: &ReceivedSet,
    zone: Name<'_>,
    ds: &[Vec<u8>],
    budget: &mut ValidationBudget,
) -> Result<Vec<Vec<u8>>, BogusReason> {
    let limits = *budget.limits();
    let mut digests = Digests { zone, made: Vec::new() };
    let keys = set.rdatas.iter().filter_map(|rdata| Dnskey::read(rdata).ok());
    let keys: Vec<(u16, Dnskey<'_>)> = keys.map(|key| (tag(&key), key)).collect();
    let (mut entries, mut reason) = (Vec::<Vec<u8>>::new(), BogusReason::NoDnskey);
    for ds in ds.iter().take(limits.ds_per_zone).filter_map(|rdata| Ds::read(rdata).ok()) {
        let mut tagged = keys.iter().filter(|(tag, k)| *tag == ds.key_tag && k.algorithm == ds.algorithm);
        for (_, key) in tagged.by_ref().take(limits.keys_per_tag) {
            if !digests.fits(key, &ds, budget) {
                continue;
            }
            match key.is_zone_key() {
                true if entries.iter().any(|known| known == key.rdata) => {}
                true => entries.push(key.rdata.to_vec()),
                false => reason = BogusReason::NoZoneKey,
            }
        }
        if tagged.next().is_some() {
            reason = reason.or_closer(ValidationLimit::KeysPerTag.into());
        }
    }
    match entries.is_empty() {
        false => Ok(entries),
        true if ds.len() > limits.ds_per_zone => Err(ValidationLimit::DsPerZone.into()),
        true => Err(reason),
    }
}
