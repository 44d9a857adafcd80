//! [`settle`]: which zones several catalog zones make, and of which one each is a member.
//!
//! A zone belongs to one catalog zone at a time. Another one that lists it as well gets it only if the one
//! that has it says so by its `coo` property (RFC 9432 §4.3.1), or lists it no longer.

use std::collections::BTreeMap;

use super::ZoneName;
use super::read::{CatalogZone, Member};

/// The entry that a zone is served for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberOf {
    /// The catalog zone.
    pub catalog: ZoneName,
    /// Its entry.
    pub member: Member,
}

/// What becomes of a zone that was a member already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is the zone that it was: its data and timers stay.
    Kept,
    /// It is new, or another zone of the same name: what is known of an earlier one is to be forgotten (RFC
    /// 9432 §5.4).
    New,
}

/// A catalog zone lists a zone that it does not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The zone.
    pub zone: ZoneName,
    /// The catalog zone that lists it in vain.
    pub catalog: ZoneName,
    /// Who has it.
    pub held_by: ListedIn,
}

/// Who has a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListedIn {
    /// The configuration: no catalog zone can take it from there.
    Configuration,
    /// A catalog zone.
    Catalog(ZoneName),
}

/// Which zones catalog zones make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// All zones that are members now.
    pub members: BTreeMap<ZoneName, (MemberOf, Claim)>,
    /// Entries that make no zone, in the order of the catalogs.
    pub conflicts: Vec<Conflict>,
}

/// Decides about all zones that `catalogs` list, in the operator's order of them. `before` are those that
/// were members until now, and `is_configured` says which zones the configuration has.
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
    // Who had it until now, if it is still listed there, and where that one wants it to go.
    if let Some(holder) = before.get(zone)
        && let Some(held) = entry(&holder.catalog)
    {
        let goes_to = held.new_owner.as_ref().filter(|next| entry(next).is_some());
        let owner = goes_to.unwrap_or(&holder.catalog);
        return match *owner == of.catalog {
            // A move keeps the zone if its label stays.
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
