//! NSEC records that are made for one answer: type bitmaps (RFC 4034 §4.1.2), and the names right before and
//! after a name in canonical order (RFC 4034 §6.1, RFC 4471), between which such a record leaves no other
//! name of the zone.
//!
//! Names are absolute predecessors and successors: no name fits between them and the name that they are made
//! from, so the zone's own names need not be read.

use wire::name::MAX_NAME;
use wire::{LowerName, Type};

/// Longest label in bytes (RFC 1035 §2.3.4).
const MAX_LABEL: usize = 63;
/// The bytes beside the upper-case letters, which no name in lower case has (RFC 4034 §6.1).
const BESIDE_LETTERS: (u8, u8) = (b'@', b'[');

/// Appends a type bitmap of ascending types.
pub fn write_bitmap(types: &[Type], out: &mut Vec<u8>) {
    for window in types.chunk_by(|a, b| a.0 >> 8 == b.0 >> 8) {
        let mut bits = [0; 32];
        for t in window {
            bits[usize::from(t.0 & 0xff) / 8] |= 0x80 >> (t.0 % 8);
        }
        let (first, last) = (window.first(), window.last());
        let len = last.map_or(0, |t| usize::from(t.0 & 0xff) / 8 + 1);
        out.extend(first.map(|t| (t.0 >> 8) as u8));
        out.push(len as u8);
        out.extend_from_slice(&bits[..len]);
    }
}

/// Returns the RDATA of an NSEC record. `types` are ascending.
pub fn record(next: LowerName<'_>, types: &[Type]) -> Vec<u8> {
    let mut out = next.as_wire().to_vec();
    write_bitmap(types, &mut out);
    out
}

/// Returns the first possible name after `name` in the zone `apex`, in wire form: `\000.name`, or the name
/// after all names below it if that is too long.
pub fn successor(name: LowerName<'_>, apex: LowerName<'_>) -> Vec<u8> {
    match name.len() + 2 <= MAX_NAME {
        true => [&[1, 0][..], name.as_wire()].concat(),
        false => after_below(name, apex),
    }
}

/// Returns the first possible name of the zone `apex` after `name` and all names below it, in wire form; the
/// apex if there is none.
pub fn after_below(name: LowerName<'_>, apex: LowerName<'_>) -> Vec<u8> {
    let mut name = name;
    while name.len() > apex.len()
        && let Some(parent) = name.parent()
    {
        let label = label_of(name, parent);
        if label.len() < MAX_LABEL && name.len() < MAX_NAME {
            return joined(&[label, &[0]].concat(), parent.as_wire());
        }
        let mut label = label.to_vec();
        while let Some(last) = label.pop() {
            if last < u8::MAX {
                label.push(if last == BESIDE_LETTERS.0 { BESIDE_LETTERS.1 } else { last + 1 });
                return joined(&label, parent.as_wire());
            }
        }
        name = parent;
    }
    apex.as_wire().to_vec()
}

/// Returns the last possible name before `name`, which is below the apex of its zone, in wire form.
pub fn predecessor(name: LowerName<'_>) -> Vec<u8> {
    let Some(parent) = name.parent() else { return name.as_wire().to_vec() };
    let mut label = label_of(name, parent).to_vec();
    match label.pop() {
        // `\000` is the first label below a name.
        Some(0) if label.is_empty() => return parent.as_wire().to_vec(),
        // After the label without its last byte come only the names below it.
        None | Some(0) => {}
        Some(last) => {
            label.push(if last == BESIDE_LETTERS.1 { BESIDE_LETTERS.0 } else { last - 1 });
            let most = MAX_LABEL.min(MAX_NAME - 1 - parent.len());
            label.resize(most.max(label.len()), u8::MAX);
        }
    }
    let mut before = joined(&label, parent.as_wire());
    while before.len() + 2 <= MAX_NAME {
        let below = [u8::MAX; MAX_LABEL];
        before = joined(&below[..MAX_LABEL.min(MAX_NAME - 1 - before.len())], &before);
    }
    before
}

/// The leftmost label, without its length.
fn label_of<'n>(name: LowerName<'n>, parent: LowerName<'_>) -> &'n [u8] {
    name.as_wire().get(1..name.len() - parent.len()).unwrap_or_default()
}

fn joined(label: &[u8], parent: &[u8]) -> Vec<u8> {
    [&[label.len() as u8][..], label, parent].concat()
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use wire::NameBuf;

    use super::*;

    fn wire(name: &str) -> Vec<u8> {
        let name: NameBuf = name.parse().expect("a name");
        name.as_name().to_lower().as_lower().as_wire().to_vec()
    }

    fn lower(wire: &[u8]) -> LowerName<'_> {
        LowerName::of_checked(wire)
    }

    fn order(a: &[u8], b: &[u8]) -> Ordering {
        lower(a).as_name().canonical_cmp(lower(b).as_name())
    }

    #[test]
    fn the_next_name_is_the_first_below() {
        let apex = wire("example.");
        assert_eq!(successor(lower(&wire("a.example.")), lower(&apex)), wire("\\000.a.example."));
        assert_eq!(after_below(lower(&wire("a.example.")), lower(&apex)), wire("a\\000.example."));
        assert_eq!(after_below(lower(&apex), lower(&apex)), apex);
    }

    #[test]
    fn long_names_have_successors() {
        let apex = wire("example.");
        let (last, full) = ([255; 63], [b'a'; 63]);
        let last = joined(&last, &apex);
        assert_eq!(after_below(lower(&last), lower(&apex)), apex, "nothing comes after it");
        let full = joined(&full, &apex);
        let next = after_below(lower(&full), lower(&apex));
        assert_eq!((next.len(), next[63]), (full.len(), b'b'));
        let mut long = apex.clone();
        while long.len() + 65 <= MAX_NAME {
            long = joined(&[b'x'; 63], &long);
        }
        let rest = MAX_NAME - 1 - long.len();
        let long = joined(&[b'@'; 63][..rest], &long);
        assert_eq!(long.len(), MAX_NAME);
        let next = successor(lower(&long), lower(&apex));
        assert_eq!((next.len(), next[rest]), (MAX_NAME, b'['), "upper-case letters are left out");
        assert_eq!(predecessor(lower(&next))[rest], b'@');
    }

    #[test]
    fn no_name_fits_between_neighbours() {
        let apex = wire("example.");
        let names = ["a", "b", "\\000", "a\\000", "-", "[", "*", "x.y", "a\\255", "\\000.a", "0"];
        let names: Vec<Vec<u8>> = names.iter().map(|name| wire(&format!("{name}.example."))).collect();
        for name in &names {
            let (before, after) = (predecessor(lower(name)), after_below(lower(name), lower(&apex)));
            let next = successor(lower(name), lower(&apex));
            assert!(lower(&before).as_name().is_at_or_below(lower(&apex).as_name()));
            assert_eq!(order(&before, name), Ordering::Less, "{before:?}");
            assert_eq!((order(name, &next), order(&next, &after)), (Ordering::Less, Ordering::Less));
            for other in names.iter().filter(|other| *other != name) {
                let is_below = lower(other).as_name().is_at_or_below(lower(name).as_name());
                let is_between =
                    order(&before, other) == Ordering::Less && order(other, &after) == Ordering::Less;
                assert_eq!(is_between, is_below, "{name:?} {other:?}");
            }
        }
    }

    #[test]
    fn the_predecessor_of_the_first_name_is_its_parent() {
        assert_eq!(predecessor(lower(&wire("\\000.a.example."))), wire("a.example."));
        let before = predecessor(lower(&wire("b.example.")));
        assert_eq!((before.len(), before.ends_with(&wire("example."))), (MAX_NAME, true));
    }
}
