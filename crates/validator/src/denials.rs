//! [`ProvenDenials`]: aggressive use of validated denials (RFC 8198). NSEC and NSEC3 records of secure
//! answers deny ranges of names, for which no server has to be queried.
//!
//! If they deny a name that a wildcard matches, and the wildcard's records are stored too, the answer is
//! synthesized from these (RFC 8198 §5.3). DNAME records of secure answers redirect all names below their
//! owners (RFC 6672 §3.4).
//!
//! Every use is proven again for its name, by the same rules as for a response: records are stored, not
//! verdicts. NSEC3 with opt-out is not stored, since it does not prove that a name does not exist. Names in
//! RDATA are in lower case, as they were signed.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use dnssec::nsec3::HASH_LEN;
use wire::message::Section;
use wire::rdata::view::{Nsec, Nsec3, Nsec3Param, Rrsig};
use wire::text::Base32Hex;
use wire::{Name, NameBuf, Rcode, Ttl, Type};

use crate::budget::{ValidationBudget, ValidationLimits};
use crate::denial::{self, Claim, Denied, KnownHashes};
use crate::outcome::Security;
use crate::response::{ReceivedSet, Response};
use crate::settings::ValidationSettings;
use crate::validation::Validated;

type Hash = [u8; HASH_LEN];

/// Number of shards with separate locks. Each zone is in one of them.
const SHARDS: usize = 16;
/// Most labels of a stored zone's name, so that a lookup of a long name costs no more than that of a short
/// one.
const MAX_ZONE_LABELS: usize = 10;
/// Bytes of an RRset beside its data: keys, lists, and its share of a tree.
const SET_OVERHEAD: usize = 640;
/// Bytes of each record beside its data.
const RECORD_OVERHEAD: usize = 48;
/// Most bytes of data of a stored wildcard RRset. Larger ones are queried each time, so that few of them do
/// not evict everything else.
const MAX_WILDCARD_DATA_BYTES: usize = 2048;

/// A proven denial, with the records that prove it.
#[derive(Clone, Debug)]
pub struct ProvenDenial {
    /// NXDOMAIN, or NOERROR if the name exists.
    pub rcode: Rcode,
    /// Remaining lifetime (RFC 9077 §3).
    pub ttl: Ttl,
    /// The zone's SOA, and the NSEC or NSEC3 records.
    pub sets: Vec<Arc<ReceivedSet>>,
}

/// A wildcard expansion, with the proof that no closer name exists.
#[derive(Clone, Debug)]
pub struct ProvenWildcard {
    /// Remaining lifetime: the shortest of its records.
    pub ttl: Ttl,
    /// The expanded RRset, of type QTYPE or CNAME.
    pub set: ReceivedSet,
    /// The NSEC or NSEC3 that covers the next closer name (RFC 4035 §3.1.3.3, RFC 5155 §7.2.6).
    pub proof: Arc<ReceivedSet>,
    /// The target, if the RRset is a CNAME that was not queried for.
    pub leads_to: Option<NameBuf>,
}

/// A redirection of a name by a DNAME.
#[derive(Clone, Debug)]
pub struct ProvenRedirect {
    /// Remaining lifetime.
    pub ttl: Ttl,
    /// The DNAME.
    pub dname: Arc<ReceivedSet>,
    /// The synthesized CNAME, which is not signed (RFC 6672 §5.3.1).
    pub cname: ReceivedSet,
    /// The target, unless QTYPE is CNAME.
    pub leads_to: Option<NameBuf>,
}

/// Denials, wildcard records and DNAME records with their lifetimes, shared by all threads. Bounded: the
/// oldest are evicted first.
///
/// The caller passes the time in: `now` is the time since the start of a monotonic clock, the same for all
/// calls.
#[derive(Debug)]
pub struct ProvenDenials {
    shards: [RwLock<Shard>; SHARDS],
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Shard {
    zones: HashMap<u64, Zone>,
    /// Records in the order in which they were stored: zone hash, place, and number.
    order: VecDeque<(u64, Place, u64)>,
    kept: usize,
    bytes: usize,
    most: usize,
    settings: ValidationSettings,
    limits: ValidationLimits,
    /// The number of the last stored record.
    last: u64,
}

/// The stored records of one zone.
#[derive(Debug)]
struct Zone {
    view: u32,
    name: NameBuf,
    /// Without the SOA nothing can be denied.
    soa: Option<StoredSet>,
    names: BTreeMap<NameBuf, StoredSet>,
    hashes: BTreeMap<Hash, StoredSet>,
    /// RRsets of wildcards, by the name directly above the wildcard, and type.
    wildcards: BTreeMap<(NameBuf, Type), StoredSet>,
    /// DNAME records, by owner.
    dnames: BTreeMap<NameBuf, StoredSet>,
    /// Salt and iterations of all NSEC3 in `hashes`.
    param: Param,
}

/// The place of a record in its zone.
#[derive(Clone, Debug)]
enum Place {
    Name(Box<NameBuf>),
    Hash(Hash),
    Wildcard(Box<(NameBuf, Type)>),
    Dname(Box<NameBuf>),
}

/// Records of a zone to be stored.
struct NewSets<'r> {
    zone: Name<'r>,
    soa: Option<&'r ReceivedSet>,
    sets: Vec<PlacedSet>,
}

/// An RRset to be stored.
struct PlacedSet {
    place: Place,
    /// `None` except for NSEC3.
    param: Option<Param>,
    set: ReceivedSet,
}

/// Salt and iterations of NSEC3.
type Param = (Vec<u8>, u16);

/// An RRset with its expiry.
#[derive(Clone, Debug)]
struct StoredSet {
    set: Arc<ReceivedSet>,
    /// When it expires, on the caller's clock.
    until: Duration,
    number: u64,
}

impl StoredSet {
    fn bytes(&self) -> usize {
        let records = self.set.signatures.len() + self.set.rdatas.len();
        SET_OVERHEAD + RECORD_OVERHEAD * records + data_of(&self.set)
    }
}

impl ProvenDenials {
    /// Creates an empty table with room for this many bytes.
    pub fn new(bytes: usize) -> Self {
        let denials = ProvenDenials { shards: Default::default(), hasher: RandomState::new() };
        denials.clear(bytes);
        denials
    }

    /// Removes all records, and sets the capacity in bytes.
    pub fn clear(&self, bytes: usize) {
        self.configure(bytes, &ValidationSettings::default(), &ValidationLimits::default());
    }

    /// Removes all records, and sets the capacity in bytes. NSEC3 with more iterations than validation
    /// accepts are not stored, and a use of stored ones takes at most as many hashes per question as the
    /// validation of an answer.
    pub fn configure(&self, bytes: usize, settings: &ValidationSettings, limits: &ValidationLimits) {
        for shard in &self.shards {
            let (most, settings, limits) = (bytes / SHARDS, *settings, *limits);
            *write(shard) = Shard { most, settings, limits, ..Shard::default() };
        }
    }

    /// Number of stored records.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| read(shard).kept).sum()
    }

    /// Whether no records are stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the stored records.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| read(shard).bytes).sum()
    }

    fn shard(&self, view: u32, zone: Name<'_>) -> (u64, Option<&RwLock<Shard>>) {
        let hash = self.hasher.hash_one((view, zone.as_wire().to_ascii_lowercase()));
        (hash, self.shards.get(hash as usize % SHARDS))
    }

    /// Stores the proof of a denial found secure at `now`, for `ttl`. Names of a `view` are denied only by
    /// records stored under the same view.
    pub fn store_denial(
        &self,
        view: u32,
        response: &Response,
        validated: &Validated,
        ttl: Ttl,
        now: Duration,
    ) {
        let Some(soa) = proof_of(response, validated).find(|set| set.rtype == Type::SOA) else { return };
        let zone = soa.owner.as_name();
        if is_of(soa, zone) {
            let sets = denying(response, validated, zone).collect();
            self.store(view, NewSets { zone, soa: Some(soa), sets }, ttl, now);
        }
    }

    /// Stores the DNAME of an answer found secure at `now`, and the wildcard records from which it was
    /// expanded with their proof, for as long as the answer may be cached.
    pub fn store_wildcards(&self, view: u32, response: &Response, validated: &Validated, now: Duration) {
        let answers = || covered(response, validated).filter(|set| set.section == Section::Answer);
        for dname in answers().filter(|set| set.rtype == Type::DNAME && set.rdatas.len() == 1) {
            let Some((zone, _)) = signed_by(dname).filter(|(zone, _)| is_of(dname, *zone)) else { continue };
            let place = Place::Dname(Box::new(dname.owner));
            let new =
                NewSets { zone, soa: None, sets: vec![PlacedSet { place, param: None, set: dname.clone() }] };
            self.store(view, new, validated.ttl, now);
        }
        for (set, (zone, encloser)) in answers().filter_map(|set| Some((set, wildcard_of(set)?))) {
            let star =
                NameBuf::prepend(b"*", encloser.as_name()).map(|owner| ReceivedSet { owner, ..set.clone() });
            let Ok(star) = star else { continue };
            let place = Place::Wildcard(Box::new((encloser, set.rtype)));
            let star = PlacedSet { place, param: None, set: star };
            let sets = denying(response, validated, zone).chain([star]).collect();
            self.store(view, NewSets { zone, soa: None, sets }, validated.ttl, now);
        }
    }

    fn store(&self, view: u32, new: NewSets<'_>, ttl: Ttl, now: Duration) {
        let NewSets { zone, soa, mut sets } = new;
        let until = now.saturating_add(ttl.as_duration());
        let (hash, Some(shard)) = self.shard(view, zone) else { return };
        if zone.label_count() > MAX_ZONE_LABELS || sets.is_empty() || until <= now {
            return;
        }
        let mut shard = write(shard);
        let most = shard.settings.max_nsec3_iterations;
        sets.retain(|new| new.param.as_ref().is_none_or(|(_, iterations)| *iterations <= most));
        if sets.is_empty() {
            return;
        }
        let known =
            shard.zones.get(&hash).is_some_and(|known| known.view == view && known.name.as_name() == zone);
        if !known {
            // Replaces another zone with the same hash.
            shard.remove_zone(hash);
            shard.zones.insert(hash, Zone::new(view, zone.to_buf()));
        }
        if let (Some(soa), Some(known)) = (soa, shard.zones.get_mut(&hash)) {
            known.soa = Some(StoredSet { set: Arc::new(soa.clone()), until, number: 0 });
        }
        for set in sets {
            shard.store(hash, set, until);
        }
        shard.make_room();
    }

    /// Returns the proven denial at `now`, if the name or its type does not exist. Hashes are bounded by the
    /// rest of `work`.
    pub fn deny(
        &self,
        view: u32,
        name: Name<'_>,
        qtype: Type,
        now: Duration,
        work: &mut DenialWork,
    ) -> Option<ProvenDenial> {
        // DS belong to the parent zone of the name (RFC 4035 §5.2).
        let from = if qtype == Type::DS { name.parent()? } else { name };
        self.in_zones(view, from, work, |zone, hasher| zone.deny(name, qtype, now, hasher))
    }

    /// Returns the wildcard expansion of a name at `now`, if a wildcard matches and has records of the type
    /// or a CNAME. Hashes are bounded by the rest of `work`.
    pub fn expand(
        &self,
        view: u32,
        name: Name<'_>,
        qtype: Type,
        now: Duration,
        work: &mut DenialWork,
    ) -> Option<ProvenWildcard> {
        // Some types never occur at wildcards.
        if needs_all_records(qtype) || is_never_expanded(qtype) {
            return None;
        }
        self.in_zones(view, name, work, |zone, hasher| zone.expand(name, qtype, now, hasher))
    }

    /// Returns the redirection of a name at `now` by a stored DNAME, whatever the type.
    pub fn redirect(&self, view: u32, name: Name<'_>, qtype: Type, now: Duration) -> Option<ProvenRedirect> {
        if needs_all_records(qtype) {
            return None;
        }
        self.in_zones(view, name, &mut DenialWork::default(), |zone, _| zone.redirect(name, qtype, now))
    }

    /// Applies `apply` to the stored zones at or above a name, deepest first, and returns the first result.
    fn in_zones<T>(
        &self,
        view: u32,
        name: Name<'_>,
        work: &mut DenialWork,
        apply: impl Fn(&Zone, &mut Hasher<'_>) -> Option<T>,
    ) -> Option<T> {
        let most = name.label_count();
        (most.saturating_sub(MAX_ZONE_LABELS)..=most).find_map(|labels| {
            let zone = name.skip(labels);
            let (hash, shard) = self.shard(view, zone);
            let shard = read(shard?);
            let known = shard.zones.get(&hash)?;
            if known.view != view || known.name.as_name() != zone {
                return None;
            }
            let budget = work.budget.get_or_insert_with(|| ValidationBudget::new(shard.limits));
            apply(known, &mut Hasher { known: &mut work.known, budget, settings: &shard.settings })
        })
    }

    /// Removes the records of the zones that contain a name, and with `tree` of those below it.
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

/// Hashes computed for one question: of its name and of names above it. All zones that may contain the name
/// share the hashes and their limit.
#[derive(Debug, Default)]
pub struct DenialWork {
    known: KnownHashes,
    budget: Option<ValidationBudget>,
}

impl DenialWork {
    /// SHA-1 blocks hashed so far.
    pub fn hashes(&self) -> u32 {
        self.budget.as_ref().map_or(0, ValidationBudget::nsec3_hashes)
    }
}

/// The hashes of one question, and its remaining budget.
struct Hasher<'w> {
    known: &'w mut KnownHashes,
    budget: &'w mut ValidationBudget,
    settings: &'w ValidationSettings,
}

impl Hasher<'_> {
    /// Returns the hash of a name with a chain's salt and iterations; `None` if the budget is used up.
    fn hash(&mut self, name: Name<'_>, (salt, iterations): &Param) -> Option<Hash> {
        self.known.hash(name, salt, *iterations, self.budget).ok()
    }

    /// Returns the claim about a name that the records of a zone prove, if any.
    fn prove(&mut self, zone: &Zone, sets: &[&ReceivedSet], name: Name<'_>, claim: Claim) -> Option<Denied> {
        denial::prove(zone.name.as_name(), sets, name, claim, self.settings, self.budget, self.known).ok()
    }
}

fn left(until: Duration, now: Duration) -> Ttl {
    Ttl::from_secs(u32::try_from(until.saturating_sub(now).as_secs()).unwrap_or(Ttl::MAX.as_secs()))
}

fn read(shard: &RwLock<Shard>) -> RwLockReadGuard<'_, Shard> {
    shard.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(shard: &RwLock<Shard>) -> RwLockWriteGuard<'_, Shard> {
    shard.write().unwrap_or_else(PoisonError::into_inner)
}

/// The RRsets that an answer's validation covers, if it is secure.
fn covered<'r>(response: &'r Response, validated: &'r Validated) -> impl Iterator<Item = &'r ReceivedSet> {
    let is_secure = validated.security == Security::Secure;
    validated.covers.iter().filter_map(|at| response.sets.get(*at)).filter(move |_| is_secure)
}

/// Those of the authority section.
fn proof_of<'r>(response: &'r Response, validated: &'r Validated) -> impl Iterator<Item = &'r ReceivedSet> {
    covered(response, validated).filter(|set| set.section == Section::Authority)
}

/// Those NSEC and NSEC3 of a zone that deny more than one name.
fn denying<'r>(
    response: &'r Response,
    validated: &'r Validated,
    zone: Name<'r>,
) -> impl Iterator<Item = PlacedSet> {
    proof_of(response, validated).filter_map(move |set| {
        let (place, param) = usable(set, zone)?;
        Some(PlacedSet { place, param, set: set.clone() })
    })
}

/// Bytes of the RDATA of an RRset and its signatures.
fn data_of(set: &ReceivedSet) -> usize {
    let signatures = set.signatures.iter().map(|signature| signature.rdata.len());
    signatures.chain(set.rdatas.iter().map(Vec::len)).sum()
}

/// Signer and label count of an RRset, if all its signatures agree.
fn signed_by(set: &ReceivedSet) -> Option<(Name<'_>, usize)> {
    let mut all = set.signatures.iter().map(|signature| Rrsig::read(&signature.rdata).ok());
    let first = all.next()??;
    let same = |sig: Option<Rrsig<'_>>| {
        sig.is_some_and(|sig| (sig.signer, sig.labels) == (first.signer, first.labels))
    };
    all.all(same).then_some((first.signer, usize::from(first.labels)))
}

/// Whether only this zone signed an RRset, and it was not expanded from a wildcard.
fn is_of(set: &ReceivedSet, zone: Name<'_>) -> bool {
    let owner = set.owner.as_name();
    let labels = owner.label_count() - usize::from(owner.is_wildcard());
    signed_by(set).is_some_and(|(signer, signed)| signer == zone && signed == labels)
}

/// The zone of an RRset that was expanded from a wildcard and can be reused, and the name directly above the
/// wildcard.
fn wildcard_of(set: &ReceivedSet) -> Option<(Name<'_>, NameBuf)> {
    let owner = set.owner.as_name();
    let (zone, labels) = signed_by(set)?;
    let more = owner.label_count().checked_sub(labels)?;
    let of_wildcard = more > 0 && (more > 1 || !owner.is_wildcard());
    let encloser = owner.skip(more);
    let fits = encloser.is_at_or_below(zone)
        && !is_never_expanded(set.rtype)
        && data_of(set) <= MAX_WILDCARD_DATA_BYTES;
    (of_wildcard && fits).then(|| (zone, encloser.to_buf()))
}

/// Whether an answer needs all records of the name: ANY, and RRSIG, which covers all other types.
fn needs_all_records(qtype: Type) -> bool {
    matches!(qtype, Type::ANY | Type::RRSIG)
}

/// Whether records of this type are never taken from wildcards: they belong to zones, to cuts or to single
/// names.
fn is_never_expanded(rtype: Type) -> bool {
    let of_zones = matches!(rtype, Type::SOA | Type::NS | Type::DS | Type::DNSKEY | Type::DNAME);
    of_zones || matches!(rtype, Type::NSEC | Type::NSEC3 | Type::NSEC3PARAM)
}

/// The place of an NSEC or NSEC3 of a zone, and its salt and iterations, if it denies more than one name.
fn usable(set: &ReceivedSet, zone: Name<'_>) -> Option<(Place, Option<Param>)> {
    let [rdata] = &set.rdatas[..] else { return None };
    let owner = set.owner.as_name();
    if !is_of(set, zone) {
        return None;
    }
    match set.rtype {
        Type::NSEC => {
            let next = Nsec::read(rdata).ok()?.next;
            // An NSEC made for one name covers no other (RFC 9824 §3).
            let single = next.parent().is_some_and(|parent| parent == owner)
                && next.labels().next().is_some_and(|label| label == b"\0");
            (!single).then(|| (Place::Name(Box::new(set.owner)), None))
        }
        Type::NSEC3 => {
            let nsec3 = Nsec3::read(rdata).ok()?;
            let fits = nsec3.param.algorithm == Nsec3Param::SHA1 && nsec3.param.flags == 0;
            let mut hash = Vec::with_capacity(HASH_LEN);
            Base32Hex::decode(owner.labels().next()?, &mut hash).ok().filter(|_| fits)?;
            let param = (nsec3.param.salt.to_vec(), nsec3.param.iterations);
            Some((Place::Hash(hash.try_into().ok()?), Some(param)))
        }
        _ => None,
    }
}

impl Shard {
    /// Stores one record of a stored zone.
    fn store(&mut self, hash: u64, PlacedSet { place, param, set }: PlacedSet, until: Duration) {
        let Some(zone) = self.zones.get_mut(&hash) else { return };
        if let Some(param) = param.filter(|param| *param != zone.param) {
            // Another chain: the hashes of the previous one are no longer valid.
            for gone in std::mem::take(&mut zone.hashes).into_values() {
                self.bytes -= gone.bytes();
                self.kept -= 1;
            }
            zone.param = param;
        }
        let known = zone.kept(&place);
        // A replaced record keeps its position in the eviction order.
        let number = known.map_or(self.last + 1, |known| known.number);
        let kept = StoredSet { set: Arc::new(set), until, number };
        if known.is_none() {
            self.last = number;
            self.order.push_back((hash, place.clone(), number));
            self.kept += 1;
        }
        self.bytes += kept.bytes();
        let before = match place {
            Place::Name(name) => zone.names.insert(*name, kept),
            Place::Hash(hash) => zone.hashes.insert(hash, kept),
            Place::Wildcard(wildcard) => zone.wildcards.insert(*wildcard, kept),
            Place::Dname(owner) => zone.dnames.insert(*owner, kept),
        };
        self.bytes -= before.map_or(0, |before| before.bytes());
    }

    /// Evicts the oldest records until the rest fits.
    fn make_room(&mut self) {
        while self.bytes > self.most
            && let Some((hash, place, number)) = self.order.pop_front()
        {
            self.remove(hash, &place, number);
        }
        // Records removed with their zone or chain are still in `order`.
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
            Place::Wildcard(wildcard) => zone.wildcards.remove(&**wildcard),
            Place::Dname(owner) => zone.dnames.remove(&**owner),
        };
        if zone.is_empty() {
            self.zones.remove(&hash);
        }
        if let Some(gone) = gone {
            self.bytes -= gone.bytes();
            self.kept -= 1;
        }
    }

    fn remove_zone(&mut self, hash: u64) {
        let Some(zone) = self.zones.remove(&hash) else { return };
        let denying = zone.names.into_values().chain(zone.hashes.into_values());
        for gone in denying.chain(zone.wildcards.into_values()).chain(zone.dnames.into_values()) {
            self.bytes -= gone.bytes();
            self.kept -= 1;
        }
    }
}

impl Zone {
    fn new(view: u32, name: NameBuf) -> Zone {
        let (names, hashes, wildcards) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let dnames = BTreeMap::new();
        Zone { view, name, soa: None, names, hashes, wildcards, dnames, param: (Vec::new(), 0) }
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.hashes.is_empty() && self.wildcards.is_empty() && self.dnames.is_empty()
    }

    fn kept(&self, place: &Place) -> Option<&StoredSet> {
        match place {
            Place::Name(name) => self.names.get(&**name),
            Place::Hash(hash) => self.hashes.get(hash),
            Place::Wildcard(wildcard) => self.wildcards.get(&**wildcard),
            Place::Dname(owner) => self.dnames.get(&**owner),
        }
    }

    /// Returns the proven denial of a name in this zone.
    fn deny(
        &self,
        name: Name<'_>,
        qtype: Type,
        now: Duration,
        hasher: &mut Hasher<'_>,
    ) -> Option<ProvenDenial> {
        let soa = self.soa.as_ref().filter(|soa| now < soa.until)?;
        let records = match self.by_names(name) {
            None if !self.hashes.is_empty() => self.by_hashes(name, hasher)?,
            records => records?,
        };
        let live: Vec<&StoredSet> = records.into_iter().filter(|kept| now < kept.until).collect();
        let sets: Vec<&ReceivedSet> = live.iter().map(|kept| &*kept.set).collect();
        let mut proves = |claim| {
            let denied = hasher.prove(self, &sets, name, claim);
            matches!(denied, Some(Denied::Proven | Denied::Delegation))
        };
        let rcode = if proves(Claim::Name) {
            Rcode::NXDOMAIN
        } else if proves(Claim::Data(qtype)) {
            Rcode::NOERROR
        } else {
            return None;
        };
        let until = live.iter().map(|kept| kept.until).fold(soa.until, Duration::min);
        let all = std::iter::once(soa).chain(live);
        let sets = all.map(|kept| Arc::clone(&kept.set)).collect();
        Some(ProvenDenial { rcode, ttl: left(until, now), sets })
    }

    /// Returns the expansion of a name by a wildcard of this zone.
    fn expand(
        &self,
        name: Name<'_>,
        qtype: Type,
        now: Duration,
        hasher: &mut Hasher<'_>,
    ) -> Option<ProvenWildcard> {
        let zone = self.name.as_name();
        if self.wildcards.is_empty() {
            return None;
        }
        let mut above = name.ancestors().skip(1).take_while(|at| at.is_at_or_below(zone));
        // Whatever types the closest wildcard has, none above it matches the name (RFC 4592 §3.3.1).
        let (encloser, star) = above.find_map(|encloser| {
            let of_type = |rtype| self.wildcards.get(&(encloser.to_buf(), rtype));
            let star = of_type(qtype).or_else(|| of_type(Type::CNAME))?;
            (now < star.until).then_some((encloser, star))
        })?;
        let labels = encloser.label_count();
        let proof = self.covering(name, labels, hasher).filter(|proof| now < proof.until)?;
        if hasher.prove(self, &[&proof.set], name, Claim::Closer(labels)) != Some(Denied::Proven) {
            return None;
        }
        let ttl = left(star.until.min(proof.until), now);
        let set = ReceivedSet { owner: name.to_buf(), ..ReceivedSet::clone(&star.set) };
        let is_link = set.rtype == Type::CNAME && qtype != Type::CNAME;
        let leads_to = match is_link {
            true => Some(Name::from_wire(set.rdatas.first()?).ok()?.to_buf()),
            false => None,
        };
        Some(ProvenWildcard { ttl, set, proof: Arc::clone(&proof.set), leads_to })
    }

    /// Returns the redirection of a name by the closest DNAME above it; `None` if the new name would be too
    /// long.
    fn redirect(&self, name: Name<'_>, qtype: Type, now: Duration) -> Option<ProvenRedirect> {
        if self.dnames.is_empty() {
            return None;
        }
        let zone = self.name.as_name();
        let mut above = name.ancestors().skip(1).take_while(|at| at.is_at_or_below(zone));
        let kept = above.find_map(|at| self.dnames.get(&at.to_buf())).filter(|kept| now < kept.until)?;
        let suffix = Name::from_wire(kept.set.rdatas.first()?).ok()?;
        let labels = kept.set.owner.as_name().label_count();
        let target = NameBuf::replace_suffix(name, labels, suffix).ok()?;
        let ttl = left(kept.until, now);
        let cname = ReceivedSet {
            section: Section::Answer,
            owner: name.to_buf(),
            rtype: Type::CNAME,
            ttl,
            rdatas: vec![target.as_name().as_wire().to_vec()],
            signatures: Vec::new(),
        };
        let leads_to = (qtype != Type::CNAME).then_some(target);
        Some(ProvenRedirect { ttl, dname: Arc::clone(&kept.set), cname, leads_to })
    }

    /// The NSEC that precedes a name, or the NSEC3 that precedes the hash of its ancestor with `labels` + 1
    /// labels.
    fn covering(&self, name: Name<'_>, labels: usize, hasher: &mut Hasher<'_>) -> Option<&StoredSet> {
        if self.hashes.is_empty() {
            return self.names.range(..name.to_buf()).next_back().map(|(_, kept)| kept);
        }
        let closer = name.skip(name.label_count().checked_sub(labels + 1)?);
        let hash = hasher.hash(closer, &self.param)?;
        self.in_front(hash)
    }

    /// The NSEC3 that precedes a hash, wrapping around.
    fn in_front(&self, hash: Hash) -> Option<&StoredSet> {
        let before = self.hashes.range(..hash).next_back();
        before.or_else(|| self.hashes.iter().next_back()).map(|(_, kept)| kept)
    }

    /// The NSEC3 that covers a hash, if any.
    fn around(&self, hash: Hash) -> Option<&StoredSet> {
        let before = self.hashes.range(..hash).next_back();
        let (owner, kept) = before.or_else(|| self.hashes.iter().next_back())?;
        let next = Nsec3::read(kept.set.rdatas.first()?).ok()?.next_hash;
        let is_last = next <= &owner[..];
        let covers =
            if is_last { *owner < hash || hash[..] < *next } else { *owner < hash && hash[..] < *next };
        covers.then_some(kept)
    }

    /// The NSEC at or before a name, and that of the wildcard that could match it.
    fn by_names(&self, name: Name<'_>) -> Option<Vec<&StoredSet>> {
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

    /// The NSEC3 of a name, or those of its closest encloser, of the next closer name and of the wildcard.
    fn by_hashes(&self, name: Name<'_>, hasher: &mut Hasher<'_>) -> Option<Vec<&StoredSet>> {
        let mut hash = |name: Name<'_>| hasher.hash(name, &self.param);
        if let Some(kept) = self.hashes.get(&hash(name)?) {
            return Some(vec![kept]);
        }
        let zone = self.name.as_name();
        let mut way: Vec<Name<'_>> = name.ancestors().take_while(|at| at.is_at_or_below(zone)).collect();
        let mut encloser = None;
        while let Some(at) = way.pop() {
            let own = hash(at)?;
            match (self.hashes.get(&own), encloser, self.around(own)) {
                (Some(kept), ..) => encloser = Some((at, kept)),
                // Names above an encloser need not be stored, nor proven to exist.
                (None, None, _) | (None, _, None) => encloser = None,
                (None, Some((above, kept)), Some(closer)) => {
                    let star = hash(NameBuf::prepend(b"*", above).ok()?.as_name())?;
                    let of_star = self.hashes.get(&star).or_else(|| self.in_front(star))?;
                    let mut all = vec![kept, closer, of_star];
                    all.dedup_by(|a, b| Arc::ptr_eq(&a.set, &b.set));
                    return Some(all);
                }
            }
        }
        None
    }
}
