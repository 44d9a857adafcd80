//! Two network namespaces with a veth pair between them: the generator's and the server's, created for one
//! round. They only use addresses of 198.18.0.0/30 (RFC 2544, benchmarking). Another pair links resolvers to
//! the small Internet.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::{Context, Failure, Result};
use crate::sys;

/// Namespace of the load generator.
pub(crate) const CLIENT: &str = "nomen-compare-c";
/// Namespace of the server.
pub(crate) const SERVER: &str = "nomen-compare-s";
/// The generator's end of the pair.
pub(crate) const CLIENT_INTERFACE: &str = "compare-c";
/// The server's end of the pair.
pub(crate) const SERVER_INTERFACE: &str = "compare-s";
/// Address of the server.
pub(crate) const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// The pair of namespaces. The calling thread is in the server's, and so is what it starts: loopback traffic
/// then passes no firewall rule of the host. Dropping it deletes both and returns the thread to its
/// namespace.
pub(crate) struct Pair {
    home: File,
}

impl Pair {
    /// Creates both, with one queue each, so that one CPU serves each end. Fails without root or `ip`.
    pub(crate) fn create() -> Result<Pair> {
        let home = File::open("/proc/thread-self/ns/net").context(|| "network namespace".to_string())?;
        remove();
        // From here on everything is removed again if a later step fails.
        let pair = Pair { home };
        ip(&["netns", "add", CLIENT])?;
        ip(&["netns", "add", SERVER])?;
        let queues = ["numrxqueues", "1", "numtxqueues", "1"];
        let mut add = vec!["link", "add", CLIENT_INTERFACE, "netns", CLIENT];
        add.extend(queues);
        add.extend(["type", "veth", "peer", "name", SERVER_INTERFACE, "netns", SERVER]);
        add.extend(queues);
        ip(&add)?;
        ip(&["-n", CLIENT, "addr", "add", "198.18.0.1/30", "dev", CLIENT_INTERFACE])?;
        ip(&["-n", SERVER, "addr", "add", "198.18.0.2/30", "dev", SERVER_INTERFACE])?;
        for (namespace, interface) in [(CLIENT, CLIENT_INTERFACE), (SERVER, SERVER_INTERFACE)] {
            ip(&["-n", namespace, "link", "set", interface, "up"])?;
            ip(&["-n", namespace, "link", "set", "lo", "up"])?;
        }
        sys::enter_network(&open(SERVER)?).context(|| SERVER.to_string())?;
        Ok(pair)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // Cannot fail for the original namespace; if it did, the next pair would be created inside this one.
        let _ = sys::enter_network(&self.home);
        remove();
    }
}

/// A pair of interfaces between the calling thread's namespace and the small Internet's; removed on drop.
pub(crate) struct Link(());

/// The near end of a [`Link`].
const NEAR: &str = "abroad";
/// The far end.
const FAR: &str = "resolver";
/// Addresses of both ends (RFC 5737, documentation).
const ENDS: [&str; 2] = ["203.0.113.1", "203.0.113.2"];
/// Network at the far end.
const ABROAD: &str = "198.18.0.0/15";

impl Link {
    /// Creates it; `path` is the path of `namespace` for other programs.
    pub(crate) fn create(namespace: &File, path: &str) -> Result<Link> {
        ip(&["link", "add", NEAR, "type", "veth", "peer", "name", FAR, "netns", path])?;
        let link = Link(());
        let [near, far] = ENDS.map(|end| format!("{end}/30"));
        ip(&["addr", "add", &near, "dev", NEAR])?;
        ip(&["link", "set", NEAR, "up"])?;
        inside(namespace, || {
            ip(&["addr", "add", &far, "dev", FAR])?;
            ip(&["link", "set", FAR, "up"])
        })?;
        ip(&["route", "add", ABROAD, "via", ENDS[1], "dev", NEAR])?;
        Ok(link)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = ip(&["link", "del", NEAR]);
    }
}

/// Runs `work` on a thread in a namespace: sockets that it opens and processes that it starts stay there.
pub(crate) fn inside<T: Send>(namespace: &File, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let done = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            sys::enter_network(namespace)?;
            work()
        });
        thread.join()
    });
    done.unwrap_or_else(|_| Err(Failure::new("a thread in a namespace failed")))
}

/// Fails unless an XDP program is attached to the server's interface: a server that could not attach one may
/// use sockets instead.
pub(crate) fn check_xdp() -> Result<()> {
    let mut command = Command::new("ip");
    command.args(["-n", SERVER, "-details", "link", "show", "dev", SERVER_INTERFACE]).stdin(Stdio::null());
    let output = command.output().context(|| "ip".to_string())?;
    if String::from_utf8_lossy(&output.stdout).contains("prog/xdp") {
        return Ok(());
    }
    Err(Failure::new(format!("no program takes packets at {SERVER_INTERFACE}")))
}

fn open(namespace: &str) -> Result<File> {
    File::open(Path::new("/run/netns").join(namespace)).context(|| namespace.to_string())
}

fn remove() {
    for namespace in [CLIENT, SERVER] {
        if Path::new("/run/netns").join(namespace).exists() {
            let _ = ip(&["netns", "del", namespace]);
        }
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output =
        Command::new("ip").args(arguments).stdin(Stdio::null()).output().context(|| "ip".to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(format!(
        "network namespaces cannot be had here (ip {}: {})",
        arguments.join(" "),
        reason.trim()
    )))
}

/// Returns a UDP socket connected to `server`, opened in this namespace, or in the thread's own.
pub(crate) fn socket(namespace: Option<&str>, server: SocketAddr) -> Result<UdpSocket> {
    let connect = || -> Result<UdpSocket> {
        let socket = UdpSocket::bind(if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
        socket.connect(server).context(|| format!("cannot reach {server}"))?;
        Ok(socket)
    };
    let Some(namespace) = namespace else { return connect() };
    // A socket stays in the namespace in which it was opened.
    inside(&open(namespace)?, connect)
}
