//! [`Members`]: which names a step adds to the NSEC3 chain and removes from it (RFC 5155 §7.1).

use std::collections::{BTreeMap, BTreeSet};

use dnssec::nsec3::HASH_LEN;
use wire::{Name, NameBuf, Type};
use zone::Zone;
use zone::store::{Node, NodeFlags, Nsec3Chain};

use super::plain::data_of;
use crate::denial::Nsec3Settings;
use crate::zone::{SignFault, is_cut, is_visible};

/// Whether a name has data: else it is an empty non-terminal, or has NSEC3 records only.
pub(super) fn has_data(node: Node<'_>) -> bool {
    data_of(node).next().is_some()
}

/// The hashes that a step is about.
#[derive(Default)]
pub(super) struct Members {
    /// The names among those touched, and empty non-terminals above them, that the new chain has.
    pub(super) named: BTreeMap<[u8; HASH_LEN], NameBuf>,
    pub(super) came: BTreeSet<[u8; HASH_LEN]>,
    pub(super) gone: BTreeSet<[u8; HASH_LEN]>,
}

/// Whether the chain has a name before and after the step.
#[derive(Clone, Copy)]
struct Membership {
    before: bool,
    after: bool,
}

/// Decides about the names of a step, those further down first.
struct Decision<'a> {
    zone: &'a Zone,
    next: &'a Zone,
    settings: &'a Nsec3Settings,
    decided: BTreeMap<NameBuf, Membership>,
}

impl Members {
    /// `chain` is the chain before the step, in which `next` has it.
    pub(super) fn of(
        zone: &Zone,
        next: &Zone,
        chain: Nsec3Chain<'_>,
        settings: &Nsec3Settings,
        touched: &BTreeSet<NameBuf>,
    ) -> Result<Members, SignFault> {
        let mut members = Members::default();
        let mut decision = Decision { zone, next, settings, decided: BTreeMap::new() };
        for name in candidates(zone, next, touched).iter().rev() {
            let hash = settings.hash(name.as_name().to_lower().as_lower());
            let is_there = chain.matching(&hash).is_some();
            let before = is_there && zone.find_name(name.as_name()).is_some_and(|node| is_visible(&node));
            let after = decision.is_member(name, before);
            decision.decided.insert(*name, Membership { before, after });
            if after {
                let other = members.named.insert(hash, *name);
                if other.is_some() || is_there && !before {
                    return Err(SignFault::Collision(Box::new(*name)));
                }
            }
            match (before, after) {
                (false, true) => _ = members.came.insert(hash),
                (true, false) => _ = members.gone.insert(hash),
                _ => {}
            }
        }
        Ok(members)
    }
}

/// Returns the touched names and the names above them that have no data before or after the step.
fn candidates(zone: &Zone, next: &Zone, touched: &BTreeSet<NameBuf>) -> BTreeSet<NameBuf> {
    let apex = zone.apex();
    let mut names = touched.clone();
    for name in touched {
        let above = name.as_name().ancestors().skip(1);
        for name in above.take_while(|name| name.is_at_or_below(apex.as_name())) {
            if [zone, next].into_iter().filter_map(|zone| zone.find_name(name)).any(|node| !has_data(node)) {
                names.insert(name.to_buf());
            }
        }
    }
    names
}

impl Decision<'_> {
    /// Whether the new chain has a name; `before` says it of the old one.
    fn is_member(&self, name: &NameBuf, before: bool) -> bool {
        let Some(node) = self.next.find_name(name.as_name()).filter(is_visible) else { return false };
        match has_data(node) {
            true => !self.is_left_out(node),
            false => !self.settings.opt_out || self.has_member_below(name, before),
        }
    }

    /// Whether opt-out leaves out a name with data: an insecure delegation.
    fn is_left_out(&self, node: Node<'_>) -> bool {
        self.settings.opt_out && is_cut(&node) && node.rrset(Type::DS).is_none()
    }

    /// Whether the new chain has names below an empty non-terminal. Visits the names below it only if some of
    /// them left the chain.
    fn has_member_below(&self, name: &NameBuf, before: bool) -> bool {
        let below = self.decided.range(*name..).take_while(|(other, _)| is_below(other.as_name(), name));
        let (mut is_left, mut has_come) = (false, false);
        for (_, membership) in below {
            has_come |= membership.after;
            is_left |= membership.before && !membership.after;
        }
        if has_come {
            return true;
        }
        let old = self.zone.find_name(name.as_name());
        if old.is_some_and(|old| is_visible(&old) && !has_data(old)) && !is_left {
            return before;
        }
        let below = self.next.iter_from(name.as_name()).take_while(|n| is_below(n.owner().as_name(), name));
        let mut members = below.filter(|node| is_visible(node) && has_data(*node));
        members.any(|node| !node.flags().contains(NodeFlags::NSEC3_ONLY) && !self.is_left_out(node))
    }
}

fn is_below(name: Name<'_>, above: &NameBuf) -> bool {
    name.is_at_or_below(above.as_name())
}
