//! [`Records`]: the records of one name during an update.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::iter;
use std::sync::Arc;

use wire::message::{HEADER_LEN, MAX_MESSAGE, POINTER_LEN, QUESTION_TAIL, RECORD_HEAD};
use wire::rdata::view::Rrsig;
use wire::{NameBuf, Ttl, Type, rdata};
use zone::Node;
use zone::store::{ChangeSet, ChangedRecords};

use crate::fault::{UpdateFault, UpdateFaultKind};

/// Most bytes of records per name; together with a node's other data they fit a node.
const MOST_AT_NAME: usize = 8 << 20;

/// Whether records of a type belong to the signer of a zone.
pub fn is_signers(rtype: Type) -> bool {
    matches!(rtype, Type::RRSIG | Type::NSEC | Type::NSEC3 | Type::NSEC3PARAM)
}

/// A record's TTL and RDATA.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Datum {
    rdata: Vec<u8>,
    ttl: Ttl,
}

/// RRsets of up to this many records are compared record by record.
const MAX_PAIRWISE_RECORDS: usize = 8;

/// The records of one type.
type Set = Arc<Vec<Datum>>;

/// The records of one name. RRSIGs are an RRset like any other. Clones share unchanged RRsets.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    owner: Arc<NameBuf>,
    /// Sorted by type; no RRset is empty.
    sets: Vec<(Type, Set)>,
}

impl Records {
    /// The records of a node in a snapshot; `plain`: without those that the signer of a zone makes.
    pub(crate) fn of(owner: &Arc<NameBuf>, node: Option<Node<'_>>, plain: bool) -> Records {
        let mut records = Records { owner: Arc::clone(owner), sets: Vec::new() };
        let Some(node) = node.filter(|node| node.rrsets().next().is_some()) else { return records };
        let written = node.written_owner();
        if written.as_name().as_wire() != owner.as_name().as_wire() {
            records.owner = Arc::new(written);
        }
        for set in node.rrsets() {
            let with_type = |rtype| move |data| (rtype, data);
            let sigs = set.sig_rdatas().map(with_type(Type::RRSIG));
            let all = set.rdatas().map(with_type(set.rtype())).chain(sigs);
            for (rtype, data) in all.filter(|(rtype, _)| !(plain && is_signers(*rtype))) {
                let mut rdata = Vec::new();
                data.copy_to(&mut rdata);
                Arc::make_mut(records.entry(rtype)).push(Datum { rdata, ttl: data.ttl() });
            }
        }
        records
    }

    /// Index of the RRset of a type, or where to insert it.
    fn find(&self, rtype: Type) -> Result<usize, usize> {
        self.sets.binary_search_by_key(&rtype, |(rtype, _)| *rtype)
    }

    fn get(&self, rtype: Type) -> Option<&Set> {
        self.sets.get(self.find(rtype).ok()?).map(|(_, set)| set)
    }

    /// Returns the RRset of a type, inserting an empty one if there is none; the caller has to fill it.
    fn entry(&mut self, rtype: Type) -> &mut Set {
        let at = self.find(rtype).unwrap_or_else(|at| {
            self.sets.insert(at, (rtype, Set::default()));
            at
        });
        &mut self.sets[at].1
    }

    /// Whether the name has no records.
    pub(crate) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// The types of the name's RRsets.
    pub(crate) fn types(&self) -> impl Iterator<Item = Type> {
        self.sets.iter().map(|(rtype, _)| *rtype)
    }

    /// Whether the name has an RRset of this type.
    pub(crate) fn has(&self, rtype: Type) -> bool {
        self.find(rtype).is_ok()
    }

    /// Number of records of this type.
    pub(crate) fn count(&self, rtype: Type) -> usize {
        self.get(rtype).map_or(0, |set| set.len())
    }

    /// RDATA of the first record of this type.
    pub(crate) fn first(&self, rtype: Type) -> Option<&[u8]> {
        self.get(rtype)?.first().map(|datum| &datum.rdata[..])
    }

    /// Whether the RRset of this type has exactly these records, in any order.
    pub(crate) fn has_exactly(&self, rtype: Type, wanted: &[&[u8]]) -> bool {
        let Some(set) = self.get(rtype) else { return false };
        let canonical = |data: &[u8]| {
            let mut data = data.to_vec();
            rdata::canonical(rtype, &mut data);
            data
        };
        let wanted: BTreeSet<Vec<u8>> = wanted.iter().map(|data| canonical(data)).collect();
        let there: BTreeSet<Vec<u8>> = set.iter().map(|datum| canonical(&datum.rdata)).collect();
        wanted == there
    }

    /// Adds a record. An equal record stays as it is, a record that this one supersedes is removed, and the
    /// whole RRset gets the new TTL (RFC 2136 §3.4.2.2, RFC 2181 §5.2). If the name had no records, its owner
    /// name is written as `owner`.
    pub(crate) fn add(&mut self, owner: &NameBuf, rtype: Type, ttl: Ttl, data: &[u8]) {
        if self.sets.is_empty() && self.owner.as_name().as_wire() != owner.as_name().as_wire() {
            self.owner = Arc::new(*owner);
        }
        let set = self.entry(rtype);
        let known = set.iter().position(|old| rdata::is_same(rtype, &old.rdata, data));
        if known.is_some() && set.iter().all(|datum| datum.ttl == ttl) {
            return;
        }
        let set = Arc::make_mut(set);
        if known.is_none() {
            set.retain(|old| !is_replaced(rtype, &old.rdata, data));
            set.push(Datum { rdata: data.to_vec(), ttl });
        }
        set.iter_mut().for_each(|datum| datum.ttl = ttl);
    }

    /// Edits the RDATA of the first record of a type, if it exists.
    pub(crate) fn edit_first(&mut self, rtype: Type, edit: impl FnOnce(&mut [u8])) {
        if let Ok(at) = self.find(rtype)
            && let Some(first) = Arc::make_mut(&mut self.sets[at].1).first_mut()
        {
            edit(&mut first.rdata);
        }
    }

    /// Deletes the RRsets of the types for which `which` is true.
    pub(crate) fn delete_types(&mut self, which: impl Fn(Type) -> bool) {
        self.sets.retain(|(rtype, _)| !which(*rtype));
    }

    /// Deletes a record, if it exists.
    pub(crate) fn delete(&mut self, rtype: Type, data: &[u8]) {
        let Ok(of) = self.find(rtype) else { return };
        let set = &mut self.sets[of].1;
        let Some(at) = set.iter().position(|old| rdata::is_same(rtype, &old.rdata, data)) else { return };
        if set.len() == 1 {
            self.sets.remove(of);
        } else {
            Arc::make_mut(set).remove(at);
        }
    }

    /// Checks that a node can hold the records, and messages each RRset. RRsets unchanged from `before` are
    /// not checked again.
    pub(crate) fn check(&self, before: &Records) -> Result<(), UpdateFault> {
        let bytes = |set: &[Datum]| set.iter().map(|datum| record_len(&datum.rdata)).sum::<usize>();
        let sigs = |rtype| {
            let sigs = self.get(Type::RRSIG).into_iter().flat_map(|sigs| sigs.iter());
            let over = sigs.filter(move |sig| Rrsig::read_type_covered(&sig.rdata) == Ok(rtype));
            over.map(|sig| record_len(&sig.rdata)).sum::<usize>()
        };
        let mut total = 0;
        for (rtype, set) in &self.sets {
            let len = bytes(set);
            total += len;
            if before.get(*rtype).is_some_and(|old| Arc::ptr_eq(old, set) || bytes(old) >= len) {
                continue;
            }
            let message = HEADER_LEN + self.owner.as_name().len() + QUESTION_TAIL + len + sigs(*rtype);
            if message > MAX_MESSAGE {
                return Err(UpdateFaultKind::RrsetTooLarge.of(self.owner.as_name(), *rtype));
            }
        }
        match total > MOST_AT_NAME {
            true => Err(UpdateFaultKind::NameTooLarge.of(self.owner.as_name(), Type::ANY)),
            false => Ok(()),
        }
    }

    /// Adds the difference from `before` to a change: the SOA first (RFC 1995 §4), the other types by number.
    pub(crate) fn difference(&self, before: &Records, change: &mut ChangeSet) {
        let soa = (before.get(Type::SOA), self.get(Type::SOA));
        let others = both(&before.sets, &self.sets).filter(|(rtype, _)| *rtype != Type::SOA);
        for (rtype, (old, new)) in iter::once((Type::SOA, soa)).chain(others) {
            if old.zip(new).is_some_and(|(old, new)| Arc::ptr_eq(old, new)) {
                continue;
            }
            only(before, old, new, rtype, &mut change.removed);
            only(self, new, old, rtype, &mut change.added);
        }
    }
}

/// Merges the types of two names, each with the RRset that either name has.
fn both<'a>(
    mut olds: &'a [(Type, Set)],
    mut news: &'a [(Type, Set)],
) -> impl Iterator<Item = (Type, (Option<&'a Set>, Option<&'a Set>))> {
    iter::from_fn(move || {
        let order = match (olds.first(), news.first()) {
            (Some((old, _)), Some((new, _))) => old.cmp(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        let old = if order.is_le() { olds.split_off_first() } else { None };
        let new = if order.is_ge() { news.split_off_first() } else { None };
        let (rtype, _) = old.or(new)?;
        Some((*rtype, (old.map(|(_, set)| set), new.map(|(_, set)| set))))
    })
}

/// Adds the records of `these` that `those` lack to a change.
fn only(from: &Records, these: Option<&Set>, those: Option<&Set>, rtype: Type, to: &mut ChangedRecords) {
    let (these, those) = (these.map_or(&[][..], |set| &set[..]), those.map_or(&[][..], |set| &set[..]));
    let many: BTreeSet<&Datum> = those.iter().filter(|_| those.len() > MAX_PAIRWISE_RECORDS).collect();
    let is_there = |datum: &Datum| if many.is_empty() { those.contains(datum) } else { many.contains(datum) };
    for datum in these.iter().filter(|datum| !is_there(datum)) {
        to.push(from.owner.as_name(), rtype, datum.ttl, &datum.rdata);
    }
}

/// Bytes of a record in a message, with a pointer as owner and uncompressed RDATA.
fn record_len(rdata: &[u8]) -> usize {
    POINTER_LEN + RECORD_HEAD + rdata.len()
}

/// Whether a new record supersedes an old one: a name has only one CNAME, DNAME or SOA, and one WKS for each
/// address and protocol (RFC 2136 §3.4.2.2, RFC 6672 §5.2).
fn is_replaced(rtype: Type, old: &[u8], new: &[u8]) -> bool {
    const ADDRESS_AND_PROTOCOL: usize = 5;
    match rtype {
        Type::CNAME | Type::DNAME | Type::SOA => true,
        Type::WKS => old.get(..ADDRESS_AND_PROTOCOL) == new.get(..ADDRESS_AND_PROTOCOL),
        _ => false,
    }
}
