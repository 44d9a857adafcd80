//! Sockets opened by the process that started this program, such as systemd: taking them over and checking
//! their kind.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use transport::Transport;

/// A passed socket that a listener can be built from.
#[derive(Debug)]
pub enum PassedSocket {
    /// A datagram socket.
    Udp(UdpSocket),
    /// A listening socket.
    Tcp(TcpListener),
}

/// The reason why a passed descriptor is no socket for a listener.
#[derive(Debug)]
#[non_exhaustive]
pub enum PassedFault {
    /// This program inherited no descriptor of this number.
    NotThere,
    /// It is something else, in words that follow "it is".
    Kind(&'static str),
    /// It receives IPv4 as well as IPv6, so clients with IPv4 addresses would appear with IPv4-mapped ones.
    BothFamilies,
    /// The system returned an error when asked for its kind.
    Io(io::Error),
}

impl fmt::Display for PassedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere => f.write_str("there is no such descriptor"),
            Self::Kind(kind) => write!(f, "it is {kind}"),
            Self::BothFamilies => f.write_str("it takes IPv4 on an IPv6 socket"),
            Self::Io(error) => write!(f, "the system does not say what it is: {error}"),
        }
    }
}

impl Error for PassedFault {}

impl PassedSocket {
    /// Takes over the descriptor of this number, which this program must have inherited when it was started.
    /// Child processes do not inherit it.
    ///
    /// # Errors
    /// [`PassedFault`]; an inherited descriptor is closed.
    pub fn take(descriptor: RawFd) -> Result<Self, PassedFault> {
        Self::of(own(descriptor)?)
    }

    /// Checks the kind of this descriptor.
    ///
    /// # Errors
    /// [`PassedFault`] if a listener cannot use it.
    pub fn of(descriptor: OwnedFd) -> Result<Self, PassedFault> {
        let socket = Socket::from(descriptor);
        let kind = socket.r#type().map_err(|e| match e.raw_os_error() {
            Some(libc::ENOTSOCK) => PassedFault::Kind("no socket"),
            _ => PassedFault::Io(e),
        })?;
        let domain = socket.domain().map_err(PassedFault::Io)?;
        match domain {
            Domain::IPV4 | Domain::IPV6 => {}
            Domain::UNIX => return Err(PassedFault::Kind("a Unix socket")),
            _ => return Err(PassedFault::Kind("a socket of no Internet protocol")),
        }
        let protocol = socket.protocol().map_err(PassedFault::Io)?;
        let passed = match (kind, protocol) {
            (Type::DGRAM, Some(Protocol::UDP)) => {
                if socket.peer_addr().is_ok() {
                    return Err(PassedFault::Kind("a UDP socket that is connected to one client"));
                }
                Self::Udp(socket.into())
            }
            (Type::STREAM, Some(Protocol::TCP | Protocol::MPTCP)) => {
                if !socket.is_listener().map_err(PassedFault::Io)? {
                    return Err(PassedFault::Kind(
                        "a TCP socket that does not listen (systemd passes connections with `Accept=yes`)",
                    ));
                }
                Self::Tcp(socket.into())
            }
            _ => return Err(PassedFault::Kind("a socket of neither UDP nor TCP")),
        };
        passed.check_address()?;
        Ok(passed)
    }

    /// Checks that it is bound to a port, and receives one address family only.
    fn check_address(&self) -> Result<(), PassedFault> {
        let addr = self.local_addr().map_err(PassedFault::Io)?;
        if addr.port() == 0 {
            return Err(PassedFault::Kind("a socket that is bound to no port"));
        }
        let socket = match self {
            Self::Udp(socket) => SockRef::from(socket),
            Self::Tcp(socket) => SockRef::from(socket),
        };
        // IPV6_V6ONLY cannot be set after binding.
        if addr.is_ipv6() && addr.ip().is_unspecified() && !socket.only_v6().map_err(PassedFault::Io)? {
            return Err(PassedFault::BothFamilies);
        }
        Ok(())
    }

    /// Returns the address that it is bound to.
    ///
    /// # Errors
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Udp(socket) => socket.local_addr(),
            Self::Tcp(socket) => socket.local_addr(),
        }
    }

    /// Returns its transport.
    pub fn transport(&self) -> Transport {
        match self {
            Self::Udp(_) => Transport::Udp,
            Self::Tcp(_) => Transport::Tcp,
        }
    }
}

/// Takes ownership of an inherited descriptor.
fn own(descriptor: RawFd) -> Result<OwnedFd, PassedFault> {
    // Standard input, output and error belong to the standard library.
    if descriptor <= libc::STDERR_FILENO {
        return Err(PassedFault::NotThere);
    }
    // SAFETY: no pointers are passed; a number that is no descriptor is answered with an error.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
    if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
        return Err(PassedFault::NotThere);
    }
    // SAFETY: the descriptor is open. Nothing in this process owns it: what the program opens is closed at
    // the start of another program (FD_CLOEXEC), here as in the libraries, and what came from outside is not,
    // or it would not have come. The next call finds the mark that is set below and does not take it again.
    let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // SAFETY: no pointers are passed, and the descriptor is ours.
    let marked = unsafe { libc::fcntl(descriptor, libc::F_SETFD, flags | libc::FD_CLOEXEC) };
    if marked < 0 { Err(PassedFault::Io(io::Error::last_os_error())) } else { Ok(owned) }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::TcpStream;
    use std::os::fd::{AsRawFd, IntoRawFd};
    use std::os::unix::net::UnixDatagram;

    use super::*;

    /// Returns a descriptor in the state of one that a program inherits when it starts.
    fn pass(socket: impl Into<OwnedFd>) -> RawFd {
        let number = socket.into().into_raw_fd();
        // SAFETY: no pointers are passed.
        assert_eq!(unsafe { libc::fcntl(number, libc::F_SETFD, 0) }, 0);
        number
    }

    #[test]
    fn what_was_passed_is_taken_once() {
        let number = pass(UdpSocket::bind("127.0.0.1:0").unwrap());
        let taken = PassedSocket::take(number).unwrap();
        assert!(matches!(taken, PassedSocket::Udp(_)));
        assert_eq!(taken.transport(), Transport::Udp);
        assert!(matches!(PassedSocket::take(number), Err(PassedFault::NotThere)));
        let number = pass(TcpListener::bind("127.0.0.1:0").unwrap());
        assert!(matches!(PassedSocket::take(number), Ok(PassedSocket::Tcp(_))));
    }

    #[test]
    fn what_the_program_opened_itself_is_not_taken() {
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        let number = own.as_raw_fd();
        assert!(matches!(PassedSocket::take(number), Err(PassedFault::NotThere)));
        for number in [-1, 0, 2, RawFd::MAX] {
            assert!(matches!(PassedSocket::take(number), Err(PassedFault::NotThere)), "{number}");
        }
        assert!(own.local_addr().is_ok());
    }

    #[test]
    fn wrong_kinds_are_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connected = UdpSocket::bind("127.0.0.1:0").unwrap();
        connected.connect(listener.local_addr().unwrap()).unwrap();
        let unbound = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        let idle = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let wrong: [(OwnedFd, &str); 6] = [
            (File::open("/dev/null").unwrap().into(), "no socket"),
            (UnixDatagram::unbound().unwrap().into(), "Unix"),
            (TcpStream::connect(listener.local_addr().unwrap()).unwrap().into(), "does not listen"),
            (connected.into(), "connected to one client"),
            (unbound.into(), "no port"),
            (idle.into(), "does not listen"),
        ];
        for (descriptor, word) in wrong {
            match PassedSocket::of(descriptor) {
                Err(PassedFault::Kind(kind)) => assert!(kind.contains(word), "{kind} {word}"),
                other => panic!("{word}: {other:?}"),
            }
        }
    }

    #[test]
    fn sockets_of_both_families_are_refused() {
        for kind in [Type::DGRAM, Type::STREAM] {
            let Ok(socket) = Socket::new(Domain::IPV6, kind, None) else { return };
            socket.set_only_v6(false).unwrap();
            let any: SocketAddr = "[::]:0".parse().unwrap();
            socket.bind(&any.into()).unwrap();
            if kind == Type::STREAM {
                socket.listen(1).unwrap();
            }
            assert!(matches!(PassedSocket::of(socket.into()), Err(PassedFault::BothFamilies)));
        }
        // A socket bound to a single IPv6 address receives no IPv4.
        let one = UdpSocket::bind("[::1]:0").unwrap();
        assert!(PassedSocket::of(one.into()).is_ok());
    }
}
