//! Signs a whole zone: [`sign_zone`].
//!
//! 1. `base` is the zone without its old signatures and chain, with the SOA serial, the DNSKEY records and
//!    the parameters of the new version.
//! 2. `plan` lists the names that are signed, in canonical order, and links them to a chain.
//! 3. `made` has all new records, made part by part on several threads.
//! 4. The signed zone is built from both. Its ZONEMD is computed last, since it covers the signatures.

use std::fmt;
use std::ops::Range;

use dnssec::nsec3::HASH_LEN;
use wire::hash::HashKey;
use wire::rdata::canonical;
use wire::rdata::view::{Ds, Soa};
use wire::{Name, NameBuf, Serial, Ttl, Type};
use zone::store::{AddError, BuildError, ChangeError, Node, NodeFlags, RrSet};
use zone::zonemd::{self, ZonemdHash};
use zone::{Zone, ZoneBuilder};

use crate::denial::{DenialMethod, LongSalt, Nsec3Settings, nsec_record, nsec3_owner};
use crate::key::pair::NoSignature;
use crate::keyset::ZoneKeys;
use crate::parallel::parts;
use crate::rrset::{SignaturePeriod, UnsignedSet, sign_rrset};

/// Names or NSEC3 records in one part.
const PART: usize = 512;
/// Bytes of the numbers at the end of SOA RDATA, which begin with the serial (RFC 1035 §3.3.13).
const SOA_NUMBERS: usize = 20;

/// How a zone is signed.
#[derive(Clone, Debug)]
pub struct SigningPolicy {
    /// When the signatures are valid.
    pub period: SignaturePeriod,
    /// How the zone proves what does not exist.
    pub denial: DenialMethod,
    /// The new serial; `None` keeps it.
    pub serial: Option<Serial>,
    /// TTL of DNSKEY, CDS and CDNSKEY. Default: that of the zone's DNSKEY, else that of a key's file, else
    /// that of the SOA.
    pub dnskey_ttl: Option<Ttl>,
    /// Add CDS records with SHA-256 and CDNSKEY records (RFC 7344), in place of those of the zone.
    pub sync: bool,
    /// Hashes of the digests of the zone (RFC 8976). Digests that the zone has are removed.
    pub zonemd: Vec<ZonemdHash>,
}

/// Why a zone was not signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignFault {
    /// The SOA is malformed.
    BadSoa,
    /// The salt of NSEC3 is too long.
    Salt(LongSalt),
    /// The owners of NSEC3 records would be too long: the zone's name has more than 222 bytes.
    LongApex,
    /// Two names have the same NSEC3 hash: the zone needs another salt (RFC 5155 §7.1). One of them.
    Collision(Box<NameBuf>),
    /// The cryptography library failed.
    NoSignature,
    /// A record does not fit in a zone.
    Record(AddError),
    /// The zone was not built.
    Build(BuildError),
    /// The change does not fit the zone.
    Change(ChangeError),
}

impl fmt::Display for SignFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadSoa => f.write_str("the SOA record is malformed"),
            Self::Salt(fault) => fault.fmt(f),
            Self::LongApex => f.write_str("the name of the zone is too long for NSEC3"),
            Self::Collision(name) => {
                write!(f, "{name} has the same NSEC3 hash as another name: use another salt")
            }
            Self::NoSignature => f.write_str("the cryptography library made no signature"),
            Self::Record(fault) => fault.fmt(f),
            Self::Build(fault) => fault.fmt(f),
            Self::Change(fault) => fault.fmt(f),
        }
    }
}
impl std::error::Error for SignFault {}

impl From<NoSignature> for SignFault {
    fn from(_: NoSignature) -> Self {
        Self::NoSignature
    }
}

impl From<AddError> for SignFault {
    fn from(fault: AddError) -> Self {
        Self::Record(fault)
    }
}

impl From<BuildError> for SignFault {
    fn from(fault: BuildError) -> Self {
        Self::Build(fault)
    }
}

impl From<ChangeError> for SignFault {
    fn from(fault: ChangeError) -> Self {
        Self::Change(fault)
    }
}

impl From<LongSalt> for SignFault {
    fn from(fault: LongSalt) -> Self {
        Self::Salt(fault)
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SigningCounts {
    /// Signatures made.
    pub signatures: u64,
    /// NSEC or NSEC3 records made.
    pub denials: u64,
    /// Old signatures and records of chains that were dropped.
    pub dropped: u64,
}

/// A signed zone.
#[derive(Debug)]
pub struct SignedZone {
    /// The zone. [`zone::store::diff`] has the changes since the version before.
    pub zone: Zone,
    /// What was done.
    pub counts: SigningCounts,
}

/// Signs a zone on up to `threads` threads. Signatures, NSEC and NSEC3 records of the zone are dropped. For
/// the same arguments the result is the same, except signatures of ECDSA.
///
/// The caller checks the [period](SignaturePeriod::check).
///
/// # Errors
/// [`SignFault`].
pub fn sign_zone(
    zone: &Zone,
    keys: &ZoneKeys,
    policy: &SigningPolicy,
    threads: usize,
) -> Result<SignedZone, SignFault> {
    let mut counts = SigningCounts::default();
    let base = base(zone, keys, policy, &mut counts)?;
    let nodes: Vec<Node<'_>> = base.iter().collect();
    let job = Job { base: &base, nodes: &nodes, keys, policy, proof_ttl: base.negative_ttl() };
    let plan = job.plan(threads)?;
    let sets =
        parts(threads, nodes.len().div_ceil(PART), |part| job.sign_names(part_of(part, nodes.len()), &plan))?;
    let hashed = plan.hashed.len();
    let proofs = parts(threads, hashed.div_ceil(PART), |part| job.make_nsec3(part_of(part, hashed), &plan))?;
    let made = Made { sets, proofs };
    let is_proof = |record: &&NewRecord| matches!(record.rtype, Type::NSEC | Type::NSEC3);
    let records = || made.sets.iter().chain(&made.proofs).flat_map(|part| &part.records);
    counts.denials = records().filter(is_proof).count() as u64;
    counts.signatures = records().filter(|record| record.rtype == Type::RRSIG).count() as u64;
    let signed = job.assemble(&plan, &made, &[])?;
    if policy.zonemd.is_empty() {
        return Ok(SignedZone { zone: signed, counts });
    }
    let digests = job.digests(&signed)?;
    counts.signatures += digests.iter().filter(|(rtype, _)| *rtype == Type::RRSIG).count() as u64;
    Ok(SignedZone { zone: job.assemble(&plan, &made, &digests)?, counts })
}

fn part_of(part: usize, all: usize) -> Range<usize> {
    part * PART..((part + 1) * PART).min(all)
}

/// Whether signing makes records of this type, so that those of the zone are dropped.
pub(crate) fn is_made(rtype: Type) -> bool {
    matches!(rtype, Type::RRSIG | Type::NSEC | Type::NSEC3 | Type::NSEC3PARAM)
}

/// Whether signing replaces the records of this type at the apex.
pub(crate) fn is_renewed(policy: &SigningPolicy, rtype: Type) -> bool {
    let sync = policy.sync && matches!(rtype, Type::CDS | Type::CDNSKEY);
    sync || matches!(rtype, Type::DNSKEY | Type::ZONEMD)
}

/// Returns the zone that is signed: see the docs of this module.
fn base(
    zone: &Zone,
    keys: &ZoneKeys,
    policy: &SigningPolicy,
    counts: &mut SigningCounts,
) -> Result<Zone, SignFault> {
    let apex = zone.apex().as_name();
    let mut builder = ZoneBuilder::new(apex, &HashKey::random());
    let mut rdata = Vec::new();
    let soa_ttl = zone.apex_node().rrset(Type::SOA).map_or(Ttl::ZERO, |soa| soa.ttl());
    for node in zone {
        let (owner, is_apex) = (node.written_owner(), node.flags().contains(NodeFlags::APEX));
        for set in node.rrsets() {
            counts.dropped += u64::from(set.sig_count());
            if is_made(set.rtype()) {
                counts.dropped += u64::from(set.count());
                continue;
            }
            if is_apex && is_renewed(policy, set.rtype()) {
                continue;
            }
            for record in set.rdatas() {
                rdata.clear();
                record.copy_to(&mut rdata);
                if let (Some(serial), Type::SOA) = (policy.serial, set.rtype()) {
                    set_serial(&mut rdata, serial)?;
                }
                builder.add(owner.as_name(), set.rtype(), record.ttl(), &rdata)?;
            }
        }
        if is_apex {
            for (rtype, ttl, rdata) in apex_records(zone, soa_ttl, keys, policy) {
                builder.add(owner.as_name(), rtype, ttl, &rdata)?;
            }
        }
    }
    Ok(builder.finish()?)
}

pub(crate) fn set_serial(soa: &mut [u8], Serial(serial): Serial) -> Result<(), SignFault> {
    Soa::read(soa).map_err(|_| SignFault::BadSoa)?;
    let at = soa.len().checked_sub(SOA_NUMBERS).ok_or(SignFault::BadSoa)?;
    soa[at..at + 4].copy_from_slice(&serial.to_be_bytes());
    Ok(())
}

/// Returns the records that signing adds at the apex. `soa` is the TTL that the SOA will have.
pub(crate) fn apex_records(
    zone: &Zone,
    soa: Ttl,
    keys: &ZoneKeys,
    policy: &SigningPolicy,
) -> Vec<(Type, Ttl, Vec<u8>)> {
    let of_zone = zone.apex_node().rrset(Type::DNSKEY).map(|set| set.ttl());
    let of_files = || keys.keys().iter().find_map(|(key, _)| key.ttl());
    let ttl = policy.dnskey_ttl.or(of_zone).or_else(of_files).unwrap_or(soa);
    let ttl = keys.presigned_set(Type::DNSKEY).map_or(ttl, |set| set.ttl);
    let mut out: Vec<(Type, Ttl, Vec<u8>)> = Vec::new();
    out.extend(keys.dnskeys().into_iter().map(|rdata| (Type::DNSKEY, ttl, rdata)));
    if policy.sync {
        out.extend(keys.cds(Ds::SHA256).into_iter().map(|rdata| (Type::CDS, ttl, rdata)));
        out.extend(keys.cdnskeys().into_iter().map(|rdata| (Type::CDNSKEY, ttl, rdata)));
    }
    if let DenialMethod::Nsec3(settings) = &policy.denial {
        out.push((Type::NSEC3PARAM, Ttl::ZERO, settings.parameters()));
    }
    if let Some(hash) = policy.zonemd.first() {
        // Until the digest is known, the type alone is needed.
        out.push((Type::ZONEMD, soa, [&[0, 0, 0, 0, 1, hash.code()][..], &[0; 48]].concat()));
    }
    out
}

/// New records of a part of the zone, with the RDATA of all of them in one piece.
#[derive(Default)]
struct NewRecords {
    records: Vec<NewRecord>,
    rdata: Vec<u8>,
}

struct NewRecord {
    /// Index of the name; of the hash for NSEC3 and its signatures.
    place: usize,
    rtype: Type,
    ttl: Ttl,
    /// End of the RDATA, which begins at the end of that before.
    end: usize,
}

impl NewRecords {
    fn push(&mut self, place: usize, rtype: Type, ttl: Ttl, rdata: &[u8]) {
        self.rdata.extend_from_slice(rdata);
        self.records.push(NewRecord { place, rtype, ttl, end: self.rdata.len() });
    }

    fn iter(&self) -> impl Iterator<Item = (&NewRecord, &[u8])> {
        let mut start = 0;
        self.records.iter().map(move |record| {
            let rdata = &self.rdata[start..record.end];
            start = record.end;
            (record, rdata)
        })
    }
}

/// All new records but those of the digest.
struct Made {
    /// Signatures, and NSEC records with theirs, by name.
    sets: Vec<NewRecords>,
    /// NSEC3 records with their signatures, by hash.
    proofs: Vec<NewRecords>,
}

/// The chain of the zone.
#[derive(Default)]
struct Plan {
    /// The index of the next name in the NSEC chain, for each name that is in it.
    next: Vec<Option<usize>>,
    /// The hashes of the NSEC3 chain, ascending, with the index of their name.
    hashed: Vec<([u8; HASH_LEN], usize)>,
}

/// The signing of one zone.
struct Job<'a> {
    base: &'a Zone,
    nodes: &'a [Node<'a>],
    keys: &'a ZoneKeys,
    policy: &'a SigningPolicy,
    /// TTL of NSEC and NSEC3 records: the lesser of the SOA's TTL and its MINIMUM (RFC 9077 §3).
    proof_ttl: Ttl,
}

pub(crate) fn is_cut(node: &Node<'_>) -> bool {
    node.flags().contains(NodeFlags::CUT)
}

/// Whether records of this type are the zone's data, or parameters of its chain, and not signatures or a
/// chain.
pub(crate) fn is_data(rtype: Type) -> bool {
    !matches!(rtype, Type::RRSIG | Type::NSEC | Type::NSEC3)
}

/// Whether the zone is authoritative for the name: it is not below a cut or a DNAME.
pub(crate) fn is_visible(node: &Node<'_>) -> bool {
    !node.flags().contains(NodeFlags::OCCLUDED)
}

/// The RRsets of a name that are signed, without NSEC and NSEC3: at a cut, DS alone (RFC 4035 §2.2).
fn signed_sets<'a>(node: Node<'a>) -> impl Iterator<Item = RrSet<'a>> {
    node.rrsets().filter(move |set| is_signed_data(&node, set.rtype()))
}

/// Whether RRsets of this type are signed at a name, as data: NSEC and NSEC3 are none.
pub(crate) fn is_signed_data(node: &Node<'_>, rtype: Type) -> bool {
    is_visible(node) && is_data(rtype) && (!is_cut(node) || rtype == Type::DS)
}

/// Whether RRsets of this type are signed at a name, as data, before they are asked for: of a zone that is
/// signed while answering, those of the apex.
pub(crate) fn is_signed_before(policy: &SigningPolicy, node: &Node<'_>, rtype: Type) -> bool {
    let is_online = matches!(policy.denial, DenialMethod::Online(_));
    is_signed_data(node, rtype) && (!is_online || node.flags().contains(NodeFlags::APEX))
}

/// The types in the bitmap of a name, ascending, `own` included: at a cut those of the parent's side only
/// (RFC 4035 §2.3, RFC 5155 §7.1).
pub(crate) fn listed_types(node: Node<'_>, own: Option<Type>) -> Vec<Type> {
    let cut = is_cut(&node);
    let is_listed = |t: &Type| is_data(*t) && (!cut || matches!(*t, Type::NS | Type::DS));
    let mut types: Vec<Type> = node.rrsets().map(|set| set.rtype()).filter(is_listed).collect();
    if own.is_some() || signed_sets(node).next().is_some() {
        types.push(Type::RRSIG);
    }
    types.extend(own);
    types.sort_unstable();
    types
}

/// Returns the RDATA of a set in canonical form and order (RFC 4034 §6.2, §6.3).
pub(crate) fn canonical_rdatas(set: RrSet<'_>) -> Vec<Vec<u8>> {
    let mut rdatas = Vec::with_capacity(set.count().into());
    for record in set.rdatas() {
        let mut rdata = Vec::new();
        record.copy_to(&mut rdata);
        canonical(set.rtype(), &mut rdata);
        rdatas.push(rdata);
    }
    rdatas.sort_unstable();
    rdatas
}

impl<'a> Job<'a> {
    fn apex(&self) -> Name<'a> {
        self.base.apex().as_name()
    }

    /// Links the names to a chain.
    fn plan(&self, threads: usize) -> Result<Plan, SignFault> {
        match &self.policy.denial {
            DenialMethod::Nsec => Ok(Plan { next: self.nsec_chain(), hashed: Vec::new() }),
            DenialMethod::Online(_) => Ok(Plan::default()),
            DenialMethod::Nsec3(settings) => {
                settings.check()?;
                Ok(Plan { next: Vec::new(), hashed: self.nsec3_chain(settings, threads)? })
            }
        }
    }

    /// Links each name that has records to the next one, the last one to the apex (RFC 4034 §4.1.1).
    fn nsec_chain(&self) -> Vec<Option<usize>> {
        let mut next = vec![None; self.nodes.len()];
        let mut after = 0;
        for (i, node) in self.nodes.iter().enumerate().rev() {
            if is_visible(node) && !node.flags().contains(NodeFlags::EMPTY) {
                next[i] = Some(after);
                after = i;
            }
        }
        next
    }

    /// Returns the hashes of all names, ascending. With opt-out, insecure delegations are left out, and empty
    /// non-terminals with nothing else below (RFC 5155 §7.1).
    fn nsec3_chain(
        &self,
        settings: &Nsec3Settings,
        threads: usize,
    ) -> Result<Vec<([u8; HASH_LEN], usize)>, SignFault> {
        nsec3_owner(&[0; HASH_LEN], self.apex()).map_err(|_| SignFault::LongApex)?;
        let mut names: Vec<usize> = Vec::new();
        let mut below: Option<Node<'_>> = None;
        // In this order names come before their ancestors.
        for (i, node) in self.nodes.iter().enumerate().rev().filter(|(_, node)| is_visible(node)) {
            let insecure = is_cut(node) && node.rrset(Type::DS).is_none();
            let has_below = || below.is_some_and(|name| name.owner().is_at_or_below(node.owner()));
            let left_out = match node.flags().contains(NodeFlags::EMPTY) {
                true => !has_below(),
                false => settings.opt_out && insecure,
            };
            if !left_out {
                names.push(i);
                below = Some(*node);
            }
        }
        let hash = |part: usize| {
            let names = &names[part_of(part, names.len())];
            Ok(names.iter().map(|&i| (settings.hash(self.nodes[i].owner()), i)).collect::<Vec<_>>())
        };
        let mut hashed = parts::<_, SignFault>(threads, names.len().div_ceil(PART), hash)?.concat();
        hashed.sort_unstable();
        match hashed.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(SignFault::Collision(Box::new(self.nodes[pair[1].1].written_owner()))),
            None => Ok(hashed),
        }
    }

    /// Makes the signatures of a range of names, and their NSEC records.
    fn sign_names(&self, names: Range<usize>, plan: &Plan) -> Result<NewRecords, SignFault> {
        let mut made = NewRecords::default();
        for i in names {
            let node = self.nodes[i];
            let is_apex = node.flags().contains(NodeFlags::APEX);
            let signed = |set: &RrSet<'_>| is_signed_before(self.policy, &node, set.rtype());
            for set in node.rrsets().filter(signed) {
                // That of the digest is made with the digest.
                if is_apex && set.rtype() == Type::ZONEMD {
                    continue;
                }
                let rdatas = canonical_rdatas(set);
                let (rtype, ttl) = (set.rtype(), set.ttl());
                self.sign(
                    UnsignedSet { owner: node.owner(), rtype, ttl, rdatas: &rdatas },
                    is_apex,
                    |rdata| {
                        made.push(i, Type::RRSIG, ttl, rdata);
                    },
                )?;
            }
            let Some(next) = plan.next.get(i).copied().flatten() else { continue };
            let next = self.nodes[next].owner();
            let rdatas = [nsec_record(next, &listed_types(node, Some(Type::NSEC)))];
            made.push(i, Type::NSEC, self.proof_ttl, &rdatas[0]);
            let set =
                UnsignedSet { owner: node.owner(), rtype: Type::NSEC, ttl: self.proof_ttl, rdatas: &rdatas };
            self.sign(set, false, |rdata| made.push(i, Type::RRSIG, self.proof_ttl, rdata))?;
        }
        Ok(made)
    }

    /// Makes a range of the NSEC3 records, with their signatures.
    fn make_nsec3(&self, range: Range<usize>, plan: &Plan) -> Result<NewRecords, SignFault> {
        let mut made = NewRecords::default();
        let DenialMethod::Nsec3(settings) = &self.policy.denial else { return Ok(made) };
        for place in range {
            let (hash, i) = &plan.hashed[place];
            let (next, _) = &plan.hashed[(place + 1) % plan.hashed.len()];
            let owner = self.nsec3_owner(hash)?.as_name().to_lower();
            let rdatas = [settings.record(next, &listed_types(self.nodes[*i], None))];
            made.push(place, Type::NSEC3, self.proof_ttl, &rdatas[0]);
            let (owner, ttl) = (owner.as_lower(), self.proof_ttl);
            self.sign(UnsignedSet { owner, rtype: Type::NSEC3, ttl, rdatas: &rdatas }, false, |rdata| {
                made.push(place, Type::RRSIG, ttl, rdata);
            })?;
        }
        Ok(made)
    }

    fn nsec3_owner(&self, hash: &[u8; HASH_LEN]) -> Result<NameBuf, SignFault> {
        nsec3_owner(hash, self.apex()).map_err(|_| SignFault::LongApex)
    }

    /// Signs an RRset with each key that signs it.
    fn sign(
        &self,
        set: UnsignedSet<'_>,
        is_apex: bool,
        mut rrsig: impl FnMut(&[u8]),
    ) -> Result<(), NoSignature> {
        // DNSKEY and the like mean something at the apex only.
        let rtype = if is_apex { set.rtype } else { Type::SOA };
        if let Some(presigned) = self.keys.presigned_set(rtype) {
            presigned.sigs.iter().for_each(|(_, sig)| rrsig(sig));
            return Ok(());
        }
        for key in self.keys.signers(rtype) {
            rrsig(&sign_rrset(self.base.apex(), &set, key, &self.policy.period)?);
        }
        Ok(())
    }

    /// Returns the ZONEMD records for the signed zone, and the signatures over them.
    fn digests(&self, signed: &Zone) -> Result<Vec<(Type, Vec<u8>)>, SignFault> {
        let mut rdatas = zonemd::records(signed, &self.policy.zonemd);
        rdatas.sort_unstable();
        let ttl = signed.apex_node().rrset(Type::SOA).map_or(Ttl::ZERO, |soa| soa.ttl());
        let set = UnsignedSet { owner: signed.apex(), rtype: Type::ZONEMD, ttl, rdatas: &rdatas };
        let mut sigs = Vec::new();
        self.sign(set, true, |rdata| sigs.push((Type::RRSIG, rdata.to_vec())))?;
        Ok(rdatas.into_iter().map(|rdata| (Type::ZONEMD, rdata)).chain(sigs).collect())
    }

    /// Builds the signed zone. Without `digests`, ZONEMD has no signature yet.
    fn assemble(&self, plan: &Plan, made: &Made, digests: &[(Type, Vec<u8>)]) -> Result<Zone, SignFault> {
        let mut builder = ZoneBuilder::new(self.apex(), &HashKey::random());
        let mut sets = made.sets.iter().flat_map(NewRecords::iter).peekable();
        let mut rdata = Vec::new();
        for (i, node) in self.nodes.iter().enumerate() {
            let owner = node.written_owner();
            let is_apex = node.flags().contains(NodeFlags::APEX);
            for set in node.rrsets() {
                let replaced = is_apex && set.rtype() == Type::ZONEMD && !digests.is_empty();
                for record in set.rdatas().filter(|_| !replaced) {
                    rdata.clear();
                    record.copy_to(&mut rdata);
                    builder.add(owner.as_name(), set.rtype(), record.ttl(), &rdata)?;
                }
            }
            let soa_ttl = node.rrset(Type::SOA).map_or(Ttl::ZERO, |soa| soa.ttl());
            for (rtype, rdata) in digests.iter().filter(|_| is_apex) {
                builder.add(owner.as_name(), *rtype, soa_ttl, rdata)?;
            }
            while let Some((record, rdata)) = sets.next_if(|(record, _)| record.place == i) {
                builder.add(owner.as_name(), record.rtype, record.ttl, rdata)?;
            }
        }
        for (record, rdata) in made.proofs.iter().flat_map(NewRecords::iter) {
            let (hash, _) = &plan.hashed[record.place];
            builder.add(self.nsec3_owner(hash)?.as_name(), record.rtype, record.ttl, rdata)?;
        }
        Ok(builder.finish()?)
    }
}

#[cfg(test)]
mod tests;
