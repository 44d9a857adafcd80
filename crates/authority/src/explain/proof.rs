//! The claims that the NSEC (RFC 4035 §3.1.3) or NSEC3 (RFC 5155 §7.2) records of an answer prove. The
//! records are those that `denial` selects, in the same order; here each has its claim.

use dnssec::nsec3;
use wire::hash::HashedName;
use wire::name::MAX_NAME;
use wire::rdata::view::Nsec3;
use wire::{LowerName, Name, NameBuf, Type};
use zone::store::{Node, Nsec3Chain, Zone};

/// A record of the chain of denial, and its claim about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Its owner, in lower case.
    pub owner: NameBuf,
    /// NSEC or NSEC3.
    pub rtype: Type,
    /// The claim that it proves.
    pub claim: DenialClaim,
}

/// A claim that a record of the chain of denial proves about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenialClaim {
    /// The name does not exist.
    NoName,
    /// The name does not exist, or is a delegation without DS: the NSEC3 has the opt-out bit.
    NoSignedName,
    /// The name exists without this type.
    NoType(Type),
    /// The name has no records: an empty non-terminal.
    NoRecords,
    /// The name exists: the closest provable encloser.
    Encloser,
}

/// Finds the proofs in an answer about a name of a signed zone.
pub(super) struct Prover<'p, 'z> {
    pub(super) zone: &'z Zone,
    pub(super) name: &'p HashedName,
    /// Labels of the name below the apex.
    pub(super) below: usize,
    pub(super) qtype: Type,
    /// Called with each name and a proof about it.
    pub(super) found: &'p mut dyn FnMut(Name<'_>, Proof),
}

impl<'z> Prover<'_, 'z> {
    /// Finds the proofs of an answer from `node`, which is the name's own or a wildcard whose encloser is
    /// `wildcard` labels up; `answered`: the node has records of QTYPE.
    pub(super) fn data(&mut self, node: Node<'z>, wildcard: Option<usize>, answered: bool) {
        let Some(skip) = wildcard else {
            if !answered {
                self.no_data(node);
            }
            return;
        };
        let Some(chain) = self.zone.nsec3() else {
            self.nsec(self.name.as_lower(), DenialClaim::NoName);
            if !answered {
                self.nsec(node.owner(), DenialClaim::NoType(self.qtype));
            }
            return;
        };
        if answered {
            self.covering(chain, self.name.suffix(skip - 1));
        } else {
            self.closest_encloser(chain, skip);
            self.matching(chain, node.owner(), DenialClaim::NoType(self.qtype));
        }
    }

    fn no_data(&mut self, node: Node<'z>) {
        let Some(chain) = self.zone.nsec3() else {
            match node.rrset(Type::NSEC) {
                Some(_) => self.prove(node, Type::NSEC, node.owner(), DenialClaim::NoType(self.qtype)),
                None => self.nsec(self.name.as_lower(), DenialClaim::NoRecords),
            }
            return;
        };
        if !self.matching(chain, self.name.as_lower(), DenialClaim::NoType(self.qtype)) && self.below > 0 {
            self.closest_encloser(chain, 1);
        }
    }

    /// Finds the proofs that the name does not exist; its closest encloser is `skip` labels up.
    pub(super) fn no_name(&mut self, skip: usize) {
        let mut buf = [0; MAX_NAME];
        let Some(chain) = self.zone.nsec3() else {
            self.nsec(self.name.as_lower(), DenialClaim::NoName);
            if let Ok(wildcard) = self.name.suffix(skip).wildcard(&mut buf) {
                self.nsec(wildcard, DenialClaim::NoName);
            }
            return;
        };
        let encloser = self.closest_encloser(chain, skip);
        if let Ok(wildcard) = self.name.suffix(encloser).wildcard(&mut buf) {
            self.covering(chain, wildcard);
        }
    }

    /// Finds the proof that the cut `skip` labels up has no DS.
    pub(super) fn no_ds(&mut self, cut: Node<'z>, skip: usize) {
        let claim = DenialClaim::NoType(Type::DS);
        let Some(chain) = self.zone.nsec3() else {
            if cut.rrset(Type::NSEC).is_some() {
                self.prove(cut, Type::NSEC, cut.owner(), claim);
            }
            return;
        };
        if !self.matching(chain, self.name.suffix(skip), claim) {
            self.closest_encloser(chain, skip + 1);
        }
    }

    /// Finds the closest provable encloser, at least `skip` labels up, and the proof that the next closer
    /// name does not exist (RFC 5155 §7.2.1). Returns how many labels up it is.
    fn closest_encloser(&mut self, chain: Nsec3Chain<'z>, skip: usize) -> usize {
        for up in skip..=self.below {
            if self.matching(chain, self.name.suffix(up), DenialClaim::Encloser) {
                self.covering(chain, self.name.suffix(up.saturating_sub(1)));
                return up;
            }
        }
        self.below
    }

    /// Adds the NSEC at or before `name`.
    fn nsec(&mut self, name: LowerName<'_>, claim: DenialClaim) {
        if let Some(node) = self.zone.nsec().and_then(|chain| chain.covering(name)) {
            self.prove(node, Type::NSEC, name, claim);
        }
    }

    /// Adds the NSEC3 of `name`. Returns whether there is one.
    fn matching(&mut self, chain: Nsec3Chain<'z>, name: LowerName<'_>, claim: DenialClaim) -> bool {
        let node = chain.matching(&nsec3::hash(name, chain.salt(), chain.iterations()));
        if let Some(node) = node {
            self.prove(node, Type::NSEC3, name, claim);
        }
        node.is_some()
    }

    /// Adds the NSEC3 that covers `name`, which does not exist.
    fn covering(&mut self, chain: Nsec3Chain<'z>, name: LowerName<'_>) {
        let node = chain.covering(&nsec3::hash(name, chain.salt(), chain.iterations()));
        let rdata = node.rrset(Type::NSEC3).and_then(|set| set.rdatas().next());
        let opt_out = rdata.is_some_and(|rdata| Nsec3::read(rdata.compiled()).is_ok_and(|r| r.is_opt_out()));
        let claim = if opt_out { DenialClaim::NoSignedName } else { DenialClaim::NoName };
        self.prove(node, Type::NSEC3, name, claim);
    }

    fn prove(&mut self, node: Node<'z>, rtype: Type, name: LowerName<'_>, claim: DenialClaim) {
        (self.found)(name.as_name(), Proof { owner: node.owner().as_name().to_buf(), rtype, claim });
    }
}
