//! Checks whether a signed zone can prove its answers: every RRset signed, the NSEC or NSEC3 chain complete
//! and correct (RFC 4035 §2, RFC 5155 §7.1).
//!
//! For `nomen zone check --dnssec`. [`zone::check`] finds the faults that are not about DNSSEC.

use std::fmt;

use dnssec::nsec3;
pub use dnssec::verify::SigFault;
use dnssec::verify::{self, SignedSet};
use wire::rdata::view::{Dnskey, Nsec, Nsec3, Rrsig, TypeBitmap};
use wire::{Name, NameBuf, Serial, Type};
use zone::store::{Node, NodeFlags, Nsec3Chain, RrSet, Zone};

/// A fault of one RRset or link of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of fault.
    pub kind: FindingKind,
    /// The owner of the faulty records.
    pub owner: NameBuf,
    /// Their type.
    pub rtype: Type,
    /// For [`FindingKind::BadSignature`], when that signature expires or has expired, in seconds since 1970
    /// (RFC 4034 §3.1.5).
    pub expires: Option<Serial>,
}

/// Kinds of [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FindingKind {
    /// The zone has no DNSKEY.
    NoDnsKey,
    /// An RRset that must be signed has no signature.
    Unsigned,
    /// None of an RRset's signatures is valid; the fault is that of the last one.
    BadSignature(SigFault),
    /// DNSKEY is signed by no key with the SEP bit. A warning: one key may do both.
    NoSepSignature,
    /// Signatures over records that are not the zone's to sign: NS at a cut, or glue.
    SignedForeign,
    /// A name lacks its NSEC, or its NSEC is malformed.
    NoNsec,
    /// NSEC's next name is not the next name in the zone.
    WrongNext,
    /// The types in NSEC or NSEC3 are not those of the name.
    WrongTypes,
    /// A name lacks its NSEC3, or its NSEC3 is malformed.
    NoNsec3,
    /// NSEC3's next hash is not the next hash in the chain.
    WrongNextHash,
    /// An NSEC3 that no name of the zone hashes to.
    StrayNsec3,
    /// The zone has neither NSEC nor NSEC3.
    NoChain,
}

impl FindingKind {
    /// Whether validators reject answers because of it.
    pub fn is_error(self) -> bool {
        !matches!(self, Self::NoSepSignature | Self::StrayNsec3 | Self::SignedForeign)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.owner, self.rtype, self.kind)
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FindingKind::BadSignature(fault) => write!(f, "no good signature: {fault}"),
            FindingKind::NoDnsKey => f.write_str("the zone has no DNSKEY"),
            FindingKind::Unsigned => f.write_str("not signed"),
            FindingKind::NoSepSignature => f.write_str("not signed by a key with the SEP bit"),
            FindingKind::SignedForeign => f.write_str("signed, though it belongs to another zone"),
            FindingKind::NoNsec => f.write_str("the name has no NSEC"),
            FindingKind::WrongNext => f.write_str("the next name is not the one that comes next in the zone"),
            FindingKind::WrongTypes => f.write_str("the list of types is not that of the name"),
            FindingKind::NoNsec3 => f.write_str("the name has no NSEC3"),
            FindingKind::WrongNextHash => f.write_str("the next hash is not the one that comes next"),
            FindingKind::StrayNsec3 => f.write_str("no name of the zone has this hash"),
            FindingKind::NoChain => f.write_str("the zone has neither NSEC nor NSEC3"),
        }
    }
}

/// Whether any record shows that the zone is meant to be signed, correctly or not: a DNSKEY, a signature at
/// the apex, or a chain of denial.
pub fn is_meant_to_be_signed(zone: &Zone) -> bool {
    let apex = zone.apex_node();
    let keys = [Type::DNSKEY, Type::NSEC, Type::NSEC3PARAM];
    keys.iter().any(|&rtype| apex.rrset(rtype).is_some())
        || apex.rrsets().any(|set| set.sig_count() > 0)
        || zone.nsec().is_some()
        || zone.nsec3().is_some()
}

/// Audits `zone` as of `now`, seconds since 1970, calling `found` for each fault in canonical order of
/// owners. A zone that is not [meant to be signed](is_meant_to_be_signed) has no faults.
pub fn audit(zone: &Zone, now: Serial, found: &mut dyn FnMut(Finding)) {
    audit_signatures(zone, zone.iter(), now, found);
    audit_chain(zone, now, found);
}

/// The part of [`audit`] that takes the time: the signatures at some of the zone's `nodes`. Several threads
/// may take a part of them each.
pub fn audit_signatures<'z>(
    zone: &Zone,
    nodes: impl Iterator<Item = Node<'z>>,
    now: Serial,
    found: &mut dyn FnMut(Finding),
) {
    // Without DNSKEY the whole zone has one fault, which `audit_chain` reports.
    let Some(dnskeys) = zone.apex_node().rrset(Type::DNSKEY).filter(|_| is_meant_to_be_signed(zone)) else {
        return;
    };
    let rdatas = copies(dnskeys);
    let keys: Vec<Dnskey<'_>> = rdatas.iter().filter_map(|rdata| Dnskey::read(rdata).ok()).collect();
    let signatures = Signatures { zone, keys: &keys, now };
    for node in nodes {
        signatures.node(node, &mut |kind, owner, rtype, expires| {
            found(Finding { kind, owner: owner.to_buf(), rtype, expires });
        });
    }
}

/// The rest of [`audit`]: the keys and the chain.
pub fn audit_chain(zone: &Zone, now: Serial, found: &mut dyn FnMut(Finding)) {
    if !is_meant_to_be_signed(zone) {
        return;
    }
    let mut report = |kind, owner: Name<'_>, rtype| {
        found(Finding { kind, owner: owner.to_buf(), rtype, expires: None });
    };
    let Some(dnskeys) = zone.apex_node().rrset(Type::DNSKEY) else {
        return report(FindingKind::NoDnsKey, zone.apex().as_name(), Type::DNSKEY);
    };
    let rdatas = copies(dnskeys);
    let keys: Vec<Dnskey<'_>> = rdatas.iter().filter_map(|rdata| Dnskey::read(rdata).ok()).collect();
    let seps: Vec<Dnskey<'_>> = keys.iter().copied().filter(|key| key.is_sep()).collect();
    if (Signatures { zone, keys: &seps, now }).verify(dnskeys).is_err() {
        report(FindingKind::NoSepSignature, zone.apex().as_name(), Type::DNSKEY);
    }
    match zone.nsec3() {
        Some(chain) => nsec3_chain(zone, chain, &mut report),
        None if zone.nsec().is_some() => nsec_chain(zone, &mut report),
        None => report(FindingKind::NoChain, zone.apex().as_name(), Type::NSEC),
    }
}

type Report<'t> = dyn FnMut(FindingKind, Name<'_>, Type) + 't;

/// A [`Report`] for signatures, with their expiration time.
type SigReport<'t> = dyn FnMut(FindingKind, Name<'_>, Type, Option<Serial>) + 't;

/// Returns each RDATA of a set, uncompressed.
fn copies(set: RrSet<'_>) -> Vec<Vec<u8>> {
    let copy = |rdata: zone::store::Rdata<'_>| {
        let mut out = Vec::new();
        rdata.copy_to(&mut out);
        out
    };
    set.rdatas().map(copy).collect()
}

/// The signatures of a zone.
struct Signatures<'a> {
    zone: &'a Zone,
    keys: &'a [Dnskey<'a>],
    now: Serial,
}

impl Signatures<'_> {
    fn node(&self, node: Node<'_>, report: &mut SigReport<'_>) {
        let owner = node.owner().as_name();
        let flags = node.flags();
        for set in node.rrsets().filter(|set| set.rtype() != Type::RRSIG) {
            let foreign = flags.contains(NodeFlags::OCCLUDED)
                || (flags.contains(NodeFlags::CUT) && !matches!(set.rtype(), Type::DS | Type::NSEC));
            if foreign {
                if set.sig_count() > 0 {
                    report(FindingKind::SignedForeign, owner, set.rtype(), None);
                }
                continue;
            }
            match (set.sig_count(), self.verify(set)) {
                (0, _) => report(FindingKind::Unsigned, owner, set.rtype(), None),
                (_, Err((fault, expires))) => {
                    report(FindingKind::BadSignature(fault), owner, set.rtype(), expires)
                }
                (_, Ok(())) => {}
            }
        }
    }

    /// Verifies the set's signatures until one is valid. Otherwise returns the fault of the last one, and
    /// when it expires.
    fn verify(&self, set: RrSet<'_>) -> Result<(), (SigFault, Option<Serial>)> {
        let mut rdatas = copies(set);
        for rdata in &mut rdatas {
            wire::rdata::canonical(set.rtype(), rdata);
        }
        rdatas.sort_unstable();
        let mut last = Err((SigFault::NoKey, None));
        for rdata in set.sig_rdatas() {
            let sig = match Rrsig::read(rdata.compiled()) {
                Ok(sig) => sig,
                Err(malformed) => {
                    last = Err((malformed.into(), None));
                    continue;
                }
            };
            let signed =
                SignedSet { owner: set.node().owner().as_name(), rtype: set.rtype(), rdatas: &rdatas };
            let verified = verify::verify(&signed, &sig, self.zone.apex().as_name(), self.keys, self.now);
            last = verified.map_err(|fault| (fault, Some(sig.expiration)));
            if last.is_ok() {
                break;
            }
        }
        last
    }
}

/// Whether the name must be in a chain of denial: the zone has data or a cut there, or it is an empty
/// non-terminal.
fn in_chain(node: &Node<'_>) -> bool {
    !node.flags().intersects(NodeFlags::OCCLUDED | NodeFlags::NSEC3_ONLY)
}

/// Checks that the NSEC at each name has the next name and the name's types.
fn nsec_chain(zone: &Zone, report: &mut Report<'_>) {
    let names = || zone.iter().filter(|n| in_chain(n) && !n.flags().contains(NodeFlags::EMPTY));
    let nexts = names().skip(1).chain(names().take(1));
    for (node, next) in names().zip(nexts) {
        let Some(nsec) = first(node, Type::NSEC).and_then(|rdata| Nsec::read(rdata).ok()) else {
            report(FindingKind::NoNsec, node.owner().as_name(), Type::NSEC);
            continue;
        };
        if nsec.next != next.owner().as_name() {
            report(FindingKind::WrongNext, node.owner().as_name(), Type::NSEC);
        }
        if !lists(nsec.types, node) {
            report(FindingKind::WrongTypes, node.owner().as_name(), Type::NSEC);
        }
    }
}

/// Checks that every name has its NSEC3, with its types, and that the hashes form a chain.
fn nsec3_chain(zone: &Zone, chain: Nsec3Chain<'_>, report: &mut Report<'_>) {
    let mut met = std::collections::BTreeSet::new();
    for node in zone.iter().filter(in_chain) {
        let hash = nsec3::hash(node.owner(), chain.salt(), chain.iterations());
        let Some(own) = chain.matching(&hash) else {
            // Opt-out leaves out insecure delegations, and empty non-terminals with nothing else below.
            let insecure = node.flags().intersects(NodeFlags::CUT | NodeFlags::EMPTY)
                && node.rrset(Type::DS).is_none()
                && nsec3_at(chain.covering(&hash)).is_some_and(|nsec3| nsec3.is_opt_out());
            if !insecure {
                report(FindingKind::NoNsec3, node.owner().as_name(), Type::NSEC3);
            }
            continue;
        };
        met.insert(own.owner().as_wire());
        let Some(nsec3) = nsec3_at(own) else {
            report(FindingKind::NoNsec3, node.owner().as_name(), Type::NSEC3);
            continue;
        };
        if !lists(nsec3.types, node) {
            report(FindingKind::WrongTypes, node.owner().as_name(), Type::NSEC3);
        }
        // The hash just below the stated next hash must be covered by this record.
        let follows = nsec3
            .next_hash
            .try_into()
            .is_ok_and(|next| chain.matching(&next).is_some() && chain.covering(&before(next)) == own);
        if !follows {
            report(FindingKind::WrongNextHash, own.owner().as_name(), Type::NSEC3);
        }
    }
    for node in zone.iter().filter(|n| n.flags().contains(NodeFlags::NSEC3_ONLY)) {
        if !met.contains(node.owner().as_wire()) {
            report(FindingKind::StrayNsec3, node.owner().as_name(), Type::NSEC3);
        }
    }
}

/// Returns the RDATA of the first record of a type whose data is never compressed.
fn first(node: Node<'_>, rtype: Type) -> Option<&[u8]> {
    node.rrset(rtype)?.rdatas().next().map(|rdata| rdata.compiled())
}

fn nsec3_at(node: Node<'_>) -> Option<Nsec3<'_>> {
    Nsec3::read(first(node, Type::NSEC3)?).ok()
}

/// Returns `hash` minus one, modulo the number of hashes.
fn before(mut hash: [u8; nsec3::HASH_LEN]) -> [u8; nsec3::HASH_LEN] {
    for byte in hash.iter_mut().rev() {
        let borrow = *byte == 0;
        *byte = byte.wrapping_sub(1);
        if !borrow {
            break;
        }
    }
    hash
}

/// Whether `listed` are the types that a chain of denial must list for a name.
fn lists(listed: TypeBitmap<'_>, node: Node<'_>) -> bool {
    listed.iter().eq(types(node))
}

/// Returns the types that a chain of denial must list for a name; at a cut only those of the parent side.
fn types(node: Node<'_>) -> Vec<Type> {
    let cut = node.flags().contains(NodeFlags::CUT);
    let mut types: Vec<Type> = node
        .rrsets()
        .map(|set| set.rtype())
        .filter(|&t| !cut || matches!(t, Type::NS | Type::DS | Type::NSEC | Type::RRSIG))
        .collect();
    if node.rrsets().any(|set| set.sig_count() > 0) {
        types.push(Type::RRSIG);
    }
    types.sort_unstable();
    types.dedup();
    types
}
