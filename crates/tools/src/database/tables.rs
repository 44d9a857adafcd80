//! `nomen database init` and `nomen database migrate`: the tables of nomen.

use config::exit_status::{EXIT_FAULTS, EXIT_OK};

use super::Failure;
use super::args::{DatabaseInitArgs, DatabaseTargetArgs};
use super::target::open_own;

/// Runs `nomen database init`.
pub(super) fn init(args: &DatabaseInitArgs) -> Result<u8, Failure> {
    let admin = open_own(&args.target)?;
    let fault = |fault: String| (format!("nomen: {}: {fault}", admin.host()), EXIT_FAULTS);
    match admin.init().map_err(fault)? {
        (0, after) => say!("{}: the schema nomen is made, version {after}", admin.host()),
        (before, after) if before == after => {
            say!("{}: the schema nomen is there already, version {after}", admin.host());
        }
        (before, after) => {
            say!("{}: the schema nomen is migrated from version {before} to {after}", admin.host());
        }
    }
    if let Some(role) = &args.grant {
        admin.grant(role).map_err(fault)?;
        say!("{}: the role {role} has the privileges of a node", admin.host());
    }
    Ok(EXIT_OK)
}

/// Runs `nomen database migrate`.
pub(super) fn migrate(target: &DatabaseTargetArgs) -> Result<u8, Failure> {
    let admin = open_own(target)?;
    let fault = |fault: String| (format!("nomen: {}: {fault}", admin.host()), EXIT_FAULTS);
    match admin.migrate().map_err(fault)? {
        (before, after) if before == after => {
            say!("{}: the schema nomen has version {after} already", admin.host());
        }
        (before, after) => {
            say!("{}: the schema nomen is migrated from version {before} to {after}", admin.host());
        }
    }
    Ok(EXIT_OK)
}
