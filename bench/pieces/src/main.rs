//! Counts the instructions and cache misses of every piece with callgrind and compares them with
//! `bench/pieces/counts.toml`: the command line.
//!
//! ```text
//! cargo run --release -p nomen-pieces                  compares; ends with 1 if a piece needs more than it may
//! cargo run --release -p nomen-pieces -- --update      writes the counts of now into the file
//! cargo run --release -p nomen-pieces -- --misses [N]  misses of the cache in a zone of N delegations [1000000]
//! ```
#![forbid(unsafe_code)]

mod callgrind;
mod counts;

use std::path::Path;
use std::process::ExitCode;

use callgrind::Totals;
use counts::Counts;

/// The file of counts; it is under version control.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/counts.toml");
const HELP: &str = "usage: nomen-pieces [--update | --misses [NAMES]]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [] => compare(),
        ["--update"] => update(),
        ["--misses"] => misses("1000000"),
        ["--misses", names] => misses(names),
        [callgrind::INSIDE] => callgrind::inside(nomen_pieces::all()),
        [callgrind::INSIDE, callgrind::COLD, bytes] => bytes
            .parse()
            .map(callgrind::shift)
            .map_err(|_| HELP.to_owned())
            .and_then(|()| callgrind::inside(nomen_pieces::answers::cold())),
        [callgrind::INSIDE, names] => {
            number(names).and_then(|names| callgrind::inside(nomen_pieces::answers::large(names)))
        }
        _ => Err(HELP.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compare() -> Result<(), String> {
    let old = Counts::read(Path::new(FILE))?;
    let new = callgrind::count()?;
    let report = counts::compare(&old, &new);
    print!("{}", report.text);
    match report.worse {
        0 => Ok(()),
        worse => Err(format!(
            "{worse} of {} pieces are not as bench/pieces/counts.toml has them; if that is meant, run\n    \
             cargo run --release -p nomen-pieces -- --update\nand commit the file with the reason",
            report.all
        )),
    }
}

fn update() -> Result<(), String> {
    let new = callgrind::count()?;
    if let Ok(old) = Counts::read(Path::new(FILE)) {
        print!("{}", counts::compare(&old, &new).text);
    }
    new.write(Path::new(FILE))
}

fn misses(names: &str) -> Result<(), String> {
    number(names)?;
    println!("a batch of 64 queries         instructions  misses of 32 KiB  misses of 2 MiB");
    for (name, Totals { instructions, first, last }) in callgrind::misses(names)? {
        println!("{name:<30}{instructions:>12}{first:>18}{last:>17}");
    }
    Ok(())
}

/// Parses a number of delegations: enough to fill a batch.
fn number(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|n| *n >= 64).ok_or_else(|| format!("{text}: not a number from 64 on; {HELP}"))
}
