//! The records of one name while they change: [`Records`].

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wire::message::{HEADER_LEN, MAX_MESSAGE, POINTER_LEN, QUESTION_TAIL, RECORD_HEAD};
use wire::rdata::view::Rrsig;
use wire::{Name, NameBuf, Ttl, Type, rdata};
use zone::Node;
use zone::store::{ChangeSet, ChangedRecords};

use crate::fault::{UpdateFault, UpdateFaultKind};

/// The most bytes that the records of a name may have; with what is stored beside them they stay below what a node can hold.
const MOST_AT_NAME: usize = 8 << 20;

/// A record's TTL and data.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Datum {
    rdata: Vec<u8>,
    ttl: Ttl,
}

/// The records of one name. RRSIGs are an RRset as any other. A clone shares what does not change.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    owner: NameBuf,
    /// None of them is empty.
    sets: BTreeMap<Type, Arc<Vec<Datum>>>,
}

impl Records {
    /// What a snapshot has for a name.
    pub(crate) fn of(owner: Name<'_>, node: Option<Node<'_>>) -> Records {
        let mut records = Records { owner: owner.to_buf(), sets: BTreeMap::new() };
        for set in node.iter().flat_map(|node| node.rrsets()) {
            records.owner = set.node().written_owner();
            let with_type = |rtype| move |data| (rtype, data);
            let sigs = set.sig_rdatas().map(with_type(Type::RRSIG));
            for (rtype, data) in set.rdatas().map(with_type(set.rtype())).chain(sigs) {
                let mut rdata = Vec::new();
                data.copy_to(&mut rdata);
                Arc::make_mut(records.sets.entry(rtype).or_default()).push(Datum { rdata, ttl: data.ttl() });
            }
        }
        records
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// The types that there are.
    pub(crate) fn types(&self) -> impl Iterator<Item = Type> {
        self.sets.keys().copied()
    }

    /// Whether there is an RRset of this type.
    pub(crate) fn has(&self, rtype: Type) -> bool {
        self.sets.contains_key(&rtype)
    }

    /// Number of records of this type.
    pub(crate) fn count(&self, rtype: Type) -> usize {
        self.sets.get(&rtype).map_or(0, |set| set.len())
    }

    /// The data of the first record of this type.
    pub(crate) fn first(&self, rtype: Type) -> Option<&[u8]> {
        self.sets.get(&rtype)?.first().map(|datum| &datum.rdata[..])
    }

    /// Whether the RRset of this type has exactly these records, in any order.
    pub(crate) fn has_exactly(&self, rtype: Type, wanted: &[&[u8]]) -> bool {
        let Some(set) = self.sets.get(&rtype) else { return false };
        let canonical = |data: &[u8]| {
            let mut data = data.to_vec();
            rdata::canonical(rtype, &mut data);
            data
        };
        let wanted: BTreeSet<Vec<u8>> = wanted.iter().map(|data| canonical(data)).collect();
        let there: BTreeSet<Vec<u8>> = set.iter().map(|datum| canonical(&datum.rdata)).collect();
        wanted == there
    }

    /// Adds a record. One that is there already stays as it is; one that it replaces goes; the whole RRset gets its TTL
    /// (RFC 2136 §3.4.2.2, RFC 2181 §5.2). `owner` is that of the name if there were no records.
    pub(crate) fn add(&mut self, owner: Name<'_>, rtype: Type, ttl: Ttl, data: &[u8]) {
        if self.sets.is_empty() {
            self.owner = owner.to_buf();
        }
        let set = self.sets.entry(rtype).or_default();
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

    /// Changes the data of the first record of a type, if there is one.
    pub(crate) fn edit_first(&mut self, rtype: Type, edit: impl FnOnce(&mut [u8])) {
        if let Some(set) = self.sets.get_mut(&rtype)
            && let Some(first) = Arc::make_mut(set).first_mut()
        {
            edit(&mut first.rdata);
        }
    }

    /// Deletes the RRsets of some types.
    pub(crate) fn delete_types(&mut self, which: impl Fn(Type) -> bool) {
        self.sets.retain(|rtype, _| !which(*rtype));
    }

    /// Deletes a record, if it is there.
    pub(crate) fn delete(&mut self, rtype: Type, data: &[u8]) {
        let Entry::Occupied(mut set) = self.sets.entry(rtype) else { return };
        let Some(at) = set.get().iter().position(|old| rdata::is_same(rtype, &old.rdata, data)) else {
            return;
        };
        if set.get().len() == 1 {
            set.remove();
        } else {
            Arc::make_mut(set.get_mut()).remove(at);
        }
    }

    /// Whether a node can hold the records and messages the RRsets, of which those that `before` has too are known to.
    pub(crate) fn check(&self, before: &Records) -> Result<(), UpdateFault> {
        let bytes = |set: &[Datum]| set.iter().map(|datum| record_len(&datum.rdata)).sum::<usize>();
        let sigs = |rtype| {
            let sigs = self.sets.get(&Type::RRSIG).into_iter().flat_map(|sigs| sigs.iter());
            let over = sigs.filter(move |sig| Rrsig::read_type_covered(&sig.rdata) == Ok(rtype));
            over.map(|sig| record_len(&sig.rdata)).sum::<usize>()
        };
        let mut total = 0;
        for (rtype, set) in &self.sets {
            let grows = before.sets.get(rtype).is_none_or(|old| bytes(old) < bytes(set));
            let message = HEADER_LEN + self.owner.as_name().len() + QUESTION_TAIL + bytes(set) + sigs(*rtype);
            if grows && message > MAX_MESSAGE {
                return Err(UpdateFaultKind::RrsetTooLarge.of(self.owner.as_name(), *rtype));
            }
            total += bytes(set);
        }
        match total > MOST_AT_NAME {
            true => Err(UpdateFaultKind::NameTooLarge.of(self.owner.as_name(), Type::ANY)),
            false => Ok(()),
        }
    }

    /// Adds to a change what makes these records of those `before`; the SOA comes first (RFC 1995 §4).
    pub(crate) fn difference(&self, before: &Records, change: &mut ChangeSet) {
        let mut types: Vec<Type> = self.types().chain(before.types()).collect();
        types.sort_unstable_by_key(|rtype| (*rtype != Type::SOA, *rtype));
        types.dedup();
        for rtype in types {
            let (old, new) = (before.sets.get(&rtype), self.sets.get(&rtype));
            if old.zip(new).is_some_and(|(old, new)| Arc::ptr_eq(old, new)) {
                continue;
            }
            only(before, old, new, rtype, &mut change.removed);
            only(self, new, old, rtype, &mut change.added);
        }
    }
}

/// Puts what `these` have and `those` do not into a change.
fn only(
    from: &Records,
    these: Option<&Arc<Vec<Datum>>>,
    those: Option<&Arc<Vec<Datum>>>,
    rtype: Type,
    to: &mut ChangedRecords,
) {
    let those: BTreeSet<&Datum> = those.into_iter().flat_map(|set| set.iter()).collect();
    for datum in these.into_iter().flat_map(|set| set.iter()).filter(|datum| !those.contains(datum)) {
        to.push(from.owner.as_name(), rtype, datum.ttl, &datum.rdata);
    }
}

/// Bytes of a record in a message whose owner is a pointer, its data uncompressed.
fn record_len(rdata: &[u8]) -> usize {
    POINTER_LEN + RECORD_HEAD + rdata.len()
}

/// Whether a record goes when another one comes: of these types there is one at a name, of WKS one for each address and
/// protocol (RFC 2136 §3.4.2.2, RFC 6672 §5.2).
fn is_replaced(rtype: Type, old: &[u8], new: &[u8]) -> bool {
    const ADDRESS_AND_PROTOCOL: usize = 5;
    match rtype {
        Type::CNAME | Type::DNAME | Type::SOA => true,
        Type::WKS => old.get(..ADDRESS_AND_PROTOCOL) == new.get(..ADDRESS_AND_PROTOCOL),
        _ => false,
    }
}
