//! Proofs by NSEC3: hashes in order, and the gaps between them (RFC 5155 §8).

use dnssec::nsec3::{self, HASH_LEN};
use wire::rdata::view::{Nsec3, Nsec3Param, TypeBitmap};
use wire::text::Base32Hex;
use wire::{Name, NameBuf, Type};

use super::{Claim, Denied, hides_below, is_delegation, lacks};
use crate::budget::{ValidationBudget, ValidationLimit};
use crate::outcome::BogusReason;
use crate::response::ReceivedSet;

type Hash = [u8; HASH_LEN];

/// The NSEC3 records of a zone in a response, all of one chain.
pub(super) struct Hashes<'r, 'k> {
    zone: Name<'r>,
    param: Nsec3Param<'r>,
    spans: Vec<Span<'r>>,
    known: &'k mut KnownHashes,
}

/// Names with their hashes, so that several proofs about one name hash it once. All have the same salt and
/// iterations.
#[derive(Debug, Default)]
pub(crate) struct KnownHashes {
    salt: Vec<u8>,
    iterations: u16,
    names: Vec<(NameBuf, Hash)>,
}

impl KnownHashes {
    /// Returns the hash of a name. Computing a new one costs budget, in blocks of SHA-1.
    pub(crate) fn hash(
        &mut self,
        name: Name<'_>,
        salt: &[u8],
        iterations: u16,
        budget: &mut ValidationBudget,
    ) -> Result<Hash, ValidationLimit> {
        if (self.salt.as_slice(), self.iterations) != (salt, iterations) {
            *self = KnownHashes { salt: salt.to_vec(), iterations, names: Vec::new() };
        }
        if let Some((_, hash)) = self.names.iter().find(|(known, _)| known.as_name() == name) {
            return Ok(*hash);
        }
        budget.take_hashes(nsec3::blocks(name.len(), salt.len(), iterations))?;
        let hash = nsec3::hash(name.to_lower().as_lower(), salt, iterations);
        self.names.push((name.to_buf(), hash));
        Ok(hash)
    }
}

/// An NSEC3 record: a name with its owner's hash exists, and none with a hash between that and the next.
#[derive(Clone, Copy)]
struct Span<'r> {
    owner: Hash,
    next: Hash,
    opt_out: bool,
    types: TypeBitmap<'r>,
}

/// The proven closest encloser of a name (RFC 5155 §8.3).
struct Encloser<'n> {
    name: Name<'n>,
    /// Whether a span with opt-out covers the next closer name.
    opt_out: bool,
}

impl<'r, 'k> Hashes<'r, 'k> {
    /// Selects the records of the zone with a known hash algorithm and known flags (RFC 5155 §8.2); of
    /// several chains the first one's. `None` if there are none.
    pub(super) fn new(zone: Name<'r>, sets: &[&'r ReceivedSet], known: &'k mut KnownHashes) -> Option<Self> {
        let mut all = sets.iter().filter_map(|set| read(zone, set));
        let (param, first) = all.next()?;
        let same = all.filter(|(other, _)| param.hashes_as(other)).map(|(_, span)| span);
        let spans = std::iter::once(first).chain(same).collect();
        Some(Hashes { zone, param, spans, known })
    }

    pub(super) fn iterations(&self) -> u16 {
        self.param.iterations
    }

    pub(super) fn prove(
        &mut self,
        name: Name<'_>,
        claim: Claim,
        budget: &mut ValidationBudget,
    ) -> Result<Denied, BogusReason> {
        match claim {
            Claim::Name => self.no_name(name, budget),
            Claim::Data(t) => self.no_data(name, t, budget),
            Claim::Closer(labels) => self.no_closer(name, labels, budget),
        }
    }

    /// Returns the hash of a name; a new one costs budget.
    fn hash(&mut self, name: Name<'_>, budget: &mut ValidationBudget) -> Result<Hash, BogusReason> {
        Ok(self.known.hash(name, self.param.salt, self.param.iterations, budget)?)
    }

    fn matching(&self, hash: Hash) -> Option<Span<'r>> {
        self.spans.iter().find(|span| span.owner == hash).copied()
    }

    fn covering(&self, hash: Hash) -> Option<Span<'r>> {
        self.spans.iter().find(|span| span.covers(hash)).copied()
    }

    /// Finds the closest encloser of a nonexistent name: an existing name directly above a nonexistent one.
    /// Searches from the apex downwards, since it is usually near the apex.
    fn encloser<'n>(
        &mut self,
        name: Name<'n>,
        budget: &mut ValidationBudget,
    ) -> Result<Encloser<'n>, BogusReason> {
        let zone = self.zone;
        let mut way: Vec<Name<'n>> = name.ancestors().take_while(|n| n.is_at_or_below(zone)).collect();
        way.reverse();
        let mut above: Option<(Name<'n>, Span<'r>)> = None;
        for at in way {
            let hash = self.hash(at, budget)?;
            if let (Some((encloser, _)), Some(span)) = (above, self.covering(hash)) {
                return Ok(Encloser { name: encloser, opt_out: span.opt_out });
            }
            // RFC 5155 §8.3: not the NSEC3 of a delegation or a DNAME above the name.
            above = self.matching(hash).filter(|span| !hides_below(span.types)).map(|span| (at, span));
        }
        Err(BogusReason::DenialWrong)
    }

    /// Proves that the name does not exist (RFC 5155 §8.4).
    fn no_name(&mut self, name: Name<'_>, budget: &mut ValidationBudget) -> Result<Denied, BogusReason> {
        let encloser = self.encloser(name, budget)?;
        if let Ok(star) = NameBuf::prepend(b"*", encloser.name) {
            let hash = self.hash(star.as_name(), budget)?;
            self.covering(hash).ok_or(BogusReason::DenialWrong)?;
        }
        Ok(encloser.denied())
    }

    /// Proves that the name lacks a type (RFC 5155 §8.5 to §8.7).
    fn no_data(
        &mut self,
        name: Name<'_>,
        t: Type,
        budget: &mut ValidationBudget,
    ) -> Result<Denied, BogusReason> {
        let hash = self.hash(name, budget)?;
        if let Some(span) = self.matching(hash) {
            return lacks(span.types, name, t);
        }
        let encloser = self.encloser(name, budget)?;
        let star = NameBuf::prepend(b"*", encloser.name).map_err(|_| BogusReason::DenialWrong)?;
        let hash = self.hash(star.as_name(), budget)?;
        match self.matching(hash) {
            Some(span) if is_delegation(span.types) => Err(BogusReason::DenialWrong),
            Some(span) => lacks(span.types, star.as_name(), t).map(|_| encloser.denied()),
            // An omitted delegation, or an empty non-terminal above omitted ones (RFC 5155 §8.6, §7.1).
            None if encloser.opt_out => Ok(Denied::OptOut),
            None => Err(BogusReason::DenialWrong),
        }
    }

    /// RFC 5155 §8.8. The wildcard below the encloser implies that the encloser exists.
    fn no_closer(
        &mut self,
        name: Name<'_>,
        labels: usize,
        budget: &mut ValidationBudget,
    ) -> Result<Denied, BogusReason> {
        let above = name.label_count().checked_sub(labels + 1).ok_or(BogusReason::DenialWrong)?;
        let hash = self.hash(name.skip(above), budget)?;
        let span = self.covering(hash).ok_or(BogusReason::DenialWrong)?;
        Ok(if span.opt_out { Denied::OptOut } else { Denied::Proven })
    }
}

impl Encloser<'_> {
    /// The result of a proof by this encloser: names covered by opt-out are never secure (RFC 5155 §9.2).
    fn denied(&self) -> Denied {
        if self.opt_out { Denied::OptOut } else { Denied::Proven }
    }
}

impl Span<'_> {
    /// Whether a hash lies between the two; the last record wraps to the zone's first hash.
    fn covers(&self, hash: Hash) -> bool {
        if self.owner < self.next {
            self.owner < hash && hash < self.next
        } else {
            hash > self.owner || hash < self.next
        }
    }
}

/// Parses an NSEC3 of the zone: its owner is a hash directly below the apex (RFC 5155 §3).
fn read<'r>(zone: Name<'_>, set: &'r ReceivedSet) -> Option<(Nsec3Param<'r>, Span<'r>)> {
    let [rdata] = &set.rdatas[..] else { return None };
    let nsec3 = Nsec3::read(rdata).ok().filter(|_| set.rtype == Type::NSEC3)?;
    let owner = set.owner.as_name();
    if owner.parent().is_none_or(|parent| parent != zone)
        || nsec3.param.algorithm != Nsec3Param::SHA1
        || nsec3.param.flags & !Nsec3Param::OPT_OUT != 0
    {
        return None;
    }
    let mut hash = Vec::with_capacity(HASH_LEN);
    Base32Hex::decode(owner.labels().next()?, &mut hash).ok()?;
    let (owner, next) = (hash.try_into().ok()?, nsec3.next_hash.try_into().ok()?);
    Some((nsec3.param, Span { owner, next, opt_out: nsec3.is_opt_out(), types: nsec3.types }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::ValidationLimits;

    #[test]
    fn a_name_is_hashed_once_for_all_proofs_about_it() {
        let mut budget = ValidationBudget::new(ValidationLimits::default());
        let mut known = KnownHashes::default();
        let name: NameBuf = "www.example.".parse().expect("a name");
        let first = known.hash(name.as_name(), &[1], 10, &mut budget);
        assert_eq!((known.hash(name.as_name(), &[1], 10, &mut budget), budget.nsec3_hashes()), (first, 11));
        let other = known.hash(name.as_name(), &[2], 10, &mut budget);
        assert_eq!((other == first, budget.nsec3_hashes()), (false, 22), "another salt");
    }
}
