//! A version under construction: stores nodes and keeps names, redirects, rows and counts consistent with
//! them.
//!
//! The flags of a node are decided in `settle.rs`.

use std::sync::Arc;

use wire::rdata::view::Nsec3Param;
use wire::{LowerName, NameHash, Type};

use super::tree::{Entry, by_key};
use super::{GONE, Overlay, RowChange, Slots, Tree, by_name, number};
use crate::store::arena::NodeAddress;
use crate::store::encode::{is_child, target};
use crate::store::finish::read_soa;
use crate::store::node::{Node, NodeFlags};
use crate::store::nsec3::{self, StoredChain};
use crate::store::sorted::{Search, address};
use crate::store::{Zone, blob, nsec, order};

/// A new base must be built instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rebuild;

/// A version under construction.
pub(super) struct Draft<'z> {
    /// The version it is made from. The draft reads the base of that version; its overlay starts as a copy of
    /// that version's overlay.
    pub(super) from: &'z Zone,
    pub(super) overlay: Overlay,
    records: u64,
    nodes: u64,
    /// Parameters of NSEC3 chains that take precedence over the current one once they have a member.
    preferred: Vec<(u16, Box<[u8]>)>,
    /// Whether an added node makes another NSEC3 chain the current one.
    other_chain: bool,
}

/// A name, and the address of its node if it has one.
#[derive(Clone, Copy)]
pub(super) struct Place<'n> {
    pub(super) name: LowerName<'n>,
    pub(super) hash: NameHash,
    /// Address in the base.
    pub(super) base: Option<NodeAddress>,
    /// Current address.
    pub(super) now: Option<NodeAddress>,
}

/// The properties of a node that rows and counts depend on.
#[derive(Clone, Copy, Default)]
struct Standing {
    exists: bool,
    /// Whether it is part of the name space.
    named: bool,
    wildcard: bool,
    nsec: bool,
    nsec3: bool,
    records: u64,
}

impl<'z> Draft<'z> {
    pub(super) fn new(from: &'z Zone) -> Draft<'z> {
        Draft {
            from,
            overlay: from.overlay().map_or_else(|| Overlay::new(from), Overlay::clone),
            records: from.records,
            nodes: from.nodes,
            preferred: preferred(from),
            other_chain: false,
        }
    }

    /// The blob at an address.
    pub(super) fn blob(&self, at: NodeAddress) -> &[u8] {
        match at.slot() {
            Some(slot) => self.overlay.slots.get(slot),
            None => self.from.arena.blob(at),
        }
    }

    /// Finds the node of a name, whether it is part of the name space or not.
    pub(super) fn place<'n>(&self, name: LowerName<'n>, hash: NameHash) -> Place<'n> {
        self.from.place(Some(&self.overlay), name, hash)
    }

    /// The flags of the node at a place, if there is one.
    pub(super) fn flags(&self, place: &Place<'_>) -> Option<u16> {
        Some(blob::flags(self.blob(place.now?)))
    }

    /// Stores a blob with its targets filled in at a place and updates names, rows and counts.
    pub(super) fn put(&mut self, place: &Place<'_>, mut blob: Vec<u8>) -> Result<NodeAddress, Rebuild> {
        self.fill_targets(&mut blob);
        let old = place.now.map_or(Standing::default(), |at| self.standing(self.blob(at)));
        let new = self.standing(&blob);
        self.other_chain |= self.is_preferred(&blob);
        let in_index = place.base.is_some_and(|base| self.in_index(base));
        let (name, hash) = (place.name.as_name(), place.hash);
        let overlay = &mut self.overlay;
        let slot = match place.now.and_then(NodeAddress::slot) {
            Some(slot) => {
                overlay.slots.set(slot, &blob);
                slot
            }
            None => overlay.slots.add(&blob).ok_or(Rebuild)?,
        };
        if let Some(base) = place.base {
            overlay.redirect_to(base, slot);
        }
        if in_index || new.named {
            overlay.touched.add(hash.bits());
        }
        if !in_index && new.named != old.named {
            let Overlay { names, slots, .. } = overlay;
            match new.named {
                true => {
                    names.insert(Entry { key: hash.bits(), value: slot }, by_name(slots, hash.bits(), name));
                }
                false => {
                    names.remove(by_name(slots, hash.bits(), name));
                }
            }
        }
        self.update(place, slot, old, new);
        Ok(NodeAddress::of_slot(slot))
    }

    /// Removes the node at a place.
    pub(super) fn take_out(&mut self, place: &Place<'_>) {
        let Some(now) = place.now else { return };
        let old = self.standing(self.blob(now));
        let in_index = place.base.is_some_and(|base| self.in_index(base));
        let slot = now.slot();
        // Rows and names are searched by the names of their nodes, so the blob is removed last.
        self.update(place, slot.unwrap_or(GONE), old, Standing::default());
        let (name, hash) = (place.name.as_name(), place.hash);
        let overlay = &mut self.overlay;
        if !in_index && old.named {
            let Overlay { names, slots, .. } = overlay;
            names.remove(by_name(slots, hash.bits(), name));
        }
        if let Some(slot) = slot {
            overlay.slots.remove(slot);
        }
        if let Some(base) = place.base {
            overlay.touched.add(hash.bits());
            overlay.redirect_to(base, GONE);
        }
    }

    /// Whether the base's index has the node at this address of the base.
    fn in_index(&self, base: NodeAddress) -> bool {
        blob::flags(self.from.arena.blob(base)) & NodeFlags::NSEC3_ONLY.0 == 0
    }

    /// Stores addresses of the base for the targets of a new blob; see [`Overlay`].
    fn fill_targets(&self, blob: &mut [u8]) {
        let (apex, mut found, mut rdata) = (self.from.apex().as_name(), Vec::new(), Vec::new());
        let node = Node::of_blob(blob);
        for (set, data) in node.rrsets_at() {
            for (slot, record) in set.target_slots(data).zip(set.rdatas()) {
                rdata.clear();
                record.copy_to(&mut rdata);
                let name = target(node.owner().as_name(), set.rtype(), &rdata);
                let base = name.filter(|name| name.is_at_or_below(apex)).and_then(|name| {
                    let lower = name.to_lower();
                    self.from.find_base(lower.as_lower(), self.from.key().name(lower.as_lower()))
                });
                found.push((slot, base.map_or(NodeAddress::NOWHERE, NodeAddress::stored)));
            }
        }
        found.into_iter().for_each(|(slot, stored)| blob[slot..slot + 4].copy_from_slice(&stored));
    }

    fn standing(&self, blob: &[u8]) -> Standing {
        let flags = blob::flags(blob);
        let has = |flag: NodeFlags| flags & flag.0 != 0;
        let mut standing = Standing {
            exists: true,
            named: !has(NodeFlags::NSEC3_ONLY),
            wildcard: has(NodeFlags::WILDCARD),
            ..Standing::default()
        };
        for (entry, _) in blob::entries(blob) {
            standing.records += entry.count as u64 + (entry.sigs & blob::SIG_COUNT) as u64;
            standing.nsec |= entry.rtype == Type::NSEC && !has(NodeFlags::OCCLUDED);
            standing.nsec3 |= entry.rtype == Type::NSEC3
                && is_hash_owner(blob, self.overlay.apex_len)
                && self.from.chains.nsec3.as_ref().is_some_and(|chain| chain.holds(Node::of_blob(blob)));
        }
        standing
    }

    /// Whether a node belongs to an NSEC3 chain that takes precedence over the current one.
    fn is_preferred(&self, blob: &[u8]) -> bool {
        !self.preferred.is_empty()
            && is_hash_owner(blob, self.overlay.apex_len)
            && self.preferred.iter().any(|(iterations, salt)| {
                let param =
                    Nsec3Param { algorithm: Nsec3Param::SHA1, flags: 0, iterations: *iterations, salt };
                nsec3::belongs(Node::of_blob(blob), &param)
            })
    }

    /// Updates counts and rows after a change of a node. `slot` is its slot if it is in the overlay.
    fn update(&mut self, place: &Place<'_>, slot: u32, old: Standing, new: Standing) {
        let count = |is: bool| u64::from(is);
        self.records = self.records + new.records - old.records;
        self.nodes = self.nodes + count(new.exists) - count(old.exists);
        let name = place.name;
        let apex_len = self.overlay.apex_len;
        let rows = [
            // Searching for a node that the base does not have would cost more than everything else.
            (old.exists != new.exists).then(|| place.base.and_then(|_| self.from.base_position(name))),
            (old.nsec != new.nsec).then(|| nsec_position(self.from, name)),
            (old.nsec3 != new.nsec3).then(|| nsec3_position(self.from, name)),
        ];
        let joins = [new.exists, new.nsec, new.nsec3];
        let hash = nsec3::hash_of(name).as_ref().map_or(0, nsec3::prefix);
        let key = order::key(name, apex_len);
        let overlay = &mut self.overlay;
        overlay.wildcards = overlay.wildcards + count(new.wildcard) - count(old.wildcard);
        let Overlay { slots, all, nsec, nsec3, .. } = overlay;
        let changes = [(all, key), (nsec, key), (nsec3, hash)];
        for ((row, key), (position, joins)) in changes.into_iter().zip(rows.into_iter().zip(joins)) {
            let order = || by_name(slots, key, name.as_name());
            match (position, joins) {
                (None, _) => {}
                (Some(Some(position)), true) => row.come_back(position),
                (Some(Some(position)), false) => row.go(position),
                (Some(None), true) => row.came.insert(Entry { key, value: slot }, order()),
                (Some(None), false) => {
                    row.came.remove(order());
                }
            }
        }
    }

    /// Finishes the version, if its chains can be searched as changes of the base's chains.
    pub(super) fn into_zone(self) -> Result<Zone, Rebuild> {
        let from = self.from;
        let apex = self.place(from.apex(), from.key().name(from.apex())).now.ok_or(Rebuild)?;
        let Draft { overlay, records, nodes, other_chain, .. } = self;
        let chain_len = |chain: &StoredChain| overlay.nsec3.len(chain.row().nodes().len());
        let emptied = from.chains.nsec3.as_ref().is_some_and(|chain| chain_len(chain) == 0);
        let wildcards = overlay.wildcards > 0;
        let zone = Zone { apex, records, nodes, wildcards, ..from.sharing(Arc::new(overlay)) };
        let unused = || from.chains.nsec3.is_none() && nsec3::usable(zone.apex_node()).next().is_none();
        if other_chain || emptied || params(from) != params(&zone) && !unused() {
            return Err(Rebuild);
        }
        let (soa, negative_ttl) = read_soa(zone.apex_node()).ok_or(Rebuild)?;
        Ok(Zone { soa, negative_ttl, ..zone }.knowing_if_signed())
    }
}

impl Zone {
    /// Finds the node of a name under an overlay, whether it is part of the name space or not.
    pub(super) fn place<'n>(
        &self,
        overlay: Option<&Overlay>,
        name: LowerName<'n>,
        hash: NameHash,
    ) -> Place<'n> {
        let apex_len = self.apex().len();
        let hash_owner = || is_child(name, apex_len) && nsec3::hash_of(name).is_some();
        let in_row = || hash_owner().then(|| self.base_at(name)).flatten();
        let base = self.find_base(name, hash).or_else(in_row);
        let now = match (overlay, base) {
            (None, _) => base,
            (Some(overlay), Some(base)) => overlay.redirect(base),
            (Some(overlay), None) => overlay.find_new(name, hash).or_else(|| {
                let key = order::key(name, apex_len);
                let came = || overlay.all.came.get(by_name(&overlay.slots, key, name.as_name()));
                let entry = hash_owner().then(came).flatten()?;
                Some(NodeAddress::of_slot(entry.value))
            }),
        };
        Place { name, hash, base, now }
    }
}

impl Overlay {
    fn new(base: &Zone) -> Overlay {
        let order = base.order();
        Overlay {
            key: base.key,
            apex_len: base.apex().len(),
            touched: super::Filter::new(order.nodes().len()),
            slots: Slots::new(),
            redirects: Tree::default(),
            names: Tree::default(),
            all: RowChange::default(),
            nsec: RowChange::default(),
            nsec3: RowChange::default(),
            wildcards: order.wildcards(),
        }
    }

    fn redirect_to(&mut self, base: NodeAddress, value: u32) {
        let key = number(base);
        self.touched.add(key);
        self.redirects.insert(Entry { key, value }, by_key(key));
    }
}

/// Whether a blob's owner has the form of an owner in the NSEC3 chain.
fn is_hash_owner(blob: &[u8], apex_len: usize) -> bool {
    let owner = blob::owner(blob);
    is_child(owner, apex_len) && nsec3::hash_of(owner).is_some()
}

/// The position of a name in the base's NSEC chain.
fn nsec_position(zone: &Zone, name: LowerName<'_>) -> Option<usize> {
    let search = Search::new(order::key(name, zone.apex().len()));
    let position = nsec::not_after(zone, &zone.chains.nsec, name, search).checked_sub(1)?;
    let owner = blob::owner(zone.arena.blob(address(zone.chains.nsec.nodes().get(position)?)));
    (owner == name).then_some(position)
}

/// The position of a name in the base's NSEC3 chain.
fn nsec3_position(zone: &Zone, name: LowerName<'_>) -> Option<usize> {
    let (chain, hash) = (zone.chains.nsec3.as_ref()?, nsec3::hash_of(name)?);
    let search = Search::new(nsec3::prefix(&hash));
    let (after, matches) = nsec3::not_after(zone, chain.row(), &hash, search);
    matches.then_some(after.checked_sub(1)?)
}

/// The RDATA of the NSEC3PARAM records at the apex, in order.
fn params(zone: &Zone) -> Vec<&[u8]> {
    let set = zone.apex_node().rrset(Type::NSEC3PARAM);
    set.iter().flat_map(|set| set.rdatas()).map(|rdata| rdata.compiled()).collect()
}

/// The parameters of chains that take precedence over the current one.
fn preferred(zone: &Zone) -> Vec<(u16, Box<[u8]>)> {
    let is_used = |param: &Nsec3Param<'_>| zone.chains.nsec3.as_ref().is_some_and(|chain| chain.is_of(param));
    nsec3::usable(zone.apex_node())
        .take_while(|param| !is_used(param))
        .map(|param| (param.iterations, param.salt.into()))
        .collect()
}
