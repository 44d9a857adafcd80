//! [`Ledger`]: the signatures and the records of the chain that a step removes and adds.

use std::collections::BTreeSet;

use wire::rdata::view::Rrsig;
use wire::{LowerName, NameBuf, Ttl, Type, UnixTime};
use zone::store::{ChangeSet, Node, Rdata, RrSet};

use super::Signing;
use crate::key::ZoneKey;
use crate::keyset::ZoneKeys;
use crate::parallel::parts;
use crate::rrset::{PresignedSet, UnsignedSet, sign_rrset};
use crate::zone::{SignFault, SigningCounts, is_signed_before};

/// RRsets that one thread signs at a time.
const PART: usize = 64;

/// Which signatures are renewed although nothing else changed.
#[derive(Clone, Copy)]
pub(super) struct Renewal<'a> {
    /// The owners of these signatures.
    pub(super) owners: &'a BTreeSet<NameBuf>,
    /// Signatures that expire at this time or before are renewed.
    pub(super) due: UnixTime,
}

/// Returns the keys that sign an RRset.
pub(super) fn signers(keys: &ZoneKeys, rtype: Type, is_apex: bool) -> Vec<&ZoneKey> {
    // DNSKEY and the like mean something at the apex only.
    keys.signers(if is_apex { rtype } else { Type::SOA }).collect()
}

/// Whether a signature over unchanged records stays: it is by one of the keys in `missing`, and is not due.
/// Removes that key. A key is identified by algorithm and tag.
pub(super) fn stays(sig: &Rdata<'_>, ttl: Ttl, missing: &mut Vec<&ZoneKey>, due: Option<UnixTime>) -> bool {
    let Ok(read) = Rrsig::read(sig.compiled()) else { return false };
    if read.original_ttl != ttl || sig.ttl() != ttl || due.is_some_and(|due| is_due(&read, due)) {
        return false;
    }
    let is_signer = |key: &&ZoneKey| (key.algorithm(), key.tag()) == (read.algorithm, read.key_tag);
    match missing.iter().position(is_signer) {
        Some(at) => {
            missing.remove(at);
            true
        }
        None => false,
    }
}

/// Whether a signature is one of those in `missing`, which keys elsewhere have made. Removes it there.
pub(super) fn is_presigned(sig: &Rdata<'_>, ttl: Ttl, missing: &mut Vec<&[u8]>) -> bool {
    let mut rdata = Vec::new();
    sig.copy_to(&mut rdata);
    let place = missing.iter().position(|other| *other == rdata).filter(|_| sig.ttl() == ttl);
    place.map(|place| missing.remove(place)).is_some()
}

fn is_due(sig: &Rrsig<'_>, due: UnixTime) -> bool {
    due.nearest(sig.expiration) <= due
}

/// An RRset to be signed by some keys.
struct SigningJob<'a> {
    owner: NameBuf,
    rtype: Type,
    ttl: Ttl,
    rdatas: Vec<Vec<u8>>,
    keys: Vec<&'a ZoneKey>,
}

/// An RRset as it will be.
pub(super) struct Wanted<'f> {
    pub(super) owner: NameBuf,
    pub(super) rtype: Type,
    pub(super) ttl: Ttl,
    pub(super) is_apex: bool,
    /// Whether it is signed.
    pub(super) is_signed: bool,
    /// Whether it has the records that its signatures cover.
    pub(super) is_same: bool,
    /// Returns its RDATA in canonical form and order.
    pub(super) rdatas: &'f dyn Fn() -> Vec<Vec<u8>>,
}

/// What changes beside the zone's data.
pub(super) struct Ledger<'a> {
    signing: &'a Signing<'a>,
    apex: LowerName<'a>,
    /// TTL of NSEC and NSEC3 records.
    proof_ttl: Ttl,
    renewal: Option<Renewal<'a>>,
    jobs: Vec<SigningJob<'a>>,
    pub(super) change: ChangeSet,
    pub(super) counts: SigningCounts,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(
        signing: &'a Signing<'a>,
        apex: LowerName<'a>,
        proof_ttl: Ttl,
        renewal: Option<Renewal<'a>>,
    ) -> Self {
        let (change, counts) = (ChangeSet::default(), SigningCounts::default());
        Ledger { signing, apex, proof_ttl, renewal, jobs: Vec::new(), change, counts }
    }

    /// Whether RRsets of this type have signatures at a name.
    pub(super) fn signs(&self, node: &Node<'_>, rtype: Type) -> bool {
        is_signed_before(self.signing.policy, node, rtype)
    }

    pub(super) fn remove(&mut self, owner: NameBuf, rtype: Type, record: &Rdata<'_>) {
        let mut rdata = Vec::new();
        record.copy_to(&mut rdata);
        self.change.removed.push(owner.as_name(), rtype, record.ttl(), &rdata);
        self.counts.dropped += 1;
    }

    /// Removes those of an RRset's signatures that do not stay, and has the missing ones made.
    pub(super) fn cover<'r>(&mut self, wanted: &Wanted<'_>, sigs: impl Iterator<Item = Rdata<'r>>) {
        let Wanted { owner, rtype, ttl, is_apex, .. } = *wanted;
        let presigned = self.signing.keys.presigned_set(rtype).filter(|_| is_apex);
        if let Some(set) = presigned {
            return self.cover_presigned(owner, set, sigs);
        }
        let mut missing = match wanted.is_signed {
            true => signers(self.signing.keys, rtype, is_apex),
            false => Vec::new(),
        };
        let due = self.renewal.filter(|renewal| renewal.owners.contains(&owner)).map(|renewal| renewal.due);
        for sig in sigs {
            if !(wanted.is_same && stays(&sig, ttl, &mut missing, due)) {
                self.remove(owner, Type::RRSIG, &sig);
            }
        }
        if !missing.is_empty() {
            self.jobs.push(SigningJob { owner, rtype, ttl, rdatas: (wanted.rdatas)(), keys: missing });
        }
    }

    /// Makes the signatures over an RRset those that keys elsewhere have made.
    fn cover_presigned<'r>(
        &mut self,
        owner: NameBuf,
        set: &PresignedSet,
        sigs: impl Iterator<Item = Rdata<'r>>,
    ) {
        let mut missing: Vec<&[u8]> = set.sigs.iter().map(|(_, sig)| &**sig).collect();
        for sig in sigs {
            if !is_presigned(&sig, set.ttl, &mut missing) {
                self.remove(owner, Type::RRSIG, &sig);
            }
        }
        for rdata in missing {
            self.change.added.push(owner.as_name(), Type::RRSIG, set.ttl, rdata);
        }
    }

    /// Replaces NSEC or NSEC3 records of an owner by the one that is wanted.
    pub(super) fn prove(
        &mut self,
        owner: NameBuf,
        present: Option<RrSet<'_>>,
        rtype: Type,
        wanted: Option<Vec<u8>>,
    ) {
        let (ttl, mut stays) = (self.proof_ttl, false);
        for record in present.into_iter().flat_map(|set| set.rdatas()) {
            match wanted.as_deref() == Some(record.compiled()) && record.ttl() == ttl {
                true => stays = true,
                false => self.remove(owner, rtype, &record),
            }
        }
        if let Some(rdata) = wanted.as_deref().filter(|_| !stays) {
            self.change.added.push(owner.as_name(), rtype, ttl, rdata);
            self.counts.denials += 1;
        }
        let is_same = stays && present.is_some_and(|set| set.count() == 1);
        let rdatas = || wanted.iter().cloned().collect();
        let is_signed = wanted.is_some();
        let set = Wanted { owner, rtype, ttl, is_apex: false, is_signed, is_same, rdatas: &rdatas };
        self.cover(&set, present.into_iter().flat_map(|set| set.sig_rdatas()));
    }

    /// Makes the signatures.
    pub(super) fn sign(&mut self) -> Result<(), SignFault> {
        let (jobs, period) = (&self.jobs, &self.signing.policy.period);
        let one = |job: &SigningJob<'_>| {
            let owner = job.owner.as_name().to_lower();
            let SigningJob { rtype, ttl, rdatas, .. } = job;
            let set = UnsignedSet { owner: owner.as_lower(), rtype: *rtype, ttl: *ttl, rdatas };
            let made = job.keys.iter().map(|key| sign_rrset(self.apex, &set, key, period));
            made.collect::<Result<Vec<_>, _>>()
        };
        let part = |part: usize| {
            let jobs = &jobs[part * PART..((part + 1) * PART).min(jobs.len())];
            jobs.iter().map(one).collect::<Result<Vec<_>, _>>()
        };
        let made = parts(self.signing.threads, jobs.len().div_ceil(PART), part)?;
        for (job, sigs) in self.jobs.iter().zip(made.into_iter().flatten()) {
            for sig in sigs {
                self.change.added.push(job.owner.as_name(), Type::RRSIG, job.ttl, &sig);
                self.counts.signatures += 1;
            }
        }
        self.jobs.clear();
        Ok(())
    }
}
