//! Running this program inside callgrind and reading what it counted. What does not live here: what the
//! counts may be.
//!
//! The program inside does each piece once before it counts, so that what happens once (symbols looked up by
//! the dynamic linker, tables made on first use) is left out, and once in [`counted_piece`], which callgrind
//! is set to count and to write a dump after. Dumps are numbered as the pieces are.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nomen_pieces::Piece;
use nomen_pieces::answers::COLD_CACHE;

use crate::counts::{Counts, Made};

/// The argument that says: this is the program inside.
pub(crate) const INSIDE: &str = "--inside-callgrind";
/// The argument after it that says: the pieces whose misses are counted, their memory moved by the number
/// that follows.
pub(crate) const COLD: &str = "--cold";
/// The function counted, as callgrind writes it.
const COUNTED: &str = "*::counted_piece";

/// The caches simulated: those of one core, the same whatever machine this is, and the last one of so many
/// bytes.
fn cache(last: usize) -> [String; 4] {
    let first = |name: &str| format!("--{name}=32768,8,64");
    ["--cache-sim=yes".to_owned(), first("I1"), first("D1"), format!("--LL={last},16,64")]
}

/// Where within a cache line the allocator's memory begins: at each of its steps. The length of a path among
/// the program's arguments is enough to move it, and some misses hang on it by 8 percent, so each place is
/// tried and the fewest misses count.
const SHIFTS: [&str; 4] = ["0", "16", "32", "48"];

/// Does one piece once. Callgrind knows it by its name, so it must stay a function.
#[inline(never)]
fn counted_piece(piece: &mut Piece) -> usize {
    (piece.run)()
}

/// What the program does inside callgrind: each piece, warm; then it says what they are called.
pub(crate) fn inside(pieces: impl IntoIterator<Item = Piece>) -> Result<(), String> {
    println!("features {}", features());
    for mut piece in pieces {
        let warm = (piece.run)();
        std::hint::black_box((warm, counted_piece(&mut piece)));
        println!("piece {}", piece.name);
    }
    Ok(())
}

/// The instruction sets, of those that the library of C and our dependencies choose by, that callgrind lets
/// the program see.
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

/// Moves all that the allocator gives out later by so many bytes.
pub(crate) fn shift(bytes: usize) {
    // More than its smallest piece, so that each number of bytes makes a difference.
    std::mem::forget(std::hint::black_box(Vec::<u8>::with_capacity(56 + bytes)));
}

/// Counts the instructions of every piece, and the misses of those that are about memory.
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

/// What the pieces in a zone of `names` delegations take, with a last cache of 2 MiB.
pub(crate) fn misses(names: &str) -> Result<Vec<(String, Totals)>, String> {
    Run::new(&[INSIDE, names], 2 << 20)?.counted()
}

/// What was counted of a piece.
pub(crate) struct Totals {
    pub(crate) instructions: u64,
    /// Misses of the first cache for data.
    pub(crate) first: u64,
    /// Misses of the last cache for data: what has to come from memory.
    pub(crate) last: u64,
}

/// One run inside callgrind: what was printed and the folder of its dumps.
struct Run {
    printed: String,
    folder: PathBuf,
}

impl Drop for Run {
    fn drop(&mut self) {
        // What cannot be removed is a few files in the folder for such things.
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
            // The environment lies on the stack: its length would move what is counted.
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

    /// Each piece with the totals of its dump.
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

/// The line of totals of a dump.
fn totals(path: &Path) -> Result<Totals, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let fields: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once(": ")).collect();
    let totals = fields.get("totals").or_else(|| fields.get("summary"));
    let totals = totals.ok_or_else(|| format!("{}: no totals", path.display()))?;
    let number = |n: &str| n.parse().map_err(|_| format!("{}: {n} is no count", path.display()));
    // Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw; zeros at the end are left out.
    let events = totals.split_whitespace().map(number).collect::<Result<Vec<u64>, String>>()?;
    let event = |i: usize| events.get(i).copied().unwrap_or(0);
    Ok(Totals { instructions: event(0), first: event(4) + event(5), last: event(7) + event(8) })
}

/// What a program prints on one line.
fn said(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|e| format!("{program}: {e}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(format!("{program}: {}", output.status)),
    }
}
