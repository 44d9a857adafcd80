//! `bpf(2)`: creates maps, loads the program, attaches it to an interface. All of it ends with its
//! descriptors: the kernel detaches the program when the last descriptor of its link is closed, also when the
//! process dies.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::program::{Instruction, SLOT, SLOTS};

/// Commands.
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE: libc::c_long = 2;
const PROGRAM_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;

const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_XSK: u32 = 17;
const PROGRAM_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// The map's value can be mapped into this process.
const MAPPABLE: u32 = 1 << 10;

/// How the program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Attach {
    /// Before the kernel builds its own packet of a frame (`XDP_FLAGS_SKB_MODE`: after).
    Generic = 1 << 1,
    /// In the driver (`XDP_FLAGS_DRV_MODE`).
    Driver = 1 << 2,
}

/// The attribute of `MAP_CREATE`, as far as used.
#[repr(C)]
struct MapAttribute {
    kind: u32,
    key_size: u32,
    value_size: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; 16],
}

/// The attribute of `MAP_UPDATE`.
#[repr(C)]
struct ElementAttribute {
    map: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The attribute of `PROGRAM_LOAD`, as far as used.
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

/// The attribute of `LINK_CREATE`, as far as used.
#[repr(C)]
struct LinkAttribute {
    program: u32,
    target: u32,
    attach: u32,
    flags: u32,
}

/// The name by which the maps and the program are listed.
const NAME: [u8; 16] = *b"nomen_udp\0\0\0\0\0\0\0";
const LICENCE: &[u8] = b"Apache-2.0 OR MIT\0";

/// Calls `bpf`; the caller owns a result that is a descriptor.
///
/// # Safety
/// `T` is the attribute of `command`, every pointer in it is valid for what the command reads there, and the
/// command writes nowhere else.
unsafe fn bpf<T>(command: libc::c_long, attribute: &T) -> io::Result<RawFd> {
    // SAFETY: the attribute lives and its size is given; the rest is the caller's promise.
    let rc = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attribute), size_of::<T>()) };
    RawFd::try_from(rc).ok().filter(|rc| *rc >= 0).ok_or_else(io::Error::last_os_error)
}

/// # Safety
/// As for [`bpf`], and the command returns a new descriptor.
unsafe fn bpf_open<T>(command: libc::c_long, attribute: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise is that of `bpf`.
    let descriptor = unsafe { bpf(command, attribute) }?;
    // SAFETY: the descriptor is new, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn map(kind: u32, value_size: usize, entries: u32, flags: u32) -> io::Result<OwnedFd> {
    let value_size = value_size as u32;
    let attribute =
        MapAttribute { kind, key_size: 4, value_size, entries, flags, inner: 0, node: 0, name: NAME };
    // SAFETY: the attribute of this command, without pointers.
    unsafe { bpf_open(MAP_CREATE, &attribute) }
}

/// Creates a map from receive queues to sockets.
pub(super) fn sockets_map(queues: u32) -> io::Result<OwnedFd> {
    map(MAP_TYPE_XSK, 4, queues, 0)
}

/// Directs frames of `queue` to `socket`.
pub(super) fn insert_socket(map: &OwnedFd, queue: u32, socket: &impl AsRawFd) -> io::Result<()> {
    let value = socket.as_raw_fd();
    let attribute = ElementAttribute {
        map: map.as_raw_fd() as u32,
        _pad: 0,
        key: (&raw const queue).expose_provenance() as u64,
        value: (&raw const value).expose_provenance() as u64,
        flags: 0,
    };
    // SAFETY: the attribute of this command; key and value are live numbers of four bytes, the sizes of the
    // map.
    unsafe { bpf(MAP_UPDATE, &attribute) }.map(drop)
}

/// Loads the program.
pub(super) fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    let attribute = ProgramAttribute {
        kind: PROGRAM_TYPE_XDP,
        count: program.len() as u32,
        instructions: program.as_ptr().expose_provenance() as u64,
        licence: LICENCE.as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        version: 0,
        flags: 0,
        name: NAME,
        interface: 0,
        attach: ATTACH_XDP,
    };
    // SAFETY: the attribute of this command; the instructions have the kernel's layout and the given number,
    // the licence ends with a zero, and there is no log to write.
    unsafe { bpf_open(PROGRAM_LOAD, &attribute) }
}

/// Attaches the program to an interface for as long as the returned descriptor is open.
pub(super) fn attach(program: &OwnedFd, interface: u32, how: Attach) -> io::Result<OwnedFd> {
    let attribute = LinkAttribute {
        program: program.as_raw_fd() as u32,
        target: interface,
        attach: ATTACH_XDP,
        flags: how as u32,
    };
    // SAFETY: the attribute of this command, without pointers.
    unsafe { bpf_open(LINK_CREATE, &attribute) }
}

/// The counts of frames that the program let pass, in memory that the kernel writes and this process reads.
pub(super) struct Passed {
    start: NonNull<u8>,
    map: OwnedFd,
}

// SAFETY: the memory is only read, by atomic loads, from any thread.
unsafe impl Send for Passed {}
// SAFETY: as above.
unsafe impl Sync for Passed {}

impl Passed {
    /// Creates a map of counters.
    pub(super) fn new() -> io::Result<Self> {
        let map = map(MAP_TYPE_ARRAY, SLOTS * SLOT, 1, MAPPABLE)?;
        // SAFETY: a new mapping wherever there is room touches no memory in use.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                SLOTS * SLOT,
                libc::PROT_READ,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED.cast() => Ok(Passed { start, map }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn map(&self) -> &OwnedFd {
        &self.map
    }

    /// Returns the number of frames of this queue that passed.
    pub(super) fn of(&self, queue: u32) -> u64 {
        let slot = queue as usize % SLOTS * SLOT;
        // SAFETY: the slot lies within the mapping, which is aligned to pages and lives as long as `self`;
        // the kernel only changes it atomically.
        unsafe { self.start.add(slot).cast::<AtomicU64>().as_ref() }.load(Ordering::Relaxed)
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length and nothing borrows from it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), SLOTS * SLOT) };
    }
}
