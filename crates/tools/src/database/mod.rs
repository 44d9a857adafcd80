//! `nomen database`: the tables of a database, and zones into it and out of it.
//!
//! | file | holds |
//! |---|---|
//! | `args` | the arguments |
//! | `target` | which database, and the connection to it |
//! | `tables` | `init` and `migrate` |
//! | `check` | `check` |
//! | `sources` | where `import` takes zones from |
//! | `import` | `import` |
//! | `export` | `export` |
//! | `progress` | a progress bar |

pub mod args;
mod check;
mod export;
mod import;
mod progress;
mod sources;
mod tables;
mod target;

use args::DatabaseVerb;

/// A message, and the exit code that it ends with.
type Failure = (String, u8);

/// Runs the verb; returns the exit code.
pub fn run(verb: &DatabaseVerb) -> u8 {
    let done = match verb {
        DatabaseVerb::Init(args) => tables::init(args),
        DatabaseVerb::Migrate(args) => tables::migrate(args),
        DatabaseVerb::Check(args) => check::check(args),
        DatabaseVerb::Import(args) => import::import(args),
        DatabaseVerb::Export(args) => export::export(args),
    };
    done.unwrap_or_else(|(message, code)| {
        eprintln!("{}", message.trim_end());
        code
    })
}
