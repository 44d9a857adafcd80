//! Which crate may depend on which: the arrows between the rooms and the outside crates each may use.
//! Read from `cargo metadata`; dev-dependencies are the tests' own affair and are not checked.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::Fault;
use crate::exceptions::line_of;
use crate::tree::Tree;

/// What one room may depend on.
struct Room {
    /// The package's name.
    name: &'static str,
    /// Rooms it may use.
    ours: &'static [&'static str],
    /// Outside crates it may use.
    theirs: Outside,
}

/// Outside crates a room may use.
enum Outside {
    /// These and no other.
    Only(&'static [&'static str]),
    /// Any of the workspace's table: the room has nothing to keep out.
    Any,
}

use Outside::{Any, Only};

/// The arrows. A crate that is not here may not exist: adding a room is a decision.
const ROOMS: &[Room] = &[
    Room { name: "wire", ours: &[], theirs: Only(&[]) },
    // libc: requests for huge and for small pages.
    Room { name: "prefetch", ours: &[], theirs: Only(&["libc"]) },
    Room { name: "exchange", ours: &[], theirs: Only(&[]) },
    Room { name: "dnssec", ours: &["wire"], theirs: Only(&["aws-lc-rs"]) },
    Room {
        name: "zone",
        ours: &["wire", "prefetch"],
        // aws-lc-rs: SHA-384 and SHA-512 of a whole zone (ZONEMD).
        theirs: Only(&["memchr", "arc-swap", "bytes", "libc", "memmap2", "xxhash-rust", "aws-lc-rs"]),
    },
    Room { name: "journal", ours: &["wire", "zone"], theirs: Only(&["libc", "xxhash-rust"]) },
    Room { name: "authority", ours: &["wire", "zone", "dnssec"], theirs: Only(&[]) },
    Room { name: "cache", ours: &["wire", "prefetch"], theirs: Only(&["bytemuck"]) },
    Room { name: "resolver", ours: &["wire", "exchange", "cache", "dnssec"], theirs: Only(&["chacha20"]) },
    Room { name: "policy", ours: &["wire", "zone"], theirs: Only(&[]) },
    Room { name: "transfer", ours: &["wire", "exchange", "zone", "dnssec"], theirs: Only(&["aws-lc-rs"]) },
    Room { name: "update", ours: &["wire", "zone"], theirs: Only(&[]) },
    Room { name: "migrate", ours: &["wire"], theirs: Only(&[]) },
    Room { name: "signer", ours: &["wire", "zone", "dnssec"], theirs: Only(&[]) },
    Room {
        name: "engine",
        ours: &[
            "wire",
            "exchange",
            "dnssec",
            "zone",
            "authority",
            "cache",
            "resolver",
            "policy",
            "transfer",
            "signer",
        ],
        theirs: Only(&["arc-swap"]),
    },
    Room {
        name: "recursion",
        ours: &["wire", "exchange", "dnssec", "cache", "resolver", "engine"],
        theirs: Only(&["arc-swap"]),
    },
    Room { name: "dnstap", ours: &[], theirs: Only(&["prost"]) },
    Room {
        name: "net",
        ours: &["exchange"],
        theirs: Only(&["getrandom", "libc", "mio", "socket2", "tokio"]),
    },
    Room {
        name: "nomen",
        ours: &[
            "wire",
            "exchange",
            "dnssec",
            "zone",
            "authority",
            "cache",
            "resolver",
            "policy",
            "journal",
            "migrate",
            "transfer",
            "update",
            "signer",
            "engine",
            "recursion",
            "dnstap",
            "net",
            "prefetch",
        ],
        theirs: Any,
    },
    Room { name: "testkit", ours: &["wire", "dnssec", "zone", "journal"], theirs: Any },
    Room { name: "conformance", ours: &["wire", "zone", "testkit"], theirs: Any },
    Room { name: "nomen-compare", ours: &["wire", "exchange", "zone", "testkit", "net"], theirs: Any },
    Room {
        name: "nomen-pieces",
        ours: &["wire", "exchange", "zone", "authority", "engine", "testkit"],
        theirs: Any,
    },
    Room { name: "xtask", ours: &[], theirs: Any },
];

/// What `cargo metadata --no-deps` reports of the workspace, as far as the checks need it.
pub(crate) struct Metadata {
    /// The workspace's packages.
    pub(crate) packages: Vec<Package>,
}

/// One package of the workspace.
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its manifest, from the repository root.
    pub(crate) manifest: String,
    /// Normal and build dependencies, by package name.
    pub(crate) dependencies: Vec<String>,
    /// Root files of its libraries and programs, from the repository root.
    pub(crate) roots: Vec<String>,
}

/// Asks cargo about the workspace at `root`.
pub(crate) fn metadata(root: &Path) -> Result<Metadata, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cannot run cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let value: Value = serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    Metadata::of(&value, root).ok_or_else(|| "cargo metadata has a shape this check does not know".to_owned())
}

impl Metadata {
    fn of(value: &Value, root: &Path) -> Option<Metadata> {
        let relative = |path: &Value| -> Option<String> {
            let path = Path::new(path.as_str()?);
            Some(path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned())
        };
        let mut packages = Vec::new();
        for package in value["packages"].as_array()? {
            let dependencies = package["dependencies"]
                .as_array()?
                .iter()
                .filter(|d| d["kind"].as_str() != Some("dev"))
                .filter_map(|d| d["name"].as_str().map(str::to_owned))
                .collect();
            // Tests, benches and examples are roots too, but no part of any program.
            let program = |target: &&Value| {
                let kinds = target["kind"].as_array().into_iter().flatten();
                kinds.filter_map(Value::as_str).any(|kind| kind == "bin" || kind.contains("lib"))
            };
            let targets = package["targets"].as_array()?.iter();
            let roots = targets.filter(program).filter_map(|t| relative(&t["src_path"])).collect();
            packages.push(Package {
                name: package["name"].as_str()?.to_owned(),
                manifest: relative(&package["manifest_path"])?,
                dependencies,
                roots,
            });
        }
        Some(Metadata { packages })
    }
}

/// Faults of packages without a row in the table, and of dependencies their row does not allow.
pub(crate) fn check(metadata: &Metadata, tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for package in &metadata.packages {
        let manifest = tree.file(&package.manifest).and_then(|f| f.text()).unwrap_or_default();
        let Some(room) = ROOMS.iter().find(|r| r.name == package.name) else {
            let text = format!(
                "crate `{}` has no row in the table of rooms; decide its arrows in xtask/src/checks/edges.rs and docs/ARCHITECTURE.md",
                package.name
            );
            faults.push(Fault::new(&package.manifest, 1, text));
            continue;
        };
        for dependency in &package.dependencies {
            if let Err(why) = allowed(room, dependency) {
                faults.push(Fault::new(&package.manifest, line_of(manifest, dependency), why));
            }
        }
    }
    faults
}

fn allowed(room: &Room, dependency: &str) -> Result<(), String> {
    if ROOMS.iter().any(|r| r.name == dependency) {
        if room.ours.contains(&dependency) {
            return Ok(());
        }
        return Err(format!(
            "`{}` may not depend on `{dependency}`: arrows go one way only (docs/ARCHITECTURE.md); move the code or pass the value in",
            room.name
        ));
    }
    match room.theirs {
        Any => Ok(()),
        Only(list) if list.contains(&dependency) => Ok(()),
        Only(_) => Err(format!(
            "`{}` may not use the outside crate `{dependency}`; do without, or decide it in xtask/src/checks/edges.rs",
            room.name
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[&str]) -> Metadata {
        let dependencies = dependencies.iter().map(|d| (*d).to_owned()).collect();
        let manifest = format!("crates/{name}/Cargo.toml");
        Metadata {
            packages: vec![Package { name: name.to_owned(), manifest, dependencies, roots: Vec::new() }],
        }
    }

    fn faults(name: &str, dependencies: &[&str]) -> usize {
        check(&package(name, dependencies), &Tree::of(&[])).len()
    }

    #[test]
    fn the_arrows_hold() {
        assert_eq!(faults("authority", &["wire", "zone", "dnssec"]), 0);
        assert_eq!(faults("wire", &["memchr"]), 1);
        assert_eq!(faults("zone", &["authority"]), 1);
        assert_eq!(faults("engine", &["net"]), 1);
        assert_eq!(faults("net", &["engine", "wire", "libc"]), 2);
        assert_eq!(faults("authority", &["serde"]), 1);
        assert_eq!(faults("nomen", &["net", "engine", "serde", "clap"]), 0);
        assert_eq!(faults("nomen", &["testkit"]), 1);
    }

    #[test]
    fn an_unknown_room_is_a_fault() {
        assert_eq!(faults("utils", &[]), 1);
    }

    #[test]
    fn a_fault_points_at_the_manifests_line() {
        let tree =
            Tree::of(&[("crates/wire/Cargo.toml", "[package]\n\n[dependencies]\nserde.workspace = true\n")]);
        let fault = check(&package("wire", &["serde"]), &tree).remove(0);
        assert_eq!((fault.path.as_str(), fault.line), ("crates/wire/Cargo.toml", 4));
    }

    /// No chain of allowed arrows leads from a room to itself, nor between `engine` and `net`.
    #[test]
    fn the_table_has_no_way_round() {
        fn reach(from: &str, seen: &mut Vec<&'static str>) {
            let room = ROOMS.iter().find(|r| r.name == from).expect("arrows name rooms of the table");
            for next in room.ours {
                if !seen.contains(next) {
                    seen.push(next);
                    reach(next, seen);
                }
            }
        }
        for room in ROOMS {
            let mut seen = Vec::new();
            reach(room.name, &mut seen);
            assert!(!seen.contains(&room.name), "{} reaches itself", room.name);
            assert!(room.name != "engine" || !seen.contains(&"net"));
            assert!(room.name != "net" || seen.iter().all(|seen| *seen == "exchange"));
        }
    }

    #[test]
    fn metadata_leaves_dev_dependencies_out() {
        let value = serde_json::json!({"packages": [{
            "name": "wire", "manifest_path": "/r/crates/wire/Cargo.toml",
            "targets": [
                {"kind": ["lib"], "src_path": "/r/crates/wire/src/lib.rs"},
                {"kind": ["test"], "src_path": "/r/crates/wire/tests/all.rs"},
            ],
            "dependencies": [{"name": "proptest", "kind": "dev"}, {"name": "cc", "kind": "build"}, {"name": "zone", "kind": null}],
        }]});
        let read = Metadata::of(&value, Path::new("/r")).expect("the shape is cargo's");
        assert_eq!(read.packages[0].dependencies, ["cc", "zone"]);
        assert_eq!(read.packages[0].roots, ["crates/wire/src/lib.rs"]);
    }
}
