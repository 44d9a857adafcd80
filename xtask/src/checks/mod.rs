//! The checks, one file each, and their order. Also defines a fault.

mod changelog;
mod circles;
mod dependencies;
mod edges;
mod header;
mod length;
mod links;
mod map;
mod names;
mod panics;
mod places;
mod threads;
mod unsafety;
mod width;
mod words;

use std::fmt;
use std::path::Path;

use crate::exceptions::{self, Exceptions};
use crate::program::Program;
use crate::tree::Tree;

/// One thing to fix.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    /// Path from the repository root.
    pub(crate) path: String,
    /// Line, counted from 1.
    pub(crate) line: usize,
    /// What is wrong and how to fix it.
    pub(crate) text: String,
}

impl Fault {
    fn new(path: &str, line: usize, text: impl Into<String>) -> Fault {
        Fault { path: path.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

/// Runs every check on the checkout at `root`; an error means that the checks could not be run.
pub(crate) fn run(root: &Path) -> Result<Vec<Fault>, String> {
    let tree = Tree::read(root)?;
    let table = tree.file(exceptions::PATH).and_then(|f| f.text()).unwrap_or_default();
    let exceptions = Exceptions::parse(table)?;
    let metadata = edges::metadata(root)?;

    let mut faults: Vec<Fault> = tree
        .unparsed
        .iter()
        .map(|(path, line, why)| Fault::new(path, *line, format!("does not parse: {why}")))
        .collect();
    faults.extend(header::check(&tree));
    faults.extend(circles::check(&tree));
    faults.extend(edges::check(&metadata, &tree));
    faults.extend(unsafety::check(&tree, &metadata));
    faults.extend(length::check(&tree, &exceptions));
    faults.extend(panics::check(&tree, &exceptions));
    faults.extend(width::check(&tree));
    faults.extend(words::check(&tree));
    faults.extend(links::check(&tree));
    faults.extend(map::check(&metadata, &tree));
    faults.extend(names::check(&tree));
    faults.extend(threads::check(&tree));
    faults.extend(places::check(&tree, root));
    faults.extend(changelog::check(&tree));
    faults.extend(dependencies::check(&tree, &Program::read(root)?)?);
    faults.sort();
    faults.dedup();
    Ok(faults)
}
