//! Opens datagram sockets: options, binding, the reuseport program.
//!
//! Path MTU: like BIND, NSD and Knot we want neither the DF bit nor the kernel's path MTU cache, which an
//! off-path attacker can lower with forged ICMP messages. `IP_PMTUDISC_OMIT` does that: no DF, learned MTUs
//! ignored, and a message longer than the interface MTU is still sent, in fragments. On IPv6 routers cannot
//! fragment, so, as NSD and Knot do, we also fragment at the 1280 bytes that every IPv6 link must carry (RFC
//! 8200 §5).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use libc::c_int;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::config::{ListenerConfig, Spread};
use crate::refusal::BindRefusal;
use crate::sys;

/// Smallest MTU of an IPv6 link (RFC 8200 §5).
const IPV6_MIN_MTU: c_int = 1280;

/// The port of the discard service (RFC 863), from which no client sends queries.
const DISCARD: u16 = 9;

/// Sets the options of a datagram socket that do not require it to be unbound.
pub(crate) type Prepare = fn(&Socket, SocketAddr, &ListenerConfig) -> Result<(), BindRefusal>;

/// Opens, configures and binds one datagram socket. Several `shared` sockets can be bound to one address.
pub(crate) fn open(
    addr: SocketAddr,
    config: &ListenerConfig,
    shared: bool,
) -> Result<UdpSocket, BindRefusal> {
    open_by(addr, config, shared, prepare)
}

/// [`open`] with other options.
pub(crate) fn open_by(
    addr: SocketAddr,
    config: &ListenerConfig,
    shared: bool,
    prepare: Prepare,
) -> Result<UdpSocket, BindRefusal> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))
        .map_err(BindRefusal::from_io)?;
    if addr.is_ipv6() {
        socket.set_only_v6(true).map_err(BindRefusal::option("IPV6_V6ONLY"))?;
    }
    if shared {
        socket.set_reuse_port(true).map_err(BindRefusal::option("SO_REUSEPORT"))?;
    }
    if config.freebind {
        sys::set_freebind(&socket, addr).map_err(BindRefusal::option("IP_FREEBIND"))?;
    }
    prepare(&socket, addr, config)?;
    socket.bind(&addr.into()).map_err(BindRefusal::from_io)?;
    Ok(socket.into())
}

/// Takes over a socket bound by another process, such as systemd, and sets its options.
pub(crate) fn take_over(socket: &UdpSocket, config: &ListenerConfig) -> Result<(), BindRefusal> {
    take_over_by(socket, config, prepare)
}

/// [`take_over`] with other options.
pub(crate) fn take_over_by(
    socket: &UdpSocket,
    config: &ListenerConfig,
    prepare: Prepare,
) -> Result<(), BindRefusal> {
    let addr = socket.local_addr().map_err(BindRefusal::from_io)?;
    socket.set_nonblocking(false).map_err(BindRefusal::from_io)?;
    let socket = SockRef::from(socket);
    // The process that opened it may have been allowed larger buffers than this one: setting ours would
    // shrink them.
    let ours = Socket::new(Domain::for_address(addr), Type::DGRAM, None).map_err(BindRefusal::from_io)?;
    set_buffers(&ours, config);
    let granted = |size: fn(&Socket) -> io::Result<usize>| {
        size(&ours).is_ok_and(|granted| size(&socket).is_ok_and(|has| has < granted))
    };
    let mut config = config.clone();
    config.udp.receive_buffer.take_if(|_| !granted(Socket::recv_buffer_size));
    config.udp.send_buffer.take_if(|_| !granted(Socket::send_buffer_size));
    prepare(&socket, addr, &config)
}

/// Buffers smaller than requested still serve; the kernel caps them without an error anyway.
pub(crate) fn set_buffers(socket: &Socket, config: &ListenerConfig) {
    if let Some(bytes) = config.udp.receive_buffer {
        let _ = socket.set_recv_buffer_size(bytes);
    }
    if let Some(bytes) = config.udp.send_buffer {
        let _ = socket.set_send_buffer_size(bytes);
    }
}

/// The options of sockets for messages in datagrams.
fn prepare(socket: &Socket, addr: SocketAddr, config: &ListenerConfig) -> Result<(), BindRefusal> {
    set_buffers(socket, config);
    let wildcard = addr.ip().is_unspecified();
    match addr.ip() {
        IpAddr::V4(_) => {
            sys::set_number(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_OMIT)
                .map_err(BindRefusal::option("IP_MTU_DISCOVER"))?;
            if wildcard {
                sys::set_number(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)
                    .map_err(BindRefusal::option("IP_PKTINFO"))?;
            }
        }
        IpAddr::V6(_) => {
            sys::set_number(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_OMIT)
                .map_err(BindRefusal::option("IPV6_MTU_DISCOVER"))?;
            // Fails if the interface's own MTU is smaller, which IPv6 forbids anyway.
            let _ = sys::set_number(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU, IPV6_MIN_MTU);
            if wildcard {
                sys::set_number(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)
                    .map_err(BindRefusal::option("IPV6_RECVPKTINFO"))?;
            }
        }
    }
    Ok(())
}

/// Lets the kernel spread datagrams over the group of `sockets` sockets that this one belongs to.
pub(crate) fn spread(socket: &UdpSocket, spread: Spread, sockets: usize) -> io::Result<()> {
    let by = match spread {
        Spread::Cpu if sockets > 1 => sys::PickBy::Cpu,
        Spread::Random if sockets > 1 => sys::PickBy::Random,
        _ => return Ok(()),
    };
    sys::attach_reuseport(socket, by, u32::try_from(sockets).unwrap_or(u32::MAX))
}

/// Makes sure that no further datagram reaches this socket, while those it holds can still be read and
/// answered. Closing it instead would lose datagrams that arrive between the last read and the close.
///
/// A connected socket receives from its peer only, and the kernel's hash skips it when it selects among those
/// that share an address; a program would not, so it is removed first. The peer is the discard port of this
/// host.
pub(crate) fn leave(socket: &UdpSocket) -> io::Result<()> {
    // Fails if there is no program.
    let _ = sys::detach_reuseport(socket);
    let mut own = socket.local_addr()?;
    if own.ip().is_unspecified() {
        own.set_ip(match own.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    own.set_port(DISCARD);
    socket.connect(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_a_passed_socket_only_grow() -> io::Result<()> {
        let sizes = |socket: &UdpSocket| -> io::Result<(usize, usize)> {
            let socket = SockRef::from(socket);
            Ok((socket.recv_buffer_size()?, socket.send_buffer_size()?))
        };
        let mut config = ListenerConfig::default();
        for (has, wanted, grows) in [(32 << 10, 64 << 10, true), (64 << 10, 32 << 10, false)] {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            SockRef::from(&socket).set_recv_buffer_size(has)?;
            SockRef::from(&socket).set_send_buffer_size(has)?;
            let before = sizes(&socket)?;
            config.udp.receive_buffer = Some(wanted);
            config.udp.send_buffer = Some(wanted);
            take_over(&socket, &config).map_err(|refusal| refusal.cause)?;
            let after = sizes(&socket)?;
            assert_eq!((after.0 > before.0, after.1 > before.1), (grows, grows), "{before:?} {after:?}");
            assert!(after.0 >= before.0 && after.1 >= before.1, "{before:?} {after:?}");
        }
        Ok(())
    }
}
