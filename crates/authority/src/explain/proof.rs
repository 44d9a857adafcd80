//! Which NSEC (RFC 4035 §3.1.3) or NSEC3 (RFC 5155 §7.2) record of an answer proves what. The records are
//! those that `denial` picks, and in the same order; here each has its reason.

use dnssec::nsec3;
use wire::hash::HashedName;
use wire::name::MAX_NAME;
use wire::rdata::view::Nsec3;
use wire::{LowerName, Name, NameBuf, Type};
use zone::store::{Node, Nsec3Chain, Zone};

/// A record of the chain of denial, and what it proves of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Its owner, in lower case.
    pub owner: NameBuf,
    /// NSEC or NSEC3.
    pub rtype: Type,
    /// What it proves.
    pub claim: Claim,
}

/// What a record of the chain of denial proves of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The name does not exist.
    NoName,
    /// The name does not exist, or is a delegation without DS: the NSEC3 has the opt-out bit.
    NoSignedName,
    /// The name is there without this type.
    NoType(Type),
    /// The name has no records, it only stands between others.
    NoRecords,
    /// The name exists: the closest encloser that can be proved.
    Encloser,
}

/// Finds the proofs that an answer about a name of a signed zone has.
pub(super) struct Prover<'p, 'z> {
    pub(super) zone: &'z Zone,
    pub(super) name: &'p HashedName,
    /// Labels of the name below the apex.
    pub(super) below: usize,
    pub(super) qtype: Type,
    /// Takes each name with what proves something of it.
    pub(super) found: &'p mut dyn FnMut(Name<'_>, Proof),
}

impl<'z> Prover<'_, 'z> {
    /// The zone answers with `node`, the name's own or a wildcard whose encloser lies `wildcard` labels up;
    /// `answered` is whether the type asked for is there.
    pub(super) fn data(&mut self, node: Node<'z>, wildcard: Option<usize>, answered: bool) {
        let Some(skip) = wildcard else {
            if !answered {
                self.no_data(node);
            }
            return;
        };
        let Some(chain) = self.zone.nsec3() else {
            self.nsec(self.name.as_lower(), Claim::NoName);
            if !answered {
                self.nsec(node.owner(), Claim::NoType(self.qtype));
            }
            return;
        };
        if answered {
            self.covering(chain, self.name.suffix(skip - 1));
        } else {
            self.closest_encloser(chain, skip);
            self.matching(chain, node.owner(), Claim::NoType(self.qtype));
        }
    }

    fn no_data(&mut self, node: Node<'z>) {
        let Some(chain) = self.zone.nsec3() else {
            match node.rrset(Type::NSEC) {
                Some(_) => self.prove(node, Type::NSEC, node.owner(), Claim::NoType(self.qtype)),
                None => self.nsec(self.name.as_lower(), Claim::NoRecords),
            }
            return;
        };
        if !self.matching(chain, self.name.as_lower(), Claim::NoType(self.qtype)) && self.below > 0 {
            self.closest_encloser(chain, 1);
        }
    }

    /// The name is not there; its closest encloser lies `skip` labels up.
    pub(super) fn no_name(&mut self, skip: usize) {
        let mut buf = [0; MAX_NAME];
        let Some(chain) = self.zone.nsec3() else {
            self.nsec(self.name.as_lower(), Claim::NoName);
            if let Ok(wildcard) = self.name.suffix(skip).wildcard(&mut buf) {
                self.nsec(wildcard, Claim::NoName);
            }
            return;
        };
        let encloser = self.closest_encloser(chain, skip);
        if let Ok(wildcard) = self.name.suffix(encloser).wildcard(&mut buf) {
            self.covering(chain, wildcard);
        }
    }

    /// The cut `skip` labels up has no DS.
    pub(super) fn no_ds(&mut self, cut: Node<'z>, skip: usize) {
        let claim = Claim::NoType(Type::DS);
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

    /// Proves the closest provable encloser, at least `skip` labels up, and that the next closer name is not
    /// there (RFC 5155 §7.2.1). Returns how many labels up it is.
    fn closest_encloser(&mut self, chain: Nsec3Chain<'z>, skip: usize) -> usize {
        for up in skip..=self.below {
            if self.matching(chain, self.name.suffix(up), Claim::Encloser) {
                self.covering(chain, self.name.suffix(up.saturating_sub(1)));
                return up;
            }
        }
        self.below
    }

    /// The NSEC at or before `name`.
    fn nsec(&mut self, name: LowerName<'_>, claim: Claim) {
        if let Some(node) = self.zone.nsec().and_then(|chain| chain.covering(name)) {
            self.prove(node, Type::NSEC, name, claim);
        }
    }

    /// The NSEC3 of `name`; whether there is one.
    fn matching(&mut self, chain: Nsec3Chain<'z>, name: LowerName<'_>, claim: Claim) -> bool {
        let node = chain.matching(&nsec3::hash(name, chain.salt(), chain.iterations()));
        if let Some(node) = node {
            self.prove(node, Type::NSEC3, name, claim);
        }
        node.is_some()
    }

    /// The NSEC3 that covers `name`, which is not there.
    fn covering(&mut self, chain: Nsec3Chain<'z>, name: LowerName<'_>) {
        let node = chain.covering(&nsec3::hash(name, chain.salt(), chain.iterations()));
        let rdata = node.rrset(Type::NSEC3).and_then(|set| set.rdatas().next());
        let opt_out = rdata.is_some_and(|rdata| Nsec3::read(rdata.compiled()).is_ok_and(|r| r.is_opt_out()));
        let claim = if opt_out { Claim::NoSignedName } else { Claim::NoName };
        self.prove(node, Type::NSEC3, name, claim);
    }

    fn prove(&mut self, node: Node<'z>, rtype: Type, name: LowerName<'_>, claim: Claim) {
        (self.found)(name.as_name(), Proof { owner: node.owner().as_name().to_buf(), rtype, claim });
    }
}
