//! System calls, by seccomp. Three filters apply to every thread:
//!
//! - [`ALLOWED`]: any other call fails with ENOSYS, as with a kernel that does not have it. So a C library or
//!   an allocator that tries a newer call first goes on with the one before it.
//! - [`bounds`]: some calls are allowed with some arguments only, else they fail with EPERM: no memory that
//!   can be executed, no new processes, no sockets but those of DNS and administration.
//! - [`FATAL`]: calls that no part of the server ever makes, and whose use means that foreign code runs. The
//!   kernel ends the process, and logs it.
//!
//! Since Linux 5.11 the kernel looks up in a bitmap which calls are allowed whatever their arguments are, so
//! the order of a filter does not matter to the calls of the query path: none of them is in [`bounds`].

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// A call, and the arguments for which it matches: any of the rules, each with all its conditions. No rule:
/// any arguments.
type CallRules = BTreeMap<c_long, Vec<SeccompRule>>;

/// Calls that every thread may make.
const ALLOWED: &[c_long] = &[
    // Datagrams and connections.
    libc::SYS_recvmmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_listen,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_socket,
    libc::SYS_socketpair,
    // Waiting.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_futex,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_restart_syscall,
    // Memory.
    libc::SYS_brk,
    libc::SYS_get_mempolicy,
    libc::SYS_madvise,
    libc::SYS_mbind,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_munlock,
    libc::SYS_munmap,
    // Threads and the process.
    libc::SYS_capget,
    libc::SYS_clone,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getgroups,
    libc::SYS_getpgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpriority,
    libc::SYS_getrandom,
    libc::SYS_getresgid,
    libc::SYS_getresuid,
    libc::SYS_getrusage,
    libc::SYS_getsid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_prctl,
    libc::SYS_prlimit64,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setaffinity,
    // Only for the calling thread.
    libc::SYS_sched_getattr,
    libc::SYS_sched_setattr,
    // Only for background work.
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_yield,
    // Only filters that allow less can be added.
    libc::SYS_seccomp,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_setpriority,
    libc::SYS_sigaltstack,
    libc::SYS_sysinfo,
    libc::SYS_tgkill,
    libc::SYS_times,
    libc::SYS_umask,
    libc::SYS_uname,
    // Files, which Landlock bounds.
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_ioctl,
    libc::SYS_linkat,
    libc::SYS_lseek,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_pipe2,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_read,
    libc::SYS_readahead,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_sync_file_range,
    libc::SYS_truncate,
    libc::SYS_unlinkat,
    libc::SYS_utimensat,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Calls that only this architecture has beside newer ones.
#[cfg(target_arch = "x86_64")]
const ALLOWED_OLD: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_dup2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_getdents,
    libc::SYS_getpgrp,
    libc::SYS_getrlimit,
    libc::SYS_link,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_pause,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_unlink,
    libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_OLD: &[c_long] = &[];

/// Calls that end the process.
const FATAL: &[c_long] = &[
    // Other programs and other processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    // File systems and namespaces.
    libc::SYS_chroot,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_setns,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    // The kernel.
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
    // The machine.
    libc::SYS_acct,
    libc::SYS_clock_settime,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_settimeofday,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    // Users and capabilities.
    libc::SYS_capset,
    libc::SYS_setfsgid,
    libc::SYS_setfsuid,
    libc::SYS_setgid,
    libc::SYS_setgroups,
    libc::SYS_setregid,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_setreuid,
    libc::SYS_setuid,
];

/// Fatal calls that only this architecture has.
#[cfg(target_arch = "x86_64")]
const FATAL_OLD: &[c_long] = &[
    libc::SYS_fork,
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_kexec_file_load,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const FATAL_OLD: &[c_long] = &[];

/// Requests to devices and sockets that the server makes.
const DEVICE_REQUESTS: [libc::Ioctl; 9] = [
    libc::FIONBIO,
    libc::FIONREAD,
    libc::FIOCLEX,
    // Whether the log goes to a terminal, and its width.
    libc::TCGETS,
    libc::TIOCGWINSZ,
    // Names, numbers and hardware addresses of interfaces.
    libc::SIOCGIFNAME as libc::Ioctl,
    libc::SIOCGIFINDEX as libc::Ioctl,
    libc::SIOCGIFHWADDR as libc::Ioctl,
    libc::SIOCGIFMTU as libc::Ioctl,
];

/// Properties of threads and of the process that may be changed or read.
const PROCESS_OPTIONS: [i32; 12] = [
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_GET_DUMPABLE,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_GET_SECCOMP,
    libc::PR_CAPBSET_READ,
    libc::PR_CAP_AMBIENT,
    libc::PR_SET_VMA,
    libc::PR_SET_THP_DISABLE,
    libc::PR_GET_THP_DISABLE,
    libc::PR_SET_TIMERSLACK,
];

/// A condition about one argument.
fn when(argument: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value)
}

/// Returns a rule that matches if an argument is none of these values.
fn none_of(argument: u8, values: impl IntoIterator<Item = u64>) -> Result<SeccompRule, BackendError> {
    let conditions = values.into_iter().map(|value| when(argument, SeccompCmpOp::Ne, value));
    SeccompRule::new(conditions.collect::<Result<Vec<_>, _>>()?)
}

/// Returns a rule that matches if an argument has all these bits.
fn with_bits(argument: u8, bits: u64) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![when(argument, SeccompCmpOp::MaskedEq(bits), bits)?])
}

/// A constant of the C library as an argument of a call.
fn number(value: i32) -> u64 {
    u64::from(value.cast_unsigned())
}

/// Returns the sockets that are refused: all but datagrams and streams of IP, Unix sockets, and the questions
/// about interfaces and routes.
fn refused_sockets() -> Result<Vec<SeccompRule>, BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let mut rules = vec![none_of(0, families.map(number))?];
    let route = number(libc::NETLINK_ROUTE);
    rules.push(SeccompRule::new(vec![when(0, Eq, number(libc::AF_NETLINK))?, when(2, Ne, route)?])?);
    // The other bits of the type are flags.
    for family in [libc::AF_INET, libc::AF_INET6].map(number) {
        for kind in (0..16).filter(|kind| ![libc::SOCK_STREAM, libc::SOCK_DGRAM].contains(kind)) {
            let kind = when(1, MaskedEq(0xf), number(kind))?;
            rules.push(SeccompRule::new(vec![when(0, Eq, family)?, kind])?);
        }
    }
    Ok(rules)
}

/// Returns the arguments for which allowed calls are refused.
#[allow(clippy::unnecessary_cast, reason = "the type of a request differs between C libraries")]
fn bounds() -> Result<CallRules, BackendError> {
    let own = u64::from(std::process::id());
    let executable = || Ok(vec![with_bits(2, number(libc::PROT_EXEC))?]);
    // Set-user-ID and set-group-ID.
    let strange = |argument| Ok(vec![with_bits(argument, 0o4000)?, with_bits(argument, 0o2000)?]);
    let is_process = when(0, SeccompCmpOp::MaskedEq(number(libc::CLONE_THREAD)), 0)?;
    let common = [
        (libc::SYS_mmap, executable()?),
        (libc::SYS_mprotect, executable()?),
        (libc::SYS_clone, vec![SeccompRule::new(vec![is_process])?]),
        (libc::SYS_socket, refused_sockets()?),
        (libc::SYS_socketpair, vec![none_of(0, [number(libc::AF_UNIX)])?]),
        (libc::SYS_fchmod, strange(1)?),
        (libc::SYS_fchmodat, strange(2)?),
        (libc::SYS_ioctl, vec![none_of(1, DEVICE_REQUESTS.map(|request| request as u64))?]),
        (libc::SYS_prctl, vec![none_of(0, PROCESS_OPTIONS.map(number))?]),
        (libc::SYS_prlimit64, vec![none_of(0, [0, own])?]),
        (libc::SYS_sched_setattr, vec![none_of(0, [0])?]),
        (libc::SYS_sched_setscheduler, vec![none_of(1, [libc::SCHED_IDLE, libc::SCHED_OTHER].map(number))?]),
        (libc::SYS_tgkill, vec![none_of(0, [own])?]),
    ];
    #[cfg(target_arch = "x86_64")]
    let old = [
        (libc::SYS_chmod, strange(1)?),
        (libc::SYS_arch_prctl, vec![none_of(0, [ARCH_GET_FS, ARCH_CET_STATUS])?]),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let old = [];
    Ok(common.into_iter().chain(old).collect())
}

/// Requests of arch_prctl(2) that C libraries make for a thread.
#[cfg(target_arch = "x86_64")]
const ARCH_GET_FS: u64 = 0x1003;
#[cfg(target_arch = "x86_64")]
const ARCH_CET_STATUS: u64 = 0x3001;

/// Returns the architecture this program is for; `None` if there are no filters for it.
pub(crate) fn architecture() -> Option<TargetArch> {
    std::env::consts::ARCH.try_into().ok()
}

/// Returns a number of an error as filters have it.
fn error(number: i32) -> SeccompAction {
    SeccompAction::Errno(number.cast_unsigned())
}

/// Returns a filter that does `action` for these calls, and nothing for the others.
pub(crate) fn deny(
    calls: CallRules,
    action: SeccompAction,
    arch: TargetArch,
) -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(calls, SeccompAction::Allow, action, arch)?.try_into()
}

/// Returns rules that match these calls with any arguments.
pub(crate) fn any_arguments<'a>(calls: impl IntoIterator<Item = &'a c_long>) -> CallRules {
    calls.into_iter().map(|call| (*call, Vec::new())).collect()
}

/// Returns the filters for all threads, in the order in which they are applied.
pub(crate) fn for_all(arch: TargetArch) -> Result<[BpfProgram; 3], BackendError> {
    let allowed = any_arguments(ALLOWED.iter().chain(ALLOWED_OLD));
    let allowed = SeccompFilter::new(allowed, error(libc::ENOSYS), SeccompAction::Allow, arch)?.try_into()?;
    let fatal = any_arguments(FATAL.iter().chain(FATAL_OLD));
    let fatal = deny(fatal, SeccompAction::KillProcess, arch)?;
    Ok([fatal, allowed, deny(bounds()?, error(libc::EPERM), arch)?])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_call_is_in_two_lists_and_bounds_are_about_allowed_calls() {
        let allowed: BTreeSet<_> = ALLOWED.iter().chain(ALLOWED_OLD).collect();
        let fatal: BTreeSet<_> = FATAL.iter().chain(FATAL_OLD).collect();
        assert_eq!(allowed.len(), ALLOWED.len() + ALLOWED_OLD.len(), "a call is listed twice");
        assert_eq!(fatal.len(), FATAL.len() + FATAL_OLD.len(), "a call is listed twice");
        assert!(allowed.is_disjoint(&fatal));
        let bounds = bounds().expect("rules");
        assert!(bounds.keys().all(|call| allowed.contains(call)));
    }

    #[test]
    fn there_are_filters_for_both_packaged_architectures() {
        for arch in [TargetArch::x86_64, TargetArch::aarch64] {
            assert!(for_all(arch).is_ok_and(|all| all.iter().all(|filter| filter.len() > 10)));
        }
    }
}
