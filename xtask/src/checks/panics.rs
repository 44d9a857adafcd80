//! No `unwrap()`, `expect("…")` or `panic!` in the crates that process outside input, except where the table
//! of exceptions says why it cannot happen.

use super::Fault;
use crate::exceptions::{self, Exceptions, line_of};
use crate::tree::Tree;

/// These crates, by folder.
const ROOMS: &[&str] = &[
    "wire",
    "dnssec",
    "validator",
    "zone",
    "journal",
    "authority",
    "cache",
    "resolver",
    "recursion",
    "policy",
    "transfer",
    "migrate",
    "signer",
    "query-path",
    "net",
];

/// Reports calls without an entry, and entries with a wrong count or without a reason.
pub(crate) fn check(tree: &Tree, exceptions: &Exceptions) -> Vec<Fault> {
    let table = tree.file(exceptions::PATH).and_then(|f| f.text()).unwrap_or_default();
    let mut faults = Vec::new();
    let mut seen = vec![0; exceptions.panic.len()];
    for source in tree.sources.iter().filter(|s| !s.test_file && in_rooms(&s.path)) {
        for site in &source.panics {
            let entry =
                exceptions.panic.iter().position(|e| e.path == source.path && e.function == site.function);
            match entry {
                Some(i) => seen[i] += 1,
                None => {
                    let text = format!(
                        "`{}` in `{}` can panic; return an error or use a form that cannot fail (a call that \
                         provably never panics goes into {} with its reason)",
                        site.call,
                        site.function,
                        exceptions::PATH
                    );
                    faults.push(Fault::new(&source.path, site.line, text));
                }
            }
        }
    }
    for (entry, seen) in exceptions.panic.iter().zip(seen) {
        let line = line_of(table, &format!("\"{}\"", entry.function));
        if seen != entry.calls {
            let text = format!(
                "`{}` of {} has {seen} calls that can panic, the entry has {}; take the new one out of the \
                 code, or correct the entry",
                entry.function, entry.path, entry.calls
            );
            faults.push(Fault::new(exceptions::PATH, line, text));
        }
        if entry.reason.split_whitespace().count() < 3 {
            faults.push(Fault::new(
                exceptions::PATH,
                line,
                "give the reason in words: why can the call not fail?",
            ));
        }
    }
    faults
}

fn in_rooms(path: &str) -> bool {
    ROOMS.iter().any(|room| path.starts_with(&format!("crates/{room}/src/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str, table: &str) -> Vec<String> {
        let tree = Tree::of(&[(path, text), (exceptions::PATH, table)]);
        let exceptions = Exceptions::parse(table).expect("the table reads");
        check(&tree, &exceptions).into_iter().map(|f| f.to_string()).collect()
    }

    const CALL: &str = "//! x\nfn f() {\n    x.unwrap();\n}\n";
    const ENTRY: &str = "[[panic]]\npath = \"crates/wire/src/a.rs\"\nfunction = \"f\"\ncalls = 1\n\
                         reason = \"the slice has two bytes\"\n";

    #[test]
    fn a_call_without_an_entry_is_a_fault() {
        assert!(faults("crates/wire/src/a.rs", CALL, "")[0].starts_with("crates/wire/src/a.rs:3:"));
        assert!(faults("crates/server/src/a.rs", CALL, "").is_empty());
        assert!(faults("crates/wire/tests/a.rs", CALL, "").is_empty());
    }

    #[test]
    fn an_entry_must_be_exact_and_reasoned() {
        assert!(faults("crates/wire/src/a.rs", CALL, ENTRY).is_empty());
        let twice = CALL.replace("x.unwrap();", "x.unwrap(); y.unwrap();");
        assert_eq!(faults("crates/wire/src/a.rs", &twice, ENTRY).len(), 1);
        assert_eq!(faults("crates/wire/src/a.rs", "//! x\n", ENTRY).len(), 1);
        let vague = ENTRY.replace("the slice has two bytes", "fine");
        assert_eq!(faults("crates/wire/src/a.rs", CALL, &vague).len(), 1);
    }
}
