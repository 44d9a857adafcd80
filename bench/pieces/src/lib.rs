//! The pieces that every query passes through, each by itself and with inputs that never change: criterion
//! times them, the program of this crate counts their instructions. What lives here: the pieces. What does
//! not: large zones, where memory decides (`crates/zone/benches`, `crates/engine/benches`), and the kernel
//! (`bench/compare`).
//!
//! | module | holds |
//! |---|---|
//! | `names` | comparing, ordering, lowering and hashing names |
//! | `messages` | decompression, compression, parsing, rendering |
//! | `lookups` | finding what a name is, and in which zone |
//! | [`by_label`] | names in messages a label at a time, to compare with |
//! | [`answers`] | whole answers, 64 queries at a time |
//! | `zones` | the zones they are asked of |
#![forbid(unsafe_code)]

pub mod answers;
pub mod by_label;
mod lookups;
pub mod messages;
mod names;
mod zones;

use wire::NameBuf;
use wire::hash::HashKey;

/// One thing that is measured.
pub struct Piece {
    /// What it is, with slashes between the group, the kind and the size.
    pub name: String,
    /// Does it once; the same work every time. The result keeps it from being optimised away.
    pub run: Box<dyn FnMut() -> usize>,
}

impl Piece {
    fn new(name: impl Into<String>, run: impl FnMut() -> usize + 'static) -> Self {
        Piece { name: name.into(), run: Box::new(run) }
    }
}

/// Every piece, in a fixed order.
pub fn all() -> Vec<Piece> {
    let key = key();
    let mut pieces = names::pieces(&key);
    pieces.extend(messages::pieces());
    pieces.extend(lookups::pieces(&key));
    pieces.extend(answers::pieces(&key));
    pieces
}

/// The key of all hashes here: servers have a secret one, measurements one that never changes.
pub fn key() -> HashKey {
    HashKey::new([0x1234_5678_9abc_def1, 0xfedc_ba98_7654_3211, 42])
}

/// A name from its text.
///
/// # Panics
/// If it is none: the texts are those of this crate.
pub(crate) fn name(text: &str) -> NameBuf {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_has_a_name_of_its_own_and_does_the_same_every_time() {
        let mut names = std::collections::BTreeSet::new();
        for mut piece in all() {
            let first = (piece.run)();
            assert_eq!((piece.run)(), first, "{}", piece.name);
            assert!(names.insert(piece.name.clone()), "{} twice", piece.name);
        }
        assert!(names.len() > 40, "{names:?}");
    }
}
