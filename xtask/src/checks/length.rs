//! Ratchets on the length of files and functions outside tests. Longer ones are in the table of exceptions
//! with their exact length, so that they can only shrink.

use super::Fault;
use crate::exceptions::{self, Exceptions, line_of};
use crate::tree::Tree;

/// Maximum lines of a file, tests excluded.
const FILE_LIMIT: usize = 900;
/// Maximum lines of a function, from signature to closing brace.
const FUNCTION_LIMIT: usize = 70;

/// Reports files and functions above the limit, and entries that are no longer true.
pub(crate) fn check(tree: &Tree, exceptions: &Exceptions) -> Vec<Fault> {
    let table = tree.file(exceptions::PATH).and_then(|f| f.text()).unwrap_or_default();
    let mut faults = Vec::new();
    let mut used = vec![false; exceptions.long_file.len()];
    let mut used_functions = vec![false; exceptions.long_function.len()];
    for source in tree.sources.iter().filter(|s| !s.test_file) {
        if source.code_lines > FILE_LIMIT {
            let entry = exceptions.long_file.iter().position(|e| e.path == source.path);
            let granted = entry.map(|i| {
                used[i] = true;
                exceptions.long_file[i].lines
            });
            let what = format!("file has {} lines outside tests", source.code_lines);
            faults.extend(judge(
                &source.path,
                1,
                &what,
                source.code_lines,
                granted,
                FILE_LIMIT,
                "split it by topic",
            ));
        }
        for function in source.functions.iter().filter(|f| f.lines > FUNCTION_LIMIT) {
            // Two functions of the same name, for example in two traits, each need an entry.
            let entry = (0..exceptions.long_function.len()).find(|&i| {
                let e = &exceptions.long_function[i];
                !used_functions[i] && e.path == source.path && e.name == function.name
            });
            let granted = entry.map(|i| {
                used_functions[i] = true;
                exceptions.long_function[i].lines
            });
            let what = format!("function `{}` has {} lines", function.name, function.lines);
            let how = "split it into steps that have names";
            faults.extend(judge(
                &source.path,
                function.line,
                &what,
                function.lines,
                granted,
                FUNCTION_LIMIT,
                how,
            ));
        }
    }
    let stale = "is within the limit or gone; delete its entry";
    for (entry, _) in exceptions.long_file.iter().zip(used).filter(|(_, used)| !used) {
        let line = line_of(table, &entry.path);
        faults.push(Fault::new(exceptions::PATH, line, format!("file {} {stale}", entry.path)));
    }
    for (entry, _) in exceptions.long_function.iter().zip(used_functions).filter(|(_, used)| !used) {
        let line = line_of(table, &format!("\"{}\"", entry.name));
        faults.push(Fault::new(
            exceptions::PATH,
            line,
            format!("function {} of {} {stale}", entry.name, entry.path),
        ));
    }
    faults
}

fn judge(
    path: &str,
    line: usize,
    what: &str,
    lines: usize,
    granted: Option<usize>,
    limit: usize,
    how: &str,
) -> Option<Fault> {
    match granted {
        Some(granted) if granted == lines => None,
        Some(granted) if lines < granted => Some(Fault::new(
            path,
            line,
            format!("{what}, fewer than the {granted} in {}; lower the entry", exceptions::PATH),
        )),
        Some(granted) => Some(Fault::new(
            path,
            line,
            format!("{what} and may have {granted} ({}); {how}", exceptions::PATH),
        )),
        None => Some(Fault::new(path, line, format!("{what}, more than {limit}; {how}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(lines: usize) -> String {
        format!("//! x\nfn f() {{\n{}}}\n", "    a();\n".repeat(lines - 2))
    }

    fn faults(text: &str, table: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/x/src/lib.rs", text), (exceptions::PATH, table)]);
        let exceptions = Exceptions::parse(table).expect("the table reads");
        check(&tree, &exceptions).into_iter().map(|f| f.to_string()).collect()
    }

    fn entry(lines: usize) -> String {
        format!("[[long-function]]\npath = \"crates/x/src/lib.rs\"\nname = \"f\"\nlines = {lines}\n")
    }

    #[test]
    fn the_limit_itself_is_allowed() {
        assert!(faults(&function(70), "").is_empty());
        assert_eq!(faults(&function(71), "").len(), 1);
    }

    #[test]
    fn an_entry_is_exact() {
        assert!(faults(&function(80), &entry(80)).is_empty());
        assert!(faults(&function(81), &entry(80))[0].contains("may have 80"));
        assert!(faults(&function(79), &entry(80))[0].contains("lower the entry"));
        let stale = faults(&function(70), &entry(80));
        assert!(stale[0].starts_with("xtask/exceptions.toml:3:") && stale[0].contains("delete its entry"));
    }

    #[test]
    fn tests_do_not_count_towards_a_file() {
        let code = "const A: u8 = 1;\n".repeat(900);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    const A: u8 = 1;\n".repeat(50));
        assert!(faults(&format!("{code}{tests}"), "").is_empty());
        assert_eq!(faults(&format!("{code}const B: u8 = 1;\n{tests}"), "").len(), 1);
    }
}
