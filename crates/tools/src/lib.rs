//! Every verb except `nomen serve`: programs that do one task and end. The server does not use them.
//!
//! | module | verb |
//! |---|---|
//! | [`check`], `check_challenges` | `nomen check`; whether zones can have the records of challenges |
//! | [`migrate`] | `nomen migrate` |
//! | [`zone_check`], [`zone_dump`], [`zone_diff`], [`zone_digest`], [`zone_sign`], [`zone_compile`] | `nomen zone` |
//! | [`keys`] | `nomen key` |
//! | [`query`] | `nomen query`; [`query::as_dig`]: the same under the name `dig` |
//! | [`update`] | `nomen update` |
//! | [`token`] | `nomen token` |
//! | [`ctl`] | `nomen ctl` |
//! | [`database`] | `nomen database` |
//! | [`args`], [`key_args`] | the arguments of all of them |
//! | [`judge`], [`audited`], [`signing`] | shared: findings and exit statuses, DNSSEC checks, TSIG keys |
#![forbid(unsafe_code)]
// `println!` panics when the reader has closed the pipe or the disk is full: use [`print_out`].
#![deny(clippy::print_stdout)]

/// Prints a line to standard output with [`print_out`], since `println!` panics if that fails.
macro_rules! say {
    ($($words:tt)*) => { $crate::print_out(&(format!($($words)*) + "\n")) };
}

pub mod args;
pub mod audited;
pub mod check;
mod check_challenges;
pub mod ctl;
mod ctl_database;
mod ctl_delegations;
mod ctl_keys;
mod ctl_values;
pub mod database;
pub mod judge;
pub mod key_args;
pub mod keys;
pub mod migrate;
pub mod query;
mod sign_request;
pub mod signing;
pub mod token;
pub mod update;
pub mod zone_check;
pub mod zone_compile;
pub mod zone_diff;
pub mod zone_digest;
pub mod zone_dump;
pub mod zone_sign;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGPIPE;

use wire::ZoneName;
use wire::hash::HashKey;
use zone::Zone;
use zone_plan::{DifferenceRule, Origin, TextRules, ZoneSpec, ZoneText};

use config::exit_status::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE, EXIT_USAGE};
use config::zone_name::{ZoneNameFault, zone_name};
use wording::reason;
use zone_manager::zones::text::{Meter, examine};

/// Makes SIGPIPE end the process once its output has no reader, as `nomen zone dump … | head` requires and
/// most programs do. Rust ignores that signal from the start, so that `println!` panics instead. Sockets are
/// not affected: writes to them raise no signal (MSG_NOSIGNAL), so that a disconnected server is a reported
/// fault.
pub fn end_with_the_reader() {
    let always = Arc::new(AtomicBool::new(true));
    // Fails only for signals that cannot be caught; SIGPIPE can.
    let _ = signal_hook::flag::register_conditional_default(SIGPIPE, always);
}

/// Returns the specification of the zone with this name in this file.
pub fn zone_spec(origin: &str, file: &Path) -> Result<ZoneSpec, ZoneNameFault> {
    let name = zone_name(origin)?;
    let (apex, text) = (ZoneName::from(&name), ZoneText::File(file.into()));
    let (origin, differences) = (Origin::Configuration, DifferenceRule::default());
    let rules = TextRules::of_command_line();
    Ok(ZoneSpec { apex, text, origin, differences, rules, signed: false })
}

/// Reads a zone for a verb that prints it. Prints faults to standard error.
///
/// # Errors
/// The exit code.
fn read_zone(origin: &str, file: &Path) -> Result<Zone, u8> {
    let spec = zone_spec(origin, file).map_err(|fault| {
        eprintln!("nomen: {fault}");
        EXIT_USAGE
    })?;
    let mut examined = examine(&spec, &HashKey::random(), 20, &Meter::default());
    examined.zone.take().ok_or_else(|| {
        eprint!("{}", judge::text_of(&spec, &examined));
        if examined.unread() { EXIT_OUTSIDE } else { EXIT_FAULTS }
    })
}

/// Prints to standard output. Ends the process if that fails, since the output has no reader.
pub fn print_out(text: &str) {
    let mut out = io::stdout().lock();
    let code = printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()), EXIT_OK);
    if code != EXIT_OK {
        std::process::exit(code.into());
    }
}

/// Returns the exit code of a verb that has written to standard output: `code` unless writing failed.
fn printed(done: io::Result<()>, code: u8) -> u8 {
    match done {
        Ok(()) => code,
        Err(e) => {
            eprintln!("nomen: cannot write: {}", reason(&e));
            EXIT_OUTSIDE
        }
    }
}
