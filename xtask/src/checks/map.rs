//! The code map is complete, true and short: docs/ARCHITECTURE.md names the folder of every crate and the
//! workspace crates that it uses.

use std::collections::BTreeSet;

use super::Fault;
use super::edges::Metadata;
use crate::tree::Tree;

/// The map.
pub(crate) const PATH: &str = "docs/ARCHITECTURE.md";
/// Maximum lines of the map. Details of a module belong into its own documentation.
const MAX_LINES: usize = 200;

/// Reports crates that the map leaves out, and a map that is too long.
pub(crate) fn check(metadata: &Metadata, tree: &Tree) -> Vec<Fault> {
    let text = tree.file(PATH).and_then(|f| f.text()).unwrap_or_default();
    let folders = metadata.packages.iter().map(|package| package.manifest.trim_end_matches("/Cargo.toml"));
    let missing = folders.filter(|folder| !text.contains(&format!("`{folder}`"))).map(|folder| {
        let text = format!("the code map leaves out `{folder}`; add a line that says what lives there");
        Fault::new(PATH, 1, text)
    });
    let lines = text.lines().count();
    let long = (lines > MAX_LINES).then(|| {
        let text =
            format!("has {lines} lines, more than {MAX_LINES}; move what is about one module into its `//!`");
        Fault::new(PATH, MAX_LINES + 1, text)
    });
    missing.chain(long).chain(wrong_uses(metadata, text)).collect()
}

/// Reports rows whose last cell is a list of crates, or `–` for none, that differs from the crates in use.
fn wrong_uses<'m>(metadata: &'m Metadata, text: &'m str) -> impl Iterator<Item = Fault> + 'm {
    let is_ours = |name: &str| metadata.packages.iter().any(|package| package.name == name);
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let [_, folder, _, listed, _] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            return None;
        };
        let of_folder = |manifest: &str| format!("`{}`", manifest.trim_end_matches("/Cargo.toml")) == folder;
        let package = metadata.packages.iter().find(|package| of_folder(&package.manifest))?;
        let listed: BTreeSet<&str> = listed.split_whitespace().filter(|name| *name != "–").collect();
        if listed.iter().any(|name| !is_ours(name)) {
            // Words, such as "all of the above".
            return None;
        }
        let used = package.dependencies.iter().map(String::as_str).filter(|name| is_ours(name));
        let used: BTreeSet<&str> = used.collect();
        (listed != used).then(|| {
            let used = used.into_iter().collect::<Vec<_>>().join(" ");
            Fault::new(PATH, number, format!("{folder} uses these crates of ours: {used}; correct the row"))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::edges::Package;
    use super::*;

    #[test]
    fn a_crate_that_the_map_leaves_out_is_a_fault() {
        let package = |name: &str| Package {
            name: name.to_owned(),
            manifest: format!("crates/{name}/Cargo.toml"),
            dependencies: Vec::new(),
            roots: Vec::new(),
        };
        let metadata = Metadata { packages: vec![package("wire"), package("zone")] };
        let faults = check(&metadata, &Tree::of(&[(PATH, "| `crates/wire` | names |\n")]));
        assert_eq!(faults.len(), 1);
        assert!(faults[0].text.contains("crates/zone"));
    }

    #[test]
    fn a_row_has_the_crates_that_are_used() {
        let package = |name: &str, uses: &[&str]| Package {
            name: name.to_owned(),
            manifest: format!("crates/{name}/Cargo.toml"),
            dependencies: uses.iter().map(|name| (*name).to_owned()).collect(),
            roots: Vec::new(),
        };
        let faults = |wire: &str, zone: &str| {
            let text = format!("| `crates/wire` | names | {wire} |\n| `crates/zone` | zones | {zone} |\n");
            let packages = vec![package("wire", &[]), package("zone", &["libc", "wire"])];
            let metadata = Metadata { packages };
            check(&metadata, &Tree::of(&[(PATH, &text)])).iter().map(|fault| fault.line).collect::<Vec<_>>()
        };
        assert!(faults("–", "wire").is_empty());
        assert!(faults("–", "all of the above").is_empty());
        assert_eq!(faults("–", "–"), [2]);
        assert_eq!(faults("zone", "wire"), [1]);
    }

    #[test]
    fn a_long_map_is_a_fault() {
        let faults = |lines| {
            let metadata = Metadata { packages: Vec::new() };
            let found = check(&metadata, &Tree::of(&[(PATH, &"line\n".repeat(lines))]));
            found.iter().map(|fault| fault.line).collect::<Vec<_>>()
        };
        assert!(faults(MAX_LINES).is_empty());
        assert_eq!(faults(MAX_LINES + 1), [MAX_LINES + 1]);
    }
}
