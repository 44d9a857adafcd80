//! Signs changes of a zone: [`sign_change`] extends a change of the data by signatures and chain, [`refresh`]
//! renews signatures, [`unsign`] removes all that signing adds.
//!
//! A step from one signed version to the next costs signatures and chain records for the names that change,
//! however many names the zone has:
//!
//! 1. `plain`: the change of the data, without the records that signing makes, and with the apex sets that
//!    keys and policy want. Its result has the right names, cuts and empty non-terminals, but outdated
//!    signatures and chain.
//! 2. `members`, `relink`: which names come into the chain and leave it, and which members have another next
//!    member because of that.
//! 3. `ledger`: at each of these names, the records that must go, and the signatures that are missing.
//!    Signatures over records that did not change stay.
//! 4. The change of the version before is the first change and what the ledger has.
//!
//! | file | holds |
//! |---|---|
//! | `plain.rs` | the change of the data and of the apex sets |
//! | `step.rs` | the step |
//! | `members.rs` | the names of the NSEC3 chain that come and go |
//! | `relink.rs` | the members of a chain whose next member changes |
//! | `ledger.rs` | signatures and chain records that go and come |
//! | `refresh.rs` | passes that renew signatures |
//!
//! # What costs more
//!
//! - Another denial method, other NSEC3 parameters, or another TTL of negative answers: all records of the
//!   chain change. The whole zone is signed.
//! - A cut or a DNAME that comes or goes: all names below it change.
//! - ZONEMD: the digest is over the whole zone, which each step reads once.
//! - Opt-out: where the last secure name below an empty non-terminal goes, all names below it are visited;
//!   none is signed for it.

mod ledger;
mod members;
mod plain;
mod refresh;
mod relink;
mod step;

use wire::{LowerName, Serial, Type};
use zone::Zone;
use zone::store::{ChangeSet, ChangedRecord, Node, NodeFlags, diff, diff_names};

use crate::keyset::ZoneKeys;
use crate::zone::{SignFault, SigningCounts, SigningPolicy, is_made, is_renewed, sign_zone};
use plain::{cleaned, drop_emptied, filtered, serial_change};
pub use refresh::{Refreshed, refresh};
use step::{Obstacle, step};

/// Names that [`unsigned_difference`] compares at a time.
const PART: usize = 1024;

/// What a version is signed with. A key is identified by algorithm and tag: two keys of one algorithm with
/// the same tag must not follow each other.
#[derive(Clone, Copy, Debug)]
pub struct Signing<'a> {
    /// The keys. All DNSKEY records of the version are theirs, the foreign ones included.
    pub keys: &'a ZoneKeys,
    /// Period, denial method and apex records. [`SigningPolicy::serial`] is not used.
    pub policy: &'a SigningPolicy,
    /// Most threads that sign at once.
    pub threads: usize,
}

/// A version and the change that leads to it.
#[derive(Debug)]
pub struct SignedStep {
    /// The version.
    pub zone: Zone,
    /// The change from the version before. The SOA comes first.
    pub change: ChangeSet,
    /// What was made and dropped.
    pub counts: SigningCounts,
}

/// Extends a change of a zone's data to the change to a signed version. `zone` is the version before, signed
/// by this crate or unsigned. `change` has the serials and the change of the SOA; it need not have more.
///
/// Of `change`, records that signing makes are ignored: RRSIG, NSEC, NSEC3, NSEC3PARAM, and at the apex
/// DNSKEY, ZONEMD, and CDS and CDNSKEY if the policy has them [synchronized](SigningPolicy::sync). Signatures
/// over RRsets that do not change stay, if they are by the keys that sign these RRsets. If the zone is not
/// signed with the denial method of the policy, everything is signed.
///
/// Where the policy does not have CDS and CDNSKEY records synchronized, those of the zone are data like any
/// other: they stay if an earlier policy added them.
///
/// # Errors
/// [`SignFault`].
pub fn sign_change(zone: &Zone, change: &ChangeSet, signing: &Signing<'_>) -> Result<SignedStep, SignFault> {
    let plain = cleaned(change, zone.apex().as_name(), signing.policy);
    match step(zone, plain, signing, None) {
        Ok(step) => Ok(step),
        Err(Obstacle::OtherChain) => sign_whole(zone, change, signing),
        Err(Obstacle::Fault(fault)) => Err(fault),
    }
}

/// As [`sign_change`], but signs everything.
fn sign_whole(zone: &Zone, change: &ChangeSet, signing: &Signing<'_>) -> Result<SignedStep, SignFault> {
    let mut plain = cleaned(change, zone.apex().as_name(), signing.policy);
    drop_emptied(zone, &mut plain);
    let plain = zone.apply(&plain)?;
    let policy = SigningPolicy { serial: None, ..signing.policy.clone() };
    let signed = sign_zone(&plain, signing.keys, &policy, signing.threads)?;
    let change = diff(zone, &signed.zone);
    Ok(SignedStep { zone: zone.apply(&change)?, change, counts: signed.counts })
}

/// Removes all that signing adds, in one change: RRSIG, NSEC, NSEC3 and NSEC3PARAM records, and DNSKEY, CDS,
/// CDNSKEY and ZONEMD records at the apex, but those of these four types that are data of the zone: `is_data`
/// decides by type and RDATA. `after` is the serial of the new version.
///
/// # Errors
/// [`SignFault`].
pub fn unsign(
    zone: &Zone,
    after: Serial,
    is_data: &dyn Fn(Type, &[u8]) -> bool,
) -> Result<SignedStep, SignFault> {
    let mut change = serial_change(zone, after)?;
    let mut counts = SigningCounts::default();
    for node in zone.iter() {
        let is_apex = node.owner() == zone.apex();
        for set in node.rrsets() {
            let of_apex = [Type::DNSKEY, Type::CDS, Type::CDNSKEY, Type::ZONEMD];
            let goes = is_made(set.rtype()) || is_apex && of_apex.contains(&set.rtype());
            let records = set.rdatas().filter(|_| goes).map(|record| (set.rtype(), record));
            for (rtype, record) in records.chain(set.sig_rdatas().map(|sig| (Type::RRSIG, sig))) {
                let mut rdata = Vec::new();
                record.copy_to(&mut rdata);
                if !is_made(rtype) && is_data(rtype, &rdata) {
                    continue;
                }
                change.removed.push(node.written_owner().as_name(), rtype, record.ttl(), &rdata);
                counts.dropped += u64::from(is_made(rtype));
            }
        }
    }
    Ok(SignedStep { zone: zone.apply(&change)?, change, counts })
}

/// Returns the change from the data of a signed zone to those of `wanted`, such as a new version of its file:
/// what [`diff`] returns without the records that signing makes. These are RRSIG, NSEC, NSEC3 and NSEC3PARAM,
/// and at the apex DNSKEY records whose RDATA is `ours`, ZONEMD, and CDS and CDNSKEY if the policy has them
/// [synchronized](SigningPolicy::sync). Another letter case of the zone's own name is no change.
pub fn unsigned_difference(
    signed: &Zone,
    wanted: &Zone,
    ours: &dyn Fn(&[u8]) -> bool,
    policy: &SigningPolicy,
) -> ChangeSet {
    let mut change = ChangeSet { before: signed.serial(), after: wanted.serial(), ..ChangeSet::default() };
    let is_name = |node: &Node<'_>| !node.flags().contains(NodeFlags::NSEC3_ONLY);
    let old = signed.iter().filter(is_name).map(Node::owner);
    let new = wanted.iter().map(Node::owner);
    let new = new.filter(|owner| signed.find_name(owner.as_name()).is_none());
    let mut names = old.chain(new).peekable();
    // Signatures are most of the difference, so that it is not kept as a whole.
    while names.peek().is_some() {
        let part = diff_names(signed, wanted, names.by_ref().take(PART).map(LowerName::as_name));
        let is_kept = |record: &ChangedRecord<'_>| match record.rtype {
            rtype if is_made(rtype) => false,
            _ if record.owner != signed.apex().as_name() => true,
            Type::DNSKEY => !ours(record.rdata) && !is_in_both(&part, record),
            rtype => !is_renewed(policy, rtype) && !is_in_both(&part, record),
        };
        change.removed.append(&filtered(&part.removed, is_kept));
        change.added.append(&filtered(&part.added, is_kept));
    }
    change
}

/// Whether a change removes and adds the same record.
fn is_in_both(change: &ChangeSet, record: &ChangedRecord<'_>) -> bool {
    let is_same = |other: ChangedRecord<'_>| {
        other.owner == record.owner
            && (other.rtype, other.ttl, other.rdata) == (record.rtype, record.ttl, record.rdata)
    };
    change.removed.iter().any(is_same) && change.added.iter().any(is_same)
}

#[cfg(test)]
mod tests;
