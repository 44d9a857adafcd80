//! Runs this program inside callgrind and reads its counts. The limits for the counts are in `counts.rs`.
//!
//! The program inside runs each piece once before counting, so that one-time work (symbol lookups of the
//! dynamic linker, tables made on first use) is left out, and once in [`counted_piece`], which callgrind
//! counts and writes a dump after. Dumps are numbered like the pieces.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nomen_pieces::Piece;
use nomen_pieces::answers::COLD_CACHE;

use crate::counts::{Counts, Made};

/// The argument for the program inside.
pub(crate) const INSIDE: &str = "--inside-callgrind";
/// The argument after it for the pieces whose misses are counted; the number that follows moves their memory.
pub(crate) const COLD: &str = "--cold";
/// The counted function, as callgrind writes it.
const COUNTED: &str = "*::counted_piece";

/// Returns the simulated caches: those of one core, the same on every machine, and a last cache of `last`
/// bytes.
fn cache(last: usize) -> [String; 4] {
    let first = |name: &str| format!("--{name}=32768,8,64");
    ["--cache-sim=yes".to_owned(), first("I1"), first("D1"), format!("--LL={last},16,64")]
}

/// Offsets within a cache line at which the allocator's memory begins. Even the length of a path among the
/// program's arguments moves it, and some misses depend on it by 8 percent, so each offset is tried and the
/// fewest misses count.
const SHIFTS: [&str; 4] = ["0", "16", "32", "48"];

/// Runs one piece. Callgrind finds it by its name, so it must stay a function.
#[inline(never)]
fn counted_piece(piece: &mut Piece) -> usize {
    (piece.run)()
}

/// Runs each piece, warmed up, inside callgrind, and prints their names.
pub(crate) fn inside(pieces: impl IntoIterator<Item = Piece>) -> Result<(), String> {
    println!("features {}", features());
    for mut piece in pieces {
        let warm = (piece.run)();
        std::hint::black_box((warm, counted_piece(&mut piece)));
        println!("piece {}", piece.name);
    }
    Ok(())
}

/// Returns the instruction sets that the program sees inside callgrind, of those that the C library and our
/// dependencies select code by.
fn features() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        let known = [
            ("sse4.2", std::arch::is_x86_feature_detected!("sse4.2")),
            ("avx", std::arch::is_x86_feature_detected!("avx")),
            ("avx2", std::arch::is_x86_feature_detected!("avx2")),
            ("bmi2", std::arch::is_x86_feature_detected!("bmi2")),
            ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
        ];
        known.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
    }
    #[cfg(not(target_arch = "x86_64"))]
    String::new()
}

/// Moves all later allocations by `bytes`.
pub(crate) fn shift(bytes: usize) {
    // More than the allocator's smallest chunk, so that each number of bytes makes a difference.
    std::mem::forget(std::hint::black_box(Vec::<u8>::with_capacity(56 + bytes)));
}

/// Counts the instructions of every piece, and the cache misses of the pieces for that.
pub(crate) fn count() -> Result<Counts, String> {
    let run = Run::new(&[INSIDE], COLD_CACHE)?;
    let counts = run.counted()?.into_iter().map(|(name, totals)| (name, totals.instructions)).collect();
    let mut misses = BTreeMap::new();
    for shift in SHIFTS {
        for (name, totals) in Run::new(&[INSIDE, COLD, shift], COLD_CACHE)?.counted()? {
            let fewest = misses.entry(name).or_insert(totals.last);
            *fewest = totals.last.min(*fewest);
        }
    }
    let made = Made {
        rustc: said("rustc", &["--version"])?,
        target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        features: run.features()?,
        libc: said("getconf", &["GNU_LIBC_VERSION"]).unwrap_or_else(|_| "unknown".to_owned()),
        valgrind: said("valgrind", &["--version"])?,
    };
    Ok(Counts { made, counts, misses })
}

/// Counts the pieces in a zone of `names` delegations, with a last cache of 2 MiB.
pub(crate) fn misses(names: &str) -> Result<Vec<(String, Totals)>, String> {
    Run::new(&[INSIDE, names], 2 << 20)?.counted()
}

/// Counts of a piece.
pub(crate) struct Totals {
    pub(crate) instructions: u64,
    /// Misses of the first data cache.
    pub(crate) first: u64,
    /// Misses of the last cache for data: reads from memory.
    pub(crate) last: u64,
}

/// One run inside callgrind: its output and the folder of its dumps.
struct Run {
    printed: String,
    folder: PathBuf,
}

impl Drop for Run {
    fn drop(&mut self) {
        // If removal fails, a few files remain in the temporary folder.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Run {
    fn new(arguments: &[&str], last_cache: usize) -> Result<Run, String> {
        let program = std::env::current_exe().map_err(|e| format!("where this program lies: {e}"))?;
        let folder = std::env::temp_dir().join(format!("nomen-pieces-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let mut run = Run { printed: String::new(), folder };
        let mut out = OsString::from("--callgrind-out-file=");
        out.push(run.folder.join("out"));
        let output = Command::new("valgrind")
            .args([
                "--tool=callgrind",
                "--error-exitcode=99",
                "--log-file=/dev/null",
                "--compress-strings=no",
            ])
            .args([format!("--toggle-collect={COUNTED}"), format!("--dump-after={COUNTED}")])
            .args(cache(last_cache))
            .arg(out)
            .arg(program)
            .args(arguments)
            // The environment is on the stack: its length would affect the counts.
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .output()
            .map_err(|e| format!("valgrind, which counts the instructions, cannot be run: {e}"))?;
        if !output.status.success() {
            return Err(format!(
                "inside callgrind: {}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        run.printed = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(run)
    }

    fn features(&self) -> Result<String, String> {
        let line = self.printed.lines().find_map(|line| line.strip_prefix("features "));
        line.map(str::to_owned)
            .ok_or_else(|| "the program inside callgrind said nothing of features".to_owned())
    }

    /// Returns each piece with the totals of its dump.
    fn counted(&self) -> Result<Vec<(String, Totals)>, String> {
        let names = self.printed.lines().filter_map(|line| line.strip_prefix("piece "));
        let one = |(i, name): (usize, &str)| {
            let totals = totals(&self.folder.join(format!("out.{}", i + 1)))?;
            match totals.instructions {
                0 => Err(format!("callgrind counted nothing for {name}")),
                _ => Ok((name.to_owned(), totals)),
            }
        };
        names.enumerate().map(one).collect()
    }
}

/// Reads the totals of a dump.
fn totals(path: &Path) -> Result<Totals, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let fields: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once(": ")).collect();
    let totals = fields.get("totals").or_else(|| fields.get("summary"));
    let totals = totals.ok_or_else(|| format!("{}: no totals", path.display()))?;
    let number = |n: &str| n.parse().map_err(|_| format!("{}: {n} is no count", path.display()));
    // Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw; trailing zeros are left out.
    let events = totals.split_whitespace().map(number).collect::<Result<Vec<u64>, String>>()?;
    let event = |i: usize| events.get(i).copied().unwrap_or(0);
    Ok(Totals { instructions: event(0), first: event(4) + event(5), last: event(7) + event(8) })
}

/// Returns the one-line output of a program.
fn said(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|e| format!("{program}: {e}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(format!("{program}: {}", output.status)),
    }
}
