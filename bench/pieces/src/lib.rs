//! The pieces that every query passes through, each by itself with constant inputs: criterion times them, and
//! the program of this crate counts their instructions. Large zones, where memory dominates, are measured in
//! `crates/zone/benches` and `crates/query-path/benches`, the kernel in `bench/compare`.
//!
//! | module | holds |
//! |---|---|
//! | `names` | comparing, ordering, lowering and hashing names |
//! | `messages` | decompression, compression, parsing, rendering |
//! | `lookups` | finding a name's node, and its zone |
//! | [`by_label`] | names in messages processed label by label, for comparison |
//! | [`answers`] | whole answers, 64 queries at a time |
//! | `zones` | the zones of the answers and lookups |
#![forbid(unsafe_code)]

pub mod answers;
pub mod by_label;
mod lookups;
pub mod messages;
mod names;
mod zones;

use wire::NameBuf;
use wire::hash::HashKey;

/// One measured piece.
pub struct Piece {
    /// Its name: group, kind and size, separated by slashes.
    pub name: String,
    /// Runs it once; the same work every time. The result prevents optimising it away.
    pub run: Box<dyn FnMut() -> usize>,
}

impl Piece {
    fn new(name: impl Into<String>, run: impl FnMut() -> usize + 'static) -> Self {
        Piece { name: name.into(), run: Box::new(run) }
    }
}

/// Returns every piece, in a fixed order.
pub fn all() -> Vec<Piece> {
    let key = key();
    let mut pieces = names::pieces(&key);
    pieces.extend(messages::pieces());
    pieces.extend(lookups::pieces(&key));
    pieces.extend(answers::pieces(&key));
    pieces
}

/// Returns the key of all hashes here: servers have a secret one, measurements a constant one.
pub fn key() -> HashKey {
    HashKey::new([0x1234_5678_9abc_def1, 0xfedc_ba98_7654_3211, 42])
}

/// Parses a name.
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
