//! The allowed dependencies of each crate: crates of the workspace and outside crates. Read from `cargo
//! metadata`; dev-dependencies are not checked. An unused entry is a fault, too, so that the table shows the
//! real dependencies.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::Fault;
use crate::exceptions::line_of;
use crate::tree::Tree;

/// The dependencies of one crate.
struct Row {
    /// Name of the package.
    name: &'static str,
    /// Workspace crates that it uses.
    ours: &'static [&'static str],
    /// Outside crates that it may use.
    theirs: Outside,
}

/// Outside crates that a crate may use.
enum Outside {
    /// Only these.
    Only(&'static [&'static str]),
    /// Any in the workspace's table.
    Any,
}

use Outside::{Any, Only};

/// One row per crate. A crate without a row is a fault: its dependencies must be decided first.
const ROWS: &[Row] = &[
    Row { name: "wire", ours: &[], theirs: Only(&[]) },
    // libc: requests for huge and for small pages.
    Row { name: "prefetch", ours: &[], theirs: Only(&["libc"]) },
    Row { name: "transport", ours: &["wire"], theirs: Only(&[]) },
    Row { name: "dnssec", ours: &["wire"], theirs: Only(&["aws-lc-rs"]) },
    Row { name: "validator", ours: &["wire", "dnssec"], theirs: Only(&[]) },
    Row {
        name: "zone",
        ours: &["wire", "prefetch"],
        // aws-lc-rs: SHA-384 and SHA-512 of a whole zone (ZONEMD).
        theirs: Only(&["memchr", "bytes", "libc", "memmap2", "xxhash-rust", "aws-lc-rs"]),
    },
    Row {
        name: "signer",
        ours: &["wire", "dnssec", "zone", "wording"],
        // zeroize: text and numbers of private keys.
        theirs: Only(&["aws-lc-rs", "zeroize"]),
    },
    // Patterns of block lists: wildcards and regular expressions.
    Row {
        name: "policy",
        ours: &["wire"],
        theirs: Only(&["aho-corasick", "regex-automata", "regex-syntax"]),
    },
    Row { name: "journal", ours: &["wire", "zone"], theirs: Only(&["xxhash-rust"]) },
    Row { name: "authority", ours: &["wire", "zone", "dnssec"], theirs: Only(&[]) },
    Row { name: "cache", ours: &["wire", "prefetch"], theirs: Only(&["bytemuck"]) },
    Row { name: "resolver", ours: &["wire", "transport"], theirs: Only(&["chacha20"]) },
    Row { name: "transfer", ours: &["wire", "transport", "zone"], theirs: Only(&["aws-lc-rs"]) },
    Row { name: "update", ours: &["wire", "transport", "zone"], theirs: Only(&[]) },
    Row { name: "migrate", ours: &["wire"], theirs: Only(&["saphyr-parser", "toml"]) },
    Row {
        name: "query-path",
        ours: &["wire", "transport", "zone", "authority", "transfer", "cookies", "rate-limits"],
        theirs: Only(&["arc-swap"]),
    },
    Row { name: "rate-limits", ours: &["prefetch"], theirs: Only(&["bytemuck"]) },
    Row {
        name: "recursion",
        ours: &["wire", "transport", "validator", "policy", "cache", "resolver", "query-path"],
        theirs: Only(&["arc-swap"]),
    },
    Row { name: "cookies", ours: &[], theirs: Only(&["arc-swap", "siphasher"]) },
    Row { name: "dnstap", ours: &[], theirs: Only(&["prost"]) },
    Row {
        name: "net",
        ours: &["transport", "rate-limits"],
        theirs: Only(&[
            "arc-swap",
            "bytes",
            "data-encoding",
            "getrandom",
            "http-body-util",
            "hyper",
            "hyper-util",
            "libc",
            "mio",
            "quinn",
            "rustls",
            "socket2",
            "tokio",
            "tokio-rustls",
        ]),
    },
    Row {
        name: "fetch",
        ours: &["tls", "wording", "zone"],
        theirs: Only(&[
            "aws-lc-rs",
            "flate2",
            "http-body-util",
            "hyper",
            "hyper-util",
            "rustls",
            "tokio",
            "tokio-rustls",
            "url",
        ]),
    },
    Row {
        name: "database",
        ours: &["wire", "zone", "tls", "wording"],
        theirs: Only(&[
            "futures-util",
            "rustls",
            "serde",
            "serde_json",
            "socket2",
            "tokio",
            "tokio-postgres",
            "tokio-rustls",
            "tracing",
            "zeroize",
        ]),
    },
    Row {
        name: "acme",
        ours: &["fetch", "tls", "wording", "zone"],
        theirs: Only(&[
            "aws-lc-rs",
            "bytes",
            "data-encoding",
            "http-body-util",
            "httpdate",
            "hyper",
            "instant-acme",
            "rcgen",
            "serde",
            "serde_json",
            "url",
        ]),
    },
    Row {
        name: "tls",
        ours: &["wire", "transport", "wording"],
        // bytes, h2, http, quinn-proto, tokio: HTTP/2 and QUIC without sockets; of tokio the traits of
        // streams.
        theirs: Only(&[
            "arc-swap",
            "aws-lc-rs",
            "bytes",
            "h2",
            "http",
            "quinn-proto",
            "rcgen",
            "rustls",
            "rustls-native-certs",
            "rustls-webpki",
            "tokio",
        ]),
    },
    Row { name: "wording", ours: &["wire"], theirs: Only(&["strsim"]) },
    Row {
        name: "config",
        ours: &[
            "wire",
            "transport",
            "validator",
            "zone",
            "cache",
            "cookies",
            "policy",
            "resolver",
            "transfer",
            "update",
            "query-path",
            "rate-limits",
            "recursion",
            "dnstap",
            "net",
            "tls",
            "wording",
        ],
        theirs: Only(&["data-encoding", "idna", "jiff", "nix", "serde", "serde_json", "toml", "url"]),
    },
    // System calls of a sandbox: each by the library that its makers keep.
    Row { name: "sandbox", ours: &[], theirs: Only(&["caps", "landlock", "libc", "nix", "seccompiler"]) },
    // libc: the scheduling policy of background work.
    Row { name: "threads", ours: &["sandbox"], theirs: Only(&["libc", "rustix", "tracing"]) },
    Row {
        name: "telemetry",
        ours: &[
            "wire",
            "transport",
            "resolver",
            "recursion",
            "transfer",
            "query-path",
            "dnstap",
            "wording",
            "config",
            "threads",
        ],
        theirs: Only(&[
            "getrandom",
            "nix",
            "prost",
            "sd-notify",
            "tracing",
            "tracing-appender",
            "tracing-subscriber",
        ]),
    },
    Row {
        name: "serving",
        ours: &[
            "wire",
            "transport",
            "validator",
            "zone",
            "authority",
            "cache",
            "cookies",
            "policy",
            "resolver",
            "recursion",
            "sandbox",
            "query-path",
            "rate-limits",
            "net",
            "acme",
            "fetch",
            "wording",
            "config",
            "threads",
            "telemetry",
            "tls",
        ],
        theirs: Only(&["jiff", "getrandom", "tokio", "tracing"]),
    },
    Row {
        name: "zone-plan",
        ours: &["wire", "transport", "zone", "signer", "journal", "transfer", "update", "config", "wording"],
        theirs: Only(&[]),
    },
    Row {
        name: "zone-manager",
        ours: &[
            "tls",
            "database",
            "wire",
            "transport",
            "zone",
            "signer",
            "journal",
            "resolver",
            "transfer",
            "update",
            "validator",
            "sandbox",
            "query-path",
            "net",
            "wording",
            "config",
            "threads",
            "telemetry",
            "serving",
            "zone-plan",
        ],
        theirs: Only(&[
            "arc-swap",
            "getrandom",
            "indicatif",
            "nix",
            "serde",
            "serde_json",
            "tokio",
            "tracing",
        ]),
    },
    Row { name: "message", ours: &["wire", "dnssec", "wording"], theirs: Only(&["serde_json"]) },
    Row {
        name: "control",
        ours: &[
            "database",
            "wire",
            "transport",
            "dnssec",
            "validator",
            "zone",
            "signer",
            "authority",
            "cache",
            "policy",
            "resolver",
            "recursion",
            "sandbox",
            "query-path",
            "net",
            "wording",
            "message",
            "config",
            "threads",
            "telemetry",
            "serving",
            "zone-plan",
            "zone-manager",
            "tls",
        ],
        theirs: Any,
    },
    Row {
        name: "api",
        ours: &[
            "database",
            "wire",
            "transport",
            "dnssec",
            "zone",
            "signer",
            "journal",
            "transfer",
            "update",
            "query-path",
            "tls",
            "wording",
            "config",
            "threads",
            "telemetry",
            "zone-plan",
            "zone-manager",
            "control",
        ],
        theirs: Any,
    },
    Row {
        name: "server",
        ours: &[
            "database",
            "journal",
            "wire",
            "transport",
            "prefetch",
            "zone",
            "sandbox",
            "query-path",
            "net",
            "wording",
            "config",
            "threads",
            "telemetry",
            "serving",
            "zone-plan",
            "zone-manager",
            "control",
            "api",
        ],
        theirs: Any,
    },
    Row {
        name: "tools",
        ours: &[
            "wire",
            "transport",
            "dnssec",
            "validator",
            "zone",
            "signer",
            "journal",
            "authority",
            "resolver",
            "recursion",
            "transfer",
            "update",
            "migrate",
            "net",
            "fetch",
            "tls",
            "wording",
            "message",
            "config",
            "zone-plan",
            "zone-manager",
            "control",
            "database",
        ],
        theirs: Any,
    },
    Row { name: "nomen", ours: &["wording", "config", "server", "tools"], theirs: Any },
    Row { name: "testkit", ours: &["wire", "dnssec", "validator", "zone", "journal"], theirs: Any },
    Row { name: "conformance", ours: &[], theirs: Any },
    Row {
        name: "fuzz",
        ours: &[
            "cache",
            "config",
            "dnstap",
            "journal",
            "migrate",
            "policy",
            "query-path",
            "resolver",
            "signer",
            "testkit",
            "transfer",
            "transport",
            "update",
            "validator",
            "wire",
            "zone",
        ],
        theirs: Any,
    },
    Row { name: "nomen-compare", ours: &["wire", "transport", "net"], theirs: Any },
    Row {
        name: "nomen-pieces",
        ours: &["wire", "transport", "zone", "authority", "query-path", "rate-limits", "testkit"],
        theirs: Any,
    },
    Row { name: "xtask", ours: &[], theirs: Any },
];

/// The part of `cargo metadata --no-deps` that the checks need.
pub(crate) struct Metadata {
    /// The workspace's packages.
    pub(crate) packages: Vec<Package>,
}

/// One package of the workspace.
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Path of its manifest, from the repository root.
    pub(crate) manifest: String,
    /// Normal and build dependencies, by package name.
    pub(crate) dependencies: Vec<String>,
    /// Root files of its libraries and programs, from the repository root.
    pub(crate) roots: Vec<String>,
}

/// Runs `cargo metadata` for the workspace at `root`.
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
            // Tests, benches and examples are roots too, but not part of any program.
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

/// Reports packages without a row in the table, dependencies that their row does not have, and unused entries
/// of their row.
pub(crate) fn check(metadata: &Metadata, tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for package in &metadata.packages {
        let manifest = tree.file(&package.manifest).and_then(|f| f.text()).unwrap_or_default();
        let Some(row) = ROWS.iter().find(|r| r.name == package.name) else {
            let text = format!(
                "crate `{}` has no row in the table of xtask/src/checks/edges.rs; decide which crates it \
                 uses there and in docs/ARCHITECTURE.md",
                package.name
            );
            faults.push(Fault::new(&package.manifest, 1, text));
            continue;
        };
        for dependency in &package.dependencies {
            if let Err(why) = allowed(row, dependency) {
                faults.push(Fault::new(&package.manifest, line_of(manifest, dependency), why));
            }
        }
        let theirs = match row.theirs {
            Only(list) => list,
            Any => &[],
        };
        for unused in
            row.ours.iter().chain(theirs).filter(|name| !package.dependencies.iter().any(|d| d == *name))
        {
            let text = format!(
                "`{}` does not use `{unused}`; take it out of its row in xtask/src/checks/edges.rs",
                row.name
            );
            faults.push(Fault::new(&package.manifest, 1, text));
        }
    }
    faults
}

fn allowed(row: &Row, dependency: &str) -> Result<(), String> {
    if ROWS.iter().any(|r| r.name == dependency) {
        if row.ours.contains(&dependency) {
            return Ok(());
        }
        return Err(format!(
            "`{}` may not depend on `{dependency}` (docs/ARCHITECTURE.md); move the code or pass the value \
             in",
            row.name
        ));
    }
    match row.theirs {
        Any => Ok(()),
        Only(list) if list.contains(&dependency) => Ok(()),
        Only(_) => Err(format!(
            "`{}` may not use the outside crate `{dependency}`; do without, or decide it in \
             xtask/src/checks/edges.rs",
            row.name
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

    /// Returns every dependency of a crate's row, and `more`.
    fn with(name: &str, more: &[&'static str]) -> Vec<&'static str> {
        let row = ROWS.iter().find(|r| r.name == name).expect("a row");
        let theirs = if let Only(list) = row.theirs { list } else { &[] };
        [row.ours, theirs, more].concat()
    }

    #[test]
    fn dependencies_that_are_not_in_the_table_are_faults() {
        assert_eq!(faults("authority", &with("authority", &[])), 0);
        assert_eq!(faults("wire", &with("wire", &["memchr"])), 1);
        assert_eq!(faults("zone", &with("zone", &["authority"])), 1);
        assert_eq!(faults("query-path", &with("query-path", &["net"])), 1);
        assert_eq!(faults("net", &with("net", &["query-path", "wire"])), 2);
        assert_eq!(faults("authority", &with("authority", &["serde"])), 1);
        assert_eq!(faults("server", &with("server", &["serde", "toml"])), 0);
        assert_eq!(faults("nomen", &with("nomen", &["testkit"])), 1);
    }

    #[test]
    fn entries_that_are_not_used_are_faults() {
        assert_eq!(faults("authority", &["wire", "zone"]), 1);
        assert_eq!(faults("dnssec", &["wire"]), 1);
    }

    #[test]
    fn a_crate_without_a_row_is_a_fault() {
        assert_eq!(faults("utils", &[]), 1);
    }

    #[test]
    fn a_fault_points_at_the_manifests_line() {
        let tree =
            Tree::of(&[("crates/wire/Cargo.toml", "[package]\n\n[dependencies]\nserde.workspace = true\n")]);
        let fault = check(&package("wire", &["serde"]), &tree).remove(0);
        assert_eq!((fault.path.as_str(), fault.line), ("crates/wire/Cargo.toml", 4));
    }

    /// No crate depends on itself through others; `query-path` and `net` do not depend on each other. Besides
    /// `transport`, `net` reaches only what that uses.
    #[test]
    fn the_table_has_no_way_round() {
        fn reach(from: &str, seen: &mut Vec<&'static str>) {
            let row = ROWS.iter().find(|r| r.name == from).expect("a row for each crate");
            for next in row.ours {
                if !seen.contains(next) {
                    seen.push(next);
                    reach(next, seen);
                }
            }
        }
        for row in ROWS {
            let mut seen = Vec::new();
            reach(row.name, &mut seen);
            assert!(!seen.contains(&row.name), "{} reaches itself", row.name);
            assert!(row.name != "query-path" || !seen.contains(&"net"));
            let below_net = ["transport", "wire", "rate-limits", "prefetch"];
            assert!(row.name != "net" || seen.iter().all(|seen| below_net.contains(seen)));
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
            "dependencies": [
                {"name": "proptest", "kind": "dev"},
                {"name": "cc", "kind": "build"},
                {"name": "zone", "kind": null},
            ],
        }]});
        let read = Metadata::of(&value, Path::new("/r")).expect("the shape is cargo's");
        assert_eq!(read.packages[0].dependencies, ["cc", "zone"]);
        assert_eq!(read.packages[0].roots, ["crates/wire/src/lib.rs"]);
    }
}
