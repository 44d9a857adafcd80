//! [`diff`]: computes the change from one snapshot to another.

use std::cmp::Ordering;

use wire::{Name, NameBuf, Ttl, Type};

use super::{ChangeSet, ChangedRecords};
use crate::store::{Node, Zone};

/// Computes the change from `old` to `new`, two snapshots of one zone: [`Zone::apply`] of it to `old` yields
/// the records of `new`. It omits records that are in both, unless their TTLs or the letter case of names in
/// them or of their owner differ. The order of records within an RRset does not matter.
///
/// Records are sorted by owner in canonical order (RFC 4034 §6.1), then by type and RDATA, but the SOA comes
/// first (RFC 1995 §4). Visits all nodes of both snapshots; nodes that both share are not compared further.
pub fn diff(old: &Zone, new: &Zone) -> ChangeSet {
    difference(old, new, usize::MAX).0
}

/// As [`diff`], but returns `None` if more than `most` records are removed and added.
pub fn diff_within(old: &Zone, new: &Zone, most: usize) -> Option<ChangeSet> {
    let (change, is_all) = difference(old, new, most);
    is_all.then_some(change)
}

/// As [`diff`] for these names only, which must be in canonical order without duplicates. The cost depends on
/// the number of names, not on the size of the zone.
pub fn diff_names<'n>(old: &Zone, new: &Zone, names: impl IntoIterator<Item = Name<'n>>) -> ChangeSet {
    let mut change = ChangeSet { before: old.serial(), after: new.serial(), ..ChangeSet::default() };
    for name in names {
        let (before, after) = (old.find_name(name), new.find_name(name));
        if !is_same(before, after) {
            nodes(before, after, &mut change);
        }
    }
    change
}

/// Returns the change and whether it is complete: after more than `most` records, the rest is not compared.
fn difference(old: &Zone, new: &Zone, most: usize) -> (ChangeSet, bool) {
    let mut change = ChangeSet { before: old.serial(), after: new.serial(), ..ChangeSet::default() };
    let (mut olds, mut news) = (old.iter().peekable(), new.iter().peekable());
    loop {
        let order = match (olds.peek(), news.peek()) {
            (None, None) => return (change, true),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => old.owner().as_name().canonical_cmp(new.owner().as_name()),
        };
        let before = if order.is_le() { olds.next() } else { None };
        let after = if order.is_ge() { news.next() } else { None };
        if !is_same(before, after) {
            nodes(before, after, &mut change);
            if change.removed.len() + change.added.len() > most {
                return (change, false);
            }
        }
    }
}

/// Whether both nodes exist and have the same content, as far as a byte comparison shows.
fn is_same(old: Option<Node<'_>>, new: Option<Node<'_>>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return false };
    std::ptr::eq(old.blob(), new.blob())
        || old.rrset_count() == new.rrset_count()
            && old.written_owner().as_name().as_wire() == new.written_owner().as_name().as_wire()
            && old.rrsets().zip(new.rrsets()).all(|(old, new)| {
                (old.rtype(), old.count()) == (new.rtype(), new.count())
                    && old.records_and_sigs() == new.records_and_sigs()
            })
}

/// A record of a node in a form for comparison.
type Line = (bool, Type, Vec<u8>, Ttl);

/// The records of a node, sorted.
fn lines(node: Option<Node<'_>>) -> (NameBuf, Vec<Line>) {
    let Some(node) = node else { return (NameBuf::ROOT, Vec::new()) };
    let mut lines = Vec::new();
    for set in node.rrsets() {
        let records = set.rdatas().map(|record| (set.rtype(), record));
        for (rtype, record) in records.chain(set.sig_rdatas().map(|record| (Type::RRSIG, record))) {
            let mut rdata = Vec::new();
            record.copy_to(&mut rdata);
            lines.push((rtype != Type::SOA, rtype, rdata, record.ttl()));
        }
    }
    lines.sort_unstable();
    (node.written_owner(), lines)
}

/// Adds the difference between two nodes of one name.
pub(super) fn nodes(old: Option<Node<'_>>, new: Option<Node<'_>>, change: &mut ChangeSet) {
    let ((old_owner, mut olds), (new_owner, mut news)) = (lines(old), lines(new));
    if old_owner.as_name().as_wire() == new_owner.as_name().as_wire() {
        let before = olds.clone();
        olds.retain(|line| news.binary_search(line).is_err());
        news.retain(|line| before.binary_search(line).is_err());
    }
    put(&mut change.removed, old_owner.as_name(), &olds);
    put(&mut change.added, new_owner.as_name(), &news);
}

fn put(records: &mut ChangedRecords, owner: Name<'_>, lines: &[Line]) {
    for (_, rtype, rdata, ttl) in lines {
        records.push(owner, *rtype, *ttl, rdata);
    }
}
