//! [`settle`]: the member zones of several catalog zones, and the catalog zone each belongs to.
//!
//! A zone belongs to one catalog zone at a time. Another catalog zone that also lists it gets it only if the
//! current one names it in a `coo` property (RFC 9432 §4.3.1), or no longer lists the zone.

use std::collections::BTreeMap;

use wire::ZoneName;

use super::read::{CatalogZone, Member};

/// The catalog entry that a zone is served for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberOf {
    /// The catalog zone.
    pub catalog: ZoneName,
    /// Its entry.
    pub member: Member,
}

/// Whether a member zone is the same zone as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The same zone as before: its data and timers stay.
    Kept,
    /// New, or another zone of the same name: state of the earlier zone is to be discarded (RFC 9432 §5.4).
    New,
}

/// A catalog zone lists a zone that belongs elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The zone.
    pub zone: ZoneName,
    /// The catalog zone whose entry is ignored.
    pub catalog: ZoneName,
    /// The owner of the zone.
    pub held_by: ListedIn,
}

/// The owner of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListedIn {
    /// The configuration; catalog zones cannot override it.
    Configuration,
    /// A catalog zone.
    Catalog(ZoneName),
}

/// The result of [`settle`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// All zones that are now members.
    pub members: BTreeMap<ZoneName, (MemberOf, Claim)>,
    /// Ignored entries, in the order of the catalogs.
    pub conflicts: Vec<Conflict>,
}

/// Determines the members from all entries of `catalogs`, which are in the operator's order. `before` holds
/// the previous members; `is_configured` returns whether the configuration has a zone.
pub fn settle(
    before: &BTreeMap<ZoneName, MemberOf>,
    catalogs: &[(ZoneName, &CatalogZone)],
    is_configured: impl Fn(&ZoneName) -> bool,
) -> Settled {
    let mut settled = Settled::default();
    for (catalog, listed) in catalogs {
        for (zone, member) in &listed.members {
            let of = MemberOf { catalog: catalog.clone(), member: member.clone() };
            let owner = match is_configured(zone) {
                true => Err(ListedIn::Configuration),
                false => owner(zone, &of, before, catalogs, &settled),
            };
            match owner {
                Ok(claim) => {
                    settled.members.insert(zone.clone(), (of, claim));
                }
                Err(held_by) => {
                    let (zone, catalog) = (zone.clone(), catalog.clone());
                    settled.conflicts.push(Conflict { zone, catalog, held_by });
                }
            }
        }
    }
    settled
}

/// Whether `of` is the entry that the zone is served for.
fn owner(
    zone: &ZoneName,
    of: &MemberOf,
    before: &BTreeMap<ZoneName, MemberOf>,
    catalogs: &[(ZoneName, &CatalogZone)],
    settled: &Settled,
) -> Result<Claim, ListedIn> {
    let entry = |catalog: &ZoneName| {
        let (_, listed) = catalogs.iter().find(|(name, _)| name == catalog)?;
        listed.members.get(zone)
    };
    // The previous owner, if it still lists the zone, and the catalog zone that it passes the zone to.
    if let Some(holder) = before.get(zone)
        && let Some(held) = entry(&holder.catalog)
    {
        let goes_to = held.new_owner.as_ref().filter(|next| entry(next).is_some());
        let owner = goes_to.unwrap_or(&holder.catalog);
        return match *owner == of.catalog {
            // A change of ownership keeps the zone's state if its label is the same.
            true if of.member.id == holder.member.id => Ok(Claim::Kept),
            true => Ok(Claim::New),
            false => Err(ListedIn::Catalog(owner.clone())),
        };
    }
    match settled.members.get(zone) {
        Some((first, _)) => Err(ListedIn::Catalog(first.catalog.clone())),
        None => Ok(Claim::New),
    }
}
