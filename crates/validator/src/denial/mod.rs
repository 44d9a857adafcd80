//! Proofs of nonexistence by NSEC (RFC 4035 §5.4) or NSEC3 (RFC 5155 §8).
//!
//! Input records are already verified: the zone itself signed them, and none was expanded from a wildcard.

mod nsec;
mod nsec3;

pub(crate) use nsec3::KnownHashes;

use wire::rdata::view::TypeBitmap;
use wire::{Name, Type};

use crate::budget::ValidationBudget;
use crate::outcome::BogusReason;
use crate::response::ReceivedSet;
use crate::settings::ValidationSettings;

/// The claim to prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The name does not exist, nor any wildcard that could match it (RFC 4035 §3.1.3.2).
    Name,
    /// The name has no records of this type; the name may exist or be matched by a wildcard (RFC 4035
    /// §3.1.3.1, §3.1.3.4).
    Data(Type),
    /// The name does not exist, nor any closer wildcard than the one directly below its ancestor with this
    /// many labels (RFC 4035 §3.1.3.3).
    Closer(usize),
}

/// The result of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The claim is proven.
    Proven,
    /// The claim that there is no DS is proven, for a name with a delegation.
    Delegation,
    /// The claim is proven, unless there is an unsigned delegation omitted by opt-out (RFC 5155 §6).
    OptOut,
    /// Nothing is proven: the records have more iterations than the settings allow.
    Iterations,
}

/// Proves a claim about `name` by the records of `zone`, which is at or above it. Hashes in `known` cost
/// nothing.
///
/// # Errors
/// Why the claim is not proven.
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

/// Whether these are the types of a delegation, as seen by the parent zone (RFC 6840 §4.1).
fn is_delegation(types: TypeBitmap<'_>) -> bool {
    types.contains(Type::NS) && !types.contains(Type::SOA)
}

/// Whether a name with these types proves nothing about names below it, because they belong to another zone
/// or are redirected (RFC 6840 §4.1, RFC 5155 §8.3).
fn hides_below(types: TypeBitmap<'_>) -> bool {
    is_delegation(types) || types.contains(Type::DNAME)
}

/// Proves that a name with these types, listed by NSEC or NSEC3, has no record of type `t` and no CNAME to
/// answer instead.
fn lacks(types: TypeBitmap<'_>, name: Name<'_>, t: Type) -> Result<Denied, BogusReason> {
    // RFC 6840 §4.4: DS belong to the parent, and only the parent can deny them; all other types at a cut
    // belong to the child.
    let by_whom =
        if t == Type::DS { !types.contains(Type::SOA) || name.is_root() } else { !is_delegation(types) };
    // RFC 6840 §4.3.
    if !by_whom || t == Type::ANY || types.contains(t) || types.contains(Type::CNAME) {
        return Err(BogusReason::DenialWrong);
    }
    Ok(if t == Type::DS && is_delegation(types) { Denied::Delegation } else { Denied::Proven })
}
