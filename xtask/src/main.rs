//! Repository checks, run as `cargo xtask tidy`.
//!
//! Each check is a function from the tree (or from cargo's metadata) to a list of faults, in its own file
//! under `checks`. Nothing here builds, runs or changes the product.

#![forbid(unsafe_code)]

mod checks;
mod exceptions;
mod source;
mod tree;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy(),
        ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{HELP}");
            ExitCode::from(2)
        }
    }
}

const HELP: &str = "usage: cargo xtask tidy\n\n  tidy   check headers, crate edges, unsafe, lengths, widths, \
                    words, type names, panics, links, threads and the changelog;\n         \
                    prints `path:line: what is wrong and how to mend it` and exits 1 on any fault";

/// Runs every check on the checkout that this binary was built from.
fn tidy() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
    match checks::run(root) {
        Ok(faults) if faults.is_empty() => {
            println!("tidy: nothing to mend");
            ExitCode::SUCCESS
        }
        Ok(faults) => {
            for fault in &faults {
                println!("{fault}");
            }
            println!("tidy: {} to mend", faults.len());
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("tidy: {why}");
            ExitCode::FAILURE
        }
    }
}
