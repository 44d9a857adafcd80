//! Validates the answer to a question along CNAME and DNAME (RFC 4035 §5.3, §5.4).

use wire::message::Section;
use wire::{Class, Name, NameBuf, Rcode, Ttl, Type};

use super::Validated;
use super::work::{Examined, Halt, Part, Work, is_expanded};
use crate::denial::Claim;
use crate::outcome::{BogusReason, Security};

/// Most links followed, CNAME and DNAME together.
const MAX_CHAIN_LINKS: usize = 16;

/// The combined result of an answer's parts.
struct Parts {
    worst: Option<Part>,
    ttl: Ttl,
    covers: Vec<usize>,
}

/// The answer section's content for a name.
enum AnswerContent {
    /// A DNAME above the name.
    Dname(usize),
    /// The RRset of type QTYPE; for ANY all RRsets.
    Sets(Vec<usize>),
    /// A CNAME instead.
    Cname(usize),
    /// Nothing.
    Nothing,
}

impl Parts {
    fn new() -> Self {
        Parts { worst: None, ttl: Ttl::MAX, covers: Vec::new() }
    }

    fn add(&mut self, part: Part, covers: impl IntoIterator<Item = usize>) {
        let rank = |security: Security| match security {
            Security::Secure => 0,
            Security::Insecure(_) => 1,
            Security::Indeterminate => 2,
            Security::Bogus(_) => 3,
        };
        if self.worst.is_none_or(|worst| rank(part.security) > rank(worst.security)) {
            self.worst = Some(part);
        }
        self.ttl = self.ttl.min(part.ttl);
        self.covers.extend(covers);
    }

    /// Replaces a secure result by a part that contradicts it. Other results prove nothing that could be
    /// contradicted.
    fn contradict(&mut self, part: Part) {
        if self.worst.is_some_and(|worst| worst.security == Security::Secure) {
            self.add(part, None);
        }
    }

    fn validated(mut self, asked: NameBuf, leads_to: Option<NameBuf>) -> Validated {
        self.covers.sort_unstable();
        self.covers.dedup();
        let (security, at) =
            self.worst.map_or((Security::Indeterminate, asked), |worst| (worst.security, worst.at));
        let covers = if matches!(security, Security::Bogus(_)) { Vec::new() } else { self.covers };
        Validated { security, ttl: self.ttl, at, covers, leads_to }
    }
}

impl Examined {
    /// Validates the answer to the question.
    pub(super) fn answer(&mut self, work: &mut Work<'_>) -> Result<Validated, Halt> {
        let asked: NameBuf = self.response.name.into();
        let (qtype, rcode) = (self.response.qtype, self.response.rcode);
        let mut parts = Parts::new();
        // Signatures, errors and other classes are not signed (RFC 4035 §2.2).
        let can_be_signed = self.response.qclass == Class::IN
            && qtype != Type::RRSIG
            && matches!(rcode, Rcode::NOERROR | Rcode::NXDOMAIN | Rcode::YXDOMAIN);
        if !can_be_signed {
            return Ok(parts.validated(asked, None));
        }
        let mut name = asked;
        for _ in 0..=MAX_CHAIN_LINKS {
            match self.content(name.as_name()) {
                AnswerContent::Dname(at) => match self.dname(at, name, &mut parts, work)? {
                    Some(next) => name = next,
                    None => {
                        // The new name is too long, for which there is a response code (RFC 6672 §2.2).
                        if rcode != Rcode::YXDOMAIN {
                            parts.contradict(work.by.part(BogusReason::Rcode, name));
                        }
                        return Ok(parts.validated(asked, None));
                    }
                },
                AnswerContent::Sets(sets) => {
                    for at in sets {
                        self.positive(at, &mut parts, work)?;
                    }
                    if rcode != Rcode::NOERROR {
                        parts.contradict(work.by.part(BogusReason::Rcode, name));
                    }
                    return Ok(parts.validated(asked, None));
                }
                AnswerContent::Cname(at) => {
                    self.positive(at, &mut parts, work)?;
                    let target = self.set(at).and_then(|set| Name::from_wire(set.rdatas.first()?).ok());
                    name = target.map_or(NameBuf::ROOT, Name::to_buf);
                }
                // A zone's server need not answer for the target of an alias (RFC 1034 §4.3.2).
                AnswerContent::Nothing if parts.worst.is_some() && !self.has_soa_for(name.as_name()) => {
                    return Ok(parts.validated(asked, Some(name)));
                }
                AnswerContent::Nothing => {
                    self.negative(name.as_name(), &mut parts, work)?;
                    if rcode == Rcode::YXDOMAIN {
                        parts.contradict(work.by.part(BogusReason::Rcode, name));
                    }
                    return Ok(parts.validated(asked, None));
                }
            }
        }
        parts.contradict(work.by.part(BogusReason::Chain, name));
        Ok(parts.validated(asked, None))
    }

    /// Finds the answer section's content for a name.
    fn content(&self, name: Name<'_>) -> AnswerContent {
        let answers =
            || self.response.sets.iter().enumerate().filter(|(_, set)| set.section == Section::Answer);
        let here = |t: Type| self.response.find(Section::Answer, name, t);
        // A DNAME redirects all names below it (RFC 6672 §2.4), whatever else exists there.
        let above = |owner: Name<'_>| name != owner && name.is_at_or_below(owner);
        let dname = answers().find(|(_, set)| set.rtype == Type::DNAME && above(set.owner.as_name()));
        if let Some((at, _)) = dname {
            return AnswerContent::Dname(at);
        }
        let qtype = self.response.qtype;
        let sets: Vec<usize> = match qtype {
            Type::ANY => answers().filter(|(_, set)| set.owner.as_name() == name).map(|(at, _)| at).collect(),
            _ => here(qtype).into_iter().collect(),
        };
        match here(Type::CNAME) {
            _ if !sets.is_empty() => AnswerContent::Sets(sets),
            Some(at) => AnswerContent::Cname(at),
            None => AnswerContent::Nothing,
        }
    }

    /// Whether the authority section has an SOA of a zone that contains a name.
    fn has_soa_for(&self, name: Name<'_>) -> bool {
        let authority = self.response.sets.iter().filter(|set| set.section == Section::Authority);
        let mut soa = authority.filter(|set| set.rtype == Type::SOA);
        soa.any(|set| name.is_at_or_below(set.owner.as_name()))
    }

    /// Validates an RRset of the answer: its signature, and if it was expanded from a wildcard, the proof for
    /// that.
    fn positive(&mut self, at: usize, parts: &mut Parts, work: &mut Work<'_>) -> Result<(), Halt> {
        let settled = self.settle(at, None, work)?;
        parts.add(settled.part, Some(at));
        let owner = self.set(at).map(|set| set.owner);
        if let (Some((zone, checked)), Some(owner)) = (settled.signed, owner)
            && is_expanded(owner.as_name(), &checked)
        {
            let claim = Claim::Closer(checked.labels);
            let absence = self.deny(owner.as_name(), claim, Some(zone), None, work)?;
            parts.add(absence.part, absence.proof);
        }
        Ok(())
    }

    /// Validates a DNAME of the answer and the CNAME that follows from it. Returns the new name, `None` if
    /// that would be too long.
    fn dname(
        &mut self,
        at: usize,
        name: NameBuf,
        parts: &mut Parts,
        work: &mut Work<'_>,
    ) -> Result<Option<NameBuf>, Halt> {
        let settled = self.settle(at, None, work)?;
        parts.add(settled.part, Some(at));
        let next = self.set(at).and_then(|set| {
            let target = Name::from_wire(set.rdatas.first()?).ok()?;
            NameBuf::replace_suffix(name.as_name(), set.owner.as_name().label_count(), target).ok()
        });
        // RFC 6672 §3.1: the CNAME is not signed, so it has the DNAME's state if it agrees with it.
        if let Some(cname) = self.response.find(Section::Answer, name.as_name(), Type::CNAME) {
            let target = self.set(cname).and_then(|set| Name::from_wire(set.rdatas.first()?).ok());
            let follows = next.is_some_and(|next| target == Some(next.as_name()));
            match follows {
                true => parts.covers.push(cname),
                false => parts.contradict(work.by.part(BogusReason::Synthesis, name)),
            }
        }
        Ok(next)
    }

    /// Validates that there is no data at the end of the chain.
    fn negative(&mut self, name: Name<'_>, parts: &mut Parts, work: &mut Work<'_>) -> Result<(), Halt> {
        let claim = match self.response.rcode {
            Rcode::NXDOMAIN => Claim::Name,
            _ => Claim::Data(self.response.qtype),
        };
        let below = (self.response.qtype == Type::DS).then_some(name);
        let absence = self.deny(name, claim, None, below, work)?;
        let zone = absence.zone;
        parts.add(absence.part, absence.proof);
        // The SOA limits how long the denial may be cached, so it has to be valid, too.
        let Some(zone) = zone else { return Ok(()) };
        if let Some(at) = self.response.find(Section::Authority, zone.as_name(), Type::SOA) {
            let settled = self.settle(at, None, work)?;
            parts.add(settled.part, Some(at));
        }
        Ok(())
    }
}

impl super::Validation<'_> {
    /// A bogus part.
    fn part(&self, reason: BogusReason, at: NameBuf) -> Part {
        Part { security: Security::Bogus(reason), ttl: self.settings.bogus_ttl, at }
    }
}
