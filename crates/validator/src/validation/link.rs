//! Determines whether a zone is signed, and with which keys (RFC 4035 §5.2).

use wire::message::Section;
use wire::{Name, NameBuf, Rcode, Type};

use super::Learned;
use super::work::{Examined, Halt, Part, Work, is_expanded};
use crate::delegation;
use crate::denial::Claim;
use crate::outcome::{BogusReason, InsecureReason, Security};
use crate::trust::{SecureDelegation, Trust};

impl Examined {
    /// The trust state that follows from a DS response.
    pub(super) fn ds(&mut self, work: &mut Work<'_>) -> Result<Learned, Halt> {
        let name: NameBuf = self.response.name.into();
        let name = name.as_name();
        if let Some(at) = self.response.find(Section::Answer, name, Type::DS) {
            return self.with_ds(at, work);
        }
        if !matches!(self.response.rcode, Rcode::NOERROR | Rcode::NXDOMAIN) {
            return Ok(Learned::bogus(BogusReason::Unreachable, work));
        }
        if let Some(learned) = self.aliased(name, work)? {
            return Ok(learned);
        }
        let claim = match self.response.rcode {
            Rcode::NXDOMAIN => Claim::Name,
            _ => Claim::Data(Type::DS),
        };
        self.without_ds(name, claim, work)
    }

    /// The trust state of the child zone that follows from a referral; `None` if it proves nothing.
    pub(super) fn referral(&mut self, child: Name<'_>, work: &mut Work<'_>) -> Result<Option<Learned>, Halt> {
        // Data from the zone above is ignored for a name with an anchor of its own.
        if work.ways().is_anchored(child) {
            return Ok(None);
        }
        let learned = match self.response.find(Section::Authority, child, Type::DS) {
            Some(at) => self.with_ds(at, work)?,
            None if !self.has_denials() => return Ok(None),
            None => self.without_ds(child, Claim::Data(Type::DS), work)?,
        };
        // If a referral proves nothing, the zone is not given up: its DS can be queried.
        Ok(Some(learned).filter(|learned| !matches!(learned.trust, Trust::Bogus(_))))
    }

    /// The trust state from an RRset of DS.
    fn with_ds(&mut self, at: usize, work: &mut Work<'_>) -> Result<Learned, Halt> {
        let settled = self.settle(at, None, work)?;
        let rdatas = self.set(at).map_or(&[][..], |set| &set.rdatas);
        let trust = match settled.part.security {
            Security::Secure => delegation::delegated(rdatas, work.by.settings),
            _ => untrusted(&settled.part),
        };
        let zone = settled.signed.map(|(zone, _)| zone);
        Ok(Learned { trust, by: zone, ttl: settled.part.ttl, covers: vec![at] })
    }

    /// The trust state from an alias: no zone begins at a name with CNAME (RFC 2181 §10.1), or below a DNAME
    /// (RFC 6672 §2.4). The target does not matter.
    fn aliased(&mut self, name: Name<'_>, work: &mut Work<'_>) -> Result<Option<Learned>, Halt> {
        let above = |owner: Name<'_>| name != owner && name.is_at_or_below(owner);
        let is_alias = |set: &crate::response::ReceivedSet| {
            let owner = set.owner.as_name();
            set.section == Section::Answer
                && (set.rtype == Type::DNAME && above(owner) || set.rtype == Type::CNAME && owner == name)
        };
        // The DNAME first, since it is the one that is signed.
        let of = |rtype| self.response.sets.iter().position(|set| is_alias(set) && set.rtype == rtype);
        let Some(at) = of(Type::DNAME).or(of(Type::CNAME)) else { return Ok(None) };
        let settled = self.settle(at, Some(name), work)?;
        let (mut part, mut covers) = (settled.part, vec![at]);
        let owner = self.set(at).map(|set| set.owner);
        if let (Some((zone, checked)), Some(owner)) = (settled.signed, owner)
            && is_expanded(owner.as_name(), &checked)
        {
            let claim = Claim::Closer(checked.labels);
            let absence = self.deny(owner.as_name(), claim, Some(zone), Some(name), work)?;
            part = absence.part;
            covers.extend(absence.proof);
        }
        let trust = match part.security {
            Security::Secure => Trust::NoCut,
            _ => untrusted(&part),
        };
        Ok(Some(Learned { trust, by: None, ttl: part.ttl.min(settled.part.ttl), covers }))
    }

    /// The trust state from a proof that there are no DS.
    fn without_ds(&mut self, name: Name<'_>, claim: Claim, work: &mut Work<'_>) -> Result<Learned, Halt> {
        let absence = self.deny(name, claim, None, Some(name), work)?;
        let trust = match absence.part.security {
            Security::Secure if absence.delegation => Trust::Insecure(InsecureReason::Unsigned),
            Security::Secure => Trust::NoCut,
            _ => untrusted(&absence.part),
        };
        Ok(Learned { trust, by: absence.zone, ttl: absence.part.ttl, covers: absence.proof })
    }

    /// The trust state that follows from a DNSKEY response; `None` if the zone's DS are no longer cached.
    pub(super) fn keys(&mut self, work: &mut Work<'_>) -> Option<Learned> {
        let zone: NameBuf = self.response.name.into();
        let zone = zone.as_name();
        let SecureDelegation { ds, by, left } = work.ways().delegation(zone)?;
        let ds = match delegation::delegated(&ds, work.by.settings) {
            Trust::Delegated(ds) => ds,
            trust => return Some(Learned { trust, by, ttl: left, covers: Vec::new() }),
        };
        let Some(at) = self.response.find(Section::Answer, zone, Type::DNSKEY) else {
            return Some(Learned { by, ..Learned::bogus(BogusReason::NoDnskey, work) });
        };
        let set = self.set(at)?;
        let (settings, now) = (work.by.settings, work.by.now);
        Some(match delegation::keys(set, zone, &ds, settings, now, work.budget) {
            // The keys are valid no longer than the DS.
            Ok((trust, ttl)) => Learned { trust, by, ttl: ttl.min(left), covers: vec![at] },
            Err(reason) => Learned { by, ..Learned::bogus(reason, work) },
        })
    }
}

impl Learned {
    fn bogus(reason: BogusReason, work: &Work<'_>) -> Self {
        let (trust, ttl) = (Trust::Bogus(reason), work.by.settings.bogus_ttl);
        Learned { trust, by: None, ttl, covers: Vec::new() }
    }
}

/// The trust state from a part that is not secure.
fn untrusted(part: &Part) -> Trust {
    match part.security {
        Security::Insecure(reason) => Trust::Insecure(reason),
        Security::Bogus(reason) => Trust::Bogus(reason),
        // Without an anchor above, no request would have been made.
        Security::Secure | Security::Indeterminate => Trust::NoCut,
    }
}
