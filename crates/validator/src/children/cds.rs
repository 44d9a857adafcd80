//! Requests of a child for a DS set: CDS and CDNSKEY records (RFC 7344, 8078), and whether they are accepted.

use dnssec::key::{digest_len, ds, fits};
use wire::rdata::view::{Dnskey, Ds, SigAlgorithm};
use wire::{Name, Serial, Type, UnixTime};

use super::answers::{ChildRrset, ServerAnswer, agreed, all};
use super::proof::{Proof, earlier, is_later, keys_of};
use super::refusal::{ChildRefusal, RefusalReason};
use crate::delegation::delegated;
use crate::settings::ValidationSettings;
use crate::trust::Trust;

/// The CDS record that asks for deletion, and the CDNSKEY record (RFC 8078 §4).
const DELETE_CDS: &[u8] = &[0, 0, 0, 0, 0];
const DELETE_CDNSKEY: &[u8] = &[0, 0, 3, 0, 0];
/// The algorithm in such records.
const DELETE_ALGORITHM: SigAlgorithm = SigAlgorithm(0);
/// Most records of a DS set that is accepted. Validators follow a limited number of DS records.
const MAX_DS: usize = 8;

/// What one server of a child has of CDS and CDNSKEY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CdsAnswers {
    /// The CDS RRset.
    pub cds: ChildRrset,
    /// The CDNSKEY RRset.
    pub cdnskey: ChildRrset,
}

/// What the same server has to prove it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildKeys {
    /// The DNSKEY RRset.
    pub dnskey: ChildRrset,
    /// The SOA RRset.
    pub soa: ChildRrset,
}

/// The RRsets at one signaling name (RFC 9615 §4.1), which a validator has found secure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalAnswer {
    /// The signaling name, for operators.
    pub name: String,
    /// The data of the CDS and of the CDNSKEY records, or why they are not known to be secure.
    pub found: Result<[Vec<Vec<u8>>; 2], String>,
}

/// A delegation, for its DS set.
#[derive(Clone, Copy, Debug)]
pub struct DelegationSigners<'a> {
    /// The child zone.
    pub child: Name<'a>,
    /// The DS set of the parent zone; empty: the delegation is unsigned.
    pub ds: &'a [Vec<u8>],
    /// The inception of the signature with which the last request was accepted.
    pub last: Option<Serial>,
}

/// What a child asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CdsRequest {
    /// Nothing: it has neither CDS nor CDNSKEY records.
    None,
    /// No DS set: the child will not be signed.
    Delete,
    /// This DS set, in order.
    Ds(Vec<Vec<u8>>),
}

/// The decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CdsDecision {
    /// The parent zone has this DS set already.
    Unchanged {
        /// The inception of the signature, if it is valid.
        inception: Option<Serial>,
    },
    /// The parent zone is to have another DS set.
    Change {
        /// The data of its records, in order; empty: there is to be none.
        ds: Vec<Vec<u8>>,
        /// The inception of the signature: a later request is not accepted with an older one.
        inception: Serial,
    },
}

/// The judged content of one server, once for all servers with the same.
type Content<'a> = (&'a str, &'a CdsAnswers, &'a ChildKeys);

impl CdsRequest {
    /// Reads what the servers of a child ask for. All servers must have answered, with the same records.
    ///
    /// # Errors
    /// [`ChildRefusal`].
    pub fn read(child: Name<'_>, servers: &[ServerAnswer<CdsAnswers>]) -> Result<CdsRequest, ChildRefusal> {
        let answers = all(servers)?;
        let cds = agreed(Type::CDS, answers.iter().map(|(server, found)| (*server, &found.cds)))?;
        let cdnskey = answers.iter().map(|(server, found)| (*server, &found.cdnskey));
        Self::of(child, cds, agreed(Type::CDNSKEY, cdnskey)?)
    }

    /// Reads the records.
    fn of(child: Name<'_>, cds: &[Vec<u8>], cdnskey: &[Vec<u8>]) -> Result<CdsRequest, ChildRefusal> {
        let malformed = |text: &str| ChildRefusal::new(RefusalReason::Malformed, text);
        let ds_set: Result<Vec<Ds<'_>>, _> = cds.iter().map(|rdata| Ds::read(rdata)).collect();
        let ds_set = ds_set.map_err(|_| malformed("a CDS record does not have the form of its type"))?;
        let keys: Result<Vec<Dnskey<'_>>, _> = cdnskey.iter().map(|rdata| Dnskey::read(rdata)).collect();
        let keys = keys.map_err(|_| malformed("a CDNSKEY record does not have the form of its type"))?;
        let cds_deletes = ds_set.iter().any(|ds| ds.algorithm == DELETE_ALGORITHM);
        let keys_delete = keys.iter().any(|key| key.algorithm == DELETE_ALGORITHM);
        if cds_deletes || keys_delete {
            let is_whole = |records: &[Vec<u8>], delete: &[u8]| match records {
                [] => true,
                [only] => only == delete,
                _ => false,
            };
            return match is_whole(cds, DELETE_CDS) && is_whole(cdnskey, DELETE_CDNSKEY) {
                true => Ok(Self::Delete),
                false => {
                    let text = "a record with algorithm 0 asks for deletion, and is not the only one, or does \
                                not have the form of RFC 8078 section 4";
                    Err(ChildRefusal::new(RefusalReason::MixedDelete, text))
                }
            };
        }
        if keys.iter().any(|key| !key.is_zone_key()) {
            return Err(malformed("a CDNSKEY record is not that of a zone key, or is revoked"));
        }
        if ds_set.iter().any(|ds| digest_len(ds.digest_type).is_some_and(|len| len != ds.digest.len())) {
            return Err(malformed("a CDS record has a digest of the wrong length"));
        }
        // RFC 8624 §3.3: no DS with SHA-1 or GOST is made any more.
        let usable = |ds: &&Ds<'_>| matches!(ds.digest_type, Ds::SHA256 | Ds::SHA384);
        let with_digest: Vec<(&Ds<'_>, &Vec<u8>)> =
            ds_set.iter().zip(cds).filter(|(ds, _)| usable(ds)).collect();
        if !cds.is_empty() && with_digest.is_empty() {
            let text = "no CDS record has a digest of type 2 (SHA-256) or 4 (SHA-384)";
            return Err(ChildRefusal::new(RefusalReason::UnknownDigest, text));
        }
        let mut wanted: Vec<Vec<u8>> = match cds.is_empty() {
            false => with_digest.iter().map(|(_, rdata)| (*rdata).clone()).collect(),
            true => keys.iter().filter_map(|key| ds(child, key, Ds::SHA256)).collect(),
        };
        let has_ds = |key: &Dnskey<'_>| with_digest.iter().any(|(ds, _)| fits(child, key, ds));
        let has_key = |ds: &Ds<'_>| keys.iter().any(|key| fits(child, key, ds));
        let is_both = !cds.is_empty() && !keys.is_empty();
        if is_both && !(keys.iter().all(has_ds) && with_digest.iter().all(|(ds, _)| has_key(ds))) {
            let text = "the CDS and CDNSKEY records are about different keys";
            return Err(ChildRefusal::new(RefusalReason::Mismatch, text));
        }
        if wanted.len() > MAX_DS {
            let text = format!("the child asks for {} DS records, {MAX_DS} at most are set", wanted.len());
            return Err(ChildRefusal::new(RefusalReason::TooMany, text));
        }
        wanted.sort_unstable();
        Ok(if wanted.is_empty() { Self::None } else { Self::Ds(wanted) })
    }

    /// Decides a request of a child that is signed: its delegation has a DS set.
    ///
    /// At each server, a key of the DS set must have signed the CDS and CDNSKEY records (RFC 7344 §4.1), not
    /// before the last accepted request (§6.2). And each server's answers must be valid for a validator with
    /// the old DS set and for one with the new one, whatever other algorithms it supports: for each algorithm
    /// of the new set, one of its keys signs the DNSKEY RRset, and keys of this algorithm the zone.
    ///
    /// # Errors
    /// [`ChildRefusal`].
    pub fn judge(
        &self,
        delegation: &DelegationSigners<'_>,
        servers: &[ServerAnswer<(CdsAnswers, ChildKeys)>],
        settings: &ValidationSettings,
        now: UnixTime,
    ) -> Result<CdsDecision, ChildRefusal> {
        let wanted: &[Vec<u8>] = match self {
            Self::None => return Ok(CdsDecision::Unchanged { inception: None }),
            Self::Delete => &[],
            Self::Ds(wanted) => wanted,
        };
        let signed = |(server, answers, keys): Content<'_>| -> Result<Serial, ChildRefusal> {
            let mut proof = Proof::new(delegation.child, server, settings, now);
            let signers = proven_signers(&mut proof, keys, delegation.ds)?;
            let inception = signed_at(&mut proof, answers, &signers)?;
            stays_valid(&mut proof, keys, wanted)?;
            Ok(inception)
        };
        let inception = earliest(servers, signed);
        if is_same(wanted, delegation.ds) {
            return Ok(CdsDecision::Unchanged { inception: inception.ok() });
        }
        not_replayed(CdsDecision::Change { ds: wanted.to_vec(), inception: inception? }, delegation.last)
    }

    /// Decides a request of a child whose delegation is unsigned (RFC 9615 §4.2): `signals` are the records
    /// of the signaling names of all name servers outside of the child.
    ///
    /// # Errors
    /// [`ChildRefusal`].
    pub fn judge_bootstrap(
        &self,
        delegation: &DelegationSigners<'_>,
        servers: &[ServerAnswer<(CdsAnswers, ChildKeys)>],
        signals: &[SignalAnswer],
        settings: &ValidationSettings,
        now: UnixTime,
    ) -> Result<CdsDecision, ChildRefusal> {
        let Self::Ds(wanted) = self else { return Ok(CdsDecision::Unchanged { inception: None }) };
        let refused = |text: String| Err(ChildRefusal::new(RefusalReason::Signal, text));
        if signals.is_empty() {
            return refused("all name servers are in the child zone: none can signal for it".to_owned());
        }
        let answers = all(servers)?;
        for signal in signals {
            let [cds, cdnskey] = match &signal.found {
                Ok(found) => found,
                Err(why) => return refused(format!("{}: {why}", signal.name)),
            };
            let differs = |(_, (found, _)): &(&str, &(CdsAnswers, ChildKeys))| {
                found.cds.rdatas() != &cds[..] || found.cdnskey.rdatas() != &cdnskey[..]
            };
            let name = &signal.name;
            if cds.is_empty() && cdnskey.is_empty() {
                return refused(format!("{name}: there are neither CDS nor CDNSKEY records"));
            }
            if answers.iter().any(differs) {
                return refused(format!("{name}: its CDS or CDNSKEY records are not those of the child"));
            }
        }
        let signed = |(server, answers, keys): Content<'_>| -> Result<Serial, ChildRefusal> {
            let mut proof = Proof::new(delegation.child, server, settings, now);
            stays_valid(&mut proof, keys, wanted)?;
            let signers = signers(delegation.child, keys, wanted);
            signed_at(&mut proof, answers, &signers)
        };
        let inception = earliest(servers, signed)?;
        not_replayed(CdsDecision::Change { ds: wanted.clone(), inception }, delegation.last)
    }
}

/// Judges the content of each server. Returns the earliest time of all.
fn earliest(
    servers: &[ServerAnswer<(CdsAnswers, ChildKeys)>],
    mut judge: impl FnMut(Content<'_>) -> Result<Serial, ChildRefusal>,
) -> Result<Serial, ChildRefusal> {
    let (mut judged, mut first) = (Vec::<&(CdsAnswers, ChildKeys)>::new(), None);
    for (server, content) in all(servers)? {
        if judged.contains(&content) {
            continue;
        }
        let inception = judge((server, &content.0, &content.1))?;
        first = Some(first.map_or(inception, |first| earlier(first, inception)));
        judged.push(content);
    }
    first
        .ok_or_else(|| ChildRefusal::new(RefusalReason::NoAnswer, "the delegation has no name server to ask"))
}

/// Returns the keys of a child that a DS set has, after the child was proven with it.
fn proven_signers(
    proof: &mut Proof<'_>,
    keys: &ChildKeys,
    ds_set: &[Vec<u8>],
) -> Result<Vec<Vec<u8>>, ChildRefusal> {
    let Trust::Delegated(usable) = delegated(ds_set, proof.settings) else {
        let text = "no record of the DS set has an algorithm and a digest type that are supported here";
        return Err(ChildRefusal::new(RefusalReason::WrongSigner, text));
    };
    proof.check_keys(&keys.dnskey, &usable).map_err(|reason| proof.refusal(Type::DNSKEY, reason))?;
    Ok(signers(proof.child, keys, &usable))
}

/// Returns the keys that a DS set has.
fn signers(child: Name<'_>, keys: &ChildKeys, ds_set: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let ds_set: Vec<Ds<'_>> = ds_set.iter().filter_map(|rdata| Ds::read(rdata).ok()).collect();
    keys_of(&keys.dnskey, |key| ds_set.iter().any(|ds| fits(child, key, ds)))
}

/// Returns when a request was signed by one of these keys: CDS and CDNSKEY, as far as they are there.
fn signed_at(
    proof: &mut Proof<'_>,
    answers: &CdsAnswers,
    signers: &[Vec<u8>],
) -> Result<Serial, ChildRefusal> {
    let sets = [(Type::CDS, &answers.cds), (Type::CDNSKEY, &answers.cdnskey)];
    let mut first = None;
    for (rtype, set) in sets.into_iter().filter(|(_, set)| !set.rdatas().is_empty()) {
        let inception = proof.newest_inception(set, rtype, signers)?;
        first = Some(first.map_or(inception, |first| earlier(first, inception)));
    }
    first.ok_or_else(|| {
        ChildRefusal::new(RefusalReason::Unsigned, "there are neither CDS nor CDNSKEY records")
    })
}

/// Checks that what a server has is valid for a validator that has this DS set, with each of its algorithms.
fn stays_valid(proof: &mut Proof<'_>, keys: &ChildKeys, wanted: &[Vec<u8>]) -> Result<(), ChildRefusal> {
    let mut algorithms: Vec<SigAlgorithm> =
        wanted.iter().filter_map(|rdata| Ds::read(rdata).ok()).map(|ds| ds.algorithm).collect();
    algorithms.sort_unstable_by_key(|algorithm| algorithm.0);
    algorithms.dedup();
    for algorithm in algorithms {
        if !proof.settings.takes_algorithm(algorithm) {
            let why = format!("signatures of algorithm {} cannot be verified here", algorithm.0);
            return Err(proof.breaks(&why));
        }
        let is_of = |rdata: &&Vec<u8>| Ds::read(rdata).is_ok_and(|ds| ds.algorithm == algorithm);
        let ds_set: Vec<Vec<u8>> = wanted.iter().filter(is_of).cloned().collect();
        let number = algorithm.0;
        proof
            .check_keys(&keys.dnskey, &ds_set)
            .map_err(|reason| proof.breaks(&format!("algorithm {number}, the DNSKEY records: {reason}")))?;
        let of_algorithm = keys_of(&keys.dnskey, |key| key.algorithm == algorithm);
        proof
            .check(&keys.soa, &of_algorithm)
            .map_err(|reason| proof.breaks(&format!("algorithm {number}, the SOA record: {reason}")))?;
    }
    Ok(())
}

/// Refuses a change that was signed before the last accepted one (RFC 7344 §6.2).
fn not_replayed(decision: CdsDecision, last: Option<Serial>) -> Result<CdsDecision, ChildRefusal> {
    match (&decision, last) {
        (CdsDecision::Change { inception, .. }, Some(last)) if is_later(last, *inception) => {
            let text = "the records were signed before those that were accepted last: a server has an older \
                        version of the zone, or the answer is a replay";
            Err(ChildRefusal::new(RefusalReason::Replayed, text))
        }
        _ => Ok(decision),
    }
}

/// Whether two DS sets have the same records.
fn is_same(wanted: &[Vec<u8>], ds_set: &[Vec<u8>]) -> bool {
    wanted.len() == ds_set.len() && wanted.iter().all(|ds| ds_set.contains(ds))
}

#[cfg(test)]
mod tests;
