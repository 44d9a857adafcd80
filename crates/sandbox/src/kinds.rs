//! Kinds of threads that need less than the process: a thread calls [`confine`] first, and the threads that
//! it starts are bound as well.

use std::cell::Cell;
use std::sync::OnceLock;

use libc::c_long;
use seccompiler::{BackendError, BpfProgram, SeccompAction, TargetArch};

use crate::calls;

/// What a thread is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadKind {
    /// Answers queries and asks other servers: opens and changes no file.
    Network,
    /// Reads and writes files: opens no socket.
    Files,
    /// Computes: opens neither files nor sockets.
    Compute,
}

/// Calls by which files are opened or changed by name.
const FILE_CALLS: &[c_long] = &[
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_linkat,
    libc::SYS_mkdirat,
    libc::SYS_openat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_truncate,
    libc::SYS_unlinkat,
    libc::SYS_utimensat,
];

/// The same calls in their older forms.
#[cfg(target_arch = "x86_64")]
const FILE_CALLS_OLD: &[c_long] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_link,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const FILE_CALLS_OLD: &[c_long] = &[];

/// Calls by which sockets are opened and connected.
const SOCKET_CALLS: &[c_long] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_recvmmsg,
    libc::SYS_sendmmsg,
    libc::SYS_socket,
];

/// The filters of the kinds of threads, once the process is in the sandbox.
#[derive(Debug)]
pub(crate) struct KindFilters {
    files: BpfProgram,
    sockets: BpfProgram,
}

thread_local! {
    /// Whether this thread has less than the process.
    static CONFINED: Cell<bool> = const { Cell::new(false) };
}

static FILTERS: OnceLock<KindFilters> = OnceLock::new();

impl KindFilters {
    pub(crate) fn new(arch: TargetArch) -> Result<Self, BackendError> {
        let refuse = |calls| calls::deny(calls, SeccompAction::Errno(libc::EACCES.cast_unsigned()), arch);
        Ok(KindFilters {
            files: refuse(calls::any_arguments(FILE_CALLS.iter().chain(FILE_CALLS_OLD)))?,
            sockets: refuse(calls::any_arguments(SOCKET_CALLS))?,
        })
    }

    /// From now on, [`confine`] applies these filters.
    pub(crate) fn put_in_force(self) {
        let _ = FILTERS.set(self);
    }
}

/// Takes away what a thread of this kind does not need, from this thread and from those that it starts. Does
/// nothing outside the sandbox. A filter that the kernel refuses leaves the thread with those of the process.
pub fn confine(kind: ThreadKind) {
    let Some(KindFilters { files, sockets }) = FILTERS.get().filter(|_| !is_confined()) else { return };
    CONFINED.set(true);
    let (no_files, no_sockets) = match kind {
        ThreadKind::Network => (true, false),
        ThreadKind::Files => (false, true),
        ThreadKind::Compute => (true, true),
    };
    for filter in [no_files.then_some(files), no_sockets.then_some(sockets)].into_iter().flatten() {
        let _ = seccompiler::apply_filter(filter);
    }
}

/// Returns whether this thread itself was confined. Threads that it starts are bound as well.
pub fn is_confined() -> bool {
    CONFINED.get()
}
