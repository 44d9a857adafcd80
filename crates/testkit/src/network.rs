//! Network namespaces for tests: a test runs its own program again in a namespace, with only the ignored test
//! that it names.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// Environment variable that is set for tests inside a namespace.
const INSIDE: &str = "NOMEN_TEST_INSIDE";

fn unshare(program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net"]).arg(program).args(arguments).env(INSIDE, "1");
    command.envs(environment.iter().copied()).output().expect("unshare runs")
}

/// Whether network namespaces can be created here; if not, the test is skipped.
///
/// # Panics
/// If `unshare` cannot be run, or `NOTHING_MISSING` is set: tests call this.
pub fn is_to_be_had() -> bool {
    let is_there = unshare("true".as_ref(), &[], &[]).status.success();
    if !is_there {
        crate::left_out("network namespaces cannot be had here");
    }
    is_there
}

/// Runs an ignored test of this program in a network namespace that has only loopback, where it may use any
/// address and port. Returns the test's output.
///
/// # Panics
/// If the test fails: tests call this.
pub fn run_inside(test: &str, environment: &[(&str, &str)]) -> String {
    let own: PathBuf = std::env::current_exe().expect("this program");
    let output = unshare(&own, &["--exact", test, "--ignored", "--nocapture"], environment);
    let [said, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "{said}{errors}");
    assert!(said.contains("1 passed"), "{said}");
    said.into_owned()
}

/// Runs an ignored test of this program in a namespace, or skips it where namespaces cannot be created.
///
/// # Panics
/// If the test fails: tests call this.
pub fn in_a_network(test: &str) {
    if !crate::has_programs(&["unshare", "ip"]) {
        return;
    }
    if is_to_be_had() {
        run_inside(test, &[]);
    }
}

/// Sets up a test in a namespace: brings loopback up. Outside, it would change the machine's own network.
///
/// # Panics
/// Outside: tests call this.
pub fn inside() {
    assert!(std::env::var_os(INSIDE).is_some(), "runs in a network namespace only: see `in_a_network`");
    ip("link set lo up");
}

/// Runs `ip` with these arguments.
///
/// # Panics
/// If it fails: tests call this.
pub fn ip(command: &str) {
    let output = Command::new("ip").args(command.split(' ')).output().expect("ip runs");
    assert!(output.status.success(), "ip {command}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Adds an address to loopback.
///
/// # Panics
/// If it cannot have it: tests call this.
pub fn add_address(address: IpAddr) {
    match address {
        IpAddr::V4(_) => ip(&format!("address add {address}/32 dev lo")),
        IpAddr::V6(_) => ip(&format!("-6 address add {address}/128 dev lo nodad")),
    }
}

/// Routes all other addresses to loopback, where packets to them are dropped silently.
///
/// # Panics
/// If there is no such route: tests call this.
pub fn swallow_the_rest() {
    ip("route add default dev lo");
    ip("-6 route add default dev lo");
}

/// Returns a server's reply to a query, and the delay before it; `None` for no reply.
pub type ReplyFn = dyn Fn(&[u8]) -> Option<(Vec<u8>, Duration)> + Send + Sync;

/// An open port of a test's server; closes when dropped.
pub struct Port {
    at: SocketAddr,
    is_tcp: bool,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Port {
    /// Opens a UDP or TCP port.
    ///
    /// # Panics
    /// If it cannot be opened: tests call this.
    pub fn open(at: SocketAddr, is_tcp: bool, replies: Arc<ReplyFn>) -> Port {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = match is_tcp {
            false => {
                let socket = UdpSocket::bind(at).unwrap_or_else(|error| panic!("{at}: {error}"));
                std::thread::spawn(move || datagrams(&Arc::new(socket), &replies, &stopped))
            }
            true => {
                let listener = TcpListener::bind(at).unwrap_or_else(|error| panic!("{at}: {error}"));
                std::thread::spawn(move || connections(&listener, &replies, &stopped))
            }
        };
        Port { at, is_tcp, stop, thread: Some(thread) }
    }
}

impl Drop for Port {
    /// Stops the thread and waits for it.
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        // Wakes the thread.
        match self.is_tcp {
            false => {
                let any = if self.at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let _ = UdpSocket::bind(any).and_then(|socket| socket.send_to(b"stop", self.at));
            }
            true => drop(TcpStream::connect(self.at)),
        }
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn datagrams(socket: &Arc<UdpSocket>, replies: &Arc<ReplyFn>, stop: &AtomicBool) {
    let mut query = [0; 4096];
    while let Ok((len, from)) = socket.recv_from(&mut query) {
        if stop.load(Relaxed) {
            return;
        }
        let Some((reply, after)) = replies(&query[..len]) else { continue };
        let socket = Arc::clone(socket);
        let send = move || {
            std::thread::sleep(after);
            let _ = socket.send_to(&reply, from);
        };
        if after.is_zero() { send() } else { drop(std::thread::spawn(send)) }
    }
}

fn connections(listener: &TcpListener, replies: &Arc<ReplyFn>, stop: &AtomicBool) {
    while let Ok((stream, _)) = listener.accept() {
        if stop.load(Relaxed) {
            return;
        }
        let replies = Arc::clone(replies);
        std::thread::spawn(move || connection(stream, &replies));
    }
}

fn connection(mut stream: TcpStream, replies: &Arc<ReplyFn>) {
    let mut len = [0; 2];
    while stream.read_exact(&mut len).is_ok() {
        let mut query = vec![0; u16::from_be_bytes(len).into()];
        if stream.read_exact(&mut query).is_err() {
            return;
        }
        let Some((reply, after)) = replies(&query) else { continue };
        std::thread::sleep(after);
        let framed = [&(reply.len() as u16).to_be_bytes()[..], &reply].concat();
        if stream.write_all(&framed).is_err() {
            return;
        }
    }
}
