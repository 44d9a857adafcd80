//! [`diff`]: what has to change in one snapshot to make another.

use std::cmp::Ordering;

use wire::{Name, NameBuf, Ttl, Type};

use super::{ChangeSet, ChangedRecords};
use crate::store::{Node, Zone};

/// The change that makes `new` of `old`, two snapshots of one zone: [`Zone::apply`] of it to `old` holds the
/// records of `new`. Records that both have are not in it, unless their TTLs or the letter case of names in
/// them differ, or that of their owner; the order of records within an RRset does not count.
///
/// Records are in canonical order of their owners (RFC 4034 §6.1), by type and RDATA within, but the SOA
/// comes first (RFC 1995 §4). Goes through both snapshots; nodes that they share are not looked into.
pub fn diff(old: &Zone, new: &Zone) -> ChangeSet {
    difference(old, new, usize::MAX).0
}

/// The same, if no more than `most` records go and come.
pub fn diff_within(old: &Zone, new: &Zone, most: usize) -> Option<ChangeSet> {
    let (change, is_all) = difference(old, new, most);
    is_all.then_some(change)
}

/// The same for these names only, which have to be in canonical order, each once. Costs what they cost,
/// however large the zone is.
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

/// What changes, and whether that is all of it: where more than `most` records do, the rest is not looked at.
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

/// Whether both nodes are there and hold the same, as far as that shows at once.
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

/// A record of a node, as it is compared.
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
