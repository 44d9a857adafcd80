//! Proofs that something is not there, by NSEC (RFC 4035 §5.4) or NSEC3 (RFC 5155 §8).
//!
//! What comes in here is verified already: records that the zone itself has signed, and none that came of a
//! wildcard.

mod nsec;
mod nsec3;

pub(crate) use nsec3::KnownHashes;

use wire::rdata::view::TypeBitmap;
use wire::{Name, Type};

use crate::budget::ValidationBudget;
use crate::outcome::BogusReason;
use crate::response::ReceivedSet;
use crate::settings::ValidationSettings;

/// What is said not to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The name, and any wildcard that could stand for it (RFC 4035 §3.1.3.2).
    Name,
    /// Records of this type at the name, which may be there or be stood for by a wildcard (RFC 4035 §3.1.3.1,
    /// §3.1.3.4).
    Data(Type),
    /// The name, and any closer wildcard than the one right below its ancestor of so many labels (RFC 4035
    /// §3.1.3.3).
    Closer(usize),
}

/// What was proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The claim.
    Proven,
    /// The claim, that there is no DS, for a name at which there is a delegation.
    Delegation,
    /// The claim, unless there is an unsigned delegation that opt-out has left out (RFC 5155 §6).
    OptOut,
    /// Nothing: the records have more iterations than are followed.
    Iterations,
}

/// Proves a claim about `name` by the records of `zone`, at or above it. Hashes that are `known` cost
/// nothing.
///
/// # Errors
/// Why it is not proven.
pub(crate) fn prove(
    zone: Name<'_>,
    sets: &[&ReceivedSet],
    name: Name<'_>,
    claim: Claim,
    settings: &ValidationSettings,
    budget: &mut ValidationBudget,
    known: &mut KnownHashes,
) -> Result<Denied, BogusReason> {
    if !name.is_at_or_below(zone) {
        return Err(BogusReason::DenialWrong);
    }
    let names = nsec::Names::new(zone, sets);
    let by_names = names.prove(name, claim);
    if by_names.is_ok() {
        return by_names;
    }
    match nsec3::Hashes::new(zone, sets, known) {
        Some(hashes) if hashes.iterations() > settings.max_nsec3_iterations => Ok(Denied::Iterations),
        Some(mut hashes) => hashes.prove(name, claim, budget),
        None if names.is_empty() => Err(BogusReason::DenialMissing),
        None => by_names,
    }
}

/// Whether types are those of a delegation, seen from the zone above it (RFC 6840 §4.1).
fn is_delegation(types: TypeBitmap<'_>) -> bool {
    types.contains(Type::NS) && !types.contains(Type::SOA)
}

/// Whether a name with these types proves nothing about names below it: they are another zone's, or are
/// redirected (RFC 6840 §4.1, RFC 5155 §8.3).
fn hides_below(types: TypeBitmap<'_>) -> bool {
    is_delegation(types) || types.contains(Type::DNAME)
}

/// Whether a name with these types, which NSEC or NSEC3 list, has no record of type `t`, and none that would
/// be the answer in its place.
fn lacks(types: TypeBitmap<'_>, name: Name<'_>, t: Type) -> Result<Denied, BogusReason> {
    // RFC 6840 §4.4: DS are the parent's, and only the parent can deny them; all else at a cut is the
    // child's.
    let by_whom =
        if t == Type::DS { !types.contains(Type::SOA) || name.is_root() } else { !is_delegation(types) };
    // RFC 6840 §4.3.
    if !by_whom || t == Type::ANY || types.contains(t) || types.contains(Type::CNAME) {
        return Err(BogusReason::DenialWrong);
    }
    Ok(if t == Type::DS && is_delegation(types) { Denied::Delegation } else { Denied::Proven })
}
