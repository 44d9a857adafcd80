//! Capabilities and similar properties of a process. Any step that fails stops the start.

use std::fmt;

use caps::CapSet;
use caps::errors::CapsError;
use nix::errno::Errno;

/// Why privileges were not given up.
#[derive(Debug)]
pub enum PrivilegeFault {
    /// The groups of root are kept.
    Groups(Errno),
    /// The group of this number is refused.
    Group(u32, Errno),
    /// The user of this number is refused.
    User(u32, Errno),
    /// The process could become root again.
    Revocable,
    /// Capabilities are kept.
    Capabilities(CapsError),
    /// Programs could gain new privileges.
    NewPrivileges(Errno),
    /// Other processes of the user could read the memory.
    Dumpable(Errno),
}

impl fmt::Display for PrivilegeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Groups(e) => write!(f, "cannot give up the groups of root: {}", e.desc()),
            Self::Group(gid, e) => write!(f, "cannot become group {gid}: {}", e.desc()),
            Self::User(uid, e) => write!(f, "cannot become user {uid}: {}", e.desc()),
            Self::Revocable => f.write_str("user root could be taken back after giving it up"),
            Self::Capabilities(e) => write!(f, "cannot give up capabilities: {e}"),
            Self::NewPrivileges(e) => write!(f, "cannot forbid new privileges: {}", e.desc()),
            Self::Dumpable(e) => write!(f, "cannot hide the memory from other processes: {}", e.desc()),
        }
    }
}

impl std::error::Error for PrivilegeFault {}

/// Clears every capability, including those that systemd passes to a service for low ports, and forbids
/// gaining new ones.
///
/// # Errors
/// [`PrivilegeFault`] at the first step that the system refuses.
pub fn give_up() -> Result<(), PrivilegeFault> {
    // Only a process that may change the set can clear it. For another one it does not matter: the bounding
    // set limits what is gained by executing a program, and such a program gains nothing.
    let _ = caps::clear(None, CapSet::Bounding);
    for set in [CapSet::Ambient, CapSet::Effective, CapSet::Permitted, CapSet::Inheritable] {
        caps::clear(None, set).map_err(PrivilegeFault::Capabilities)?;
    }
    nix::sys::prctl::set_no_new_privs().map_err(PrivilegeFault::NewPrivileges)
}

/// Forbids other processes of the same user to read the memory, to trace this process and to open what it has
/// open; there is no core file either.
///
/// # Errors
/// [`PrivilegeFault::Dumpable`] if the system refuses.
pub(crate) fn hide_memory() -> Result<(), PrivilegeFault> {
    nix::sys::prctl::set_dumpable(false).map_err(PrivilegeFault::Dumpable)
}

/// Returns whether this thread has no capability, neither now nor to be raised.
pub(crate) fn has_none() -> bool {
    let sets = [CapSet::Ambient, CapSet::Effective, CapSet::Permitted, CapSet::Inheritable];
    sets.into_iter().all(|set| caps::read(None, set).is_ok_and(|all| all.is_empty()))
}
