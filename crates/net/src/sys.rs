//! System calls that neither the standard library nor socket2 offers safely: a few socket options, CPU
//! affinity, and a listening socket that the runtime watches but that connections are accepted from by hand.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use libc::c_int;
use socket2::Socket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Types of which any bytes are a valid value, as the kernel may write them.
///
/// # Safety
/// Any bytes must be a valid value of the type.
pub(crate) unsafe trait Plain: Copy + Default {}

// SAFETY: a number.
unsafe impl Plain for c_int {}

/// The value of `SO_MEMINFO`: bytes that wait to be received, the receive buffer, and what concerns sending.
pub(crate) type MemoryInfo = [u32; 9];

// SAFETY: numbers.
unsafe impl Plain for MemoryInfo {}

/// Reads a socket option. Fields that an older kernel does not write stay zero.
pub(crate) fn get_option<T: Plain>(socket: &impl AsRawFd, level: c_int, name: c_int) -> io::Result<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is a live `T` of the length given, and whatever the kernel writes there is a valid
    // value of it.
    let rc = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, std::ptr::from_mut(&mut value).cast(), &mut len)
    };
    if rc == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Sets a socket option. If `value` holds a pointer, the caller must ensure that the kernel's use of it is
/// sound.
pub(crate) fn set_option<T: Copy>(
    socket: &impl AsRawFd,
    level: c_int,
    name: c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: `value` points to a live `T` and the length given is that of `T`; the kernel only reads it. For
    // a wrong descriptor, level or name it returns an error.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets a socket option whose value is a number.
pub(crate) fn set_number(socket: &impl AsRawFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    set_option(socket, level, name, &value)
}

/// Allows a socket to be bound to an address that no interface has (yet).
pub(crate) fn set_freebind(socket: &Socket, addr: SocketAddr) -> io::Result<()> {
    if addr.is_ipv4() { socket.set_freebind_v4(true) } else { socket.set_freebind_v6(true) }
}

/// The input by which a reuseport program selects the socket.
#[derive(Clone, Copy)]
pub(crate) enum PickBy {
    /// The CPU that handles the packet.
    Cpu,
    /// A random number.
    Random,
}

/// The offset of [`PickBy::Random`] among the kernel's ancillary loads (`SKF_AD_RANDOM`).
const AD_RANDOM: c_int = 56;

/// Attaches a program of three instructions by which the kernel selects among the `sockets` members of this
/// socket's reuseport group: load, take the remainder, return it as the index. It applies to the whole group,
/// present and future.
pub(crate) fn attach_reuseport(socket: &impl AsRawFd, by: PickBy, sockets: u32) -> io::Result<()> {
    let offset = match by {
        PickBy::Cpu => libc::SKF_AD_OFF + libc::SKF_AD_CPU,
        PickBy::Random => libc::SKF_AD_OFF + AD_RANDOM,
    };
    let instruction = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut program = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset as u32),
        instruction(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, sockets),
        instruction(libc::BPF_RET | libc::BPF_A, 0),
    ];
    let description = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // `program` outlives the call, and the kernel copies it.
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &description)
}

/// `SO_DETACH_REUSEPORT_BPF`, which libc does not name on every platform.
const SO_DETACH_REUSEPORT_BPF: c_int = 68;

/// Removes the program of [`attach_reuseport`] from the whole group.
pub(crate) fn detach_reuseport(socket: &impl AsRawFd) -> io::Result<()> {
    set_number(socket, libc::SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, 0)
}

/// Pins the calling thread to the `n`-th CPU it may use, modulo their number.
pub(crate) fn pin_thread(n: usize) -> io::Result<()> {
    // SAFETY: an all-zero `cpu_set_t` is the empty set.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `allowed` is a live `cpu_set_t` and its size is given; 0 means the calling thread.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&allowed), &mut allowed) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: every index is below CPU_SETSIZE, the number of bits in the set.
    let cpus: Vec<usize> =
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &allowed) }).collect();
    let Some(&cpu) = cpus.get(n % cpus.len().max(1)) else {
        return Err(io::Error::other("this thread may use no CPU"));
    };
    // SAFETY: an all-zero `cpu_set_t` is the empty set.
    let mut only: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` is below CPU_SETSIZE.
    unsafe { libc::CPU_SET(cpu, &mut only) };
    // SAFETY: `only` is a live `cpu_set_t` and its size is given.
    if unsafe { libc::sched_setaffinity(0, size_of_val(&only), &only) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Accepts a connection as a nonblocking socket, in one system call where the system has one for it.
pub(crate) fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    #[cfg(target_os = "linux")]
    {
        let (socket, peer) =
            socket2::SockRef::from(listener).accept4(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK)?;
        Ok((socket.into(), peer.as_socket().ok_or(io::ErrorKind::InvalidData)?))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let (stream, peer) = listener.accept()?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok((stream, peer))
    }
}

/// Registers a listening socket with the current runtime. Unlike with the runtime's own listener, an error of
/// accepting can then be distinguished from a waiting connection.
pub(crate) fn watch_listener(socket: TcpListener) -> io::Result<AsyncFd<TcpListener>> {
    // SAFETY: a `TcpListener` owns its descriptor, always returns the same one and closes it only when
    // dropped, which the `AsyncFd` it moves into does after deregistering it.
    unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }.map_err(io::Error::from)
}
