//! Names by themselves: comparing, ordering, lowering, hashing every suffix.

use std::hint::black_box;

use wire::hash::{HashKey, HashedName};

use crate::{Piece, name};

/// A name of each size, with one that differs in its last label before the root, so that a comparison must
/// read all of it.
const SIZES: [(&str, &str, &str); 3] = [
    ("short", "a.example.", "a.examplf."),
    ("medium", "www.some-customer.example.com.", "www.some-customer.example.con."),
    (
        "long",
        "a-rather-long-label-with-many-letters.another-one-of-its-kind.and-one-more.department.university.example.org.",
        "a-rather-long-label-with-many-letters.another-one-of-its-kind.and-one-more.department.university.example.orf.",
    ),
];

pub(crate) fn pieces(key: &HashKey) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (size, text, differing) in SIZES {
        let one = name(text);
        let mut mixed = String::new();
        for (i, letter) in text.chars().enumerate() {
            mixed.push(if i % 2 == 0 { letter.to_ascii_uppercase() } else { letter });
        }
        let others = [("equal", name(text)), ("case", name(&mixed)), ("different", name(differing))];
        for (kind, other) in others {
            assert_eq!(one.as_name() == other.as_name(), kind != "different");
            pieces.push(Piece::new(format!("name-compare/{kind}/{size}"), move || {
                (black_box(one.as_name()) == black_box(other.as_name())) as usize
            }));
            pieces.push(Piece::new(format!("name-order/{kind}/{size}"), move || {
                black_box(one.as_name()).canonical_cmp(black_box(other.as_name())) as usize
            }));
        }
        let upper = name(&mixed);
        pieces.push(Piece::new(format!("name-lower/{size}"), move || {
            let lower = black_box(upper.as_name()).to_lower();
            black_box(&lower).as_name().len()
        }));
        let (key, mut hashed) = (*key, HashedName::new());
        pieces.push(Piece::new(format!("name-hash/{size}"), move || {
            hashed.set(&key, black_box(upper.as_name()));
            hashed.hash(0).bits() as usize
        }));
    }
    pieces
}
