//! Local names: special-use names and the operator's records, answered without the cache or a lookup.
//!
//! One hash table holds all names together with all their ancestors. A lookup descends from the top: for
//! `www.example.com` it starts with `com`; usually nothing local is at or below that, and the lookup ends.
//!
//! The answer is that of the name itself, if it has one, or else that of the closest ancestor that answers
//! for names below it: the apex of a special zone, or the parent of a wildcard.

mod record;
mod special;

use std::collections::HashMap;

use wire::hash::{HashKey, HashedName};
use wire::message::{Builder, Full, Offset, Owner, Section};
use wire::name::MAX_NAME;
use wire::{Class, LowerName, LowerNameBuf, Name, NameBuf, Rcode, Ttl, Type};

pub use record::{LocalRecord, LocalRecordFault};
pub use special::{Below, SpecialName};

/// Settings of local names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalConfig {
    /// Special-use names that are resolved like other names.
    pub special_off: SpecialOff,
    /// Domains for which the operator has configured servers. A special-use name at, above or below one of
    /// them is off. The root does not count.
    pub forwarded: Vec<LowerNameBuf>,
    /// The records by which clients discover encrypted listeners, at or below `resolver.arpa` (RFC 9462).
    /// None is used if that name is off.
    pub designated: Vec<LocalRecord>,
    /// The operator's records.
    pub data: Vec<LocalRecord>,
}

/// Which special-use names are off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecialOff {
    /// All of them.
    All,
    /// Those with these [`domain`](SpecialName::domain)s.
    These(Vec<LowerNameBuf>),
}

impl Default for SpecialOff {
    /// None.
    fn default() -> Self {
        SpecialOff::These(Vec::new())
    }
}

impl LocalConfig {
    /// Returns the special-use names that are not off.
    pub(crate) fn special_names(&self) -> Vec<LowerNameBuf> {
        let all = SpecialName::all().filter_map(|special| special.name());
        all.filter(|name| !self.is_off(name.as_lower())).collect()
    }

    fn is_off(&self, special: LowerName<'_>) -> bool {
        let related =
            |domain: LowerName<'_>| special.is_at_or_below(domain) || domain.is_at_or_below(special);
        let mut forwarded = self.forwarded.iter().map(LowerNameBuf::as_lower);
        match &self.special_off {
            SpecialOff::All => true,
            SpecialOff::These(names) if names.iter().any(|name| name.as_lower() == special) => true,
            SpecialOff::These(_) => forwarded.any(|domain| !domain.as_name().is_root() && related(domain)),
        }
    }
}

/// The result of writing a local answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAnswer {
    /// The response code, as set in the header.
    pub rcode: Rcode,
    /// The answer ends in a CNAME to this name, which is not local: its records are still to be added.
    pub leads_to: Option<LowerNameBuf>,
}

/// Most CNAMEs from local name to local name that one answer follows.
const MAX_LINKS: usize = 8;

/// TTL and MINIMUM of the SOA records, in seconds: how long clients cache a negative answer (RFC 6303 §3).
const NEGATIVE_TTL: Ttl = Ttl::from_secs(10_800);

/// RNAME and the five numbers of the SOA record that RFC 6303 §3 prescribes. MNAME is the name of the zone.
const SOA_TAIL: [u8; 36] =
    *b"\x06nobody\x07invalid\0\0\0\0\x01\0\0\x0e\x10\0\0\x04\xb0\0\x09\x3a\x80\0\0\x2a\x30";

/// Local names, compiled for lookups.
pub struct LocalNames {
    key: HashKey,
    /// The root, the names that have an answer, and all ancestors of those.
    entries: Box<[Entry]>,
    /// Open-addressing hash table of `entries`: the length is a power of two, and at most half the slots are
    /// used. A probe runs up to the next empty slot.
    slots: Box<[Slot]>,
}

#[derive(Clone, Copy)]
struct Slot {
    /// The upper half of the hash.
    tag: u32,
    /// Index into `entries`; out of range if the slot is empty.
    entry: u32,
}

impl Slot {
    const EMPTY: Slot = Slot { tag: 0, entry: u32::MAX };
}

/// One name of the table.
struct Entry {
    /// Wire form, lower case.
    name: Box<[u8]>,
    /// The answer for the name itself.
    at: Option<Content>,
    /// The answer for names below that have no closer entry with an answer.
    below: Option<Content>,
}

/// The answer of a name.
#[derive(Default)]
struct Content {
    records: Vec<Record>,
    /// Names without an entry do not exist.
    absent: bool,
    /// Label count of the special zone's apex, if the name is in one; otherwise the name is its own zone.
    zone: Option<usize>,
    /// The special zone's parent is in the public DNS.
    delegated: bool,
}

struct Record {
    rtype: Type,
    ttl: Ttl,
    rdata: Vec<u8>,
}

/// The content found for a name.
struct LocalMatch<'l> {
    content: &'l Content,
    exists: bool,
}

impl LocalNames {
    /// Compiles the settings. `key` is the hash key of query names.
    pub fn new(config: &LocalConfig, key: &HashKey) -> Self {
        let mut table = Table::default();
        table.entry(LowerNameBuf::ROOT.as_lower());
        for special in SpecialName::all() {
            if let Some(name) = special.name().filter(|name| !config.is_off(name.as_lower())) {
                table.add_special(special, name.as_lower());
                table.add_designated(&config.designated, name.as_lower());
            }
        }
        let mut data: Vec<&LocalRecord> = config.data.iter().collect();
        data.sort_by_key(|record| record.owner);
        for records in data.chunk_by(|a, b| a.owner == b.owner) {
            table.add_data(records);
        }
        table.finish(key)
    }

    /// Answers a query for a local name. `written` is QNAME as the client wrote it, which is in `b` at
    /// [`Offset::QNAME`]. Appends the answer and authority sections and sets AA, RCODE and, if the records do
    /// not fit, TC.
    ///
    /// Returns `None` and writes nothing if the name is not local, the class is not IN, or QTYPE is DS at the
    /// apex of a special zone that the public DNS delegates. DS belongs to the parent (RFC 4035 §3.1.4.1),
    /// and a validating client needs the parent's proof that the zone is unsigned, or else takes our unsigned
    /// answers for forged ones (RFC 8375). BIND and Unbound ask the parent, too. `onion.` and the other names
    /// right below the root have no delegation to prove, and the root servers must not be asked about them
    /// (RFC 6761 §6.2, RFC 7686 §2): DS is answered here like any type that they do not have.
    ///
    /// `is_served` returns whether a zone served here has a name: an alias that leads there ends the answer,
    /// as one to a name that is not local.
    #[inline]
    pub fn answer(
        &self,
        qname: &HashedName,
        written: Name<'_>,
        qtype: Type,
        qclass: Class,
        is_served: &dyn Fn(LowerName<'_>) -> bool,
        b: &mut Builder<'_>,
    ) -> Option<LocalAnswer> {
        let found = self.find_for(qname, qtype, qclass)?;
        Some(self.write(found, (qname, written), qtype, is_served, b))
    }

    /// Whether [`answer`](Self::answer) answers this query.
    pub fn is_local(&self, qname: &HashedName, qtype: Type, qclass: Class) -> bool {
        self.find_for(qname, qtype, qclass).is_some()
    }

    #[inline]
    fn find_for(&self, qname: &HashedName, qtype: Type, qclass: Class) -> Option<LocalMatch<'_>> {
        let found = self.find(qname)?;
        let others = qclass != Class::IN || (qtype == Type::DS && found.content.is_delegation(qname));
        (!others).then_some(found)
    }

    #[inline]
    fn find(&self, name: &HashedName) -> Option<LocalMatch<'_>> {
        let mut closest = self.entries.first()?;
        let mut below: Option<&Content> = None;
        for skip in (0..name.label_count()).rev() {
            below = closest.below.as_ref().or(below);
            match self.entry(name, skip) {
                Some(entry) => closest = entry,
                None => return below.map(|content| LocalMatch { content, exists: !content.absent }),
            }
        }
        closest.at.as_ref().or(below).map(|content| LocalMatch { content, exists: true })
    }

    /// Returns the entry of the name without its `skip` leftmost labels.
    #[inline]
    fn entry(&self, name: &HashedName, skip: usize) -> Option<&Entry> {
        let hash = name.hash(skip).bits();
        let mut at = hash as usize;
        loop {
            let slot = self.slots.get(at & self.slots.len().wrapping_sub(1))?;
            let entry = self.entries.get(slot.entry as usize)?;
            if slot.tag == (hash >> 32) as u32 && *entry.name == *name.suffix(skip).as_wire() {
                return Some(entry);
            }
            at = at.wrapping_add(1);
        }
    }

    #[cold]
    fn write(
        &self,
        found: LocalMatch<'_>,
        (qname, written): (&HashedName, Name<'_>),
        qtype: Type,
        is_served: &dyn Fn(LowerName<'_>) -> bool,
        b: &mut Builder<'_>,
    ) -> LocalAnswer {
        b.learn(written, Offset::QNAME);
        b.flags(|header| header.set_authoritative(true));
        let answer = self.chain(found, (qname, written), qtype, is_served, b).unwrap_or_else(|Full| {
            b.flags(|header| header.set_truncated(true));
            LocalAnswer { rcode: Rcode::NOERROR, leads_to: None }
        });
        b.set_rcode(answer.rcode);
        answer
    }

    /// Writes the answer of the name and, if that is a CNAME, the answers of the local names it leads to.
    fn chain(
        &self,
        found: LocalMatch<'_>,
        (qname, written): (&HashedName, Name<'_>),
        qtype: Type,
        is_served: &dyn Fn(LowerName<'_>) -> bool,
        b: &mut Builder<'_>,
    ) -> Result<LocalAnswer, Full> {
        let (mut rcode, mut next) = found.write(qname.label_count(), written, qtype, b)?;
        let mut hashed = HashedName::new();
        for _ in 0..MAX_LINKS {
            let Some(target) = next else { break };
            hashed.set(&self.key, target.as_name());
            let Some(found) = self.find(&hashed).filter(|_| !is_served(hashed.as_lower())) else {
                return Ok(LocalAnswer { rcode, leads_to: Some(target.as_name().to_lower()) });
            };
            (rcode, next) = found.write(hashed.label_count(), target.as_name(), qtype, b)?;
        }
        Ok(LocalAnswer { rcode, leads_to: None })
    }
}

impl Content {
    /// Whether the name is the apex of a special zone that the public DNS delegates.
    #[inline]
    fn is_delegation(&self, name: &HashedName) -> bool {
        self.delegated && self.zone == Some(name.label_count())
    }
}

impl LocalMatch<'_> {
    /// Writes the answer for `qtype` at `name`, which has `labels` labels: all its records, a CNAME, or a
    /// negative answer. Returns the response code and the target of the CNAME.
    fn write(
        &self,
        labels: usize,
        name: Name<'_>,
        qtype: Type,
        b: &mut Builder<'_>,
    ) -> Result<(Rcode, Option<NameBuf>), Full> {
        let Content { records, zone, .. } = self.content;
        let is_asked = |rtype: Type| qtype == rtype || qtype == Type::ANY;
        let (owner, before) = (Owner::Name(name), b.count(Section::Answer));
        for Record { ttl, rdata, rtype } in records.iter().filter(|record| is_asked(record.rtype)) {
            b.record(Section::Answer, owner, *rtype, Class::IN, *ttl, rdata)?;
        }
        if *zone == Some(labels) && is_asked(Type::SOA) {
            soa(Section::Answer, name, b)?;
        }
        if *zone == Some(labels) && is_asked(Type::NS) {
            b.record(Section::Answer, owner, Type::NS, Class::IN, NEGATIVE_TTL, name.as_wire())?;
        }
        if b.count(Section::Answer) > before {
            return Ok((Rcode::NOERROR, None));
        }
        if let Some(alias) = records.iter().find(|record| record.rtype == Type::CNAME) {
            b.record(Section::Answer, owner, Type::CNAME, Class::IN, alias.ttl, &alias.rdata)?;
            return Ok((Rcode::NOERROR, Name::from_wire(&alias.rdata).ok().map(Name::to_buf)));
        }
        let skip = zone.map_or(0, |zone| labels.saturating_sub(zone));
        soa(Section::Authority, name.skip(skip), b)?;
        Ok((if self.exists { Rcode::NOERROR } else { Rcode::NXDOMAIN }, None))
    }
}

/// Writes the SOA record of a zone: without one, a negative answer has no TTL (RFC 2308 §3).
fn soa(section: Section, zone: Name<'_>, b: &mut Builder<'_>) -> Result<(), Full> {
    let mut rdata = [0; MAX_NAME + SOA_TAIL.len()];
    rdata.iter_mut().zip(zone.as_wire().iter().chain(&SOA_TAIL)).for_each(|(to, from)| *to = *from);
    let rdata = rdata.get(..zone.len() + SOA_TAIL.len()).unwrap_or_default();
    b.record(section, Owner::Name(zone), Type::SOA, Class::IN, NEGATIVE_TTL, rdata).map(|_| ())
}

/// The table under construction.
#[derive(Default)]
struct Table {
    entries: Vec<Entry>,
    places: HashMap<LowerNameBuf, usize>,
}

impl Table {
    /// Returns the index of a name's entry; adds it and its missing ancestors.
    fn entry(&mut self, name: LowerName<'_>) -> usize {
        let mut place = 0;
        let ancestors: Vec<LowerName<'_>> = std::iter::successors(Some(name), |name| name.parent()).collect();
        for name in ancestors.into_iter().rev() {
            let entries = &mut self.entries;
            place = *self.places.entry(name.to_buf()).or_insert_with(|| {
                entries.push(Entry { name: name.as_wire().into(), at: None, below: None });
                entries.len() - 1
            });
        }
        place
    }

    /// The answer of the name itself.
    fn at(&mut self, name: LowerName<'_>) -> Option<&mut Option<Content>> {
        let place = self.entry(name);
        self.entries.get_mut(place).map(|entry| &mut entry.at)
    }

    /// The answer of the names below the name.
    fn below(&mut self, name: LowerName<'_>) -> Option<&mut Option<Content>> {
        let place = self.entry(name);
        self.entries.get_mut(place).map(|entry| &mut entry.below)
    }

    fn add_special(&mut self, special: &SpecialName, zone: LowerName<'_>) {
        let labels = zone.label_count();
        let within =
            || Content { zone: Some(labels), delegated: special.is_delegated(), ..Content::default() };
        let records: Vec<LocalRecord> = special.parsed_records().collect();
        if let Some(at) = self.at(zone) {
            *at = Some(within());
        }
        for record in &records {
            if let Some(at) = self.at(record.owner.as_name().to_lower().as_lower()) {
                at.get_or_insert_with(within).push(record);
            }
        }
        if let Some(below) = self.below(zone) {
            let below = below.insert(within());
            match special.below {
                Below::Nothing => below.absent = true,
                Below::Same => records.iter().for_each(|record| below.push(record)),
            }
        }
    }

    /// Adds those of the designated records that are in this special zone.
    fn add_designated(&mut self, designated: &[LocalRecord], zone: LowerName<'_>) {
        let is_in = |record: &&LocalRecord| record.owner.as_name().is_at_or_below(zone.as_name());
        for record in designated.iter().filter(is_in) {
            if let Some(at) = self.at(record.owner.as_name().to_lower().as_lower()) {
                let within =
                    || Content { zone: Some(zone.label_count()), delegated: true, ..Content::default() };
                at.get_or_insert_with(within).push(record);
            }
        }
    }

    /// Adds the operator's records of one owner. They replace all records of that owner in the special-use
    /// table, but the name stays the apex of its zone.
    fn add_data(&mut self, records: &[&LocalRecord]) {
        let Some(owner) = records.first().map(|record| record.owner.as_name().to_lower()) else { return };
        let content = match owner.as_lower().parent().filter(|_| owner.as_name().is_wildcard()) {
            Some(parent) => self.below(parent).map(|below| below.insert(Content::default())),
            None => self.at(owner.as_lower()).map(|at| at.get_or_insert_default()),
        };
        if let Some(content) = content {
            content.records.clear();
            records.iter().for_each(|record| content.push(record));
        }
    }

    /// Builds the hash table for lookups.
    fn finish(self, key: &HashKey) -> LocalNames {
        let mut slots = vec![Slot::EMPTY; (self.entries.len() * 2).next_power_of_two()];
        let mask = slots.len() - 1;
        for (entry, number) in self.entries.iter().zip(0u32..) {
            let hash = key.name(LowerName::of_checked(&entry.name)).bits();
            let free = (hash as usize..=usize::MAX)
                .chain(0..)
                .map(|at| at & mask)
                .find(|at| slots.get(*at).is_some_and(|slot| slot.entry == Slot::EMPTY.entry));
            if let Some(slot) = free.and_then(|at| slots.get_mut(at)) {
                *slot = Slot { tag: (hash >> 32) as u32, entry: number };
            }
        }
        LocalNames { key: *key, entries: self.entries.into(), slots: slots.into() }
    }
}

impl Content {
    /// Adds a record unless it is a duplicate. Records of one type share the lowest of their TTLs (RFC 2181
    /// §5.2).
    fn push(&mut self, record: &LocalRecord) {
        let LocalRecord { rtype, rdata, .. } = record;
        let same = || self.records.iter().filter(|held| held.rtype == *rtype);
        let ttl = same().map(|held| held.ttl).chain([record.ttl]).min().unwrap_or(record.ttl);
        if !same().any(|held| held.rdata == *rdata) {
            self.records.push(Record { rtype: *rtype, ttl, rdata: rdata.clone() });
        }
        self.records.iter_mut().filter(|held| held.rtype == *rtype).for_each(|held| held.ttl = ttl);
    }
}

#[cfg(test)]
mod tests;
