//! Denials that were proven once and are used again (RFC 8198): NSEC and NSEC3 records of secure answers say of whole ranges
//! of names that they are not there, so nobody need be asked for those.
//!
//! What is used is proven anew for each name, by the same rules as any response: what is kept here are records, not verdicts.
//! NSEC3 with opt-out is not kept, since it does not say that nothing is there.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use wire::message::Section;
use wire::rdata::view::{Nsec, Nsec3, Nsec3Param, Rrsig};
use wire::text::Base32Hex;
use wire::{Name, NameBuf, Rcode, Ttl, Type};

use crate::budget::{ValidationBudget, ValidationLimits};
use crate::denial::{self, Claim, Denied};
use crate::nsec3::{self, HASH_LEN};
use crate::outcome::Security;
use crate::response::{ReceivedSet, Response};
use crate::settings::ValidationSettings;
use crate::validator::Validated;

type Hash = [u8; HASH_LEN];

/// Parts that are locked by themselves. A zone is in one of them.
const SHARDS: usize = 16;
/// Zones whose names have more labels are left out, so that a long name costs no more than a short one to look for.
const LABELS: usize = 10;
/// Blocks of SHA-1 that one name may cost: some microseconds.
const HASHES: u32 = 64;
/// Bytes that a record takes beside its data: keys, lists, and its part of a tree.
const OVERHEAD: usize = 640;

/// What is proven not to be there, with the records that prove it.
#[derive(Clone, Debug)]
pub struct ProvenDenial {
    /// NXDOMAIN, or NOERROR where the name is there.
    pub rcode: Rcode,
    /// How much longer that holds (RFC 9077 §3).
    pub ttl: Ttl,
    /// The SOA of the zone, and the NSEC or NSEC3 records.
    pub sets: Vec<Arc<ReceivedSet>>,
}

/// Records that deny, each up to its time, on whatever threads. They are bounded: what came first goes first.
#[derive(Debug)]
pub struct ProvenDenials {
    shards: [RwLock<Shard>; SHARDS],
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Shard {
    zones: HashMap<u64, Zone>,
    /// What is kept, in the order of its coming: the zone, where, and the number.
    order: VecDeque<(u64, Place, u64)>,
    kept: usize,
    bytes: usize,
    most: usize,
    /// The number that a record had last.
    last: u64,
}

/// What is kept of one zone.
#[derive(Debug)]
struct Zone {
    view: u32,
    name: NameBuf,
    soa: Kept,
    names: BTreeMap<NameBuf, Kept>,
    hashes: BTreeMap<Hash, Kept>,
    /// Salt and iterations of all NSEC3 here.
    param: (Vec<u8>, u16),
}

/// Where a record is kept in its zone.
#[derive(Clone, Debug)]
enum Place {
    Name(Box<NameBuf>),
    Hash(Hash),
}

/// An RRset, and when its time is over.
#[derive(Clone, Debug)]
struct Kept {
    set: Arc<ReceivedSet>,
    until: u64,
    number: u64,
}

impl Kept {
    fn bytes(&self) -> usize {
        let signatures: usize = self.set.signatures.iter().map(|signature| signature.rdata.len()).sum();
        OVERHEAD + signatures + self.set.rdatas.iter().map(Vec::len).sum::<usize>()
    }
}

impl ProvenDenials {
    /// None, with room for so many bytes.
    pub fn new(bytes: usize) -> Self {
        let denials = ProvenDenials { shards: Default::default(), hasher: RandomState::new() };
        denials.clear(bytes);
        denials
    }

    /// Drops all. From now on there is room for so many bytes.
    pub fn clear(&self, bytes: usize) {
        for shard in &self.shards {
            *write(shard) = Shard { most: bytes / SHARDS, ..Shard::default() };
        }
    }

    /// Records that are kept.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| read(shard).kept).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| read(shard).bytes).sum()
    }

    fn shard(&self, view: u32, zone: Name<'_>) -> (u64, Option<&RwLock<Shard>>) {
        let hash = self.hasher.hash_one((view, zone.as_wire().to_ascii_lowercase()));
        (hash, self.shards.get(hash as usize % SHARDS))
    }

    /// Takes what a denial that was found secure at `now` proves by, for `ttl`. Names of one `view` are denied by what was
    /// learned under the same.
    pub fn learn(&self, view: u32, response: &Response, validated: &Validated, ttl: Ttl, now: u64) {
        if validated.security != Security::Secure {
            return;
        }
        let covered = || validated.covers.iter().filter_map(|at| response.sets.get(*at));
        let authority = || covered().filter(|set| set.section == Section::Authority);
        let Some(soa) = authority().find(|set| set.rtype == Type::SOA) else { return };
        let zone = soa.owner.as_name();
        if zone.label_count() > LABELS || !is_of(soa, zone) {
            return;
        }
        let until = now.saturating_add(ttl.as_secs().into());
        let (hash, Some(shard)) = self.shard(view, zone) else { return };
        let usable: Vec<_> = authority().filter_map(|set| Some((usable(set, zone)?, set))).collect();
        if usable.is_empty() || until <= now {
            return;
        }
        let mut shard = write(shard);
        let soa = Kept { set: Arc::new(soa.clone()), until, number: 0 };
        let known =
            shard.zones.get_mut(&hash).filter(|known| known.view == view && known.name == zone.to_buf());
        match known {
            Some(known) => known.soa = soa,
            None => {
                let (names, hashes) = (BTreeMap::new(), BTreeMap::new());
                let param = (Vec::new(), 0);
                shard.zones.insert(hash, Zone { view, name: zone.to_buf(), soa, names, hashes, param });
            }
        }
        for ((place, param), set) in usable {
            shard.keep(hash, place, param, set, until);
        }
        shard.make_room();
    }

    /// What is known not to be there at `now`, if a name or its type is not.
    pub fn deny(&self, view: u32, name: Name<'_>, qtype: Type, now: u64) -> Option<ProvenDenial> {
        // DS are of the zone above the name (RFC 4035 §5.2).
        let from = if qtype == Type::DS { name.parent()? } else { name };
        let most = from.label_count();
        (most.saturating_sub(LABELS)..=most).find_map(|labels| {
            let zone = from.skip(labels);
            let (hash, shard) = self.shard(view, zone);
            let shard = read(shard?);
            let known = shard.zones.get(&hash)?;
            let is_it = known.view == view && known.name.as_name() == zone && now < known.soa.until;
            is_it.then(|| known.deny(name, qtype, now)).flatten()
        })
    }

    /// Drops what is kept of the zones that a name is in, and, with `tree`, of those below it.
    pub fn forget(&self, name: Name<'_>, tree: bool) {
        for shard in &self.shards {
            let mut shard = write(shard);
            let gone = |zone: &Zone| {
                let own = zone.name.as_name();
                name.is_at_or_below(own) || tree && own.is_at_or_below(name)
            };
            let hashes: Vec<u64> =
                shard.zones.iter().filter(|(_, zone)| gone(zone)).map(|(hash, _)| *hash).collect();
            for hash in hashes {
                shard.remove_zone(hash);
            }
        }
    }
}

fn read(shard: &RwLock<Shard>) -> RwLockReadGuard<'_, Shard> {
    shard.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(shard: &RwLock<Shard>) -> RwLockWriteGuard<'_, Shard> {
    shard.write().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an RRset is signed by a zone alone, and came of no wildcard.
fn is_of(set: &ReceivedSet, zone: Name<'_>) -> bool {
    let owner = set.owner.as_name();
    let labels = owner.label_count() - usize::from(owner.is_wildcard());
    !set.signatures.is_empty()
        && set.signatures.iter().all(|signature| {
            Rrsig::read(&signature.rdata)
                .is_ok_and(|sig| sig.signer == zone && usize::from(sig.labels) == labels)
        })
}

/// Where an NSEC or NSEC3 of a zone is kept, and its salt and iterations, if it denies more than one name.
fn usable(set: &ReceivedSet, zone: Name<'_>) -> Option<(Place, (Vec<u8>, u16))> {
    let [rdata] = &set.rdatas[..] else { return None };
    let owner = set.owner.as_name();
    if !is_of(set, zone) {
        return None;
    }
    match set.rtype {
        Type::NSEC => {
            let next = Nsec::read(rdata).ok()?.next;
            // Made for one name, it says nothing of others (RFC 9824 §3).
            let single = next.parent().is_some_and(|parent| parent == owner)
                && next.labels().next().is_some_and(|label| label == b"\0");
            (!single).then(|| (Place::Name(Box::new(set.owner)), (Vec::new(), 0)))
        }
        Type::NSEC3 => {
            let nsec3 = Nsec3::read(rdata).ok()?;
            let most = ValidationSettings::default().max_nsec3_iterations;
            let fits = nsec3.param.algorithm == Nsec3Param::SHA1
                && nsec3.param.flags == 0
                && nsec3.param.iterations <= most;
            let mut hash = Vec::with_capacity(HASH_LEN);
            Base32Hex::decode(owner.labels().next()?, &mut hash).ok().filter(|_| fits)?;
            Some((Place::Hash(hash.try_into().ok()?), (nsec3.param.salt.to_vec(), nsec3.param.iterations)))
        }
        _ => None,
    }
}

impl Shard {
    /// Keeps one record of a zone that is known.
    fn keep(&mut self, hash: u64, place: Place, param: (Vec<u8>, u16), set: &ReceivedSet, until: u64) {
        let Some(zone) = self.zones.get_mut(&hash) else { return };
        if matches!(place, Place::Hash(_)) && zone.param != param {
            // Another chain: the hashes of the one before mean nothing any more.
            for gone in std::mem::take(&mut zone.hashes).into_values() {
                self.bytes -= gone.bytes();
                self.kept -= 1;
            }
            zone.param = param;
        }
        let known = match &place {
            Place::Name(name) => zone.names.get(&**name),
            Place::Hash(hash) => zone.hashes.get(hash),
        };
        // What is kept again stays where it is in the order.
        let number = known.map_or(self.last + 1, |known| known.number);
        let kept = Kept { set: Arc::new(set.clone()), until, number };
        if known.is_none() {
            self.last = number;
            self.order.push_back((hash, place.clone(), number));
            self.kept += 1;
        }
        self.bytes += kept.bytes();
        let before = match place {
            Place::Name(name) => zone.names.insert(*name, kept),
            Place::Hash(hash) => zone.hashes.insert(hash, kept),
        };
        self.bytes -= before.map_or(0, |before| before.bytes());
    }

    /// Drops what came first until the rest has room.
    fn make_room(&mut self) {
        while self.bytes > self.most
            && let Some((hash, place, number)) = self.order.pop_front()
        {
            self.remove(hash, &place, number);
        }
        // What went with its zone, or its chain, is still in the order.
        if self.order.len() > 2 * self.kept + 64 {
            let zones = &self.zones;
            self.order.retain(|(hash, place, number)| {
                let kept = zones.get(hash).and_then(|zone| zone.kept(place));
                kept.is_some_and(|kept| kept.number == *number)
            });
        }
    }

    fn remove(&mut self, hash: u64, place: &Place, number: u64) {
        let Some(zone) = self.zones.get_mut(&hash) else { return };
        if zone.kept(place).is_none_or(|kept| kept.number != number) {
            return;
        }
        let gone = match place {
            Place::Name(name) => zone.names.remove(&**name),
            Place::Hash(hash) => zone.hashes.remove(hash),
        };
        if zone.names.is_empty() && zone.hashes.is_empty() {
            self.zones.remove(&hash);
        }
        if let Some(gone) = gone {
            self.bytes -= gone.bytes();
            self.kept -= 1;
        }
    }

    fn remove_zone(&mut self, hash: u64) {
        let Some(zone) = self.zones.remove(&hash) else { return };
        for gone in zone.names.into_values().chain(zone.hashes.into_values()) {
            self.bytes -= gone.bytes();
            self.kept -= 1;
        }
    }
}

impl Zone {
    fn kept(&self, place: &Place) -> Option<&Kept> {
        match place {
            Place::Name(name) => self.names.get(&**name),
            Place::Hash(hash) => self.hashes.get(hash),
        }
    }

    /// What is proven of a name in this zone.
    fn deny(&self, name: Name<'_>, qtype: Type, now: u64) -> Option<ProvenDenial> {
        let limits = ValidationLimits { nsec3_hashes: HASHES, ..ValidationLimits::default() };
        let mut budget = ValidationBudget::new(limits);
        let settings = ValidationSettings::default();
        let records = match self.by_names(name) {
            None if !self.hashes.is_empty() => self.by_hashes(name, &mut budget)?,
            records => records?,
        };
        let live: Vec<&Kept> = records.into_iter().filter(|kept| now < kept.until).collect();
        let sets: Vec<&ReceivedSet> = live.iter().map(|kept| &*kept.set).collect();
        let mut proves = |claim| {
            let zone = self.name.as_name();
            let denied = denial::prove(zone, &sets, name, claim, &settings, &mut budget);
            matches!(denied, Ok(Denied::Proven | Denied::Delegation))
        };
        let rcode = if proves(Claim::Name) {
            Rcode::NXDOMAIN
        } else if proves(Claim::Data(qtype)) {
            Rcode::NOERROR
        } else {
            return None;
        };
        let until = live.iter().map(|kept| kept.until).fold(self.soa.until, u64::min);
        let ttl = Ttl::from_secs(u32::try_from(until - now).unwrap_or(Ttl::MAX.as_secs()));
        let all = std::iter::once(&self.soa).chain(live);
        Some(ProvenDenial { rcode, ttl, sets: all.map(|kept| Arc::clone(&kept.set)).collect() })
    }

    /// The NSEC at or in front of a name, and that of the wildcard that could stand for it.
    fn by_names(&self, name: Name<'_>) -> Option<Vec<&Kept>> {
        let in_front = |name: NameBuf| self.names.range(..=name).next_back();
        let (owner, kept) = in_front(name.to_lower().into())?;
        if owner.as_name() == name {
            return Some(vec![kept]);
        }
        let nsec = Nsec::read(kept.set.rdatas.first()?).ok()?;
        let is_there =
            |above: &Name<'_>| owner.as_name().is_at_or_below(*above) || nsec.next.is_at_or_below(*above);
        let encloser = name.ancestors().find(is_there)?;
        let star = NameBuf::prepend(b"*", encloser).ok()?;
        let (_, of_star) = in_front(star)?;
        match Arc::ptr_eq(&kept.set, &of_star.set) {
            true => Some(vec![kept]),
            false => Some(vec![kept, of_star]),
        }
    }

    /// The NSEC3 of a name, or those of its closest encloser, of the name below that and of the wildcard.
    fn by_hashes(&self, name: Name<'_>, budget: &mut ValidationBudget) -> Option<Vec<&Kept>> {
        let mut hash = |name: Name<'_>| {
            let (salt, iterations) = &self.param;
            let blocks = |len: usize| (len + salt.len() + 9).div_ceil(64) as u32;
            budget.take_hashes(blocks(name.len()) + u32::from(*iterations) * blocks(HASH_LEN)).ok()?;
            Some(nsec3::hash(name.to_lower().as_lower(), salt, *iterations))
        };
        if let Some(kept) = self.hashes.get(&hash(name)?) {
            return Some(vec![kept]);
        }
        let covering = |hash: Hash| {
            let before = self.hashes.range(..hash).next_back();
            before.or_else(|| self.hashes.iter().next_back()).map(|(_, kept)| kept)
        };
        let zone = self.name.as_name();
        let mut way: Vec<Name<'_>> = name.ancestors().take_while(|at| at.is_at_or_below(zone)).collect();
        let mut encloser = None;
        while let Some(at) = way.pop() {
            let own = hash(at)?;
            match (self.hashes.get(&own), encloser) {
                (Some(kept), _) => encloser = Some((at, kept)),
                (None, None) => return None,
                (None, Some((above, kept))) => {
                    let star = hash(NameBuf::prepend(b"*", above).ok()?.as_name())?;
                    let of_star = self.hashes.get(&star).or_else(|| covering(star))?;
                    let mut all = vec![kept, covering(own)?, of_star];
                    all.dedup_by(|a, b| Arc::ptr_eq(&a.set, &b.set));
                    return Some(all);
                }
            }
        }
        None
    }
}
