//! System calls that the standard library does not provide safely: batched datagrams, CPU clocks and counters
//! of other threads, signals, pinning. All `unsafe` code of this crate is here.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem;
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_interrupt(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Makes SIGINT, SIGTERM and SIGHUP only set a flag, so that servers and namespaces are removed first.
pub(crate) fn catch_interrupts() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only stores to an atomic, which is async-signal-safe; the pointer has the type
        // `signal` expects and lives for the whole program.
        unsafe { libc::signal(signal, note_interrupt as *const () as libc::sighandler_t) };
    }
}

/// Whether the user has asked to stop.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Sends SIGTERM to a process, as its operator would. An exited process is no error.
pub(crate) fn terminate(process: u32) {
    let Ok(process) = libc::pid_t::try_from(process) else { return };
    if process > 1 {
        // SAFETY: kill(2) reads no memory of ours.
        unsafe { libc::kill(process, libc::SIGTERM) };
    }
}

/// Kills the whole process group. A group without processes is no error.
pub(crate) fn kill_group(group: u32) {
    let Ok(group) = libc::pid_t::try_from(group) else { return };
    if group > 1 {
        // SAFETY: kill(2) reads no memory of ours.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}

/// Binds a thread to one CPU; thread 0 is the calling one. Threads and processes that it starts later are
/// bound as well.
pub(crate) fn pin(thread: u32, cpu: usize) -> io::Result<()> {
    // SAFETY: an all-zero cpu_set_t is a valid empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    if cpu >= size_of_val(&set) * 8 {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: `cpu` is below the number of bits in the set, checked above.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the pointer and the size describe `set`.
    check(unsafe { libc::sched_setaffinity(thread as libc::pid_t, size_of_val(&set), &set) }).map(|_| ())
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Makes closing the stream send a reset, so that its port is free again at once.
pub(crate) fn reset_on_close(stream: &impl AsRawFd) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the pointer and the size describe `linger`, which the kernel only reads.
    check(unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            ptr::from_ref(&linger).cast(),
            size_of_val(&linger) as libc::socklen_t,
        )
    })
    .map(|_| ())
}

/// Returns the number of bytes written to the stream that the peer's kernel has not acknowledged yet.
pub(crate) fn unacknowledged(stream: &TcpStream) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ, of a socket SIOCOUTQ, writes one int to the pointer, which is to a live one.
    check(unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, ptr::from_mut(&mut bytes)) })?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Requests socket buffers of this many bytes, above the system's limit where permitted. Smaller buffers are
/// no error.
pub(crate) fn widen_buffers(socket: &impl AsRawFd, bytes: usize) {
    let wanted = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let set = |option: libc::c_int| {
        // SAFETY: the pointer and the size describe `wanted`, which the kernel only reads.
        check(unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                ptr::from_ref(&wanted).cast(),
                size_of_val(&wanted) as libc::socklen_t,
            )
        })
    };
    for (forced, asked) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        let _ = set(forced).or_else(|_| set(asked));
    }
}

/// Makes the kernel record when each datagram reaches this socket; see [`receive_stamped`].
pub(crate) fn stamp_arrivals(socket: &UdpSocket) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the pointer and the size describe `on`, which the kernel only reads.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            ptr::from_ref(&on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    })
    .map(|_| ())
}

/// Receives one datagram, with the time at which it reached the socket (CLOCK_REALTIME since the epoch),
/// however late this thread ran. Honours the socket's read timeout.
pub(crate) fn receive_stamped(
    socket: &UdpSocket,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<Duration>)> {
    #[repr(C, align(8))]
    struct Control([u8; 128]);
    let mut control = Control([0; 128]);
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: msghdr is plain data for which all zeros is valid.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    // SAFETY: the header points at live memory with its true sizes.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, 0) };
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel filled in the header; CMSG_FIRSTHDR checks the length against the control buffer.
    let first = unsafe { libc::CMSG_FIRSTHDR(&header) };
    let mut stamp = None;
    // SAFETY: `first` is null or points at a whole control message inside the aligned buffer.
    if let Some(message) = unsafe { first.as_ref() }
        && message.cmsg_level == libc::SOL_SOCKET
        && message.cmsg_type == libc::SCM_TIMESTAMPNS
    {
        // SAFETY: a message of this type carries one timespec, which may lie unaligned.
        let time: libc::timespec = unsafe { ptr::read_unaligned(libc::CMSG_DATA(first).cast()) };
        stamp = Some(Duration::new(time.tv_sec as u64, time.tv_nsec as u32));
    }
    Ok((received as usize, stamp))
}

/// Moves only the calling thread into the network namespace that this file refers to.
pub(crate) fn enter_network(namespace: &File) -> io::Result<()> {
    // SAFETY: setns(2) reads no memory of ours; the descriptor is open.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(|_| ())
}

/// Maximum number of datagrams in one batch.
pub(crate) const BATCH: usize = 64;
/// Maximum size of a datagram in bytes; longer ones are truncated.
pub(crate) const SLOT: usize = 2048;

/// Source or destination of a datagram.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    address: libc::sockaddr_storage,
    length: libc::socklen_t,
}

/// Memory for a batch of datagrams with their peers' addresses.
pub(crate) struct Batch {
    buffers: Vec<[u8; SLOT]>,
    lengths: [usize; BATCH],
    peers: Vec<libc::sockaddr_storage>,
    peer_lengths: [libc::socklen_t; BATCH],
}

impl Batch {
    /// Creates an empty batch.
    pub(crate) fn new() -> Batch {
        // SAFETY: sockaddr_storage is plain data for which all zeros is valid (family AF_UNSPEC).
        let empty: libc::sockaddr_storage = unsafe { mem::zeroed() };
        Batch {
            buffers: vec![[0; SLOT]; BATCH],
            lengths: [0; BATCH],
            peers: vec![empty; BATCH],
            peer_lengths: [0; BATCH],
        }
    }

    /// Waits for at least one datagram and receives up to `BATCH` available ones; returns their number.
    pub(crate) fn receive(&mut self, socket: &impl AsRawFd) -> io::Result<usize> {
        let received = self.with_headers(BATCH, SLOT, |headers| {
            // SAFETY: every header points at a live buffer and address of this batch with their true sizes.
            unsafe {
                libc::recvmmsg(
                    socket.as_raw_fd(),
                    headers.as_mut_ptr(),
                    BATCH as libc::c_uint,
                    libc::MSG_WAITFORONE as _,
                    ptr::null_mut(),
                )
            }
        })?;
        Ok(received)
    }

    /// Sends the first `count` datagrams back to their sources; returns how many the kernel accepted.
    pub(crate) fn send(&mut self, socket: &impl AsRawFd, count: usize) -> io::Result<usize> {
        let count = count.min(BATCH);
        self.with_headers(count, 0, |headers| {
            // SAFETY: every header points at a live buffer and address of this batch; lengths are within
            // them.
            unsafe {
                libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), headers.len() as libc::c_uint, 0)
            }
        })
    }

    /// Returns the source of the datagram at `index`.
    pub(crate) fn peer(&self, index: usize) -> Peer {
        Peer { address: self.peers[index], length: self.peer_lengths[index] }
    }

    /// Sets the destination of the datagram at `index`.
    pub(crate) fn set_peer(&mut self, index: usize, to: Peer) {
        (self.peers[index], self.peer_lengths[index]) = (to.address, to.length);
    }

    /// Returns the datagram at `index`: its whole slot and the length in use, both mutable.
    pub(crate) fn slot(&mut self, index: usize) -> (&mut [u8; SLOT], &mut usize) {
        (&mut self.buffers[index], &mut self.lengths[index])
    }

    /// Builds headers for the first `count` slots, runs the call and stores the new lengths. With `capacity`
    /// 0 the slots are sent with their current lengths.
    fn with_headers(
        &mut self,
        count: usize,
        capacity: usize,
        call: impl FnOnce(&mut [libc::mmsghdr]) -> libc::c_int,
    ) -> io::Result<usize> {
        // SAFETY: iovec and mmsghdr are plain data for which all zeros (null pointers, zero lengths) is
        // valid.
        let mut vectors: [libc::iovec; BATCH] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        for i in 0..count {
            let length = if capacity == 0 { self.lengths[i].min(SLOT) } else { capacity.min(SLOT) };
            vectors[i] = libc::iovec { iov_base: self.buffers[i].as_mut_ptr().cast(), iov_len: length };
            let header = &mut headers[i].msg_hdr;
            header.msg_name = ptr::from_mut(&mut self.peers[i]).cast();
            header.msg_namelen = if capacity == 0 {
                self.peer_lengths[i]
            } else {
                size_of::<libc::sockaddr_storage>() as libc::socklen_t
            };
            header.msg_iov = &mut vectors[i];
            header.msg_iovlen = 1;
        }
        let done = check(call(&mut headers[..count]))? as usize;
        if capacity != 0 {
            for (i, header) in headers.iter().enumerate().take(done) {
                self.lengths[i] = header.msg_len as usize;
                self.peer_lengths[i] = header.msg_hdr.msg_namelen;
            }
        }
        Ok(done)
    }
}

/// Calls `bpf`, and returns its result.
///
/// # Safety
/// `T` is the attribute of `command`, every pointer in it is valid for what the command reads there, and the
/// command writes nowhere.
unsafe fn bpf<T>(command: libc::c_int, attribute: &T) -> io::Result<libc::c_long> {
    // SAFETY: the attribute lives and its size is given; the rest is the caller's promise.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_ref(attribute), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// # Safety
/// As for [`bpf`], and the command returns a new descriptor.
unsafe fn bpf_open<T>(command: libc::c_int, attribute: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise is that of `bpf`.
    let descriptor = unsafe { bpf(command, attribute) }?;
    // SAFETY: the descriptor is new, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) })
}

/// Creates a BPF map: type, bytes of a key and of a value, number of entries.
pub(crate) fn bpf_map(kind: u32, key: u32, value: u32, entries: u32) -> io::Result<OwnedFd> {
    // `BPF_MAP_CREATE`, whose attribute begins with these.
    // SAFETY: the attribute of this command, without pointers.
    unsafe { bpf_open(0, &[kind, key, value, entries, 0]) }
}

/// The attribute of `BPF_PROG_LOAD`, up to the last used field.
#[repr(C)]
struct ProgramAttribute {
    kind: u32,
    count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

/// Attach type of programs and links: `BPF_XDP`.
const ATTACH_XDP: u32 = 37;

/// Loads an XDP program of these instructions.
pub(crate) fn bpf_program(instructions: &[u64]) -> io::Result<OwnedFd> {
    let licence = c"Apache-2.0 OR MIT";
    let attribute = ProgramAttribute {
        kind: 6, // BPF_PROG_TYPE_XDP
        count: instructions.len() as u32,
        instructions: instructions.as_ptr().expose_provenance() as u64,
        licence: licence.as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        version: 0,
        flags: 0,
        name: [0; 16],
        interface: 0,
        attach: ATTACH_XDP,
    };
    // SAFETY: the attribute of `BPF_PROG_LOAD`; an instruction is eight bytes, there are as many as said, the
    // licence ends with a zero, and there is no log to write.
    unsafe { bpf_open(5, &attribute) }
}

/// Attaches a program to an interface, in the driver or else behind it, as long as the descriptor or a pin
/// exists.
pub(crate) fn bpf_attach(program: &OwnedFd, interface: u32) -> io::Result<OwnedFd> {
    // `BPF_LINK_CREATE`, with `XDP_FLAGS_DRV_MODE` and then with `XDP_FLAGS_SKB_MODE`.
    let attach = |flags: u32| {
        // SAFETY: the attribute of this command, without pointers.
        unsafe { bpf_open(28, &[program.as_raw_fd() as u32, interface, ATTACH_XDP, flags]) }
    };
    attach(1 << 2).or_else(|_| attach(1 << 1))
}

/// The attribute of `BPF_OBJ_PIN`, up to the last used field.
#[repr(C)]
struct PinAttribute {
    path: u64,
    object: u32,
    flags: u32,
}

/// Pins a map or a link to a path in a BPF file system.
pub(crate) fn bpf_pin(object: &OwnedFd, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let attribute = PinAttribute {
        path: path.as_ptr().expose_provenance() as u64,
        object: object.as_raw_fd() as u32,
        flags: 0,
    };
    // SAFETY: the attribute of `BPF_OBJ_PIN`; the path lives and ends with a zero.
    unsafe { bpf(6, &attribute) }.map(drop)
}

/// The layout of `struct perf_event_attr` up to its fifth version, which every kernel since 4.1 accepts.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct EventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_kind: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_registers_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_registers_interrupt: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;

fn open_event(thread: u32, attributes: &EventAttributes) -> io::Result<OwnedFd> {
    // SAFETY: the attributes are a live struct whose `size` field is its true size; the kernel only reads it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            ptr::from_ref(attributes),
            thread as libc::pid_t,
            -1 as libc::c_int,
            -1 as libc::c_int,
            8 as libc::c_ulong, // PERF_FLAG_FD_CLOEXEC
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a fresh descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(result as RawFd) })
}

/// A hardware counter of one thread.
pub(crate) struct HardwareCounter(OwnedFd);

/// Event of a hardware counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// CPU cycles.
    Cycles = 0,
    /// Instructions retired.
    Instructions = 1,
}

impl HardwareCounter {
    /// Starts counting for a thread, in user space only or everywhere. Fails on machines without counters,
    /// such as most virtual machines.
    pub(crate) fn open(thread: u32, event: Event, user_only: bool) -> io::Result<HardwareCounter> {
        let attributes = EventAttributes {
            kind: 0,
            size: size_of::<EventAttributes>() as u32,
            config: event as u64,
            flags: EXCLUDE_HYPERVISOR | if user_only { EXCLUDE_KERNEL } else { 0 },
            ..EventAttributes::default()
        };
        open_event(thread, &attributes).map(HardwareCounter)
    }

    /// Returns the count so far.
    pub(crate) fn read(&self) -> io::Result<u64> {
        let mut count = 0u64;
        // SAFETY: the buffer is 8 bytes long and alive; read_format 0 makes the kernel write exactly one u64.
        let got = unsafe { libc::read(self.0.as_raw_fd(), ptr::from_mut(&mut count).cast(), 8) };
        if got == 8 { Ok(count) } else { Err(io::Error::last_os_error()) }
    }
}

/// Nanoseconds of CPU time between two samples of [`UserClock`]; odd, so that it does not beat with other
/// periods.
const SAMPLE_PERIOD: u64 = 199_999;
const RING_PAGES: usize = 512;
const PAGE: usize = 4096;
/// Offset of `data_head` in the first page of the ring (`struct perf_event_mmap_page`).
const DATA_HEAD: usize = 1024;
/// Size of one sample in bytes: with `sample_type` 0 only its header.
const SAMPLE_BYTES: u64 = 8;

/// Estimates the user-space CPU time of one thread by sampling its CPU clock 5,000 times per second.
///
/// The kernel's own split of user and system time is sampled by the timer tick, 100 to 1,000 times per
/// second, which is too coarse for servers that spend a twentieth of a microsecond per query in user space.
pub(crate) struct UserClock {
    _event: OwnedFd,
    ring: *mut u8,
}

impl UserClock {
    /// Starts sampling a thread.
    pub(crate) fn open(thread: u32) -> io::Result<UserClock> {
        let attributes = EventAttributes {
            kind: 1, // PERF_TYPE_SOFTWARE; config 0 is PERF_COUNT_SW_CPU_CLOCK
            size: size_of::<EventAttributes>() as u32,
            sample_period: SAMPLE_PERIOD,
            flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
            ..EventAttributes::default()
        };
        let event = open_event(thread, &attributes)?;
        // SAFETY: a fresh shared mapping of the event's ring, placed by the kernel; the size is 1 + 2ⁿ pages.
        let ring = unsafe {
            libc::mmap(
                ptr::null_mut(),
                (1 + RING_PAGES) * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if ring == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(UserClock { _event: event, ring: ring.cast() })
    }

    /// Returns the user-space nanoseconds since the start, or `None` once the ring is full and samples may be
    /// missing.
    pub(crate) fn nanoseconds(&self) -> Option<u64> {
        // SAFETY: the mapping covers the first page, `DATA_HEAD` is 8-aligned inside it, and the kernel
        // writes the field as one aligned 64-bit store.
        let head = unsafe { &*self.ring.add(DATA_HEAD).cast::<AtomicU64>() }.load(Ordering::Acquire);
        let full = head + SAMPLE_BYTES * 2 >= (RING_PAGES * PAGE) as u64;
        (!full).then_some(head / SAMPLE_BYTES * SAMPLE_PERIOD)
    }
}

impl Drop for UserClock {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly the mapping made in `open`; no reference into it outlives `nanoseconds`.
        unsafe { libc::munmap(self.ring.cast(), (1 + RING_PAGES) * PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_carries_what_plain_sockets_send() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        for i in 0..3u8 {
            client.send(&[i; 20]).unwrap();
        }
        let mut batch = Batch::new();
        let mut seen = 0;
        while seen < 3 {
            let count = batch.receive(&server).unwrap();
            for i in 0..count {
                let (bytes, length) = batch.slot(i);
                assert_eq!(*length, 20);
                assert_eq!(bytes[0] as usize, seen + i);
                *length = 10;
            }
            assert_eq!(batch.send(&server, count).unwrap(), count);
            seen += count;
        }
        let mut buffer = [0; 64];
        for i in 0..3u8 {
            assert_eq!(client.recv(&mut buffer).unwrap(), 10);
            assert_eq!(buffer[0], i);
        }
    }

    #[test]
    fn arrivals_are_stamped_between_sending_and_receiving() {
        let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        stamp_arrivals(&server).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let before = now();
        client.send_to(b"hello", server.local_addr().unwrap()).unwrap();
        let mut buffer = [0; 16];
        let (length, stamp) = receive_stamped(&server, &mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"hello");
        let stamp = stamp.unwrap();
        assert!(before <= stamp && stamp <= now(), "{before:?} {stamp:?}");
    }

    #[test]
    fn user_clock_sees_a_busy_thread() {
        // SAFETY: gettid takes and touches nothing.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        let Ok(clock) = UserClock::open(thread) else { return };
        let start = std::time::Instant::now();
        let mut x = 1u64;
        while start.elapsed().as_millis() < 100 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        let user = clock.nanoseconds().unwrap();
        // The machine may be shared, so only a wide upper bound and "not nothing" are certain.
        assert!(user > 1_000_000 && user < 200_000_000, "{user}");
    }
}
