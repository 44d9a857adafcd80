//! The code map is whole: docs/ARCHITECTURE.md names the folder of every crate.

use super::Fault;
use super::edges::Metadata;
use crate::tree::Tree;

const PATH: &str = "docs/ARCHITECTURE.md";

/// Faults of crates that the map leaves out.
pub(crate) fn check(metadata: &Metadata, tree: &Tree) -> Vec<Fault> {
    let text = tree.file(PATH).and_then(|f| f.text()).unwrap_or_default();
    metadata
        .packages
        .iter()
        .map(|package| package.manifest.trim_end_matches("/Cargo.toml"))
        .filter(|folder| !text.contains(&format!("`{folder}`")))
        .map(|folder| {
            Fault::new(
                PATH,
                1,
                format!("the code map leaves out `{folder}`; add a line that says what lives there"),
            )
        })
        .collect()
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
}
