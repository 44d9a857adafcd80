//! Entering the sandbox, and the record of what applies.

use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use landlock::RulesetError;

use crate::calls;
use crate::capabilities::{self, PrivilegeFault};
use crate::files::{self, Roots, SandboxGrants};
use crate::kinds::KindFilters;

/// How access to files is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRules {
    /// By this version of Landlock.
    Landlock(u32),
    /// Not: the kernel has no Landlock, or it is turned off.
    Missing,
}

/// What applies to this process.
#[derive(Debug, Clone)]
pub struct Sandbox {
    /// Access to files.
    pub files: FileRules,
    /// Whether system calls are filtered; else why not.
    pub calls: Result<(), String>,
    /// Whether the process has no capability.
    pub no_capabilities: bool,
    /// Whether new privileges cannot be gained.
    pub no_new_privileges: bool,
    /// Whether other processes can read the memory.
    pub dumpable: bool,
    roots: Roots,
}

/// Why the process is not in the sandbox.
#[derive(Debug)]
pub enum SandboxFault {
    /// Privileges are kept.
    Privileges(PrivilegeFault),
    /// The kernel has Landlock, and refuses the rules.
    Files(RulesetError),
}

impl fmt::Display for SandboxFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Privileges(fault) => fault.fmt(f),
            Self::Files(fault) => write!(f, "cannot bound access to files: {fault}"),
        }
    }
}

impl std::error::Error for SandboxFault {}

static CURRENT: OnceLock<Sandbox> = OnceLock::new();

/// Returns the sandbox that this process is in; `None` if it is in none.
pub fn current() -> Option<&'static Sandbox> {
    CURRENT.get()
}

/// Returns whether the sandbox keeps the server from reading this file.
pub fn is_outside(path: &Path) -> bool {
    let bounded = current().filter(|sandbox| sandbox.files != FileRules::Missing);
    bounded.is_some_and(|sandbox| !sandbox.roots.may_read(path))
}

/// Puts this thread, and all threads that start after it, into the sandbox. Nothing of it can be undone.
///
/// # Errors
/// [`SandboxFault`] if the system refuses a part that it has. Parts that it does not have are no error: the
/// result says so.
pub fn enter(grants: &SandboxGrants) -> Result<&'static Sandbox, SandboxFault> {
    capabilities::give_up().map_err(SandboxFault::Privileges)?;
    capabilities::hide_memory().map_err(SandboxFault::Privileges)?;
    let roots = Roots::of(grants);
    let files = match files::restrict(&roots, grants).map_err(SandboxFault::Files)? {
        0 => FileRules::Missing,
        version => FileRules::Landlock(version),
    };
    let sandbox = Sandbox {
        files,
        no_capabilities: capabilities::has_none(),
        no_new_privileges: nix::sys::prctl::get_no_new_privs().unwrap_or(false),
        dumpable: nix::sys::prctl::get_dumpable().unwrap_or(true),
        calls: filter_calls(),
        roots,
    };
    Ok(CURRENT.get_or_init(|| sandbox))
}

/// Applies the filters of system calls; else returns why there are none.
fn filter_calls() -> Result<(), String> {
    let Some(arch) = calls::architecture() else {
        return Err(format!("there are no filters for {}", std::env::consts::ARCH));
    };
    let filters = calls::for_all(arch).map_err(|e| e.to_string())?;
    let kinds = KindFilters::new(arch).map_err(|e| e.to_string())?;
    for filter in &filters {
        seccompiler::apply_filter_all_threads(filter).map_err(|e| e.to_string())?;
    }
    kinds.put_in_force();
    Ok(())
}

impl Sandbox {
    /// Returns the version of Landlock that bounds access to files.
    pub fn landlock_version(&self) -> Option<u32> {
        match self.files {
            FileRules::Landlock(version) => Some(version),
            FileRules::Missing => None,
        }
    }

    /// Returns a sentence for each part that does not apply.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        if self.files == FileRules::Missing {
            missing.push("access to files is not bounded: the kernel has no Landlock, or it is off".into());
        }
        if let Err(why) = &self.calls {
            missing.push(format!("system calls are not filtered: {why}"));
        }
        missing
    }
}
