//! Files that may contain `unsafe`, and that each use has a safety comment.

use super::edges::Metadata;
use super::{Fault, map};
use crate::source::UnsafeKind;
use crate::tree::Tree;

/// The permitted places, from the repository root: a file, or a folder with everything below it.
/// docs/ARCHITECTURE.md lists the same with the reasons, which is checked.
const PLACES: &[&str] = &[
    // System calls of the datagram path.
    "crates/net/src",
    // Descriptor limits and special sockets, which tests of the transports set up.
    "crates/net/tests",
    // Calls that the sandbox forbids, tried from inside it.
    "crates/nomen/tests/it/attempts",
    // Vector instructions of the zone file scanner, with a scalar version of the same code.
    "crates/zone/src/scan",
    // Prefetches.
    "crates/prefetch/src",
    // The scheduling policy of threads for which no query waits, and the slices of those that answer.
    "crates/threads/src/scheduling",
    // A counting allocator, for the test that answering does not allocate.
    "crates/authority/tests/it/allocations",
    // System calls of the load generator; not part of the server.
    "bench/compare/src/sys",
];

/// Reports `unsafe` in other places or without a safety comment, and crate roots that do not forbid it.
pub(crate) fn check(tree: &Tree, metadata: &Metadata) -> Vec<Fault> {
    let page = tree.file(map::PATH).and_then(|f| f.text());
    let is_listed = |place: &&&str| page.is_none_or(|page| page.contains(&format!("| `{place}")));
    let unlisted = PLACES.iter().filter(|place| !is_listed(place)).map(|place| {
        Fault::new(
            map::PATH,
            1,
            format!("the table of places of `unsafe` leaves out `{place}`; say why it is one"),
        )
    });
    let mut faults: Vec<Fault> = unlisted.collect();
    for source in &tree.sources {
        let lines: Vec<&str> =
            tree.file(&source.path).and_then(|f| f.text()).unwrap_or_default().lines().collect();
        for site in &source.unsafes {
            if !is_place(&source.path) {
                let text = "`unsafe` has no place here; write it safely, or move it to a place that \
                            docs/ARCHITECTURE.md lists";
                faults.push(Fault::new(&source.path, site.line, text));
            } else if !proven(&lines, site.line, site.statement, site.kind) {
                let text = match site.kind {
                    UnsafeKind::Contract => {
                        "say in the documentation, under `# Safety`, what the caller must hold true"
                    }
                    _ => "say why this is sound in a `// SAFETY:` comment directly above",
                };
                faults.push(Fault::new(&source.path, site.line, text));
            }
        }
    }
    for package in &metadata.packages {
        for root in package.roots.iter().filter(|root| !may_hold_unsafe(root)) {
            let forbids = tree
                .sources
                .iter()
                .any(|s| s.path == *root && s.inner_attributes.iter().any(|a| a == "forbid(unsafe_code)"));
            if !forbids && tree.file(root).is_some() {
                faults.push(Fault::new(root, 1, "add `#![forbid(unsafe_code)]` to this crate root"));
            }
        }
    }
    faults
}

fn is_place(path: &str) -> bool {
    PLACES.iter().any(|place| {
        path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
    })
}

/// Whether the crate with this root file contains a permitted place.
fn may_hold_unsafe(root: &str) -> bool {
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    is_place(root) || PLACES.iter().any(|place| place.starts_with(&format!("{folder}/")))
}

/// Whether the comments directly above the statement, or above the keyword's line, contain the proof.
fn proven(lines: &[&str], line: usize, statement: usize, kind: UnsafeKind) -> bool {
    let wanted: &[&str] = match kind {
        UnsafeKind::Claim => &["SAFETY:"],
        UnsafeKind::Contract => &["# Safety"],
        UnsafeKind::InMacro => &["SAFETY:", "# Safety"],
    };
    let above = |from: usize| {
        lines[..from.saturating_sub(1).min(lines.len())]
            .iter()
            .rev()
            .map(|l| l.trim_start())
            .take_while(|l| l.starts_with("//") || l.starts_with("#["))
            .any(|l| wanted.iter().any(|w| l.contains(w)))
    };
    // An item's documentation is part of the item, so the statement's first line may be the comment itself.
    let within = (statement..line).any(|n| {
        lines
            .get(n - 1)
            .is_some_and(|l| l.trim_start().starts_with("//") && wanted.iter().any(|w| l.contains(w)))
    });
    above(line) || above(statement) || within
}

#[cfg(test)]
mod tests {
    use super::super::edges::Package;
    use super::*;

    fn nothing() -> Metadata {
        Metadata { packages: Vec::new() }
    }

    fn faults(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)]), &nothing()).into_iter().map(|f| f.line).collect()
    }

    #[test]
    fn unsafe_out_of_place_is_a_fault_even_with_a_proof() {
        let text = "fn f() {\n    // SAFETY: none needed.\n    unsafe { g() }\n}\n";
        assert_eq!(faults("crates/wire/src/name.rs", text), [3]);
        assert_eq!(faults("crates/zone/src/snapshot.rs", text), [3]);
        assert_eq!(faults("crates/zone/src/scanner.rs", text), [3]);
        assert!(faults("crates/zone/src/scan/avx2.rs", text).is_empty());
        assert!(faults("crates/zone/src/scan.rs", text).is_empty());
    }

    #[test]
    fn a_place_that_the_page_leaves_out_is_a_fault() {
        let page: String = PLACES.iter().skip(1).map(|place| format!("| `{place}.rs` | why |\n")).collect();
        let found = check(&Tree::of(&[(map::PATH, &page)]), &nothing());
        assert_eq!(found.len(), 1);
        assert!(found[0].path == map::PATH && found[0].text.contains(PLACES[0]));
    }

    #[test]
    fn unsafe_in_place_needs_its_proof() {
        let path = "crates/net/src/udp.rs";
        assert_eq!(faults(path, "fn f() {\n    unsafe { g() }\n}\n"), [2]);
        assert_eq!(faults(path, "/// What it does.\nunsafe fn f() {}\n"), [2]);
        assert!(faults(path, "/// # Safety\n/// `p` is valid.\nunsafe fn f() {}\n").is_empty());
        assert!(
            faults(path, "fn f() {\n    // SAFETY: x.\n    let y = a(\n        unsafe { g() });\n}\n")
                .is_empty()
        );
        assert!(faults(path, "// SAFETY: owned by one thread.\nunsafe impl Send for T {}\n").is_empty());
        assert_eq!(faults(path, "fn f() {\n    // SAFETY: x.\n    a();\n    unsafe { g() }\n}\n"), [4]);
    }

    #[test]
    fn a_root_must_forbid_unless_its_crate_holds_a_place() {
        let metadata = Metadata {
            packages: vec![Package {
                name: "x".into(),
                manifest: "crates/x/Cargo.toml".into(),
                dependencies: Vec::new(),
                roots: vec![
                    "crates/wire/src/lib.rs".into(),
                    "crates/net/src/lib.rs".into(),
                    "crates/zone/src/lib.rs".into(),
                ],
            }],
        };
        let tree = |wire| {
            Tree::of(&[
                ("crates/wire/src/lib.rs", wire),
                ("crates/net/src/lib.rs", "//! x\n"),
                ("crates/zone/src/lib.rs", "//! x\n"),
            ])
        };
        let found = check(&tree("//! x\n"), &metadata);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "crates/wire/src/lib.rs");
        assert!(check(&tree("//! x\n#![forbid(unsafe_code)]\n"), &metadata).is_empty());
    }
}
