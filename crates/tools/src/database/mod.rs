//! `nomen database`: the tables of a database, zones into it and out of it, sections of the configuration.
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
//! | `sections` | `set`, `get` and `unset` |
//! | `progress` | a progress bar |

pub mod args;
mod check;
mod export;
mod import;
mod keys;
mod progress;
mod sections;
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
        DatabaseVerb::Set(args) => sections::set(args),
        DatabaseVerb::Get(args) => sections::get(args),
        DatabaseVerb::Unset(args) => sections::unset(args),
    };
    done.unwrap_or_else(|(message, code)| {
        eprintln!("{}", message.trim_end());
        code
    })
}
