//! Builds a [`Zone`] from the builder's blobs: repeated names, empty non-terminals, occlusion.

use std::sync::OnceLock;

use wire::hash::{HashKey, HashedName};
use wire::rdata::view::{Soa, SoaNumbers};
use wire::{LowerName, LowerNameBuf, NameHash, Ttl, Type};

use super::Zone;
use super::arena::{Arena, NodeAddress};
use super::blob::{self, entries};
use super::blobs::{Blobs, Census, below, indexed, live, settle_one};
use super::build::{BuildError, ZoneBuilder};
use super::chains::Chains;
use super::encode::{Encoder, is_child};
use super::fill::{fill, hashed_names};
use super::index::{Index, memory_for};
use super::memory::Region;
use super::names::{Hashed, HashedNames};
use super::node::{DEAD, INHERITED, Node, NodeFlags, SETTLED, TARGETS};
use super::order;
use super::parallel::threads_for;
use super::pending::{NoteKind, Notes, Pending};
use super::room::Room;
use super::sorted::KeyedNodes;
use super::{nsec, nsec3, targets};

/// Bytes of memory for each node while the chains of a signed zone are built: its place in one of them,
/// twice.
const CHAINED: usize = 2 * size_of::<(u64, NodeAddress)>();
/// Bytes of added blobs between two checks of the memory.
const ADDED: usize = 64 << 10;

/// Builds a zone from the builder's blobs.
pub(super) fn finish<'b>(builder: &'b mut ZoneBuilder, room: Room<'b>) -> Result<Zone, BuildError> {
    let anew = Blobs::new(&builder.gatherer.apex, &builder.key);
    let mut blobs = std::mem::replace(&mut builder.blobs, anew);
    if blobs.full {
        return Err(BuildError::TooBig);
    }
    blobs.end();
    let mut work = Finisher {
        threads: threads_for(blobs.arena.len()),
        key: builder.key,
        apex: builder.gatherer.apex,
        arena: blobs.arena,
        encoder: &mut builder.gatherer.encoder,
        notes: &mut builder.gatherer.notes,
        index: Index::for_entries(0),
        names: blobs.names.len(),
        hashed: blobs.hashed,
        census: blobs.census,
        unsettled: blobs.unsettled,
        unresolved: blobs.unresolved,
        ancestors: Vec::new(),
        nsec3_only: None,
        room,
        added: 0,
    };
    let repeated = work.fill_index(blobs.names, 0)?;
    work.merge(repeated)?;
    let apex = work.get(work.apex.as_lower()).ok_or(BuildError::NoSoa)?;
    let (soa, negative_ttl) = read_soa(Node::alone(&work.arena, apex)).ok_or(BuildError::NoSoa)?;
    if Node::alone(&work.arena, apex).rrset(Type::NS).is_none() {
        work.notes.add(NoteKind::NoApexNs, work.apex.as_name(), Type::NS, 0);
    }
    work.settle(apex)?;
    let (apex_name, unresolved) = (work.apex.as_name(), std::mem::take(&mut work.unresolved));
    targets::resolve(&mut work.arena, &work.index, apex_name, &work.key, work.threads, &unresolved);
    work.takes(work.census.nodes as usize * if work.census.denial { CHAINED } else { 0 })?;
    Ok(work.into_zone(apex, soa, negative_ttl))
}

/// Returns the numbers of the apex' (first) SOA, and the TTL of negative answers: the lesser of its TTL and
/// its MINIMUM (RFC 2308 §5).
pub(super) fn read_soa(apex: Node<'_>) -> Option<(SoaNumbers, Ttl)> {
    let set = apex.rrset(Type::SOA)?;
    let mut rdata = Vec::new();
    set.rdatas().next()?.copy_to(&mut rdata);
    let numbers = Soa::read(&rdata).ok()?.numbers;
    Some((numbers, Ttl::from_secs(set.ttl().as_secs().min(numbers.minimum))))
}

/// The state of building a [`Zone`] from the builder's blobs.
struct Finisher<'b> {
    /// Number of threads.
    threads: usize,
    key: HashKey,
    apex: LowerNameBuf,
    arena: Arena<Region>,
    encoder: &'b mut Encoder,
    notes: &'b mut Notes,
    index: Index<Region>,
    /// Number of entries in the index.
    names: usize,
    /// Number of blobs of the NSEC3 chain only; outdated once blobs are merged.
    hashed: usize,
    census: Census,
    /// Nodes that are not settled yet.
    unsettled: Vec<NodeAddress>,
    /// Nodes whose targets are not found yet.
    unresolved: Vec<NodeAddress>,
    /// A reused buffer of [`Finisher::settle_deep`].
    ancestors: Vec<NodeAddress>,
    /// Computed on first use: see [`Finisher::nsec3_only_at`].
    nsec3_only: Option<Vec<(u64, NodeAddress)>>,
    room: Room<'b>,
    /// Bytes of blobs added since the memory was checked.
    added: usize,
}

impl Finisher<'_> {
    /// Reports the memory in use, including `beside` bytes outside of this struct.
    fn takes(&mut self, beside: usize) -> Result<(), BuildError> {
        let lists = self.unsettled.capacity() + self.unresolved.capacity() + self.ancestors.capacity();
        let chain = self.nsec3_only.as_ref().map_or(0, |chain| size_of_val(&**chain));
        let kept = self.arena.len() + self.index.memory() + lists * size_of::<NodeAddress>() + chain;
        self.room.takes(kept + beside)
    }

    /// Reports it now and then, as blobs are added.
    fn look(&mut self, beside: usize) -> Result<(), BuildError> {
        if self.added < ADDED {
            return Ok(());
        }
        self.added = 0;
        self.takes(beside)
    }

    fn find(&self, lower: LowerName<'_>, hash: NameHash) -> Option<NodeAddress> {
        self.index.find(hash, |at| blob::owner(self.arena.from(at)) == lower)
    }

    fn get(&self, lower: LowerName<'_>) -> Option<NodeAddress> {
        self.find(lower, self.key.name(lower))
    }

    /// Builds the index of these names, with room for `more`. A name that occurs twice is in it once. Returns
    /// the addresses of all blobs of such names.
    fn fill_index(&mut self, names: HashedNames, more: usize) -> Result<Vec<NodeAddress>, BuildError> {
        // The old one is freed first: it is not needed.
        self.index = Index::for_entries(0);
        self.takes(names.memory() + memory_for(names.len() + more))?;
        let mut repeated = Vec::new();
        self.index = fill(&self.arena, names, more, self.threads, &mut repeated);
        Ok(repeated)
    }

    /// Builds the index again from the arena, with room for `more` names.
    fn index_anew(&mut self, more: usize) -> Result<(), BuildError> {
        let names = hashed_names(&self.arena, &self.key, self.threads);
        self.names = names.len();
        self.fill_index(names, more).map(drop)
    }

    /// Merges the blobs of names that occur in several places; `repeated` has the addresses of those in the
    /// name space.
    fn merge(&mut self, mut repeated: Vec<NodeAddress>) -> Result<(), BuildError> {
        self.find_repeated_nsec3(&mut repeated);
        if repeated.is_empty() {
            return Ok(());
        }
        let name = |at: NodeAddress| blob::owner(self.arena.from(at));
        let mut repeated: Vec<Hashed> =
            repeated.into_iter().map(|at| (self.key.name(name(at)), at)).collect();
        repeated.sort_unstable_by(|a, b| {
            let by_name = || name(a.1).as_wire().cmp(name(b.1).as_wire());
            a.0.bits().cmp(&b.0.bits()).then_with(by_name).then(a.1.cmp(&b.1))
        });
        repeated.dedup();
        let same = |a: &Hashed, b: &Hashed| a.0 == b.0 && name(a.1) == name(b.1);
        let ends: Vec<usize> = repeated.chunk_by(same).map(<[_]>::len).collect();
        let lists = size_of_val(&*repeated) + size_of_val(&*ends);
        let (mut pending, mut dead, mut rest) = (Pending::new(), 0, &repeated[..]);
        let mut rebuild = ends.len() > self.names / 16;
        for end in ends {
            let (group, later) = rest.split_at(end);
            rest = later;
            let new = self.merge_group(group, &mut pending, &mut dead)?;
            self.look(lists)?;
            match new {
                Some(new) if !rebuild => {
                    self.index.replace(group[0].0, new, |at| group.iter().any(|&(_, old)| old == at));
                }
                _ => rebuild = true,
            }
        }
        if dead > self.arena.len() / 4 {
            self.takes(lists + self.arena.len().saturating_sub(dead))?;
            let old = std::mem::replace(&mut self.arena, Arena::building());
            self.arena = old.compacted(live).map_err(|_| BuildError::TooBig)?;
            rebuild = true;
        }
        if rebuild {
            self.index_anew(0)?;
        }
        self.begin_anew();
        Ok(())
    }

    /// Resets all nodes to the state before settling, after a merge: results computed for them may refer to
    /// blobs that are dead now.
    fn begin_anew(&mut self) {
        (self.unsettled, self.unresolved) = (Vec::new(), Vec::new());
        self.census = Census::default();
        for (at, blob) in self.arena.walk().filter(|(_, blob)| live(blob)) {
            self.census.add(blob);
            self.unsettled.push(at);
            self.unresolved.extend(Some(at).filter(|_| blob::flags(blob) & TARGETS != 0));
        }
        for &at in &self.unsettled {
            let blob = self.arena.blob_mut(at);
            let flags = blob::flags(blob) & !(INHERITED | SETTLED);
            blob::set_flags(blob, flags);
        }
    }

    /// Merges the blobs of one name. `dead` counts the bytes of dead blobs.
    fn merge_group(
        &mut self,
        group: &[Hashed],
        pending: &mut Pending,
        dead: &mut usize,
    ) -> Result<Option<NodeAddress>, BuildError> {
        pending.begin(blob::written_owner(self.arena.blob(group[0].1)).as_name());
        for &(_, at) in group {
            unpack(Node::alone(&self.arena, at), pending);
            let blob = self.arena.blob_mut(at);
            *dead += blob.len();
            let flags = blob::flags(blob) | DEAD;
            blob::set_flags(blob, flags);
        }
        let Some(blob) = self.encoder.encode(pending, self.apex.as_name(), self.notes) else {
            return Ok(None);
        };
        self.added += blob.len();
        self.arena.push(blob).map(Some).map_err(|_| BuildError::TooBig)
    }

    /// Adds NSEC3 owners that occur in several places, or that have other records elsewhere in the zone.
    fn find_repeated_nsec3(&self, repeated: &mut Vec<NodeAddress>) {
        if self.hashed == 0 {
            return;
        }
        let chain = self.nsec3_only();
        // Different hashes with equal prefixes do no harm: names are compared later.
        for run in chain.chunk_by(|a, b| a.0 == b.0).filter(|run| run.len() > 1) {
            repeated.extend(run.iter().map(|&(_, at)| at));
        }
        for (at, blob) in self.arena.walk().filter(|(_, blob)| indexed(blob)) {
            let Some(prefix) = nsec3::hash_of(blob::owner(blob)).map(|hash| nsec3::prefix(&hash)) else {
                continue;
            };
            let start = chain.partition_point(|&(p, _)| p < prefix);
            for &(_, other) in chain[start..].iter().take_while(|&&(p, _)| p == prefix) {
                if blob::owner(self.arena.from(other)) == blob::owner(blob) {
                    repeated.extend([at, other]);
                }
            }
        }
    }

    /// Creates empty non-terminals and sets the flags that depend on other names.
    fn settle(&mut self, apex: NodeAddress) -> Result<(), BuildError> {
        let apex_len = self.apex.as_name().len();
        let below_apex = below(blob::flags(self.arena.blob(apex)));
        let mut hashed = HashedName::new();
        // In most zones a name follows its parent or its parent's children: then it need not be looked up.
        let mut recent = apex;
        for at in std::mem::take(&mut self.unsettled) {
            let blob = self.arena.blob(at);
            let (flags, owner) = (blob::flags(blob), blob::owner(blob));
            if flags & (DEAD | SETTLED | NodeFlags::NSEC3_ONLY.0 | NodeFlags::APEX.0) == 0 {
                let parent = blob::owner(self.arena.from(recent));
                if is_child(owner, apex_len) {
                    settle_one(&mut self.arena, at, apex, below_apex);
                    recent = at;
                } else if owner.parent() == Some(parent) {
                    let inherited = below(blob::flags(self.arena.from(recent)));
                    settle_one(&mut self.arena, at, recent, inherited);
                } else {
                    hashed.set(&self.key, owner.as_name());
                    recent = self.settle_deep(at, apex, &hashed)?;
                }
            }
        }
        Ok(())
    }

    /// Settles a node that is more than one label below the apex, its unsettled ancestors first. Returns its
    /// parent.
    fn settle_deep(
        &mut self,
        at: NodeAddress,
        apex: NodeAddress,
        name: &HashedName,
    ) -> Result<NodeAddress, BuildError> {
        let apex_labels = self.apex.as_name().label_count();
        let mut ancestors = std::mem::take(&mut self.ancestors);
        ancestors.push(at);
        let mut base = apex;
        for skip in 1..name.label_count() - apex_labels {
            let ancestor = match self.find(name.suffix(skip), name.hash(skip)) {
                Some(ancestor) => ancestor,
                None => self.add_empty(name, skip)?,
            };
            if blob::flags(self.arena.blob(ancestor)) & SETTLED != 0 {
                base = ancestor;
                break;
            }
            ancestors.push(ancestor);
        }
        let mut parent = base;
        while let Some(at) = ancestors.pop() {
            let inherited = below(blob::flags(self.arena.blob(base)));
            settle_one(&mut self.arena, at, base, inherited);
            (parent, base) = (base, at);
        }
        self.ancestors = ancestors;
        Ok(parent)
    }

    /// Creates the empty non-terminal `name` without its `skip` leftmost labels.
    fn add_empty(&mut self, name: &HashedName, skip: usize) -> Result<NodeAddress, BuildError> {
        if self.names >= self.index.room() {
            self.index_anew(self.names / 4 + 1)?;
        }
        let owner = name.suffix(skip);
        let at = match self.nsec3_only_at(owner) {
            // Since it has names below it, it is part of the name space after all (RFC 5155 §7.2.8).
            Some(at) => {
                let blob = self.arena.blob_mut(at);
                let flags = blob::flags(blob) & !NodeFlags::NSEC3_ONLY.0;
                blob::set_flags(blob, flags);
                at
            }
            None => {
                let blob = self.encoder.empty(owner);
                self.census.add(blob);
                self.added += blob.len();
                self.arena.push(blob).map_err(|_| BuildError::TooBig)?
            }
        };
        self.look(0)?;
        self.index.insert(name.hash(skip), at);
        self.names += 1;
        Ok(at)
    }

    /// Returns the node of an NSEC3 owner that is not in the index.
    fn nsec3_only_at(&mut self, owner: LowerName<'_>) -> Option<NodeAddress> {
        let prefix = nsec3::prefix(&nsec3::hash_of(owner)?);
        if self.nsec3_only.is_none() {
            self.nsec3_only = Some(self.nsec3_only());
        }
        let all = self.nsec3_only.as_deref()?;
        let start = all.partition_point(|&(p, _)| p < prefix);
        let mut same = all[start..].iter().take_while(|&&(p, _)| p == prefix);
        let is_owner = |at: NodeAddress| blob::owner(self.arena.from(at)) == owner;
        same.find(|&&(_, at)| is_owner(at)).map(|&(_, at)| at)
    }

    /// Returns hash prefixes and addresses of the nodes with NSEC3 only, sorted.
    fn nsec3_only(&self) -> Vec<(u64, NodeAddress)> {
        let only =
            |blob: &[u8]| blob::flags(blob) & (DEAD | NodeFlags::NSEC3_ONLY.0) == NodeFlags::NSEC3_ONLY.0;
        let nodes = self.arena.walk().filter(|(_, blob)| only(blob));
        let mut all: Vec<_> = nodes
            .filter_map(|(at, blob)| Some((nsec3::prefix(&nsec3::hash_of(blob::owner(blob))?), at)))
            .collect();
        if !all.is_sorted() {
            all.sort_unstable();
        }
        all
    }

    fn into_zone(self, apex: NodeAddress, soa: SoaNumbers, negative_ttl: Ttl) -> Zone {
        let apex_len = self.apex.as_name().len();
        let (arena, index) = (self.arena.freeze(), self.index.freeze());
        let Census { nodes, records, wildcards, denial } = self.census;
        let mut nsec = KeyedNodes::growing(if denial { self.names } else { 0 });
        let mut nsec3 = Vec::new();
        // Without NSEC and NSEC3 the arena, which may be gigabytes, need not be read.
        let denying = denial.then(|| arena.walk()).into_iter().flatten();
        for (at, blob) in denying.filter(|(_, blob)| live(blob)) {
            for (entry, _) in entries(blob) {
                if entry.rtype == Type::NSEC && blob::flags(blob) & NodeFlags::OCCLUDED.0 == 0 {
                    nsec.push(order::key(blob::owner(blob), apex_len), at);
                }
                if entry.rtype == Type::NSEC3 && is_child(blob::owner(blob), apex_len) {
                    nsec3.extend(nsec3::hash_of(blob::owner(blob)).map(|h| (nsec3::prefix(&h), at)));
                }
            }
        }
        let nsec = nsec::chain(nsec, &arena);
        let nsec3 = nsec3::StoredChain::new(&arena, Node::new(&arena, apex), nsec3);
        Zone {
            key: self.key,
            arena,
            index,
            apex,
            soa,
            negative_ttl,
            records,
            nodes,
            wildcards,
            signed: false,
            chainless: false,
            chains: Chains::shared(nsec, nsec3),
            all: OnceLock::new(),
        }
        .knowing_if_signed()
    }
}

/// Turns a node back into records.
pub(super) fn unpack(node: Node<'_>, pending: &mut Pending) {
    let mut rdata = Vec::new();
    for set in node.rrsets() {
        let records = set.rdatas().map(|r| (set.rtype(), r));
        for (t, record) in records.chain(set.sig_rdatas().map(|r| (Type::RRSIG, r))) {
            rdata.clear();
            record.copy_to(&mut rdata);
            pending.push(t, record.ttl(), &rdata, 0);
        }
    }
}
