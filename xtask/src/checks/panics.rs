//! No `unwrap()`, `expect("…")` or `panic!` in the crates that process outside input, except where the table
//! of exceptions says why it cannot happen.

use super::Fault;
use crate::exceptions::{self, Exceptions, line_of};
use crate::tree::Tree;

/// Where this table is.
const PATH: &str = "xtask/src/checks/panics.rs";
/// These crates, by folder.
const CRATES: &[&str] = &[
    "wire",
    "transport",
    "dnssec",
    "validator",
    "zone",
    "signer",
    "journal",
    "authority",
    "cache",
    "resolver",
    "recursion",
    "transfer",
    "update",
    "migrate",
    "query-path",
    "net",
    "dnstap",
    "message",
];

/// Reports calls without an entry, entries with a wrong count or without a reason, and listed crates that do
/// not exist.
pub(crate) fn check(tree: &Tree, exceptions: &Exceptions) -> Vec<Fault> {
    let mut faults = missing(tree, CRATES);
    faults.extend(check_calls(tree, exceptions));
    faults
}

/// Reports listed crates that do not exist.
fn missing(tree: &Tree, crates: &[&str]) -> Vec<Fault> {
    let table = tree.file(PATH).and_then(|f| f.text()).unwrap_or_default();
    let is_missing = |name: &&&str| tree.file(&format!("crates/{name}/src/lib.rs")).is_none();
    let fault = |name: &&str| {
        let text = format!("there is no crate `{name}`; take it out of the list");
        Fault::new(PATH, line_of(table, &format!("\"{name}\"")), text)
    };
    crates.iter().filter(is_missing).map(fault).collect()
}

fn check_calls(tree: &Tree, exceptions: &Exceptions) -> Vec<Fault> {
    let table = tree.file(exceptions::PATH).and_then(|f| f.text()).unwrap_or_default();
    let mut faults = Vec::new();
    let mut seen = vec![0; exceptions.panic.len()];
    for source in tree.sources.iter().filter(|s| !s.test_file && is_in_crates(&s.path)) {
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

fn is_in_crates(path: &str) -> bool {
    CRATES.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str, table: &str) -> Vec<String> {
        let tree = Tree::of(&[(path, text), (exceptions::PATH, table)]);
        let exceptions = Exceptions::parse(table).expect("the table reads");
        check_calls(&tree, &exceptions).into_iter().map(|f| f.to_string()).collect()
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
    fn a_listed_crate_that_does_not_exist_is_a_fault() {
        let tree =
            Tree::of(&[("crates/wire/src/lib.rs", "//! x\n"), (PATH, "\n    \"wire\",\n    \"gone\",\n")]);
        assert!(missing(&tree, &["wire"]).is_empty());
        let fault = missing(&tree, &["wire", "gone"]).remove(0);
        assert_eq!((fault.path.as_str(), fault.line), (PATH, 3));
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
