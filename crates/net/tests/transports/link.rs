//! Two network namespaces with a veth pair between them, and raw frames on the client's end. Needs root and
//! `ip`; skips the test where either is missing, which fails it if `NOTHING_MISSING` is set.

use std::fs::File;
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use socket2::{MaybeUninitSlice, MsgHdrMut, Socket};

/// The pair; deleted when dropped. The client has the addresses 198.18.9.1 and fd00:9::1, the server those
/// that end in 2, and its link address is [`SERVER_LINK`].
pub(crate) struct VethPair {
    client: String,
    server: String,
    _alone: MutexGuard<'static, ()>,
}

/// One pair at a time: a child process holds all our descriptors until it runs its program, and a socket or
/// an attached program that another test has just closed would still exist for that moment.
static ALONE: Mutex<()> = Mutex::new(());

pub(crate) const CLIENT_LINK: [u8; 6] = [2, 0, 0, 0, 9, 1];
pub(crate) const SERVER_LINK: [u8; 6] = [2, 0, 0, 0, 9, 2];
pub(crate) const SERVER_INTERFACE: &str = "xdp-s";

impl VethPair {
    /// Creates the pair with this many queues each way; returns `None`, with the reason printed, where that
    /// is not permitted.
    pub(crate) fn make(queues: u32) -> Option<VethPair> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (client, server) = (format!("xdp-test-c-{id}"), format!("xdp-test-s-{id}"));
        let link = VethPair { client, server, _alone: alone };
        let (c, s) = (&link.client, &link.server);
        let mut commands = format!("netns add {c}\nnetns add {s}\n");
        commands += &format!(
            "link add xdp-c netns {c} address 02:00:00:00:09:01 numrxqueues {queues} numtxqueues {queues} type veth \
             peer name xdp-s netns {s} address 02:00:00:00:09:02 numrxqueues {queues} numtxqueues {queues}\n"
        );
        let made = ip(&[], &commands).and_then(|()| link.configure(c, "xdp-c", 1)).and_then(|()| {
            // Where interfaces refuse IPv6 addresses nothing here can be tested.
            link.configure(s, SERVER_INTERFACE, 2)
        });
        match made {
            Ok(()) => Some(link),
            Err(reason) => {
                testkit::left_out(&format!("network namespaces cannot be had here: {}", reason.trim()));
                None
            }
        }
    }

    fn configure(&self, namespace: &str, interface: &str, end: u32) -> Result<(), String> {
        let commands = format!(
            "link set lo up\nlink set {interface} up\naddr add 198.18.9.{end}/24 dev {interface}\n\
             addr add fd00:9::{end}/64 dev {interface} nodad\n"
        );
        ip(&["-n", namespace], &commands)
    }

    /// Runs `f` on a thread in the client's namespace.
    pub(crate) fn client<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        inside(&self.client, f)
    }

    /// Runs `f` on a thread in the server's namespace.
    pub(crate) fn server<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        inside(&self.server, f)
    }

    /// Whether a program is attached to the server's interface.
    pub(crate) fn attached(&self) -> bool {
        let show = Command::new("ip").args(["-n", &self.server, "link", "show", SERVER_INTERFACE]).output();
        String::from_utf8_lossy(&show.unwrap().stdout).contains("prog/xdp")
    }

    /// Sets the MTU of both ends.
    pub(crate) fn set_mtu(&self, mtu: u32) {
        for (namespace, interface) in [(&self.client, "xdp-c"), (&self.server, SERVER_INTERFACE)] {
            ip(&["-n", namespace], &format!("link set {interface} mtu {mtu}\n")).unwrap();
        }
    }

    /// Adds interfaces of a VLAN to both ends, with addresses in 198.18.7.0/24.
    pub(crate) fn add_vlan(&self, id: u16) -> Result<(), String> {
        for (namespace, interface, end) in [(&self.client, "xdp-c", 1), (&self.server, SERVER_INTERFACE, 2)] {
            let commands = format!(
                "link add link {interface} name vlan{id} type vlan id {id}\nlink set vlan{id} up\n\
                 addr add 198.18.7.{end}/24 dev vlan{id}\n"
            );
            ip(&["-n", namespace], &commands)?;
        }
        Ok(())
    }

    /// Deletes the pair of interfaces.
    pub(crate) fn cut(&self) {
        ip(&["-n", &self.server], "link del xdp-s\n").unwrap();
    }
}

impl Drop for VethPair {
    fn drop(&mut self) {
        for name in [&self.client, &self.server] {
            let _ = ip(&[], &format!("netns del {name}\n"));
        }
    }
}

/// Runs commands with `ip`, one a line.
fn ip(arguments: &[&str], commands: &str) -> Result<(), String> {
    let child = Command::new("ip")
        .args(arguments)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|e| format!("ip: {e}"))?;
    child.stdin.take().unwrap().write_all(commands.as_bytes()).map_err(|e| e.to_string())?;
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn inside<T: Send>(namespace: &str, f: impl FnOnce() -> T + Send) -> T {
    let file = File::open(format!("/run/netns/{namespace}")).unwrap();
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            // SAFETY: no pointers; only this thread changes its namespace.
            assert_eq!(unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
            f()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Frames on the client's end of the pair.
pub(crate) struct Frames(Socket);

/// `SOL_PACKET`, `PACKET_AUXDATA` and the flag for a stripped tag.
const SOL_PACKET: i32 = 263;
const PACKET_AUXDATA: i32 = 8;
const TAG_VALID: u32 = 1 << 4;

impl Frames {
    /// Opens a packet socket; to be called in the client's namespace.
    pub(crate) fn open() -> Frames {
        let all = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: no pointers.
        let descriptor = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, all.into()) };
        assert!(descriptor >= 0);
        // SAFETY: a new descriptor.
        let socket = unsafe { Socket::from_raw_fd(descriptor) };
        // SAFETY: a name that ends in zero.
        let index = unsafe { libc::if_nametoindex(c"xdp-c".as_ptr()) };
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: all,
            sll_ifindex: index as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let one: i32 = 1;
        // SAFETY: a live address and a live number, with their lengths.
        unsafe {
            let len = size_of_val(&address) as u32;
            assert_eq!(libc::bind(descriptor, (&raw const address).cast(), len), 0);
            let rc = libc::setsockopt(descriptor, SOL_PACKET, PACKET_AUXDATA, (&raw const one).cast(), 4);
            assert_eq!(rc, 0);
        }
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        Frames(socket)
    }

    pub(crate) fn send(&self, frame: &[u8]) {
        assert_eq!(self.0.send(frame).unwrap(), frame.len());
    }

    /// Returns the next UDP frame to the client, with its tag restored; `None` after a timeout.
    pub(crate) fn receive(&self) -> Option<Vec<u8>> {
        loop {
            let (mut data, mut control) = ([MaybeUninit::new(0_u8); 2048], [MaybeUninit::new(0_u8); 64]);
            let mut buffers = [MaybeUninitSlice::new(&mut data)];
            let mut message = MsgHdrMut::new().with_buffers(&mut buffers).with_control(&mut control);
            let n = self.0.recvmsg(&mut message, 0).ok()?;
            let used = message.control_len();
            let read = |bytes: &[MaybeUninit<u8>]| -> Vec<u8> {
                // SAFETY: all bytes were initialised.
                bytes.iter().map(|o| unsafe { o.assume_init() }).collect()
            };
            let (mut frame, control) = (read(&data[..n]), read(&control[..used]));
            // The header of the control message, then status, two lengths, two offsets, tag and its type.
            let status = u32::from_ne_bytes(control[16..20].try_into().unwrap());
            if status & TAG_VALID != 0 {
                let tag = u16::from_ne_bytes(control[32..34].try_into().unwrap());
                let kind = u16::from_ne_bytes(control[34..36].try_into().unwrap());
                frame.splice(12..12, [kind.to_be_bytes(), tag.to_be_bytes()].concat());
            }
            let ip = if frame[12..14] == [0x81, 0] { 18 } else { 14 };
            let protocol = match frame[ip - 2..ip] {
                [8, 0] => frame[ip + 9],
                [0x86, 0xdd] => frame[ip + 6],
                _ => 0,
            };
            if frame[..6] == CLIENT_LINK && protocol == 17 {
                return Some(frame);
            }
        }
    }
}
