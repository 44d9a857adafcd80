//! Lends the small Internet, or that of the attacks, to another program that runs its own resolvers: starts
//! only the servers, and writes the questions to files. `bench/compare` measures there.
//!
//! Standard output has a line for each of these words, and then `ready`:
//!
//! - `namespace PATH`: the network namespace. All servers' addresses are in 198.18.0.0/15, and so are
//!   addresses without a server;
//! - `root ADDRESS`: the root server;
//! - `anchor TAG ALGORITHM TYPE DIGEST`: the DS record of its key;
//! - `questions NAME COUNT PATH`: messages, each preceded by its length in two bytes.

use super::sites::{Condition, Extent, HOSTS, Sites};
use super::{namespace, queries, servers, wait};
use crate::attacks;
use crate::query::Query;
use crate::servers::{Kind, Server};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Number of questions from which on the small Internet has its full size; for fewer it has one zone below
/// each top-level domain.
const FULL_SIZE_QUESTIONS: usize = 2000;

/// What is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The small Internet.
    Internet,
    /// The zones of the attacks.
    Attacks,
}

/// Lends it, with `count` questions of each kind, until a line or the end of the input is read.
pub(crate) fn run(
    what: What,
    programs: &BTreeMap<Kind, PathBuf>,
    count: usize,
    seed: u64,
    dir: &Path,
) -> Result<(), String> {
    let namespace = namespace()?;
    let path = namespace.path();
    // Servers end with the thread that has started them.
    namespace.enter(|| {
        let (sites, mut hosts, questions) = match what {
            What::Internet => internet(programs, count, seed, dir)?,
            What::Attacks => attacks::lent(programs, count, seed, dir)?,
        };
        let root = sites.root.first().ok_or("no root server")?;
        println!("namespace {path}\nroot {root}\nanchor {}", sites.anchor);
        for (name, queries) in questions {
            let file = dir.join(name).with_extension("questions");
            fs::write(&file, messages(&queries)).map_err(|e| format!("{}: {e}", file.display()))?;
            println!("questions {name} {} {}", queries.len(), file.display());
        }
        println!("ready");
        wait()?;
        hosts.iter_mut().try_for_each(Server::still_runs)
    })
}

/// Zones, their servers, and named lists of questions.
pub(crate) type Lent = (Sites, Vec<Server>, Vec<(&'static str, Vec<Query>)>);

fn internet(programs: &BTreeMap<Kind, PathBuf>, count: usize, seed: u64, dir: &Path) -> Result<Lent, String> {
    let per_tld = if count < FULL_SIZE_QUESTIONS { 1 } else { Extent::default().per_tld };
    let sites = Sites::make(&dir.join("zones"), seed, Extent { per_tld, hosts: count * 4 / 5, only4: true })?;
    let hosts = servers::start_hosts(programs, &HOSTS, &sites, dir)?;
    let different = |own| queries::different(&sites.sound(own), count, seed);
    let (unsigned, signed) = (different(Condition::Unsigned), different(Condition::Secure));
    let mut generator = queries::Generator::new(&sites, seed);
    let mixed = (0..count).map(|_| generator.next_query()).collect();
    Ok((sites, hosts, vec![("unsigned", unsigned), ("signed", signed), ("mixed", mixed)]))
}

/// Encodes the questions as messages with ID 0, each preceded by its length.
fn messages(queries: &[Query]) -> Vec<u8> {
    let mut out = Vec::new();
    for query in queries {
        let wire = query.to_wire(0);
        out.extend_from_slice(&(wire.len() as u16).to_be_bytes());
        out.extend(wire);
    }
    out
}
