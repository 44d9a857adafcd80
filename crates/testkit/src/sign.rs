//! Signs zones: signs every authoritative RRset, and adds a complete chain of NSEC or NSEC3 (RFC 4035 §2, RFC
//! 5155 §7.1). The signatures are placeholders of P-256's size (RFC 6605 §4), as no server verifies them; for
//! validators the caller makes valid ones.

use std::collections::{BTreeMap, BTreeSet};

use wire::{Name, NameBuf, Ttl, Type};

use crate::answers::base32hex;
use crate::model::ModelRecord;

/// How non-existence is proved.
#[derive(Clone, Debug, PartialEq)]
pub enum Chain {
    /// With NSEC (RFC 4034 §4).
    Nsec,
    /// With NSEC3 (RFC 5155).
    Nsec3 {
        /// Whether delegations without DS are left out (RFC 5155 §6).
        opt_out: bool,
        /// Additional hash iterations.
        iterations: u16,
        /// Salt, at most 255 bytes.
        salt: Vec<u8>,
    },
}

impl Chain {
    /// NSEC3 as recommended (RFC 9276 §3.1): without opt-out, iterations and salt.
    pub const NSEC3: Chain = Chain::Nsec3 { opt_out: false, iterations: 0, salt: Vec::new() };
}

/// Types that signing adds.
pub(crate) const MADE: [Type; 4] = [Type::RRSIG, Type::NSEC, Type::NSEC3, Type::NSEC3PARAM];

/// A name's authoritative types, each with the TTL of its RRset. At a cut these are NS and DS.
#[derive(Default)]
struct Owned {
    cut: bool,
    sets: BTreeMap<Type, Ttl>,
}

impl Owned {
    /// Returns the types that are signed.
    fn signed(&self) -> impl Iterator<Item = (Type, Ttl)> {
        self.sets.iter().filter(|(t, _)| !self.cut || **t == Type::DS).map(|(t, ttl)| (*t, *ttl))
    }
}

/// The authoritative names of a zone, including empty non-terminals, in canonical order.
type Names = BTreeMap<NameBuf, Owned>;

/// Returns the records with placeholder signatures and a chain. Existing DNSSEC records are dropped, except
/// DS and DNSKEY.
///
/// # Panics
/// If there is no SOA at the apex: tests call this.
pub fn sign(apex: Name<'_>, records: &[ModelRecord], chain: &Chain) -> Vec<ModelRecord> {
    sign_by(apex, records, chain, &|owner, covered, ttl, _| vec![rrsig(apex, owner, covered, ttl)])
}

/// Signs an RRset, passed as owner, type, TTL, and RDATA in canonical form and order. Returns the RRSIG
/// records.
pub type SignSet<'s> = dyn Fn(NameBuf, Type, Ttl, &[Vec<u8>]) -> Vec<ModelRecord> + 's;

/// Signs a zone with signatures that `sign_set` makes.
///
/// # Panics
/// If there is no SOA at the apex: tests call this.
pub fn sign_by(
    apex: Name<'_>,
    records: &[ModelRecord],
    chain: &Chain,
    sign_set: &SignSet<'_>,
) -> Vec<ModelRecord> {
    let mut records: Vec<ModelRecord> =
        records.iter().filter(|r| !MADE.contains(&r.rtype)).cloned().collect();
    if let Chain::Nsec3 { iterations, salt, .. } = chain {
        let rdata = parameters(0, *iterations, salt);
        records.push(ModelRecord { owner: apex.to_buf(), rtype: Type::NSEC3PARAM, ttl: Ttl::ZERO, rdata });
    }
    let soa = records.iter().find(|r| r.rtype == Type::SOA && r.owner.as_name() == apex).expect("an SOA");
    // RFC 9077 §3: denial records have the TTL of negative answers.
    let minimum = soa.rdata.last_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let ttl = Ttl::from_secs(minimum.min(soa.ttl.as_secs()));
    let names = authoritative(apex, &records);
    let proofs = match chain {
        Chain::Nsec => nsec(&names, ttl),
        Chain::Nsec3 { opt_out, iterations, salt } => nsec3(apex, &names, ttl, *opt_out, *iterations, salt),
    };
    let signed = names.iter().flat_map(|(name, owned)| owned.signed().map(|(t, ttl)| (*name, t, ttl)));
    let signed = signed.chain(proofs.iter().map(|proof| (proof.owner, proof.rtype, ttl)));
    let mut sigs = Vec::new();
    let mut data = BTreeMap::<(NameBuf, Type), BTreeSet<Vec<u8>>>::new();
    for ModelRecord { owner, rtype, rdata, .. } in records.iter().chain(&proofs) {
        let mut rdata = rdata.clone();
        wire::rdata::canonical(*rtype, &mut rdata);
        data.entry((*owner, *rtype)).or_default().insert(rdata);
    }
    for (owner, rtype, ttl) in signed {
        let rdatas: Vec<Vec<u8>> = data[&(owner, rtype)].iter().cloned().collect();
        sigs.extend(sign_set(owner, rtype, ttl, &rdatas));
    }
    records.extend(sigs);
    records.extend(proofs);
    records
}

/// Returns the names at or below the apex that are not below a cut or a DNAME.
fn authoritative(apex: Name<'_>, records: &[ModelRecord]) -> Names {
    let inside = |name: &Name<'_>| name.is_at_or_below(apex);
    let owners_of = |rtype| {
        let of_type = records.iter().filter(move |r| r.rtype == rtype && inside(&r.owner.as_name()));
        of_type.map(|r| r.owner).collect::<BTreeSet<NameBuf>>()
    };
    let (mut cuts, dnames) = (owners_of(Type::NS), owners_of(Type::DNAME));
    cuts.remove(&apex.to_buf());
    let mut names = Names::new();
    for ModelRecord { owner, rtype, ttl, .. } in records {
        let above = || owner.as_name().ancestors().take_while(inside);
        let hides = |name: Name<'_>| cuts.contains(&name.to_buf()) || dnames.contains(&name.to_buf());
        if above().next().is_none() || above().skip(1).any(hides) {
            continue;
        }
        for name in above().skip(1) {
            names.entry(name.to_buf()).or_default();
        }
        let owned = names.entry(*owner).or_default();
        owned.cut = cuts.contains(owner);
        if !owned.cut || matches!(*rtype, Type::NS | Type::DS) {
            owned.sets.entry(*rtype).or_insert(*ttl);
        }
    }
    names
}

fn rrsig(apex: Name<'_>, owner: NameBuf, covered: Type, ttl: Ttl) -> ModelRecord {
    let labels = owner.as_name().label_count() - owner.as_name().is_wildcard() as usize;
    let mut rdata = covered.0.to_be_bytes().to_vec();
    rdata.extend_from_slice(&[13, labels as u8]);
    rdata.extend_from_slice(&ttl.to_be_bytes());
    rdata.extend_from_slice(&[0x70, 0, 0, 0, 0x60, 0, 0, 0, 0, 1]);
    rdata.extend_from_slice(apex.as_wire());
    rdata.extend_from_slice(&[0xab; 64]);
    ModelRecord { owner, rtype: Type::RRSIG, ttl, rdata }
}

/// Returns the type bitmap (RFC 4034 §4.1.2) of a name, including RRSIG and the `own` type of the record that
/// holds the bitmap.
fn bitmap(owned: &Owned, own: Option<Type>) -> Vec<u8> {
    let signature = (own.is_some() || owned.signed().next().is_some()).then_some(Type::RRSIG);
    let mut windows = BTreeMap::<u8, [u8; 32]>::new();
    for Type(t) in owned.sets.keys().copied().chain(signature).chain(own) {
        windows.entry((t >> 8) as u8).or_default()[(t & 0xff) as usize / 8] |= 0x80 >> (t % 8);
    }
    let mut out = Vec::new();
    for (window, bits) in windows {
        let used = bits.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        out.extend_from_slice(&[window, used as u8]);
        out.extend_from_slice(&bits[..used]);
    }
    out
}

/// Decodes a label as a 20-byte hash, if it is one (RFC 4648 §7).
pub(crate) fn from_base32hex(label: &[u8]) -> Option<[u8; 20]> {
    let digit = |c: &u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'v' => Some(c - b'a' + 10),
        _ => None,
    };
    let digits = label.iter().map(digit).collect::<Option<Vec<u8>>>().filter(|digits| digits.len() == 32)?;
    let bits: Vec<u8> = digits.iter().flat_map(|v| (0..5).rev().map(move |bit| v >> bit & 1)).collect();
    let bytes: Vec<u8> = bits.chunks(8).map(|b| b.iter().fold(0, |o, bit| o << 1 | bit)).collect();
    bytes.try_into().ok()
}

/// Makes an NSEC record for each name that has records.
fn nsec(names: &Names, ttl: Ttl) -> Vec<ModelRecord> {
    let full: Vec<_> = names.iter().filter(|(_, owned)| !owned.sets.is_empty()).collect();
    let nexts = full.iter().cycle().skip(1);
    let make = |((owner, owned), (next, _)): (&(&NameBuf, &Owned), &(&NameBuf, &Owned))| {
        let rdata = [next.as_name().as_wire(), &bitmap(owned, Some(Type::NSEC))].concat();
        ModelRecord { owner: **owner, rtype: Type::NSEC, ttl, rdata }
    };
    full.iter().zip(nexts).map(make).collect()
}

/// Returns the common first fields of NSEC3 and NSEC3PARAM.
fn parameters(flags: u8, iterations: u16, salt: &[u8]) -> Vec<u8> {
    [&[1, flags][..], &iterations.to_be_bytes(), &[salt.len() as u8], salt].concat()
}

/// Makes an NSEC3 record for each name; with opt-out, insecure delegations are skipped.
fn nsec3(
    apex: Name<'_>,
    names: &Names,
    ttl: Ttl,
    opt_out: bool,
    iterations: u16,
    salt: &[u8],
) -> Vec<ModelRecord> {
    let insecure = |owned: &Owned| owned.cut && !owned.sets.contains_key(&Type::DS);
    // With opt-out, an empty non-terminal above insecure delegations only is skipped, too (RFC 5155 §7.1).
    let mut kept = BTreeSet::new();
    let left_out = |owned: &Owned| owned.sets.is_empty() || opt_out && insecure(owned);
    for (name, _) in names.iter().filter(|(_, owned)| !left_out(owned)) {
        kept.extend(name.as_name().ancestors().take_while(|n| n.is_at_or_below(apex)).map(Name::to_buf));
    }
    let hash = |name: &NameBuf| dnssec::nsec3::hash(name.as_name().to_lower().as_lower(), salt, iterations);
    let hashed: BTreeMap<_, _> = kept.iter().map(|name| (hash(name), &names[name])).collect();
    let nexts = hashed.keys().cycle().skip(1);
    let make = |((own, owned), next): ((&[u8; 20], &&Owned), &[u8; 20])| {
        let rdata = [&parameters(opt_out as u8, iterations, salt), &[20][..], next, &bitmap(owned, None)];
        let owner = NameBuf::prepend(&base32hex(own), apex).expect("a name");
        ModelRecord { owner, rtype: Type::NSEC3, ttl, rdata: rdata.concat() }
    };
    hashed.iter().zip(nexts).map(make).collect()
}
