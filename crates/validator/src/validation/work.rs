//! [`Examined`]: a response with the checked signatures of its RRsets, and what they prove to be absent.

use dnssec::verify::SigFault;
use wire::message::Section;
use wire::{Name, NameBuf, Ttl, Type, UnixTime};

use super::{Learned, Validated, Validation};
use crate::budget::{ValidationBudget, ValidationLimit};
use crate::denial::{self, Claim, Denied, KnownHashes};
use crate::outcome::{BogusReason, InsecureReason, Security};
use crate::response::{ReceivedSet, Response};
use crate::signatures::{Checked, Checker};
use crate::trust::{Need, SharedData, Standing, Trust, TrustTable, Ways};

/// Most signers considered for one RRset, or for the proof of one absence.
const MAX_SIGNERS: usize = 3;

/// Inputs, cache and budget of the examination.
pub(super) struct Work<'a> {
    pub(super) by: &'a Validation<'a>,
    pub(super) table: &'a TrustTable,
    pub(super) budget: &'a mut ValidationBudget,
    /// When the validation began.
    pub(super) begun: UnixTime,
    /// Whether signatures may be verified and names hashed.
    pub(super) computes: bool,
}

/// Why the examination stops.
#[derive(Debug)]
pub(super) enum Halt {
    /// These records are needed first.
    Need(Box<Need>),
    /// Signatures or hashes would have to be computed, which is not allowed.
    Computing,
}

impl From<Box<Need>> for Halt {
    fn from(need: Box<Need>) -> Self {
        Halt::Need(need)
    }
}

impl Work<'_> {
    pub(super) fn ways(&self) -> Ways<'_> {
        self.by.work_of(self.table, self.begun)
    }
}

impl Validation<'_> {
    pub(super) fn work_of<'t>(&'t self, table: &'t TrustTable, begun: UnixTime) -> Ways<'t> {
        Ways { anchors: self.anchors, table, now: self.now, begun }
    }

    pub(super) fn bogus(&self, reason: BogusReason, at: NameBuf) -> Validated {
        let (security, ttl) = (Security::Bogus(reason), self.settings.bogus_ttl);
        Validated { security, ttl, at, covers: Vec::new(), leads_to: None }
    }

    pub(super) fn unreachable(&self) -> Validated {
        self.bogus(BogusReason::Unreachable, NameBuf::ROOT)
    }

    /// The result of a referral, from the trust state found.
    pub(super) fn of_learned(&self, learned: Option<&Learned>, at: NameBuf) -> Validated {
        let Some(Learned { trust, ttl, covers, .. }) = learned else {
            let (security, ttl) = (Security::Indeterminate, Ttl::ZERO);
            return Validated { security, ttl, at, covers: Vec::new(), leads_to: None };
        };
        let security = match trust {
            Trust::Secure(_) | Trust::Delegated(_) | Trust::NoCut => Security::Secure,
            Trust::Insecure(reason) => Security::Insecure(*reason),
            Trust::Bogus(reason) => Security::Bogus(*reason),
        };
        Validated { security, ttl: *ttl, at, covers: covers.clone(), leads_to: None }
    }
}

/// The state of a part of a response, its lifetime, and the name that decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) security: Security,
    pub(super) ttl: Ttl,
    pub(super) at: NameBuf,
}

/// An RRset whose state is determined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settled {
    pub(super) part: Part,
    /// If it is secure: the zone that signed it, and the checked signature.
    pub(super) signed: Option<(NameBuf, Checked)>,
}

/// An absence whose state is determined.
#[derive(Clone, Debug)]
pub(super) struct Absence {
    pub(super) part: Part,
    /// If it is proven: the zone that proves it, and whether it is that of a delegation's DS.
    pub(super) zone: Option<NameBuf>,
    pub(super) delegation: bool,
    /// Indexes of the RRsets that prove it.
    pub(super) proof: Vec<usize>,
}

/// Key of a proof: a name, a claim about it, and the zone that proves it.
type AbsenceAsked = (NameBuf, Claim, NameBuf);

/// A response with its results so far. Nothing is verified or proven twice, however often the examination
/// restarts.
#[derive(Clone, Debug)]
pub(super) struct Examined {
    pub(super) response: Response,
    /// For each RRset: the results of checking it, by zone.
    checks: Vec<Vec<(NameBuf, Result<Checked, BogusReason>)>>,
    absences: Vec<(AbsenceAsked, Result<Absence, BogusReason>)>,
}

impl Examined {
    pub(super) fn new(response: Response) -> Self {
        let checks = vec![Vec::new(); response.sets.len()];
        Examined { response, checks, absences: Vec::new() }
    }

    pub(super) fn set(&self, at: usize) -> Option<&ReceivedSet> {
        self.response.sets.get(at)
    }

    /// Checks an RRset with the keys of a zone.
    pub(super) fn check(
        &mut self,
        at: usize,
        zone: NameBuf,
        keys: &SharedData,
        work: &mut Work<'_>,
    ) -> Result<Checked, BogusReason> {
        let known = self.checks.get(at).into_iter().flatten().find(|(by, _)| *by == zone);
        if let Some((_, result)) = known {
            return *result;
        }
        let Some(set) = self.response.sets.get(at) else { return Err(BogusReason::Unsigned) };
        let (settings, now) = (work.by.settings, work.by.now);
        let result = Checker { settings, now, zone: zone.as_name(), keys }.check(set, work.budget);
        if let Some(checks) = self.checks.get_mut(at) {
            checks.push((zone, result));
        }
        result
    }

    /// Determines the state of an RRset, which has to be secure unless it is in an insecure zone. If `below`
    /// is set, only zones strictly above that name may have signed, and the RRset is in the zone of its
    /// parent.
    pub(super) fn settle(
        &mut self,
        at: usize,
        below: Option<Name<'_>>,
        work: &mut Work<'_>,
    ) -> Result<Settled, Halt> {
        let Some(set) = self.set(at) else {
            return Ok(Settled::bogus(BogusReason::Unsigned, NameBuf::ROOT, work));
        };
        let (owner, ttl, rtype) = (set.owner, set.ttl, set.rtype);
        // DS belong to the parent zone of the name (RFC 4035 §5.2).
        let below = below.map(Name::to_buf).or((rtype == Type::DS).then_some(owner));
        let mut reason = BogusReason::Unsigned;
        // At a cut, NSEC and DS belong to the zone above.
        let inner = match (&below, rtype) {
            (Some(name), _) => name.as_name().parent(),
            (None, Type::NSEC) => owner.as_name().parent(),
            _ => Some(owner.as_name()),
        };
        for signer in signers(std::iter::once(set), owner.as_name(), below) {
            let why = match work.ways().zone(signer.as_name())? {
                _ if inner.is_some_and(|name| work.ways().is_delegated(signer.as_name(), name)) => {
                    BogusReason::Signature(SigFault::WrongSigner)
                }
                Standing::Secure(_) if !work.computes => return Err(Halt::Computing),
                Standing::Secure(keys) => match self.check(at, signer, &keys, work) {
                    Ok(checked) if never_expanded(rtype) && is_expanded(owner.as_name(), &checked) => {
                        BogusReason::Wildcard
                    }
                    Ok(checked) => {
                        let part = Part { security: Security::Secure, ttl: checked.ttl, at: owner };
                        return Ok(Settled { part, signed: Some((signer, checked)) });
                    }
                    Err(why) => why,
                },
                Standing::Bogus(why) => why,
                Standing::NoZone | Standing::Insecure(..) | Standing::NoAnchor => {
                    BogusReason::Signature(SigFault::WrongSigner)
                }
            };
            reason = reason.or_closer(why);
        }
        let home = below.unwrap_or(owner);
        let home =
            if below.is_some() { home.as_name().parent().unwrap_or(Name::ROOT) } else { home.as_name() };
        let part = unsecured(home, reason, ttl, owner, work)?;
        Ok(Settled { part, signed: None })
    }

    /// Determines whether a claim about a name is proven, by `zone` if it is set. If `below` is set, only
    /// zones strictly above that name may prove it.
    pub(super) fn deny(
        &mut self,
        name: Name<'_>,
        claim: Claim,
        zone: Option<NameBuf>,
        below: Option<Name<'_>>,
        work: &mut Work<'_>,
    ) -> Result<Absence, Halt> {
        // DS are denied by the parent zone of the name (RFC 6840 §4.4).
        let below = below.map(Name::to_buf).or((claim == Claim::Data(Type::DS)).then_some(name.to_buf()));
        let below = below.filter(|below| !below.as_name().is_root());
        let mut reason = BogusReason::DenialMissing;
        for signer in self.deniers(name, below) {
            if zone.is_some_and(|zone| zone != signer) {
                continue;
            }
            let Standing::Secure(keys) = work.ways().zone(signer.as_name())? else { continue };
            let inner = if below.is_some() { name.parent() } else { Some(name) };
            if inner.is_some_and(|inner| work.ways().is_delegated(signer.as_name(), inner)) {
                continue;
            }
            if !work.computes {
                return Err(Halt::Computing);
            }
            match self.proven(signer, &keys, name, claim, work) {
                Ok(absence) => return Ok(absence),
                Err(why) => reason = reason.or_closer(why),
            }
        }
        let home = if below.is_some() { name.parent().unwrap_or(Name::ROOT) } else { name };
        let part = unsecured(home, reason, Ttl::MAX, name.to_buf(), work)?;
        Ok(Absence { part, zone: None, delegation: false, proof: Vec::new() })
    }

    /// The signers of NSEC or NSEC3 that may deny a name.
    fn deniers(&self, name: Name<'_>, below: Option<NameBuf>) -> Vec<NameBuf> {
        signers(self.denials().map(|(_, set)| set), name, below)
    }

    /// Whether the response has NSEC or NSEC3.
    pub(super) fn has_denials(&self) -> bool {
        self.denials().next().is_some()
    }

    fn denials(&self) -> impl Iterator<Item = (usize, &ReceivedSet)> {
        let is_denial = |(_, set): &(usize, &ReceivedSet)| {
            set.section == Section::Authority && matches!(set.rtype, Type::NSEC | Type::NSEC3)
        };
        self.response.sets.iter().enumerate().filter(is_denial)
    }

    /// Proves the claim by the records of a zone, which has these keys.
    fn proven(
        &mut self,
        zone: NameBuf,
        keys: &SharedData,
        name: Name<'_>,
        claim: Claim,
        work: &mut Work<'_>,
    ) -> Result<Absence, BogusReason> {
        let asked = (name.to_buf(), claim, zone);
        if let Some((_, result)) = self.absences.iter().find(|(known, _)| *known == asked) {
            return result.clone();
        }
        let result = self.prove(zone, keys, name, claim, work);
        self.absences.push((asked, result.clone()));
        result
    }

    fn prove(
        &mut self,
        zone: NameBuf,
        keys: &SharedData,
        name: Name<'_>,
        claim: Claim,
        work: &mut Work<'_>,
    ) -> Result<Absence, BogusReason> {
        let of_zone = |set: &ReceivedSet| {
            set.signatures.iter().filter_map(|sig| sig.signer()).any(|signer| signer == zone.as_name())
        };
        let all: Vec<usize> = self.denials().filter(|(_, set)| of_zone(set)).map(|(at, _)| at).collect();
        let most = work.budget.limits().denial_sets;
        let mut reason =
            if all.len() > most { ValidationLimit::DenialSets.into() } else { BogusReason::DenialMissing };
        let (mut proof, mut ttl) = (Vec::new(), Ttl::MAX);
        for at in all.into_iter().take(most) {
            match self.check(at, zone, keys, work) {
                // A record expanded from a wildcard belongs to the wildcard, and proves nothing about this
                // name.
                Ok(checked)
                    if self.set(at).is_some_and(|set| !is_expanded(set.owner.as_name(), &checked)) =>
                {
                    ttl = ttl.min(checked.ttl);
                    proof.push(at);
                }
                Ok(_) => reason = reason.or_closer(BogusReason::DenialWrong),
                Err(why) => reason = reason.or_closer(why),
            }
        }
        let sets: Vec<&ReceivedSet> = proof.iter().filter_map(|at| self.response.sets.get(*at)).collect();
        let (settings, known) = (work.by.settings, &mut KnownHashes::default());
        let denied = denial::prove(zone.as_name(), &sets, name, claim, settings, work.budget, known)
            .map_err(|why| reason.or_closer(why))?;
        let security = match denied {
            Denied::Proven | Denied::Delegation => Security::Secure,
            Denied::OptOut => Security::Insecure(InsecureReason::OptOut),
            Denied::Iterations => Security::Insecure(InsecureReason::Iterations),
        };
        let part = Part { security, ttl, at: name.to_buf() };
        Ok(Absence { part, zone: Some(zone), delegation: denied == Denied::Delegation, proof })
    }
}

impl Settled {
    fn bogus(reason: BogusReason, at: NameBuf, work: &Work<'_>) -> Self {
        let part = Part { security: Security::Bogus(reason), ttl: work.by.settings.bogus_ttl, at };
        Settled { part, signed: None }
    }
}

/// The state of data without a valid signature: insecure if the zone of `home` is, and bogus if that is
/// secure.
fn unsecured(
    home: Name<'_>,
    reason: BogusReason,
    ttl: Ttl,
    at: NameBuf,
    work: &Work<'_>,
) -> Result<Part, Halt> {
    let bogus = |why| Part { security: Security::Bogus(why), ttl: work.by.settings.bogus_ttl, at };
    if let BogusReason::Limit(_) = reason {
        return Ok(bogus(reason));
    }
    Ok(match work.ways().zone_of(home)? {
        Standing::Secure(..) | Standing::NoZone => bogus(reason),
        Standing::Bogus(why) => bogus(why),
        Standing::Insecure(why, left) => Part { security: Security::Insecure(why), ttl: ttl.min(left), at },
        Standing::NoAnchor => Part { security: Security::Indeterminate, ttl, at },
    })
}

/// The signers of RRsets that are at or above `name`, or strictly above `below` if it is set. Deepest first,
/// at most [`MAX_SIGNERS`].
fn signers<'s>(
    sets: impl Iterator<Item = &'s ReceivedSet>,
    name: Name<'_>,
    below: Option<NameBuf>,
) -> Vec<NameBuf> {
    let mut all: Vec<NameBuf> = Vec::new();
    let named = sets.flat_map(|set| &set.signatures).filter_map(|signature| signature.signer());
    for signer in named {
        let above = name.is_at_or_below(signer)
            && below.is_none_or(|below| below.as_name() != signer && below.as_name().is_at_or_below(signer));
        if above && all.iter().all(|known| known.as_name() != signer) {
            all.push(signer.to_buf());
        }
    }
    all.sort_by_key(|signer| std::cmp::Reverse(signer.as_name().label_count()));
    all.truncate(MAX_SIGNERS);
    all
}

/// Whether an RRset was expanded from a wildcard: fewer labels were signed than its owner has (RFC 4035
/// §5.3.4).
pub(super) fn is_expanded(owner: Name<'_>, checked: &Checked) -> bool {
    checked.labels < owner.label_count() - owner.is_wildcard() as usize
}

/// Whether records of this type belong to the name of a zone or to names below, so that none of them can be
/// expanded from a wildcard.
fn never_expanded(rtype: Type) -> bool {
    matches!(rtype, Type::DS | Type::DNSKEY | Type::SOA | Type::DNAME)
}
