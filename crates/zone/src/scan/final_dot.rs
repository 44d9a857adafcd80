//! Names that lack their final dot: completed with the origin, they end in the zone's name twice.

use wire::Name;

/// Whether a name ends in the zone's name twice.
pub(crate) fn ends_twice_in(name: Name<'_>, apex: Name<'_>) -> bool {
    if apex.is_root() || !name.is_at_or_below(apex) {
        return false;
    }
    // The front of the name, with the root in place of the apex.
    let front = name.len() - apex.len();
    let mut wire = name.as_wire().get(..front).unwrap_or_default().to_vec();
    wire.push(0);
    Name::from_wire(&wire).is_ok_and(|front| front.is_at_or_below(apex))
}
