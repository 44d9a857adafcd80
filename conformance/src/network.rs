//! Two network namespaces joined by veth pairs, for transports that loopback does not support. They have no
//! names: the kernel removes them with the last process that uses them, so nothing remains however a run
//! ends.

use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::process::Command;

/// Number of interface pairs between the namespaces.
pub(crate) const PAIRS: u8 = 2;
/// Number of queues of each interface, in each direction.
const QUEUES: u32 = 2;

/// A network namespace.
#[derive(Debug)]
pub(crate) struct Namespace(File);

impl Namespace {
    /// Creates a namespace; no interface in it is up.
    pub(crate) fn new() -> Result<Self, String> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET)
                    .map_err(|e| format!("cannot make a network namespace: {e}"))?;
                let path = "/proc/thread-self/ns/net";
                File::open(path).map(Self).map_err(|e| format!("{path}: {e}"))
            });
            thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))
        })
    }

    /// Runs `f` on a thread inside. Its sockets, and processes that it starts, stay inside.
    pub(crate) fn enter<T: Send>(&self, f: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                setns(&self.0, CloneFlags::CLONE_NEWNET).map_err(|e| format!("setns: {e}"))?;
                f()
            });
            thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))
        })
    }

    /// Returns a path to it for other programs, valid while this process runs.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Runs `ip` inside, with these arguments.
    pub(crate) fn ip(&self, command: &str) -> Result<(), String> {
        self.enter(|| {
            let output = Command::new("ip").args(command.split(' ')).output();
            let output = output.map_err(|e| format!("ip: {e}"))?;
            let error = String::from_utf8_lossy(&output.stderr);
            if output.status.success() { Ok(()) } else { Err(format!("ip {command}: {}", error.trim())) }
        })
    }
}

/// The namespaces of the server and of its clients.
#[derive(Debug)]
pub(crate) struct Network {
    /// The server's namespace.
    pub server: Namespace,
    /// The clients' namespace.
    pub client: Namespace,
}

impl Network {
    /// Creates both, with their interface pairs and addresses of both families.
    ///
    /// # Errors
    /// If rights or kernel features are missing.
    pub(crate) fn new() -> Result<Self, String> {
        let network = Self { server: Namespace::new()?, client: Namespace::new()? };
        // An absolute path, not a name: `ip` knows other namespaces by name.
        let there = network.server.path();
        network.server.ip("link set lo up")?;
        for pair in 0..PAIRS {
            let queues = format!("numrxqueues {QUEUES} numtxqueues {QUEUES}");
            network.client.ip(&format!(
                "link add client{pair} {queues} type veth peer name {} netns {there} {queues}",
                interface(pair)
            ))?;
            for (namespace, name, end) in
                [(&network.client, format!("client{pair}"), 1), (&network.server, interface(pair), 2)]
            {
                let [v4, v6] = addresses(pair, end);
                namespace.ip(&format!("addr add {v4}/24 dev {name}"))?;
                namespace.ip(&format!("addr add {v6}/64 dev {name} nodad"))?;
                namespace.ip(&format!("link set {name} up"))?;
            }
        }
        Ok(network)
    }
}

/// Returns the name of the server's interface of a pair.
pub(crate) fn interface(pair: u8) -> String {
    format!("server{pair}")
}

/// Returns the addresses of one end of a pair.
fn addresses(pair: u8, end: u8) -> [IpAddr; 2] {
    let v6 = Ipv6Addr::new(0xfd00, 0x18, pair.into(), 0, 0, 0, 0, end.into());
    [Ipv4Addr::new(198, 18, pair, end).into(), v6.into()]
}

/// Returns the server's sockets on a pair, IPv4 and IPv6.
pub(crate) fn sockets(pair: u8, port: u16) -> [SocketAddr; 2] {
    addresses(pair, 2).map(|ip| SocketAddr::new(ip, port))
}
