//! Datagram sockets of QUIC. Unlike those of plain DNS they send no fragments: QUIC finds the MTU of a path
//! itself, and sets the options for that where the socket is first used.

use std::net::{SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::config::ListenerConfig;
use crate::refusal::BindRefusal;
use crate::{sys, udp};

/// Opens and binds one socket. Several `shared` sockets can be bound to one address; the kernel then selects
/// by a hash of both addresses and ports, so that the datagrams of a connection reach the same one.
pub(crate) fn open(
    addr: SocketAddr,
    config: &ListenerConfig,
    shared: bool,
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
    udp::set_buffers(&socket, config);
    socket.bind(&addr.into()).map_err(BindRefusal::from_io)?;
    Ok(socket.into())
}

/// Takes over a socket bound by another process, such as systemd. Its buffers are only made larger.
pub(crate) fn take_over(socket: &UdpSocket, config: &ListenerConfig) {
    let socket = SockRef::from(socket);
    let is_larger = |wanted: usize, has: std::io::Result<usize>| has.is_ok_and(|has| has < wanted);
    // Smaller buffers than requested still serve.
    if let Some(wanted) = config.udp.receive_buffer.filter(|&n| is_larger(n, socket.recv_buffer_size())) {
        let _ = socket.set_recv_buffer_size(wanted);
    }
    if let Some(wanted) = config.udp.send_buffer.filter(|&n| is_larger(n, socket.send_buffer_size())) {
        let _ = socket.set_send_buffer_size(wanted);
    }
}
