//! Every Rust file begins with `//!`: its purpose and limits.

use super::Fault;
use crate::tree::Tree;

/// Reports files whose first line is not a module comment.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    tree.files
        .iter()
        .filter(|file| file.is_rust())
        .filter(|file| {
            let first = file.text().and_then(|t| t.lines().next()).unwrap_or_default();
            first.strip_prefix("//!").is_none_or(|words| words.trim().is_empty())
        })
        .map(|file| {
            Fault::new(
                &file.path,
                1,
                "no header; open the file with `//!` and say what lives there and what does not",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_header_is_a_fault() {
        let tree = Tree::of(&[
            ("a.rs", "//! What lives here.\n"),
            ("b.rs", "use a;\n//! late\n"),
            ("c.rs", ""),
            ("d.rs", "//!\n//! Second line.\n"),
            ("e.txt", "no Rust"),
        ]);
        let paths: Vec<_> = check(&tree).into_iter().map(|f| f.path).collect();
        assert_eq!(paths, ["b.rs", "c.rs", "d.rs"]);
    }
}
