//! The packages that the program `nomen` consists of and is built with, from `cargo tree` and `cargo
//! metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The platform that is looked at on every machine, so that results are the same on each.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// The packages, by name and version.
pub(crate) struct Program {
    /// Every package of the program and of its build.
    pub(crate) packages: BTreeMap<Key, Package>,
}

/// Name and version.
pub(crate) type Key = (String, String);

/// A package.
pub(crate) struct Package {
    /// Whether it is linked into the program; others only run while it is built.
    pub(crate) is_linked: bool,
    /// Whether it is one of the workspace.
    pub(crate) is_ours: bool,
    /// Whether it has a build script.
    pub(crate) has_build_script: bool,
    /// Whether it is a procedural macro.
    pub(crate) is_macro: bool,
    /// The folder of its sources.
    pub(crate) folder: PathBuf,
    /// The licence, an SPDX expression.
    pub(crate) licence: String,
    /// SHA-256 of its archive in the registry, from `Cargo.lock`.
    pub(crate) checksum: Option<String>,
    /// The packages that it uses.
    pub(crate) uses: BTreeSet<Key>,
}

impl Program {
    /// Reads the packages of the workspace at `root`. The sources of all packages are on disk afterwards.
    pub(crate) fn read(root: &Path) -> Result<Program, String> {
        let linked = keys(&tree(root, "normal,no-proc-macro")?);
        let built = keys(&tree(root, "normal,build")?);
        let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", PLATFORM];
        let metadata = cargo(root, &arguments)?;
        let metadata = serde_json::from_slice(&metadata).map_err(|e| format!("cargo metadata: {e}"))?;
        let lock =
            std::fs::read_to_string(root.join("Cargo.lock")).map_err(|e| format!("Cargo.lock: {e}"))?;
        Program::of(&linked, &built, &metadata, &checksums(&lock)?)
            .ok_or_else(|| "cargo metadata has a shape this command does not know".to_owned())
    }

    fn of(
        linked: &BTreeSet<Key>,
        built: &BTreeSet<Key>,
        metadata: &Value,
        checksums: &BTreeMap<Key, String>,
    ) -> Option<Program> {
        let mut packages = BTreeMap::new();
        let mut by_id = BTreeMap::new();
        for package in metadata["packages"].as_array()? {
            let key = (package["name"].as_str()?.to_owned(), package["version"].as_str()?.to_owned());
            by_id.insert(package["id"].as_str()?, key.clone());
            if !linked.contains(&key) && !built.contains(&key) {
                continue;
            }
            let has = |kind: &str| {
                let mut targets = package["targets"].as_array().into_iter().flatten();
                targets.any(|t| t["kind"].as_array().is_some_and(|k| k.iter().any(|k| k == kind)))
            };
            let package = Package {
                is_linked: linked.contains(&key),
                is_ours: package["source"].is_null(),
                has_build_script: has("custom-build"),
                is_macro: has("proc-macro"),
                folder: Path::new(package["manifest_path"].as_str()?).parent()?.to_owned(),
                // Some old manifests separate licences by a slash.
                licence: package["license"].as_str().unwrap_or_default().replace('/', " OR "),
                checksum: checksums.get(&key).cloned(),
                uses: BTreeSet::new(),
            };
            packages.insert(key, package);
        }
        for node in metadata["resolve"]["nodes"].as_array()? {
            let Some(user) = by_id.get(node["id"].as_str()?) else { continue };
            let used: BTreeSet<Key> =
                node["deps"].as_array()?.iter().filter_map(|d| used(d, &by_id)).collect();
            let used = used.into_iter().filter(|key| packages.contains_key(key)).collect();
            if let Some(package) = packages.get_mut(user) {
                package.uses = used;
            }
        }
        Some(Program { packages })
    }
}

/// Returns the package that a dependency resolves to, unless only tests use it.
fn used(dependency: &Value, by_id: &BTreeMap<&str, Key>) -> Option<Key> {
    let mut kinds = dependency["dep_kinds"].as_array()?.iter();
    kinds.any(|kind| kind["kind"] != "dev").then(|| by_id.get(dependency["pkg"].as_str()?).cloned())?
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<Vec<u8>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let output = Command::new(cargo).args(arguments).current_dir(root).output();
    let output = output.map_err(|e| format!("cannot run cargo: {e}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(format!("cargo {} failed: {why}", arguments[0]));
    }
    Ok(output.stdout)
}

/// Runs `cargo tree`, which selects features as a build of `nomen` does; `cargo metadata` selects those of
/// the workspace.
fn tree(root: &Path, edges: &str) -> Result<String, String> {
    let arguments = ["tree", "--package", "nomen", "--edges", edges, "--target", PLATFORM];
    let output =
        cargo(root, &[&arguments[..], &["--locked", "--prefix", "none", "--format", "{p}"]].concat())?;
    String::from_utf8(output).map_err(|e| format!("cargo tree: {e}"))
}

/// Returns the packages of `cargo tree`, of lines such as `memchr v2.8.3 (*)`.
fn keys(tree: &str) -> BTreeSet<Key> {
    let key = |line: &str| {
        let mut words = line.split(' ');
        Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
    };
    tree.lines().filter_map(key).collect()
}

/// Returns the checksums that `Cargo.lock` has.
fn checksums(lock: &str) -> Result<BTreeMap<Key, String>, String> {
    let lock: toml::Table = toml::from_str(lock).map_err(|e| format!("Cargo.lock: {e}"))?;
    let packages = lock.get("package").and_then(|p| p.as_array()).into_iter().flatten();
    let text = |package: &toml::Value, key| Some(package.get(key)?.as_str()?.to_owned());
    let entry =
        |package| Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?));
    Ok(packages.filter_map(entry).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(name: &str) -> Key {
        (name.to_owned(), "1.0.0".to_owned())
    }

    #[test]
    fn lines_of_cargo_tree_are_packages() {
        let found = keys("nomen v1.0.0 (/src/nomen)\nserde v1.0.0 (*)\n\nderive v1.0.0 (proc-macro) (*)\n");
        assert_eq!(found, ["nomen", "serde", "derive"].map(key).into());
    }

    #[test]
    fn packages_have_what_they_use_and_what_runs_in_the_build() {
        let target = |kind: &str| json!([{"kind": [kind]}]);
        let package = |name: &str, kind, source: Value| {
            json!({"name": name, "version": "1.0.0", "id": name, "targets": target(kind), "source": source,
                   "manifest_path": format!("/src/{name}/Cargo.toml"), "license": "MIT/ISC"})
        };
        let uses = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [
                package("nomen", "bin", Value::Null),
                package("sys", "custom-build", "registry".into()),
                package("derive", "proc-macro", "registry".into()),
                package("proptest", "lib", "registry".into()),
            ],
            "resolve": {"nodes": [
                {"id": "nomen", "deps": [uses("sys", Value::Null), uses("proptest", "dev".into())]},
                {"id": "sys", "deps": [uses("derive", Value::Null), uses("nomen", "dev".into())]},
                {"id": "derive", "deps": []},
                {"id": "proptest", "deps": []},
            ]},
        });
        let linked = ["nomen", "sys"].map(key).into();
        let built = ["nomen", "sys", "derive"].map(key).into();
        let checksums =
            checksums("[[package]]\nname = \"sys\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\n").expect("read");
        let program = Program::of(&linked, &built, &metadata, &checksums).expect("the shape is cargo's");
        assert_eq!(program.packages.keys().cloned().collect::<BTreeSet<_>>(), built);
        let (nomen, sys) = (&program.packages[&key("nomen")], &program.packages[&key("sys")]);
        assert_eq!((&nomen.uses, &sys.uses), (&[key("sys")].into(), &[key("derive")].into()));
        assert!(nomen.is_ours && !sys.is_ours && sys.has_build_script && !sys.is_macro);
        assert!(program.packages[&key("derive")].is_macro && !program.packages[&key("derive")].is_linked);
        assert_eq!((sys.checksum.as_deref(), sys.licence.as_str()), (Some("ab"), "MIT OR ISC"));
    }
}
