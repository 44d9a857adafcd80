//! Repository checks, run as `cargo xtask tidy`, and the bill of materials, by `cargo xtask sbom`.
//!
//! Each check is a function from the tree (or from cargo's metadata) to a list of faults, in its own file
//! under `checks`. Nothing here builds, runs or changes the product.

#![forbid(unsafe_code)]

mod checks;
mod exceptions;
mod program;
mod sbom;
mod source;
mod tree;

use std::path::Path;
use std::process::ExitCode;

use crate::program::Program;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy(),
        ["sbom"] => sbom(),
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

const HELP: &str = "usage: cargo xtask tidy | sbom\n\n  tidy   check headers, crate edges, unsafe, lengths, widths, \
                    words, type names, panics, links, threads, dependencies and the changelog;\n         \
                    prints `path:line: what is wrong and how to mend it` and exits 1 on any fault\n  \
                    sbom   print the bill of materials of the program, as CycloneDX";

/// Prints the packages of the program that this checkout builds.
fn sbom() -> ExitCode {
    match Program::read(root()) {
        Ok(program) => {
            println!("{:#}", sbom::of(&program));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("sbom: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The checkout that this binary was built from.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// Runs every check on the checkout.
fn tidy() -> ExitCode {
    match checks::run(root()) {
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
