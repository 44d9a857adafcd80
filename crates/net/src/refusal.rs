//! Errors of binding a listener.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;

use transport::Transport;

/// Kinds of errors when binding a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BindFault {
    /// The process lacks the permission for this port.
    PermissionDenied,
    /// Another socket is bound to this address and port.
    AddressInUse,
    /// No interface has this address.
    NoSuchAddress,
    /// The system does not support this address family.
    NoSuchFamily,
    /// The process or the system has no file descriptor left.
    OutOfDescriptors,
    /// The system refused this socket option.
    Option(&'static str),
    /// The caller passed no socket, or sockets bound to different addresses.
    Sockets,
    /// There is no network interface of this name, or it carries no Ethernet frames.
    NoSuchInterface,
    /// The process lacks the permissions that AF_XDP needs.
    XdpDenied,
    /// Another program is attached to the interface, or another socket to its queue.
    XdpBusy,
    /// The kernel may not pin as much memory as AF_XDP needs.
    XdpMemory,
    /// AF_XDP would not see the tags of the VLANs on top of the interface.
    XdpTags,
    /// The kernel or the driver lacks a feature that AF_XDP needs; see the cause.
    XdpUnsupported,
    /// Something else; see the cause.
    Other,
}

/// Binding a listener failed: its address, transport, and the reason.
#[derive(Debug)]
pub struct BindError {
    /// The requested address.
    pub addr: SocketAddr,
    /// The requested transport.
    pub transport: Transport,
    /// The kind of fault.
    pub fault: BindFault,
    /// The system's error.
    pub cause: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BindError { addr, transport, fault, cause } = self;
        write!(f, "cannot listen on {transport} {addr}: ")?;
        match fault {
            BindFault::PermissionDenied if addr.port() < 1024 => {
                f.write_str("permission denied: ports below 1024 need root or CAP_NET_BIND_SERVICE")
            }
            BindFault::PermissionDenied => f.write_str("permission denied"),
            BindFault::AddressInUse => f.write_str("another socket already listens on this address and port"),
            BindFault::NoSuchAddress => f.write_str("no interface has this address"),
            BindFault::NoSuchFamily => {
                write!(f, "this system has no {}", if addr.is_ipv6() { "IPv6" } else { "IPv4" })
            }
            BindFault::OutOfDescriptors => f.write_str("too many open files; raise the limit (ulimit -n)"),
            BindFault::Option(name) => write!(f, "the system refused the socket option {name}: {cause}"),
            BindFault::NoSuchInterface => write!(f, "AF_XDP needs an Ethernet interface: {cause}"),
            BindFault::XdpDenied => {
                write!(f, "AF_XDP needs root, or CAP_NET_ADMIN, CAP_BPF and CAP_NET_RAW: {cause}")
            }
            BindFault::XdpBusy => {
                write!(f, "another XDP program or AF_XDP socket uses the interface: {cause}")
            }
            BindFault::XdpMemory => {
                write!(f, "AF_XDP needs more locked memory; raise the limit (ulimit -l): {cause}")
            }
            BindFault::XdpTags => write!(f, "AF_XDP needs VLAN tags left in frames: {cause}"),
            BindFault::XdpUnsupported => {
                write!(f, "the kernel or the driver does not support AF_XDP: {cause}")
            }
            BindFault::Sockets | BindFault::Other => write!(f, "{cause}"),
        }
    }
}

impl Error for BindError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

/// A [`BindError`] without its address.
#[derive(Debug)]
pub(crate) struct BindRefusal {
    pub(crate) fault: BindFault,
    pub(crate) cause: io::Error,
}

impl BindRefusal {
    pub(crate) fn from_io(cause: io::Error) -> Self {
        let fault = match cause.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => BindFault::PermissionDenied,
            Some(libc::EADDRINUSE) => BindFault::AddressInUse,
            Some(libc::EADDRNOTAVAIL) => BindFault::NoSuchAddress,
            Some(libc::EAFNOSUPPORT) => BindFault::NoSuchFamily,
            Some(libc::EMFILE | libc::ENFILE) => BindFault::OutOfDescriptors,
            _ => BindFault::Other,
        };
        BindRefusal { fault, cause }
    }

    pub(crate) fn option(name: &'static str) -> impl Fn(io::Error) -> BindRefusal {
        move |cause| BindRefusal { fault: BindFault::Option(name), cause }
    }

    pub(crate) fn at(self, addr: SocketAddr, transport: Transport) -> BindError {
        BindError { addr, transport, fault: self.fault, cause: self.cause }
    }
}
