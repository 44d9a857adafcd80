//! Reference models: a zone and a catalog as plain maps. Slow and simple on purpose; apart from names, they
//! share no code with what they are compared with.

use std::collections::{BTreeMap, BTreeSet};

use wire::{Name, NameBuf, Ttl, Type};

/// One record of class IN.
#[derive(Clone)]
pub struct ModelRecord {
    /// Owner, in any letter case.
    pub owner: NameBuf,
    /// Type.
    pub rtype: Type,
    /// TTL.
    pub ttl: Ttl,
    /// RDATA, uncompressed.
    pub rdata: Vec<u8>,
}

impl std::fmt::Debug for ModelRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {} ", self.owner, self.ttl, self.rtype)?;
        wire::rdata::write_text(self.rtype, &self.rdata, f)
    }
}

/// The RRset of one type at one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelSet {
    /// TTL of the first record.
    pub ttl: Ttl,
    /// RDATA in canonical form, in the order of the records, without duplicates.
    pub rdatas: Vec<Vec<u8>>,
    /// TTL of the first signature.
    pub sig_ttl: Ttl,
    /// RDATA of the RRSIGs that cover the set.
    pub sigs: Vec<Vec<u8>>,
}

/// Properties of a name in its zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as the store's flags, which have the words")]
pub struct ModelFlags {
    pub apex: bool,
    pub cut: bool,
    pub dname: bool,
    pub occluded: bool,
    pub wildcard_child: bool,
    pub empty: bool,
    pub wildcard: bool,
    pub nsec3_only: bool,
}

/// A zone: name → type → records.
#[derive(Clone, Debug)]
pub struct ModelZone {
    apex: NameBuf,
    names: BTreeMap<NameBuf, BTreeMap<Type, ModelSet>>,
    /// Owner names, without NSEC3 owners.
    owners: BTreeSet<NameBuf>,
    /// Existing names: the owner names, and all names between them and the apex.
    there: BTreeSet<NameBuf>,
}

fn lower(name: Name<'_>) -> NameBuf {
    name.to_lower().into()
}

/// Returns the offset and the number of names in the RDATA. They reach to the end of the RDATA, except in
/// SOA.
fn names_at(t: Type) -> Option<(usize, usize)> {
    match t {
        Type::NS | Type::CNAME | Type::PTR | Type::DNAME => Some((0, 1)),
        Type::MX => Some((2, 1)),
        Type::SRV => Some((6, 1)),
        Type::SOA => Some((0, 2)),
        _ => None,
    }
}

/// RDATA with its names in lower case, for the types that [`random`](crate::random) makes.
pub fn canonical(t: Type, rdata: &[u8]) -> Vec<u8> {
    let mut canonical = rdata.to_vec();
    if let Some((mut at, names)) = names_at(t) {
        for _ in 0..names {
            let len = Name::parse(&rdata[at..]).expect("a name").len();
            canonical[at..at + len].make_ascii_lowercase();
            at += len;
        }
    }
    canonical
}

impl ModelZone {
    /// Builds the zone from those `records` that are at or below `apex`.
    pub fn new(apex: Name<'_>, records: &[ModelRecord]) -> Self {
        let apex = lower(apex);
        let mut names: BTreeMap<NameBuf, BTreeMap<Type, ModelSet>> = BTreeMap::new();
        let inside = || records.iter().filter(|r| r.owner.as_name().is_at_or_below(apex.as_name()));
        for record in inside().filter(|r| r.rtype != Type::RRSIG) {
            let sets = names.entry(lower(record.owner.as_name())).or_default();
            add(sets.entry(record.rtype).or_default(), record);
        }
        for record in inside().filter(|r| r.rtype == Type::RRSIG) {
            let sets = names.entry(lower(record.owner.as_name())).or_default();
            let covered = Type(u16::from_be_bytes([record.rdata[0], record.rdata[1]]));
            match sets.get_mut(&covered).filter(|_| covered != Type::RRSIG) {
                Some(set) => add_sig(set, record),
                None => add(sets.entry(Type::RRSIG).or_default(), record),
            }
        }
        let mut zone = ModelZone { apex, names, owners: BTreeSet::new(), there: BTreeSet::new() };
        zone.owners = zone.names.keys().filter(|name| !zone.holds_nsec3_alone(name)).copied().collect();
        let above = |owner: &NameBuf| {
            let within = |n: &Name<'_>| n.is_at_or_below(apex.as_name());
            owner.as_name().ancestors().take_while(within).map(Name::to_buf).collect::<Vec<_>>()
        };
        zone.there = zone.owners.iter().flat_map(above).collect();
        zone
    }

    /// Returns the apex, in lower case.
    pub fn apex(&self) -> Name<'_> {
        self.apex.as_name()
    }

    fn holds_nsec3_alone(&self, name: &NameBuf) -> bool {
        let Some(sets) = self.names.get(name) else { return false };
        let of_nsec3 = |(t, set): (&Type, &ModelSet)| {
            *t == Type::NSEC3
                || *t == Type::RRSIG
                    && set.rdatas.iter().all(|rdata| rdata[..2] == Type::NSEC3.0.to_be_bytes())
        };
        let parent = name.as_name().parent().is_some_and(|parent| parent == self.apex.as_name());
        // A name with names below it exists, whatever records it has (RFC 5155 §7.2.8).
        let below = || self.names.keys().any(|n| n != name && n.as_name().is_at_or_below(name.as_name()));
        parent && hash_label(name.as_name()).is_some() && sets.iter().all(of_nsec3) && !below()
    }

    /// Whether the name or a name below it has records.
    pub fn exists(&self, name: Name<'_>) -> bool {
        self.there.contains(&name.to_buf())
    }

    /// Returns the RRsets of a name; an empty non-terminal has none.
    pub fn sets(&self, name: Name<'_>) -> BTreeMap<Type, ModelSet> {
        self.names.get(&name.to_buf()).cloned().unwrap_or_default()
    }

    /// Whether the name has an RRset of this type.
    pub fn has(&self, name: Name<'_>, t: Type) -> bool {
        self.names.get(&name.to_buf()).is_some_and(|sets| sets.contains_key(&t))
    }

    /// Returns the flags of an existing name or an NSEC3 owner.
    pub fn flags(&self, name: Name<'_>) -> ModelFlags {
        let has = |name: Name<'_>, t| self.has(name, t);
        let apex = self.apex.as_name();
        let hides = |n: Name<'_>| has(n, Type::DNAME) || n != apex && has(n, Type::NS);
        let nsec3_only = self.names.contains_key(&name.to_buf()) && !self.owners.contains(&name.to_buf());
        let above = name.ancestors().skip(1).take_while(|n| n.is_at_or_below(apex));
        let wildcard = NameBuf::prepend(b"*", name);
        ModelFlags {
            apex: name == apex,
            cut: name != apex && has(name, Type::NS),
            dname: has(name, Type::DNAME),
            occluded: !nsec3_only && above.into_iter().any(hides),
            wildcard_child: !nsec3_only && wildcard.is_ok_and(|w| self.exists(w.as_name())),
            empty: self.sets(name).is_empty(),
            wildcard: name.is_wildcard(),
            nsec3_only,
        }
    }

    /// Returns all names in canonical order: owner names, empty non-terminals, NSEC3 owners.
    pub fn all(&self) -> Vec<NameBuf> {
        let all: BTreeSet<NameBuf> = self.names.keys().chain(&self.there).copied().collect();
        all.into_iter().collect()
    }

    /// Returns the last name at or before `name` with an NSEC record that is not below a cut or DNAME.
    pub fn nsec_covering(&self, name: Name<'_>) -> Option<NameBuf> {
        let mut found = None;
        for owner in self.names.keys().filter(|o| o.as_name().canonical_cmp(name).is_le()) {
            if self.has_nsec(owner.as_name()) {
                found = Some(*owner);
            }
        }
        found
    }

    /// Whether the name has an NSEC record and is not occluded.
    fn has_nsec(&self, name: Name<'_>) -> bool {
        self.has(name, Type::NSEC) && !self.flags(name).occluded
    }

    /// Whether the zone can prove denials: its SOA is signed, and it has a chain of NSEC or NSEC3.
    pub fn is_signed(&self) -> bool {
        let soa = self.sets(self.apex()).remove(&Type::SOA);
        let chain = || self.nsec3_chain().is_some() || self.names.keys().any(|n| self.has_nsec(n.as_name()));
        soa.is_some_and(|soa| !soa.sigs.is_empty()) && chain()
    }

    /// Returns the owners of the NSEC3 chain that NSEC3PARAM describes, by the text of their hash.
    pub fn nsec3_chain(&self) -> Option<BTreeMap<Vec<u8>, NameBuf>> {
        let params = self.sets(self.apex.as_name()).remove(&Type::NSEC3PARAM)?.rdatas;
        let chain_of = |param: &Vec<u8>| {
            let mut chain = BTreeMap::new();
            for (name, sets) in &self.names {
                let label = hash_label(name.as_name());
                let parent = name.as_name().parent().is_some_and(|p| p == self.apex.as_name());
                let same = |rdata: &Vec<u8>| {
                    rdata[0] == param[0] && rdata[2..5] == param[2..5] && rdata[5..].starts_with(&param[5..])
                };
                let member = sets.get(&Type::NSEC3).is_some_and(|set| set.rdatas.iter().any(same));
                if let Some(label) = label.filter(|_| parent && member) {
                    chain.insert(label, *name);
                }
            }
            chain
        };
        let usable = params.iter().filter(|p| p[0] == 1 && p[1] == 0);
        usable.map(chain_of).find(|chain| !chain.is_empty())
    }

    /// Returns the number of records.
    pub fn record_count(&self) -> u64 {
        let sets = self.names.values().flat_map(BTreeMap::values);
        sets.map(|set| (set.rdatas.len() + set.sigs.len()) as u64).sum()
    }
}

fn add(set: &mut ModelSet, record: &ModelRecord) {
    if set.rdatas.is_empty() {
        set.ttl = record.ttl;
    }
    let rdata = canonical(record.rtype, &record.rdata);
    if !set.rdatas.contains(&rdata) {
        set.rdatas.push(rdata);
    }
}

fn add_sig(set: &mut ModelSet, record: &ModelRecord) {
    if set.sigs.is_empty() {
        set.sig_ttl = record.ttl;
    }
    if !set.sigs.contains(&record.rdata) {
        set.sigs.push(record.rdata.clone());
    }
}

/// Returns the first label in lower case, if it consists of 32 base-32 digits.
fn hash_label(name: Name<'_>) -> Option<Vec<u8>> {
    let label = name.labels().next()?.to_ascii_lowercase();
    let digit = |c: &u8| matches!(c, b'0'..=b'9' | b'a'..=b'v');
    (label.len() == 32 && label.iter().all(digit)).then_some(label)
}

/// Returns the longest of `names` that `name` is at or below.
pub fn longest_match(names: &[NameBuf], name: Name<'_>) -> Option<NameBuf> {
    let above = names.iter().filter(|n| name.is_at_or_below(n.as_name()));
    above.max_by_key(|n| n.as_name().label_count()).copied()
}
