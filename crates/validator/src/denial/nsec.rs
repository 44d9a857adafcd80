//! Proofs by NSEC: names in canonical order, and the gaps between them (RFC 4035 §5.4, RFC 6840 §4).

use wire::rdata::view::{Nsec, TypeBitmap};
use wire::{Name, NameBuf, Type};

use super::{Claim, Denied, hides_below, lacks};
use crate::outcome::BogusReason;
use crate::response::ReceivedSet;

/// The NSEC records of a zone in a response.
pub(super) struct Names<'r> {
    zone: Name<'r>,
    spans: Vec<Span<'r>>,
}

/// An NSEC record: its owner exists, and no name between it and the next name does.
#[derive(Clone, Copy)]
struct Span<'r> {
    owner: Name<'r>,
    next: Name<'r>,
    types: TypeBitmap<'r>,
}

/// Why a name has no records.
enum Absence<'r> {
    /// The name does not exist; this is its closest encloser.
    NoName(Name<'r>),
    /// The name is an empty non-terminal (RFC 4592 §2.2.2).
    Empty,
}

impl<'r> Names<'r> {
    /// Selects the records of the zone. A name has one NSEC, whose next name is later within the zone, or for
    /// the last one the apex (RFC 4034 §4.1.1).
    pub(super) fn new(zone: Name<'r>, sets: &[&'r ReceivedSet]) -> Self {
        let read = |set: &&'r ReceivedSet| {
            let [rdata] = &set.rdatas[..] else { return None };
            let nsec = Nsec::read(rdata).ok().filter(|_| set.rtype == Type::NSEC)?;
            let span = Span { owner: set.owner.as_name(), next: nsec.next, types: nsec.types };
            let inside = span.owner.is_at_or_below(zone) && span.next.is_at_or_below(zone);
            (inside && (span.owner < span.next || span.next == zone)).then_some(span)
        };
        Names { zone, spans: sets.iter().filter_map(read).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub(super) fn prove(&self, name: Name<'_>, claim: Claim) -> Result<Denied, BogusReason> {
        let proven = match claim {
            Claim::Name => self.no_name(name),
            Claim::Data(t) => return self.no_data(name, t),
            Claim::Closer(labels) => self.no_closer(name, labels),
        };
        if proven { Ok(Denied::Proven) } else { Err(BogusReason::DenialWrong) }
    }

    fn matching(&self, name: Name<'_>) -> Option<&Span<'r>> {
        self.spans.iter().find(|span| span.owner == name)
    }

    /// Determines the absence of a name from the NSEC that covers it.
    fn absence<'n>(&self, name: Name<'n>) -> Option<Absence<'n>> {
        let covers = |span: &&Span<'r>| {
            let between = span.owner < name && (name < span.next || span.next == self.zone);
            // RFC 6840 §4.1: the NSEC of a delegation or DNAME proves nothing about names below it.
            between && !(name.is_at_or_below(span.owner) && hides_below(span.types))
        };
        let span = self.spans.iter().find(covers)?;
        if span.next.is_at_or_below(name) {
            return Some(Absence::Empty);
        }
        let is_there =
            |above: &Name<'n>| span.owner.is_at_or_below(*above) || span.next.is_at_or_below(*above);
        name.ancestors().find(is_there).map(Absence::NoName)
    }

    fn no_name(&self, name: Name<'_>) -> bool {
        if let Some(span) = self.matching(name) {
            // RFC 9824 §3.1: the NSEC of a nonexistent name has a special type.
            let listed = [Type::RRSIG, Type::NSEC, Type::NXNAME];
            return span.types.iter().eq(listed);
        }
        let Some(Absence::NoName(encloser)) = self.absence(name) else { return false };
        match NameBuf::prepend(b"*", encloser) {
            Ok(star) => matches!(self.absence(star.as_name()), Some(Absence::NoName(_))),
            // A wildcard name that is too long cannot exist.
            Err(_) => true,
        }
    }

    fn no_data(&self, name: Name<'_>, t: Type) -> Result<Denied, BogusReason> {
        if let Some(span) = self.matching(name) {
            return lacks(span.types, name, t);
        }
        let encloser = match self.absence(name) {
            Some(Absence::Empty) => return Ok(Denied::Proven),
            Some(Absence::NoName(encloser)) => encloser,
            None => return Err(BogusReason::DenialWrong),
        };
        let star = NameBuf::prepend(b"*", encloser).map_err(|_| BogusReason::DenialWrong)?;
        match (self.matching(star.as_name()), self.absence(star.as_name())) {
            (Some(span), _) if !super::is_delegation(span.types) => lacks(span.types, star.as_name(), t),
            (None, Some(Absence::Empty)) => Ok(Denied::Proven),
            _ => Err(BogusReason::DenialWrong),
        }
    }

    fn no_closer(&self, name: Name<'_>, labels: usize) -> bool {
        let absence = self.absence(name);
        matches!(absence, Some(Absence::NoName(encloser)) if encloser.label_count() == labels)
    }
}
