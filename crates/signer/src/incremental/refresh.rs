//! [`refresh`]: renews signatures part by part.

use std::collections::BTreeSet;

use wire::rdata::view::Rrsig;
use wire::{Name, NameBuf, Serial, Type, UnixTime};
use zone::Zone;
use zone::store::{Node, NodeFlags, RrSet};

use super::ledger::{Renewal, is_presigned, signers, stays};
use super::plain::{has_apex_sets, serial_change};
use super::step::{Obstacle, chain_ttl, step};
use super::{SignedStep, Signing, sign_whole};
use crate::zone::{SignFault, is_signed_before, is_visible};

/// One part of a pass that renews signatures.
#[derive(Debug)]
pub struct Refreshed {
    /// The new version; `None` if nothing had to change.
    pub step: Option<SignedStep>,
    /// Where the next part begins; `None`: the pass is complete.
    pub next: Option<NameBuf>,
    /// Earliest expiration among the signatures that this part looked at and that stay or were made.
    pub earliest: Option<UnixTime>,
}

/// Makes one part of a pass that renews signatures: looks at names in canonical order from `from` on, or from
/// the first one, and renews signatures that expire at `due` or before, that are missing, or that are not by
/// exactly the keys that sign their RRset: signatures by other keys are removed. The part ends before the
/// name whose signatures would be more than `most` in all, but has one name at least. `after` is the serial
/// of the new version, if there is one.
///
/// Each part also looks at the apex, and makes the apex sets those that keys and policy want; the signatures
/// of the apex, such as the one over the SOA, do not count towards `most`. For ZONEMD each part reads the
/// whole zone. A zone that is not signed with the denial method of the policy is signed as a whole.
///
/// # Errors
/// [`SignFault`].
pub fn refresh(
    zone: &Zone,
    signing: &Signing<'_>,
    after: Serial,
    due: UnixTime,
    from: Option<&NameBuf>,
    most: usize,
) -> Result<Refreshed, SignFault> {
    if chain_ttl(zone, signing.policy) != Some(zone.negative_ttl()) {
        return whole(zone, signing, after, due);
    }
    let first = from.map_or(zone.apex().as_name(), NameBuf::as_name);
    let Look { owners, next } = look(zone, signing, due, first, most);
    let step = match owners.is_empty() && has_apex_sets(zone, signing) {
        true => None,
        false => {
            let renewal = Renewal { owners: &owners, due };
            match step(zone, serial_change(zone, after)?, signing, Some(renewal)) {
                Ok(step) => Some(step),
                Err(Obstacle::OtherChain) => return whole(zone, signing, after, due),
                Err(Obstacle::Fault(fault)) => return Err(fault),
            }
        }
    };
    let earliest = {
        let zone = step.as_ref().map_or(zone, |step| &step.zone);
        earliest(zone, signing, first, next.as_ref().map(NameBuf::as_name), due)
    };
    Ok(Refreshed { step, next, earliest })
}

/// Signs everything.
fn whole(zone: &Zone, signing: &Signing<'_>, after: Serial, due: UnixTime) -> Result<Refreshed, SignFault> {
    let step = sign_whole(zone, &serial_change(zone, after)?, signing)?;
    let earliest = earliest(&step.zone, signing, zone.apex().as_name(), None, due);
    Ok(Refreshed { step: Some(step), next: None, earliest })
}

/// What a part of a pass found.
struct Look {
    /// The names with signatures that change.
    owners: BTreeSet<NameBuf>,
    /// The first name that was not looked at.
    next: Option<NameBuf>,
}

fn look(zone: &Zone, signing: &Signing<'_>, due: UnixTime, first: Name<'_>, most: usize) -> Look {
    let mut owners = BTreeSet::new();
    let apex = zone.apex_node();
    if changes(apex, signing, due).is_some() {
        owners.insert(apex.written_owner());
    }
    let mut total = 0;
    for node in zone.iter_from(first).filter(|node| !node.flags().contains(NodeFlags::APEX)) {
        let owner = node.owner().as_name().to_buf();
        let Some(made) = changes(node, signing, due) else { continue };
        if total > 0 && total + made > most {
            return Look { owners, next: Some(owner) };
        }
        total += made;
        owners.insert(owner);
    }
    Look { owners, next: None }
}

/// Returns how many signatures are to be made at a name; `None` if none changes.
fn changes(node: Node<'_>, signing: &Signing<'_>, due: UnixTime) -> Option<usize> {
    let is_apex = node.flags().contains(NodeFlags::APEX);
    let (mut made, mut has_stale) = (0, false);
    for set in node.rrsets() {
        let rtype = set.rtype();
        let is_signed = match rtype {
            Type::NSEC3 => true,
            Type::NSEC => is_visible(&node),
            _ => is_signed_before(signing.policy, &node, rtype),
        };
        has_stale |= rtype == Type::RRSIG;
        if let Some(presigned) = signing.keys.presigned_set(rtype).filter(|_| is_apex) {
            let mut missing: Vec<&[u8]> = presigned.sigs.iter().map(|(_, sig)| &**sig).collect();
            for sig in set.sig_rdatas() {
                has_stale |= !is_presigned(&sig, presigned.ttl, &mut missing);
            }
            made += missing.len();
            continue;
        }
        let mut missing = if is_signed { signers(signing.keys, rtype, is_apex) } else { Vec::new() };
        for sig in set.sig_rdatas() {
            has_stale |= !stays(&sig, set.ttl(), &mut missing, Some(due));
        }
        made += missing.len();
    }
    (made > 0 || has_stale).then_some(made)
}

/// Returns the earliest expiration among the signatures of the apex and of the names from `first` to `end`.
/// Those that keys elsewhere have made do not count.
fn earliest<'a>(
    zone: &'a Zone,
    signing: &Signing<'_>,
    first: Name<'_>,
    end: Option<Name<'_>>,
    near: UnixTime,
) -> Option<UnixTime> {
    let is_ours = |node: Node<'_>, set: &RrSet<'_>| {
        !node.flags().contains(NodeFlags::APEX) || signing.keys.presigned_set(set.rtype()).is_none()
    };
    let part = zone.iter_from(first).take_while(|node| end.is_none_or(|end| node.owner().as_name() < end));
    let mut earliest = None::<UnixTime>;
    let sets = |node: Node<'a>| node.rrsets().filter(move |set| is_ours(node, set));
    for set in part.chain([zone.apex_node()]).flat_map(sets) {
        for sig in set.sig_rdatas() {
            let Ok(sig) = Rrsig::read(sig.compiled()) else { continue };
            let expiration = near.nearest(sig.expiration);
            earliest = Some(earliest.map_or(expiration, |earliest| earliest.min(expiration)));
        }
    }
    earliest
}
