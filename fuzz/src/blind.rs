//! Runs a target on changed inputs of the corpus, without knowing what code they reach.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;

use crate::mutation::Mutator;
use crate::targets::{self, TARGETS};

/// The time that one input may take.
const INPUT_TIME: Duration = Duration::from_secs(10);
/// The memory that the program may have, in bytes.
const MEMORY: u64 = 2 << 30;
/// Bytes of a page of memory, as the kernel counts it.
const PAGE: u64 = 4096;
/// The most bytes of an input, unless one of the corpus has more.
const LONGEST: usize = 4096;

/// Runs a target on random changes of the inputs in folders, or on files. What it finds lies in artifacts.
#[derive(Parser)]
struct Arguments {
    /// The target; without it the targets are printed.
    target: Option<String>,
    /// Folders with the corpus, and files that are run as they are.
    paths: Vec<PathBuf>,
    /// How long, in seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// How many inputs at most.
    #[arg(long, default_value_t = u64::MAX)]
    inputs: u64,
    /// What the random changes depend on.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where an input that fails is kept.
    #[arg(long, default_value = "artifacts")]
    artifacts: PathBuf,
}

/// The input that is run, for a report of what it does.
#[derive(Default)]
struct Current {
    input: Mutex<Vec<u8>>,
    /// How many were run before it.
    count: AtomicU64,
}

impl Current {
    /// Keeps the input as a file and ends the program.
    fn fail(&self, artifacts: &Path, why: &str) -> ! {
        let input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let path = artifacts.join(format!("{why}-{:016x}", xxhash_rust::xxh3::xxh3_64(&input)));
        let kept = fs::create_dir_all(artifacts).and_then(|()| fs::write(&path, &*input));
        match kept {
            Ok(()) => eprintln!("the input is in {}", path.display()),
            Err(error) => eprintln!("the input cannot be kept in {}: {error}: {input:02x?}", path.display()),
        }
        process::exit(1);
    }

    /// Notes the next input.
    fn begin(&self, input: &[u8]) {
        let mut current = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        current.clear();
        current.extend_from_slice(input);
    }
}

pub(crate) fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Some(target) = &arguments.target else {
        TARGETS.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    };
    let Some(run) = targets::find(target) else {
        eprintln!("fuzz: there is no target '{target}'");
        return ExitCode::from(2);
    };
    let mut corpus = Vec::new();
    for path in &arguments.paths {
        if let Err(error) = read(path, &mut corpus) {
            eprintln!("fuzz: {}: {error}", path.display());
            return ExitCode::from(2);
        }
    }
    let current = Arc::new(Current::default());
    watch(&current, arguments.artifacts.clone());
    let until = Instant::now() + Duration::from_secs_f64(arguments.seconds);
    let one = |input: &[u8]| {
        current.begin(input);
        run(input);
        current.count.fetch_add(1, Ordering::Relaxed);
    };
    corpus.iter().for_each(|input| one(input));
    let longest = corpus.iter().map(Vec::len).max().unwrap_or(0).max(LONGEST);
    let mut mutator = Mutator::new(arguments.seed, longest);
    let mut input = Vec::new();
    while Instant::now() < until && current.count.load(Ordering::Relaxed) < arguments.inputs {
        mutator.next(&corpus, &mut input);
        one(&input);
    }
    println!("{}", current.count.load(Ordering::Relaxed) + targets::more_inputs());
    ExitCode::SUCCESS
}

/// Adds a file, or all files of a folder in the order of their names.
fn read(path: &Path, corpus: &mut Vec<Vec<u8>>) -> std::io::Result<()> {
    if path.is_dir() {
        let mut paths =
            fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
        paths.sort();
        return paths.iter().try_for_each(|path| read(path, corpus));
    }
    corpus.push(fs::read(path)?);
    Ok(())
}

/// Has a panic, an input that takes too long, and too much memory end the program, and the input kept.
fn watch(current: &Arc<Current>, artifacts: PathBuf) {
    let print = std::panic::take_hook();
    let (of_panic, folder) = (Arc::clone(current), artifacts.clone());
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        of_panic.fail(&folder, "panic");
    }));
    let current = Arc::clone(current);
    thread::spawn(move || {
        let (mut count, mut since) = (0, Instant::now());
        loop {
            thread::sleep(Duration::from_millis(100));
            let now = current.count.load(Ordering::Relaxed);
            if now != count {
                (count, since) = (now, Instant::now());
            } else if since.elapsed() > INPUT_TIME {
                eprintln!("an input takes more than {INPUT_TIME:?}");
                current.fail(&artifacts, "slow");
            }
            if resident() > MEMORY {
                eprintln!("the program has more than {MEMORY} bytes of memory");
                current.fail(&artifacts, "memory");
            }
        }
    });
}

/// Returns the memory that the program has, in bytes; 0 if the kernel does not say.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * PAGE
}
