//! docs/DEPENDENCIES.md has a row for each dependency of the program that has `unsafe` in its sources or a
//! build script, or is a procedural macro, and says which of these it has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Fault;
use crate::program::{Package, Program};
use crate::tree::Tree;

const PATH: &str = "docs/DEPENDENCIES.md";

/// The sections of the page with such rows: of packages in the program, and of those that only its build
/// runs.
const SECTIONS: [&str; 2] = ["## In the program", "## In the build only"];

/// What needs a row.
const FACTS: [&str; 3] = ["unsafe", "build script", "macro"];

/// Folders of a package whose sources are not compiled into what depends on it.
const OTHER_SOURCES: [&str; 5] = ["tests", "benches", "examples", "fuzz", "ci"];

/// What the program has, or the page says, of all versions of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Facts {
    /// Whether it is linked into the program.
    is_linked: bool,
    /// Those of [`FACTS`].
    facts: BTreeSet<String>,
}

/// A row of the page.
struct Row<'a> {
    /// Line of the page, counted from 1.
    line: usize,
    /// Its packages.
    names: Vec<&'a str>,
    /// What it says of each of them.
    facts: Facts,
}

/// Compares the page with the program's packages and their sources.
pub(crate) fn check(tree: &Tree, program: &Program) -> Result<Vec<Fault>, String> {
    let Some(page) = tree.file(PATH).and_then(|f| f.text()) else {
        return Ok(vec![Fault::new(PATH, 1, "is missing; it has a row for each dependency of the program")]);
    };
    let mut found: BTreeMap<&str, Facts> = BTreeMap::new();
    for ((name, _), package) in program.packages.iter().filter(|(_, package)| !package.is_ours) {
        let facts = found.entry(name).or_default();
        facts.is_linked |= package.is_linked;
        facts.facts.extend(facts_of(package).map_err(|e| format!("sources of {name}: {e}"))?);
    }
    found.retain(|_, facts| !facts.facts.is_empty());
    Ok(compare(page, &found))
}

/// Returns those of [`FACTS`] that hold of a package.
fn facts_of(package: &Package) -> std::io::Result<Vec<String>> {
    let holds = [has_unsafe(&package.folder, true)?, package.has_build_script, package.is_macro];
    Ok(FACTS.iter().zip(holds).filter(|(_, holds)| *holds).map(|(fact, _)| (*fact).to_owned()).collect())
}

/// Whether a Rust file below `folder` has the keyword.
fn has_unsafe(folder: &Path, is_root: bool) -> std::io::Result<bool> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() {
            if !is_root || !OTHER_SOURCES.iter().any(|other| name == *other) {
                folders.push(path);
            }
        } else if path.extension().is_some_and(|e| e == "rs") && says_unsafe(&std::fs::read(&path)?) {
            return Ok(true);
        }
    }
    for folder in folders {
        if has_unsafe(&folder, false)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the word is in a source outside comments to the end of a line.
fn says_unsafe(source: &[u8]) -> bool {
    let is_word = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    memchr::memmem::find_iter(source, b"unsafe").any(|at| {
        let line = source[..at].iter().rposition(|&b| b == b'\n').map_or(0, |newline| newline + 1);
        let is_alone = !is_word(source[..at].last()) && !is_word(source.get(at + "unsafe".len()));
        is_alone && memchr::memmem::find(&source[line..at], b"//").is_none()
    })
}

/// Returns the rows of the page, and faults of rows that cannot be read.
fn rows(page: &str) -> (Vec<Row<'_>>, Vec<Fault>) {
    let (mut rows, mut faults, mut section) = (Vec::new(), Vec::new(), None);
    for (line, text) in page.lines().enumerate() {
        if text.starts_with("## ") {
            section = SECTIONS.iter().position(|section| *section == text);
        }
        let (Some(section), Some(row)) = (section, text.strip_prefix("| `")) else { continue };
        let cells: Vec<&str> = row.trim_end().trim_end_matches('|').split(" | ").map(str::trim).collect();
        let [names, facts, what, why] = cells[..] else {
            faults.push(Fault::new(PATH, line + 1, "write `| package | facts | what for | why accepted |`"));
            continue;
        };
        if what.is_empty() || why.is_empty() {
            faults.push(Fault::new(PATH, line + 1, "say what it is for, and why what it has is accepted"));
        }
        let names = names.split(", ").map(|name| name.trim_matches('`')).collect();
        let facts = facts.split(", ").map(str::to_owned).collect();
        rows.push(Row { line: line + 1, names, facts: Facts { is_linked: section == 0, facts } });
    }
    (rows, faults)
}

fn compare(page: &str, found: &BTreeMap<&str, Facts>) -> Vec<Fault> {
    let (rows, mut faults) = rows(page);
    let mut seen = BTreeSet::new();
    for Row { line, names, facts: row } in rows {
        for name in names {
            let Some(facts) = found.get(name) else {
                let text = format!(
                    "`{name}` is no dependency of the program, or has no unsafe code, build script or macro; \
                     take it out"
                );
                faults.push(Fault::new(PATH, line, text));
                continue;
            };
            if !seen.insert(name) {
                faults.push(Fault::new(PATH, line, format!("`{name}` has two rows; keep one")));
            }
            if *facts != row {
                let has = facts.facts.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                let text = format!(
                    "`{name}` has: {has}, and belongs under `{}`; look at what changed, and say here why it \
                     is accepted",
                    SECTIONS[usize::from(!facts.is_linked)]
                );
                faults.push(Fault::new(PATH, line, text));
            }
        }
    }
    for (name, facts) in found.iter().filter(|(name, _)| !seen.contains(*name)) {
        let has = facts.facts.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let text = format!(
            "`{name}` has no row, and has: {has}; add one under `{}` that says what it is for and why that \
             is accepted",
            SECTIONS[usize::from(!facts.is_linked)]
        );
        faults.push(Fault::new(PATH, 1, text));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Dependencies\n\n| `other` | x |\n\n## In the program\n\n| package | has | for | why |\n\
        |---|---|---|---|\n| `memchr` | unsafe | search | tested |\n| `a`, `b` | build script, unsafe | x | y |\n\n\
        ## In the build only\n\n| `derive` | macro | x | y |\n";

    fn facts(is_linked: bool, facts: &[&str]) -> Facts {
        Facts { is_linked, facts: facts.iter().map(|fact| (*fact).to_owned()).collect() }
    }

    fn found() -> BTreeMap<&'static str, Facts> {
        [
            ("memchr", facts(true, &["unsafe"])),
            ("a", facts(true, &["unsafe", "build script"])),
            ("b", facts(true, &["unsafe", "build script"])),
            ("derive", facts(false, &["macro"])),
        ]
        .into()
    }

    #[test]
    fn a_page_with_all_rows_has_no_fault() {
        assert_eq!(compare(PAGE, &found()), []);
    }

    #[test]
    fn a_new_dependency_is_a_fault() {
        let mut found = found();
        found.insert("new", facts(true, &["build script"]));
        let faults = compare(PAGE, &found);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].text.contains("`new` has no row, and has: build script; add one"), "{}", faults[0]);
    }

    #[test]
    fn a_dependency_that_gains_a_build_script_is_a_fault() {
        let mut found = found();
        found.insert("memchr", facts(true, &["unsafe", "build script"]));
        let faults = compare(PAGE, &found);
        assert_eq!((faults.len(), faults[0].line), (1, 9));
        assert!(faults[0].text.contains("`memchr` has: build script, unsafe"), "{}", faults[0]);
    }

    #[test]
    fn a_dependency_that_comes_into_the_program_is_a_fault() {
        let mut found = found();
        found.insert("derive", facts(true, &["macro"]));
        assert_eq!(compare(PAGE, &found).len(), 1);
    }

    #[test]
    fn rows_that_are_not_needed_or_say_nothing_are_faults() {
        let mut found = found();
        found.remove("b");
        assert_eq!(compare(PAGE, &found).len(), 1);
        let silent = PAGE.replace("| search | tested |", "| search |  |");
        assert_eq!(compare(&silent, &self::found()).len(), 1);
        let twice = PAGE.replace("`a`, `b`", "`a`, `b`, `b`");
        assert_eq!(compare(&twice, &self::found()).len(), 1);
    }

    #[test]
    fn the_keyword_is_found_in_code_only() {
        for code in ["unsafe { }", "x;unsafe fn f()", "//! a\nfn f() { unsafe { } }"] {
            assert!(says_unsafe(code.as_bytes()), "{code}");
        }
        for other in ["#![forbid(unsafe_code)]", "// unsafe", "let x = 1; // unsafe", "is_unsafe()", ""] {
            assert!(!says_unsafe(other.as_bytes()), "{other}");
        }
    }
}
