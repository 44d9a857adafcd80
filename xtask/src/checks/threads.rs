//! The table of threads and the lock order of docs/ARCHITECTURE.md: every named thread of the crates is in
//! the table, the table has no other, and the locks of the order exist. Permitted waits of a thread, and the
//! order itself, are not checked.

use super::Fault;
use super::map::PATH;
use crate::source::{NameText, Source};
use crate::tree::Tree;

/// Heading of the table of threads.
const THREADS: &str = "## Threads";
/// Heading of the table of locks.
const LOCKS: &str = "## Lock order";

/// Reports names missing from the table, names missing from the code, and locks that do not exist.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let page = tree.file(PATH).and_then(|file| file.text()).unwrap_or_default();
    let table = column(page, THREADS, 0);
    let is_checked = |source: &&Source| {
        let of_crates = source.path.starts_with("crates/") && !source.path.starts_with("crates/testkit/");
        of_crates && !source.test_file
    };
    let sources: Vec<&Source> = tree.sources.iter().filter(is_checked).collect();
    let mut faults = Vec::new();
    for source in &sources {
        for name in &source.threads.names {
            let text = match &name.text {
                NameText::Nameless => {
                    "`thread::spawn` names no thread; use `thread::Builder` with a name".into()
                }
                NameText::Unknown => "the name of this thread cannot be read; give it as a text, or add the \
                                      function to HELPERS in xtask/src/source/threads.rs"
                    .into(),
                NameText::Prefix(prefix) if prefix.is_empty() => {
                    "the name of this thread begins with a placeholder; begin it with a text".into()
                }
                known if table.iter().any(|(_, row)| is_named(known, row)) => continue,
                NameText::Whole(name) => {
                    format!(
                        "the table of threads in {PATH} leaves out `{name}`; say what it runs and waits for"
                    )
                }
                NameText::Prefix(prefix) => {
                    format!(
                        "the table of threads in {PATH} leaves out `{prefix}…`; say what it runs and waits \
                         for"
                    )
                }
            };
            faults.push(Fault::new(&source.path, name.line, text));
        }
    }
    let names = || sources.iter().flat_map(|source| &source.threads.names);
    for (line, row) in table.iter().filter(|(_, row)| !names().any(|name| is_named(&name.text, row))) {
        let text = format!("no crate starts a thread `{row}`; correct the name, or take the row out");
        faults.push(Fault::new(PATH, *line, text));
    }
    let exists =
        |lock: &str| sources.iter().any(|source| source.threads.locks.iter().any(|known| known == lock));
    for (line, lock) in column(page, LOCKS, 1).iter().filter(|(_, lock)| !exists(lock)) {
        let text = format!("no type has the lock `{lock}`; correct the name, or take the row out");
        faults.push(Fault::new(PATH, *line, text));
    }
    faults
}

/// Whether a row describes a thread: `udp-PORT-N` describes all that begin with `udp-`.
fn is_named(name: &NameText, row: &str) -> bool {
    match name {
        NameText::Whole(name) => name == row,
        NameText::Prefix(prefix) => !prefix.is_empty() && row.starts_with(prefix.as_str()),
        NameText::Unknown | NameText::Nameless => false,
    }
}

/// Returns the texts between backticks in a column of the tables below a heading, each with its line.
fn column<'p>(page: &'p str, heading: &str, number: usize) -> Vec<(usize, &'p str)> {
    let lines = page.lines().zip(1..).skip_while(|(line, _)| *line != heading).skip(1);
    let mut found = Vec::new();
    for (line, at) in lines.take_while(|(line, _)| !line.starts_with("## ")) {
        let cell = line.strip_prefix('|').and_then(|row| row.split('|').nth(number)).unwrap_or_default();
        found.extend(cell.split('`').skip(1).step_by(2).map(|name| (at, name)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A\n\n## Threads\n\n| name | runs |\n|---|---|\n| `a`, `udp-PORT-N` | `x` |\n\n\
                        ## Lock order\n\n| | lock |\n|---|---|\n| 1 | `S::l` |\n\n## B\n\n| `no` | `no` |\n";
    const CODE: &str = "//! x\nstruct S { l: Mutex<u8> }\nfn f() {\n    \
                        Builder::new().name(\"a\".into());\n    \
                        let n = format!(\"udp-{}\", 1);\n    Builder::new().name(n);\n}\n";

    fn faults(path: &str, code: &str, page: &str) -> Vec<(String, usize)> {
        let tree = Tree::of(&[(PATH, page), (path, code)]);
        check(&tree).into_iter().map(|fault| (fault.path, fault.line)).collect()
    }

    #[test]
    fn a_page_that_fits_the_code_has_no_fault() {
        assert_eq!(faults("crates/x/src/lib.rs", CODE, PAGE), []);
    }

    #[test]
    fn a_thread_that_the_table_leaves_out_is_a_fault() {
        let code = CODE.replace("\"a\".into()", "\"b\".into()");
        let found = faults("crates/x/src/lib.rs", &code, PAGE);
        assert_eq!(found, [("crates/x/src/lib.rs".to_owned(), 4), (PATH.to_owned(), 7)]);
        let code = CODE.replace("udp-{}", "tcp-{}");
        let found = faults("crates/x/src/lib.rs", &code, PAGE);
        assert_eq!(found, [("crates/x/src/lib.rs".to_owned(), 6), (PATH.to_owned(), 7)]);
    }

    #[test]
    fn a_thread_that_is_not_there_is_a_fault() {
        let page = PAGE.replace("`a`", "`a`, `gone`");
        assert_eq!(faults("crates/x/src/lib.rs", CODE, &page), [(PATH.to_owned(), 7)]);
    }

    #[test]
    fn names_that_cannot_be_read_are_faults() {
        for call in ["thread::spawn(g)", "Builder::new().name(n)", "Builder::new().name(format!(\"{n}\"))"] {
            let code = format!("{CODE}fn h(n: String) {{\n    {call};\n}}\n");
            assert_eq!(faults("crates/x/src/lib.rs", &code, PAGE), [("crates/x/src/lib.rs".to_owned(), 9)]);
        }
    }

    #[test]
    fn threads_of_tests_and_of_tools_need_no_row() {
        let code = "//! x\nfn f() { thread::spawn(g); }\n";
        for path in ["crates/x/tests/a.rs", "crates/testkit/src/lib.rs", "bench/compare/src/main.rs"] {
            let tree = Tree::of(&[(PATH, PAGE), ("crates/x/src/lib.rs", CODE), (path, code)]);
            assert!(check(&tree).is_empty(), "{path}");
        }
    }

    #[test]
    fn a_lock_that_does_not_exist_is_a_fault() {
        let page = PAGE.replace("`S::l`", "`S::m`");
        assert_eq!(faults("crates/x/src/lib.rs", CODE, &page), [(PATH.to_owned(), 13)]);
    }
}
