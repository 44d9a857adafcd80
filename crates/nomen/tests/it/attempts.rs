//! What a foreign program would try inside a server: each attempt is a system call that the sandbox must
//! refuse. `sandbox` runs them in processes of their own. If one of them were allowed, it would do no harm.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::process::{CommandExt, parent_id};
use std::process::Command;

use libc::c_long;

use crate::support::free_address;

/// An attempt: its name, whether any user can do it outside the sandbox, and how.
pub(crate) type Attempt = (&'static str, Outside, fn() -> io::Result<()>);

/// Whether an attempt succeeds outside the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outside {
    /// For any user.
    Allowed,
    /// Only for root, on some machines, or not at all: the arguments are such that it cannot do harm.
    Unknown,
}

use Outside::{Allowed, Unknown};

/// Makes a system call with these arguments.
fn call(number: c_long, arguments: [c_long; 5]) -> io::Result<()> {
    let [a, b, c, d, e] = arguments;
    // SAFETY: every pointer that `ATTEMPTS` passes is null or leads to a static; no call that is made writes
    // to memory of Rust, as sizes are 0 or addresses are null.
    let result = unsafe { libc::syscall(number, a, b, c, d, e) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The address of a text.
fn at(text: &'static CStr) -> c_long {
    text.as_ptr() as c_long
}

/// Maps a page with this protection, or maps it as data and then changes it.
fn page(first: i32, then: Option<i32>) -> io::Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address that the kernel chooses; its end is the end of the process.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), 4096, first, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let Some(then) = then else { return Ok(()) };
    // SAFETY: the mapping above, which no value uses.
    if unsafe { libc::mprotect(start, 4096, then) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `sched_attr` of an ordinary thread with slices of 0.1 ms.
static SHORT_SLICES: [u32; 12] = [48, 0, 0, 0, 0, 0, 100_000, 0, 0, 0, 0, 0];

/// Gives a thread short slices of CPU time; 0: the calling one.
fn shorten_slices(thread: c_long) -> io::Result<()> {
    call(libc::SYS_sched_setattr, [thread, SHORT_SLICES.as_ptr() as c_long, 0, 0, 0])
}

fn parent() -> c_long {
    c_long::from(parent_id())
}

/// Opens a socket, and closes it.
fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<()> {
    call(libc::SYS_socket, [family, kind, protocol, 0, 0].map(c_long::from))
}

/// Every attempt. The current folder has `nomen.toml`, `zones/a.test.zone`, `state/`; beside it is
/// `outside/file`.
pub(crate) const ATTEMPTS: &[Attempt] = &[
    // Other programs and processes.
    ("execute a program", Allowed, || Err(Command::new("/bin/true").exec())),
    ("start a program", Allowed, || Command::new("/bin/true").status().map(drop)),
    ("fork", Allowed, || {
        // SIGCHLD is the only flag. The child ends at once, without a return into the test.
        // SAFETY: the child calls nothing but `_exit`.
        match unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } {
            // SAFETY: ends the process.
            0 => unsafe { libc::_exit(0) },
            child if child > 0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }),
    ("trace the parent", Unknown, || call(libc::SYS_ptrace, [0x4206, parent(), 0, 0, 0])),
    ("read the parent's memory", Unknown, || call(libc::SYS_process_vm_readv, [parent(), 0, 0, 0, 0])),
    ("write the parent's memory", Unknown, || call(libc::SYS_process_vm_writev, [parent(), 0, 0, 0, 0])),
    ("signal the parent", Allowed, || call(libc::SYS_kill, [parent(), 0, 0, 0, 0])),
    ("change the slices of the parent", Allowed, || shorten_slices(parent())),
    ("signal a thread of the parent", Allowed, || call(libc::SYS_tgkill, [parent(), parent(), 0, 0, 0])),
    ("take a descriptor of the parent", Unknown, || call(libc::SYS_pidfd_getfd, [0, 0, 0, 0, 0])),
    ("read the parent's environment", Allowed, || {
        fs::read(format!("/proc/{}/environ", parent_id())).map(drop)
    }),
    // Files.
    ("read /etc/shadow", Unknown, || fs::read("/etc/shadow").map(drop)),
    ("read /etc/passwd", Allowed, || fs::read("/etc/passwd").map(drop)),
    ("list the root folder", Allowed, || fs::read_dir("/").map(drop)),
    ("read a file outside", Allowed, || fs::read("../outside/file").map(drop)),
    ("make a file outside", Allowed, || File::create("../outside/new").map(drop)),
    ("make a file beside the configuration", Allowed, || File::create("new").map(drop)),
    ("write the configuration", Allowed, || OpenOptions::new().append(true).open("nomen.toml").map(drop)),
    ("replace the configuration", Allowed, || fs::rename("state/file", "nomen.toml")),
    ("remove the configuration", Allowed, || fs::remove_file("nomen.toml")),
    ("write a zone that nothing changes", Allowed, || {
        OpenOptions::new().append(true).open("zones/a.test.zone").map(drop)
    }),
    ("link a file of the state folder outside", Allowed, || fs::hard_link("state/file", "../outside/linked")),
    ("move a file of the state folder outside", Allowed, || fs::rename("state/file", "../outside/moved")),
    ("link to a file outside", Allowed, || symlink("../../outside/file", "state/link")),
    ("make a set-user-ID file", Allowed, || {
        fs::set_permissions("state/file", fs::Permissions::from_mode(0o4755))
    }),
    ("make a pipe for others", Allowed, || {
        call(libc::SYS_mknodat, [libc::AT_FDCWD.into(), at(c"state/pipe"), 0o010_644, 0, 0])
    }),
    ("write own memory by its file", Allowed, || {
        static BYTE: u8 = 7;
        let memory = OpenOptions::new().read(true).write(true).open("/proc/self/mem")?;
        let address = std::ptr::from_ref(&BYTE) as u64;
        memory.write_all_at(&[7], address)
    }),
    ("open a device", Allowed, || File::open("/dev/zero").map(drop)),
    ("open by handle", Unknown, || call(libc::SYS_open_by_handle_at, [0; 5])),
    // Memory.
    ("map memory to execute", Allowed, || page(libc::PROT_READ | libc::PROT_EXEC, None)),
    ("map memory to write and execute", Allowed, || {
        page(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC, None)
    }),
    ("make memory executable", Allowed, || {
        page(libc::PROT_READ | libc::PROT_WRITE, Some(libc::PROT_READ | libc::PROT_EXEC))
    }),
    ("make a file in memory", Allowed, || call(libc::SYS_memfd_create, [at(c"code"), 0, 0, 0, 0])),
    ("share memory", Allowed, || call(libc::SYS_shmget, [0, 4096, 0o600, 0, 0])),
    ("handle page faults", Unknown, || call(libc::SYS_userfaultfd, [1, 0, 0, 0, 0])),
    ("become readable for debuggers", Allowed, || {
        call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE.into(), 1, 0, 0, 0])
    }),
    ("read as executable", Allowed, || call(libc::SYS_personality, [0xffff_ffff, 0, 0, 0, 0])),
    // Namespaces and file systems.
    ("mount", Unknown, || call(libc::SYS_mount, [0, at(c"/nowhere"), at(c"tmpfs"), 0, 0])),
    ("unmount", Unknown, || call(libc::SYS_umount2, [at(c"/nowhere"), 0, 0, 0, 0])),
    ("change the root folder", Unknown, || call(libc::SYS_chroot, [at(c"/nowhere"), 0, 0, 0, 0])),
    ("swap the root folder", Unknown, || {
        call(libc::SYS_pivot_root, [at(c"/nowhere"), at(c"/nowhere"), 0, 0, 0])
    }),
    ("make a user namespace", Unknown, || call(libc::SYS_unshare, [libc::CLONE_NEWUSER.into(), 0, 0, 0, 0])),
    ("enter a namespace", Unknown, || call(libc::SYS_setns, [-1, 0, 0, 0, 0])),
    // The kernel.
    ("load a BPF program", Unknown, || call(libc::SYS_bpf, [5, 0, 0, 0, 0])),
    ("measure by perf", Unknown, || call(libc::SYS_perf_event_open, [0, 0, -1, -1, 0])),
    ("use keys of the kernel", Allowed, || call(libc::SYS_keyctl, [0, -3, 1, 0, 0])),
    ("load a module", Unknown, || call(libc::SYS_init_module, [0, 0, at(c""), 0, 0])),
    ("load a kernel", Unknown, || call(libc::SYS_kexec_load, [0, 0, 0, -1, 0])),
    ("use io_uring", Unknown, || call(libc::SYS_io_uring_setup, [1, 0, 0, 0, 0])),
    ("restart the machine", Unknown, || call(libc::SYS_reboot, [0, 0, 0, 0, 0])),
    ("set the clock", Unknown, || call(libc::SYS_clock_settime, [0, 0, 0, 0, 0])),
    ("read the kernel's log", Unknown, || call(libc::SYS_syslog, [10, 0, 0, 0, 0])),
    // Users.
    ("become a user", Unknown, || call(libc::SYS_setuid, [65_534, 0, 0, 0, 0])),
    ("take capabilities", Unknown, || call(libc::SYS_capset, [0; 5])),
    // The network.
    ("open a raw socket", Unknown, || socket(libc::AF_INET, libc::SOCK_RAW, 1)),
    ("open a packet socket", Unknown, || socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0)),
    ("open a socket of another family", Unknown, || socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0)),
    ("listen to the kernel's events", Allowed, || {
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_KOBJECT_UEVENT)
    }),
    ("listen at a TCP port that is not configured", Allowed, || {
        // The address is this process's own.
        TcpListener::bind((free_address().ip(), 40_404)).map(drop)
    }),
    ("type into the terminal", Unknown, || {
        call(libc::SYS_ioctl, [0, libc::TIOCSTI as c_long, at(c"x"), 0, 0])
    }),
];

/// What threads that answer queries may not do beyond that.
pub(crate) const OF_NETWORK: &[Attempt] = &[
    ("read a zone file", Allowed, || fs::read("zones/a.test.zone").map(drop)),
    ("make a file in the state folder", Allowed, || File::create("state/new").map(drop)),
    ("remove a file of the state folder", Allowed, || fs::remove_file("state/file")),
    ("move a file of the state folder", Allowed, || fs::rename("state/file", "state/moved")),
];

/// What threads that work on files may not do beyond that.
pub(crate) const OF_FILES: &[Attempt] = &[
    ("open a UDP socket", Allowed, || UdpSocket::bind("127.0.0.1:0").map(drop)),
    ("open a TCP socket", Allowed, || socket(libc::AF_INET, libc::SOCK_STREAM, 0)),
    ("open a Unix socket", Allowed, || socket(libc::AF_UNIX, libc::SOCK_STREAM, 0)),
];

/// What the server itself does, and must still be able to do.
pub(crate) const NEEDED: &[Attempt] = &[
    ("read a zone file", Allowed, || fs::read("zones/a.test.zone").map(drop)),
    ("read the configuration", Allowed, || fs::read("nomen.toml").map(drop)),
    ("read a file of `sandbox-readable`", Allowed, || fs::read("../readable/file").map(drop)),
    ("replace a file in the state folder", Allowed, || {
        fs::write("state/new", "text")?;
        fs::rename("state/new", "state/file")
    }),
    ("make and remove a folder in the state folder", Allowed, || {
        fs::create_dir("state/folder")?;
        fs::remove_dir("state/folder")
    }),
    ("make a file in a folder of `sandbox-writable`", Allowed, || File::create("../writable/new").map(drop)),
    ("append to a log file", Allowed, || {
        OpenOptions::new().create(true).append(true).open("../log/file").map(drop)
    }),
    ("shorten the slices of a thread", Allowed, || shorten_slices(0)),
    ("start a thread", Allowed, || {
        let thread = std::thread::Builder::new().spawn(|| 7)?;
        thread.join().map(drop).map_err(|_| io::Error::other("it ended badly"))
    }),
    ("open sockets of DNS", Allowed, || {
        UdpSocket::bind("127.0.0.1:0")
            .and_then(|_| UdpSocket::bind("[::1]:0").or_else(|_| UdpSocket::bind("127.0.0.1:0")))?;
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)
    }),
    ("connect over TCP from an own address", Allowed, || {
        use rustix::net::{AddressFamily, SocketType, bind, socket};
        let stream = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        Ok(bind(&stream, &std::net::SocketAddr::from(([127, 0, 0, 1], 0)))?)
    }),
];
